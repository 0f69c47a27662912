//! GPU jobs: what a team submits, what becomes of it, and what is done next.
//!
//! [`next()`] is the whole decision: `(job, facts, now) -> (job', effects)`. A reconciler writes `job'` over the version that it read, and
//! stops if it loses that swap; otherwise it carries out the effect, whose result is a
//! fact of the next round. Everything that still has to be done follows from the state alone, so a crash at any point, a repeated, lost or
//! reordered event, or two reconcilers at once never run a job twice and never forget one. `tests/model` explores this very function.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod agent_warning;
mod attempt_end;
pub mod backlog;
pub mod box_job;
pub mod boxes;
mod candidate;
pub mod checkpoints;
pub mod command_job;
mod completion;
mod container;
mod deadline;
mod dependency;
pub mod document_keys;
pub mod documents;
pub mod efa;
mod effect;
mod facts;
mod find;
pub mod footprint;
mod gang_estimate;
mod governing_quota;
mod gpu_type;
mod id;
mod identity;
mod image;
pub mod inbox;
pub mod input;
mod job_group;
pub mod keys;
mod launch_tags;
mod liveness;
mod machine_ceiling;
pub mod machine_hold;
pub mod machine_role;
mod next;
pub mod node_gang;
mod notification;
mod offering;
mod overview;
pub mod parameter_sweep;
mod phase;
mod priority;
mod rank;
mod reconciliation;
mod refusals;
pub mod schedule;
mod shell;
mod signal_recipients;
mod spec;
mod sweep;
pub mod takeover;
pub mod team_access;
pub mod telemetry;
mod transfer;
pub mod trigger;
mod user_data;
pub mod warning;
mod workdir;
mod worst_case;

use boxes::BoxState;
use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::money::{Amount, Rate};
use serde::{Deserialize, Serialize};

pub use agent_warning::{AgentWarning, AgentWarningKind, AgentWarnings};
pub use attempt_end::{describe_attempt_end, describe_exit};
pub use backlog::{BacklogQueue, QueueItem, QueueShares, ShareLimits};
pub use box_job::BoxJob;
pub use candidate::{Candidate, CandidateNetwork, Lifecycle, MachineImage, QuotaCode, Ranking};
pub use capacity::{
    Capacity, CapacityDecision, CapacityReason, DeadlineSituation, ExpectedCost, SpotHistory, choose_by_launch,
};
pub use command_job::CommandJob;
pub use completion::JobCompletion;
pub use container::{ContainerImage, EcrRegistry, ImageReference, find_unpinned};
pub use deadline::{JobDeadline, expected_costs};
pub use dependency::{DependencyState, outputs_variable};
pub use document_keys::rerun_document;
pub use documents::{
    CHECKPOINTS_KEPT_MAX, CancelRequest, Checkpoint, ExitReason, ExitRecord, Head, HeadResult, Heartbeat, InboxAnswer,
    MACHINE_DOCUMENT_BYTES_MAX, SpecMistake, clean_machine_text,
};
pub use effect::{Effect, JobTransition, LaunchOrder, LaunchRequest, TransitionKind};
pub use facts::{EffectResult, JobFacts, LaunchResult, MachineObservation, MachineSight, NeededFacts, ReserveResult};
pub use find::resolve_job_name;
pub use footprint::{ExpectedFootprint, job_footprint};
pub use gang_estimate::GangEstimate;
pub use governing_quota::{ListedQuota, governing_quota, too_few_vcpus};
pub use gpu_type::{check_gpu_name, check_gpu_type, check_size, normalize_gpu_name};
pub use id::{JobId, JobName, UnreadableJob};
pub use identity::MachineIdentity;
pub use identity::{launch_id, launch_token};
pub use image::image_source;
pub use input::{INPUT_BYTES_MAX, INPUT_OBJECTS_MAX, INPUTS_MAX, InputFile, InputMode, InputObject, InputSpec};
pub use job_group::{GroupKey, JobGroup, ListedGroup, VpcGroups, placement_group_name, security_group_name};
pub use launch_tags::{group_tags, launch_tags};
pub use liveness::{GPU_BUSY_PERCENT, Stall, WorkMonitor, WorkSigns};
pub use machine_hold::MachineHold;
pub use model::input_source::InputSource;
pub use next::{deadline_obstacle, needed_facts, next};
pub use notification::{HeartbeatSigns, JobNotification};
pub use offering::{MachineKind, PoolNetwork, TypeOffering, TypeOfferings, ZoneSubnet, ZoneSubnets};
pub use overview::{JobOverview, still_reserved};
pub use parameter_sweep::{Combination, JobListRow, ParameterSweep, Sweep, SweepMember, SweepParameter, SweepSummary};
pub use phase::{
    CapacityWait, HoldReason, JobEnd, JobMachine, JobResult, LaunchHold, LaunchInProgress, LossReason,
    MachineReplacement, Phase, RefusedCandidates, RetryWait, UsedUpQuota,
};
pub use priority::by_priority;
pub use rank::{CapacityPool, LaunchObstacle, LaunchPolicy, prices_wanted, rank, refused_network};
pub use reconciliation::{PendingDecision, PendingEffects, PendingWrite, Reconciliation, UnrecordedMachine};
pub use refusals::LaunchRefusals;
pub use schedule::{Schedule, ScheduleState};
pub use shell::Shell;
pub use signal_recipients::{ProcessEntry, ProgramKind, SignalRecipients, choose_recipients};
pub use spec::{
    CheckpointSpec, GpuSpec, JobSpec, JobTerms, MachineSpec, ModelSizing, NetworkSpec, Placement, SpotSpec,
    TYPE_GPUS_MAX, Workload,
};
pub use sweep::{is_index_search_due, is_searched};
pub use telemetry::GpuWork;
pub use transfer::{TransferCost, TransferPrice, transfer_usd_per_gb};
pub use trigger::{Arrival, Trigger, TriggerState, TriggeredDocument};
pub use user_data::{USER_DATA_BYTES_MAX, user_data};
pub use workdir::{
    WORKDIR_ARCHIVE_BYTES_MAX, WORKDIR_ENTRIES_MAX, WORKDIR_KEPT, WORKDIR_UNPACKED_BYTES_MAX, WorkdirDigest,
};
pub use worst_case::WorstCase;

