//! Energy and carbon of a job: what it used so far, and what it would use where it would be launched first.

use std::collections::BTreeSet;

use billing::energy::{AcceleratorLoad, Footprint, FootprintGaps, MachineUse, RunningTime};
use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use model::id::{Region, TypeName};
use serde::Serialize;

use super::{Candidate, Job, JobTerms};

const HOUR_SECONDS: u64 = 3_600;

/// The expected energy and carbon of a job on the machine that is tried first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpectedFootprint {
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    pub region: Region,
    /// Number of machines; the figures are of all together.
    #[serde(skip_serializing_if = "super::spec::is_one_node")]
    pub nodes: u8,
    pub per_hour: Footprint,
    /// Length of `run`: the estimated time, or the most that the job may take.
    pub run_seconds: u64,
    /// `true` if `run_seconds` is only the most that the job may take.
    pub is_most: bool,
    pub run: Footprint,
    /// Remarks that have to be shown beside the figures.
    pub caveats: Vec<String>,
}

impl ExpectedFootprint {
    /// Computes the footprint on the first candidate; `None` if there is none.
    #[must_use]
    pub fn from_candidates(terms: &JobTerms, candidates: &[Candidate], now: Timestamp) -> Option<Self> {
        let Candidate { instance_type, region, .. } = candidates.first()?;
        let seconds = |seconds: i64| u64::try_from(seconds).unwrap_or(0);
        let of_box = terms.gpu_box.as_ref().map(|gpu_box| gpu_box.seconds_left(now).min(terms.max_runtime_seconds));
        let run_seconds = seconds(terms.estimated_runtime_seconds.or(of_box).unwrap_or(terms.max_runtime_seconds));
        let is_most = terms.estimated_runtime_seconds.is_none();
        let time = RunningTime { least_seconds: if is_most { 0 } else { run_seconds }, most_seconds: run_seconds };
        let time = on_all_nodes(terms, time);
        let per_hour = on_machine(instance_type, Some(region), on_all_nodes(terms, RunningTime::exactly(HOUR_SECONDS)));
        let caveats = per_hour.caveats(now);
        let run = on_machine(instance_type, Some(region), time);
        Some(Self {
            instance_type: instance_type.clone(),
            region: region.clone(),
            nodes: terms.gpu.nodes,
            per_hour,
            run_seconds,
            is_most,
            run,
            caveats,
        })
    }

    /// The machines in words: `a g6.xlarge`, or `4 × g6.xlarge`.
    fn name_machines(&self) -> String {
        if self.nodes > 1 {
            format!("{} × {}", self.nodes, self.instance_type)
        } else {
            format!("a {}", self.instance_type)
        }
    }

    /// One line each: by the hour, for the run, and the caveats.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.per_hour.energy.known().is_some() {
            let length =
                format_duration(SignedDuration::from_secs(i64::try_from(self.run_seconds).unwrap_or(i64::MAX)));
            let most = if self.is_most { " at most" } else { "" };
            lines.push(format!(
                "An hour on {} in {} takes {}",
                self.name_machines(),
                self.region,
                figures(&self.per_hour)
            ));
            lines.push(format!("Its run of {length}{most} takes {}", figures(&self.run)));
        }
        lines.extend(self.caveats.iter().cloned());
        lines
    }
}

/// Returns the footprint of a job until now. The load of earlier machines is not read, so their figures span from idle to full; and these
/// machines were of any of the types that the job can run on. `load` is that of the present machine.
#[must_use]
pub fn job_footprint(job: &Job, load: AcceleratorLoad, now: Timestamp) -> Footprint {
    let (seconds, _) = job.used_by(now);
    let exactly = |seconds: i64| on_all_nodes(&job.terms, RunningTime::exactly(u64::try_from(seconds).unwrap_or(0)));
    let (earlier, present) = (exactly(job.used.seconds), exactly(seconds.saturating_sub(job.used.seconds)));
    let machine = job.machine().filter(|_| present.most_seconds > 0);
    let machine_footprint = machine.map(|machine| {
        let (instance_type, region) = (&machine.instance_type, Some(&machine.region));
        Footprint::from_use(&MachineUse { instance_type, region, time: present, load })
    });
    if earlier.most_seconds == 0 {
        return machine_footprint.unwrap_or_default();
    }
    let candidates = job.ranking.iter().flat_map(|ranking| &ranking.candidates);
    let mut places: BTreeSet<(&TypeName, Option<&Region>)> =
        candidates.map(|candidate| (&candidate.instance_type, Some(&candidate.region))).collect();
    if places.is_empty() {
        places = job.terms.gpu.types.iter().map(|instance_type| (instance_type, None)).collect();
    }
    let earlier_footprints =
        places.into_iter().map(|(instance_type, region)| on_machine(instance_type, region, earlier));
    earlier_footprints.reduce(Footprint::spanning).unwrap_or_else(|| Footprint::unknown(FootprintGaps::default()))
        + machine_footprint.unwrap_or_default()
}

