//! An adversary who may tag every instance. He forges what Curfew writes, and nobody suffers from that; the tags of owners have the power
//! that they have in anybody's hands.

use model::curfew_tags::{DELETED_AT, LABELS, MARKED, SNAPSHOT_OF, STOPPED, UNATTACHED_SINCE};
use model::id::ResourceId;

use crate::account::SimulatedAccount;
use crate::chance::{DAY, HOUR, RandomStream, stamp};
use crate::named::named;
use crate::world::SimulatedMachine;

named! {
    /// Every kind of attack.
    Attack {
        ForgeMark = "forge a due mark",
        ForgeStopped = "forge a stop by Curfew",
        FarLabels = "write labels of a far moment",
        UnreadableLabels = "write unreadable labels",
        CopyLabels = "copy the labels of another instance",
        ForeignLabels = "write labels of volumes and snapshots on an instance",
        RemoveLabels = "remove the labels of an instance",
        PastExpiry = "write a past expires-at",
    }
}

/// Beyond what dates in tags may be, and at the ends of what can be written.
const FAR: [&str; 4] =
    ["9999-12-30T22:00:00Z", "-009999-01-02T01:59:59Z", "1970-01-01T00:00:00Z", "+010000-01-01T00:00:00Z"];
const RULES: [&str; 5] = ["idle", "untagged", "lifetime", "hours", "over-budget"];

/// Attacks the instance in that place; `None` if he finds nothing to do.
fn attack(machines: &mut [SimulatedMachine], place: usize, chance: &mut RandomStream, now: i64) -> Option<Attack> {
    let id = machines[place].id().to_owned();
    let (attack, tags) = match chance.below(12) {
        0..3 => {
            let (rule, action) = (chance.pick(&RULES), chance.pick(&["stop", "terminate"]));
            let at = stamp(now - chance.between(-HOUR, 2 * DAY));
            (Attack::ForgeMark, vec![(MARKED, format!("{rule}={action}@{at}"))])
        }
        3 | 4 => {
            let (rule, at) = (chance.pick(&RULES), stamp(now - chance.between(HOUR, 3 * DAY)));
            (Attack::ForgeStopped, vec![(STOPPED, format!("{rule} {at}"))])
        }
        5 => {
            let at = chance.pick(&FAR);
            (Attack::FarLabels, vec![(MARKED, format!("idle=terminate@{at}")), (STOPPED, format!("hours {at}"))])
        }
        6 => {
            let value = chance.pick(&["", "yes", "idle=", "\u{202e}idle=stop@now", "hours"]);
            (Attack::UnreadableLabels, LABELS.map(|key| (key, value.to_owned())).to_vec())
        }
        7 => {
            let tags = &machines[chance.below(machines.len())].ec2.tags;
            let labels: Vec<_> = LABELS.iter().filter_map(|key| Some((*key, tags.get(*key)?.clone()))).collect();
            (Attack::CopyLabels, Some(labels).filter(|labels| !labels.is_empty())?)
        }
        8 => {
            let at = stamp(now - DAY).to_string();
            (Attack::ForeignLabels, vec![(UNATTACHED_SINCE, at.clone()), (SNAPSHOT_OF, id), (DELETED_AT, at)])
        }
        9 if chance.one_in(4) && machines[place].launched < now - HOUR => {
            let machine = &mut machines[place];
            machine.says.expires_at = Some(chance.between((now - 2 * DAY).max(machine.launched), now - 1));
            machine.retag(now);
            return Some(Attack::PastExpiry);
        }
        _ => {
            machines[place].ec2.tags.retain(|key, _| !LABELS.contains(&key.as_str()));
            (Attack::RemoveLabels, Vec::new())
        }
    };
    let machine = &mut machines[place];
    machine.ec2.tags.extend(tags.into_iter().map(|(key, value)| (key.to_owned(), value)));
    machine.version += 1;
    machine.tampered_at = now;
    Some(attack)
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
