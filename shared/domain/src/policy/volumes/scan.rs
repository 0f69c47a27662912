//! What is found of volumes, without announcing anything: see [`crate::scan`].

use jiff::Timestamp;

use super::{Case, View, jobs};
use crate::foreign::other_keeper;
use crate::notices::Memory;
use crate::plan::{SparedBecause, Target};
use crate::policy::Policy;
use crate::scan::{Finding, Kind};
use crate::vocabulary::{Vocabulary, explained, named};
use crate::volume::Storage;

/// Every volume that is attached to nothing, and that is nobody's claim, share or job. Nothing says since when it is
/// unattached: only when it was created. A job of which nobody can say is not finished.
#[must_use]
pub fn scan(seen: &Storage, policy: &Policy, now: Timestamp) -> Vec<Finding> {
    let (live_jobs, memory) = (jobs(seen), Memory::default());
    let view = View::of(seen, &live_jobs, &memory, policy, now);
    let unattached = seen.volumes.items.iter().filter(|volume| volume.is_unattached());
    unattached.filter_map(|volume| view.case(volume, None).found()).collect()
}

impl Case<'_> {
    /// Tags that cannot be read hide nothing here: nothing is done.
    fn found(self) -> Option<Finding> {
        let spared = self.spared_at_sight().map(|spared| spared.because);
        if matches!(spared, Some(SparedBecause::Protected | SparedBecause::Kept)) {
            return None;
        }
        let says = Vocabulary::read_volume(&self.volume.tags);
        let unreadable = says.as_ref().err().map(|unreadable| (named(unreadable), explained(unreadable)));
        let (named, unreadable) = unreadable.unzip();
        match self.kept_by_others(&says.unwrap_or_default()) {
            None | Some(SparedBecause::ForeignOwned) => {}
            Some(_) => return None,
        }
        let created_at = self.volume.created_at;
        let in_short = [Some(format!("unattached, created {}", created_at.strftime("%Y-%m-%d"))), named];
        let because = [Some(format!("attached to nothing, created {created_at}")), unreadable];
        let Target { region, resource, team, owner, name, what } = self.target();
        Some(Finding {
            region,
            resource,
            kinds: vec![Kind::Orphaned],
            team,
            owner,
            name,
            what,
            price: self.view.policy.prices.of_volume(self.volume),
            accelerators: 0,
            size_gib: self.volume.size_gib,
            because: because.into_iter().flatten().collect::<Vec<_>>().join("; "),
            in_short: in_short.into_iter().flatten().collect::<Vec<_>>().join("; "),
            created_at: Some(created_at),
            controller: other_keeper(self.volume, &self.view.policy.config.managed),
        })
    }
}
