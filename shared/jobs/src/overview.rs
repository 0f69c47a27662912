//! A job for people: its state, and what it used.

use billing::energy::{AcceleratorLoad, Footprint};
use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use model::money::Amount;
use serde::Serialize;

use super::next::{after, most, slack_seconds};
use super::node_gang::NodeHeartbeats;
use super::{
    EXPIRES_AFTER, GpuWork, Heartbeat, Job, JobId, JobMachine, JobReservation, JobResult, LaunchInProgress, Lifecycle,
    Phase, SweepMember, job_footprint,
};

/// The state of a job, and what it used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobOverview {
    pub job: JobId,
    /// The job's place in a sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepMember>,
    pub owner: Option<String>,
    /// `submitted`, `reserving`, `launching`, `running`, `interrupted`, `waiting` or `held`; or once it is over `succeeded`, `failed`, `expired` or
    /// `cancelled`.
    pub state: &'static str,
    pub over: bool,
    /// The reason for the state, in words.
    pub why: String,
    /// Time at which the job was accepted.
    pub submitted_at: Timestamp,
    /// Number of attempts that had a machine.
    pub attempts: u32,
    /// Its machine, where it has one that may still run.
    pub machine: Option<JobMachine>,
    /// The latest machine that it had, also after its end.
    pub last_machine: Option<JobMachine>,
    /// The step of the newest complete checkpoint.
    pub step: Option<u64>,
    /// Time at which the agent first saw that step complete; `None` if that is unknown, or was in an earlier attempt.
    pub step_at: Option<Timestamp>,
    /// The step at which it is done, if its document says it.
    pub total_steps: Option<u64>,
    /// Time that it could stand still and finish on time, where its deadline decides what it runs on. Below 0 it will be late.
    pub slack_seconds: Option<i64>,
    /// Running time of its machines.
    pub seconds: i64,
    /// Highest cost of that time.
    pub cost_usd_max: Amount,
    /// The energy and carbon of that time.
    pub footprint: Footprint,
    /// End of the job; while it runs the absolute end of its attempt; else, where it waits or is held, the time of the next try.
    pub until: Option<Timestamp>,
}

impl JobOverview {
    /// Describes the job as it is now.
    #[must_use]
    pub fn from_job(job: &Job, now: Timestamp) -> Self {
        let ended = match &job.phase {
            Phase::Ended(ended) => Some(ended),
            _ => None,
        };
        let (seconds, cost_usd_max) = job.used_by(now);
        let slack_seconds = slack_seconds(job, now).filter(|_| ended.is_none());
        Self {
            job: job.job.clone(),
            sweep: job.sweep.clone(),
            owner: job.owner.clone(),
            state: state(job),
            over: ended.is_some(),
            why: why(job, slack_seconds),
            submitted_at: job.submitted_at,
            attempts: job.attempts_launched(),
            machine: job.machine().cloned(),
            last_machine: job.machine().or(job.last_machine.as_ref()).cloned(),
            step: job.progress.step,
            step_at: None,
            total_steps: job.terms.checkpoint.as_ref().and_then(|checkpoint| checkpoint.total_steps),
            slack_seconds,
            seconds,
            cost_usd_max,
            footprint: job_footprint(job, AcceleratorLoad::Unknown, now),
            until: match &job.phase {
                Phase::Submitted | Phase::Reserving => None,
                Phase::Launching(launching) => Some(launching.ends_at),
                Phase::Running(placed) => Some(placed.ends_at),
                Phase::Interrupted(replacing) => Some(replacing.machine.ends_at),
                Phase::Waiting(waiting) => Some(waiting.until),
                Phase::Retrying(waiting) => Some(waiting.until),
                Phase::Held(held) => Some(held.until),
                Phase::Ended(ended) => Some(ended.at),
            },
        }
    }

    /// The sweep that it is a member of.
    #[must_use]
    pub fn sweep_id(&self) -> Option<JobId> {
        self.sweep.as_ref()?;
        self.job.as_member().map(|(sweep, _)| sweep)
    }

