//! The commit of a step: any member of the launch that head names may do it.

use jiff::{SignedDuration, Timestamp};

use super::GangLaunch;
use crate::{Checkpoint, Head};

/// A node that writes nothing waits so long after the first manifest of a peer: the same step may still be quiet on its own disk.
const EMPTY_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Head with a complete step as its newest; `None` if another launch has the fence, the job has a result, or head names that step or a later one
/// of this attempt. Retention comes after it: `kept` has the newest before.
#[must_use]
pub fn committed(head: &Head, gang: &GangLaunch, checkpoint: Checkpoint, verified: bool) -> Option<Head> {
    let is_ours = head.attempt == gang.attempt && head.launch == gang.launch && head.result.is_none();
    let place = |checkpoint: &Checkpoint| (checkpoint.attempt, checkpoint.step, checkpoint.rewrite);
    let is_forward = head.checkpoint.as_ref().is_none_or(|newest| place(newest) < place(&checkpoint));
    if !is_ours || !is_forward || checkpoint.attempt != gang.attempt {
        return None;
    }
    let mut next = head.clone();
    if let Some(before) = next.checkpoint.replace(checkpoint) {
        next.kept.insert(0, before);
    }
    if !verified {
        next.unverified.push(checkpoint);
    }
    Some(next)
}

/// Returns `true` if a node puts an empty manifest for a step: it has written no step in this attempt and no file of this one, and the first manifest
/// of a peer is a minute old by S3's clock. A node that ever wrote never puts one, because its own part may only be late.
#[must_use]
pub fn owes_empty_manifest(has_written: bool, first_peer_manifest: Option<Timestamp>, now: Timestamp) -> bool {
    !has_written && first_peer_manifest.is_some_and(|at| now.duration_since(at) >= EMPTY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::tests::{at, gang};

    #[test]
    fn head_goes_forward_and_is_that_of_the_launch() {
        let gang = gang(2);
        let step = |attempt, step| Checkpoint { attempt, step, rewrite: 0 };
        let head = Head { attempt: 2, launch: gang.launch.clone(), checkpoint: Some(step(1, 50)), ..Head::default() };
        let next = committed(&head, &gang, step(2, 60), false).unwrap();
        assert_eq!(
            (next.checkpoint, &next.kept, &next.unverified),
            (Some(step(2, 60)), &vec![step(1, 50)], &vec![step(2, 60)])
        );
        assert_eq!(committed(&next, &gang, step(2, 60), true), None);
        assert_eq!(committed(&next, &gang, step(2, 59), true), None);
        assert_eq!(committed(&head, &gang, step(1, 60), true), None);
        let fenced = Head { attempt: 3, ..head };
        assert_eq!(committed(&fenced, &gang, step(2, 60), true), None);
    }

    #[test]
    fn only_a_node_that_never_wrote_puts_an_empty_manifest() {
        assert!(owes_empty_manifest(false, Some(at(0)), at(60)));
        assert!(!owes_empty_manifest(false, Some(at(0)), at(59)));
        assert!(!owes_empty_manifest(false, None, at(600)) && !owes_empty_manifest(true, Some(at(0)), at(600)));
    }
}
