//! What stays remembered: nothing about a deleted resource, and no withdrawn announcement.

use std::collections::{BTreeMap, BTreeSet};

use model::id::{Region, ResourceId};
use model::notification_log::NotificationLog;

use super::InvariantOracle;
use crate::chance::{DAY, HOUR, MINUTE};
use crate::session::Facts;
use crate::world::SimulatedWorld;

/// The run that misses a resource forgets it.
const FORGOTTEN_WITHIN: i64 = 4 * HOUR;

impl InvariantOracle {
    /// A run finished: a deletion of a volume that it saw attached, or that it cancelled, may not be carried out any more.
    pub(crate) fn ran(
        &mut self,
        facts: &Facts,
        world: &SimulatedWorld,
        notices: &BTreeMap<Region, (u64, NotificationLog)>,
    ) {
        // An observation that a run could not read, write or remember does not count.
        if self.last_fault >= facts.now {
            return;
        }
        for (place, disk) in world.disks.iter().enumerate().filter(|(_, disk)| disk.exists()) {
            let seen = disk.changed_at < facts.now;
            let attached = disk.host.is_some() && seen && disk.untouchable(facts.now).is_none();
            let (enforceable, _) = world.modes(place, &facts.settings, facts.ceiling);
            let passed_over = seen && (world.spared(place, facts.now).is_some() || !enforceable);
            let record = self.disk(place);
            if attached {
                record.seen_attached_at = facts.now;
            }
            for one in record.announced.iter_mut().filter(|one| one.told_at < facts.now) {
                // Cancelled in a run that could remember it; otherwise it may hold again.
                one.void |= attached || passed_over || one.called_off_by == Some(facts.id);
            }
            record.announced.retain(|one| facts.now - one.deadline < 30 * DAY);
        }
        for (place, snap) in world.snaps.iter().enumerate().filter(|(_, snap)| snap.exists()) {
            let seen = snap.changed_at < facts.now && !world.disks[snap.disk].is_listed();
            let (enforceable, _) = world.modes_of_snap(place, &facts.settings, facts.ceiling);
            let passed_over = seen && (snap.untouchable(facts.now).is_some() || !enforceable);
            let announced = self.snap(place).announced.iter_mut().filter(|one| one.told_at < facts.now);
            announced.for_each(|one| one.void |= passed_over);
        }
        if facts.now - self.last_fault > FORGOTTEN_WITHIN {
            for (_, notices) in notices.values() {
                self.is_about_what_exists(facts, world, notices);
            }
        }
    }

    fn is_about_what_exists(&mut self, facts: &Facts, world: &SimulatedWorld, notices: &NotificationLog) {
        let lately = |gone_at: Option<i64>| gone_at.is_none_or(|at| at > facts.now - FORGOTTEN_WITHIN);
        let exists = |id: &&ResourceId| {
            world.disk(id.as_str()).is_some_and(|place| lately(world.disks[place].gone_at))
                || world.snap(id.as_str()).is_some_and(|place| lately(world.snaps[place].gone_at))
        };
        let gone: BTreeSet<&ResourceId> = notices.resources.keys().filter(|id| !exists(id)).collect();
        if !gone.is_empty() {
            self.violated(facts.now, format!("still remembered: {gone:?}"));
        }
        let hosts: BTreeSet<&ResourceId> =
            notices.resources.values().filter_map(|record| record.last_host.as_ref()).collect();
        if notices.hosts.keys().any(|host| !hosts.contains(host)) {
            self.violated(facts.now, format!("still remembered: {:?}, and seen were {hosts:?}", notices.hosts));
        }
        if !notices.undelivered.is_empty() {
            self.violated(facts.now, format!("still owed: {:?}", notices.undelivered));
        }
        let old = |at: i64| facts.now - at > DAY + HOUR + MINUTE;
        if let Some((topic, _)) = notices.gaps.iter().find(|(_, told)| old(told.at.as_second())) {
            self.violated(facts.now, format!("still remembered: {topic:?}"));
        }
    }

    /// The logs are lost: whatever was announced is announced anew, and no snapshot is known to be Curfew's.
    pub(crate) fn notices_are_lost(&mut self, now: i64) {
        self.logs_lost_at = now;
        self.snaps.iter_mut().for_each(|record| record.unproved = true);
    }
}
