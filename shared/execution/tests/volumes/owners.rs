//! Owners: they create, attach, detach, forget, stop and terminate, and come back.

use model::curfew_tags::DELETED_AT;
use model::volume::SnapshotState;

use crate::chance::{DAY, HOUR, MINUTE, RandomStream};
use crate::named::named;
use crate::tags::OwnerTags;
use crate::world::{SimulatedHost, SimulatedVolume, SimulatedWorld, SnapshotMaker};

named! {
    /// Every action of owners and colleagues.
    Behaviour {
        Create = "create",
        CreateOfSnapshot = "create of a snapshot",
        TagAll = "tag all",
        TagNothing = "tag nothing",
        TagHalf = "tag half",
        TagForJob = "tag for a job",
        TagALot = "tag a lot",
        Attach = "attach",
        Detach = "detach",
        Nightly = "use for an hour each night",
        UseBetweenLooks = "use between two looks",
        Forget = "forget",
        Delete = "delete a volume",
        Break = "break a volume",
        LaunchHost = "launch an instance",
        StopHost = "stop an instance",
        StartHost = "start an instance",
        TerminateHost = "terminate an instance",
        EndJob = "end a job",
        Protect = "protect",
        Unprotect = "unprotect",
        KeepUntil = "keep-until",
        DropKeep = "drop keep-until",
        ObserveMode = "mode=observe",
        EnforceMode = "mode=enforce",
        DropMode = "drop mode",
        Mistype = "mistype a tag",
        MistypeTeam = "mistype the team's key",
        Mend = "mend a typo",
        Retag = "retag",
        SnapshotByHand = "snapshot by hand",
        CopySnapshot = "copy a snapshot of Curfew's with its tags",
        DeleteSnapshot = "delete a snapshot of Curfew's",
        ProtectSnapshot = "protect a snapshot",
        KeepSnapshot = "keep a snapshot",
        MistypeSnapshot = "mistype a tag of a snapshot",
        FreeSnapshot = "take such a tag off a snapshot",
        MakeImage = "make an image of a snapshot",
        DropImage = "drop an image",
        Undo = "undo a deletion",
        Meddle = "meddle between look and act",
        AttachAtTheCall = "attach at the call",
    }
}

/// How an owner tags a new volume.
pub(crate) fn first_tags(jobs: usize, chance: &mut RandomStream) -> (OwnerTags, Behaviour) {
    let all = OwnerTags { team: Some(chance.below(3)), owner: true, ..OwnerTags::default() };
    match chance.below(10) {
        0 => (OwnerTags::default(), Behaviour::TagNothing),
        1 => (OwnerTags { owner: false, ..all }, Behaviour::TagHalf),
        2 => (OwnerTags { team: None, ..all }, Behaviour::TagHalf),
        3 if jobs > 0 => (OwnerTags { job: Some(chance.below(jobs)), ..all }, Behaviour::TagForJob),
        4 if chance.one_in(3) => (OwnerTags { further: 45 + chance.below(2), ..all }, Behaviour::TagALot),
        5 => (OwnerTags { of_an_instance: true, further: 2, ..all }, Behaviour::TagAll),
        _ => (all, Behaviour::TagAll),
    }
}

/// The actions of an hour.
pub(crate) struct Owners<'a> {
    pub(crate) world: &'a mut SimulatedWorld,
    pub(crate) regions: usize,
    pub(crate) fleet: usize,
    pub(crate) chance: &'a mut RandomStream,
    pub(crate) now: i64,
    /// When a run last observed, or acted.
    pub(crate) looked_at: i64,
    pub(crate) did: &'a mut dyn FnMut(Behaviour, &str),
}

