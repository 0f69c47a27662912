//! Deletions: of which volumes, after which announcement, and with which way to undo them.

use model::curfew_tags::{DELETED_AT, LABELS, MARKED, RESTORE, SNAPSHOT_OF};
use model::instance::Tags;
use model::rule::ResourceAction;
use model::volume::{SnapshotState, VolumeState};

use super::{InvariantOracle, within_limits};
use crate::chance::{DAY, HOUR, MINUTE, stamp};
use crate::session::Facts;
use crate::settings::OrphanAction;
use crate::world::{SimulatedSnapshot, SimulatedVolume, SimulatedWorld, SnapshotMaker};

/// An older announcement is void.
const FORGOTTEN_AFTER: i64 = 7 * DAY;

impl InvariantOracle {
    /// EC2 begins a snapshot.
    pub(crate) fn snapshot_begun(
        &mut self,
        world: &SimulatedWorld,
        place: usize,
        (description, tags): (&str, &Tags),
        facts: &Facts,
    ) {
        let disk = &world.disks[place];
        let id = disk.id();
        self.may_write(world, place, "snapshotted", facts);
        self.is_due(world, place, ResourceAction::SnapshotAndDelete, facts);
        if facts.settings.action != OrphanAction::SnapshotAndDelete {
            self.violated(facts.now, format!("{id}: snapshotted, although it is not configured"));
        }
        if description != format!("Curfew: {id} before its deletion, by run-{}", facts.id) {
            self.violated(facts.now, format!("{id}: its snapshot is described as {description}"));
        }
        let own = |key: &String| !is_label(key) && !key.starts_with("aws:");
        // The tags of its owner may be on it as well.
        let whose = |key: &String| ["Team", "Owner"].contains(&key.as_str()) && !disk.ec2.tags.contains_key(key);
        let restored = |key: &String| ![SNAPSHOT_OF, RESTORE].contains(&key.as_str()) && !whose(key);
        let kept: Tags = tags.clone().into_iter().filter(|(key, _)| restored(key)).collect();
        let expected: Tags = disk.ec2.tags.clone().into_iter().filter(|(key, _)| own(key)).collect();
        let says_of = tags.get(SNAPSHOT_OF).is_some_and(|of| of == id);
        if kept != expected || !says_of || !tags.contains_key(RESTORE) {
            self.violated(facts.now, format!("{id}: its snapshot has the tags {tags:?}, and {expected:?} was on it"));
        }
        let unchanged_since =
            disk.known_use(facts.now).max(disk.changed_at).max(self.configured_at).max(self.logs_lost_at);
        let is_one = |(number, snap): &(usize, &SimulatedSnapshot)| {
            let of_it = snap.disk == place && snap.maker == SnapshotMaker::Curfew && snap.is_begun();
            let unproved = self.snaps.get(*number).is_some_and(|record| record.unproved);
            of_it && !unproved && snap.ec2.started_at > stamp(unchanged_since)
        };
        if let Some((_, one)) = world.snaps.iter().enumerate().find(is_one) {
            self.doubled += 1;
            let unexplained = self.doubled > self.doublings || self.last_fault < facts.now - 3 * HOUR;
            if unexplained {
                self.violated(facts.now, format!("{id}: snapshotted again, although there is {}", one.id()));
            }
        }
    }

    /// EC2 gets a request to delete a volume.
    pub(crate) fn volume_deleted(&mut self, world: &SimulatedWorld, place: usize, now: i64, facts: &Facts) {
        let disk = &world.disks[place];
        let id = disk.id();
        if disk.ec2.state != VolumeState::Available {
            // A doubled run begins a second later, and may have looked before as well.
            if self.meddled_at_the_call.abs_diff(now) > 1 {
                self.violated(facts.now, format!("{id}: deleted while it is {:?}", disk.ec2.state));
            }
            return;
        }
        self.may_write(world, place, "deleted", facts);
        match facts.settings.action {
            OrphanAction::Notify => {
                self.violated(facts.now, format!("{id}: deleted, although the mode is notify only"));
            }
            OrphanAction::Delete => self.is_due(world, place, ResourceAction::Delete, facts),
            OrphanAction::SnapshotAndDelete => {
                self.is_due(world, place, ResourceAction::SnapshotAndDelete, facts);
                let used = disk.known_use(facts.now).min(facts.now);
                let is_safe = |snap: &crate::world::SimulatedSnapshot| {
                    let of_it =
                        snap.disk == place && (snap.maker == SnapshotMaker::Curfew || world.replaces_lost(snap));
                    of_it && snap.is_whole() && snap.ec2.started_at >= stamp(used)
                };
                if !world.snaps.iter().any(is_safe) {
                    self.violated(facts.now, format!("{id}: deleted, and no snapshot has its data"));
                }
            }
        }
        self.is_within_limits(id, facts);
        self.disk(place).untold_end = Some(now);
    }

