//! An adversary who may tag everything. He forges what Curfew writes, and nobody suffers from that; the tags of owners have the power that
//! they have in anybody's hands.

use model::curfew_tags::{DELETED_AT, LABELS, MARKED, SNAPSHOT_OF, STOPPED, UNATTACHED_SINCE};

use crate::chance::{DAY, HOUR, RandomStream, stamp};
use crate::named::named;
use crate::world::SimulatedResource;

named! {
    /// Every kind of attack.
    Attack {
        ForgeMark = "forge a due mark",
        ForgeStopped = "forge a stop by Curfew",
        FarLabels = "write labels of a far moment",
        UnreadableLabels = "write unreadable labels",
        CopyLabels = "copy the labels of another",
        ForeignLabels = "write labels of volumes and snapshots",
        RemoveLabels = "remove labels",
        PastExpiry = "write a past expires-at",
    }
}

/// Beyond what dates in tags may be, and at the ends of what can be written.
const FAR: [&str; 4] =
    ["9999-12-30T22:00:00Z", "-009999-01-02T01:59:59Z", "1970-01-01T00:00:00Z", "+010000-01-01T00:00:00Z"];
const RULES: [&str; 5] = ["idle", "untagged", "lifetime", "hours", "over-budget"];

/// Attacks the resource in that place; `None` if he finds nothing to do.
pub(crate) fn attack(
    resources: &mut [SimulatedResource],
    place: usize,
    chance: &mut RandomStream,
    now: i64,
) -> Option<Attack> {
    let id = resources[place].id.to_string();
    let (attack, tags) = match chance.below(12) {
        0..3 => {
            let (rule, action) = (chance.pick(&RULES), chance.pick(&["stop", "delete"]));
            let at = stamp(now - chance.between(-HOUR, 2 * DAY));
            (Attack::ForgeMark, vec![(MARKED, format!("{rule}={action}@{at}"))])
        }
        3 | 4 => {
            let (rule, at) = (chance.pick(&RULES), stamp(now - chance.between(HOUR, 3 * DAY)));
            (Attack::ForgeStopped, vec![(STOPPED, format!("{rule} {at}"))])
        }
        5 => {
            let at = chance.pick(&FAR);
            (Attack::FarLabels, vec![(MARKED, format!("idle=delete@{at}")), (STOPPED, format!("hours {at}"))])
        }
        6 => {
            let value = chance.pick(&["", "yes", "idle=", "\u{202e}idle=stop@now", "hours"]);
            (Attack::UnreadableLabels, LABELS.map(|key| (key, value.to_owned())).to_vec())
        }
        7 => {
            let tags = &resources[chance.below(resources.len())].curfews_tags;
            let labels: Vec<_> = LABELS.iter().filter_map(|key| Some((*key, tags.get(*key)?.clone()))).collect();
            (Attack::CopyLabels, Some(labels).filter(|labels| !labels.is_empty())?)
        }
        8 => {
            let at = stamp(now - DAY).to_string();
            (Attack::ForeignLabels, vec![(UNATTACHED_SINCE, at.clone()), (SNAPSHOT_OF, id), (DELETED_AT, at)])
        }
        9 if chance.one_in(2) && resources[place].created < now - HOUR => {
            let one = &mut resources[place];
            one.says.expires_at = Some(chance.between((now - 2 * DAY).max(one.created), now - 1));
            one.note_expiry(now);
            one.changed_at = now;
            return Some(Attack::PastExpiry);
        }
        _ => {
            resources[place].curfews_tags.clear();
            (Attack::RemoveLabels, Vec::new())
        }
    };
    let one = &mut resources[place];
    one.curfews_tags.extend(tags.into_iter().map(|(key, value)| (key.to_owned(), value)));
    one.tampered_at = now;
    Some(attack)
}
