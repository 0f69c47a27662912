//! The acts of a node.

use std::rc::Rc;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use jobs::node_gang::{
    GangDocument, GangRound, GangStep, GangStop, GangWait, NodeEnded, NodeExit, NodeExitReason, OwnEnding, POLL_EVERY,
    POLL_EVERY_WAITING, says_peer_is_gone,
};
use jobs::{Head, HeadResult, clean_machine_text};
use store::StoreError;

use super::super::node_work::{LocalTask, RunningRound, prepare_round};
use super::super::started::note_started;
use super::words::{describe_wait, name_of};
use super::{Activity, Flow, GangDriver, Saving};
use crate::fence::FenceError;
use crate::gpu::GpuWatch;
use crate::{command, heartbeat};

/// The bytes at the end of a log that say why a command ended.
const LOG_END_BYTES: usize = 16 * 1024;

/// The timeout of the last heartbeat and of the log, before the exit record.
const LAST_WORDS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

impl GangDriver<'_> {
    pub(super) async fn carry_out(&mut self, act: GangStep) -> Result<Flow, StoreError> {
        match act {
            GangStep::Wait(wait) => Ok(self.wait(wait)),
            GangStep::WriteMember => {
                // So that S3's clock has a sign of this node from the beginning.
                heartbeat::send_heartbeat(self.agent).await?;
                self.write(GangDocument::Member(self.seat.node), &self.seat.member).await
            }
            GangStep::ClaimHead => self.claim_head().await,
            GangStep::WriteRound { round, document } => self.write(GangDocument::Round(round), &document).await,
            GangStep::Restore { round, .. } => self.begin_restore(round).await,
            GangStep::WriteReady { round, ready } => {
                self.write(GangDocument::Ready { round, node: self.seat.node }, &ready).await
            }
            GangStep::Start { round } => self.start(round).await,
            GangStep::EndCommand { .. } => Ok(self.end_command().await),
            GangStep::WriteEnded { round, ended } => self.write_ended(round, ended).await,
            GangStep::Save { until } => Ok(self.save(until)),
            GangStep::WriteStop(stop) => self.write_stop(&stop).await,
            GangStep::Stop(order) => Ok(self.stop(order.until).await),
            GangStep::WriteExit(exit) => self.write_exit(exit).await,
            GangStep::WriteResult(result) => self.write_result(&result).await,
            GangStep::Leave(reason) => {
                self.look_at_steps(true).await;
                Ok(Flow::Leave(reason))
            }
        }
    }

    fn wait(&mut self, wait: GangWait) -> Flow {
        let nodes = self.seat.launch.nodes;
        if let Some(words) = describe_wait(wait, self.listing.members.len(), nodes) {
            if self.said != words {
                self.agent.set_activity("waiting for the other nodes");
            }
            self.say(words);
        }
        Flow::Pause(wait.poll_every())
    }

    async fn claim_head(&mut self) -> Result<Flow, StoreError> {
        match self.agent.fence.swap(|_| {}).await {
            Ok(_) => {
                let nodes = self.seat.launch.nodes;
                self.agent.log.write_line(&format!("all {nodes} nodes have joined, and this launch takes over"));
                Ok(Flow::Again)
            }
            // Head is read again, and says it.
            Err(FenceError::Fenced(_)) => Ok(Flow::Again),
            Err(FenceError::Store(error)) => Err(error),
        }
    }

    fn round(&self, round: u32) -> Option<GangRound> {
        self.listing.rounds.get(&round)?.round.as_ref()?.content.read().cloned()
    }

    async fn begin_restore(&mut self, number: u32) -> Result<Flow, StoreError> {
        let (Some(round), Some(head)) = (self.round(number), self.head.clone()) else {
            return Ok(Flow::Pause(POLL_EVERY_WAITING));
        };
        self.activity = Activity::Idle;
        if number > 0 {
            command::kill_leftovers(false).await;
            self.withdraw_parts(&head).await?;
            self.agent.log.write_line(&format!("round {number} begins: all nodes restore again"));
        }
        let work = prepare_round(Arc::clone(self.agent), Rc::clone(&self.preparation), round, head);
        self.activity = Activity::Restoring { round: number, task: LocalTask::begin(self.agent, work) };
        Ok(Flow::Pause(POLL_EVERY))
    }

    /// Deletes the manifests of steps that were not committed: parts of two rounds make no step.
    async fn withdraw_parts(&self, head: &Head) -> Result<(), StoreError> {
        let named: Vec<_> = head.named().collect();
        for part in self.seat.unnamed_parts(&named) {
            self.agent.store().delete_part(&self.seat.launch.job, part, self.seat.node).await?;
            self.seat.forget_part(part);
        }
        Ok(())
    }

    async fn start(&mut self, round: u32) -> Result<Flow, StoreError> {
        let Activity::Restored { start: Some(start), .. } = std::mem::replace(&mut self.activity, Activity::Idle)
        else {
            return Ok(Flow::Again);
        };
        let Some(prepared) = self.preparation.get() else { return Ok(Flow::Again) };
        if let Err(error) = note_started(self.agent, &self.seat.launch, round) {
            let why = format!("a restart of the agent would not know that the command has run: {error}");
            self.ending.get_or_insert(OwnEnding::Broken { why });
            return Ok(Flow::Again);
        }
        if prepared.asked.work.has_gpus && self.gpus.is_none() {
            self.gpus = Some(GpuWatch::begin(self.agent, prepared.asked.work.idle_max));
        }
        match RunningRound::begin(self.agent, &prepared, *start).await {
            Ok(running) => self.activity = Activity::Running { round, running },
            Err(error) => self.take_start_error(error),
        }
        Ok(Flow::Again)
    }

    /// Kills the command of a round that came to nothing, and forgets what it has not uploaded.
    async fn end_command(&mut self) -> Flow {
        if let Activity::Running { round, running } = &mut self.activity {
            let round = *round;
            running.kill();
            let end = running.task.result().await;
            let (code, at) = end.map_or_else(|| (None, crate::world::now()), |end| (end.code(), end.at));
            let ended = NodeEnded { code, at, by_curfew: true, is_peer_gone: false };
            self.activity = Activity::Ended { round, ended, saving: Saving::Done };
        }
        Flow::Again
    }

    async fn write_ended(&mut self, round: u32, ended: NodeEnded) -> Result<Flow, StoreError> {
        self.cancel_restore().await;
        self.write(GangDocument::Ended { round, node: self.seat.node }, &ended).await
    }

    async fn cancel_restore(&mut self) {
        if matches!(self.activity, Activity::Restoring { .. }) {
            self.activity = Activity::Idle;
            command::kill_leftovers(false).await;
        }
    }

    fn save(&mut self, until: Option<Timestamp>) -> Flow {
        if let Some(until) = until {
            self.order(until);
        }
        let Activity::Ended { saving, .. } = &mut self.activity else { return Flow::Pause(POLL_EVERY) };
        if matches!(saving, Saving::Pending(_))
            && let Some(prepared) = self.preparation.get()
            && let Saving::Pending(pending) = std::mem::replace(saving, Saving::Incomplete)
        {
            let (running, end) = *pending;
            *saving = Saving::Busy(running.save(self.agent, prepared, end));
        }
        Flow::Pause(if matches!(saving, Saving::Settling(_)) {
            SignedDuration::from_secs(1)
        } else {
            POLL_EVERY_WAITING
        })
    }

    async fn write_stop(&self, stop: &GangStop) -> Result<Flow, StoreError> {
        let stop = stop.clone().shown();
        self.write(GangDocument::Stop, &stop).await
    }

    async fn stop(&mut self, until: Timestamp) -> Flow {
        self.cancel_restore().await;
        match &self.activity {
            Activity::Running { .. } => {
                self.order(until);
                Flow::Pause(POLL_EVERY_WAITING)
            }
            _ => Flow::Again,
        }
    }

    async fn write_exit(&mut self, exit: NodeExit) -> Result<Flow, StoreError> {
        if let Activity::Ended { saving: saving @ (Saving::Busy(_) | Saving::Pending(_)), .. } = &mut self.activity {
            // Its time is over.
            *saving = Saving::Incomplete;
            command::kill_leftovers(false).await;
        }
        self.look_at_steps(true).await;
        if let Some(head) = &self.head {
            self.commits.warn_of_nothing_kept(self.agent, head);
        }
        let exit = self.explain(exit);
        let (node, attempt) = (self.seat.node, self.seat.launch.attempt);
        let why = if exit.why.is_empty() { String::new() } else { format!(": {}", exit.why) };
        self.say(format!("node {node} of attempt {attempt} ends ({}){why}", name_of(exit.reason)));
        self.agent.log.release_lines();
        let mut uploaded = None;
        let words = async {
            tokio::join!(heartbeat::send_heartbeat(self.agent), heartbeat::upload_log(self.agent, &mut uploaded))
        };
        if tokio::time::timeout(LAST_WORDS_TIMEOUT, Box::pin(words)).await.is_err() {
            self.agent.log.write_line("the last words before the exit are late: S3 did not answer");
        }
        self.write(GangDocument::Exit(node), &exit).await
    }

    fn explain(&self, exit: NodeExit) -> NodeExit {
        let is_own_failure = exit.reason == NodeExitReason::Failed && exit.code.is_some();
        let is_peer_gone = is_own_failure && self.says_peer_is_gone();
        let notes = [exit.why.as_str(), self.explanation.as_str()];
        let why: Vec<&str> = notes.into_iter().filter(|why| !why.is_empty()).collect();
        NodeExit { is_peer_gone, why: clean_machine_text(&why.join("; ")), ..exit }
    }

    /// Returns `true` if the end of the command's log says that a peer is gone.
    pub(super) fn says_peer_is_gone(&self) -> bool {
        let log = self.agent.log.tail().bytes;
        let end = log.get(log.len().saturating_sub(LOG_END_BYTES)..).unwrap_or_default();
        says_peer_is_gone(&String::from_utf8_lossy(end))
    }

    async fn write_result(&self, result: &HeadResult) -> Result<Flow, StoreError> {
        let launch = &self.seat.launch;
        let change = |head: &Head| {
            let is_ours = (head.attempt, &head.launch) == (launch.attempt, &launch.launch);
            (is_ours && head.result.is_none()).then(|| Head { result: Some(result.clone()), ..head.clone() })
        };
        match self.agent.fence.swap_if(change).await {
            Ok(Some(_)) => {
                let how = if result.succeeded { "succeeded" } else { "failed" };
                self.agent.log.write_line(&format!("the job has {how}: {}", result.why));
                Ok(Flow::Again)
            }
            // Another node was first: head is read again, and says it.
            Ok(None) | Err(FenceError::Fenced(_)) => Ok(Flow::Again),
            Err(FenceError::Store(error)) => Err(error),
        }
    }
}
