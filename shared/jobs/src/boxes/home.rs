//! The home of a box: the volume that is true, its snapshots, and the next step towards a machine that has it.
//!
//! [`next_home`] is the whole decision. Whoever reconciles a box writes the home that it answers over the version that it read, and only then
//! asks again; an effect follows from a written home alone. So an effect may be repeated, come late, or be lost with the run that had it.
//!
//! - A volume is made in the zone of the machine that waits for it, by a token of its number, so that a repeat makes no second one (EC2 API
//!   reference, `CreateVolume`).
//! - It is attached once the machine runs, and after [`HomeVolume::attached_to`] names it. That name goes only once the machine is gone and EC2
//!   has the volume as available again.
//! - A snapshot is taken at each end, while nothing has the volume: what it then holds is everything that was written.
//! - Where the machine is in another zone, a volume made from that snapshot takes the place of the old one, which is deleted once the new one is
//!   attached. There is none without a complete snapshot of the last use: an older one is never mounted in silence.

use jiff::Timestamp;
use model::id::ResourceId;
use serde::{Deserialize, Serialize};

use super::terms::BoxRemoval;

/// The completed snapshots that are kept.
const SNAPSHOTS_KEPT: usize = 2;

/// The home, as the document of its box has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Home {
    pub size_gib: u32,
    /// The volume that is true; `None` before the first `up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<HomeVolume>,
    /// Volumes that were true before, to be deleted once the volume that took their place is attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<ResourceId>,
    /// Its snapshots, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<HomeSnapshot>,
}

/// One volume of a home.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HomeVolume {
    /// The number of the volume, from 1 on: part of the token by which it is made.
    pub number: u32,
    pub zone: String,
    /// The snapshot that it is made from; `None` if it begins empty, and may be formatted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ResourceId>,
    /// `None` until EC2 has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ResourceId>,
    /// The machine that has it, or is about to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached_to: Option<ResourceId>,
    /// The number of machines that have had it.
    #[serde(default)]
    pub uses: u32,
    /// Time at which EC2 answered: it may not show a volume for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_at: Option<Timestamp>,
}

/// One snapshot of a home.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HomeSnapshot {
    pub id: ResourceId,
    /// The content that it holds: the volume after so many uses.
    pub of: HomeState,
    pub at: Timestamp,
    /// `true` once EC2 has completed it.
    pub completed: bool,
}

/// A state of a home's content. No two machines leave the same one behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HomeState {
    /// [`HomeVolume::number`].
    pub volume: u32,
    /// [`HomeVolume::uses`].
    pub uses: u32,
}

/// The facts of EC2; `None` where one is unknown.
#[derive(Debug, Clone, Default)]
pub struct HomeFacts {
    /// The machine of the holder, if it runs.
    pub machine: Option<BoxMachine>,
    /// `true` if the machine that [`HomeVolume::attached_to`] names is known to be terminated.
    pub is_last_machine_gone: bool,
    /// The state of the volume that is true.
    pub volume: Option<VolumeSight>,
    /// The snapshots of the home that EC2 has, those in error left out: those that the home names, and those of the volume that is true, whose
    /// description says what they hold. Nobody can change a description, or the volume of a snapshot, as anybody may who can write tags.
    pub snapshots: Option<Vec<HomeSnapshot>>,
}

/// What EC2 says of a home; `None` where that is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HomeSight {
    /// [`HomeFacts::volume`].
    pub volume: Option<VolumeSight>,
    /// [`HomeFacts::snapshots`].
    pub snapshots: Option<Vec<HomeSnapshot>>,
}

/// A running machine of a box.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BoxMachine {
    pub instance: ResourceId,
    pub zone: String,
}

/// The volume that is true, as EC2 has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeSight {
    Available,
    /// Attached to an instance, or about to be attached or detached.
    InUse(ResourceId),
    /// Being made.
    Creating,
    /// Deleted, or in error.
    Lost,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeStep {
    /// This home is to be written, before anything else.
    Write(Box<Home>),
    Effect(HomeEffect),
    Wait(HomeWait),
    /// The machine has the home.
    Attached,
    /// No machine needs it, and its last snapshot is complete.
    Rests,
}

