//! **Idle**, if and only if
//! - the instance does not say `curfew:idle-after=off`,
//! - and its usage over its window is [`Usage::Idle`] (see [`model::usage`] for what that takes).
//!
//! The window is `curfew:idle-after`, else `[idle].window`; what happens is `curfew:on-idle`, else `[idle].action`. Where
//! GPU memory is held (a notebook, a waiting server) it is "reserved", and where NVMe storage must be kept a stop would lose
//! it: both are notify only.

use jiff::SignedDuration;
use model::config::{Config, DiskPolicy};
use model::curfew_tags::{CurfewTags, IdleAfter};
use model::moment::after;
use model::rule::ResourceAction;
use model::usage::{UnknownUsage, Usage};
use plan::{Evidence, NotifyOnlyReason};

use crate::policy::{DueAction, InstanceSubject, Verdict, Violation};

/// For how long an instance must have been idle; `None` with `curfew:idle-after=off`.
#[must_use]
pub fn window(curfew_tags: &CurfewTags, config: &Config) -> Option<SignedDuration> {
    match curfew_tags.idle_after {
        Some(IdleAfter::Off) => None,
        Some(IdleAfter::Window(window)) => Some(window),
        None => Some(config.idle.window),
    }
}

/// Judges one running instance.
#[must_use]
pub fn judge(subject: InstanceSubject<'_>) -> Verdict {
    let rule = &subject.config.idle;
    if window(subject.curfew_tags, subject.config).is_none() {
        return Verdict::Compliant;
    }
    let quiet = match subject.usage {
        Usage::Idle(quiet) => quiet.clone(),
        Usage::Busy(_) | Usage::Unknown(UnknownUsage::Young) => return Verdict::Compliant,
        Usage::Unknown(_) => return Verdict::Unknown,
    };
    let due = match ending(subject, quiet.reserved) {
        Err(notify_only) => DueAction::NotifyOnly(notify_only),
        Ok(ending) => DueAction::After(ending, after(subject.now, rule.grace)),
    };
    Verdict::Violated(Violation { evidence: Evidence::Idle(quiet), due })
}

/// The action for an idle instance, with GPU memory held or not; or why Curfew only notifies.
pub(crate) fn ending(subject: InstanceSubject<'_>, reserved: bool) -> Result<ResourceAction, NotifyOnlyReason> {
    let action = subject.curfew_tags.on_idle.unwrap_or(subject.config.idle.action);
    let ending = subject.feasible(action, local_disk(subject))?;
    if reserved { Err(NotifyOnlyReason::Reserved) } else { Ok(ending) }
}

/// By its own tag, else by its team's setting, else by the account's.
fn local_disk(subject: InstanceSubject<'_>) -> DiskPolicy {
    let of_team = || subject.team().and_then(|team| subject.config.team(&team)?.local_disk);
    subject.curfew_tags.local_disk.or_else(of_team).unwrap_or(subject.config.idle.local_disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{RuleInput, busy, idle, instance, reserved, unknown};
    use model::instance::{PrepaidCapacity, PurchaseOption};

    #[derive(Debug, PartialEq)]
    enum Found {
        Kept,
        Unknown,
        End(ResourceAction),
        Told(NotifyOnlyReason),
    }

    fn check(given: RuleInput, expect: Found) {
        let found = match given.judge(judge) {
            Verdict::Compliant => Found::Kept,
            Verdict::Unknown => Found::Unknown,
            Verdict::Violated(Violation { due: DueAction::NotifyOnly(why), .. }) => Found::Told(why),
            Verdict::Violated(Violation {
                due: DueAction::After(ending, _) | DueAction::AtOnce(ending, _), ..
            }) => Found::End(ending),
        };
        assert_eq!(found, expect);
    }

    fn quiet(of: crate::fixture::InstanceBuilder) -> RuleInput {
        RuleInput::from(of).usage(idle())
    }

    #[test]
    fn three_values_of_usage() {
        check(quiet(instance()), Found::End(ResourceAction::Stop));
        check(RuleInput::from(instance()).usage(busy()), Found::Kept);
        check(RuleInput::from(instance()).usage(unknown()), Found::Unknown);
    }

    #[test]
    fn tags_come_before_configuration() {
        check(quiet(instance().tag("curfew:idle-after", "off")), Found::Kept);
        check(quiet(instance().tag("curfew:on-idle", "terminate")), Found::End(ResourceAction::Terminate));
        check(quiet(instance().tag("curfew:on-idle", "notify")), Found::Told(NotifyOnlyReason::Configured));
        check(
            quiet(instance().tag("curfew:on-idle", "stop")).config("[idle]\naction = \"notify\""),
            Found::End(ResourceAction::Stop),
        );
    }

    #[test]
    fn held_memory_is_only_told() {
        check(RuleInput::from(instance()).usage(reserved()), Found::Told(NotifyOnlyReason::Reserved));
    }

    #[test]
    fn local_disk_is_kept_unless_tag_or_team_or_account_says_otherwise() {
        let scratch = || instance().instance_storage(250);
        check(quiet(scratch()), Found::Told(NotifyOnlyReason::LocalDisk));
        check(quiet(scratch().tag("curfew:on-idle", "terminate")), Found::Told(NotifyOnlyReason::LocalDisk));
        check(quiet(scratch().tag("curfew:local-disk", "expendable")), Found::End(ResourceAction::Stop));
        check(quiet(scratch()).config("[teams.vision]\nlocal_disk = \"expendable\""), Found::End(ResourceAction::Stop));
        check(quiet(scratch()).config("[idle]\nlocal_disk = \"expendable\""), Found::End(ResourceAction::Stop));
        check(
            quiet(scratch().tag("curfew:local-disk", "keep")).config("[idle]\nlocal_disk = \"expendable\""),
            Found::Told(NotifyOnlyReason::LocalDisk),
        );
    }

    #[test]
    fn what_cannot_be_stopped_or_saves_nothing_is_only_told() {
        check(quiet(instance().purchase(PurchaseOption::SpotOneTime)), Found::Told(NotifyOnlyReason::CannotBeStopped));
        check(
            quiet(instance().purchase(PurchaseOption::SpotOneTime).tag("curfew:on-idle", "terminate")),
            Found::End(ResourceAction::Terminate),
        );
        check(
            quiet(instance().purchase(PurchaseOption::SpotPersistent).tag("curfew:on-idle", "terminate")),
            Found::Told(NotifyOnlyReason::PersistentSpot),
        );
        check(quiet(instance().root_on_instance_storage()), Found::Told(NotifyOnlyReason::CannotBeStopped));
        check(
            quiet(instance().prepaid(PrepaidCapacity::CapacityReservation)),
            Found::Told(NotifyOnlyReason::SavesNothing),
        );
        check(quiet(instance().prepaid(PrepaidCapacity::DedicatedHost)), Found::Told(NotifyOnlyReason::SavesNothing));
    }
}