    /// Adds the time of the step, as the heartbeat that S3 took `at` then says it.
    #[must_use]
    pub fn with_step_time(self, heartbeat: &Heartbeat, at: Timestamp) -> Self {
        Self { step_at: self.step_time(heartbeat, at), ..self }
    }

    /// Adds the time of the step of a gang: that of the node which saw it last.
    #[must_use]
    pub fn with_node_step_times(self, beats: &NodeHeartbeats) -> Self {
        let times = beats.values().filter_map(|(at, heartbeat)| self.step_time(heartbeat, *at));
        Self { step_at: times.max(), ..self }
    }

    fn step_time(&self, heartbeat: &Heartbeat, at: Timestamp) -> Option<Timestamp> {
        let is_present = self.machine.as_ref().is_some_and(|machine| machine.attempt == heartbeat.attempt);
        let is_same = is_present && self.step.is_some() && self.step == heartbeat.step;
        heartbeat.work.step_at(at).filter(|_| is_same && !self.over)
    }

    /// Adds the energy of the work that the GPUs of its present machine did.
    #[must_use]
    pub fn with_gpu_work(self, job: &Job, work: &GpuWork, now: Timestamp) -> Self {
        // The work of one node says nothing of the others.
        let is_its = |machine: &JobMachine| machine.members.is_empty() && machine.instance == work.instance;
        if !self.machine.as_ref().is_some_and(is_its) {
            return self;
        }
        Self { footprint: job_footprint(job, work.load(), now), ..self }
    }
}

impl Job {
    /// Returns the reservation that the budgets may hold for it: the one that it has asked for, and not given back.
    #[must_use]
    pub fn unreleased(&self) -> Option<JobReservation> {
        let is_released = matches!(&self.phase, Phase::Ended(ended) if ended.released);
        self.reserved.filter(|reserved| !reserved.released && !is_released)
    }

    /// Returns `true` if it waits for other jobs before its first launch.
    #[must_use]
    pub fn waits_for_others(&self) -> bool {
        !self.waits_for.is_empty() || self.awaits_turn().is_some()
    }

    /// Describes the jobs that it waits for before its first launch.
    pub(super) fn describe_wait(&self) -> String {
        let names = self.waits_for.join(", ");
        match (self.waits_for.len(), self.awaits_turn()) {
            (0, most) => {
                let most = most.unwrap_or_default();
                format!("it begins once fewer than {most} earlier members of its sweep are unfinished")
            }
            (1, _) => format!("it begins once {names} has succeeded"),
            _ => format!("it begins once {names} have succeeded"),
        }
    }

    /// Returns the seconds that its machines ran by then, and the most that they cost.
    #[must_use]
    pub fn used_by(&self, now: Timestamp) -> (i64, Amount) {
        // A machine that is left over after the end is ended, and costs something until then at most.
        let last = match &self.phase {
            Phase::Ended(ended) => now.min(after(ended.at, EXPIRES_AFTER)),
            _ => now,
        };
        let (seconds, usd) = self.machine().map(|machine| most(machine, last)).unwrap_or_default();
        (self.used.seconds.saturating_add(seconds), self.used.usd + usd)
    }
}

/// Returns the granted reservation that a job still holds; `None` once it was given back.
#[must_use]
pub fn still_reserved(job: &Job) -> Option<JobReservation> {
    job.unreleased().filter(|reserved| reserved.granted)
}

fn state(job: &Job) -> &'static str {
    match &job.phase {
        Phase::Submitted if job.waits_for_others() => "waiting",
        Phase::Submitted => "submitted",
        Phase::Reserving => "reserving",
        Phase::Launching(_) => "launching",
        Phase::Running(_) => "running",
        Phase::Interrupted(_) => "interrupted",
        Phase::Waiting(_) | Phase::Retrying(_) => "waiting",
        Phase::Held(_) => "held",
        Phase::Ended(ended) => match ended.result {
            JobResult::Succeeded => "succeeded",
            JobResult::Failed => "failed",
            JobResult::Expired => "expired",
            JobResult::Cancelled => "cancelled",
        },
    }
}

