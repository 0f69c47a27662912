//! One account with jobs: its bucket, its machines and their agents, in memory.

use std::collections::BTreeMap;

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{InspectedInstance, Ledger};
use billing::price::PriceDocument;
use jiff::{SignedDuration, Timestamp};
use jobs::backlog::Bookmarks;
use jobs::node_gang::{Node, NodeExit, NodeExitReason};
use jobs::takeover::Takeover;
use jobs::{
    AGENT_ENDS_BEFORE, CancelRequest, Checkpoint, ExitReason, ExitRecord, GroupKey, Head, HeadResult, Heartbeat,
    InboxAnswer, Job, JobId, LaunchOrder, Lifecycle, WARNING, launch_id,
};
use model::config::Config;
use model::fixture::untagged;
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState, PurchaseOption, Tags};
use model::money::{Amount, Rate};
use model::notification_log::NotificationLog;
use ports::ReceivedHeartbeat;

pub(crate) const HOME: &str = "us-east-1";
pub(crate) const TEAMS: [&str; 2] = ["vision", "nlp"];
pub(crate) const TYPE: &str = "g5.xlarge";
pub(crate) const ON_DEMAND_MICROS: u64 = 1_006_000;
pub(crate) const SPOT_MICROS: u64 = 400_000;
pub(crate) const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];

/// Time between two runs. The schedule is one minute; what a run must do by its time has this much longer.
pub(crate) const TICK: SignedDuration = SignedDuration::from_mins(10);

/// EC2 shows a terminated instance for about an hour (EC2 user guide, "Terminate Amazon EC2 instances").
const SHOWN_FOR: SignedDuration = SignedDuration::from_hours(1);

/// `StateReason.Code` (EC2 API reference, `StateReason`).
pub(crate) const BY_CALL: &str = "Client.UserInitiatedShutdown";
const BY_ITSELF: &str = "Client.InstanceInitiatedShutdown";
const BY_SPOT: &str = "Server.SpotInstanceTermination";

/// A document with its version; 0 if there is none.
pub(crate) type Stored<T> = (u64, T);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentState {
    Boots,
    Runs,
    /// It sends no heartbeat for a while.
    Silent,
    /// It never sends one again, and its machine runs on.
    Hung,
}

#[derive(Debug)]
pub(crate) struct SimulatedMachine {
    pub(crate) id: ResourceId,
    pub(crate) job: JobId,
    pub(crate) attempt: u32,
    pub(crate) token: String,
    /// Its number in its gang; 0 for a single machine.
    pub(crate) node: Node,
    is_of_gang: bool,
    retry_of: u32,
    tags: Tags,
    pub(crate) lifecycle: Lifecycle,
    rate: Rate,
    pub(crate) profile: Option<String>,
    pub(crate) zone: String,
    pub(crate) launched_at: Timestamp,
    /// The absolute end of its attempt.
    pub(crate) ends_at: Timestamp,
    pub(crate) ended: Option<(Timestamp, &'static str)>,
    agent: AgentState,
    /// Time since which it sends no heartbeat, and never will.
    pub(crate) hung_since: Option<Timestamp>,
}

impl SimulatedMachine {
    pub(crate) fn lives_at(&self, now: Timestamp) -> bool {
        self.ended.is_none_or(|(at, _)| at > now)
    }

    /// The true spend within a time.
    pub(crate) fn spent(&self, from: Timestamp, to: Timestamp) -> Amount {
        let until = self.ended.map_or(to, |(at, _)| at.min(to));
        let seconds = until.duration_since(self.launched_at.max(from)).as_secs().max(0);
        Amount::from_rate(self.rate, seconds.unsigned_abs())
    }

