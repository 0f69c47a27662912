//! **Expired**, if and only if
//! - the resource carries `curfew:expires-at`, or is the machine of a job, whose state has its deadline,
//! - and that time has passed.
//!
//! No tag moves the deadline of a job's machine, or makes Curfew only observe it; only `curfew:protected` makes Curfew skip it
//! (`instances/skip.rs`).
//!
//! Where Curfew saw the tag before its time, or the state of its job has that deadline, that happens at once. Otherwise the time may be a
//! mistake, or be written by a stranger, also on a job's machine: it is announced, waits 15 minutes and counts in `[limits]`.
//!
//! An instance is stopped. It is terminated if it belongs, or may belong, to the job of its `curfew:job`, or if that job does not exist
//! (`job_ownership.rs`); also with `curfew:on-idle=terminate`, or if it cannot be stopped. An instance of a persistent Spot request would
//! be launched again, so it is notify only.
//!
//! A snapshot that Curfew made expires too, `keep_snapshots` after the deletion of its volume (`volumes/snapshots.rs`).

use jiff::{SignedDuration, Timestamp};
use model::config::RuleAction;
use model::id::ResourceId;
use model::moment::after;
use model::rule::Rule;
use plan::report::RecordedEvidence;
use plan::{Evidence, Facts};

use super::RunningRule;
use crate::policy::{DueAction, Verdict, Violation};
use crate::subject::Subject;

/// Time between the announcement of an expiry that had passed when Curfew first saw it, and the action.
const FIRST_SEEN_PAST_GRACE: SignedDuration = SignedDuration::from_mins(15);

pub(crate) struct Expired;

impl RunningRule for Expired {
    fn rule(&self) -> Rule {
        Rule::Expired
    }

    fn judge(&self, subject: Subject<'_>) -> Verdict {
        let moments = subject.curfew_tags.expires_at.into_iter().chain(subject.job_deadline);
        let is_known = |at: Timestamp| [subject.job_deadline, subject.expiry_seen].contains(&Some(at));
        let Some(expires_at) = moments.filter(|at| *at <= subject.now).min_by_key(|at| (!is_known(*at), *at)) else {
            return Verdict::Compliant;
        };
        let is_known = is_known(expires_at);
        let due = match subject.feasible(Rule::Expired, RuleAction::Stop) {
            Err(notify_only) => DueAction::NotifyOnly(notify_only),
            Ok(ending) if is_known => DueAction::AtOnce(ending, expires_at),
            Ok(ending) => DueAction::After(ending, after(subject.now, FIRST_SEEN_PAST_GRACE)),
        };
        Verdict::Violated(Violation::new(evidence(expires_at, is_known), due))
    }

    fn compliant_because(&self, subject: Subject<'_>, _: &Verdict) -> String {
        match subject.curfew_tags.expires_at {
            Some(at) => format!("its curfew:expires-at ({at}) is in the future"),
            None => "it carries no curfew:expires-at".to_owned(),
        }
    }

    fn violated_from(&self, subject: Subject<'_>) -> Option<Timestamp> {
        subject.curfew_tags.expires_at
    }

    fn summarize(&self, evidence: &RecordedEvidence, _: &str) -> Option<String> {
        let expires_at = evidence.minute("expires_at")?;
        Some(match evidence.text("volume") {
            Some(volume) => format!("of {volume}, kept until {expires_at}"),
            None => format!("expired {expires_at}"),
        })
    }
}

fn evidence(expires_at: Timestamp, is_known: bool) -> Evidence {
    let expiry = ("expires_at", expires_at.to_string().into());
    if is_known {
        let sentence = format!("its curfew:expires-at ({expires_at}) has passed");
        return Evidence::new(Rule::Expired, Facts::named([expiry]), sentence);
    }
    let sentence = format!("its curfew:expires-at ({expires_at}) had passed when Curfew first saw it");
    Evidence::new(Rule::Expired, Facts::named([expiry, ("first_seen_past", true.into())]), sentence).unscheduled()
}

/// The evidence for the end of a snapshot that Curfew made of a volume that is gone.
pub(crate) fn evidence_of_snapshot(volume: ResourceId, deleted_at: Timestamp, expires_at: Timestamp) -> Evidence {
    let sentence = format!("the safety snapshot of {volume} (deleted at {deleted_at}) was kept until {expires_at}");
    Evidence::new(Rule::Expired, Facts::SnapshotExpired { volume, deleted_at, expires_at }, sentence).unscheduled()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InstanceBuilder, NOW, RuleInput, instance, jobs, placed};
    use ::jobs::{JobMachine, Phase};
    use model::instance::PurchaseOption;
    use model::rule::ResourceAction;
    use plan::NotifyOnlyReason;

    fn check(input: RuleInput, expect: Option<DueAction>) {
        let due = match input.judge(|subject| Expired.judge(subject)) {
            Verdict::Violated(violation) => Some(violation.due),
            _ => None,
        };
        assert_eq!(due, expect);
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
        let input = || RuleInput::from(instance().tag("curfew:expires-at", PAST));
        let after = Some(DueAction::After(ResourceAction::Stop, "2026-09-01T12:15:00Z".parse().unwrap()));
        check(input(), after);
        check(input().expiry_seen("2026-09-01T11:30:00Z"), after);
        check(input().expiry_seen(PAST), Some(DueAction::AtOnce(ResourceAction::Stop, expiry())));
    }

    #[test]
    fn a_tag_moves_no_deadline_of_a_jobs_machine() {
        let input = |ends_at: &str, tag: &str| {
            let machine = JobMachine { ends_at: ends_at.parse().unwrap(), ..placed("i-0abc", "us-east-1") };
            let tagged = instance().tag("curfew:job", "vision/llama-0123abcd").tag("curfew:attempt", "2");
            RuleInput::from(tagged.tag("curfew:expires-at", tag)).jobs(jobs(Phase::Running(machine)))
        };
        let later = "2026-09-02T12:00:00Z";
        let waits = DueAction::After(ResourceAction::Terminate, "2026-09-01T12:15:00Z".parse().unwrap());
        check(input(later, PAST), Some(waits));
        check(input(later, "2027-01-01T00:00:00Z"), None);
        let own = DueAction::AtOnce(ResourceAction::Terminate, "2026-09-01T11:40:00Z".parse().unwrap());
        check(input("2026-09-01T11:30:00Z", PAST), Some(own));
    }

    #[test]
    fn is_terminated_by_tag_or_if_it_cannot_be_stopped() {
        let expired = || instance().tag("curfew:expires-at", PAST);
        let terminate = Some(DueAction::AtOnce(ResourceAction::Terminate, expiry()));
        let check = |builder: InstanceBuilder, expect| check(RuleInput::from(builder).expiry_seen(PAST), expect);
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
