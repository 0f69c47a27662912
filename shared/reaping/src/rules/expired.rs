//! **Expired**, if and only if
//! - the instance carries `curfew:expires-at`, or is the machine of a job, whose state has its deadline,
//! - and that time has passed.
//!
//! No tag moves the deadline of a job's machine, or makes Curfew only observe it; only `curfew:protected` makes Curfew skip it
//! (`instances/skip.rs`).
//!
//! Where Curfew saw the tag before its time, or the state of its job has that deadline, that happens at once. Otherwise the time may be a
//! mistake, or be written by a stranger, also on a job's machine: it is announced, waits 15 minutes and counts in `[limits]`.
//!
//! It is stopped. It is terminated if it belongs, or may belong, to the job of its `curfew:job`, or if that job does not exist
//! (`job_ownership.rs`); also with `curfew:on-idle=terminate`, or if it cannot be stopped. An instance of a persistent Spot request would
//! be launched again, so it is notify only.

use jiff::{SignedDuration, Timestamp};
use model::config::RuleAction;
use model::instance::PurchaseOption;
use model::moment::after;
use model::rule::ResourceAction;
use plan::{Evidence, NotifyOnlyReason};

use crate::job_ownership::{JobOwnership, RejectedClaim, RejectionReason};
use crate::policy::{DueAction, InstanceSubject, Verdict, Violation};

/// Between the announcement of an expiry that had passed when Curfew first saw it, and the action.
const FIRST_SEEN_PAST_GRACE: SignedDuration = SignedDuration::from_mins(15);

/// What is due for an expiry that leads to `ending`.
pub(crate) fn due_at_expiry(
    ending: ResourceAction,
    expires_at: Timestamp,
    first_seen_past: bool,
    now: Timestamp,
) -> DueAction {
    if first_seen_past {
        DueAction::After(ending, after(now, FIRST_SEEN_PAST_GRACE))
    } else {
        DueAction::AtOnce(ending, expires_at)
    }
}

/// Judges one running instance.
#[must_use]
pub fn judge(subject: InstanceSubject<'_>) -> Verdict {
    let moments = subject.curfew_tags.expires_at.into_iter().chain(subject.job_deadline);
    let is_known = |at: Timestamp| [subject.job_deadline, subject.expiry_seen].contains(&Some(at));
    let Some(expires_at) = moments.filter(|at| *at <= subject.now).min_by_key(|at| (!is_known(*at), *at)) else {
        return Verdict::Compliant;
    };
    let first_seen_past = !is_known(expires_at);
    let terminate = is_of_a_job(subject.ownership)
        || subject.curfew_tags.on_idle == Some(RuleAction::Terminate)
        || subject.cannot_be_stopped();
    let due = match subject.instance.purchase {
        PurchaseOption::SpotPersistent => DueAction::NotifyOnly(NotifyOnlyReason::PersistentSpot),
        PurchaseOption::SpotUnknown => DueAction::NotifyOnly(NotifyOnlyReason::SpotRequestUnknown),
        _ => {
            let ending = if terminate { ResourceAction::Terminate } else { ResourceAction::Stop };
            due_at_expiry(ending, expires_at, first_seen_past, subject.now)
        }
    };
    Verdict::Violated(Violation { evidence: Evidence::Expired { expires_at, first_seen_past }, due })
}

/// A tag that was copied from a job's machine must not terminate an instance. If the state of the job is unknown or lost, the
/// machine's own timer would have terminated it.
const fn is_of_a_job(claim: JobOwnership<'_>) -> bool {
    match claim {
        JobOwnership::Owned(_) | JobOwnership::Unknown(_) => true,
        JobOwnership::NotOwned(RejectedClaim { why, .. }) => matches!(why, RejectionReason::NoJob),
        JobOwnership::None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InstanceBuilder, NOW, RuleInput, instance, jobs, placed};
    use ::jobs::{JobMachine, Phase};

    fn check(given: RuleInput, expect: Option<DueAction>) {
        let found = match given.judge(judge) {
            Verdict::Violated(violation) => Some(violation.due),
            _ => None,
        };
        assert_eq!(found, expect);
    }

    const PAST: &str = "2026-09-01T11:00:00Z";

    fn expiry() -> jiff::Timestamp {
        PAST.parse().unwrap()
    }

    #[test]
    fn ends_at_its_moment_and_not_before() {
        check(instance().into(), None);
        check(instance().tag("curfew:expires-at", "2026-09-01T12:00:01Z").into(), None);
        check(
            RuleInput::from(instance().tag("curfew:expires-at", NOW)).expiry_seen(NOW),
            Some(DueAction::AtOnce(ResourceAction::Stop, NOW.parse().unwrap())),
        );
    }

    #[test]
    fn a_moment_that_was_past_when_first_seen_waits() {
        let given = || RuleInput::from(instance().tag("curfew:expires-at", PAST));
        let after = Some(DueAction::After(ResourceAction::Stop, "2026-09-01T12:15:00Z".parse().unwrap()));
        check(given(), after);
        check(given().expiry_seen("2026-09-01T11:30:00Z"), after);
        check(given().expiry_seen(PAST), Some(DueAction::AtOnce(ResourceAction::Stop, expiry())));
    }

    #[test]
    fn a_tag_moves_no_deadline_of_a_jobs_machine() {
        let given = |ends_at: &str, tag: &str| {
            let machine = JobMachine { ends_at: ends_at.parse().unwrap(), ..placed("i-0abc", "us-east-1") };
            let tagged = instance().tag("curfew:job", "vision/llama-0123abcd").tag("curfew:attempt", "2");
            RuleInput::from(tagged.tag("curfew:expires-at", tag)).jobs(jobs(Phase::Running(machine)))
        };
        let later = "2026-09-02T12:00:00Z";
        let waits = DueAction::After(ResourceAction::Terminate, "2026-09-01T12:15:00Z".parse().unwrap());
        check(given(later, PAST), Some(waits));
        check(given(later, "2027-01-01T00:00:00Z"), None);
        let own = DueAction::AtOnce(ResourceAction::Terminate, "2026-09-01T11:40:00Z".parse().unwrap());
        check(given("2026-09-01T11:30:00Z", PAST), Some(own));
    }

    #[test]
    fn is_terminated_where_it_says_so_or_must_be() {
        let expired = || instance().tag("curfew:expires-at", PAST);
        let terminate = Some(DueAction::AtOnce(ResourceAction::Terminate, expiry()));
        let check = |given: InstanceBuilder, expect| check(RuleInput::from(given).expiry_seen(PAST), expect);
        check(expired().tag("curfew:job", "vision/a-0123abcd"), terminate);
        check(expired().tag("curfew:on-idle", "terminate"), terminate);
        check(expired().purchase(PurchaseOption::SpotOneTime), terminate);
        check(expired().root_on_instance_storage(), terminate);
        check(
            expired().purchase(PurchaseOption::SpotPersistent),
            Some(DueAction::NotifyOnly(NotifyOnlyReason::PersistentSpot)),
        );
    }
}
