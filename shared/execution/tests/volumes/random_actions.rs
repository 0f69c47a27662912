//! Random actions of owners and colleagues: they tag, mistype, copy, protect, delete and undo.

use model::curfew_tags::{MARKED, UNATTACHED_SINCE};
use model::mode::Mode;
use model::volume::VolumeState;

use crate::chance::{DAY, HOUR};
use crate::owners::{Behaviour, Owners};
use crate::tags::TYPOS;
use crate::world::SnapshotMaker;

impl Owners<'_> {
    pub(crate) fn act_randomly(&mut self, place: usize) {
        let behaviour = match self.chance.below(16) {
            0..10 => self.reword(place),
            10 | 11 => self.meddle_with_marks(place),
            12 => self.snapshot_by_hand(place),
            13 if self.chance.one_in(3) => self.lose(place),
            _ => return,
        };
        if let Some(behaviour) = behaviour {
            let id = self.world.disks[place].id().to_owned();
            (self.did)(behaviour, &id);
        }
    }

    /// A colleague intervenes between a read and its call.
    pub(crate) fn meddle(&mut self, place: usize) {
        let id = self.world.disks[place].id().to_owned();
        (self.did)(Behaviour::Meddle, &id);
        match self.chance.below(6) {
            0 | 1 if self.world.disks[place].is_free() => self.attach(place),
            0 if self.world.disks[place].host.is_some() => self.world.disks[place].detach(self.now),
            2 => {
                if let Some(behaviour) = self.lose(place) {
                    (self.did)(behaviour, &id);
                }
            }
            3 => self.lose_a_snapshot(place),
            _ => self.act_randomly(place),
        }
    }

    fn lose_a_snapshot(&mut self, place: usize) {
        let now = self.now;
        let snaps = self.world.snaps.iter_mut();
        let mut of_it = snaps.filter(|snap| snap.disk == place && snap.exists() && snap.maker == SnapshotMaker::Curfew);
        if let Some(snap) = of_it.next() {
            snap.gone_at = Some(now);
            snap.changed_at = now;
            (self.did)(Behaviour::DeleteSnapshot, snap.id());
        }
    }

    fn reword(&mut self, place: usize) -> Option<Behaviour> {
        let Self { world, chance, now, .. } = self;
        let says = &mut world.disks[place].says;
        let behaviour = match chance.below(22) {
            0 => {
                says.protected = true;
                Behaviour::Protect
            }
            1..5 => {
                says.protected = false;
                Behaviour::Unprotect
            }
            5 => {
                says.kept_until = Some(*now + chance.between(HOUR, 12 * DAY));
                Behaviour::KeepUntil
            }
            6 => {
                says.kept_until = None;
                Behaviour::DropKeep
            }
            7 => {
                says.mode = Some(Mode::Observe);
                Behaviour::ObserveMode
            }
            8 | 9 => {
                says.mode = Some(Mode::Enforce);
                Behaviour::EnforceMode
            }
            10 => {
                says.mode = None;
                Behaviour::DropMode
            }
            11 => {
                says.typo = Some(chance.below(TYPOS.len()));
                Behaviour::Mistype
            }
            12..16 => {
                says.typo = None;
                Behaviour::Mend
            }
            16 => {
                says.team_mistyped = true;
                Behaviour::MistypeTeam
            }
            17 | 18 => {
                says.team_mistyped = false;
                says.owner = true;
                says.team = Some(chance.below(3));
                Behaviour::Retag
            }
            _ => return None,
        };
        world.disks[place].retag(*now);
        Some(behaviour)
    }

    /// "Tag it like this other one": with Curfew's tags. Or they are cleaned up.
    fn meddle_with_marks(&mut self, place: usize) -> Option<Behaviour> {
        let Self { world, chance, now, .. } = self;
        let behaviour = if chance.one_in(2) {
            let is_marked = |other: &&crate::world::SimulatedVolume| other.ec2.tags.contains_key(UNATTACHED_SINCE);
            let marked: Vec<_> = world.disks.iter().filter(is_marked).map(|disk| disk.ec2.tags.clone()).collect();
            if marked.is_empty() {
                return None;
            }
            let tags = &marked[chance.below(marked.len())];
            for key in [MARKED, UNATTACHED_SINCE] {
                let value = tags.get(key).filter(|value| !TYPOS.contains(&(key, value.as_str())));
                let copied = value.map(|value| (key.to_owned(), value.clone()));
                world.disks[place].ec2.tags.extend(copied);
            }
            Behaviour::CopyMarks
        } else {
            world.disks[place].ec2.tags.remove(MARKED);
            world.disks[place].ec2.tags.remove(UNATTACHED_SINCE);
            Behaviour::RemoveMarks
        };
        world.disks[place].retag(*now);
        world.disks[place].meddled_at = *now;
        Some(behaviour)
    }

    fn snapshot_by_hand(&mut self, place: usize) -> Option<Behaviour> {
        let says = &self.world.disks[place].says;
        // Copied tags may claim that Curfew made it.
        if says.typo.is_some() {
            return None;
        }
        let tags = says.tags();
        self.world.begin_snapshot(place, SnapshotMaker::People, tags, false, self.now);
        Some(Behaviour::SnapshotByHand)
    }

    /// A person deletes it, or its storage fails.
    fn lose(&mut self, place: usize) -> Option<Behaviour> {
        let now = self.now;
        let disk = &mut self.world.disks[place];
        if !disk.is_free() {
            return None;
        }
        if self.chance.one_in(8) {
            disk.ec2.state = VolumeState::Error;
            disk.changed_at = now;
            return Some(Behaviour::Break);
        }
        disk.delete(now);
        Some(Behaviour::Delete)
    }
}