/// Explains the state, with the last decision of the job's deadline.
fn why(job: &Job, slack_seconds: Option<i64>) -> String {
    let decision = job.deadline.as_ref().and_then(|deadline| deadline.decision);
    let slack = slack_seconds.map(|seconds| match u64::try_from(seconds) {
        Ok(_) => format!("it has {} to spare until its deadline", words(seconds)),
        Err(_) => format!("it will miss its deadline by {}", words(seconds.saturating_neg())),
    });
    let decided = decision.filter(|_| matches!(job.phase, Phase::Launching(_) | Phase::Running(_)));
    let decided = decided.filter(|_| slack.is_some()).map(|decided| decided.reason.to_string());
    let parts = [Some(why_in_phase(job)).filter(|why| !why.is_empty()), decided, slack];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn words(seconds: i64) -> String {
    format_duration(SignedDuration::from_secs(seconds))
}

fn why_in_phase(job: &Job) -> String {
    if let Some((hold, machine)) = job.machine_hold.as_ref().zip(job.machine()).filter(|_| !is_over(&job.phase)) {
        return format!("{} {}: it is neither terminated nor replaced", machine.name_instances(), hold.describe());
    }
    match &job.phase {
        Phase::Submitted if job.waits_for_others() => job.describe_wait(),
        Phase::Submitted => match job.lost {
            Some(lost) => format!("its last machine {}; Curfew ranks places for another one next", lost.describe()),
            None => "Curfew ranks places for its launch next".to_owned(),
        },
        Phase::Reserving => "its worst case is about to be reserved on the budgets".to_owned(),
        Phase::Launching(launching) => launch(job, launching),
        Phase::Running(placed) => {
            let lost = job.lost.filter(|_| placed.attempt > 1);
            let lost = lost.map(|lost| format!("the previous machine {}", lost.describe()));
            let parts = [lost, describe_efa(job, placed)];
            parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
        Phase::Interrupted(replacing) => {
            let (machine, lost) = (&replacing.machine, replacing.lost.describe());
            match machine.members.len() {
                0 => format!("{} {lost}; it is replaced once it is gone", machine.instance),
                _ => format!("one of {} {lost}; all are replaced once they are gone", machine.name_instances()),
            }
        }
        Phase::Waiting(waiting) => waiting.message.clone(),
        Phase::Retrying(waiting) => waiting.why.clone(),
        Phase::Held(held) => held.why.clone(),
        Phase::Ended(ended) => ended.why.clone(),
    }
}

/// Describes the EFA of a gang, as far as its ranking still knows it.
fn describe_efa(job: &Job, placed: &JobMachine) -> Option<String> {
    let candidate = job.ranking.as_ref()?.candidates.get(usize::from(placed.candidate))?;
    let is_its = (&candidate.zone, &candidate.instance_type) == (&placed.zone, &placed.instance_type);
    candidate.network.as_ref().filter(|_| is_its)?.efa.clone()
}

const fn is_over(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended(_))
}

fn launch(job: &Job, launching: &LaunchInProgress) -> String {
    let candidates = job.ranking.as_ref().map(|ranking| &ranking.candidates);
    let candidate = candidates.and_then(|candidates| candidates.get(usize::from(launching.candidate)));
    let nodes = job.terms.gpu.nodes;
    candidate.map_or_else(
        || if nodes > 1 { format!("{nodes} machines are requested") } else { "a machine is requested".to_owned() },
        |candidate| {
            let bought = match candidate.lifecycle {
                Lifecycle::Spot => "on Spot",
                Lifecycle::OnDemand => "on demand",
            };
            match nodes {
                ..2 => format!("a {} {bought} is requested in {}", candidate.instance_type, candidate.zone),
                _ => format!("{nodes} × {} {bought} are requested in {}", candidate.instance_type, candidate.zone),
            }
        },
    )
}

#[cfg(test)]
mod tests;
