//! The rules, one file each. Each begins with the meaning of its rule, and has everything else about it.

pub mod expired;
pub mod hours;
pub mod idle;
pub mod lifetime;
pub mod orphaned;
pub mod over_budget;
pub mod unlisted_project;
pub mod untagged;

use jiff::Timestamp;
use model::rule::Rule;
use plan::report::RecordedEvidence;

use crate::explain::UpcomingViolation;
use crate::policy::{DueAction, Verdict};
use crate::subject::Subject;

/// Everything that Curfew knows about one rule for what runs: instances and resources of `SageMaker`.
pub(crate) trait RunningRule: Sync {
    fn rule(&self) -> Rule;

    /// Judges a running resource. A violation has the facts, the sentence and the remedy in its evidence.
    fn judge(&self, subject: Subject<'_>) -> Verdict;

    /// The reason for a verdict other than a violation, for `curfew explain`.
    fn compliant_because(&self, subject: Subject<'_>, verdict: &Verdict) -> String;

    /// The earliest time at which a compliant resource violates the rule, if only time passes.
    fn violated_from(&self, subject: Subject<'_>) -> Option<Timestamp>;

    /// The action that is due at the time of [`Self::violated_from`]; `None` if it depends on more than time.
    fn due_then(&self, subject: Subject<'_>) -> Option<DueAction> {
        match self.judge(subject) {
            Verdict::Violated(violation) => Some(violation.due),
            Verdict::Compliant | Verdict::Unknown => None,
        }
    }

    /// The evidence of a step with that action in a few words, for a table. The step may be one of an earlier or a later version: `None`
    /// if a fact is missing.
    fn summarize(&self, evidence: &RecordedEvidence, action: &str) -> Option<String>;
}

/// The rules for what runs, in the order of [`Rule`].
const RUNNING: [&dyn RunningRule; Rule::RUNNING.len()] = [
    &expired::Expired,
    &over_budget::OverBudget,
    &untagged::Untagged,
    &unlisted_project::UnlistedProject,
    &idle::Idle,
    &hours::Hours,
    &lifetime::Lifetime,
];

fn find(rule: Rule) -> Option<&'static dyn RunningRule> {
    RUNNING.into_iter().find(|running| running.rule() == rule)
}

/// The verdict of a rule about a running resource.
#[must_use]
pub fn judge(rule: Rule, subject: Subject<'_>) -> Verdict {
    find(rule).map_or(Verdict::Compliant, |rule| rule.judge(subject))
}

/// The evidence of a verdict in words.
pub(crate) fn explain(rule: Rule, subject: Subject<'_>, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Violated(violation) => violation.evidence.explain(),
        _ => find(rule).map(|rule| rule.compliant_because(subject, verdict)).unwrap_or_default(),
    }
}

/// The next violation of a rule that is not violated, if nothing about the resource changes but the time.
pub(crate) fn upcoming(rule: Rule, subject: Subject<'_>, verdict: &Verdict) -> Option<UpcomingViolation> {
    if *verdict != Verdict::Compliant {
        return None;
    }
    let rule = find(rule)?;
    let at = rule.violated_from(subject).filter(|at| *at > subject.now)?;
    // The next run sees an expiry before its time.
    let then = Subject { now: at, expiry_seen: subject.curfew_tags.expires_at, ..subject };
    Some(UpcomingViolation { at, due: rule.due_then(then) })
}

/// The evidence of a recorded step in a few words, for a table: `GPU at 0 % since 2026-09-01T10:50`. Evidence of a rule that this version
/// does not know is listed as it is.
#[must_use]
pub fn summarize(evidence: &RecordedEvidence, action: &str) -> String {
    evidence.describe(|evidence| match Rule::read(&evidence.rule)? {
        Rule::Orphaned => orphaned::summarize(evidence),
        rule => find(rule)?.summarize(evidence, action),
    })
}

#[cfg(test)]
mod tests;
