//! Facts about a running instance for the advice of budgets, by what the cache of reap-instances says.

use billing::budget::{IdleExemption, LastUsage, MachineFacts};
use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::CurfewTags;
use model::foreign::controller;
use model::instance::Instance;
use model::notification_log::NotificationLog;
use model::usage::{ActivityCache, LAG, LastInquiry, PERIOD};
use plan::{NotifyOnlyReason, SkipReason};

use super::{InstanceCase, NOT_ASKED};
use crate::engine::{ResourceCase, RunningCase};
use crate::policy::Policy;
use crate::rules::idle::{self, IdleQuality};

/// Age from which an answer counts as unknown, however long the window of the instance is.
const USAGE_AGE_MAX: SignedDuration = SignedDuration::from_hours(3);

/// The facts about one instance. What was found longer ago than reap-instances would query again is unknown.
#[must_use]
pub fn machine_facts(instance: &Instance, activity: &ActivityCache, policy: &Policy, now: Timestamp) -> MachineFacts {
    let log = &NotificationLog::default();
    let case = InstanceCase { instance, usage: &NOT_ASKED, log, standings: None, policy, now };
    let curfew_tags = CurfewTags::read(instance).unwrap_or_default();
    let window = idle::window(&curfew_tags, &policy.config).unwrap_or(policy.config.idle.window);
    let age_max = window.saturating_add(LAG).saturating_add(PERIOD).saturating_add(PERIOD).min(USAGE_AGE_MAX);
    let is_recent = |at: Timestamp| now.duration_since(at) <= age_max;
    let asked = activity.last_inquiry(instance, now);
    let usage = match asked {
        Some(LastInquiry { busy_until: Some(until), .. }) if is_recent(*until) => LastUsage::Busy(*until),
        Some(LastInquiry { at, found_idle_reserved: Some(_), .. }) if is_recent(*at) => LastUsage::Idle(*at),
        _ => LastUsage::Unknown,
    };
    let quality = IdleQuality {
        reserved: asked.and_then(|asked| asked.found_idle_reserved).unwrap_or_default(),
        by_power: asked.is_some_and(|asked| asked.found_idle_by_power),
    };
    let exemption = match case.immediate_skip().map(|skipped| skipped.reason) {
        Some(SkipReason::Protected) => Some(IdleExemption::Protected),
        Some(SkipReason::Kept) => Some(IdleExemption::Kept),
        Some(SkipReason::ForeignOwned) => controller(instance, &policy.config.managed).map(IdleExemption::Managed),
        _ => match idle::ending(case.subject(&curfew_tags), quality) {
            Ok(_) | Err(NotifyOnlyReason::SavesNothing) => None,
            Err(_) => Some(IdleExemption::NotifyOnly),
        },
    };
    MachineFacts {
        usage,
        exemption,
        scratch_gb: instance.machine.instance_storage_gb,
        release_command: instance.release_command(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InstanceBuilder, NOW, enforcing, instance, time};

    const ENFORCE: &str = "mode = \"enforce\"";

    fn asked(at: &str, busy_until: Option<&str>, found_idle_reserved: Option<bool>) -> LastInquiry {
        LastInquiry {
            at: time(at),
            busy_until: busy_until.map(time),
            shown_by: None,
            found_idle_reserved,
            found_idle_by_power: false,
            looked_back: None,
            in_full_at: None,
            idle_not_before: time(at),
        }
    }

    fn facts(of: InstanceBuilder, asked: Option<LastInquiry>, config: &str) -> MachineFacts {
        let instance = of.build();
        let instances = asked.into_iter().map(|asked| (instance.id.clone(), asked)).collect();
        machine_facts(&instance, &ActivityCache { instances }, &enforcing(config), time(NOW))
    }

    #[test]
    fn the_usage_is_that_of_the_last_query_while_it_is_recent() {
        let check = |asked: Option<LastInquiry>, config: &str, expect: LastUsage| {
            assert_eq!(facts(instance(), asked.clone(), config).usage, expect, "{asked:?} {config}");
        };
        let idle = |at: &str| Some(asked(at, None, Some(false)));
        let busy = |until: &str| Some(asked("2026-09-01T11:55:00Z", Some(until), None));
        let unknown = LastUsage::Unknown;
        check(None, ENFORCE, unknown);
        check(Some(asked("2026-09-01T11:55:00Z", None, None)), ENFORCE, unknown);
        // The window is an hour.
        check(idle("2026-09-01T10:40:00Z"), ENFORCE, LastUsage::Idle(time("2026-09-01T10:40:00Z")));
        check(idle("2026-09-01T10:39:59Z"), ENFORCE, unknown);
        check(busy("2026-09-01T10:40:00Z"), ENFORCE, LastUsage::Busy(time("2026-09-01T10:40:00Z")));
        check(busy("2026-09-01T10:39:59Z"), ENFORCE, unknown);
        let long = "[idle]\nwindow = \"12h\"";
        check(idle("2026-09-01T09:00:00Z"), long, LastUsage::Idle(time("2026-09-01T09:00:00Z")));
        check(idle("2026-09-01T08:59:59Z"), long, unknown);
        // Of an earlier life, and of a clock that is ahead.
        let launched = instance().launched("2026-09-01T11:58:00Z");
        assert_eq!(facts(launched, idle("2026-09-01T11:55:00Z"), ENFORCE).usage, unknown);
        check(idle("2026-09-01T12:05:00Z"), ENFORCE, unknown);
    }

    #[test]
    fn what_curfew_does_not_stop_is_told_apart() {
        let check = |of: InstanceBuilder, reserved: bool, config: &str, expect: Option<IdleExemption>| {
            let asked = asked("2026-09-01T11:55:00Z", None, Some(reserved));
            let facts = facts(of, Some(asked), config);
            assert_eq!(facts.exemption, expect, "{config}");
        };
        check(instance(), false, ENFORCE, None);
        check(instance().tag("curfew:protected", ""), false, ENFORCE, Some(IdleExemption::Protected));
        check(instance().tag("curfew:keep-until", "2026-09-03"), false, ENFORCE, Some(IdleExemption::Kept));
        check(instance().tag("curfew:keep-until", "2026-08-03"), false, ENFORCE, None);
        check(instance(), true, ENFORCE, Some(IdleExemption::NotifyOnly));
        check(instance(), false, "[idle]\naction = \"notify\"", Some(IdleExemption::NotifyOnly));
        let group = || instance().tag("aws:autoscaling:groupName", "g");
        check(group(), false, ENFORCE, Some(IdleExemption::Managed("an Auto Scaling group (g)".to_owned())));
        check(instance().in_reservation("cr-0abc"), false, ENFORCE, None);
    }

    #[test]
    fn the_scratch_and_the_reservation_are_named() {
        let facts = facts(instance().in_reservation("cr-0abc").instance_storage(600), None, ENFORCE);
        let command = "aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc";
        assert_eq!((facts.scratch_gb, facts.release_command.as_deref()), (600, Some(command)));
    }
}
