//! **Lifetime**, if and only if
//! - the instance carries no `curfew:expires-at`, by which its owner said how long it may live,
//! - and it was launched longer than `[lifetime].max` ago.

use jiff::SignedDuration;
use model::moment::after;
use plan::Evidence;

use crate::policy::{DueAction, InstanceSubject, Verdict, Violation};

/// Judges one running instance.
#[must_use]
pub fn judge(subject: InstanceSubject<'_>) -> Verdict {
    let rule = &subject.config.lifetime;
    let age: SignedDuration = subject.now.duration_since(subject.instance.launched_at);
    if subject.curfew_tags.expires_at.is_some() || age <= rule.max {
        return Verdict::Compliant;
    }
    let due = match subject.feasible(rule.action, subject.own_local_disk()) {
        Err(notify_only) => DueAction::NotifyOnly(notify_only),
        Ok(ending) => DueAction::After(ending, after(subject.now, rule.grace)),
    };
    Verdict::Violated(Violation {
        evidence: Evidence::Lifetime { launched_at: subject.instance.launched_at, max: rule.max },
        due,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{RuleInput, instance};
    use model::rule::ResourceAction;
    use plan::NotifyOnlyReason;

    fn check(given: RuleInput, expect: Option<Result<ResourceAction, NotifyOnlyReason>>) {
        let found = match given.judge(judge) {
            Verdict::Violated(Violation { due: DueAction::After(ending, _), .. }) => Some(Ok(ending)),
            Verdict::Violated(Violation { due: DueAction::NotifyOnly(why), .. }) => Some(Err(why)),
            _ => None,
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn counts_from_launch_and_yields_to_the_owners_own_end() {
        check(instance().launched("2026-08-25T12:00:00Z").into(), None);
        check(instance().launched("2026-08-25T11:59:59Z").into(), Some(Err(NotifyOnlyReason::Configured)));
        check(
            instance().launched("2026-08-01T00:00:00Z").tag("curfew:expires-at", "2026-12-31T00:00:00Z").into(),
            None,
        );
        check(
            RuleInput::from(instance().launched("2026-08-01T00:00:00Z")).config("[lifetime]\naction = \"stop\""),
            Some(Ok(ResourceAction::Stop)),
        );
    }
}
