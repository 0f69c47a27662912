//! The driver's own machine, as it sees it: the cause of its end, and the outcome of its work.

use std::time::Instant;

use jobs::node_gang::{BEFORE_NOTICE, NodeEnded, NodeReady, OwnEnding};
use jobs::{AgentWarningKind, ExitReason};
use model::moment::after;

use super::super::node_work::{CommandEnd, RoundOutcome, RunningRound};
use super::{Activity, GangDriver, NCCL_USES_TCP, SETTLE_TIME, Saving};
use crate::agent::StartError;
use crate::world::{left_until, now};

impl GangDriver<'_> {
    /// Takes a cause of this machine as its own ending.
    pub(super) fn observe_cause(&mut self) {
        let Some(cause) = self.agent.end_cause().filter(|_| !self.is_ordered) else { return };
        let (pace, now) = (self.agent.pace, now());
        let ending = match cause.reason {
            ExitReason::Interrupted => {
                let notice = after(now, left_until(cause.until).saturating_add(pace.scale(BEFORE_NOTICE)));
                OwnEnding::Warned { at: now, notice: Some(notice) }
            }
            ExitReason::Expired => OwnEnding::Expired { until: after(now, self.agent.time_left()) },
            ExitReason::Failed => OwnEnding::CannotStart { code: StartError::CANNOT_RUN, why: cause.why },
            ExitReason::Broken | ExitReason::Succeeded => OwnEnding::Broken { why: cause.why },
            ExitReason::Fenced => return,
        };
        self.ending.get_or_insert(ending);
    }

    /// Takes over what tasks in the background have come to.
    pub(super) async fn observe_work(&mut self) {
        match &mut self.activity {
            Activity::Restoring { round, task } if task.is_finished() => {
                let (round, done) = (*round, task.result().await);
                self.activity = self.take_restored(round, done);
            }
            Activity::Running { running, .. } if running.task.is_finished() => {
                let end = running.task.result().await;
                if let Activity::Running { round, running } = std::mem::replace(&mut self.activity, Activity::Idle) {
                    self.activity = self.take_ended(round, running, end);
                }
            }
            Activity::Ended { saving, .. } => match saving {
                Saving::Busy(task) if task.is_finished() => {
                    let settled = Instant::now() + self.agent.pace.wait(SETTLE_TIME);
                    let summary = task.result().await;
                    let is_in_time = summary.as_ref().is_some_and(|summary| summary.is_in_time);
                    *saving = if is_in_time { Saving::Settling(settled) } else { Saving::Incomplete };
                    self.looked_at = None;
                    if let Some(summary) = summary {
                        if summary.is_fault_of_machine && !self.previous.had_gpu_fault() {
                            self.ending.get_or_insert(OwnEnding::Broken { why: summary.why.clone() });
                        }
                        self.explanation = summary.why;
                    }
                }
                Saving::Settling(until) => {
                    let newest = self.head.as_ref().and_then(|head| head.checkpoint);
                    if !self.seat.is_ahead_of(newest) || Instant::now() >= *until {
                        *saving = Saving::Done;
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Tells the owner once that the log has the word of NCCL for TCP.
    pub(super) fn warn_of_tcp(&self) {
        if self.agent.log.take_watched_text() {
            let cards = self.seat.member.efa_cards;
            let cards = if cards == 1 { "1 card".to_owned() } else { format!("{cards} cards") };
            let words = format!(
                "the log has {NCCL_USES_TCP}, which NCCL prints where it uses TCP, though the machine has {cards} with EFA: where it uses EFA it prints NET/OFI"
            );
            self.agent.log.write_line(&words);
            self.agent.warn_owner(AgentWarningKind::NoEfa, &words);
        }
    }

    fn take_restored(&mut self, round: u32, done: Option<RoundOutcome>) -> Activity {
        match done {
            Some(Ok(Ok(start))) => {
                Activity::Restored { round, ready: NodeReady::Restored, start: Some(Box::new(start)) }
            }
            Some(Ok(Err(why))) => Activity::Restored { round, ready: NodeReady::Damaged { why }, start: None },
            Some(Err(error)) => {
                self.take_start_error(error);
                Activity::Idle
            }
            None => {
                self.take_panic();
                Activity::Idle
            }
        }
    }

    fn take_panic(&mut self) {
        self.ending.get_or_insert(OwnEnding::Broken { why: "a task of the agent has panicked".to_owned() });
    }

    pub(super) fn take_start_error(&mut self, error: StartError) {
        match error {
            StartError::Impossible { code, why } => {
                self.agent.log.write_line(&why);
                self.ending.get_or_insert(OwnEnding::CannotStart { code, why });
            }
            // The cause says the same of an attempt that has to end.
            StartError::Ended(end) if self.agent.end_cause().is_none() => {
                self.agent.log.write_line(&end.why);
                self.ending.get_or_insert(OwnEnding::Broken { why: end.why });
            }
            StartError::Ended(_) => self.observe_cause(),
        }
    }

    fn take_ended(&mut self, round: u32, running: RunningRound, end: Option<CommandEnd>) -> Activity {
        let at = end.as_ref().map_or_else(now, |end| end.at);
        let by_curfew = end.as_ref().is_none_or(CommandEnd::is_by_curfew);
        let code = end.as_ref().and_then(CommandEnd::code);
        let ended = NodeEnded { code, at, by_curfew, is_peer_gone: false };
        let is_peer_gone = ended.failed() && code.is_some() && self.says_peer_is_gone();
        let ended = NodeEnded { is_peer_gone, ..ended };
        let Some(end) = end else {
            self.take_panic();
            return Activity::Ended { round, ended, saving: Saving::Incomplete };
        };
        if let Some(why) = end.problem.clone() {
            self.ending.get_or_insert(OwnEnding::Broken { why });
        }
        let saving = Saving::Pending(Box::new((running, end)));
        Activity::Ended { round, ended, saving }
    }
}
