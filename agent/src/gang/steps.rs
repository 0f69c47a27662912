//! The commit of steps: any node that sees all parts of a step names it in head.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use jobs::checkpoints::to_keep;
use jobs::node_gang::{
    DocumentSight, GangCheckpoint, Node, NodeManifest, StepCompleteness, committed, owes_empty_manifest,
    step_is_complete,
};
use jobs::{AgentWarningKind, Checkpoint, Head};
use model::moment::after;
use store::CheckpointError;

use super::GangSeat;
use super::node_work::LocalTask;
use crate::agent::Agent;
use crate::fence::FenceError;
use crate::keeper::delete_all_but;
use crate::world::now;

/// The most steps whose parts are read: later ones come first.
const STEPS_MAX: usize = 8;

/// Time after which the owner hears that a step lacks parts.
const LATE_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// The facts of a look, beside head.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookContext {
    /// Number of checkpoints to keep; `None`: unknown, so nothing is deleted.
    pub(super) keep: Option<u32>,
    /// The checkpoint from which the round resumed.
    pub(super) from: Option<Checkpoint>,
    /// The node's newest heartbeat, by S3's clock.
    pub(super) own_beat: Option<Timestamp>,
    /// True if this node writes nothing any more.
    pub(super) is_final: bool,
}

#[derive(Debug, Default)]
pub(super) struct StepCommits {
    /// Steps with all parts that are incomplete all the same, and why. Parts that are put again are judged again.
    judged: BTreeMap<(u64, u32), (PartTimes, String)>,
    said: BTreeSet<String>,
    /// The reason why the newest step is incomplete.
    pub(super) incomplete: Option<String>,
    /// Deletes what head does not name any more.
    pruning: Option<LocalTask<()>>,
}

type PartTimes = BTreeMap<Node, Timestamp>;