/// Longest time from a launch to the first heartbeat of the machine's agent.
pub const FIRST_HEARTBEAT_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_mins(15);

/// Longest time without a heartbeat. The agent sends one every minute ([`HEARTBEAT_EVERY`]).
pub const HEARTBEAT_TIMEOUT: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// The interval of heartbeats.
pub const HEARTBEAT_EVERY: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// Between an interruption warning and the end of the machine (EC2 user guide, "Spot Instance interruption notices").
pub const WARNING: jiff::SignedDuration = jiff::SignedDuration::from_secs(120);

/// Time before the attempt's absolute end at which the agent ends it, in order.
pub const AGENT_ENDS_BEFORE: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

/// Time after the attempt's absolute end at which `reap-instances` ends it from outside: the value of `curfew:expires-at`.
pub const EXPIRES_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// No attempt is begun that has less than this to run: it would boot, and end.
pub const ATTEMPT_MIN: jiff::SignedDuration = jiff::SignedDuration::from_mins(15);

/// Age from which on a run reports a launch without an answer as a gap: throttling passes in minutes. Its owner is notified later.
const REPORT_UNANSWERED_LAUNCH_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// One job, as `jobs/<team>/<job>/state.json` says: the reconciler's own document, written by compare-and-swap. It holds no
/// list that grows without a bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    pub job: JobId,
    /// The owner, who is notified: the value of the account's owner tag.
    pub owner: Option<String>,
    /// The terms of the spec, without those that only the machine needs.
    pub terms: JobTerms,
    /// The box that it is; `None`: a job with a command.
    #[serde(rename = "box", default, skip_serializing_if = "Option::is_none")]
    pub gpu_box: Option<BoxState>,
    /// Time at which the job was accepted.
    pub submitted_at: Timestamp,
    /// The latest attempt; 0 before the first. Each requested launch is one, with or without a machine: a delayed request may still be carried out
    /// after another candidate was requested, and then the fence has to tell the two apart.
    pub attempt: u32,
    /// Number of machines that the job has had.
    #[serde(default)]
    pub machines: u32,
    /// The latest of them, whether or not it still runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_machine: Option<JobMachine>,
    /// Number of machines in a row that EC2 could not start, without a heartbeat. They count as failed launches, not as attempts without
    /// progress.
    #[serde(default)]
    pub launches_without_heartbeat: u32,
    /// Phase of the job's life.
    pub phase: Phase,
    /// The jobs and sweeps that it comes after, `<name>-<8 hex>` of its team, which have not succeeded yet, as far as anybody has read. Before they have, it
    /// is neither ranked nor launched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// The job's place in a sweep; `None` if it is a member of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepMember>,
    /// Passes through the ranking since it had a machine; part of the token.
    #[serde(default)]
    pub passes: u32,
    /// The machine of an earlier attempt, until EC2 shows it gone. It may write until its two minutes are over; nothing
    /// of that counts. Its `ends_at` is when it should be gone.
    pub previous_attempt: Option<JobMachine>,
    /// The failed attempts that were retried, or are about to be.
    #[serde(default, skip_serializing_if = "JobRetries::is_none")]
    pub retries: JobRetries,
    /// The loss of the latest machine; `None` before any was lost.
    #[serde(default)]
    pub lost: Option<LossReason>,
    /// Time and money that earlier attempts used up.
    pub used: JobUsage,
    /// Progress, as far as anybody has read.
    pub progress: JobProgress,
    /// The job's reservation on the budgets.
    pub reserved: Option<JobReservation>,
    /// The pools from which it can be launched, best first, by its last ranking.
    pub ranking: Option<Ranking>,
    /// The groups of EC2 that were made for its machines, or are about to be; empty for a single machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<JobGroup>,
    /// Time since which no launch succeeded; `None` after a success, and after [`Job::launches_without_heartbeat`] once the machine sends a
    /// heartbeat.
    pub unplaced_since: Option<Timestamp>,
    /// `true` if it was ever held because Curfew only observed: then its permissions may come a moment later than its mode.
    #[serde(default)]
    pub was_observed: bool,
    /// The hold because of which its machine is neither terminated nor replaced, although it is lost or the job has ended.
    #[serde(default)]
    pub machine_hold: Option<MachineHold>,
    /// The knowledge by which its deadline decides; `None` where the deadline decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<JobDeadline>,
    /// Term of the latest takeover after which all its machines were known; 0 before any.
    #[serde(default, skip_serializing_if = "is_no_term")]
    pub settled_term: u64,
    /// The last notification: a fingerprint of [`Job::notification`].
    pub notified: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_no_term(term: &u64) -> bool {
    *term == 0
}

