//! The truth, by the structures behind tags and configuration: the oracle's own reading of the contract.

use model::mode::Mode;
use model::volume::VolumeState;

use crate::settings::{SimulatedConfig, TEAMS};
use crate::tags::OwnerTags;
use crate::world::{SimulatedKeeper, SimulatedSnapshot, SimulatedVolume, SimulatedWorld};

impl OwnerTags {
    /// Why Curfew never touches it, in any other state.
    fn untouchable(&self, now: i64) -> Option<&'static str> {
        if self.protected {
            Some("protected")
        } else if self.typo.is_some() {
            Some("unreadable")
        } else {
            self.kept_until.filter(|until| now < *until).map(|_| "kept")
        }
    }
}

impl SimulatedVolume {
    pub(crate) fn untouchable(&self, now: i64) -> Option<&'static str> {
        self.says.untouchable(now)
    }
}

impl SimulatedSnapshot {
    pub(crate) fn untouchable(&self, now: i64) -> Option<&'static str> {
        self.says.untouchable(now)
    }
}

impl SimulatedWorld {
    /// Why the reaper skips an unattached volume.
    pub(crate) fn spared(&self, place: usize, now: i64) -> Option<&'static str> {
        let disk = &self.disks[place];
        disk.untouchable(now).or_else(|| match disk.keeper {
            _ if disk.ec2.state != VolumeState::Available => Some("not available"),
            Some(SimulatedKeeper::Kubernetes) => Some("of a Kubernetes claim"),
            Some(_) => Some("somebody else's"),
            None if disk.ec2.multi_attach => Some("for several instances"),
            None => disk.says.job.filter(|job| now < self.jobs[*job]).map(|_| "of a live job"),
        })
    }

    /// The possible owners of a volume, by everything that a run may know or not: its instances, and its source.
    fn owners(&self, place: usize) -> Vec<(Option<usize>, bool)> {
        let disk = &self.disks[place];
        let own = (disk.says.team(), disk.says.owner);
        let of_host = |host: &usize| (self.hosts[*host].team, self.hosts[*host].owner);
        let hosts = std::iter::once((None, false)).chain(disk.hosts_ever.iter().map(of_host));
        let sources = self.owners_by_source(disk.source);
        let with = |host: (Option<usize>, bool), source: (Option<usize>, bool)| {
            (own.0.or(host.0).or(source.0), own.1 || host.1 || source.1)
        };
        hosts.flat_map(|host| sources.iter().map(move |source| with(host, *source))).collect()
    }

    /// The tags of the snapshot that a volume came from: those of people, or those that Curfew wrote when its volume was deleted.
    fn owners_by_source(&self, source: Option<usize>) -> Vec<(Option<usize>, bool)> {
        let of_snap = source.map(|source| Self::owners_of_snap(&self.snaps[source]));
        [(None, false)].into_iter().chain(of_snap.into_iter().flatten()).collect()
    }

    fn owners_of_snap(snap: &SimulatedSnapshot) -> [(Option<usize>, bool); 2] {
        let written = |key: &str| snap.ec2.tags.get(key).map(String::as_str);
        let team = TEAMS.iter().position(|team| written("Team") == Some(team));
        let of_record = (team, written("Owner").is_some_and(|owner| !owner.trim().is_empty()));
        [(snap.says.team(), snap.says.owner), of_record]
    }

    /// The `team` attributes that a message about it may have.
    pub(crate) fn teams(&self, place: usize) -> Vec<&'static str> {
        self.owners(place).into_iter().map(|(team, _)| team.map_or("untagged", |team| TEAMS[team])).collect()
    }

    /// Whether it may be enforced, and whether it must.
    pub(crate) fn modes(&self, place: usize, settings: &SimulatedConfig, ceiling: Mode) -> (bool, bool) {
        modes(&self.disks[place].says, &self.owners(place), settings, ceiling)
    }

    /// The same for a snapshot, which has the tags of its volume, and for that volume's owners.
    pub(crate) fn modes_of_snap(&self, place: usize, settings: &SimulatedConfig, ceiling: Mode) -> (bool, bool) {
        let snap = &self.snaps[place];
        let owners = Self::owners_of_snap(snap);
        // Its tags may only restrict: who may tag a snapshot need not be its owner.
        let ceiling = ceiling.min(snap.says.mode.unwrap_or(Mode::Enforce));
        modes(&OwnerTags { mode: None, ..snap.says.clone() }, &owners, settings, ceiling)
    }
}

fn modes(
    says: &OwnerTags,
    owners: &[(Option<usize>, bool)],
    settings: &SimulatedConfig,
    ceiling: Mode,
) -> (bool, bool) {
    let mode = |(team, owner): &(Option<usize>, bool)| {
        let inferred = match team {
            Some(team) if *owner || !settings.owner_required => settings.teams[*team].unwrap_or(settings.mode),
            _ => settings.untagged_mode,
        };
        says.mode.unwrap_or(inferred).min(ceiling) == Mode::Enforce
    };
    (owners.iter().any(mode), owners.iter().all(mode))
}
