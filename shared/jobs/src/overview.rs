//! A job for people: its state, and what it used.

use billing::energy::{AcceleratorLoad, Footprint};
use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use model::money::Amount;
use serde::Serialize;

use super::next::{after, most, slack_seconds};
use super::{
    EXPIRES_AFTER, GpuWork, Heartbeat, Job, JobId, JobMachine, JobReservation, JobResult, LaunchInProgress, Lifecycle,
    Phase, Ranking, SweepMember, job_footprint,
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
        let is_present = self.machine.as_ref().is_some_and(|machine| machine.attempt == heartbeat.attempt);
        let is_same = is_present && self.step.is_some() && self.step == heartbeat.step;
        let step_at = heartbeat.work.step_at(at).filter(|_| is_same && !self.over);
        Self { step_at, ..self }
    }

    /// Adds the energy of the work that the GPUs of its present machine did.
    #[must_use]
    pub fn with_gpu_work(self, job: &Job, work: &GpuWork, now: Timestamp) -> Self {
        if self.machine.as_ref().is_none_or(|machine| machine.instance != work.instance) {
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
        return format!("{} {}: it is neither terminated nor replaced", machine.instance, hold.describe());
    }
    match &job.phase {
        Phase::Submitted if job.waits_for_others() => job.describe_wait(),
        Phase::Submitted => match job.lost {
            Some(lost) => format!("its last machine {}; Curfew ranks places for another one next", lost.describe()),
            None => "Curfew ranks places for its launch next".to_owned(),
        },
        Phase::Reserving => "its worst case is about to be reserved on the budgets".to_owned(),
        Phase::Launching(launching) => launch(job.ranking.as_ref(), launching),
        Phase::Running(placed) if placed.attempt > 1 => match job.lost {
            Some(lost) => format!("the previous machine {}", lost.describe()),
            None => String::new(),
        },
        Phase::Running(_) => String::new(),
        Phase::Interrupted(replacing) => {
            format!("{} {}; it is replaced once it is gone", replacing.machine.instance, replacing.lost.describe())
        }
        Phase::Waiting(waiting) => waiting.message.clone(),
        Phase::Retrying(waiting) => waiting.why.clone(),
        Phase::Held(held) => held.why.clone(),
        Phase::Ended(ended) => ended.why.clone(),
    }
}

const fn is_over(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended(_))
}

