//! The loop of a node: it lists what the gang has written, and carries out the act that the rules say.

mod acts;
mod observations;
mod words;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use jobs::node_gang::{
    DocumentSight, GangDocument, GangListing, GangStep, LeaveReason, NodeEnded, NodeReady, NodeWork, OwnEnding,
    OwnNode, POLL_EVERY, next_gang_step,
};
use jobs::{ExitReason, Head};
use store::{MachineDocuments as _, StoreError};

use super::GangSeat;
use super::moments::Moments;
use super::node_work::{CommandEnd, LocalTask, Preparation, RoundOutcome, RoundStart, RunningRound, SaveSummary};
use super::previous::PreviousAttempt;
use super::started::read_started;
use super::steps::{LookContext, StepCommits};
use crate::agent::{Agent, EndCause};
use crate::fence::FenceError;
use crate::gpu::GpuWatch;
use crate::world::now;

/// Interval of looks at the parts of others.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// The timeout of what one round of the loop asks of S3.
const CALLS_TIMEOUT: Duration = Duration::from_secs(45);

/// Time for which a node waits for the commit of its last step, which needs an answer of nodes that write nothing.
const SETTLE_TIME: SignedDuration = SignedDuration::from_secs(15);

/// Time for which S3 may fail after the time of this node is over.
const FAILING_MAX: SignedDuration = SignedDuration::from_secs(30);

/// An order that is earlier by less is the same.
const ORDER_TOLERANCE: Duration = Duration::from_millis(200);

/// NCCL prints it where it uses TCP, with `NCCL_DEBUG=INFO`. Another program may print it as well.
pub(super) const NCCL_USES_TCP: &str = "NET/Socket";

/// Acts without a pause. More of them in a row are a mistake, which must not cost a call each millisecond.
const ACTS_MAX: u32 = 30;

/// The work of the node, with what it consists of.
enum Activity {
    Idle,
    Restoring { round: u32, task: LocalTask<RoundOutcome> },
    Restored { round: u32, ready: NodeReady, start: Option<Box<RoundStart>> },
    Running { round: u32, running: RunningRound },
    Ended { round: u32, ended: NodeEnded, saving: Saving },
}

/// The last uploads.
enum Saving {
    Pending(Box<(RunningRound, CommandEnd)>),
    Busy(LocalTask<SaveSummary>),
    /// The step waits until then for its commit; everything is uploaded.
    Settling(Instant),
    Done,
    /// There was no time for it.
    Incomplete,
}

/// The way on after an act.
enum Flow {
    Again,
    Pause(SignedDuration),
    Leave(LeaveReason),
}

pub(super) struct GangDriver<'a> {
    agent: &'a Arc<Agent>,
    seat: &'a GangSeat,
    preparation: Rc<Preparation>,
    listing: GangListing,
    head: Option<Head>,
    activity: Activity,
    ending: Option<OwnEnding>,
    /// `true` if another node's word, and not this machine, is the cause of the attempt's end.
    is_ordered: bool,
    is_previous_over: bool,
    previous: PreviousAttempt,
    commits: StepCommits,
    looked_at: Option<Instant>,
    gpus: Option<GpuWatch<'a>>,
    /// The explanation of the end of the command.
    explanation: String,
    failing_since: Option<Instant>,
    said: String,
    has_said_stop: bool,
}

impl<'a> GangDriver<'a> {
    pub(super) fn new(agent: &'a Arc<Agent>, seat: &'a GangSeat) -> Self {
        let mut ending = seat.problem.clone().map(|why| OwnEnding::Broken { why });
        let activity = match read_started(agent, &seat.launch) {
            Some(round) => {
                let why = "the agent was restarted while the command ran".to_owned();
                ending.get_or_insert(OwnEnding::Broken { why });
                let ended = NodeEnded { code: None, at: now(), by_curfew: false, is_peer_gone: false };
                Activity::Ended { round, ended, saving: Saving::Done }
            }
            None => Activity::Idle,
        };
        Self {
            agent,
            seat,
            preparation: Rc::default(),
            listing: GangListing::default(),
            head: None,
            activity,
            ending,
            is_ordered: false,
            is_previous_over: false,
            previous: PreviousAttempt::default(),
            commits: StepCommits::default(),
            looked_at: None,
            gpus: None,
            explanation: String::new(),
            failing_since: None,
            said: String::new(),
            has_said_stop: false,
        }
    }

