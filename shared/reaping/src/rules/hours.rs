//! **Hours**, if and only if
//! - the resource carries `curfew:hours`,
//! - and either the end of its hours is nearer than the notice,
//! - or its hours have ended and it was launched before that end. (Started by hand outside its hours, it is left until
//!   the next end.)
//!
//! The notice is 30 minutes for instances, and an hour for `SageMaker`. The stop is announced so long before the end, and carried out at it;
//! where no run announced it before the end, that time after it was announced. At the next start it is started again if Curfew stopped it:
//! see [`start_is_due`].

use jiff::Timestamp;
use model::config::RuleAction;
use model::curfew_tags::CurfewTags;
use model::hours::{Hours as Schedule, HoursPosition};
use model::instance::{Instance, InstanceState};
use model::moment::{after, before};
use model::notification_log::{CarriedOut, ResourceRecord};
use model::rule::{ResourceAction, Rule};
use plan::report::RecordedEvidence;
use plan::{Evidence, Facts};

use super::RunningRule;
use crate::policy::{DueAction, Verdict, Violation};
use crate::subject::Subject;

pub(crate) struct Hours;

impl RunningRule for Hours {
    fn rule(&self) -> Rule {
        Rule::Hours
    }

    fn judge(&self, subject: Subject<'_>) -> Verdict {
        let Some(hours) = &subject.curfew_tags.hours else { return Verdict::Compliant };
        let Some((end, deadline)) = end_of_hours(hours, subject) else { return Verdict::Compliant };
        let due = match subject.feasible(Rule::Hours, RuleAction::Stop) {
            Err(notify_only) => DueAction::NotifyOnly(notify_only),
            Ok(ending) => DueAction::After(ending, deadline),
        };
        let sentence = if end > subject.now {
            format!("its hours ({hours}) end at {end}")
        } else {
            format!("outside its hours ({hours}) since {end}")
        };
        let evidence = evidence(hours, end, sentence).with_remedy("Change curfew:hours if it should run longer.");
        Verdict::Violated(Violation { evidence, due, since: Some(end) })
    }

    fn compliant_because(&self, subject: Subject<'_>, _: &Verdict) -> String {
        let Some(hours) = &subject.curfew_tags.hours else {
            return "it carries no curfew:hours".to_owned();
        };
        match hours.position(subject.now) {
            HoursPosition::Inside { until: Some(end), .. } => format!("within its hours ({hours}) until {end}"),
            HoursPosition::Inside { until: None, .. } => format!("within its hours ({hours})"),
            HoursPosition::Outside { .. } => {
                format!("outside its hours ({hours}), but started after they ended; skipped until they end again")
            }
        }
    }

    fn violated_from(&self, subject: Subject<'_>) -> Option<Timestamp> {
        let hours = subject.curfew_tags.hours.as_ref()?;
        let end_from = |at: Timestamp| match hours.position(at) {
            HoursPosition::Inside { until, .. } => until,
            HoursPosition::Outside { .. } => None,
        };
        let end = match hours.position(subject.now) {
            HoursPosition::Inside { until, .. } => until,
            HoursPosition::Outside { until, .. } => end_from(until?),
        };
        Some(before(end?, subject.hours_notice()))
    }

    fn summarize(&self, evidence: &RecordedEvidence, action: &str) -> Option<String> {
        let hours = evidence.text("hours")?;
        Some(match action {
            "start" => format!("within {hours}"),
            "mark" => format!("{hours} end at {} UTC", evidence.text("at")?.get(11..16)?),
            _ => format!("outside {hours}"),
        })
    }
}

/// The evidence for a start, where the hours began then.
pub(crate) fn evidence_of_start(curfew_tags: &CurfewTags, began: Timestamp) -> Evidence {
    let hours = curfew_tags.hours.as_ref().map(ToString::to_string).unwrap_or_default();
    let sentence = format!("within its hours ({hours}) since {began}");
    evidence(hours, began, sentence)
}

fn evidence(hours: impl ToString, at: Timestamp, sentence: String) -> Evidence {
    let facts = [("hours", hours.to_string().into()), ("at", at.to_string().into())];
    Evidence::new(Rule::Hours, Facts::named(facts), sentence)
}

