//! **Lifetime**, if and only if
//! - the instance carries no `curfew:expires-at`, by which its owner said how long it may live,
//! - and it was launched longer than `[lifetime].max` ago.

use jiff::SignedDuration;

use super::{Broken, Due, Subject, Verdict};
use crate::plan::Because;

/// Judges one running instance.
#[must_use]
pub fn judge(subject: Subject<'_>) -> Verdict {
    let rule = &subject.config.lifetime;
    let age: SignedDuration = subject.now.duration_since(subject.instance.launched_at);
    if subject.says.expires_at.is_some() || age <= rule.max {
        return Verdict::Kept;
    }
    let due = match subject.feasible(rule.action, subject.own_local_disk()) {
        Err(only_told) => Due::Tell(only_told),
        Ok(ending) => Due::From(ending, subject.now + rule.grace),
    };
    Verdict::Broken(Broken {
        because: Because::Lifetime { launched_at: subject.instance.launched_at, max: rule.max },
        due,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Given, instance};
    use crate::plan::OnlyTold;
    use crate::rule::Ending;

    fn check(given: Given, expect: Option<Result<Ending, OnlyTold>>) {
        let found = match given.judge(judge) {
            Verdict::Broken(Broken { due: Due::From(ending, _), .. }) => Some(Ok(ending)),
            Verdict::Broken(Broken { due: Due::Tell(why), .. }) => Some(Err(why)),
            _ => None,
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn counts_from_launch_and_yields_to_the_owners_own_end() {
        check(instance().launched("2026-08-25T12:00:00Z").into(), None);
        check(instance().launched("2026-08-25T11:59:59Z").into(), Some(Err(OnlyTold::Configured)));
        check(
            instance().launched("2026-08-01T00:00:00Z").tag("curfew:expires-at", "2026-12-31T00:00:00Z").into(),
            None,
        );
        check(
            Given::from(instance().launched("2026-08-01T00:00:00Z")).config("[lifetime]\naction = \"stop\""),
            Some(Ok(Ending::Stop)),
        );
    }
}