/// The failed attempts of a job that did not end it. A failure is counted once: what head and exit records say of attempts up to the latest
/// counted one is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct JobRetries {
    /// Number of these attempts.
    pub used: u32,
    /// The latest of them.
    pub attempt: u32,
}

impl JobRetries {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    const fn is_none(&self) -> bool {
        self.used == 0
    }
}

/// Time and money that the finished attempts used up, at the prices that they could not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct JobUsage {
    /// Seconds from launch to end.
    pub seconds: i64,
    /// Highest cost of these attempts.
    pub usd: Amount,
}

/// The progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct JobProgress {
    /// The highest step of a complete checkpoint that anybody has read of.
    pub step: Option<u64>,
    /// The latest attempt that head named a checkpoint of; 0 if there is none.
    #[serde(default)]
    pub attempt: u32,
    /// Number of machines that were lost since head last named a checkpoint, except for the one that wrote it, and those that EC2 ended
    /// before a heartbeat.
    pub attempts_without: u32,
}

/// The reservation for a job: it covers any attempt that costs no more, by the hour and beside that, and ends no later. A job without a
/// machine, and without a launch under way, gives it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobReservation {
    /// Number of reservations that the job has asked for, with this one. A budget never replaces one by an earlier one, nor does the
    /// release of an earlier one end it: both may come late.
    #[serde(default)]
    pub number: u32,
    /// Price that it covers.
    pub rate: Rate,
    /// And so much for the checkpoints of one machine, however long it runs.
    #[serde(default)]
    pub transfer_usd: Amount,
    /// Reserved amount.
    pub usd: Amount,
    pub until: Timestamp,
    /// `true` if the budgets have it; `false` if it is only wanted.
    pub granted: bool,
    /// `true` if it was given back.
    #[serde(default)]
    pub released: bool,
}

