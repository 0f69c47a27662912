//! Refusals of EC2 to one job, which it would repeat to the next.

use jiff::{SignedDuration, Timestamp};

use super::{Candidate, LaunchResult};

/// Capacity comes back in minutes, or in hours; the first back-off is as long.
const COUNTS_FOR: SignedDuration = SignedDuration::from_mins(1);

/// Launches that were refused, by what they were asked for: of many jobs that want the same, the first asks. Each further one would take a
/// call of the two a second that EC2 lets an account have, and learn nothing.
///
/// It answers only for launches without an earlier request: only EC2 knows the result of a token that was used before.
#[derive(Debug, Clone, Default)]
pub struct LaunchRefusals(Vec<LaunchRefusal>);

#[derive(Debug, Clone)]
struct LaunchRefusal {
    candidate: Candidate,
    answer: LaunchResult,
    at: Timestamp,
}

impl LaunchRefusals {
    /// Takes in what EC2 said to the first request for a launch. Only what it said of the pool, or of a quota, is of use to others.
    pub fn record(&mut self, candidate: &Candidate, answer: &LaunchResult, now: Timestamp) {
        if !matches!(answer, LaunchResult::NoCapacity(_) | LaunchResult::Quota(_, Some(_))) {
            return;
        }
        self.0.retain(|one| one.counts(now) && !one.covers(candidate));
        self.0.push(LaunchRefusal { candidate: candidate.clone(), answer: answer.clone(), at: now });
    }

    /// Predicts the answer of EC2 to a launch that it was not asked for yet; `None` if it has to be asked.
    #[must_use]
    pub fn predict(&self, candidate: &Candidate, now: Timestamp) -> Option<LaunchResult> {
        self.0.iter().find(|one| one.counts(now) && one.covers(candidate)).map(|one| one.answer.clone())
    }
}

impl LaunchRefusal {
    fn counts(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) < COUNTS_FOR
    }

    /// A quota counts a type in all zones of its region; of a smaller one there may be enough.
    fn covers(&self, other: &Candidate) -> bool {
        let own = &self.candidate;
        let type_key = |one: &Candidate| (one.region.clone(), one.instance_type.clone(), one.lifecycle);
        let pool_key = |one: &Candidate| (one.zone.clone(), one.subnet.clone(), one.rate_max);
        let is_of_type = type_key(own) == type_key(other);
        match self.answer {
            LaunchResult::Quota(..) => is_of_type && own.quota == other.quota,
            _ => is_of_type && pool_key(own) == pool_key(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QuotaCode;
    use crate::next::tests::fixture::{noon_plus, ranking};
    use model::money::Rate;

    fn first() -> Candidate {
        ranking(noon_plus(0)).candidates[0].clone()
    }

    fn no_capacity() -> LaunchResult {
        LaunchResult::NoCapacity("InsufficientInstanceCapacity: none".to_owned())
    }

    fn used_up() -> LaunchResult {
        LaunchResult::Quota("MaxSpotInstanceCountExceeded: no".to_owned(), Some(QuotaCode("L-SPOT".to_owned())))
    }

    /// Checks if the refusal of the first candidate answers for another one after these seconds.
    fn check(answer: &LaunchResult, other: &Candidate, seconds: i64, expect: bool) {
        let mut refusals = LaunchRefusals::default();
        refusals.record(&first(), answer, noon_plus(0));
        let expect = expect.then(|| answer.clone());
        assert_eq!(refusals.predict(other, noon_plus(seconds)), expect, "{answer:?} {other:?} {seconds}");
    }

    #[test]
    fn a_pool_without_capacity_is_not_queried_again_for_a_minute() {
        check(&no_capacity(), &first(), 59, true);
        check(&no_capacity(), &first(), 60, false);
        let cheaper_now = Candidate { rate: Rate::from_usd_micros_per_hour(1), image: 3, ..first() };
        check(&no_capacity(), &cheaper_now, 0, true);
    }

    #[test]
    fn another_pool_or_another_price_is_asked() {
        for other in [
            Candidate { zone: "us-east-1b".to_owned(), ..first() },
            Candidate { region: "us-east-2".into(), ..first() },
            Candidate { subnet: "subnet-0def".into(), ..first() },
            Candidate { instance_type: "g6.2xlarge".into(), ..first() },
            Candidate { lifecycle: crate::Lifecycle::OnDemand, ..first() },
            Candidate { rate_max: Rate::from_usd_micros_per_hour(2_000_000), ..first() },
        ] {
            check(&no_capacity(), &other, 0, false);
        }
    }

    #[test]
    fn a_quota_counts_a_type_wherever_it_is() {
        check(&used_up(), &Candidate { zone: "us-east-1b".to_owned(), ..first() }, 0, true);
        check(&used_up(), &Candidate { rate_max: Rate::from_usd_micros_per_hour(2_000_000), ..first() }, 59, true);
        check(&used_up(), &Candidate { instance_type: "g6.2xlarge".into(), ..first() }, 0, false);
        check(&used_up(), &Candidate { region: "us-east-2".into(), ..first() }, 0, false);
    }

    #[test]
    fn an_answer_to_one_launch_does_not_apply_to_another() {
        let launched =
            LaunchResult::Launched { instance: "i-1".into(), members: Vec::new(), launched_at: noon_plus(0) };
        let words = || "said".to_owned();
        for answer in [
            launched,
            LaunchResult::Quota(words(), None),
            LaunchResult::Refused(words()),
            LaunchResult::RefusedRequest(words()),
            LaunchResult::NoProfile(words()),
            LaunchResult::NotAllowed(words()),
            LaunchResult::Denied(words()),
            LaunchResult::Mismatch(words()),
            LaunchResult::Unknown(words()),
        ] {
            check(&answer, &first(), 0, false);
        }
    }
}
