//! A node's part of the checkpoints of a gang. The keeper uploads it, and whichever node sees all parts names the step in head.

use jobs::checkpoints::{CheckpointStep, Manifest, StepNumber, place_of};
use jobs::node_gang::POLL_EVERY_WAITING;
use jobs::{Checkpoint, Head};
use store::{CheckpointContent, CheckpointError, FileOwner, NodePart};

use super::{KeepError, KeeperTask};
use crate::agent::Agent;
use crate::gang::GangSeat;
use crate::world::now;

impl KeeperTask {
    /// The place of a step, which all nodes find by what head names. An own part there that head does not name is withdrawn before it is written
    /// over, and put back if a peer has named it meanwhile.
    pub(super) async fn place_of_part(&mut self, seat: &GangSeat, number: StepNumber) -> Result<Checkpoint, KeepError> {
        let (agent, job) = (&self.agent, &self.agent.identity.job);
        // What has no higher number than the newest is kept in its place, and not in that of the newest which this node has put.
        let place = |head: &Head| {
            let named: Vec<Checkpoint> = head.named().collect();
            let step = number.place(head.checkpoint.map(|newest| newest.step));
            place_of(&named, agent.identity.attempt, step)
        };
        let mut head = agent.fence.read_any().await?;
        let mut checkpoint = place(&head);
        if seat.has_put(checkpoint) {
            let withdrawn = agent.store().read_part(job, checkpoint, seat.node).await?;
            agent.store().delete_part(job, checkpoint, seat.node).await?;
            agent.pace.sleep(POLL_EVERY_WAITING).await;
            head = agent.fence.read_any().await?;
            let is_named = head.named().any(|named| named == checkpoint);
            if let Some(withdrawn) = withdrawn.read().filter(|_| is_named) {
                agent.store().put_part_back(job, checkpoint, withdrawn).await?;
            }
            checkpoint = place(&head);
        }
        self.counting = head.kept.iter().rev().chain(&head.checkpoint).copied().collect();
        Ok(checkpoint)
    }

    /// Notes an uploaded part. Returns the checkpoints that head names.
    pub(super) fn put_part(
        &mut self,
        seat: &GangSeat,
        checkpoint: Checkpoint,
        step: &CheckpointStep,
    ) -> Vec<Checkpoint> {
        seat.note_part(checkpoint);
        self.finished.has_kept |= !step.unverified;
        self.counting.clone()
    }

    /// Nodes that write faster than they upload would each keep other steps: the one that a peer has put comes first.
    pub(super) fn put_peers_step_first(&self, steps: &mut [&CheckpointStep]) {
        let Some(seat) = self.agent.seat() else { return };
        let is_of_peer = |step: &&CheckpointStep| step.number.named().is_some_and(|step| seat.is_awaited(step));
        if let Some(index) = steps.iter().position(is_of_peer) {
            steps[..=index].rotate_right(1);
        }
    }
}

/// Uploads a checkpoint, or a node's part of it.
pub(super) async fn upload_content(
    agent: &Agent,
    part: Option<NodePart>,
    checkpoint: Checkpoint,
    content: CheckpointContent,
    owner: &FileOwner,
) -> Result<Manifest, CheckpointError> {
    match part {
        Some(part) => Ok(agent.store().upload_part(&part, checkpoint, content, owner, now()).await?.part),
        None => agent.store().upload_checkpoint(&agent.identity.job, checkpoint, content, owner, now()).await,
    }
}
