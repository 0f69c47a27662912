//! The knowledge of a job with a deadline, which is part of the job's state, and what such a job is expected to cost. The crate `capacity`
//! decides.

use capacity::{CapacityDecision, ExpectedCost, ForecastJob, SpotHistory};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::next::{SOONEST_BEYOND_WORK, START};
use crate::{Candidate, Checkpoint, JobTerms, Lifecycle};

/// A checkpoint rests unchanged for a minute, is uploaded in two (an agent warns of more), and a run comes each minute. So what a run sees
/// in head holds no work of these last minutes.
pub(crate) const CHECKPOINT_SEEN_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// The knowledge of a job with a deadline, of constant size. Times are those at which a run saw something: no machine can move them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct JobDeadline {
    /// Availability of any Spot candidate: a launch that was accepted, a pass in which all were refused, a machine that AWS took back.
    pub spot: SpotHistory,
    /// The longest that an attempt took from its launch to its command.
    pub start_seconds: Option<i64>,
    /// The work of attempts that are over: what their newest complete checkpoints hold, in seconds of their commands.
    pub banked_seconds: i64,
    /// Time since which the command of the present attempt runs.
    pub command_since: Option<Timestamp>,
    /// Its newest complete checkpoint, and when a run first saw it.
    pub checkpoint: Option<(Checkpoint, Timestamp)>,
    /// `true` if EC2 has refused on-demand capacity since it last gave some. Then Spot is better than nothing, and is not left.
    pub on_demand_refused: bool,
    /// The last decision.
    pub decision: Option<CapacityDecision>,
}

impl JobDeadline {
    /// Returns all work that complete checkpoints hold, in seconds.
    pub(crate) fn work_banked(&self) -> i64 {
        let present = self.command_since.zip(self.checkpoint).map(|(since, (_, seen))| seen.duration_since(since));
        let present = present.map_or(0, |long| long.saturating_sub(CHECKPOINT_SEEN_AFTER).as_secs().max(0));
        self.banked_seconds.saturating_add(present)
    }

    pub(crate) fn end_attempt(&mut self) {
        self.banked_seconds = self.work_banked();
        (self.command_since, self.checkpoint) = (None, None);
    }
}

/// Returns the expected costs with the soonest deadline that can be met, with the job's own, with one half as far again, and with none.
/// Empty where its deadline decides nothing, or a price is missing.
#[must_use]
pub fn expected_costs(terms: &JobTerms, candidates: &[Candidate], now: Timestamp) -> Vec<ExpectedCost> {
    let cheapest = |lifecycle| candidates.iter().find(|one| one.lifecycle == lifecycle).map(|one| one.rate);
    let rates = cheapest(Lifecycle::Spot).zip(cheapest(Lifecycle::OnDemand));
    let (Some(work), Some(finish_by), Some((spot, on_demand))) =
        (terms.estimated_runtime_seconds, terms.finish_by, rates)
    else {
        return Vec::new();
    };
    let every = terms.checkpoint.as_ref().map_or(work, |checkpoint| checkpoint.every_seconds.min(work));
    // In the mean, an interruption comes halfway between two checkpoints.
    let lost = if terms.checkpoint.is_some() { every / 2 } else { work };
    let job = ForecastJob { work, every, lost, start: START.as_secs(), spot, on_demand };
    let soonest = work.saturating_add(SOONEST_BEYOND_WORK.as_secs());
    let asked = finish_by.duration_since(now).as_secs().max(soonest);
    let deadlines = [Some(soonest), Some(asked), Some(asked.saturating_add(asked / 2)), None];
    deadlines.into_iter().map(|within| job.expected_cost(within)).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use model::config::Config;
    use model::fixture::{NOW, time};

    use super::*;
    use crate::JobSpec;
    use crate::next::tests::fixture::ranking;

    #[test]
    fn a_looser_deadline_is_expected_to_cost_less() {
        let terms = |limits: &str| {
            let text = format!("owner = \"ada\"\ncommand = \"x\"\n[checkpoint]\n[limits]\n{limits}");
            JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), time(NOW)).unwrap().terms
        };
        let asked = terms("within = \"60h\"\nestimated_runtime = \"48h\"");
        let candidates = ranking(time(NOW)).candidates;
        let costs = expected_costs(&asked, &candidates, time(NOW));
        let rows: Vec<String> = costs
            .iter()
            .map(|one| format!("{:?}: {} ({} to {})", one.within_seconds, one.usd, one.usd_low, one.usd_high))
            .collect();
        assert_snapshot!(rows.join("\n"), @r"
        Some(173700): $192.67 ($192.67 to $192.67)
        Some(216000): $130.54 ($73.38 to $177.83)
        Some(324000): $83.51 ($21.72 to $148.60)
        None: $24.49 ($21.37 to $27.45)
        ");
        assert_eq!(expected_costs(&asked, &candidates, time(NOW)), costs);
        assert!(expected_costs(&terms("within = \"60h\""), &candidates, time(NOW)).is_empty());
        assert!(expected_costs(&asked, &candidates[..1], time(NOW)).is_empty());
    }
}
