//! **Expired**, if and only if
//! - the instance carries `curfew:expires-at`, or is the machine of a job, whose state has its deadline,
//! - and that time has passed.
//!
//! No tag moves the deadline of a job's machine, or makes Curfew only observe it; only `curfew:protected` makes Curfew skip it
//! (`instances/skip.rs`).
//!
//! It is stopped at once. It is terminated if it belongs, or may belong, to the job of its `curfew:job`, or if that job does not exist
//! (`job_ownership.rs`); also with `curfew:on-idle=terminate`, or if it cannot be stopped. An instance of a persistent Spot request would
//! be launched again, so it is notify only.

use model::config::RuleAction;
use model::instance::PurchaseOption;
use model::rule::ResourceAction;
use plan::{Evidence, NotifyOnlyReason};

use crate::job_ownership::{JobOwnership, RejectedClaim, RejectionReason};
use crate::policy::{DueAction, InstanceSubject, Verdict, Violation};

/// Judges one running instance.
#[must_use]
pub fn judge(subject: InstanceSubject<'_>) -> Verdict {
    let moments = subject.curfew_tags.expires_at.into_iter().chain(subject.job_deadline);
    let Some(expires_at) = moments.filter(|at| *at <= subject.now).min() else {
        return Verdict::Compliant;
    };
    let terminate = is_of_a_job(subject.ownership)
        || subject.curfew_tags.on_idle == Some(RuleAction::Terminate)
        || subject.cannot_be_stopped();
    let due = match subject.instance.purchase {
        PurchaseOption::SpotPersistent => DueAction::NotifyOnly(NotifyOnlyReason::PersistentSpot),
        PurchaseOption::SpotUnknown => DueAction::NotifyOnly(NotifyOnlyReason::SpotRequestUnknown),
        _ if terminate => DueAction::AtOnce(ResourceAction::Terminate, expires_at),
        _ => DueAction::AtOnce(ResourceAction::Stop, expires_at),
    };
    Verdict::Violated(Violation { evidence: Evidence::Expired { expires_at }, due })
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
    use crate::fixture::{RuleInput, instance};

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
            instance().tag("curfew:expires-at", "2026-09-01T12:00:00Z").into(),
            Some(DueAction::AtOnce(ResourceAction::Stop, "2026-09-01T12:00:00Z".parse().unwrap())),
        );
        check(
            instance().tag("curfew:expires-at", PAST).into(),
            Some(DueAction::AtOnce(ResourceAction::Stop, expiry())),
        );
    }

    #[test]
    fn is_terminated_where_it_says_so_or_must_be() {
        let expired = || instance().tag("curfew:expires-at", PAST);
        let terminate = Some(DueAction::AtOnce(ResourceAction::Terminate, expiry()));
        check(expired().tag("curfew:job", "vision/a-0123abcd").into(), terminate);
        check(expired().tag("curfew:on-idle", "terminate").into(), terminate);
        check(expired().purchase(PurchaseOption::SpotOneTime).into(), terminate);
        check(expired().root_on_instance_storage().into(), terminate);
        check(
            expired().purchase(PurchaseOption::SpotPersistent).into(),
            Some(DueAction::NotifyOnly(NotifyOnlyReason::PersistentSpot)),
        );
    }
}
