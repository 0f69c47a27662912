//! The highest cost of a job.

use jiff::{SignedDuration, Timestamp};
use model::duration;
use model::money::{Amount, Rate, USD_MICROS_PER_CENT};
use serde::Serialize;

use super::next::TimeLeft;
use super::{ATTEMPT_MIN, Candidate, Job, JobId, JobSpec, JobTerms, ParameterSweep, Ranking, TransferCost};

/// The most time and money that a job can take: the reservation for it before it is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WorstCase {
    /// Time that the machine runs, in seconds.
    pub seconds: i64,
    /// Highest price by the hour.
    pub usd_per_hour: Rate,
    /// Cost of its checkpoints beside that, where its machine is not in the bucket's region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferCost>,
    /// Highest cost, on one machine.
    pub usd: Amount,
}

impl WorstCase {
    /// Computes the worst case of a job that would begin now, on whichever of the candidates; `None` if its limits leave it no time for an
    /// attempt.
    #[must_use]
    pub fn from_ranking(terms: &JobTerms, ranking: &Ranking, now: Timestamp) -> Option<Self> {
        let placeholder = JobId { team: "".into(), job: String::new() };
        let job = Job::submitted(placeholder, None, terms.clone(), now);
        let worst = |candidate: &Candidate| {
            let cost_max = candidate.cost_max();
            let left = TimeLeft::on_machine(&job, cost_max, now);
            // A box ends before the life of its machine does.
            let of_box = terms.gpu_box.as_ref().map(|gpu_box| gpu_box.seconds_left(now));
            let seconds = of_box.map_or(left.seconds, |of_box| of_box.min(left.seconds));
            let usd = cost_max.amount(u64::try_from(seconds).unwrap_or(0));
            let usd = job.terms.max_usd.map_or(usd, |max| usd.min(max));
            let worst = Self { seconds, usd_per_hour: candidate.rate_max, transfer: candidate.transfer, usd };
            (!left.is_over()).then_some(worst)
        };
        let all = ranking.candidates.iter().filter_map(worst);
        all.max_by_key(|worst| (worst.usd, worst.usd_per_hour))
    }

    /// Describes the worst case in words: `$8.05: 8h at $1.01/h`.
    #[must_use]
    pub fn describe(self) -> String {
        let length = duration::format_duration(SignedDuration::from_secs(self.seconds));
        let transfer = self.transfer.map(|transfer| format!(", and {transfer}")).unwrap_or_default();
        format!("{}: {length} at {}{transfer}", self.usd, self.usd_per_hour)
    }
}

/// Explains why no attempt of a job would begin on any of the candidates: its `max_usd` pays for too little time.
pub(crate) fn describe_too_little_usd(spec: &JobSpec, candidates: &[Candidate]) -> Option<String> {
    let share = spec.terms.max_usd?;
    let least = ATTEMPT_MIN.as_secs().unsigned_abs();
    let cheapest = candidates.iter().min_by_key(|candidate| candidate.cost_max().amount(least))?;
    let cost_max = cheapest.cost_max();
    let wanted = cost_max.amount(least);
    if wanted <= share {
        return None;
    }
    let members = spec.sweep.as_ref().map_or(1, ParameterSweep::members);
    let max = match &spec.sweep {
        Some(sweep) => format!("{} is {share} for each of {members} jobs, which", sweep.max_usd.unwrap_or(share)),
        None => share.to_string(),
    };
    let lasts =
        share.saturating_sub(cost_max.once).lasts_at(cost_max.rate).and_then(|seconds| i64::try_from(seconds).ok());
    let format = |seconds| duration::format_duration(SignedDuration::from_secs(seconds));
    let transfer = cheapest.transfer.map(|transfer| format!(", and {transfer}")).unwrap_or_default();
    Some(format!(
        "`max_usd` of {max} lasts {} on a {} at {}{transfer}; no attempt begins with less than {}: write {} or more",
        format(lasts.unwrap_or_default()),
        cheapest.instance_type,
        cheapest.rate_max,
        format(ATTEMPT_MIN.as_secs()),
        wanted.rounded_up_to(1).scaled(u64::from(members), 1).rounded_up_to(USD_MICROS_PER_CENT),
    ))
}

#[cfg(test)]
mod tests {
    use model::config::Config;
    use model::fixture::time;

    use super::*;
    use crate::JobSpec;
    use crate::box_job::NO_KEY;
    use crate::next::tests::fixture::ranking;

    const NOW: &str = "2026-11-22T05:00:00Z";