    fn is_within_limits(&mut self, id: &str, facts: &Facts) {
        let count = if self.inferred.0 == facts.id { self.inferred.1 + 1 } else { 1 };
        self.inferred = (facts.id, count);
        if !within_limits(count, facts) {
            self.violated(facts.now, format!("{id}: deleted, the {count}th of a run, above the limits"));
        }
    }

    /// It is orphaned and marked, and people were notified in time.
    fn is_due(&mut self, world: &SimulatedWorld, place: usize, ending: ResourceAction, facts: &Facts) {
        let disk = &world.disks[place];
        let id = disk.id();
        let settings = &facts.settings;
        // IAM asks for the label, whatever it says.
        if !disk.ec2.tags.contains_key(MARKED) {
            self.violated(facts.now, format!("{id}: touched, and it is not marked"));
        }
        if self.disk(place).unknown_at == facts.now {
            self.violated(facts.now, format!("{id}: touched, although its use is unknown"));
        }
        let seen_attached = self.disk(place).seen_attached_at;
        let not_before = disk.created.max(seen_attached).max(disk.known_use(facts.now));
        // Samples of 15 days ago are of five minutes, and older ones of an hour: the first that counts is after the first observation.
        let grain = if settings.orphaned_after >= 14 * DAY { HOUR } else { MINUTE };
        if facts.now - not_before < settings.orphaned_after - grain {
            self.violated(facts.now, format!("{id}: touched, but it was in use, or made, at {}", stamp(not_before)));
        }
        let kept = disk.says.kept_until;
        let logs_lost_at = self.logs_lost_at;
        let announced = &self.disk(place).announced;
        let in_time = |one: &&super::PromisedAction| {
            one.is_due(facts.now)
                && facts.now - one.deadline <= FORGOTTEN_AFTER
                && !one.is_overtaken(kept, facts.now)
                && !one.is_forgotten(logs_lost_at, facts.now)
        };
        let complaint = if announced.is_empty() {
            Some("without an announcement")
        } else if !announced.iter().any(|one| in_time(&one)) {
            Some("before its time")
        } else if !announced.iter().any(|one| in_time(&one) && one.ending >= ending) {
            Some("after a milder announcement")
        } else if !announced.iter().any(|one| in_time(&one) && one.ending >= ending && !one.void) {
            Some("on a withdrawn announcement")
        } else {
            None
        };
        if let Some(complaint) = complaint {
            let announced: Vec<String> =
                announced.iter().map(|one| format!("at {} for {}", stamp(one.told_at), stamp(one.deadline))).collect();
            self.violated(facts.now, format!("{id}: ended ({ending}) {complaint}; announced: {announced:?}"));
        }
    }

    /// Curfew sets the expiry of a snapshot.
    pub(crate) fn snapshot_tagged(
        &mut self,
        world: &SimulatedWorld,
        place: usize,
        with_its_volume: bool,
        facts: &Facts,
    ) {
        self.may_touch(world, place, "dated", with_its_volume, facts);
    }

