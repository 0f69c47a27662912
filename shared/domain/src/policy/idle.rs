//! **Idle**, if and only if
//! - the instance does not say `curfew:idle-after=off`,
//! - and its usage over its window is [`Usage::Idle`] (see [`crate::usage`] for what that takes).
//!
//! The window is `curfew:idle-after`, else `[idle].window`; what happens is `curfew:on-idle`, else `[idle].action`. Where
//! GPU memory is held (a notebook, a waiting server) it is "reserved", and where NVMe storage is to be kept it would be
//! lost: both are only told.

use jiff::SignedDuration;

use super::{Broken, Due, Subject, Verdict};
use crate::config::{Config, DiskPolicy};
use crate::plan::{Because, OnlyTold};
use crate::rule::Ending;
use crate::usage::{Unknown, Usage};
use crate::vocabulary::{IdleAfter, Vocabulary};

/// For how long an instance must have been idle; `None` where its owner does not want it judged.
#[must_use]
pub fn window(says: &Vocabulary, config: &Config) -> Option<SignedDuration> {
    match says.idle_after {
        Some(IdleAfter::Off) => None,
        Some(IdleAfter::Window(window)) => Some(window),
        None => Some(config.idle.window),
    }
}

/// Judges one running instance.
#[must_use]
pub fn judge(subject: Subject<'_>) -> Verdict {
    let rule = &subject.config.idle;
    if window(subject.says, subject.config).is_none() {
        return Verdict::Kept;
    }
    let quiet = match subject.usage {
        Usage::Idle(quiet) => quiet.clone(),
        Usage::Busy(_) | Usage::Unknown(Unknown::Young) => return Verdict::Kept,
        Usage::Unknown(_) => return Verdict::Unknown,
    };
    let due = match ending(subject, quiet.reserved) {
        Err(only_told) => Due::Tell(only_told),
        Ok(ending) => Due::From(ending, subject.now + rule.grace),
    };
    Verdict::Broken(Broken { because: Because::Idle(quiet), due })
}

/// How one ends that is idle, with GPU memory held or not; or why its owner is only told.
pub(crate) fn ending(subject: Subject<'_>, reserved: bool) -> Result<Ending, OnlyTold> {
    let action = subject.says.on_idle.unwrap_or(subject.config.idle.action);
    let ending = subject.feasible(action, local_disk(subject))?;
    if reserved { Err(OnlyTold::Reserved) } else { Ok(ending) }
}

/// Its own tag, else its team's word, else the account's.
fn local_disk(subject: Subject<'_>) -> DiskPolicy {
    let of_team = || subject.team().and_then(|team| subject.config.team(&team)?.local_disk);
    subject.says.local_disk.or_else(of_team).unwrap_or(subject.config.idle.local_disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Given, busy, idle, instance, reserved, unknown};
    use crate::instance::{Prepaid, Purchase};

    #[derive(Debug, PartialEq)]
    enum Found {
        Kept,
        Unknown,
        End(Ending),
        Told(OnlyTold),
    }

    fn check(given: Given, expect: Found) {
        let found = match given.judge(judge) {
            Verdict::Kept => Found::Kept,
            Verdict::Unknown => Found::Unknown,
            Verdict::Broken(Broken { due: Due::Tell(why), .. }) => Found::Told(why),
            Verdict::Broken(Broken { due: Due::From(ending, _) | Due::Now(ending, _), .. }) => Found::End(ending),
        };
        assert_eq!(found, expect);
    }

    fn quiet(of: crate::fixture::InstanceBuilder) -> Given {
        Given::from(of).usage(idle())
    }

    #[test]
    fn three_values_of_usage() {
        check(quiet(instance()), Found::End(Ending::Stop));
        check(Given::from(instance()).usage(busy()), Found::Kept);
        check(Given::from(instance()).usage(unknown()), Found::Unknown);
    }

    #[test]
    fn tags_come_before_configuration() {
        check(quiet(instance().tag("curfew:idle-after", "off")), Found::Kept);
        check(quiet(instance().tag("curfew:on-idle", "terminate")), Found::End(Ending::Terminate));
        check(quiet(instance().tag("curfew:on-idle", "notify")), Found::Told(OnlyTold::Configured));
        check(
            quiet(instance().tag("curfew:on-idle", "stop")).config("[idle]\naction = \"notify\""),
            Found::End(Ending::Stop),
        );
    }

    #[test]
    fn held_memory_is_only_told() {
        check(Given::from(instance()).usage(reserved()), Found::Told(OnlyTold::Reserved));
    }

    #[test]
    fn local_disk_is_kept_unless_tag_or_team_or_account_says_otherwise() {
        let scratch = || instance().instance_storage(250);
        check(quiet(scratch()), Found::Told(OnlyTold::LocalDisk));
        check(quiet(scratch().tag("curfew:on-idle", "terminate")), Found::Told(OnlyTold::LocalDisk));
        check(quiet(scratch().tag("curfew:local-disk", "expendable")), Found::End(Ending::Stop));
        check(quiet(scratch()).config("[teams.vision]\nlocal_disk = \"expendable\""), Found::End(Ending::Stop));
        check(quiet(scratch()).config("[idle]\nlocal_disk = \"expendable\""), Found::End(Ending::Stop));
        check(
            quiet(scratch().tag("curfew:local-disk", "keep")).config("[idle]\nlocal_disk = \"expendable\""),
            Found::Told(OnlyTold::LocalDisk),
        );
    }

    #[test]
    fn what_cannot_be_stopped_or_saves_nothing_is_only_told() {
        check(quiet(instance().purchase(Purchase::SpotOneTime)), Found::Told(OnlyTold::CannotBeStopped));
        check(
            quiet(instance().purchase(Purchase::SpotOneTime).tag("curfew:on-idle", "terminate")),
            Found::End(Ending::Terminate),
        );
        check(
            quiet(instance().purchase(Purchase::SpotPersistent).tag("curfew:on-idle", "terminate")),
            Found::Told(OnlyTold::PersistentSpot),
        );
        check(quiet(instance().root_on_instance_storage()), Found::Told(OnlyTold::CannotBeStopped));
        check(quiet(instance().prepaid(Prepaid::CapacityReservation)), Found::Told(OnlyTold::SavesNothing));
        check(quiet(instance().prepaid(Prepaid::DedicatedHost)), Found::Told(OnlyTold::SavesNothing));
    }
}
