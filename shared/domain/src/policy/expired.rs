//! **Expired**, if and only if
//! - the instance carries `curfew:expires-at`,
//! - and that moment has come.
//!
//! It ends at once: stopped; terminated where its `curfew:job` is of a job that knows it, of which nobody can say, or that does not
//! exist (`claim.rs`), where it says `curfew:on-idle=terminate`, or cannot be stopped. An instance of a persistent Spot request would be launched again, so its owner is only told.

use super::claim::{Claim, Disowned, Stranger};
use super::{Broken, Due, Subject, Verdict};
use crate::config::RuleAction;
use crate::instance::Purchase;
use crate::plan::{Because, OnlyTold};
use crate::rule::Ending;

/// Judges one running instance.
#[must_use]
pub fn judge(subject: Subject<'_>) -> Verdict {
    let Some(expires_at) = subject.says.expires_at.filter(|at| *at <= subject.now) else {
        return Verdict::Kept;
    };
    let terminate = is_of_a_job(subject.claim)
        || subject.says.on_idle == Some(RuleAction::Terminate)
        || subject.cannot_be_stopped();
    let due = match subject.instance.purchase {
        Purchase::SpotPersistent => Due::Tell(OnlyTold::PersistentSpot),
        Purchase::SpotUnknown => Due::Tell(OnlyTold::SpotRequestUnknown),
        _ if terminate => Due::Now(Ending::Terminate, expires_at),
        _ => Due::Now(Ending::Stop, expires_at),
    };
    Verdict::Broken(Broken { because: Because::Expired { expires_at }, due })
}

/// A tag that was copied from a job's machine takes nobody's disks. Of a job of which nobody can say, or whose state was lost, its own timer
/// would have terminated it.
const fn is_of_a_job(claim: Claim<'_>) -> bool {
    match claim {
        Claim::Ours(_) | Claim::Unsayable(_) => true,
        Claim::Stranger(Stranger { why, .. }) => matches!(why, Disowned::NoJob),
        Claim::None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Given, instance};

    fn check(given: Given, expect: Option<Due>) {
        let found = match given.judge(judge) {
            Verdict::Broken(broken) => Some(broken.due),
            _ => None,
        };
        assert_eq!(found, expect);
    }

    const PAST: &str = "2026-09-01T11:00:00Z";

    fn at() -> jiff::Timestamp {
        PAST.parse().unwrap()
    }

    #[test]
    fn ends_at_its_moment_and_not_before() {
        check(instance().into(), None);
        check(instance().tag("curfew:expires-at", "2026-09-01T12:00:01Z").into(), None);
        check(
            instance().tag("curfew:expires-at", "2026-09-01T12:00:00Z").into(),
            Some(Due::Now(Ending::Stop, "2026-09-01T12:00:00Z".parse().unwrap())),
        );
        check(instance().tag("curfew:expires-at", PAST).into(), Some(Due::Now(Ending::Stop, at())));
    }

    #[test]
    fn is_terminated_where_it_says_so_or_must_be() {
        let expired = || instance().tag("curfew:expires-at", PAST);
        let terminate = Some(Due::Now(Ending::Terminate, at()));
        check(expired().tag("curfew:job", "vision/a-1").into(), terminate);
        check(expired().tag("curfew:on-idle", "terminate").into(), terminate);
        check(expired().purchase(Purchase::SpotOneTime).into(), terminate);
        check(expired().root_on_instance_storage().into(), terminate);
        check(expired().purchase(Purchase::SpotPersistent).into(), Some(Due::Tell(OnlyTold::PersistentSpot)));
    }
}