/// Describes a footprint in words: `1.2-1.9 kWh and 0.4-0.7 kg CO2e, and 21-40 g CO2e embodied`.
#[must_use]
pub fn figures(footprint: &Footprint) -> String {
    let (operational, embodied) = (footprint.describe_operational(), footprint.describe_embodied());
    format!("{} and {operational}, and {embodied} embodied", footprint.energy)
}

/// The running time of all machines of a job together.
fn on_all_nodes(terms: &JobTerms, RunningTime { least_seconds, most_seconds }: RunningTime) -> RunningTime {
    let summed = |seconds: u64| seconds.saturating_mul(u64::from(terms.gpu.nodes));
    RunningTime { least_seconds: summed(least_seconds), most_seconds: summed(most_seconds) }
}

fn on_machine(instance_type: &TypeName, region: Option<&Region>, time: RunningTime) -> Footprint {
    Footprint::from_use(&MachineUse { instance_type, region, time, load: AcceleratorLoad::Unknown })
}

#[cfg(test)]
mod tests {
    use model::fixture::time;

    use super::*;
    use crate::next::tests::fixture::{ranking, terms};
    use crate::{JobId, JobUsage, Phase};

    const NOW: &str = "2026-11-22T05:00:00Z";

    fn job(phase: Phase, used_seconds: i64) -> Job {
        let id = JobId { team: "vision".into(), job: "llama-1a2b3c4d".to_owned() };
        let job = Job::submitted(id, None, terms(), time(NOW));
        let used = JobUsage { seconds: used_seconds, ..JobUsage::default() };
        Job { phase, used, ranking: Some(ranking(time(NOW))), ..job }
    }

    #[test]
    fn a_machine_that_is_gone_was_of_any_type_of_the_ranking() {
        let unknown = AcceleratorLoad::Unknown;
        let used = job_footprint(&job(Phase::Submitted, 3_600), unknown, time(NOW));
        let on = |name: &str| on_machine(&name.into(), Some(&"us-east-1".into()), RunningTime::exactly(3_600));
        let all = ["g6.xlarge", "g5.xlarge", "g6e.xlarge"].map(on);
        let energy = |one: &Footprint| one.energy.known().unwrap();
        let low = all.iter().map(|one| energy(one).low()).min().unwrap();
        let high = all.iter().map(|one| energy(one).high()).max().unwrap();
        assert_eq!((energy(&used).low(), energy(&used).high()), (low, high));
        assert_eq!(job_footprint(&job(Phase::Submitted, 0), unknown, time(NOW)), Footprint::default());
    }

    #[test]
    fn the_figures_of_several_machines_are_of_all_together() {
        let mut four = job(Phase::Submitted, 900);
        four.terms.gpu.nodes = 4;
        let alone = job_footprint(&job(Phase::Submitted, 3_600), AcceleratorLoad::Unknown, time(NOW));
        assert_eq!(job_footprint(&four, AcceleratorLoad::Unknown, time(NOW)), alone);
        let candidates = ranking(time(NOW)).candidates;
        let expected = ExpectedFootprint::from_candidates(&four.terms, &candidates, time(NOW)).unwrap();
        assert!(expected.describe()[0].starts_with("An hour on 4 × g6.xlarge in us-east-1 takes "));
        let of_one = ExpectedFootprint::from_candidates(&terms(), &candidates, time(NOW)).unwrap();
        let high = |footprint: &Footprint| footprint.energy.known().unwrap().high();
        assert!(high(&expected.per_hour) > high(&of_one.per_hour));
    }

    #[test]
    fn a_job_without_an_estimate_is_shown_for_the_most_that_it_may_take() {
        let candidates = ranking(time(NOW)).candidates;
        let described =
            |terms: &JobTerms| ExpectedFootprint::from_candidates(terms, &candidates, time(NOW)).unwrap().describe();
        let sentences = described(&terms());
        assert!(sentences[0].starts_with("An hour on a g6.xlarge in us-east-1 takes "), "{sentences:?}");
        assert!(sentences[1].starts_with("Its run of 8h at most takes 0-"), "{sentences:?}");
        assert_eq!(sentences[2], "the grid factor of us-east-1 is of 2023, older than 2 years");
        let estimated = JobTerms { estimated_runtime_seconds: Some(7_200), ..terms() };
        assert!(described(&estimated)[1].starts_with("Its run of 2h takes "));
        assert_eq!(ExpectedFootprint::from_candidates(&terms(), &[], time(NOW)), None);
    }

    #[test]
    fn an_unknown_type_is_named_and_gets_no_figure() {
        let candidate = Candidate { instance_type: "g4ad.xlarge".into(), ..ranking(time(NOW)).candidates[0].clone() };
        let expected = ExpectedFootprint::from_candidates(&terms(), &[candidate], time(NOW)).unwrap();
        assert_eq!(expected.describe(), ["not counted, because no model of its power exists: g4ad.xlarge"]);
    }
}