    /// Its description by EC2; `None` if it is forgotten.
    pub(crate) fn describe(&self, now: Timestamp) -> Option<InspectedInstance> {
        let ended = self.ended.filter(|(at, _)| *at <= now);
        if ended.is_some_and(|(at, _)| now.duration_since(at) > SHOWN_FOR) {
            return None;
        }
        let state = if ended.is_some() { InstanceState::Terminated } else { InstanceState::Running };
        let purchase = match self.lifecycle {
            Lifecycle::Spot => PurchaseOption::SpotOneTime,
            Lifecycle::OnDemand => PurchaseOption::OnDemand,
        };
        let seen = untagged().id(self.id.as_str()).of_type(TYPE).state(state).purchase(purchase).build();
        let state_reason = ended.map(|(_, reason)| reason.to_owned());
        let (launched_at, tags, zone) = (self.launched_at, self.tags.clone(), Some(ZONES[0].to_owned()));
        let instance = Instance { launched_at, tags, state_reason, zone, ..seen };
        Some(InspectedInstance { instance, ended_at: ended.map(|(at, _)| at) })
    }
}

/// Everything that should happen at least once.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) launched: u64,
    pub(crate) unanswered_launches: u64,
    pub(crate) without_capacity: u64,
    pub(crate) over_quota: u64,
    pub(crate) interrupted: u64,
    pub(crate) silent: u64,
    pub(crate) failed: u64,
    pub(crate) expired: u64,
    pub(crate) cancelled: u64,
    pub(crate) succeeded: u64,
    pub(crate) held: u64,
    pub(crate) faults: u64,
    pub(crate) cut_off: u64,
    pub(crate) lost_swaps: u64,
}

pub(crate) struct JobsWorld {
    pub(crate) chance: fastrand::Rng,
    pub(crate) now: Timestamp,
    /// One call in this many fails; 0: none.
    pub(crate) faults: u32,
    /// `true` if no command ends by itself.
    pub(crate) is_steady: bool,
    /// Number of machines of each job.
    pub(crate) nodes: u8,
    pub(crate) home: Region,
    pub(crate) config: Config,
    pub(crate) machines: Vec<SimulatedMachine>,
    pub(crate) states: BTreeMap<JobId, Stored<Job>>,
    /// The world a tick ago: so old a copy of the bucket may be.
    older_states: BTreeMap<JobId, Stored<Job>>,
    /// `true` if another stack takes the bucket over from a copy, now and then.
    pub(crate) is_taken_over: bool,
    /// The last takeover.
    pub(crate) takeover: Option<Takeover>,
    pub(crate) specs: BTreeMap<JobId, Vec<u8>>,
    pub(crate) index: BTreeMap<JobId, Timestamp>,
    pub(crate) heads: BTreeMap<JobId, Head>,
    pub(crate) beats: BTreeMap<(JobId, u32), ReceivedHeartbeat>,
    pub(crate) exits: BTreeMap<(JobId, u32), ExitRecord>,
    pub(crate) node_beats: BTreeMap<(JobId, u32, Node), ReceivedHeartbeat>,
    pub(crate) node_exits: BTreeMap<(JobId, u32, Node), NodeExit>,
    pub(crate) groups: BTreeMap<GroupKey, JobId>,
    pub(crate) cancels: BTreeMap<JobId, CancelRequest>,
    /// Version, content, and time of the write.
    pub(crate) inbox: BTreeMap<String, (String, Vec<u8>, Timestamp)>,
    pub(crate) answers: BTreeMap<String, (InboxAnswer, Timestamp)>,
    pub(crate) budgets: BTreeMap<(BudgetHolder, String), Stored<Budget>>,
    pub(crate) ledgers: BTreeMap<String, Stored<Ledger>>,
    pub(crate) notices: BTreeMap<String, Stored<NotificationLog>>,
    pub(crate) bookmarks: Stored<Bookmarks>,
    pub(crate) prices: Stored<PriceDocument>,
    /// Number of states that a copy had older than they were.
    pub(crate) older_taken: u64,
    /// Number of searches for machines that no state names.
    pub(crate) searches: u64,
    pub(crate) tally: Tally,
}

impl JobsWorld {
    pub(crate) fn new(seed: u64, now: Timestamp, config: &str, faults: u32) -> Self {
        Self {
            chance: fastrand::Rng::with_seed(seed),
            now,
            faults,
            is_steady: false,
            nodes: 1,
            home: HOME.into(),
            config: Config::read(config).unwrap(),
            machines: Vec::new(),
            states: BTreeMap::new(),
            older_states: BTreeMap::new(),
            is_taken_over: false,
            takeover: None,
            specs: BTreeMap::new(),
            index: BTreeMap::new(),
            heads: BTreeMap::new(),
            beats: BTreeMap::new(),
            exits: BTreeMap::new(),
            node_beats: BTreeMap::new(),
            node_exits: BTreeMap::new(),
            groups: BTreeMap::new(),
            cancels: BTreeMap::new(),
            inbox: BTreeMap::new(),
            answers: BTreeMap::new(),
            budgets: BTreeMap::new(),
            ledgers: BTreeMap::new(),
            notices: BTreeMap::new(),
            bookmarks: Stored::default(),
            prices: Stored::default(),
            older_taken: 0,
            searches: 0,
            tally: Tally::default(),
        }
    }

