//! The share of a backlog that one run takes if the backlog is more than it can handle: a share for each team, and everything in the end.
//!
//! A team that puts a million objects into its folder must cost the others nothing, and its own oldest object must not wait for ever behind
//! objects that no run gets done with.

mod folder;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub use folder::{Backlog, Bookmarks, JobEntry, folder_below};

/// The objects in the folder of one team, as far as a run has listed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BacklogQueue<T> {
    /// Waiting objects in the order of the list, which begins after the bookmark and wraps around to the folder's beginning.
    pub waiting: Vec<T>,
    /// The key after which the list began.
    pub bookmark: Option<String>,
    /// The last key of the list, where the list does not hold the whole folder.
    pub stopped_at: Option<String>,
}

impl<T: QueueItem> BacklogQueue<T> {
    /// A folder that was listed whole, in order of keys.
    #[must_use]
    pub const fn whole(waiting: Vec<T>) -> Self {
        Self { waiting, bookmark: None, stopped_at: None }
    }

    /// Rotates the queue so that it begins after a bookmark.
    #[must_use]
    pub fn resume(mut self, bookmark: Option<String>) -> Self {
        let before = |after: &String| self.waiting.partition_point(|one| one.key() <= after.as_str());
        let first = bookmark.as_ref().map_or(0, before);
        self.waiting.rotate_left(first);
        Self { bookmark, ..self }
    }
}

/// Something that waits for a run.
pub trait QueueItem {
    /// Its key. No two of a folder share it.
    fn key(&self) -> &str;

    /// Time since which the object waits.
    fn since(&self) -> Timestamp;
}

/// The most objects that one run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    pub team_max: usize,
    /// Most objects of all teams together.
    pub total_max: usize,
}

impl ShareLimits {
    /// Returns `true` if one run takes all objects of all queues.
    #[must_use]
    pub fn admit<T>(self, queues: &BTreeMap<String, BacklogQueue<T>>) -> bool {
        let sizes = || queues.values().map(|queue| queue.waiting.len());
        sizes().all(|size| size <= self.team_max) && sizes().sum::<usize>() <= self.total_max
    }
}

/// The objects that one run takes, and the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueShares<T> {
    /// Objects that the run takes: the oldest of each team first, and the teams in turn.
    pub taken: Vec<T>,
    /// Number of listed objects that the run leaves, by folder; without folders that it takes whole.
    pub left: BTreeMap<String, usize>,
    /// Key after which the next run begins, by folder; without folders that were listed and taken whole.
    pub bookmarks: BTreeMap<String, String>,
}

/// Takes of each folder its share.
///
/// A folder that holds more than its share gives one half by age, and one half in the order of its keys, after which its bookmark is set:
/// so each object is reached after a number of runs that depends on its own folder alone, even if a run cannot get done with the oldest.
#[must_use]
pub fn take_shares<T: QueueItem>(
    queues: BTreeMap<String, BacklogQueue<T>>,
    limits: ShareLimits,
    now: Timestamp,
) -> QueueShares<T> {
    let demands = queues.values().map(|queue| queue.waiting.len().min(limits.team_max)).collect::<Vec<_>>();
    let sizes = allot(&demands, limits.total_max, minute(now));
    let (mut by_team, mut left, mut bookmarks) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for ((folder, queue), size) in queues.into_iter().zip(sizes) {
        let waiting = queue.waiting.len();
        let (taken, bookmark) = take_share(queue, size);
        if taken.len() < waiting {
            left.insert(folder.clone(), waiting - taken.len());
        }
        bookmarks.extend(bookmark.map(|bookmark| (folder, bookmark)));
        by_team.push(taken);
    }
    QueueShares { taken: interleave(by_team), left, bookmarks }
}

/// Returns the objects that are taken of one folder, the oldest first; and the folder's next bookmark.
fn take_share<T: QueueItem>(queue: BacklogQueue<T>, size: usize) -> (Vec<T>, Option<String>) {
    let BacklogQueue { mut waiting, bookmark, stopped_at } = queue;
    let bookmark = if waiting.len() <= size {
        stopped_at
    } else {
        let mut others = waiting.split_off(size.div_ceil(2));
        let bookmark = waiting.last().map(|last| last.key().to_owned()).or(bookmark);
        others.sort_by_key(QueueItem::since);
        others.truncate(size / 2);
        waiting.append(&mut others);
        bookmark
    };
    waiting.sort_by_key(QueueItem::since);
    (waiting, bookmark)
}

/// Divides a total among demands: each gets as much as every other, or all that it asks for. If the total is smaller than the number of
/// demands, the turn passes to others in the next minute.
fn allot(demands: &[usize], total: usize, minute: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..demands.len()).filter(|index| demands.get(*index) > Some(&0)).collect();
    let first = minute.wrapping_mul(total) % order.len().max(1);
    order.rotate_left(first);
    let (mut sizes, mut rest) = (vec![0; demands.len()], total);
    while rest > 0 && !order.is_empty() {
        let each = (rest / order.len()).max(1);
        order.retain(|index| {
            let (Some(size), Some(demand)) = (sizes.get_mut(*index), demands.get(*index)) else { return false };
            let more = each.min(demand - *size).min(rest);
            *size += more;
            rest -= more;
            *size < *demand
        });
    }
    sizes
}

/// One of each, then the next one of each, and so on.
#[must_use]
pub fn interleave<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut rest: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    while !rest.is_empty() {
        rest.retain_mut(|list| list.next().map(|one| all.push(one)).is_some());
    }
    all
}

/// The number of the minute. There is one run a minute, so no run needs to know about the others.
pub(super) fn minute(now: Timestamp) -> usize {
    usize::try_from(now.as_second().div_euclid(60)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
