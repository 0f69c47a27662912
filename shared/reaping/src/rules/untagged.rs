//! **Untagged**, if and only if
//! - the resource lacks a required tag, or its value is blank; or it is an instance that names a job that does not know it
//!   (`job_ownership.rs`),
//! - and it was launched longer than `settle` ago: tags of fleets and Auto Scaling groups arrive late.
//!
//! With `spare_busy`, positive evidence of work turns the action into notify; an announcement made before stays, and is
//! carried out once the work is over. Where no query asked whether it works, or none was answered, nothing is announced or carried
//! out.

use jiff::Timestamp;
use model::foreign_text::quoted_unless_word;
use model::moment::after;
use model::near_keys::describe_near_keys;
use model::rule::Rule;
use plan::report::RecordedEvidence;
use plan::{Evidence, Facts, NotifyOnlyReason};

use super::RunningRule;
use crate::job_ownership::{JobOwnership, RejectedClaim};
use crate::policy::{DueAction, Verdict, Violation};
use crate::subject::{Subject, Work};

pub(crate) struct Untagged;

impl RunningRule for Untagged {
    fn rule(&self) -> Rule {
        Rule::Untagged
    }

    fn judge(&self, subject: Subject<'_>) -> Verdict {
        let rule = &subject.config.untagged;
        let Some(evidence) = evidence(subject) else { return Verdict::Compliant };
        let due = match (subject.due_after(Rule::Untagged, rule.action, rule.grace), subject.work()) {
            (DueAction::After(..), Work::Busy) if rule.spare_busy => DueAction::NotifyOnly(NotifyOnlyReason::Busy),
            (DueAction::After(..), Work::NotAsked) if rule.spare_busy => return Verdict::Unknown,
            (due, _) => due,
        };
        Verdict::Violated(Violation::new(evidence, due))
    }

    fn compliant_because(&self, subject: Subject<'_>, verdict: &Verdict) -> String {
        let (missing, required) = (subject.missing_tags(), &subject.config.tags.required);
        if let Some(RejectedClaim { job, why }) = rejected_claim(subject) {
            let job = quoted_unless_word(job);
            return format!("its curfew:job names {job}, {}; its launch may still be in progress", why.explain());
        }
        match verdict {
            _ if required.is_empty() => "no tag is required".to_owned(),
            _ if missing.is_empty() => format!("it has all required tags ({})", required.join(", ")),
            Verdict::Unknown => {
                format!("it lacks the required tags {}, and its usage is unknown", missing.join(", "))
            }
            _ => format!("it lacks the required tags {}, which may still arrive", missing.join(", ")),
        }
    }

    fn violated_from(&self, subject: Subject<'_>) -> Option<Timestamp> {
        is_without_owner(subject).then(|| settled_at(subject))
    }

    fn summarize(&self, evidence: &RecordedEvidence, _: &str) -> Option<String> {
        let missing = evidence.texts("missing")?;
        let lacks = (!missing.is_empty()).then(|| format!("lacks {}", missing.join(", ")));
        let names = evidence.text("disowned_by").map(|job| format!("not launched by {}", quoted_unless_word(job)));
        Some(lacks.into_iter().chain(names).collect::<Vec<_>>().join(", "))
    }
}

/// The evidence: the required tags that it lacks, and had time to get; and the job that does not know it.
#[must_use]
pub fn evidence(subject: Subject<'_>) -> Option<Evidence> {
    if !is_without_owner(subject) || settled_at(subject) > subject.now {
        return None;
    }
    let missing = subject.missing_tags();
    let rejected = rejected_claim(subject).map(|claim| claim.job);
    let lacks = (!missing.is_empty()).then(|| format!("it lacks the required tags {}", missing.join(", ")));
    let names =
        rejected.map(|job| format!("its curfew:job names {}, which did not launch it", quoted_unless_word(job)));
    let set = (!missing.is_empty()).then(|| format!("Set the tags {}.", missing.join(", ")));
    let remove = rejected.map(|_| "Remove curfew:job and curfew:attempt.".to_owned());
    let hint = describe_near_keys(subject.tags, &missing, subject.config);
    let sentence = lacks.into_iter().chain(names).collect::<Vec<_>>().join(", and ");
    let remedy = set.into_iter().chain(remove).collect::<Vec<_>>().join(" ");
    let facts = [("missing", missing.into())].into_iter().chain(rejected.map(|job| ("disowned_by", job.into())));
    Some(Evidence::new(Rule::Untagged, Facts::named(facts), sentence).with_hint(hint).with_remedy(remedy))
}