    /// Runs until the node leaves the gang; returns why, in words.
    pub(super) async fn run(&mut self) -> String {
        let (mut changes, mut acts) = (self.agent.cause_changes(), 0_u32);
        loop {
            changes.mark_unchanged();
            self.observe_cause();
            self.observe_work().await;
            self.warn_of_tcp();
            if let Some(fenced) = self.agent.end_cause().filter(|cause| cause.reason == ExitReason::Fenced) {
                return fenced.why;
            }
            let flow = tokio::select! {
                flow = tokio::time::timeout(CALLS_TIMEOUT, Box::pin(self.go_on())) => flow,
                // A warning does not wait for S3; what was cut off is listed or tried again.
                _ = changes.changed() => continue,
            };
            let pause = match flow {
                Ok(Ok(Flow::Leave(reason))) => return words::describe_leave(reason).to_owned(),
                Ok(Ok(Flow::Again)) => {
                    self.failing_since = None;
                    acts = acts.saturating_add(1);
                    if acts < ACTS_MAX {
                        continue;
                    }
                    POLL_EVERY
                }
                Ok(Ok(Flow::Pause(pause))) => {
                    self.failing_since = None;
                    pause
                }
                Ok(Err(error)) => self.note_failure(&error.to_string()),
                Err(_) => self.note_failure("S3 does not answer"),
            };
            if self.is_past_its_time() {
                return "its time is over, and S3 does not answer".to_owned();
            }
            acts = 0;
            tokio::select! {
                () = self.agent.pace.sleep(pause) => {}
                () = self.seat.wake.notified() => {}
                _ = changes.changed() => {}
            }
        }
    }

    fn note_failure(&mut self, words: &str) -> SignedDuration {
        self.failing_since.get_or_insert_with(Instant::now);
        self.say(format!("the gang cannot be read or written yet: {words}"));
        POLL_EVERY
    }

    fn is_past_its_time(&self) -> bool {
        let is_failing = self.failing_since.is_some_and(|since| since.elapsed() >= self.agent.pace.wait(FAILING_MAX));
        let is_ending = self.ending.is_some() || self.is_ordered;
        now() >= self.agent.identity.ends_at
            || (is_failing && is_ending && self.agent.time_left() <= SignedDuration::ZERO)
    }

    /// Lists, looks at steps, and carries out one act.
    async fn go_on(&mut self) -> Result<Flow, StoreError> {
        self.listing = self.agent.store().read_gang(&self.seat.launch, &self.listing).await?;
        self.head = Some(self.agent.fence.read_any().await?);
        self.say_stop();
        self.wait_for_previous().await?;
        self.look_at_steps(false).await;
        let step = self.next_step();
        self.carry_out(step).await
    }

    fn next_step(&self) -> GangStep {
        let moments = Moments { pace: self.agent.pace, now: now() };
        let me = OwnNode {
            node: self.seat.node,
            member: self.seat.member.clone(),
            retry_of: self.agent.identity.retry_of,
            is_previous_over: self.is_previous_over,
            ending: self.ending.clone().map(|ending| moments.stretch_ending(ending)),
            work: self.work(),
        };
        let listing = moments.stretch_listing(&self.listing);
        moments.shrink_step(next_gang_step(&self.seat.launch, &me, &listing, self.head.as_ref(), moments.now))
    }

    fn work(&self) -> NodeWork {
        match &self.activity {
            Activity::Idle => NodeWork::Idle,
            Activity::Restoring { round, .. } => NodeWork::Restoring { round: *round },
            Activity::Restored { round, ready, .. } => NodeWork::Restored { round: *round, ready: ready.clone() },
            Activity::Running { round, .. } => NodeWork::Running { round: *round },
            Activity::Ended { round, ended, saving } => {
                NodeWork::Ended { round: *round, ended: *ended, is_saved: matches!(saving, Saving::Done) }
            }
        }
    }

    fn is_ours(&self) -> bool {
        let launch = &self.seat.launch;
        self.head.as_ref().is_some_and(|head| (head.attempt, &head.launch) == (launch.attempt, &launch.launch))
    }

