//! Whether a step may still be carried out, by what is read again just before.

use jiff::Timestamp;

use super::{Seen, Step};
use crate::instance::{Instance, State};
use crate::volume::{Snapshot, SnapshotState, Volume, VolumeState};

/// Whether the reason for a step still stands, by the resource as it is now. Whatever has changed since the look, be it a
/// tag, the state or a new life, the next run looks at again.
///
/// # Errors
/// What keeps the step from being carried out.
pub fn still_holds(step: &Step, fresh: &Seen) -> Result<(), NoLonger> {
    match (&step.seen, fresh) {
        (Seen::Instance(seen), Seen::Instance(fresh)) => instance_is_as_seen(seen, fresh),
        (Seen::Volume(seen), Seen::Volume(fresh)) => volume_is_as_seen(seen, fresh),
        (Seen::Snapshot(seen), Seen::Snapshot(fresh)) if seen == fresh => Ok(()),
        _ => Err(NoLonger::Changed),
    }
}

fn instance_is_as_seen(seen: &Instance, fresh: &Instance) -> Result<(), NoLonger> {
    if matches!(fresh.state, State::Terminated | State::ShuttingDown) {
        return Err(NoLonger::AlreadyGone);
    }
    let same = fresh.state == seen.state
        && fresh.launched_at == seen.launched_at
        && fresh.tags == seen.tags
        && fresh.instance_type == seen.instance_type
        && fresh.operator == seen.operator
        && fresh.prepaid == seen.prepaid;
    if same { Ok(()) } else { Err(NoLonger::Changed) }
}

/// Its tags, what it is, and whether anything is attached. What it is doing changes while it goes.
fn volume_is_as_seen(seen: &Volume, fresh: &Volume) -> Result<(), NoLonger> {
    match fresh.state {
        VolumeState::Deleting | VolumeState::Deleted => Err(NoLonger::AlreadyGone),
        _ if seen == fresh => Ok(()),
        _ => Err(NoLonger::Changed),
    }
}

/// Whether a volume can be restored from a snapshot: it is one that Curfew made of this very volume, since it is unattached,
/// and it is whole. The tag alone proves nothing: it is copied with a snapshot.
#[must_use]
pub fn is_safe(snapshot: &Snapshot, volume: &Volume, unattached_since: Timestamp) -> bool {
    snapshot.state == SnapshotState::Completed && may_become_safe(snapshot, volume, unattached_since)
}

/// The same, but for its being whole.
#[must_use]
pub fn may_become_safe(snapshot: &Snapshot, volume: &Volume, unattached_since: Timestamp) -> bool {
    snapshot.is_of_curfew()
        && snapshot.of_volume == volume.id
        && snapshot.region == volume.region
        && snapshot.size_gib == volume.size_gib
        && snapshot.started_at >= unattached_since
}

/// What became of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLonger {
    /// The resource has ended by itself.
    AlreadyGone,
    /// It is not what it was.
    Changed,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::fixture::{InstanceBuilder, enforcing, idle, instance, time};
    use crate::instance::Prepaid;
    use crate::notices::Memory;
    use crate::observed::Observed;
    use crate::policy::instances::decide;

    /// Whether a mark of the usual instance is still written on what it has become.
    fn check(fresh: InstanceBuilder, expect: Result<(), NoLonger>) {
        let seen = Observed { items: vec![instance().build()], gaps: Vec::new() };
        let usages = BTreeMap::from([("i-0abc".into(), idle())]);
        let now = time(crate::fixture::NOW);
        let plan = decide(&seen, &usages, &Memory::new(), &enforcing("mode = \"enforce\""), now);
        assert_eq!(still_holds(&plan.steps[0], &Seen::Instance(fresh.build())), expect);
    }

    #[test]
    fn what_is_as_it_was_seen_is_acted_on() {
        check(instance(), Ok(()));
    }

    #[test]
    fn what_has_changed_since_is_left_to_the_next_run() {
        for changed in [
            instance().tag("curfew:protected", ""),
            instance().tag("curfew:keep-until", "2026-12-31"),
            instance().tag("Name", "renamed"),
            instance().state(State::Stopped),
            instance().state(State::Stopping),
            instance().launched("2026-09-01T11:59:00Z"),
            instance().of_type("g5.2xlarge"),
            instance().operator("eks.amazonaws.com"),
            instance().prepaid(Prepaid::CapacityReservation),
        ] {
            check(changed, Err(NoLonger::Changed));
        }
    }

    #[test]
    fn what_has_ended_by_itself_is_gone() {
        check(instance().state(State::Terminated), Err(NoLonger::AlreadyGone));
        check(instance().state(State::ShuttingDown), Err(NoLonger::AlreadyGone));
    }
}
