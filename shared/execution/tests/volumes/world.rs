//! The truth: volumes, the instances that they are attached to, and snapshots, as EC2 has them. It uses nothing of the policy.

use model::curfew_tags::LABELS;
use model::id::ResourceId;
use model::instance::Tags;
use model::volume::{Snapshot, SnapshotState, Volume, VolumeHost as SeenHost, VolumeState};

use crate::chance::{DAY, HOUR, MINUTE, REGIONS, RandomStream, region, stamp};
use crate::settings::{MANAGED_TAG, TEAMS};
use crate::tags::OwnerTags;

/// The longest delay of `CloudWatch`.
pub(crate) const LAG: i64 = 15 * MINUTE;

/// The controller that owns a volume, if its team does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimulatedKeeper {
    Kubernetes,
    Stack,
    Controller,
    Operator,
    Managed,
}

impl SimulatedKeeper {
    const fn tag(self) -> Option<&'static str> {
        match self {
            Self::Kubernetes => Some("kubernetes.io/created-for/pvc/name"),
            Self::Stack => Some("aws:cloudformation:stack-id"),
            Self::Controller => Some("aws:autoscaling:groupName"),
            Self::Managed => Some(MANAGED_TAG),
            Self::Operator => None,
        }
    }
}

pub(crate) struct SimulatedVolume {
    /// As EC2 describes it now.
    pub(crate) ec2: Volume,
    pub(crate) says: OwnerTags,
    pub(crate) keeper: Option<SimulatedKeeper>,
    pub(crate) created: i64,
    /// The instances that it is and was attached to.
    pub(crate) host: Option<usize>,
    pub(crate) hosts_ever: Vec<usize>,
    /// `DeleteOnTermination`.
    pub(crate) goes_with_host: bool,
    /// From when to when it was attached to a running instance.
    pub(crate) uses: Vec<(i64, i64)>,
    /// It is used for an hour each night until then, at that minute of the day.
    pub(crate) nights_until: i64,
    pub(crate) night_minute: i64,
    pub(crate) next_random_action: i64,
    /// Until then its owner does nothing to it.
    pub(crate) rest_until: i64,
    /// The last change by people: tags, attachment, state.
    pub(crate) changed_at: i64,
    pub(crate) gone_at: Option<i64>,
    /// The snapshot that it was created from.
    pub(crate) source: Option<usize>,
    /// How long a snapshot of it takes.
    pub(crate) snapshot_takes: i64,
    /// The last change by the adversary.
    pub(crate) tampered_at: i64,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct SimulatedHost {
    pub(crate) id: ResourceId,
    pub(crate) place: usize,
    pub(crate) team: Option<usize>,
    pub(crate) owner: bool,
    pub(crate) running: bool,
    pub(crate) stopped_at: Option<i64>,
    /// The time of its stop, by EC2.
    pub(crate) legible: bool,
    pub(crate) gone: bool,
}

/// Who made a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnapshotMaker {
    Curfew,
    People,
    Adversary,
}

pub(crate) struct SimulatedSnapshot {
    pub(crate) ec2: Snapshot,
    pub(crate) maker: SnapshotMaker,
    /// The volume whose data it has.
    pub(crate) disk: usize,
    pub(crate) says: OwnerTags,
    pub(crate) completes_at: i64,
    pub(crate) fails: bool,
    /// An AMI uses it.
    pub(crate) of_image: bool,
    /// A refused deletion is tried again a day later.
    pub(crate) refused_until: i64,
    /// The last change by people.
    pub(crate) changed_at: i64,
    /// The last change by the adversary.
    pub(crate) tampered_at: i64,
    pub(crate) gone_at: Option<i64>,
}

#[derive(Default)]
pub(crate) struct SimulatedWorld {
    pub(crate) disks: Vec<SimulatedVolume>,
    pub(crate) hosts: Vec<SimulatedHost>,
    pub(crate) snaps: Vec<SimulatedSnapshot>,
    /// Until when each job lives.
    pub(crate) jobs: Vec<i64>,
}

