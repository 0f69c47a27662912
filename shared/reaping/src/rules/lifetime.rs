//! **Lifetime**, if and only if
//! - the resource carries no `curfew:expires-at`, by which its owner said how long it may live,
//! - it is none that serves, such as an endpoint of `SageMaker`, which runs for as long as it is needed,
//! - and it was launched longer than `[lifetime].max` ago.

use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use model::moment::after;
use model::rule::Rule;
use plan::report::RecordedEvidence;
use plan::{Evidence, Facts};

use super::RunningRule;
use crate::policy::{Verdict, Violation};
use crate::subject::Subject;

pub(crate) struct Lifetime;

impl RunningRule for Lifetime {
    fn rule(&self) -> Rule {
        Rule::Lifetime
    }

    fn judge(&self, subject: Subject<'_>) -> Verdict {
        let rule = &subject.config.lifetime;
        if !is_bound(subject) || subject.now.duration_since(subject.running_since) <= rule.max {
            return Verdict::Compliant;
        }
        let since = subject.running_since;
        let facts = [("launched_at", since.to_string().into()), ("max_seconds", rule.max.as_secs().into())];
        let sentence = format!("it has run since {since}, longer than {}", format_duration(rule.max));
        let evidence = Evidence::new(Rule::Lifetime, Facts::named(facts), sentence)
            .with_remedy("Set curfew:expires-at to the time until which it may run.");
        Verdict::Violated(Violation::new(evidence, subject.due_after(Rule::Lifetime, rule.action, rule.grace)))
    }

    fn compliant_because(&self, subject: Subject<'_>, _: &Verdict) -> String {
        if subject.serves() {
            return "what serves runs for as long as it is needed".to_owned();
        }
        if let Some(at) = subject.curfew_tags.expires_at {
            return format!("its owner set curfew:expires-at={at}");
        }
        let age = format_duration(subject.now.duration_since(subject.running_since));
        format!("it has run for {age}; the limit is {}", format_duration(subject.config.lifetime.max))
    }

    fn violated_from(&self, subject: Subject<'_>) -> Option<Timestamp> {
        // Not yet at the limit itself, but right after it.
        let limit = after(subject.running_since, subject.config.lifetime.max);
        is_bound(subject).then(|| after(limit, SignedDuration::from_secs(1)))
    }

    fn summarize(&self, evidence: &RecordedEvidence, _: &str) -> Option<String> {
        Some(format!("runs since {}", evidence.minute("launched_at")?))
    }
}

fn is_bound(subject: Subject<'_>) -> bool {
    subject.curfew_tags.expires_at.is_none() && !subject.serves()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{RuleInput, instance};
    use crate::policy::DueAction;
    use model::rule::ResourceAction;
    use plan::NotifyOnlyReason;

    fn check(input: RuleInput, expect: Option<Result<ResourceAction, NotifyOnlyReason>>) {
        let outcome = match input.judge(|subject| Lifetime.judge(subject)) {
            Verdict::Violated(Violation { due: DueAction::After(ending, _), .. }) => Some(Ok(ending)),
            Verdict::Violated(Violation { due: DueAction::NotifyOnly(why), .. }) => Some(Err(why)),
            _ => None,
        };
        assert_eq!(outcome, expect);
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