    fn candidates(terms: &JobTerms, rates_max: &[u64]) -> Vec<Candidate> {
        let region = terms.machine.regions.first().cloned().unwrap_or_else(|| "us-east-1".into());
        let candidate = |rate_max: &u64| Candidate {
            rate_max: Rate::from_usd_micros_per_hour(*rate_max),
            transfer: terms.transfer_cost(&region),
            ..ranking(time(NOW)).candidates[0].clone()
        };
        rates_max.iter().map(candidate).collect()
    }

    fn check(rest: &str, rates_max: &[u64], expect: Option<&str>) {
        let text = format!("owner = \"ada\"\ncommand = \"x\"\n{rest}");
        let terms = JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), time(NOW)).unwrap().terms;
        let candidates = candidates(&terms, rates_max);
        let worst = WorstCase::from_ranking(&terms, &Ranking { candidates, ..ranking(time(NOW)) }, time(NOW));
        assert_eq!(worst.map(WorstCase::describe).as_deref(), expect);
    }

    #[test]
    fn the_worst_case_is_the_dearest_candidate_for_all_the_time_that_the_limits_leave() {
        check("[limits]\nmax_runtime = \"8h\"", &[800_000, 1_000_000], Some("$8.00: 8h at $1.00/h"));
        check("[limits]\nfinish_by = 2026-11-22T07:30:00Z", &[1_000_000], Some("$2.50: 2h30m at $1.00/h"));
        check("[limits]\nmax_runtime = \"8h\"\nmax_usd = 2", &[1_000_000], Some("$2.00: 2h at $1.00/h"));
        check("[limits]\nmax_usd = 5", &[1_000_000, 98_000_000], Some("$5.00: 5h at $1.00/h"));
        check("[limits]\nmax_usd = 0.2", &[1_000_000], None);
        check("", &[], None);
    }

    #[test]
    fn a_box_costs_until_its_end() {
        let text = format!("owner = \"ada\"\n[box]\npublic_key = \"{NO_KEY}\"\nfor = \"10h\"");
        let terms = JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), time(NOW)).unwrap().terms;
        let candidates = candidates(&terms, &[1_000_000]);
        let worst = WorstCase::from_ranking(&terms, &Ranking { candidates, ..ranking(time(NOW)) }, time(NOW));
        assert_eq!(worst.map(WorstCase::describe).as_deref(), Some("$10.00: 10h at $1.00/h"));
    }

    fn check_too_little(rest: &str, rates_max: &[u64], expect: Option<(usize, &str)>) {
        let text = format!("owner = \"ada\"\ncommand = \"x\"\n{rest}");
        let spec = JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), time(NOW)).unwrap();
        let found = spec.refuse_max_usd(text.as_bytes(), &candidates(&spec.terms, rates_max));
        let found: Vec<_> = found.iter().map(|one| (one.line, one.key.as_str(), one.problem.as_str())).collect();
        let expect: Vec<_> = expect.into_iter().map(|(line, problem)| (line, "limits.max_usd", problem)).collect();
        assert_eq!(found, expect, "{rest}");
    }

    #[test]
    fn a_max_usd_that_pays_for_less_than_an_attempt_is_a_mistake() {
        let rest = "no attempt begins with less than 15m: write";
        check_too_little(
            "[limits]\nmax_usd = 0.1",
            &[98_000_000, 1_006_000],
            Some((4, &format!("`max_usd` of $0.10 lasts 5m57s on a g6.xlarge at $1.01/h; {rest} $0.26 or more"))),
        );
        let sweep = |usd: &str| format!("[limits]\nmax_usd = {usd}\n[sweep]\nseed = \"1..50\"");
        check_too_little(
            &sweep("5"),
            &[1_006_000],
            Some((
                4,
                &format!(
                    "`max_usd` of $5.00 is $0.10 for each of 50 jobs, which lasts 5m57s on a g6.xlarge at $1.01/h; {rest} $12.58 or more"
                ),
            )),
        );
        for enough in [sweep("12.58"), "[limits]\nmax_usd = 0.26".to_owned(), String::new()] {
            check_too_little(&enough, &[1_006_000], None);
        }
        check_too_little("[limits]\nmax_usd = 0.1", &[], None);
    }

    #[test]
    fn a_max_usd_that_checkpoints_use_up_is_a_mistake() {
        check_too_little(
            "[checkpoint]\nevery = \"30m\"\nsize_gb = 25\n[machine]\nregions = [\"us-west-2\"]\n[limits]\nmax_usd = 1",
            &[1_000_000],
            Some((
                9,
                "`max_usd` of $1.00 lasts 0s on a g6.xlarge at $1.00/h, and $1.00/h and $1.00 per machine for checkpoints to another region; \
                 no attempt begins with less than 15m: write $1.50 or more",
            )),
        );
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