    fn own_beat(&self) -> Option<Timestamp> {
        self.listing.beats.get(&self.seat.node).copied()
    }

    /// Finds whether the attempt that head names has ended, once this gang is complete.
    async fn wait_for_previous(&mut self) -> Result<(), StoreError> {
        let Some(head) = self.head.clone().filter(|head| head.attempt > 0) else { return Ok(()) };
        if self.is_ours() || head.attempt == self.seat.launch.attempt {
            return Ok(());
        }
        self.previous.begin_waiting();
        if self.listing.members.len() >= usize::from(self.seat.launch.nodes) {
            self.is_previous_over = self.previous.is_over(self.agent, &head, self.own_beat()).await?;
        }
        Ok(())
    }

    /// Looks at the parts of the gang's steps, from time to time and after an own one.
    async fn look_at_steps(&mut self, is_last: bool) {
        let prepared = self.preparation.get();
        let has_steps = match &self.activity {
            Activity::Running { .. } | Activity::Ended { .. } => {
                prepared.as_ref().is_none_or(|prepared| prepared.asked.checkpoint.is_some())
            }
            _ => false,
        };
        let is_final = matches!(&self.activity, Activity::Ended { saving: Saving::Settling(_) | Saving::Done, .. });
        let is_due = is_last
            || is_final
            || self.seat.take_news()
            || self.looked_at.is_none_or(|at| at.elapsed() >= self.agent.pace.wait(LOOK_EVERY));
        let Some(head) = self.head.as_ref().filter(|_| has_steps && is_due && self.is_ours()) else { return };
        let round = self.listing.rounds.values().rev().find_map(|round| round.round.as_ref()?.content.read());
        let context = LookContext {
            keep: prepared.and_then(|prepared| prepared.asked.keep),
            from: round.and_then(|round| round.checkpoint),
            own_beat: self.own_beat(),
            is_final: is_final && self.has_own_end(),
        };
        self.looked_at = Some(Instant::now());
        let looked = Box::pin(self.commits.look(self.agent, self.seat, head, context)).await;
        match looked {
            // The next read of head says it.
            Ok(()) | Err(FenceError::Fenced(_)) => {}
            // No end waits for it: another node may see the same parts.
            Err(FenceError::Store(error)) => self.say(format!("the steps of the gang cannot be looked at: {error}")),
        }
    }

    /// `false` after a restart, where nobody knows what the command wrote.
    fn has_own_end(&self) -> bool {
        self.preparation.get().is_some()
    }

    /// Ends what still runs.
    pub(super) async fn end_all(&mut self) {
        self.activity = Activity::Idle;
        self.gpus = None;
        self.agent.in_time(self.commits.end_pruning()).await;
        self.preparation.end().await;
    }

    /// Logs the reason of the stop, once.
    fn say_stop(&mut self) {
        let stop = self.listing.stop.as_ref().map(|stop| &stop.content);
        if let Some(DocumentSight::Read(stop)) = stop.filter(|_| !self.has_said_stop) {
            self.agent.log.write_line(&stop.why);
            self.has_said_stop = true;
        }
    }

    /// Logs a line unless it is the one before.
    fn say(&mut self, words: String) {
        if self.said != words {
            self.agent.log.write_line(&words);
            self.said = words;
        }
    }

    /// Ends the command by the word of another node, or earlier than this node's own cause says.
    fn order(&mut self, until: Timestamp) {
        self.is_ordered |= self.agent.end_cause().is_none();
        let why = match &self.listing.stop {
            Some(stop) => match stop.content.read() {
                Some(stop) => format!("all nodes end: {}", stop.why),
                None => "all nodes end".to_owned(),
            },
            None => "the time of this attempt is over".to_owned(),
        };
        let until = crate::world::after(until.duration_since(now()));
        // The moment is computed anew each time, so it differs a little.
        let is_earlier = |cause: EndCause| until + ORDER_TOLERANCE < cause.until;
        if self.agent.end_cause().is_none_or(is_earlier) {
            self.agent.end(EndCause { reason: ExitReason::Interrupted, why, until });
        }
    }

    async fn write(&self, document: GangDocument, content: &impl serde::Serialize) -> Result<Flow, StoreError> {
        self.agent.store().write_gang_document(&self.seat.launch, document, content).await?;
        Ok(Flow::Again)
    }
}