    pub(crate) fn one_in(&mut self, count: u32) -> bool {
        self.chance.u32(0..count) == 0
    }

    /// Another stack takes over: of some jobs, the copy has the state of a tick ago.
    pub(crate) fn take_over(&mut self) {
        let term = self.takeover.as_ref().map_or(2, |last| last.term + 1);
        self.takeover = Some(Takeover { term, since: self.now, region_before: None });
        for (job, (_, older)) in std::mem::take(&mut self.older_states) {
            if self.chance.bool()
                && let Some(stored) = self.states.get_mut(&job)
            {
                self.older_taken += u64::from(stored.1 != older);
                *stored = (stored.0 + 1, older);
            }
        }
    }

    /// Notes what a copy may have at the next tick.
    pub(crate) fn replicate(&mut self) {
        self.older_states.clone_from(&self.states);
    }

    /// A team puts a document into the inbox.
    pub(crate) fn submit(&mut self, team: &str, name: &str, text: &str) {
        let (key, object) = (format!("inbox/{team}/{name}.toml"), format!("v{}", self.inbox.len()));
        self.inbox.insert(key, (object, text.as_bytes().to_vec(), self.now));
    }

    /// The machines of a launch begin to boot.
    pub(crate) fn launch(&mut self, order: &LaunchOrder<'_>, job: &JobId) {
        let (launch, nodes) = (order.launch, order.terms.gpu.nodes);
        for node in 0..nodes {
            self.machines.push(SimulatedMachine {
                id: ResourceId::new(format!("i-{:017x}", self.machines.len())),
                job: job.clone(),
                attempt: launch.attempt,
                token: launch.token.clone(),
                node,
                is_of_gang: nodes > 1,
                retry_of: launch.retry_of,
                tags: order.tags.clone(),
                lifecycle: launch.candidate.lifecycle,
                rate: launch.candidate.rate.of_each(nodes),
                profile: order.profile.map(str::to_owned),
                zone: launch.candidate.zone.clone(),
                launched_at: self.now,
                ends_at: launch.ends_at,
                ended: None,
                agent: AgentState::Boots,
                hung_since: None,
            });
        }
        self.tally.launched += 1;
    }

    /// The machines that a token has launched, by node.
    pub(crate) fn launched_by(&self, token: &str) -> Vec<&SimulatedMachine> {
        self.machines.iter().filter(|machine| machine.token == token).collect()
    }

    /// Every machine does what it does in a tick. Returns the instances that EC2 warns of an interruption.
    pub(crate) fn live(&mut self, is_calm: bool) -> Vec<ResourceId> {
        let mut warned = Vec::new();
        for index in 0..self.machines.len() {
            if !self.machines[index].lives_at(self.now) || self.machines[index].ended.is_some() {
                continue;
            }
            let is_spot = self.machines[index].lifecycle == Lifecycle::Spot;
            if !is_calm && is_spot && self.one_in(60) {
                let id = self.machines[index].id.clone();
                self.interrupt(&id);
                warned.push(id);
                continue;
            }
            if !is_calm && self.machines[index].agent != AgentState::Hung && self.one_in(80) {
                self.tally.silent += 1;
                let is_hung = self.one_in(2);
                self.machines[index].agent = if is_hung { AgentState::Hung } else { AgentState::Silent };
                self.machines[index].hung_since = is_hung.then_some(self.now);
            }
            self.work(index);
        }
        warned
    }

    fn index_of(&self, id: &ResourceId) -> usize {
        self.machines.iter().position(|machine| machine.id == *id).unwrap()
    }

    /// EC2 warns of an interruption; the agent leaves in order.
    pub(crate) fn interrupt(&mut self, id: &ResourceId) {
        let index = self.index_of(id);
        self.tally.interrupted += 1;
        if self.machines[index].agent == AgentState::Runs {
            self.leave(index, ExitReason::Interrupted);
        }
        self.machines[index].ended = Some((self.now + WARNING, BY_SPOT));
    }

    /// The command of a machine comes to its end.
    pub(crate) fn finish(&mut self, id: &ResourceId) {
        let index = self.index_of(id);
        self.end_command(index, true);
    }

