//! **Hours**, if and only if
//! - the instance carries `curfew:hours`,
//! - and either it is less than 30 minutes until the end of its hours,
//! - or its hours have ended and it was launched before that end. (Started by hand outside its hours, it is left until
//!   the next end.)
//!
//! It is announced 30 minutes before the end and stopped at it; where no run announced it before the end, 30 minutes
//! after it was announced. At the next start it is started again if Curfew stopped it: see [`start_is_due`].

use jiff::{SignedDuration, Timestamp};
use model::config::RuleAction;
use model::curfew_tags::CurfewTags;
use model::hours::{Hours, HoursPosition};
use model::instance::{Instance, InstanceState};
use model::moment::after;
use model::notification_log::{CarriedOut, ResourceRecord};
use model::rule::{ResourceAction, Rule};
use plan::Evidence;

use crate::policy::{DueAction, InstanceSubject, Verdict, Violation};

/// Between the announcement and the end.
pub const NOTICE: SignedDuration = SignedDuration::from_mins(30);

/// What is launched then and has these hours: when they end, or have ended, and the deadline of an announcement that is made now; `None`
/// while it complies.
pub(crate) fn end_of_hours(
    hours: &Hours,
    launched_at: Timestamp,
    notice: SignedDuration,
    now: Timestamp,
) -> Option<(Timestamp, Timestamp)> {
    match hours.position(now) {
        HoursPosition::Inside { until: Some(end), .. } if end.duration_since(now) <= notice => Some((end, end)),
        HoursPosition::Outside { since: Some(end), .. } if launched_at < end => Some((end, after(now, notice))),
        HoursPosition::Inside { .. } | HoursPosition::Outside { .. } => None,
    }
}

/// Judges one running instance.
#[must_use]
pub fn judge(subject: InstanceSubject<'_>) -> Verdict {
    let Some(hours) = &subject.curfew_tags.hours else {
        return Verdict::Compliant;
    };
    let Some((end, deadline)) = end_of_hours(hours, subject.instance.launched_at, NOTICE, subject.now) else {
        return Verdict::Compliant;
    };
    let due = match subject.feasible_at_owners_word() {
        Err(notify_only) => DueAction::NotifyOnly(notify_only),
        Ok(ending) => DueAction::After(ending, deadline),
    };
    Verdict::Violated(Violation { evidence: Evidence::Hours { hours: hours.to_string(), at: end }, due })
}

impl InstanceSubject<'_> {
    /// As for an inferred end, but a reservation is no reason to run on: the owner asked for the stop.
    fn feasible_at_owners_word(self) -> Result<model::rule::ResourceAction, plan::NotifyOnlyReason> {
        let unreserved = Instance { prepaid: None, ..self.instance.clone() };
        InstanceSubject { instance: &unreserved, ..self }.feasible(RuleAction::Stop, self.own_local_disk())
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

/// Whether a stopped instance starts now, and since when it should run: its hours have begun after Curfew stopped it for a
/// reason that ends with the night. What was stopped because it expired, has no owner, or is too old stays stopped.
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

/// The same for anything that Curfew stopped, and that was launched then for the last time.
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
        let given = RuleInput::from(instance().launched(launched).tag("curfew:hours", OFFICE)).at_time(now);
        let found = match given.judge(judge) {
            Verdict::Violated(Violation { due: DueAction::After(_, deadline), .. }) => Some(deadline.to_string()),
            _ => None,
        };
        assert_eq!(found.as_deref(), expect, "launched {launched}, now {now}");
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
    fn a_disk_that_its_owner_keeps_is_only_told() {
        let keep = instance()
            .launched("2026-08-31T07:00:00Z")
            .instance_storage(250)
            .tag("curfew:local-disk", "keep")
            .tag("curfew:hours", OFFICE);
        let verdict = RuleInput::from(keep).at_time("2026-09-01T20:00:00Z").judge(judge);
        assert!(matches!(
            verdict,
            Verdict::Violated(Violation { due: DueAction::NotifyOnly(NotifyOnlyReason::LocalDisk), .. })
        ));
    }

    fn check_start(stopped: &str, now: &str, expect: bool) {
        check_start_of(OFFICE, stopped, now, expect);
    }

    fn check_start_of(hours: &str, stopped: &str, now: &str, expect: bool) {
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
        check_start_of(always, "hours 2026-09-01T18:00:05Z", "2026-09-01T18:05:00Z", true);
        check_start_of(always, "idle 2026-09-01T18:00:05Z", "2026-09-01T18:05:00Z", false);
    }

    #[test]
    fn leaves_stopped_what_was_stopped_for_another_reason() {
        check_start("idle 2026-09-02T08:00:00Z", "2026-09-02T09:00:00Z", false);
        check_start("expired 2026-09-01T12:00:00Z", "2026-09-02T06:00:00Z", false);
        check_start("untagged 2026-09-01T12:00:00Z", "2026-09-02T06:00:00Z", false);
    }
}