/// The end of the hours, past or near, and the deadline of an announcement that is made now; `None` while it complies.
fn end_of_hours(hours: &Schedule, subject: Subject<'_>) -> Option<(Timestamp, Timestamp)> {
    let (notice, now) = (subject.hours_notice(), subject.now);
    match hours.position(now) {
        HoursPosition::Inside { until: Some(end), .. } if end.duration_since(now) <= notice => Some((end, end)),
        HoursPosition::Outside { since: Some(end), .. } if subject.running_since < end => {
            Some((end, after(now, notice)))
        }
        HoursPosition::Inside { .. } | HoursPosition::Outside { .. } => None,
    }
}

/// The stop that Curfew carried out on an instance and that still stands, by its record: a launch since then voids it, unless that start
/// failed (EC2 gives a start that failed a launch time as well).
#[must_use]
pub fn standing_stop(instance: &Instance, record: Option<&ResourceRecord>) -> Option<CarriedOut> {
    let record = record?;
    let stands = record.is_about(instance.launched_at) || instance.last_start_failed().is_some();
    record.carried_out.filter(|done| stands && done.action == ResourceAction::Stop)
}

/// Time since which a stopped instance should run; `None` if Curfew does not start it. Curfew starts it if its hours have begun after Curfew stopped
/// it for a reason that ends with the night. An instance that was stopped because it expired, has no owner, or is too old stays stopped.
#[must_use]
pub fn start_is_due(
    instance: &Instance,
    curfew_tags: &CurfewTags,
    record: Option<&ResourceRecord>,
    now: Timestamp,
) -> Option<Timestamp> {
    let stopped = standing_stop(instance, record).filter(|_| instance.state == InstanceState::Stopped)?;
    // A start that failed is a launch as well, and nobody's own.
    let launched_at = if instance.last_start_failed().is_some() { stopped.at } else { instance.launched_at };
    start_of_stopped(launched_at, curfew_tags, stopped, now)
}

