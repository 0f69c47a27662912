//! What must happen in the end: orphaned volumes are deleted, safety snapshots expire, and marks go with their reason.

use model::curfew_tags::{MARKED, UNATTACHED_SINCE};
use model::mode::Mode;

use super::InvariantOracle;
use crate::chance::{DAY, HOUR, stamp};
use crate::settings::{OrphanAction, SimulatedConfig};
use crate::world::{SimulatedWorld, SnapshotMaker};

/// Without faults, the delay beyond the configured times: runs come once an hour, and a state machine has some states.
const DELAY_MAX: i64 = 8 * HOUR;
/// For a direct observation, notification or write.
const AT_ONCE: i64 = 4 * HOUR;

/// Beyond the last change by the adversary.
const TAMPERED_WITHIN: i64 = 3 * HOUR;

/// What can be overdue, by place.
pub(super) const DUES: usize = 5;
const GONE: usize = 0;
const UNMARKED: usize = 1;
const IDLE_HOST: usize = 2;
const UNREADABLE: usize = 3;
const ENDED: usize = 4;

impl InvariantOracle {
    /// Checks everything once an hour.
    pub(crate) fn watch(&mut self, world: &SimulatedWorld, settings: &SimulatedConfig, ceiling: Mode, now: i64) {
        for place in 0..world.disks.len() {
            self.is_every_end_told(place, true, now);
            let disk = &world.disks[place];
            if !disk.exists() {
                continue;
            }
            let quiet_since = world.changed_at(place, now).max(self.configured_at).max(self.last_fault);
            if disk.says.typo.is_some() && !disk.says.protected {
                let told = self.disk(place).unreadable_told_at >= disk.created;
                let due = (!told).then_some(quiet_since + AT_ONCE);
                self.expect(place, UNREADABLE, due, "it cannot be read, and was not notified", world, now);
            }
            if disk.untouchable(now).is_some() {
                continue;
            }
            let (_, enforced) = world.modes(place, settings, ceiling);
            if disk.host.is_some() {
                self.watch_attached(world, place, settings, enforced, quiet_since, now);
            } else {
                let due = self.is_to_go(world, place, settings, quiet_since, now).filter(|_| enforced);
                self.expect(place, GONE, due, "it is orphaned", world, now);
            }
        }
        for place in 0..world.snaps.len() {
            self.is_every_end_told(place, false, now);
            self.watch_snapshot(world, place, settings, ceiling, now);
        }
    }

    fn watch_attached(
        &mut self,
        world: &SimulatedWorld,
        place: usize,
        settings: &SimulatedConfig,
        enforced: bool,
        quiet_since: i64,
        now: i64,
    ) {
        let disk = &world.disks[place];
        let marked = [MARKED, UNATTACHED_SINCE].iter().any(|key| disk.ec2.tags.contains_key(*key));
        let due = (marked && enforced).then_some(quiet_since.max(disk.tampered_at) + AT_ONCE);
        self.expect(place, UNMARKED, due, "it is attached, and still carries marks", world, now);
        let host = disk.host.map(|host| &world.hosts[host]).filter(|host| host.legible);
        let stopped_at = host.and_then(|host| host.stopped_at);
        let told_at = self.disk(place).idle_host_told_at;
        let due =
            stopped_at.filter(|at| told_at < *at).map(|at| quiet_since.max(at + settings.orphaned_after) + AT_ONCE);
        self.expect(place, IDLE_HOST, due, "its instance is stopped for long, and that was not notified", world, now);
    }

    /// When an orphaned volume must be gone.
    fn is_to_go(
        &mut self,
        world: &SimulatedWorld,
        place: usize,
        settings: &SimulatedConfig,
        quiet_since: i64,
        now: i64,
    ) -> Option<i64> {
        let disk = &world.disks[place];
        let own_tags = disk.says.tags().len();
        let too_many = settings.action == OrphanAction::SnapshotAndDelete && own_tags > 47;
        // Above the limits a deletion awaits approval.
        let held = self.disk(place).held_at > now - 3 * HOUR;
        if world.spared(place, now).is_some() || settings.action == OrphanAction::Notify || too_many || held {
            return None;
        }
        // Use between two observations is found by the query after orphaned_after; then all begins anew.
        let orphaned_after =
            settings.orphaned_after * if disk.nights_until > 0 || !disk.uses.is_empty() { 2 } else { 1 };
        let promised = self.disk(place).announced.iter().map(|one| one.deadline).max().unwrap_or(0);
        let announced = (quiet_since + orphaned_after + settings.grace).max(promised);
        let snapshot = if settings.action == OrphanAction::SnapshotAndDelete { disk.snapshot_takes + DAY } else { 0 };
        let held_at = self.disk(place).held_at;
        // Whatever the adversary does to its labels costs a run or two.
        Some((announced.max(held_at) + snapshot + DELAY_MAX).max(disk.tampered_at + TAMPERED_WITHIN))
    }

    fn watch_snapshot(
        &mut self,
        world: &SimulatedWorld,
        place: usize,
        settings: &SimulatedConfig,
        ceiling: Mode,
        now: i64,
    ) {
        let snap = &world.snaps[place];
        let started_at = snap.ec2.started_at.as_second();
        // The log learns of it by the runs before and after its start.
        self.snap(place).unproved |= (started_at - HOUR..started_at + AT_ONCE).contains(&self.last_fault);
        let gone_at = world.disks[snap.disk].gone_at;
        let (_, enforced) = world.modes_of_snap(place, settings, ceiling);
        let ends = snap.exists() && snap.maker == SnapshotMaker::Curfew && !snap.of_image && enforced;
        let record = self.snap(place);
        let (is_held, promised) =
            (record.held_at > now - 3 * HOUR, record.announced.iter().map(|one| one.deadline).max());
        let ends = ends && !record.unproved && !is_held && snap.untouchable(now).is_none();
        let Some(gone_at) = gone_at.filter(|_| ends) else { return };
        let (kept, held_at) = (snap.says.kept_until.unwrap_or(0), record.held_at);
        let quiet_since = gone_at.max(snap.changed_at).max(kept).max(self.configured_at).max(self.last_fault);
        let announced =
            (gone_at + settings.keep_snapshots).max(quiet_since + settings.grace).max(promised.unwrap_or(0));
        let due = announced.max(held_at).max(snap.tampered_at).max(snap.refused_until) + AT_ONCE;
        if now > due && self.snap(place).overdue[ENDED] < quiet_since {
            self.snap(place).overdue[ENDED] = now;
            let what = format!("{}: its time is over since {}, and it exists", snap.id(), stamp(due));
            self.violated(now, what);
        }
    }

    /// Reports once that an action stays due without faults.
    fn expect(&mut self, place: usize, kind: usize, due: Option<i64>, what: &str, world: &SimulatedWorld, now: i64) {
        let Some(due) = due.filter(|due| now > *due) else { return };
        if self.disk(place).overdue[kind] >= due {
            return;
        }
        self.disk(place).overdue[kind] = now;
        let what = format!("{}: nothing happens since {}, although {what}", world.disks[place].id(), stamp(due));
        self.violated(now, what);
    }
}