/// One call to EC2. Its result is a fact of the next round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HomeEffect {
    /// Makes the volume that is true, by a token of its number. The answer is [`Home::created`].
    CreateVolume,
    Attach {
        volume: ResourceId,
        instance: ResourceId,
    },
    /// Takes a snapshot, whose description says of which state. It has no token: one with that description is looked for first.
    CreateSnapshot {
        volume: ResourceId,
        of: HomeState,
    },
    DeleteVolume(ResourceId),
    DeleteSnapshot(ResourceId),
}

/// The reason for which nothing can be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HomeWait {
    /// EC2 did not say what has to be known.
    Unknown,
    /// The last machine still has the volume.
    LastMachine,
    /// The volume is being made.
    Volume,
    /// The snapshot of the last use is not complete: in this zone the home cannot be had before.
    Snapshot,
    /// The volume is gone, and no snapshot of its last use is complete: a person has to decide.
    Lost,
}

impl Home {
    /// A home that nothing has used yet.
    #[must_use]
    pub const fn new(size_gib: u32) -> Self {
        Self { size_gib, volume: None, replaced: Vec::new(), snapshots: Vec::new() }
    }

    /// The home with the id of its volume, by EC2's answer to [`HomeEffect::CreateVolume`] for the volume of that number.
    #[must_use]
    pub fn created(&self, number: u32, id: ResourceId, now: Timestamp) -> Option<Self> {
        let volume = self.volume.as_ref().filter(|volume| volume.number == number && volume.id.is_none())?;
        Some(self.with_volume(HomeVolume { id: Some(id), made_at: Some(now), ..volume.clone() }))
    }

    /// The home without one that it had before, once EC2 has deleted it.
    #[must_use]
    pub fn without_replaced(&self, id: &ResourceId) -> Self {
        Self { replaced: self.replaced.iter().filter(|one| *one != id).cloned().collect(), ..self.clone() }
    }

    /// The calls that remove it: its volumes, and its snapshots where everything is to go.
    #[must_use]
    pub fn removal(&self, what: BoxRemoval) -> Vec<HomeEffect> {
        let volumes = self.volume.iter().filter_map(|volume| volume.id.as_ref()).chain(&self.replaced);
        let snapshots = self.snapshots.iter().filter(|_| what == BoxRemoval::Everything).map(|one| &one.id);
        let volumes = volumes.cloned().map(HomeEffect::DeleteVolume);
        volumes.chain(snapshots.cloned().map(HomeEffect::DeleteSnapshot)).collect()
    }

    /// The home after its volume was removed: the next machine gets another one, made from the last snapshot.
    #[must_use]
    pub fn without_volume(&self) -> Self {
        let Some(volume) = &self.volume else { return self.clone() };
        let from = self.whole_snapshot(volume).cloned();
        if from.is_none() && !volume.is_unused() {
            return self.clone();
        }
        let (number, zone) = (volume.number.saturating_add(1), volume.zone.clone());
        let next = HomeVolume { number, zone, from, id: None, attached_to: None, uses: 0, made_at: None };
        Self { replaced: Vec::new(), ..self.with_volume(next) }
    }

    /// `true` if that machine has the volume, or is about to.
    #[must_use]
    pub fn names(&self, machine: &ResourceId) -> bool {
        self.volume.as_ref().is_some_and(|volume| volume.attached_to.as_ref() == Some(machine))
    }

    fn with_volume(&self, volume: HomeVolume) -> Self {
        Self { volume: Some(volume), ..self.clone() }
    }

    /// The snapshot from which the home can be made anew without a loss: the one that `volume` was made from, if nothing has used it since, or a
    /// complete one of its last use.
    fn whole_snapshot<'a>(&'a self, volume: &'a HomeVolume) -> Option<&'a ResourceId> {
        if volume.uses == 0 {
            return volume.from.as_ref();
        }
        self.snapshots.iter().find(|one| one.completed && one.of == volume.state()).map(|one| &one.id)
    }

    /// The home with what EC2 says of its snapshots; `None` if that is nothing new. One that is missing there is gone: whoever reads the facts
    /// asks twice.
    fn learn(&self, seen: &[HomeSnapshot]) -> Option<Self> {
        let mut snapshots: Vec<HomeSnapshot> = seen.to_vec();
        snapshots.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
        (snapshots != self.snapshots).then(|| Self { snapshots, ..self.clone() })
    }