impl Job {
    /// A job that was just accepted.
    #[must_use]
    pub fn submitted(job: JobId, owner: Option<String>, terms: JobTerms, now: Timestamp) -> Self {
        let deadline = terms.deadline_decides().then(JobDeadline::default);
        let gpu_box = terms.gpu_box.as_ref().map(|gpu_box| BoxState::new(gpu_box, now));
        Self {
            job,
            owner,
            terms,
            gpu_box,
            submitted_at: now,
            attempt: 0,
            machines: 0,
            last_machine: None,
            launches_without_heartbeat: 0,
            phase: Phase::Submitted,
            waits_for: Vec::new(),
            sweep: None,
            passes: 0,
            previous_attempt: None,
            retries: JobRetries::default(),
            lost: None,
            used: JobUsage::default(),
            progress: JobProgress::default(),
            reserved: None,
            ranking: None,
            groups: Vec::new(),
            unplaced_since: None,
            was_observed: false,
            machine_hold: None,
            deadline,
            settled_term: 0,
            notified: None,
        }
    }

    /// Makes the job come after other jobs of its team, by their names.
    #[must_use]
    pub fn after(self, jobs: Vec<String>) -> Self {
        Self { waits_for: jobs, ..self }
    }

    /// Returns the number of earlier members of its sweep that may be unfinished when it begins; `None` if it waits for none.
    #[must_use]
    pub fn awaits_turn(&self) -> Option<u32> {
        self.sweep.as_ref()?.max_parallel
    }

    /// The machine of its present attempt, if there is one.
    #[must_use]
    pub fn machine(&self) -> Option<&JobMachine> {
        match &self.phase {
            Phase::Running(placed) => Some(placed),
            Phase::Interrupted(replacing) => Some(&replacing.machine),
            Phase::Retrying(waiting) => waiting.machine.as_ref(),
            Phase::Ended(ended) => ended.machine.as_ref(),
            Phase::Launching(launching) => launching.replaces.as_deref(),
            Phase::Submitted | Phase::Reserving | Phase::Waiting(_) | Phase::Held(_) => None,
        }
    }

    /// The attempt of that machine: an earlier one than the latest where EC2 has refused to replace it. Without a machine the latest.
    #[must_use]
    pub fn machine_attempt(&self) -> u32 {
        self.machine().map_or(self.attempt, |machine| machine.attempt)
    }

    /// Returns `true` if that instance is this job's: only then its tag `curfew:job` counts. `None`: unknown, because a launch of that
    /// attempt is pending.
    #[must_use]
    pub fn knows(&self, region: &Region, instance: &ResourceId, attempt: Option<u32>) -> Option<bool> {
        let mut known = self.machine().into_iter().chain(&self.previous_attempt);
        if known.any(|placed| placed.has(instance) && placed.region == *region) {
            return Some(true);
        }
        let launching =
            matches!(self.phase, Phase::Launching(_)) && attempt.is_none_or(|attempt| attempt == self.attempt);
        (!launching).then_some(false)
    }

    /// The token of the launch that it waits for; `None` if it waits for none.
    #[must_use]
    pub fn awaited(&self) -> Option<String> {
        let Phase::Launching(launching) = &self.phase else { return None };
        Some(launch_token(&self.job, self.attempt, launching.pass, launching.candidate))
    }

    /// Returns the time since which its launch has had no answer, where a run should report that.
    #[must_use]
    pub fn unanswered_since(&self, now: Timestamp) -> Option<Timestamp> {
        let Phase::Launching(launching) = &self.phase else { return None };
        Some(launching.at).filter(|at| now.duration_since(*at) >= REPORT_UNANSWERED_LAUNCH_AFTER)
    }

    /// Returns `true` if a machine that was launched by this token is not this job's, and never will be: no token is asked for again once
    /// its answer was written down.
    #[must_use]
    pub fn rejects_machine(&self, launched: &JobMachine, token: &str) -> bool {
        let knows = self.knows(&launched.region, &launched.instance, Some(launched.attempt));
        knows == Some(false) || (knows.is_none() && self.awaited().as_deref() != Some(token))
    }

    /// Returns `true` if a warning of that instance may be about its machine: its own, or one without a heartbeat yet; and none that was
    /// bought on demand, which AWS does not take back.
    #[must_use]
    pub fn is_warned_by(&self, warned: &ResourceId) -> bool {
        self.machine().is_none_or(|placed| placed.has(warned) && placed.lifecycle == Lifecycle::Spot)
    }

    /// Returns `true` if nothing is left to do for the job.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(&self.phase, Phase::Ended(JobEnd { closed: true, .. }))
    }
}
