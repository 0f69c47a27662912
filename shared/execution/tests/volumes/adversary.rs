//! An adversary who may tag everything and make snapshots of everything. He forges what Curfew writes; nobody but he may suffer from it.

use model::curfew_tags::{
    DELETED_AT, EXPIRES_AT, LABELS, MARKED, MODE, RESTORE, SNAPSHOT_OF, STOPPED, UNATTACHED_SINCE,
};
use model::instance::Tags;
use model::volume::SnapshotState;

use crate::chance::{DAY, FAR, HOUR, RandomStream, stamp};
use crate::named::named;
use crate::tags::OwnerTags;
use crate::world::{SimulatedSnapshot, SimulatedWorld, SnapshotMaker};

named! {
    /// Every kind of attack.
    Attack {
        ForgeMark = "forge a due mark",
        ForgeFirstSight = "forge a first sight of long ago",
        FarLabels = "write labels of a far moment",
        UnreadableLabels = "write unreadable labels",
        CopyLabels = "copy the labels of another volume",
        ForeignLabels = "write labels of snapshots and instances on a volume",
        RemoveLabels = "remove the labels of a volume",
        PastExpiry = "write a past expires-at",
        LabelSnapshot = "label a snapshot of people as Curfew's",
        RedateSnapshot = "date a snapshot of Curfew's long ago",
        UnlabelSnapshot = "remove the labels of a snapshot of Curfew's",
        EnforceSnapshot = "write mode=enforce on a snapshot of Curfew's",
        ForgeSnapshot = "make a snapshot that names Curfew and no run",
        DescribeSnapshot = "make a snapshot with the description of another volume's",
        DoubleSnapshot = "make a snapshot with the description of Curfew's own",
        CopySnapshot = "copy a snapshot with its description",
    }
}

/// The most snapshots that he keeps.
const SNAPSHOTS_MAX: usize = 8;

/// The attacks of an hour.
pub(crate) struct Adversary<'a> {
    pub(crate) world: &'a mut SimulatedWorld,
    pub(crate) chance: &'a mut RandomStream,
    pub(crate) now: i64,
    pub(crate) did: &'a mut dyn FnMut(Attack, &str),
}