/// Type, GiB, IOPS, MiB per second, and hours that a snapshot takes.
type Type = (&'static str, u64, Option<u64>, Option<u64>, i64);

const TYPES: [Type; 6] = [
    ("gp3", 500, Some(3000), Some(125), 2),
    ("gp3", 100, Some(6000), Some(500), 1),
    ("gp2", 50, Some(150), None, 0),
    ("io2", 400, Some(20_000), None, 3),
    ("st1", 16_384, None, None, 40),
    ("sc1", 8_000, None, None, 20),
];

impl SimulatedVolume {
    /// One more volume, on no instance yet.
    pub(crate) fn new(number: usize, regions: usize, says: OwnerTags, now: i64, chance: &mut RandomStream) -> Self {
        let (name, size_gib, iops, throughput_mibps, hours) = chance.pick(&TYPES);
        let all = [
            SimulatedKeeper::Kubernetes,
            SimulatedKeeper::Stack,
            SimulatedKeeper::Controller,
            SimulatedKeeper::Operator,
            SimulatedKeeper::Managed,
        ];
        let keeper = chance.one_in(10).then(|| chance.pick(&all));
        let place = chance.below(regions);
        let ec2 = Volume {
            id: format!("vol-{number:017x}").as_str().into(),
            region: region(place),
            zone: format!("{}{}", REGIONS[place], chance.pick(&["a", "b"])),
            volume_type: name.to_owned(),
            size_gib,
            iops,
            throughput_mibps,
            state: VolumeState::Creating,
            attached_to: Vec::new(),
            multi_attach: name == "io2" && chance.one_in(3),
            created_at: stamp(now),
            tags: Tags::new(),
            from_snapshot: None,
            operator: (keeper == Some(SimulatedKeeper::Operator)).then(|| "workspaces.amazonaws.com".to_owned()),
        };
        let mut disk = Self {
            ec2,
            says,
            keeper,
            created: now,
            host: None,
            hosts_ever: Vec::new(),
            goes_with_host: chance.one_in(3),
            uses: Vec::new(),
            nights_until: 0,
            night_minute: 0,
            next_random_action: now + chance.between(HOUR, 6 * DAY),
            rest_until: now + chance.between(HOUR, 10 * DAY),
            changed_at: now,
            gone_at: None,
            source: None,
            snapshot_takes: hours * HOUR + chance.between(60, 3 * HOUR),
            tampered_at: 0,
        };
        disk.retag(now);
        disk
    }

    pub(crate) fn id(&self) -> &str {
        self.ec2.id.as_str()
    }

    pub(crate) fn exists(&self) -> bool {
        self.gone_at.is_none()
    }

    /// Whether a list shows it: for a while also after its deletion.
    pub(crate) fn is_listed(&self) -> bool {
        self.exists() || self.ec2.state == VolumeState::Deleting
    }

    pub(crate) fn is_free(&self) -> bool {
        self.exists() && self.ec2.state == VolumeState::Available
    }

    /// Writes the tags of its owner; those of Curfew stay.
    pub(crate) fn retag(&mut self, now: i64) {
        let mut tags = self.says.tags();
        tags.extend(self.keeper.and_then(SimulatedKeeper::tag).map(|key| (key.to_owned(), "x".to_owned())));
        let labels = LABELS.iter().filter_map(|key| self.ec2.tags.remove_entry(*key));
        tags.extend(labels);
        self.ec2.tags = tags;
        self.changed_at = now;
    }

    pub(crate) fn attach(&mut self, place: usize, host: &SimulatedHost, now: i64) {
        self.host = Some(place);
        self.hosts_ever.push(place);
        self.ec2.state = VolumeState::InUse;
        self.ec2.attached_to = vec![host.id.clone()];
        self.changed_at = now;
        if host.running {
            self.uses.push((now, i64::MAX));
        }
    }

    pub(crate) fn detach(&mut self, now: i64) {
        self.host = None;
        self.ec2.state = VolumeState::Available;
        self.ec2.attached_to.clear();
        self.changed_at = now;
        self.pause(now);
    }

    /// Its instance is not running any more.
    fn pause(&mut self, now: i64) {
        if let Some(last) = self.uses.last_mut().filter(|last| last.1 == i64::MAX) {
            last.1 = now;
        }
    }

    /// EC2 begins to delete it.
    pub(crate) fn delete(&mut self, now: i64) {
        self.detach(now);
        self.ec2.state = VolumeState::Deleting;
        self.gone_at = Some(now);
    }

    /// The newest available sample since a moment, with this delay of `CloudWatch`: by the minute for 15 days, by 5 minutes for 63; of longer
    /// periods the one that contains the moment does not count.
    pub(crate) fn used(&self, since: i64, now: i64, lag: i64) -> Option<i64> {
        let (age, day) = (now - since, DAY);
        let period = if age < 15 * day - HOUR {
            MINUTE
        } else if age < 63 * day - HOUR {
            5 * MINUTE
        } else {
            HOUR
        };
        let from = if period == MINUTE { since } else { since + period - 1 }.div_euclid(period) * period;
        self.uses.iter().rev().find_map(|(begin, end)| {
            let visible = (*end).min(now - lag);
            let newest = (visible - 1).div_euclid(period) * period;
            (visible - begin >= MINUTE && newest >= from).then_some(newest)
        })
    }

    /// The end of the last use that every observation at that time must show.
    pub(crate) fn known_use(&self, now: i64) -> i64 {
        let known = self.uses.iter().filter(|(begin, _)| begin + MINUTE <= now - LAG);
        known.map(|(_, end)| *end).max().unwrap_or(0)
    }
}

impl SimulatedHost {
    pub(crate) fn seen(&self) -> SeenHost {
        let mut tags = Tags::new();
        tags.extend(self.team.map(|team| ("Team".to_owned(), TEAMS[team].to_owned())));
        tags.extend(self.owner.then(|| ("Owner".to_owned(), "grace".to_owned())));
        SeenHost {
            id: self.id.clone(),
            region: region(self.place),
            tags,
            stopped: !self.running,
            stopped_at: self.stopped_at.filter(|_| self.legible).map(stamp),
        }
    }
}

impl SimulatedSnapshot {
    pub(crate) fn id(&self) -> &str {
        self.ec2.id.as_str()
    }

    pub(crate) fn exists(&self) -> bool {
        self.gone_at.is_none()
    }

    /// Whether the data of a volume can be restored from it, now or later.
    pub(crate) fn is_begun(&self) -> bool {
        self.exists() && matches!(self.ec2.state, SnapshotState::Pending | SnapshotState::Completed)
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.exists() && self.ec2.state == SnapshotState::Completed
    }
}

impl SimulatedWorld {
    /// EC2's own changes. Returns whether a snapshot failed.
    pub(crate) fn settle(&mut self, now: i64) -> bool {
        for disk in &mut self.disks {
            match disk.ec2.state {
                VolumeState::Creating => disk.ec2.state = VolumeState::Available,
                VolumeState::Deleting => disk.ec2.state = VolumeState::Deleted,
                _ => {}
            }
        }
        let mut failed = false;
        let pending =
            |snap: &&mut SimulatedSnapshot| snap.ec2.state == SnapshotState::Pending && snap.completes_at <= now;
        for snap in self.snaps.iter_mut().filter(pending) {
            failed |= snap.fails;
            snap.ec2.state = if snap.fails { SnapshotState::Error } else { SnapshotState::Completed };
        }
        failed
    }

    pub(crate) fn disk(&self, id: &str) -> Option<usize> {
        let number = usize::from_str_radix(id.strip_prefix("vol-")?, 16).ok()?;
        (number < self.disks.len()).then_some(number)
    }

    pub(crate) fn snap(&self, id: &str) -> Option<usize> {
        let number = usize::from_str_radix(id.strip_prefix("snap-")?, 16).ok()?;
        (number < self.snaps.len()).then_some(number)
    }

    pub(crate) fn stop_host(&mut self, place: usize, now: i64) {
        self.hosts[place].running = false;
        self.hosts[place].stopped_at = Some(now);
        for disk in self.disks.iter_mut().filter(|disk| disk.host == Some(place)) {
            disk.pause(now);
            disk.changed_at = now;
        }
    }

    pub(crate) fn start_host(&mut self, place: usize, now: i64) {
        self.hosts[place].running = true;
        self.hosts[place].stopped_at = None;
        for disk in self.disks.iter_mut().filter(|disk| disk.host == Some(place)) {
            disk.uses.push((now, i64::MAX));
            disk.changed_at = now;
        }
    }

    pub(crate) fn terminate_host(&mut self, place: usize, now: i64) {
        self.hosts[place].gone = true;
        for disk in self.disks.iter_mut().filter(|disk| disk.host == Some(place)) {
            if disk.goes_with_host { disk.delete(now) } else { disk.detach(now) }
        }
    }

    /// A snapshot begins.
    pub(crate) fn begin_snapshot(
        &mut self,
        place: usize,
        maker: SnapshotMaker,
        (description, tags): (&str, Tags),
        fails: bool,
        now: i64,
    ) -> usize {
        let (disk, number) = (&self.disks[place], self.snaps.len());
        let says = OwnerTags { typo: None, protected: false, ..disk.says.clone() };
        self.snaps.push(SimulatedSnapshot {
            ec2: Snapshot {
                id: format!("snap-{number:017x}").as_str().into(),
                region: disk.ec2.region.clone(),
                of_volume: disk.ec2.id.clone(),
                state: SnapshotState::Pending,
                started_at: stamp(now),
                size_gib: disk.ec2.size_gib,
                tags,
                description: description.to_owned(),
            },
            maker,
            disk: place,
            says,
            completes_at: now + disk.snapshot_takes,
            fails,
            of_image: false,
            refused_until: 0,
            changed_at: 0,
            tampered_at: 0,
            gone_at: None,
        });
        number
    }
}
