//! Jobs of the month: what they took, what they did twice, and what Spot saved.

use std::collections::BTreeMap;

use billing::energy::{AcceleratorLoad, Footprint};
use jobs::{GpuWork, Heartbeat, JobOverview};
use model::id::{ResourceId, TeamName};
use model::known_sum::{self, KnownSum};
use model::money::Amount;
use serde::Serialize;

use crate::spend::JobSpend;
use crate::sums::{in_parentheses, omissions};

/// Last report of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    /// `true` if no later attempt followed: then none of its work was repeated yet.
    pub is_latest: bool,
    /// Number of its machines.
    pub nodes: u8,
    /// Running time of its command since its newest checkpoint.
    pub unsaved_seconds: u64,
    pub steps_per_hour: Option<f64>,
    pub gpus: Option<GpuWork>,
}

impl AttemptRecord {
    /// Reads the attempt's last heartbeat; of several machines that of all together. An agent of an earlier version does not report its unsaved time.
    #[must_use]
    pub fn new(heartbeat: Heartbeat, is_latest: bool, nodes: u8) -> Self {
        let Heartbeat { unsaved_seconds, steps_per_hour, gpus, .. } = heartbeat;
        Self { is_latest, nodes, unsaved_seconds: unsaved_seconds.unwrap_or_default(), steps_per_hour, gpus }
    }
}

/// Returns the load of a machine in the job. A machine reports only about itself, and its report counts only for its own job.
pub(crate) fn load_of(
    attempts: &BTreeMap<String, Vec<AttemptRecord>>,
    job: &str,
    machine: &ResourceId,
) -> AcceleratorLoad {
    let work = attempts.get(job).into_iter().flatten().filter_map(|attempt| attempt.gpus.as_ref());
    work.filter(|work| work.instance == *machine).map(GpuWork::load).next_back().unwrap_or_default()
}

/// Work that was done twice because a machine was lost after its newest checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RepeatedWork {
    /// Time of all machines together.
    pub seconds: u64,
    /// Repeated steps by the pace of each attempt; too few if an attempt never reported its pace.
    pub steps: u64,
}

impl RepeatedWork {
    /// `ran_seconds`: no machine has lost more than all of them ran, whatever one of them wrote.
    fn from_attempts(attempts: &[AttemptRecord], ran_seconds: u64) -> Self {
        let (mut repeated, mut left) = (Self::default(), ran_seconds);
        for attempt in attempts.iter().filter(|attempt| !attempt.is_latest) {
            let seconds = attempt.unsaved_seconds.min(left);
            left = left.saturating_sub(seconds);
            repeated.seconds = repeated.seconds.saturating_add(seconds.saturating_mul(u64::from(attempt.nodes)));
            repeated.steps = repeated.steps.saturating_add(steps(seconds, attempt.steps_per_hour.unwrap_or_default()));
        }
        repeated
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown, never computed with; a cast of floats saturates"
)]
fn steps(seconds: u64, per_hour: f64) -> u64 {
    (seconds as f64 * per_hour / 3_600.0).round() as u64
}

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobRow {
    /// `<team>/<job>`.
    pub job: String,
    pub team: Option<TeamName>,
    /// `None` if its state is gone: only the ledger knows it.
    pub overview: Option<JobOverview>,
    /// Cost of the job's instances in the month.
    #[serde(rename = "spent_usd", serialize_with = "known_sum::serialize_known")]
    pub spent: KnownSum<Amount>,
    #[serde(rename = "uncertain_usd")]
    pub uncertain: Amount,
    /// Seconds that its resources ran at an unknown price.
    pub unpriced_seconds: u64,
    /// Additional cost that the job would have had on demand.
    #[serde(rename = "spot_saved_usd")]
    pub spot_saved: Amount,
    /// `true` if the on-demand price of one of its types is unknown: then Spot saved more.
    pub spot_saved_at_least: bool,
    /// Work that its attempts of the month repeated.
    pub repeated: RepeatedWork,
    pub footprint: Footprint,
}

impl JobRow {
    pub(crate) fn describe_spent(&self) -> String {
        format!("{}{}", self.spent, in_parentheses(&omissions(self.uncertain, self.unpriced_seconds)))
    }
}

