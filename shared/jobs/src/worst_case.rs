//! What a job can cost at most.

use jiff::{SignedDuration, Timestamp};
use model::duration;
use model::money::{Amount, Rate};
use serde::Serialize;

use super::next::TimeLeft;
use super::{Candidate, Job, JobId, JobTerms, Ranking, TransferCost};

/// What a job can take at most: what is reserved for it before it is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WorstCase {
    /// For so long.
    pub seconds: i64,
    /// At that price by the hour.
    pub usd_per_hour: Rate,
    /// What its checkpoints cost beside that, where its machine is not in the bucket's region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferCost>,
    /// Which is so much, on one machine.
    pub usd: Amount,
}

impl WorstCase {
    /// Of a job that would begin now, on whichever of the candidates; `None` if its limits leave it no time at all.
    #[must_use]
    pub fn from_ranking(terms: &JobTerms, ranking: &Ranking, now: Timestamp) -> Option<Self> {
        let unnamed = JobId { team: "".into(), job: String::new() };
        let job = Job::submitted(unnamed, None, terms.clone(), now);
        let worst = |candidate: &Candidate| {
            let cost_max = candidate.cost_max();
            let seconds = TimeLeft::on_machine(&job, cost_max, now).seconds;
            let usd = cost_max.amount(u64::try_from(seconds).unwrap_or(0));
            let usd = job.terms.max_usd.map_or(usd, |max| usd.min(max));
            Self { seconds, usd_per_hour: candidate.rate_max, transfer: candidate.transfer, usd }
        };
        let all = ranking.candidates.iter().map(worst).filter(|worst| worst.seconds > 0);
        all.max_by_key(|worst| (worst.usd, worst.usd_per_hour))
    }

    /// In words: `$8.05: 8h at $1.01/h`.
    #[must_use]
    pub fn describe(self) -> String {
        let length = duration::format_duration(SignedDuration::from_secs(self.seconds));
        let transfer = self.transfer.map(|transfer| format!(", and {transfer}")).unwrap_or_default();
        format!("{}: {length} at {}{transfer}", self.usd, self.usd_per_hour)
    }
}

#[cfg(test)]
mod tests {
    use model::config::Config;
    use model::fixture::time;

    use super::*;
    use crate::JobSpec;
    use crate::next::tests::fixture::ranking;

    const NOW: &str = "2026-11-22T05:00:00Z";

    fn check(rest: &str, rates_max: &[u64], expect: Option<&str>) {
        let text = format!("owner = \"ada\"\ncommand = \"x\"\n{rest}");
        let terms = JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), time(NOW)).unwrap().terms;
        let region = terms.machine.regions.first().cloned().unwrap_or_else(|| "us-east-1".into());
        let candidate = |rate_max: &u64| Candidate {
            rate_max: Rate::from_usd_micros_per_hour(*rate_max),
            transfer: terms.transfer_cost(&region),
            ..ranking(time(NOW)).candidates[0].clone()
        };
        let candidates = rates_max.iter().map(candidate).collect();
        let worst = WorstCase::from_ranking(&terms, &Ranking { candidates, ..ranking(time(NOW)) }, time(NOW));
        assert_eq!(worst.map(WorstCase::describe).as_deref(), expect);
    }

    #[test]
    fn the_worst_case_is_the_dearest_candidate_for_all_the_time_that_the_limits_leave() {
        check("[limits]\nmax_runtime = \"8h\"", &[800_000, 1_000_000], Some("$8.00: 8h at $1.00/h"));
        check("[limits]\nfinish_by = 2026-11-22T07:30:00Z", &[1_000_000], Some("$2.50: 2h30m at $1.00/h"));
        check("[limits]\nmax_runtime = \"8h\"\nmax_usd = 2", &[1_000_000], Some("$2.00: 2h at $1.00/h"));
        check("", &[], None);
    }

    #[test]
    fn the_worst_case_counts_checkpoints_to_another_region() {
        let section = |every: &str| {
            format!(
                "[checkpoint]\nevery = \"{every}\"\nsize_gb = 25\n[machine]\nregions = [\"us-west-2\"]\n[limits]\nmax_runtime = \"8h\"\n"
            )
        };
        let words = "at $1.00/h, and $1.00/h and $1.00 per machine for checkpoints to another region";
        check(&section("30m"), &[1_000_000], Some(&format!("$17.00: 8h {words}")));
        check(&format!("{}max_usd = 5", section("30m")), &[1_000_000], Some(&format!("$5.00: 2h {words}")));
        check(&format!("{}max_usd = 1", section("30m")), &[1_000_000], None);
        let home = section("30m").replace("us-west-2", "us-east-1");
        check(&home, &[1_000_000], Some("$8.00: 8h at $1.00/h"));
    }
}
