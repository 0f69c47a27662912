//! Retention of the checkpoints in the bucket: the ones that head names, the order in which they are restored, and the ones that are
//! deleted.

use super::super::{Checkpoint, Head};

/// Most checkpoints that head names if `keep` is unknown: the most that a spec can ask for.
const KEEP_MAX: u32 = 1_000;

/// Most checkpoints kept by the framework on purpose that are restored beside the newest: each takes as long as the newest.
pub const BESIDE_MAX: usize = 5;

/// Returns the checkpoints in the order in which they are tried: the one that head names, and then those that it named before, the highest
/// step first, and of one step the one that the latest attempt kept last. Anything else in the bucket may be complete, but its writer had
/// lost the fence.
#[must_use]
pub fn to_restore(head: &Head) -> Vec<Checkpoint> {
    let Some(named) = head.checkpoint else { return Vec::new() };
    let is_before = |other: &Checkpoint| order(other) > order(&named);
    let mut older: Vec<Checkpoint> = head.kept.iter().copied().filter(is_before).collect();
    older.sort_unstable_by_key(order);
    std::iter::once(named).chain(older).collect()
}

/// Returns the checkpoints that head names beside the newest, the newest first: the newest of those that count, so that there are `keep` of
/// them with that one; where `keep` is unknown, as many as a spec can ask for. Beyond `keep` it names those that the framework keeps on
/// purpose (`beside`), and where the newest is unverified, the newest certain one.
#[must_use]
pub fn to_keep(
    counting: &[Checkpoint],
    newest: Checkpoint,
    keep: Option<u32>,
    unverified: &[Checkpoint],
    beside: &[Checkpoint],
) -> Vec<Checkpoint> {
    let mut kept: Vec<Checkpoint> = counting.iter().copied().filter(|other| *other != newest).collect();
    kept.sort_unstable_by_key(order);
    let others = usize::try_from(keep.unwrap_or(KEEP_MAX).saturating_sub(1)).unwrap_or(usize::MAX);
    let certain = kept.iter().position(|other| !unverified.contains(other)).filter(|_| unverified.contains(&newest));
    let mut index = 0;
    kept.retain(|other| {
        index += 1;
        index <= others || Some(index - 1) == certain || beside.contains(other)
    });
    kept
}

/// Returns the checkpoints that are put beside the newest: of those that count, the ones whose steps the framework keeps on purpose, each
/// as it was kept last.
#[must_use]
pub fn to_put_beside(
    counting: &[Checkpoint],
    newest: Checkpoint,
    steps: &std::collections::BTreeSet<u64>,
) -> Vec<Checkpoint> {
    let mut found: Vec<Checkpoint> =
        counting.iter().copied().filter(|other| other.step != newest.step && steps.contains(&other.step)).collect();
    found.sort_unstable_by_key(order);
    found.dedup_by_key(|other| other.step);
    // The best may be the oldest: of too many, those in between are left out.
    if found.len() > BESIDE_MAX {
        found.drain(1..=found.len() - BESIDE_MAX);
    }
    found
}

/// The highest step first, and of one step the latest attempt, with what it kept of it last.
fn order(checkpoint: &Checkpoint) -> std::cmp::Reverse<(u64, u32, u32)> {
    std::cmp::Reverse((checkpoint.step, checkpoint.attempt, checkpoint.rewrite))
}

/// Returns the place in which an attempt keeps a step, beside the ones that head names of that step already, damaged or not: each of these
/// stays as it is until head names the next one. A checkpoint that is written after another attempt has taken over is in no place that head
/// names.
#[must_use]
pub fn place_of(named: &[Checkpoint], attempt: u32, step: u64) -> Checkpoint {
    let before = named.iter().filter(|other| (other.attempt, other.step) == (attempt, step));
    let rewrite = before.map(|other| other.rewrite.saturating_add(1)).max().unwrap_or(0);
    Checkpoint { attempt, step, rewrite }
}

/// The objects in the bucket in the place of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// The checkpoint of that place.
    pub checkpoint: Checkpoint,
    /// `true` if it has a manifest. Without one it is being uploaded, or its upload never came to its end.
    pub whole: bool,
}

/// Returns the checkpoints that are deleted, where head names the newest and those that are `kept`: all others, whole or not. It leaves the
/// checkpoints of a later attempt, which this attempt may not judge. It also leaves those of this attempt that are newer and have no
/// manifest: their upload may be on its way.
#[must_use]
pub fn to_prune(listed: &[StoredCheckpoint], newest: Checkpoint, kept: &[Checkpoint], attempt: u32) -> Vec<Checkpoint> {
    let goes = |stored: &StoredCheckpoint| {
        let StoredCheckpoint { checkpoint, whole } = *stored;
        let over = whole || checkpoint.attempt < attempt || order(&checkpoint) > order(&newest);
        checkpoint.attempt <= attempt && over && checkpoint != newest && !kept.contains(&checkpoint)
    };
    listed.iter().copied().filter(goes).map(|stored| stored.checkpoint).collect()
}