    fn end_command(&mut self, index: usize, succeeded: bool) {
        let head = self.heads.entry(self.machines[index].job.clone()).or_default();
        let (code, why) = (Some(i32::from(!succeeded)), "its command ended".to_owned());
        head.result = Some(HeadResult { succeeded, code, why, at: self.now, is_final: false });
        self.tally.failed += u64::from(!succeeded);
        let token = self.machines[index].token.clone();
        for index in (0..self.machines.len()).filter(|index| self.machines[*index].token == token).collect::<Vec<_>>() {
            self.shut_down(index, if succeeded { ExitReason::Succeeded } else { ExitReason::Failed });
        }
    }

    /// Returns `true` if a peer in its gang is gone, or has been silent for long.
    fn has_lost_peer(&self, index: usize) -> bool {
        let is_lost = |peer: &&SimulatedMachine| {
            peer.ended.is_some() || peer.hung_since.is_some_and(|since| self.now.duration_since(since) >= TICK)
        };
        self.machines[index].is_of_gang && self.launched_by(&self.machines[index].token).iter().any(is_lost)
    }

    /// One tick of an agent that is well.
    fn work(&mut self, index: usize) {
        let machine = &self.machines[index];
        let SimulatedMachine { job, attempt, token, retry_of, ends_at, .. } = machine;
        let agent = machine.agent;
        let (job, attempt, launch, retry_of, ends_at) = (job.clone(), *attempt, launch_id(token), *retry_of, *ends_at);
        if agent == AgentState::Hung || agent == AgentState::Silent && !self.one_in(4) {
            return;
        }
        if !self.heads.entry(job.clone()).or_default().admits(attempt, &launch, retry_of) {
            return self.shut_down(index, ExitReason::Fenced);
        }
        let began = agent == AgentState::Boots;
        self.machines[index].agent = AgentState::Runs;
        let peers = self.launched_by(&self.machines[index].token);
        let (node, are_all_well) = (self.machines[index].node, peers.iter().all(|peer| peer.agent == AgentState::Runs));
        if are_all_well {
            self.heads.entry(job.clone()).or_default().claim(attempt, &launch);
        }
        self.beat(index);
        if self.now >= ends_at - AGENT_ENDS_BEFORE {
            return self.shut_down(index, ExitReason::Expired);
        }
        if self.has_lost_peer(index) {
            return self.shut_down(index, ExitReason::Interrupted);
        }
        // A gang does a step together.
        if began || node > 0 || !are_all_well {
            return;
        }
        let (is_done, has_failed) = (self.one_in(14), self.one_in(60));
        let head = self.heads.entry(job).or_default();
        let step = head.checkpoint.map_or(0, |checkpoint| checkpoint.step) + 1;
        head.checkpoint = Some(Checkpoint { attempt, step, rewrite: 0 });
        if !self.is_steady && (is_done || has_failed) {
            self.end_command(index, is_done);
        }
    }

    fn beat(&mut self, index: usize) {
        let SimulatedMachine { job, attempt, node, is_of_gang, .. } = &self.machines[index];
        let beat = serde_json::json!({ "at": self.now, "attempt": attempt, "doing": Heartbeat::RUNNING });
        let received = ReceivedHeartbeat { at: self.now, heartbeat: serde_json::from_value(beat).unwrap() };
        if *is_of_gang {
            self.node_beats.insert((job.clone(), *attempt, *node), received);
        } else {
            self.beats.insert((job.clone(), *attempt), received);
        }
    }

    fn leave(&mut self, index: usize, reason: ExitReason) {
        let SimulatedMachine { job, attempt, node, is_of_gang, .. } = &self.machines[index];
        let (at, why) = (self.now, format!("{reason:?}"));
        if *is_of_gang {
            let reason = match reason {
                ExitReason::Succeeded => NodeExitReason::Succeeded,
                ExitReason::Failed => NodeExitReason::Failed,
                ExitReason::Interrupted => NodeExitReason::Interrupted,
                ExitReason::Expired => NodeExitReason::Expired,
                ExitReason::Fenced => NodeExitReason::Fenced,
                ExitReason::Broken => NodeExitReason::Broken,
            };
            let exit = NodeExit { reason, code: None, at, is_peer_gone: false, why };
            self.node_exits.insert((job.clone(), *attempt, *node), exit);
            return;
        }
        let exit = ExitRecord { attempt: *attempt, at, reason, code: None, why, is_final: false };
        self.exits.insert((job.clone(), *attempt), exit);
    }

    fn shut_down(&mut self, index: usize, reason: ExitReason) {
        self.tally.expired += u64::from(reason == ExitReason::Expired);
        self.leave(index, reason);
        self.machines[index].ended = Some((self.now, BY_ITSELF));
    }
}