fn launch(ranking: Option<&Ranking>, launching: &LaunchInProgress) -> String {
    let candidate = ranking.and_then(|ranking| ranking.candidates.get(usize::from(launching.candidate)));
    candidate.map_or_else(
        || "a machine is requested".to_owned(),
        |candidate| {
            let bought = match candidate.lifecycle {
                Lifecycle::Spot => "on Spot",
                Lifecycle::OnDemand => "on demand",
            };
            format!("a {} {bought} is requested in {}", candidate.instance_type, candidate.zone)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CapacityWait, HoldReason, JobEnd, LaunchHold, LossReason, RetryWait, WorkSigns};
    use model::fixture::time;
    use model::money::Rate;

    const NOW: &str = "2026-11-22T05:00:00Z";

    fn placed(attempt: u32) -> JobMachine {
        JobMachine {
            instance: "i-0123456789abcdef0".into(),
            region: "us-east-1".into(),
            zone: "us-east-1a".to_owned(),
            instance_type: "g6.xlarge".into(),
            lifecycle: Lifecycle::Spot,
            rate_max: Rate::from_usd_micros_per_hour(800_000),
            rate: Rate::from_usd_micros_per_hour(300_000),
            attempt,
            candidate: 0,
            transfer: None,
            launched_at: time("2026-11-22T03:00:00Z"),
            ends_at: time("2026-11-22T11:00:00Z"),
        }
    }

    fn job(phase: Phase) -> Job {
        let id = JobId { team: "vision".into(), job: "llama-1a2b3c4d".to_owned() };
        let job = Job::submitted(
            id,
            Some("ada".to_owned()),
            crate::next::tests::fixture::terms(),
            time("2026-11-22T02:59:00Z"),
        );
        Job { attempt: 2, phase, lost: Some(LossReason::HeartbeatStopped), ..job }
    }

    fn check(phase: Phase, state: &str, why: &str, until: Option<&str>) {
        let overview = JobOverview::from_job(&job(phase), time(NOW));
        assert_eq!((overview.state, overview.why.as_str()), (state, why));
        assert_eq!(overview.until, until.map(time));
        assert_eq!(overview.over, matches!(state, "succeeded" | "failed" | "expired" | "cancelled"));
    }

    #[test]
    fn each_state_says_why_and_until_when() {
        check(
            Phase::Submitted,
            "submitted",
            "its last machine stopped sending heartbeats for 10 minutes; Curfew ranks places for another one next",
            None,
        );
        check(
            Phase::Running(placed(2)),
            "running",
            "the previous machine stopped sending heartbeats for 10 minutes",
            Some("2026-11-22T11:00:00Z"),
        );
        let until = time("2026-11-22T05:04:00Z");
        let waiting = CapacityWait { until, passes: 2, message: "no capacity".to_owned() };
        check(Phase::Waiting(waiting), "waiting", "no capacity", Some("2026-11-22T05:04:00Z"));
        let held = LaunchHold { by: HoldReason::Budget, why: "the budget is spent".to_owned(), until, passes: 0 };
        check(Phase::Held(held), "held", "the budget is spent", Some("2026-11-22T05:04:00Z"));
        let why = "attempt 1: the command has failed; retry 1 of 2 at 05:04 UTC".to_owned();
        let retrying = RetryWait { machine: None, why: why.clone(), since: time("2026-11-22T05:00:00Z"), until };
        check(Phase::Retrying(retrying), "waiting", &why, Some("2026-11-22T05:04:00Z"));
        let ended = JobEnd {
            result: JobResult::Expired,
            why: "its time is over".to_owned(),
            at: time("2026-11-22T04:00:00Z"),
            machine: None,
            released: true,
            closed: true,
        };
        check(Phase::Ended(ended), "expired", "its time is over", Some("2026-11-22T04:00:00Z"));
    }

    #[test]
    fn a_released_reservation_is_gone() {
        let check = |phase: Phase, granted: bool, expect: bool| {
            let rate = Rate::from_usd_micros_per_hour(1_000_000);
            let (usd, until) = (Amount::from_usd(8.0), time(NOW));
            let transfer_usd = Amount::ZERO;
            let reserved = JobReservation { number: 1, rate, transfer_usd, usd, until, granted, released: false };
            let still = still_reserved(&Job { reserved: Some(reserved), ..job(phase.clone()) });
            assert_eq!(still, expect.then_some(reserved), "{phase:?} {granted}");
        };
        let ended = |released: bool| {
            let (result, why, at) = (JobResult::Succeeded, String::new(), time(NOW));
            Phase::Ended(JobEnd { result, why, at, machine: None, released, closed: released })
        };
        check(Phase::Running(placed(1)), true, true);
        check(Phase::Reserving, false, false);
        check(ended(false), true, true);
        check(ended(true), true, false);
    }

    #[test]
    fn a_launch_says_what_is_asked_for() {
        let launching = LaunchInProgress {
            candidate: 0,
            pass: 1,
            at: time(NOW),
            ends_at: time("2026-11-22T13:00:00Z"),
            quotas: Vec::new(),
            avoid: None,
            unanswered: false,
            refused: crate::RefusedCandidates::default(),
            replaces: None,
        };
        let ranking = crate::next::tests::fixture::ranking(time(NOW));
        let ranked = Job { ranking: Some(ranking), ..job(Phase::Launching(launching.clone())) };
        assert_eq!(JobOverview::from_job(&ranked, time(NOW)).why, "a g6.xlarge on Spot is requested in us-east-1a");
        assert_eq!(why(&job(Phase::Launching(launching)), None), "a machine is requested");
    }

    #[test]
    fn the_used_time_includes_the_running_machine() {
        let overview = JobOverview::from_job(&job(Phase::Running(placed(2))), time(NOW));
        assert_eq!((overview.seconds, overview.cost_usd_max), (7_200, Amount::from_usd(1.6)));
    }

    #[test]
    fn a_step_has_the_time_that_its_own_heartbeat_says() {
        let mut job = job(Phase::Running(placed(2)));
        job.progress.step = Some(7);
        let overview = JobOverview::from_job(&job, time(NOW));
        let beat = |attempt, step| Heartbeat {
            attempt,
            work: WorkSigns { step_seconds: Some(600), ..WorkSigns::default() },
            ..crate::completion::tests::heartbeat(Some(step), None)
        };
        let check = |beat: Heartbeat, expect: Option<&str>| {
            assert_eq!(overview.clone().with_step_time(&beat, time(NOW)).step_at, expect.map(time));
        };
        check(beat(2, 7), Some("2026-11-22T04:50:00Z"));
        check(beat(1, 7), None);
        check(beat(2, 8), None);
        check(Heartbeat { work: WorkSigns::default(), ..beat(2, 7) }, None);
    }

    #[test]
    fn a_measured_power_narrows_the_energy_of_its_machine() {
        let job = job(Phase::Running(placed(2)));
        let overview = JobOverview::from_job(&job, time(NOW));
        let width = |overview: &JobOverview| {
            let energy = overview.footprint.energy.known().unwrap();
            energy.high() - energy.low()
        };
        let work = |id: &str| GpuWork { instance: id.into(), milliwatts: Some(50_000), utilization_percent: Some(90) };
        let measured = overview.clone().with_gpu_work(&job, &work("i-0123456789abcdef0"), time(NOW));
        assert!(width(&measured) < width(&overview), "{measured:?}");
        assert_eq!(overview.clone().with_gpu_work(&job, &work("i-2"), time(NOW)), overview, "another machine's");
    }
}