    /// The oldest complete snapshot but the one that the home can be made from, if more are kept than wanted.
    fn superfluous_snapshot(&self) -> Option<&ResourceId> {
        let whole = self.volume.as_ref().and_then(|volume| self.whole_snapshot(volume));
        let completed = || self.snapshots.iter().filter(|one| one.completed).map(|one| &one.id);
        completed().find(|id| Some(*id) != whole).filter(|_| completed().count() > SNAPSHOTS_KEPT)
    }
}

impl HomeVolume {
    /// `true` if nothing was ever in it.
    const fn is_unused(&self) -> bool {
        self.uses == 0 && self.from.is_none()
    }

    /// The content that it has when nothing uses it.
    const fn state(&self) -> HomeState {
        HomeState { volume: self.number, uses: self.uses }
    }
}

/// The next step for a home: towards the machine of its holder if one runs, and towards a complete snapshot otherwise. Total and pure.
///
/// An unknown fact waits.
#[must_use]
pub fn next_home(home: &Home, facts: &HomeFacts) -> HomeStep {
    if let Some(learnt) = facts.snapshots.as_ref().and_then(|seen| home.learn(seen)) {
        return HomeStep::Write(Box::new(learnt));
    }
    let Some(volume) = &home.volume else {
        return match &facts.machine {
            Some(machine) => write_volume(home, 1, &machine.zone, None),
            None => HomeStep::Rests,
        };
    };
    let Some(id) = &volume.id else { return HomeStep::Effect(HomeEffect::CreateVolume) };
    match (&volume.attached_to, &facts.machine, &facts.volume) {
        (_, _, None) => HomeStep::Wait(HomeWait::Unknown),
        (_, _, Some(VolumeSight::Creating)) => HomeStep::Wait(HomeWait::Volume),
        // Nothing has a volume that is gone.
        (Some(_), _, Some(VolumeSight::Lost)) if facts.is_last_machine_gone => {
            HomeStep::Write(Box::new(home.with_volume(HomeVolume { attached_to: None, ..volume.clone() })))
        }
        (attached_to, machine, Some(VolumeSight::Lost)) => {
            let is_free = attached_to.is_none() || facts.is_last_machine_gone;
            match (home.whole_snapshot(volume), machine) {
                (None, _) if !volume.is_unused() => HomeStep::Wait(HomeWait::Lost),
                (from, Some(machine)) if is_free => replace(home, volume, &machine.zone, from.cloned()),
                (_, Some(_)) => HomeStep::Wait(HomeWait::LastMachine),
                (_, None) => HomeStep::Rests,
            }
        }
        (Some(to), Some(machine), Some(sight)) if *to == machine.instance => match sight {
            VolumeSight::InUse(by) if by == to => after_attachment(home),
            VolumeSight::Available => HomeStep::Effect(HomeEffect::Attach { volume: id.clone(), instance: to.clone() }),
            _ => HomeStep::Wait(HomeWait::Unknown),
        },
        (Some(_), _, Some(VolumeSight::Available)) if facts.is_last_machine_gone => {
            HomeStep::Write(Box::new(home.with_volume(HomeVolume { attached_to: None, ..volume.clone() })))
        }
        (Some(_), ..) | (None, _, Some(VolumeSight::InUse(_))) => HomeStep::Wait(HomeWait::LastMachine),
        (None, Some(machine), Some(VolumeSight::Available)) => attach_or_move(home, (volume, id), machine, facts),
        (None, None, Some(VolumeSight::Available)) => rest(home, volume, id, facts),
    }
}

/// The next step for a machine, of a volume that nothing has.
fn attach_or_move(
    home: &Home,
    (volume, id): (&HomeVolume, &ResourceId),
    machine: &BoxMachine,
    facts: &HomeFacts,
) -> HomeStep {
    if volume.zone == machine.zone {
        let uses = volume.uses.saturating_add(1);
        let attached_to = Some(machine.instance.clone());
        return HomeStep::Write(Box::new(home.with_volume(HomeVolume { attached_to, uses, ..volume.clone() })));
    }
    match home.whole_snapshot(volume) {
        None if !volume.is_unused() => snapshot(home, volume, id, facts),
        from => replace(home, volume, &machine.zone, from.cloned()),
    }
}