impl StepCommits {
    /// Looks once at the parts of all nodes, and names the newest complete step that head does not name.
    pub(super) async fn look(
        &mut self,
        agent: &Arc<Agent>,
        seat: &GangSeat,
        head: &Head,
        context: LookContext,
    ) -> Result<(), FenceError> {
        let attempt = seat.launch.attempt;
        let newest = head.checkpoint.filter(|newest| newest.attempt == attempt);
        let is_newer =
            |step: u64, rewrite: u32| newest.is_none_or(|newest| (newest.step, newest.rewrite) < (step, rewrite));
        let mut steps: BTreeMap<(u64, u32), PartTimes> = BTreeMap::new();
        for part in agent.store().list_parts(&seat.launch.job, attempt).await? {
            let Checkpoint { step, rewrite, .. } = part.checkpoint;
            if part.checkpoint.attempt == attempt && part.node < seat.launch.nodes && is_newer(step, rewrite) {
                steps.entry((step, rewrite)).or_default().insert(part.node, part.at);
            }
        }
        self.judged.retain(|step, (parts, _)| steps.get(step) == Some(parts));
        let lacks_own = |parts: &PartTimes| !parts.contains_key(&seat.node);
        seat.set_awaited(steps.iter().filter(|(_, parts)| lacks_own(parts)).map(|((step, _), _)| *step).collect());
        self.incomplete = None;
        for ((step, rewrite), mut parts) in steps.into_iter().rev().take(STEPS_MAX) {
            let checkpoint = Checkpoint { attempt, step, rewrite };
            if lacks_own(&parts) && owes_empty(agent, seat, context, &parts) {
                let written = agent.store().write_empty_part(&seat.part(false, Vec::new()), checkpoint, now()).await;
                match written {
                    Ok(()) => {
                        note_step_of_peers(agent, seat, step, parts.values().copied().min());
                        parts.insert(seat.node, now());
                    }
                    Err(CheckpointError::Store(error)) => return Err(error.into()),
                    Err(_) => {}
                }
            }
            if self.commit_if_complete(agent, seat, checkpoint, &parts, newest.is_none(), context).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether head names the step now.
    async fn commit_if_complete(
        &mut self,
        agent: &Arc<Agent>,
        seat: &GangSeat,
        checkpoint: Checkpoint,
        parts: &PartTimes,
        is_first: bool,
        context: LookContext,
    ) -> Result<bool, FenceError> {
        let place = (checkpoint.step, checkpoint.rewrite);
        if let Some((_, why)) = self.judged.get(&place) {
            self.incomplete.get_or_insert(why.clone());
            return Ok(false);
        }
        let is_whole = parts.len() >= usize::from(seat.launch.nodes);
        let manifests = if is_whole { read_parts(agent, checkpoint, parts).await? } else { BTreeMap::new() };
        match step_is_complete(GangCheckpoint { gang: &seat.launch, checkpoint, is_first }, &manifests) {
            StepCompleteness::Complete { verified } => {
                let manifests = manifests.values().filter_map(DocumentSight::read);
                let beside: Vec<Checkpoint> = manifests.flat_map(|part| part.part.beside.iter().copied()).collect();
                let change = |head: &Head| {
                    let next = committed(head, &seat.launch, checkpoint, verified)?;
                    Some(retain(next, context, &beside, verified))
                };
                if let Some(head) = agent.fence.swap_if(change).await? {
                    self.finish_commit(agent, head, checkpoint, verified, context.keep);
                }
                Ok(true)
            }
            StepCompleteness::Incomplete { why } => {
                let why = if is_whole { why } else { describe_missing(seat, checkpoint, parts) };
                // A part that is on its way is nobody's fault.
                let is_lasting = is_whole || is_late(agent, context, parts);
                if (is_lasting || context.is_final) && self.said.insert(why.clone()) {
                    agent.log.write_line(&why);
                    if is_lasting {
                        agent.warn_owner(AgentWarningKind::NotKept, &why);
                    }
                }
                if is_whole {
                    self.judged.insert(place, (parts.clone(), why.clone()));
                }
                self.incomplete.get_or_insert(why);
                Ok(false)
            }
            StepCompleteness::Unknown => Ok(false),
        }
    }

    fn finish_commit(&mut self, agent: &Arc<Agent>, head: Head, newest: Checkpoint, verified: bool, keep: Option<u32>) {
        let (step, nodes) = (newest.step, agent.identity.nodes);
        let doubt = if verified { "" } else { ", and may be incomplete" };
        agent.log.write_line(&format!("step {step} is complete on all {nodes} nodes{doubt}"));
        if keep.is_some() {
            self.pruning = Some(LocalTask::begin(agent, prune(Arc::clone(agent), newest, head.kept)));
        }
    }

    /// Waits until old checkpoints are deleted.
    pub(super) async fn end_pruning(&mut self) {
        if let Some(mut pruning) = self.pruning.take() {
            pruning.result().await;
        }
    }

    /// Tells the owner why no step of this attempt was kept.
    pub(super) fn warn_of_nothing_kept(&self, agent: &Agent, head: &Head) {
        let has_kept = head.checkpoint.is_some_and(|newest| newest.attempt == agent.identity.attempt);
        if let Some(why) = self.incomplete.as_ref().filter(|_| !has_kept) {
            agent.warn_owner(AgentWarningKind::NotKept, &format!("no step of this attempt is kept: {why}"));
        }
    }
}

/// A step of which this node has no file shows that its command works as well.
fn note_step_of_peers(agent: &Agent, seat: &GangSeat, step: u64, first: Option<Timestamp>) {
    seat.note_empty_part();
    let newest = first.map(|first| (Some(step), first));
    agent.with_work(|work, at| work.observe_steps(true, newest, at));
}

async fn read_parts(
    agent: &Agent,
    checkpoint: Checkpoint,
    parts: &PartTimes,
) -> Result<BTreeMap<Node, DocumentSight<NodeManifest>>, FenceError> {
    let mut manifests = BTreeMap::new();
    for node in parts.keys() {
        let sight = agent.store().read_part(&agent.identity.job, checkpoint, *node).await?;
        manifests.insert(*node, sight);
    }
    Ok(manifests)
}

fn describe_missing(seat: &GangSeat, checkpoint: Checkpoint, parts: &PartTimes) -> String {
    let missing = (0..seat.launch.nodes).find(|node| !parts.contains_key(node)).unwrap_or(0);
    format!("step {} is not complete: node {missing} has not uploaded its part", checkpoint.step)
}

/// True if the other parts of a step are missing for long.
fn is_late(agent: &Agent, context: LookContext, parts: &PartTimes) -> bool {
    let first = parts.values().copied().min();
    let waited = context.own_beat.zip(first).map(|(beat, first)| agent.pace.unhurried(beat.duration_since(first)));
    waited.is_some_and(|waited| waited >= LATE_AFTER)
}

/// A node that writes nothing any more need not wait for its own disk.
fn owes_empty(agent: &Agent, seat: &GangSeat, context: LookContext, parts: &PartTimes) -> bool {
    let Some(first) = parts.values().copied().min() else { return false };
    if context.is_final && !seat.has_unkept() {
        return owes_empty_manifest(seat.writes(), Some(first), Timestamp::MAX);
    }
    let Some(beat) = context.own_beat else { return false };
    let now = after(first, agent.pace.unhurried(beat.duration_since(first)));
    owes_empty_manifest(seat.writes(), Some(first), now)
}

/// Head without the checkpoints that are not kept any more.
fn retain(mut head: Head, context: LookContext, beside: &[Checkpoint], verified: bool) -> Head {
    let Some(newest) = head.checkpoint else { return head };
    // A checkpoint from which a command resumed and came this far was whole.
    head.unverified.retain(|other| !verified || Some(*other) != context.from);
    head.kept = to_keep(&head.kept, newest, context.keep, &head.unverified, beside);
    let kept = head.kept.clone();
    head.unverified.retain(|other| *other == newest || kept.contains(other));
    head
}

async fn prune(agent: Arc<Agent>, newest: Checkpoint, kept: Vec<Checkpoint>) {
    match delete_all_but(&agent, newest, &kept).await {
        Some(words) => {
            agent.log.write_line(&words);
            agent.warn_owner(AgentWarningKind::NotPruned, &words);
        }
        None => agent.clear_warning(AgentWarningKind::NotPruned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_keeps_as_many_as_the_spec_says() {
        let step = |attempt, step| Checkpoint { attempt, step, rewrite: 0 };
        let head = Head {
            attempt: 2,
            checkpoint: Some(step(2, 40)),
            kept: vec![step(2, 30), step(2, 20), step(1, 10)],
            unverified: vec![step(1, 10), step(2, 20)],
            ..Head::default()
        };
        let context = |keep| LookContext { keep, from: Some(step(2, 20)), own_beat: None, is_final: false };
        let check = |keep, beside: &[Checkpoint], verified, kept: &[Checkpoint], unverified: &[Checkpoint]| {
            let next = retain(head.clone(), context(keep), beside, verified);
            assert_eq!((next.kept.as_slice(), next.unverified.as_slice()), (kept, unverified));
        };
        check(Some(2), &[], true, &[step(2, 30)], &[]);
        check(Some(2), &[step(1, 10)], true, &[step(2, 30), step(1, 10)], &[step(1, 10)]);
        check(None, &[], false, &[step(2, 30), step(2, 20), step(1, 10)], &[step(1, 10), step(2, 20)]);
    }
}