/// The dearest first. Jobs that are unfinished, or that the ledger saw in the month.
pub(crate) fn job_rows(
    overviews: &[JobOverview],
    spends: &BTreeMap<String, JobSpend>,
    attempts: &BTreeMap<String, Vec<AttemptRecord>>,
    mut footprints: BTreeMap<String, Footprint>,
) -> Vec<JobRow> {
    let by_name: BTreeMap<String, &JobOverview> = overviews.iter().map(|one| (one.job.to_string(), one)).collect();
    let unfinished = by_name.iter().filter(|(_, one)| !one.over).map(|(name, _)| name);
    let mut names: Vec<&String> = spends.keys().chain(unfinished).collect();
    names.sort_unstable();
    names.dedup();
    let mut rows: Vec<JobRow> = names
        .into_iter()
        .map(|name| {
            let spend = spends.get(name).copied().unwrap_or_default();
            let ran_seconds = by_name.get(name).and_then(|one| u64::try_from(one.seconds).ok()).unwrap_or_default();
            let attempts = attempts.get(name).map(Vec::as_slice).unwrap_or_default();
            JobRow {
                job: name.clone(),
                team: name.split_once('/').map(|(team, _)| TeamName::from(team)),
                overview: by_name.get(name).map(|one| (*one).clone()),
                spent: KnownSum::new(spend.spent, spend.unpriced_seconds),
                uncertain: spend.uncertain,
                unpriced_seconds: spend.unpriced_seconds,
                spot_saved: spend.spot_saved,
                spot_saved_at_least: spend.has_unpriced,
                repeated: RepeatedWork::from_attempts(attempts, ran_seconds),
                footprint: footprints.remove(name).unwrap_or_default(),
            }
        })
        .collect();
    rows.sort_by(|one, other| other.spent.cmp(&one.spent).then_with(|| one.job.cmp(&other.job)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(unsaved_seconds: u64, steps_per_hour: Option<f64>) -> AttemptRecord {
        AttemptRecord { is_latest: false, nodes: 1, unsaved_seconds, steps_per_hour, gpus: None }
    }

    fn check(attempts: &[AttemptRecord], ran_seconds: u64, seconds: u64, steps: u64) {
        assert_eq!(RepeatedWork::from_attempts(attempts, ran_seconds), RepeatedWork { seconds, steps });
    }

    #[test]
    fn what_an_attempt_had_not_saved_was_done_twice_by_the_next() {
        check(&[], 100, 0, 0);
        check(&[attempt(600, Some(300.0)), attempt(300, None)], 10_000, 900, 50);
        check(&[AttemptRecord { is_latest: true, ..attempt(600, Some(300.0)) }], 10_000, 0, 0);
        // Each machine of a gang did it twice, and all together did a step.
        check(&[AttemptRecord { nodes: 4, ..attempt(600, Some(300.0)) }], 10_000, 2_400, 50);
        check(&[AttemptRecord { nodes: 4, ..attempt(600, Some(300.0)) }, attempt(600, None)], 900, 2_700, 50);
    }

    #[test]
    fn no_machine_lost_more_than_all_of_them_ran() {
        check(&[attempt(u64::MAX, Some(1e9)), attempt(600, Some(300.0))], 3_600, 3_600, 1_000_000_000);
    }

    #[test]
    fn a_machine_speaks_for_itself_alone() {
        let work = |instance: &str, milliwatts| GpuWork {
            instance: instance.into(),
            milliwatts: Some(milliwatts),
            utilization_percent: None,
        };
        let attempt_with = |work| AttemptRecord { gpus: Some(work), ..attempt(0, None) };
        let attempts = BTreeMap::from([
            ("vision/a".to_owned(), vec![attempt_with(work("i-1", 5)), attempt_with(work("i-2", 7))]),
            ("nlp/b".to_owned(), vec![attempt_with(work("i-1", 9))]),
        ]);
        let load = |job: &str, machine: &str| load_of(&attempts, job, &machine.into());
        assert_eq!(load("vision/a", "i-1"), AcceleratorLoad::Measured { milliwatts: 5 });
        assert_eq!(load("vision/a", "i-3"), AcceleratorLoad::Unknown);
        assert_eq!(load("nlp/b", "i-2"), AcceleratorLoad::Unknown);
    }
}