/// [`start_is_due`] for any kind of resource that Curfew stopped, by the time of its last launch.
pub(crate) fn start_of_stopped(
    launched_at: Timestamp,
    curfew_tags: &CurfewTags,
    stopped: CarriedOut,
    now: Timestamp,
) -> Option<Timestamp> {
    let hours = curfew_tags.hours.as_ref()?;
    let ends_with_the_night = matches!(stopped.rule, Rule::Hours | Rule::Idle);
    let expired = curfew_tags.expires_at.is_some_and(|at| at <= now);
    if !ends_with_the_night || expired {
        return None;
    }
    match hours.position(now) {
        HoursPosition::Outside { .. } => None,
        HoursPosition::Inside { since: Some(began), .. } => {
            // Somebody started it by hand after that, and stopped it again.
            let overtaken = stopped.at < launched_at && launched_at < began;
            (!overtaken && began > stopped.at).then_some(began)
        }
        // By now its hours are the whole week: there is no next start to wait for.
        HoursPosition::Inside { since: None, .. } => (stopped.rule == Rule::Hours).then_some(stopped.at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{RuleInput, instance};
    use plan::NotifyOnlyReason;

    const OFFICE: &str = "Mon-Fri 08:00-20:00 Europe/Berlin";

    /// `expect` is the deadline of an end that is first announced at `now`; 2026-09-01 is a Tuesday, and Berlin at +02:00.
    fn check(launched: &str, now: &str, expect: Option<&str>) {
        let input = RuleInput::from(instance().launched(launched).tag("curfew:hours", OFFICE)).at_time(now);
        let deadline = match input.judge(|subject| Hours.judge(subject)) {
            Verdict::Violated(Violation { due: DueAction::After(_, deadline), .. }) => Some(deadline.to_string()),
            _ => None,
        };
        assert_eq!(deadline.as_deref(), expect, "launched {launched}, now {now}");
    }

    #[test]
    fn is_announced_thirty_minutes_before_the_end() {
        check("2026-08-31T07:00:00Z", "2026-09-01T17:29:59Z", None);
        check("2026-08-31T07:00:00Z", "2026-09-01T17:30:00Z", Some("2026-09-01T18:00:00Z"));
        check("2026-08-31T07:00:00Z", "2026-09-01T17:58:00Z", Some("2026-09-01T18:00:00Z"));
    }

    #[test]
    fn found_outside_its_hours_it_has_thirty_minutes() {
        check("2026-08-31T07:00:00Z", "2026-09-01T20:00:00Z", Some("2026-09-01T20:30:00Z"));
    }

    #[test]
    fn started_by_hand_outside_its_hours_it_is_left_until_the_next_end() {
        check("2026-09-01T19:00:00Z", "2026-09-01T20:00:00Z", None);
        check("2026-09-01T19:00:00Z", "2026-09-02T12:00:00Z", None);
        check("2026-09-01T19:00:00Z", "2026-09-02T17:45:00Z", Some("2026-09-02T18:00:00Z"));
    }

    #[test]
    fn a_kept_local_disk_is_notify_only() {
        let keep = instance()
            .launched("2026-08-31T07:00:00Z")
            .instance_storage(250)
            .tag("curfew:local-disk", "keep")
            .tag("curfew:hours", OFFICE);
        let verdict = RuleInput::from(keep).at_time("2026-09-01T20:00:00Z").judge(|subject| Hours.judge(subject));
        assert!(matches!(
            verdict,
            Verdict::Violated(Violation { due: DueAction::NotifyOnly(NotifyOnlyReason::LocalDisk), .. })
        ));
    }

    fn check_start(stopped: &str, now: &str, expect: bool) {
        check_start_with(OFFICE, stopped, now, expect);
    }

    fn check_start_with(hours: &str, stopped: &str, now: &str, expect: bool) {
        let (rule, at) = stopped.split_once(' ').unwrap();
        let carried_out =
            CarriedOut { rule: Rule::read(rule).unwrap(), action: ResourceAction::Stop, at: at.parse().unwrap() };
        let launched = "2026-08-31T07:00:00Z";
        let record =
            ResourceRecord { carried_out: Some(carried_out), ..ResourceRecord::about(launched.parse().unwrap()) };
        let starts = |record: Option<&ResourceRecord>, launched: &str| {
            // The label is no proof.
            let instance = instance()
                .launched(launched)
                .state(InstanceState::Stopped)
                .tag("curfew:hours", hours)
                .tag("curfew:stopped", stopped)
                .build();
            let curfew_tags = CurfewTags::read(&instance).unwrap();
            start_is_due(&instance, &curfew_tags, record, now.parse().unwrap()).is_some()
        };
        assert_eq!(starts(Some(&record), launched), expect, "stopped {stopped}, now {now}");
        assert!(!starts(None, launched) && !starts(Some(&record), "2026-09-01T03:00:00Z"), "stopped {stopped}");
    }

    #[test]
    fn starts_in_the_morning_what_curfew_stopped_for_the_night() {
        check_start("hours 2026-09-01T18:00:05Z", "2026-09-02T05:59:00Z", false);
        check_start("hours 2026-09-01T18:00:05Z", "2026-09-02T06:00:00Z", true);
        check_start("hours 2026-09-01T18:00:05Z", "2026-09-02T09:00:00Z", true);
        check_start("idle 2026-09-01T12:00:00Z", "2026-09-02T06:00:00Z", true);
    }

    #[test]
    fn starts_what_was_stopped_for_the_night_and_is_to_run_all_the_week() {
        let always = "Mon-Sun 00:00-24:00 UTC";
        check_start_with(always, "hours 2026-09-01T18:00:05Z", "2026-09-01T18:05:00Z", true);
        check_start_with(always, "idle 2026-09-01T18:00:05Z", "2026-09-01T18:05:00Z", false);
    }

    #[test]
    fn leaves_stopped_what_was_stopped_for_another_reason() {
        check_start("idle 2026-09-02T08:00:00Z", "2026-09-02T09:00:00Z", false);
        check_start("expired 2026-09-01T12:00:00Z", "2026-09-02T06:00:00Z", false);
        check_start("untagged 2026-09-01T12:00:00Z", "2026-09-02T06:00:00Z", false);
    }
}
