//! What head names of the checkpoints in the bucket, in which order they are restored, and which are deleted.

use super::super::{Checkpoint, Head};

/// How many head names if `keep` is unknown: the most that a spec can ask for.
const KEEP_MAX: u32 = 1_000;

/// How many that the framework keeps on purpose are restored beside the newest: each takes as long as the newest.
pub const BESIDE_MAX: usize = 5;

/// In which order checkpoints are tried: what head names, and then what it named before, the highest step first, and of one step what
/// the latest attempt kept last. Anything else in the bucket may be complete, but its writer had lost the fence.
#[must_use]
pub fn to_restore(head: &Head) -> Vec<Checkpoint> {
    let Some(named) = head.checkpoint else { return Vec::new() };
    let is_before = |other: &Checkpoint| order(other) > order(&named);
    let mut older: Vec<Checkpoint> = head.kept.iter().copied().filter(is_before).collect();
    older.sort_unstable_by_key(order);
    std::iter::once(named).chain(older).collect()
}

/// What head names beside the newest: of those that count the newest, so that there are `keep` of them with that one; where `keep` is
/// unknown, as many as a spec can ask for. Beyond `keep` those that the framework keeps on purpose (`beside`), and where the newest is
/// unverified, the newest certain one. The newest first.
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

/// Of the checkpoints that count those of steps that the framework keeps on purpose, beside the newest: each as it was kept last.
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

/// What an attempt keeps a step as, beside what head names of that already, damaged or not: that stays as it is until head names the next
/// one, and what is written after another attempt has taken over is nowhere that head names.
#[must_use]
pub fn place_of(named: &[Checkpoint], attempt: u32, step: u64) -> Checkpoint {
    let before = named.iter().filter(|other| (other.attempt, other.step) == (attempt, step));
    let rewrite = before.map(|other| other.rewrite.saturating_add(1)).max().unwrap_or(0);
    Checkpoint { attempt, step, rewrite }
}

/// What lies in the bucket in the place of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// Which.
    pub checkpoint: Checkpoint,
    /// Whether it has a manifest. Without one it is being uploaded, or its upload never came to its end.
    pub whole: bool,
}

/// What is deleted, where head names the newest and those that are `kept`: all else, whole or not. What a later attempt wrote is not
/// ours to judge, and of this one what is newer and has no manifest may be on its way.
#[must_use]
pub fn to_prune(listed: &[StoredCheckpoint], newest: Checkpoint, kept: &[Checkpoint], attempt: u32) -> Vec<Checkpoint> {
    let goes = |stored: &StoredCheckpoint| {
        let StoredCheckpoint { checkpoint, whole } = *stored;
        let over = whole || checkpoint.attempt < attempt || order(&checkpoint) > order(&newest);
        checkpoint.attempt <= attempt && over && checkpoint != newest && !kept.contains(&checkpoint)
    };
    listed.iter().copied().filter(goes).map(|stored| stored.checkpoint).collect()
}
