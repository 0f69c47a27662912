//! The attacks of an adversary who may tag everything that Curfew stops: he forges what Curfew writes, and nobody suffers from that. The tags
//! of owners have the power that they have in anybody's hands.

use model::curfew_tags::{DELETED_AT, LABELS, MARKED, SNAPSHOT_OF, STOPPED, UNATTACHED_SINCE};
use model::instance::Tags;

use crate::chance::{DAY, FAR, HOUR, RandomStream, stamp};
use crate::named::named;

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

const RULES: [&str; 5] = ["idle", "untagged", "lifetime", "hours", "over-budget"];

/// A resource that he may tag.
pub(crate) trait AttackedResource {
    /// The gravest end of such a resource.
    const END: &'static str;
    /// How rarely he lets it expire: in one of so many draws.
    const EXPIRES_ONE_IN: u32;

    fn id(&self) -> &str;
    fn since(&self) -> i64;
    fn tags(&mut self) -> &mut Tags;
    /// It has a `curfew:expires-at` of then, from now on.
    fn expire(&mut self, at: i64, now: i64);
    /// Its labels are forged now.
    fn tampered(&mut self, now: i64);
}

/// Attacks the resource in that place; `None` if he finds nothing to do.
pub(crate) fn attack<R: AttackedResource>(
    resources: &mut [R],
    place: usize,
    chance: &mut RandomStream,
    now: i64,
) -> Option<Attack> {
    let (attack, labels) = match chance.below(12) {
        0..3 => {
            let (rule, action) = (chance.pick(&RULES), chance.pick(&["stop", R::END]));
            let at = stamp(now - chance.between(-HOUR, 2 * DAY));
            (Attack::ForgeMark, vec![(MARKED, format!("{rule}={action}@{at}"))])
        }
        3 | 4 => {
            let (rule, at) = (chance.pick(&RULES), stamp(now - chance.between(HOUR, 3 * DAY)));
            (Attack::ForgeStopped, vec![(STOPPED, format!("{rule} {at}"))])
        }
        5 => {
            let at = chance.pick(&FAR);
            (Attack::FarLabels, vec![(MARKED, format!("idle={}@{at}", R::END)), (STOPPED, format!("hours {at}"))])
        }
        6 => {
            let value = chance.pick(&["", "yes", "idle=", "\u{202e}idle=stop@now", "hours"]);
            (Attack::UnreadableLabels, LABELS.map(|key| (key, value.to_owned())).to_vec())
        }
        7 => {
            let tags = resources[chance.below(resources.len())].tags();
            let labels: Vec<_> = LABELS.iter().filter_map(|key| Some((*key, tags.get(*key)?.clone()))).collect();
            (Attack::CopyLabels, Some(labels).filter(|labels| !labels.is_empty())?)
        }
        8 => {
            let (id, at) = (resources[place].id().to_owned(), stamp(now - DAY).to_string());
            (Attack::ForeignLabels, vec![(UNATTACHED_SINCE, at.clone()), (SNAPSHOT_OF, id), (DELETED_AT, at)])
        }
        9 if chance.one_in(R::EXPIRES_ONE_IN) && resources[place].since() < now - HOUR => {
            let one = &mut resources[place];
            one.expire(chance.between((now - 2 * DAY).max(one.since()), now - 1), now);
            return Some(Attack::PastExpiry);
        }
        _ => {
            resources[place].tags().retain(|key, _| !LABELS.contains(&key.as_str()));
            (Attack::RemoveLabels, Vec::new())
        }
    };
    let one = &mut resources[place];
    one.tags().extend(labels.into_iter().map(|(key, value)| (key.to_owned(), value)));
    one.tampered(now);
    Some(attack)
}