/// The next step without a machine, of a volume that nothing has.
fn rest(home: &Home, volume: &HomeVolume, id: &ResourceId, facts: &HomeFacts) -> HomeStep {
    if !volume.is_unused() && home.whole_snapshot(volume).is_none() {
        return snapshot(home, volume, id, facts);
    }
    match home.superfluous_snapshot() {
        Some(snapshot) if facts.snapshots.is_some() => HomeStep::Effect(HomeEffect::DeleteSnapshot(snapshot.clone())),
        Some(_) => HomeStep::Wait(HomeWait::Unknown),
        None => HomeStep::Rests,
    }
}

/// Takes the snapshot of the last use, unless it is under way.
fn snapshot(home: &Home, volume: &HomeVolume, id: &ResourceId, facts: &HomeFacts) -> HomeStep {
    if facts.snapshots.is_none() {
        return HomeStep::Wait(HomeWait::Unknown);
    }
    if home.snapshots.iter().any(|one| one.of == volume.state()) {
        return HomeStep::Wait(HomeWait::Snapshot);
    }
    HomeStep::Effect(HomeEffect::CreateSnapshot { volume: id.clone(), of: volume.state() })
}

/// Another volume takes the place of this one: made from a snapshot of everything in it, or empty if there is nothing in it.
fn replace(home: &Home, volume: &HomeVolume, zone: &str, from: Option<ResourceId>) -> HomeStep {
    let mut replaced = home.replaced.clone();
    replaced.extend(volume.id.clone());
    write_volume(&Home { replaced, ..home.clone() }, volume.number.saturating_add(1), zone, from)
}

fn write_volume(home: &Home, number: u32, zone: &str, from: Option<ResourceId>) -> HomeStep {
    let zone = zone.to_owned();
    let volume = HomeVolume { number, zone, from, id: None, attached_to: None, uses: 0, made_at: None };
    HomeStep::Write(Box::new(home.with_volume(volume)))
}

/// The machine has the home: what it replaced can go.
fn after_attachment(home: &Home) -> HomeStep {
    match home.replaced.first() {
        Some(old) => HomeStep::Effect(HomeEffect::DeleteVolume(old.clone())),
        None => HomeStep::Attached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(uses: u32, snapshot: Option<u32>) -> Home {
        let volume = HomeVolume {
            number: 2,
            zone: "us-east-1a".to_owned(),
            from: None,
            id: Some("vol-1".into()),
            attached_to: None,
            uses,
            made_at: None,
        };
        let of = |uses| HomeState { volume: 2, uses };
        let at = Timestamp::UNIX_EPOCH;
        let snapshots = snapshot
            .map(|uses| HomeSnapshot { id: "snap-1".into(), of: of(uses), at, completed: true })
            .into_iter()
            .collect();
        Home { volume: Some(volume), snapshots, ..Home::new(20) }
    }

    #[test]
    fn what_is_gone_has_nothing_and_waits_for_a_person_without_a_snapshot() {
        let mut lost = home(1, None);
        lost.volume.as_mut().unwrap().attached_to = Some("i-1".into());
        let snapshots = Some(Vec::new());
        let facts = HomeFacts { volume: Some(VolumeSight::Lost), snapshots, ..HomeFacts::default() };
        assert_eq!(next_home(&lost, &facts), HomeStep::Wait(HomeWait::Lost), "its machine may still be there");
        let facts = HomeFacts { is_last_machine_gone: true, ..facts };
        let HomeStep::Write(free) = next_home(&lost, &facts) else { panic!("it is free") };
        assert_eq!(*free, home(1, None));
        assert_eq!(next_home(&free, &facts), HomeStep::Wait(HomeWait::Lost));
    }

    #[test]
    fn a_removed_volume_comes_back_from_the_snapshot_of_its_last_use() {
        let next = home(3, Some(3)).without_volume().volume.unwrap();
        assert_eq!((next.number, next.from, next.id, next.uses), (3, Some("snap-1".into()), None, 0));
        assert_eq!(home(3, Some(2)).without_volume(), home(3, Some(2)), "its last use is in no snapshot");
        let unused = home(0, None).without_volume().volume.unwrap();
        assert_eq!((unused.number, unused.from), (3, None), "a token is used once");
    }
}