impl Adversary<'_> {
    pub(crate) fn live(&mut self) {
        if self.chance.one_in(4) {
            let existing = (0..self.world.disks.len()).filter(|place| self.world.disks[*place].exists());
            if let Some(place) = self.pick(existing.collect()) {
                self.attack_volume(place);
            }
        }
        if self.chance.one_in(12) {
            let existing = (0..self.world.snaps.len()).filter(|place| self.world.snaps[*place].exists());
            if let Some(place) = self.pick(existing.collect()) {
                self.attack_snapshot(place);
            }
        }
    }

    fn pick(&mut self, places: Vec<usize>) -> Option<usize> {
        (!places.is_empty()).then(|| places[self.chance.below(places.len())])
    }

    pub(crate) fn attack_volume(&mut self, place: usize) {
        let id = self.world.disks[place].id().to_owned();
        let attack = match self.chance.below(12) {
            0 | 1 => {
                let action = self.chance.pick(&["delete", "snapshot-and-delete"]);
                let ago = self.chance.between(-HOUR, 2 * DAY);
                self.tag(place, [(MARKED, format!("orphaned={action}@{}", stamp(self.now - ago)))]);
                Attack::ForgeMark
            }
            2 | 3 => {
                let since = stamp(self.now - self.chance.between(DAY, 500 * DAY)).to_string();
                self.tag(place, [(UNATTACHED_SINCE, since)]);
                Attack::ForgeFirstSight
            }
            4 => {
                let at = self.chance.pick(&FAR);
                self.tag(place, [(MARKED, format!("orphaned=delete@{at}")), (UNATTACHED_SINCE, at.to_owned())]);
                Attack::FarLabels
            }
            5 => {
                let value = self.chance.pick(&["", "yes", "orphaned=", "\u{202e}orphaned=delete@now", "0"]);
                self.tag(place, LABELS.map(|key| (key, value.to_owned())));
                Attack::UnreadableLabels
            }
            6 => {
                let other = self.chance.below(self.world.disks.len());
                let tags = &self.world.disks[other].ec2.tags;
                let labels: Vec<_> = LABELS.iter().filter_map(|key| Some((*key, tags.get(*key)?.clone()))).collect();
                if labels.is_empty() {
                    return;
                }
                self.tag(place, labels);
                Attack::CopyLabels
            }
            7 => {
                let at = stamp(self.now - DAY).to_string();
                let stopped = format!("hours {at}");
                self.tag(place, [(SNAPSHOT_OF, id.clone()), (DELETED_AT, at), (STOPPED, stopped)]);
                Attack::ForeignLabels
            }
            8 => {
                let at = stamp(self.now - self.chance.between(HOUR, 9 * DAY)).to_string();
                self.tag(place, [(EXPIRES_AT, at)]);
                Attack::PastExpiry
            }
            9 => self.describe_snapshot(place),
            _ => {
                self.world.disks[place].ec2.tags.retain(|key, _| !LABELS.contains(&key.as_str()));
                self.tag(place, []);
                Attack::RemoveLabels
            }
        };
        (self.did)(attack, &id);
    }

    fn tag(&mut self, place: usize, tags: impl IntoIterator<Item = (&'static str, String)>) {
        let disk = &mut self.world.disks[place];
        disk.tampered_at = self.now;
        // EC2 takes 50 tags.
        for (key, value) in tags {
            if disk.ec2.tags.len() < 46 || disk.ec2.tags.contains_key(key) {
                disk.ec2.tags.insert(key.to_owned(), value);
            }
        }
    }

    /// He deletes his oldest snapshot: he pays for them.
    fn make_room(&mut self) {
        let is_own = |snap: &&mut SimulatedSnapshot| snap.maker == SnapshotMaker::Adversary && snap.exists();
        let own: Vec<&mut SimulatedSnapshot> = self.world.snaps.iter_mut().filter(is_own).collect();
        if own.len() >= SNAPSHOTS_MAX {
            own.into_iter().take(1).for_each(|oldest| oldest.gone_at = Some(self.now));
        }
    }

    /// A snapshot of anybody's volume, described as if Curfew had made it.
    fn describe_snapshot(&mut self, place: usize) -> Attack {
        self.make_room();
        let of_curfew = |of_it: bool| {
            let snaps = self.world.snaps.iter().rev().filter(|snap| snap.maker == SnapshotMaker::Curfew);
            let mut snaps = snaps.filter(|snap| (snap.disk == place) == of_it);
            snaps.next().map(|snap| snap.ec2.description.clone())
        };
        let id = self.world.disks[place].id();
        let (description, attack) = match (of_curfew(true), of_curfew(false)) {
            (Some(own), _) => (own, Attack::DoubleSnapshot),
            (None, Some(other)) if self.chance.one_in(2) => (other, Attack::DescribeSnapshot),
            _ => (format!("Curfew: {id} before its deletion, by run-0"), Attack::ForgeSnapshot),
        };
        let tags = self.labels_of_snapshot(place);
        let number = self.world.begin_snapshot(place, SnapshotMaker::Adversary, (&description, tags), false, self.now);
        self.world.snaps[number].says = OwnerTags::default();
        attack
    }

    /// What Curfew writes on a snapshot whose volume is long gone.
    fn labels_of_snapshot(&self, place: usize) -> Tags {
        let (id, at) = (self.world.disks[place].id().to_owned(), stamp(self.now - 400 * DAY).to_string());
        let labels = [(SNAPSHOT_OF, id), (DELETED_AT, at), (RESTORE, "us-east-1a,gp3,8,3000,125".to_owned())];
        labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn attack_snapshot(&mut self, place: usize) {
        let (disk, now) = (self.world.snaps[place].disk, self.now);
        let labels = self.labels_of_snapshot(disk);
        let is_of_curfew = self.world.snaps[place].maker == SnapshotMaker::Curfew;
        let far = self.chance.pick(&FAR);
        let snap = &mut self.world.snaps[place];
        let attack = match self.chance.below(5) {
            _ if !is_of_curfew => {
                snap.ec2.tags.extend(labels);
                Attack::LabelSnapshot
            }
            0 => {
                snap.ec2.tags.extend(labels);
                Attack::RedateSnapshot
            }
            1 => {
                snap.ec2.tags.insert(DELETED_AT.to_owned(), far.to_owned());
                Attack::RedateSnapshot
            }
            2 => {
                snap.ec2.tags.retain(|key, _| !LABELS.contains(&key.as_str()));
                Attack::UnlabelSnapshot
            }
            3 if !snap.ec2.tags.contains_key(MODE) => {
                snap.ec2.tags.insert(MODE.to_owned(), "enforce".to_owned());
                Attack::EnforceSnapshot
            }
            4 => self.copy_snapshot(place),
            _ => return,
        };
        self.world.snaps[place].tampered_at = now;
        let id = self.world.snaps[place].id().to_owned();
        (self.did)(attack, &id);
    }

    /// EC2 API reference, `CopySnapshot`: who copies writes the description, and the copy is of a volume that does not exist.
    fn copy_snapshot(&mut self, place: usize) -> Attack {
        self.make_room();
        let (number, snap) = (self.world.snaps.len(), &self.world.snaps[place]);
        let mut ec2 = snap.ec2.clone();
        ec2.id = format!("snap-{number:017x}").as_str().into();
        ec2.of_volume = "vol-ffffffff".into();
        ec2.state = SnapshotState::Completed;
        ec2.started_at = stamp(self.now);
        if self.chance.one_in(2) {
            ec2.description = ec2.description.replace(snap.ec2.of_volume.as_str(), "vol-ffffffff");
        }
        let (disk, says) = (snap.disk, OwnerTags::default());
        self.world.snaps.push(SimulatedSnapshot {
            ec2,
            maker: SnapshotMaker::Adversary,
            disk,
            says,
            completes_at: self.now,
            fails: false,
            of_image: false,
            refused_until: 0,
            changed_at: 0,
            tampered_at: self.now,
            gone_at: None,
        });
        Attack::CopySnapshot
    }
}
