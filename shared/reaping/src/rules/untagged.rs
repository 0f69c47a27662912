//! **Untagged**, if and only if
//! - the instance lacks a required tag, or its value is blank; or it names a job that does not know it (`job_ownership.rs`),
//! - and it was launched longer than `settle` ago: tags of fleets and Auto Scaling groups arrive late.
//!
//! With `spare_busy`, positive evidence of work turns the action into notify; an announcement made before stays, and is
//! carried out once the work is over. Where no query asked whether it works, or none was answered, nothing is announced or carried
//! out.

use model::moment::after;
use model::usage::{UnknownUsage, Usage};
use plan::{Evidence, NotifyOnlyReason};

use crate::job_ownership::{JobOwnership, RejectedClaim};
use crate::policy::{DueAction, InstanceSubject, Verdict, Violation};

/// The evidence: the required tags that it lacks, and had time to get; and the job that does not know it.
#[must_use]
pub fn missing_tags_evidence(subject: InstanceSubject<'_>) -> Option<Evidence> {
    let missing = subject.missing_tags();
    let disowned_by = disowned_by(subject).map(|stranger| stranger.job.to_owned());
    let settled = after(subject.instance.launched_at, subject.config.untagged.settle) <= subject.now;
    (settled && (!missing.is_empty() || disowned_by.is_some())).then_some(Evidence::Untagged { missing, disowned_by })
}

/// Whether its `curfew:job` is not believed.
#[must_use]
pub const fn disowned_by(subject: InstanceSubject<'_>) -> Option<RejectedClaim<'_>> {
    match subject.ownership {
        JobOwnership::NotOwned(stranger) => Some(stranger),
        JobOwnership::None | JobOwnership::Owned(_) | JobOwnership::Unknown(_) => None,
    }
}

/// Judges one running instance.
#[must_use]
pub fn judge(subject: InstanceSubject<'_>) -> Verdict {
    let rule = &subject.config.untagged;
    let Some(evidence) = missing_tags_evidence(subject) else { return Verdict::Compliant };
    let due = match subject.feasible(rule.action, subject.own_local_disk()) {
        Err(notify_only) => DueAction::NotifyOnly(notify_only),
        Ok(_) if rule.spare_busy && matches!(subject.usage, Usage::Busy(_)) => {
            DueAction::NotifyOnly(NotifyOnlyReason::Busy)
        }
        Ok(_) if rule.spare_busy && matches!(subject.usage, Usage::Unknown(UnknownUsage::NotAsked)) => {
            return Verdict::Unknown;
        }
        Ok(ending) => DueAction::After(ending, after(subject.now, rule.grace)),
    };
    Verdict::Violated(Violation { evidence, due })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{RuleInput, busy, instance, jobs, placed, untagged};
    use jobs::Phase;
    use model::rule::ResourceAction;

    fn check(given: RuleInput, expect: Option<(&[&str], Option<ResourceAction>)>) {
        let verdict = given.judge(judge);
        let found = match &verdict {
            Verdict::Violated(Violation {
                evidence: Evidence::Untagged { missing, .. },
                due: DueAction::After(ending, _),
            }) => Some((missing.clone(), Some(*ending))),
            Verdict::Violated(Violation { evidence: Evidence::Untagged { missing, .. }, .. }) => {
                Some((missing.clone(), None))
            }
            _ => None,
        };
        let expect =
            expect.map(|(missing, ending)| (missing.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(), ending));
        assert_eq!(found, expect);
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
    }
}