    /// EC2 deletes a snapshot.
    pub(crate) fn snapshot_deleted(&mut self, world: &SimulatedWorld, place: usize, now: i64, facts: &Facts) {
        self.may_touch(world, place, "deleted", false, facts);
        if world.is_superseded_failure(place, facts.now) {
            return;
        }
        let (snap, settings) = (&world.snaps[place], &facts.settings);
        let id = snap.id();
        if ![SNAPSHOT_OF, DELETED_AT].iter().all(|key| snap.ec2.tags.contains_key(*key)) {
            self.violated(facts.now, format!("{id}: deleted, with the tags {:?}", snap.ec2.tags));
        }
        let kept = snap.says.kept_until;
        let was_announced = |one: &super::PromisedAction| {
            one.is_due(facts.now)
                && !one.void
                && !one.is_overtaken(kept, facts.now)
                && !one.is_forgotten(self.logs_lost_at, facts.now)
        };
        let announced = self.snaps.get(place).is_some_and(|record| record.announced.iter().any(was_announced));
        // The adversary is not told of his own.
        if !announced && snap.maker == SnapshotMaker::Curfew {
            self.violated(facts.now, format!("{id}: deleted, without an announcement that holds"));
        }
        // What was refused before counts for nothing.
        if snap.refused_until == 0 {
            self.is_within_limits(id, facts);
        }
        // The date in a deletion is that of the run's observation, which may be an hour ago.
        let gone_at = world.disks[snap.disk].gone_at.unwrap_or(i64::MAX / 2);
        if now + HOUR + MINUTE < gone_at + settings.keep_snapshots {
            self.violated(facts.now, format!("{id}: deleted, but its volume could be restored until later"));
        }
        self.snap(place).untold_end = Some(now);
    }

    fn may_touch(&mut self, world: &SimulatedWorld, place: usize, what: &str, with_its_volume: bool, facts: &Facts) {
        let snap = &world.snaps[place];
        let id = snap.id();
        if snap.maker != SnapshotMaker::Curfew && !world.is_forged(snap) {
            self.violated(facts.now, format!("{id}: {what}, although it is not Curfew's"));
        }
        let is_superseded = world.is_superseded_failure(place, facts.now);
        if !is_superseded
            && world.disks[snap.disk].is_listed()
            && !(with_its_volume && world.disks[snap.disk].gone_at.is_some())
        {
            self.violated(facts.now, format!("{id}: {what}, although its volume exists"));
        }
        let untouchable = snap.untouchable(facts.now);
        // A kept or unreadable snapshot may get an expiry when its volume goes; a protected one may not.
        if let Some(skipped) = untouchable.filter(|skipped| !with_its_volume || *skipped == "protected") {
            self.violated(facts.now, format!("{id}: {what}, although it is {skipped}"));
        }
        let (enforced, _) = world.modes_of_snap(place, &facts.settings, facts.ceiling);
        if !enforced && !with_its_volume {
            self.violated(facts.now, format!("{id}: {what}, although it is only observed"));
        }
    }
}

impl SimulatedVolume {
    /// The last use that has ended.
    pub(super) fn last_use(&self, now: i64) -> i64 {
        self.uses.last().map_or(0, |(_, end)| *end).min(now)
    }
}

/// Whether Curfew writes a tag of a volume or a snapshot by itself, so that neither snapshot nor restoration needs it.
pub(super) fn is_label(key: &str) -> bool {
    LABELS.contains(&key)
}

impl SimulatedWorld {
    /// Whether a snapshot by Curfew holds nothing, and another try came after it. Its volume exists, or existed when the run began.
    fn is_superseded_failure(&self, place: usize, run_began: i64) -> bool {
        let snap = &self.snaps[place];
        let is_later = |other: &SimulatedSnapshot| {
            other.disk == snap.disk
                && other.ec2.started_at > snap.ec2.started_at
                && other.maker == SnapshotMaker::Curfew
        };
        let has_volume = self.disks[snap.disk].gone_at.is_none_or(|gone_at| gone_at >= run_began);
        snap.ec2.state == SnapshotState::Error && has_volume && self.snaps.iter().any(is_later)
    }

    /// Whether the adversary made a snapshot of a volume and described it as that of a run that made one: then
    /// only he loses it.
    fn is_forged(&self, snap: &SimulatedSnapshot) -> bool {
        let is_of_curfew = |other: &SimulatedSnapshot| {
            (other.maker, other.disk) == (SnapshotMaker::Curfew, snap.disk)
                && other.ec2.description == snap.ec2.description
                && snap.ec2.of_volume == other.ec2.of_volume
        };
        snap.maker == SnapshotMaker::Adversary && self.snaps.iter().any(is_of_curfew)
    }

    /// Whether such a snapshot is what is left of its run, because somebody deleted Curfew's own.
    fn replaces_lost(&self, snap: &SimulatedSnapshot) -> bool {
        let is_curfews_own = |other: &SimulatedSnapshot| {
            other.maker == SnapshotMaker::Curfew && other.exists() && other.ec2.description == snap.ec2.description
        };
        self.is_forged(snap) && !self.snaps.iter().any(is_curfews_own)
    }
}
