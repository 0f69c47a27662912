//! The adversary among instances.

use model::id::ResourceId;
use model::instance::Tags;

use crate::account::SimulatedAccount;
use crate::chance::stamp;
use crate::forged_labels::{AttackedResource, attack};
use crate::world::SimulatedMachine;

pub(crate) use crate::forged_labels::Attack;

impl AttackedResource for SimulatedMachine {
    const END: &'static str = "terminate";
    const EXPIRES_ONE_IN: u32 = 4;

    fn id(&self) -> &str {
        self.ec2.id.as_str()
    }

    fn since(&self) -> i64 {
        self.launched
    }

    fn tags(&mut self) -> &mut Tags {
        &mut self.ec2.tags
    }

    fn expire(&mut self, at: i64, now: i64) {
        self.says.expires_at = Some(at);
        self.retag(now);
    }

    fn tampered(&mut self, now: i64) {
        self.version += 1;
        self.tampered_at = now;
    }
}

impl SimulatedAccount {
    /// `id`: an instance that a run is about to change. An account without its own fleet has no adversary either.
    pub(crate) fn adversary_attacks(&mut self, now: i64, id: Option<&ResourceId>) {
        let Self { machines, adversary, attacks, verbosity, .. } = self;
        let place = match id {
            Some(id) => machines.iter().position(|machine| machine.ec2.id == *id),
            None if self.fleet == 0 || machines.is_empty() || !adversary.one_in(20) => None,
            None => Some(adversary.below(machines.len())).filter(|place| machines[*place].is_listed()),
        };
        let Some(place) = place else { return };
        if let Some(attack) = attack(machines, place, adversary, now) {
            attacks[attack as usize] += 1;
            if *verbosity > 0 {
                println!("{} {}: the adversary: {}", stamp(now), machines[place].id(), attack.as_str());
            }
        }
    }
}
