//! What stays remembered: nothing about what is gone, and no announcement that was taken back.

use std::collections::{BTreeMap, BTreeSet};

use model::id::{Region, ResourceId};
use model::notification_log::NotificationLog;

use super::InvariantOracle;
use crate::chance::{DAY, HOUR, MINUTE};
use crate::session::Facts;
use crate::world::SimulatedWorld;

/// What went is forgotten by the run that misses it.
const FORGOTTEN_WITHIN: i64 = 4 * HOUR;

impl InvariantOracle {
    /// A run came to its end: what it saw attached, or called off, may not be carried out any more.
    pub(crate) fn ran(
        &mut self,
        facts: &Facts,
        world: &SimulatedWorld,
        notices: &BTreeMap<Region, (u64, NotificationLog)>,
    ) {
        // What a run saw and could not read, write or remember is no promise.
        if self.last_fault >= facts.now {
            return;
        }
        for (place, disk) in world.disks.iter().enumerate().filter(|(_, disk)| disk.exists()) {
            let seen = disk.changed_at < facts.now;
            let attached = disk.host.is_some() && seen && disk.untouchable(facts.now).is_none();
            let record = self.disk(place);
            if attached {
                record.seen_attached_at = facts.now;
            }
            for one in &mut record.announced {
                // Called off in a run that could remember it: else the mark that stayed may bind again.
                one.void |= attached || one.called_off_by == Some(facts.id);
            }
            record.announced.retain(|one| facts.now - one.deadline < 30 * DAY);
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
        let marks = [&notices.shadow_marks, &notices.unwritten_marks, &notices.void_marks];
        let remembered = marks.into_iter().flat_map(BTreeMap::keys);
        let remembered = remembered.chain(notices.first_sights.keys()).chain(notices.seen_on.keys());
        let gone: BTreeSet<&ResourceId> = remembered.chain(notices.notified.keys()).filter(|id| !exists(id)).collect();
        if !gone.is_empty() {
            self.violated(facts.now, format!("still remembered: {gone:?}"));
        }
        let hosts: BTreeSet<&ResourceId> = notices.seen_on.values().collect();
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

    /// The notices are lost, and with them which marks bind nobody although they are still written: where nothing may be
    /// written, nothing may be taken away. Those may be believed again.
    pub(crate) fn notices_are_lost(&mut self) {
        for record in &mut self.disks {
            record.announced.iter_mut().for_each(|one| one.void = false);
            record.seen_attached_at = 0;
        }
    }
}