/// The job that its `curfew:job` names, if that is not believed.
#[must_use]
pub const fn rejected_claim(subject: Subject<'_>) -> Option<RejectedClaim<'_>> {
    match subject.ownership {
        JobOwnership::NotOwned(claim) => Some(claim),
        JobOwnership::None | JobOwnership::Owned(_) | JobOwnership::Unknown(_) => None,
    }
}

fn is_without_owner(subject: Subject<'_>) -> bool {
    !subject.missing_tags().is_empty() || rejected_claim(subject).is_some()
}

/// Time from which on a missing tag counts.
pub(super) fn settled_at(subject: Subject<'_>) -> Timestamp {
    after(subject.created_at, subject.config.untagged.settle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{RuleInput, busy, instance, jobs, placed, untagged};
    use jobs::Phase;
    use model::rule::ResourceAction;

    fn check(input: RuleInput, expect: Option<(&[&str], Option<ResourceAction>)>) {
        let violated = match input.judge(|subject| Untagged.judge(subject)) {
            Verdict::Violated(Violation { evidence, due, .. }) => {
                let ending = match due {
                    DueAction::After(ending, _) => Some(ending),
                    _ => None,
                };
                let written = serde_json::to_value(&evidence).unwrap();
                Some((serde_json::from_value::<Vec<String>>(written["missing"].clone()).unwrap(), ending))
            }
            _ => None,
        };
        let expect =
            expect.map(|(missing, ending)| (missing.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(), ending));
        assert_eq!(violated, expect);
    }

    #[test]
    fn every_required_tag_counts_and_blank_is_absent() {
        check(instance().into(), None);
        check(untagged().into(), Some((&["Team", "Owner"], Some(ResourceAction::Stop))));
        check(instance().tag("Owner", " ").into(), Some((&["Owner"], Some(ResourceAction::Stop))));
        check(
            untagged().tag("team", "vision").tag("Owner", "ada").into(),
            Some((&["Team"], Some(ResourceAction::Stop))),
        );
    }

    #[test]
    fn a_key_in_another_case_is_named_with_the_setting() {
        let Verdict::Violated(violation) =
            RuleInput::from(instance().tag("Team", "").tag("team", "vision")).judge(|subject| Untagged.judge(subject))
        else {
            panic!("it has no team")
        };
        let said = violation.evidence.explain();
        assert!(
            said.contains("its tag \"team\" is not Team; if the account means it, set [tags] team = \"team\""),
            "{said}"
        );
    }

    #[test]
    fn tags_may_arrive_late() {
        check(untagged().launched("2026-09-01T11:51:00Z").into(), None);
        check(
            untagged().launched("2026-09-01T11:50:00Z").into(),
            Some((&["Team", "Owner"], Some(ResourceAction::Stop))),
        );
    }

    #[test]
    fn work_turns_the_action_into_notify() {
        check(RuleInput::from(untagged()).usage(busy()), Some((&["Team", "Owner"], None)));
        check(
            RuleInput::from(untagged()).usage(busy()).config("[untagged]\nspare_busy = false"),
            Some((&["Team", "Owner"], Some(ResourceAction::Stop))),
        );
    }

    #[test]
    fn a_job_that_does_not_know_it_is_evidence_too() {
        let named = |state| RuleInput::from(instance().tag("curfew:job", "vision/llama-0123abcd")).jobs(jobs(state));
        check(named(Phase::Submitted), Some((&[], Some(ResourceAction::Stop))));
        check(named(Phase::Running(placed("i-0abc", "us-east-1"))), None);
        let late = instance().tag("curfew:job", "llama").launched("2026-09-01T11:51:00Z");
        check(late.into(), None);
    }

    #[test]
    fn a_disk_that_its_owner_keeps_is_not_lost() {
        check(untagged().instance_storage(250).into(), Some((&["Team", "Owner"], Some(ResourceAction::Stop))));
        check(
            untagged().instance_storage(250).tag("curfew:local-disk", "keep").into(),
            Some((&["Team", "Owner"], None)),
        );
        check(
            untagged().instance_storage(250).tag("curfew:local-disk", "24h").into(),
            Some((&["Team", "Owner"], Some(ResourceAction::Stop))),
        );
    }
}
