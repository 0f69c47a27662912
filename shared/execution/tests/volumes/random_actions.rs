//! Random actions of owners and colleagues: they tag, mistype, copy, protect, delete and undo.

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
            12 => Some(self.snapshot_by_hand(place)),
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

    fn snapshot_by_hand(&mut self, place: usize) -> Behaviour {
        let tags = self.world.disks[place].says.tags();
        self.world.begin_snapshot(place, SnapshotMaker::People, ("before the upgrade", tags), false, self.now);
        Behaviour::SnapshotByHand
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