impl Owners<'_> {
    pub(crate) fn live(&mut self) {
        self.live_with_hosts();
        self.end_jobs();
        let living = self.world.disks.iter().filter(|disk| disk.exists()).count();
        if living < self.fleet && self.chance.one_in(8) {
            self.create();
        }
        for place in 0..self.world.disks.len() {
            if self.world.disks[place].exists() {
                self.live_with(place);
            }
        }
        if self.chance.one_in(30) {
            self.live_with_snapshots();
        }
    }

    fn live_with_hosts(&mut self) {
        let now = self.now;
        let living = self.world.hosts.iter().filter(|host| !host.gone).count();
        if living < self.regions + 2 || (living < 6 && self.chance.one_in(24)) {
            let number = self.world.hosts.len();
            let host = SimulatedHost {
                id: format!("i-{number:017x}").as_str().into(),
                place: if number < self.regions { number } else { self.chance.below(self.regions) },
                team: (!self.chance.one_in(3)).then(|| self.chance.below(3)),
                owner: !self.chance.one_in(4),
                running: true,
                stopped_at: None,
                legible: !self.chance.one_in(8),
                gone: false,
            };
            (self.did)(Behaviour::LaunchHost, host.id.as_str());
            self.world.hosts.push(host);
        }
        for place in 0..self.world.hosts.len() {
            if self.world.hosts[place].gone || !self.chance.one_in(90) {
                continue;
            }
            let id = self.world.hosts[place].id.clone();
            let behaviour = match self.chance.below(6) {
                0 => {
                    self.world.terminate_host(place, now);
                    Behaviour::TerminateHost
                }
                1 | 2 if self.world.hosts[place].running => {
                    self.world.stop_host(place, now);
                    Behaviour::StopHost
                }
                3 if !self.world.hosts[place].running => {
                    self.world.start_host(place, now);
                    Behaviour::StartHost
                }
                _ => continue,
            };
            (self.did)(behaviour, id.as_str());
        }
    }

    fn end_jobs(&mut self) {
        if self.world.jobs.len() < 60 && self.chance.one_in(100) {
            self.world.jobs.push(self.now + self.chance.between(DAY, 40 * DAY));
        }
        if self.world.jobs.iter().any(|until| (self.now - HOUR..self.now).contains(until)) {
            (self.did)(Behaviour::EndJob, "a job");
        }
    }

    fn create(&mut self) {
        let Self { world, chance, now, .. } = self;
        let (says, behaviour) = first_tags(world.jobs.len(), chance);
        let mut disk = SimulatedVolume::new(world.disks.len(), self.regions, says, *now, chance);
        (self.did)(behaviour, disk.id());
        let whole: Vec<usize> = (0..world.snaps.len())
            .filter(|place| world.snaps[*place].is_whole() && world.snaps[*place].ec2.region == disk.ec2.region)
            .collect();
        if !whole.is_empty() && chance.one_in(3) {
            let source = whole[chance.below(whole.len())];
            disk.source = Some(source);
            disk.ec2.from_snapshot = Some(world.snaps[source].ec2.id.clone());
            (self.did)(Behaviour::CreateOfSnapshot, disk.id());
        }
        (self.did)(Behaviour::Create, disk.id());
        world.disks.push(disk);
        if !self.chance.one_in(4) {
            let place = self.world.disks.len() - 1;
            self.attach(place);
        }
    }

    /// To an instance of its region.
    pub(crate) fn attach(&mut self, place: usize) {
        let Self { world, chance, now, .. } = self;
        let of_region =
            |host: &SimulatedHost| !host.gone && world.disks[place].ec2.region == crate::chance::region(host.place);
        let hosts: Vec<usize> = (0..world.hosts.len()).filter(|host| of_region(&world.hosts[*host])).collect();
        if hosts.is_empty() {
            return;
        }
        let host = hosts[chance.below(hosts.len())];
        let SimulatedWorld { disks, hosts, .. } = &mut **world;
        disks[place].attach(host, &hosts[host], *now);
        disks[place].rest_until = *now + chance.between(HOUR, 12 * DAY);
        (self.did)(Behaviour::Attach, disks[place].id());
    }

    fn live_with(&mut self, place: usize) {
        let now = self.now;
        self.use_for_an_hour(place);
        // Its owner deletes what nothing else deletes.
        if self.world.spared(place, now).is_some() && self.world.disks[place].host.is_none() && self.chance.one_in(300)
        {
            let disk = &mut self.world.disks[place];
            disk.delete(now);
            (self.did)(Behaviour::Delete, disk.id());
            return;
        }
        let disk = &mut self.world.disks[place];
        if now >= disk.rest_until {
            if disk.host.is_some() {
                disk.detach(now);
                let id = disk.id().to_owned();
                (self.did)(Behaviour::Detach, &id);
                // Most are forgotten.
                let disk = &mut self.world.disks[place];
                disk.rest_until = now
                    + if self.chance.one_in(3) {
                        self.chance.between(HOUR, 8 * DAY)
                    } else {
                        (self.did)(Behaviour::Forget, &id);
                        self.chance.between(30 * DAY, 200 * DAY)
                    };
                if self.chance.one_in(6) {
                    disk.nights_until = now + self.chance.between(2 * DAY, 50 * DAY);
                    disk.night_minute = self.chance.between(0, 24 * 60);
                    (self.did)(Behaviour::Nightly, &id);
                }
            } else if disk.is_free() {
                self.attach(place);
            }
        }
        if self.world.disks[place].exists() && now >= self.world.disks[place].next_random_action {
            self.world.disks[place].next_random_action = now + self.chance.between(HOUR, 12 * DAY);
            self.act_randomly(place);
        }
    }

    /// Attached and detached between two observations: only its samples show it.
    fn use_for_an_hour(&mut self, place: usize) {
        let Self { world, chance, now, .. } = self;
        let disk = &mut world.disks[place];
        if !disk.is_free() {
            return;
        }
        let of_night = (*now - 50 * MINUTE).div_euclid(MINUTE).rem_euclid(24 * 60);
        let at_night = disk.nights_until > *now && (of_night - disk.night_minute).rem_euclid(24 * 60) < 60;
        let by_chance = chance.one_in(1500);
        let begin = disk.changed_at.max(self.looked_at + MINUTE).max(*now - 3000);
        let end = *now - 600 + chance.between(-600, 500);
        if (at_night || by_chance) && begin + 120 < end {
            disk.uses.push((begin, end));
            (self.did)(Behaviour::UseBetweenLooks, disk.id());
        }
    }

    fn live_with_snapshots(&mut self) {
        let Self { world, chance, now, .. } = self;
        let existing: Vec<usize> = (0..world.snaps.len()).filter(|place| world.snaps[*place].exists()).collect();
        if existing.is_empty() {
            return;
        }
        let place = existing[chance.below(existing.len())];
        let behaviour = match chance.below(10) {
            0 if world.snaps[place].maker == SnapshotMaker::Curfew => {
                world.snaps[place].gone_at = Some(*now);
                Behaviour::DeleteSnapshot
            }
            1 => {
                world.snaps[place].say("curfew:protected", "yes");
                world.snaps[place].says.protected = true;
                Behaviour::ProtectSnapshot
            }
            2 => {
                let until = *now + chance.between(HOUR, 20 * DAY);
                world.snaps[place].say("curfew:keep-until", &crate::chance::stamp(until).to_string());
                world.snaps[place].says.kept_until = Some(until);
                Behaviour::KeepSnapshot
            }
            3 => {
                world.snaps[place].say("curfew:protectd", "yes");
                world.snaps[place].says.typo = Some(0);
                Behaviour::MistypeSnapshot
            }
            4 | 5 => {
                for key in ["curfew:protected", "curfew:keep-until", "curfew:protectd"] {
                    world.snaps[place].ec2.tags.remove(key);
                }
                let says = &mut world.snaps[place].says;
                (says.protected, says.kept_until, says.typo) = (false, None, None);
                Behaviour::FreeSnapshot
            }
            6 => {
                world.snaps[place].of_image = true;
                Behaviour::MakeImage
            }
            7 | 8 => {
                world.snaps[place].of_image = false;
                Behaviour::DropImage
            }
            9 if world.snaps[place].maker == SnapshotMaker::Curfew => {
                copy_snapshot(world, place, *now);
                Behaviour::CopySnapshot
            }
            _ => return,
        };
        world.snaps[place].changed_at = *now;
        let id = world.snaps[place].id().to_owned();
        (self.did)(behaviour, &id);
    }
}

impl crate::world::SimulatedSnapshot {
    fn say(&mut self, key: &str, value: &str) {
        self.ec2.tags.insert(key.to_owned(), value.to_owned());
    }
}

/// EC2 user guide, "Copy an Amazon EBS snapshot": it names a volume that does not exist, and copies the tags.
fn copy_snapshot(world: &mut SimulatedWorld, place: usize, now: i64) {
    let (number, snap) = (world.snaps.len(), &world.snaps[place]);
    let mut ec2 = snap.ec2.clone();
    ec2.id = format!("snap-{number:017x}").as_str().into();
    ec2.of_volume = "vol-ffffffff".into();
    ec2.state = SnapshotState::Completed;
    ec2.started_at = crate::chance::stamp(now);
    ec2.tags.remove(DELETED_AT);
    let (disk, says) = (snap.disk, snap.says.clone());
    world.snaps.push(crate::world::SimulatedSnapshot {
        ec2,
        maker: SnapshotMaker::People,
        disk,
        says,
        completes_at: now,
        fails: false,
        of_image: false,
        refused_until: 0,
        changed_at: now,
        tampered_at: 0,
        gone_at: None,
    });
}
