//! Jobs and what is known of them, by the words in which tests think. A job is submitted at noon on Tuesday, 2026-09-01 and may run for
//! eight hours; its first machine, `i-1`, is launched then; it is one o'clock.

use jiff::{SignedDuration, Timestamp};
use model::fixture::{NOW, time};
use model::id::ResourceId;
use model::instance::InstanceState;
use model::money::{Amount, Rate};

use crate::*;

pub(crate) const MINUTE: i64 = 60;
pub(crate) const HOUR: i64 = 3_600;

/// So many seconds after noon.
pub(crate) fn noon_plus(seconds: i64) -> Timestamp {
    time(NOW) + SignedDuration::from_secs(seconds)
}

pub(crate) fn terms() -> JobTerms {
    JobTerms {
        tags: std::collections::BTreeMap::new(),
        gpu: GpuSpec { count: 1, nodes: 1, name: None, memory_gib_min: 16, types: Vec::new() },
        network: None,
        spot: Some(SpotSpec { max_rate: None, fallback_to_on_demand_after_seconds: Some(2 * HOUR) }),
        max_runtime_seconds: 8 * HOUR,
        finish_by: None,
        estimated_runtime_seconds: None,
        max_usd: None,
        max_rate: None,
        gpu_box: None,
        retries: 0,
        bucket_region: None,
        checkpoint: Some(CheckpointSpec {
            dir: "/var/curfew/checkpoints".to_owned(),
            every_seconds: 900,
            keep: 3,
            size_gb: None,
            total_steps: None,
            include: Vec::new(),
            exclude: Vec::new(),
            resume_from: None,
            signal: "SIGTERM".to_owned(),
        }),
        machine: MachineSpec::default(),
    }
}

fn candidate(zone: &str, name: &str, lifecycle: Lifecycle, rate: u64, rate_max: u64, quota: &str) -> Candidate {
    Candidate {
        region: "us-east-1".into(),
        zone: zone.to_owned(),
        subnet: "subnet-0abc".into(),
        instance_type: name.into(),
        lifecycle,
        rate: Rate::from_usd_micros_per_hour(rate),
        rate_max: Rate::from_usd_micros_per_hour(rate_max),
        quota: Some(QuotaCode(quota.to_owned())),
        image: 0,
        transfer: None,
        vcpus: 0,
        network: None,
    }
}

/// Two pools of Spot, at most a dollar and two, and one on demand for four.
pub(crate) fn ranking(made_at: Timestamp) -> Ranking {
    Ranking {
        at: made_at,
        candidates: vec![
            candidate("us-east-1a", "g6.xlarge", Lifecycle::Spot, 400_000, 1_000_000, "L-SPOT"),
            candidate("us-east-1b", "g5.xlarge", Lifecycle::Spot, 500_000, 2_000_000, "L-SPOT"),
            candidate("us-east-1a", "g6e.xlarge", Lifecycle::OnDemand, 4_000_000, 4_000_000, "L-DEMAND"),
        ],
        images: vec![MachineImage {
            ami: "ami-0abc".into(),
            architecture: "x86_64".to_owned(),
            agent_sha256: "00".repeat(32),
            root_device: "/dev/sda1".to_owned(),
            root_gib: 65,
            is_for_all: true,
            other_devices: Vec::new(),
        }],
        has_other_teams: false,
        left_out: None,
    }
}

pub(crate) fn placed(instance: &str, attempt: u32) -> JobMachine {
    let ranking = ranking(noon_plus(0));
    let candidate = &ranking.candidates[0];
    JobMachine {
        instance: instance.into(),
        members: Vec::new(),
        launch: String::new(),
        region: candidate.region.clone(),
        zone: candidate.zone.clone(),
        instance_type: candidate.instance_type.clone(),
        lifecycle: candidate.lifecycle,
        rate_max: candidate.rate_max,
        rate: candidate.rate,
        transfer: None,
        attempt,
        candidate: 0,
        launched_at: noon_plus(0),
        ends_at: noon_plus(8 * HOUR),
    }
}

/// A job, what is known of it, and when.
#[derive(Clone)]
pub(crate) struct JobInput {
    pub(crate) job: Job,
    pub(crate) facts: JobFacts,
    pub(crate) now: Timestamp,
}

pub(crate) fn submitted() -> JobInput {
    let id = JobId::read("vision/llama-1a2b3c4d").unwrap();
    let job = Job::submitted(id, Some("ada".to_owned()), terms(), noon_plus(0));
    let facts = JobFacts {
        may_act: true,
        no_progress_attempts_max: 3,
        head: Some(None),
        cancel: Some(None),
        ..JobFacts::default()
    };
    JobInput { job, facts, now: noon_plus(0) }
}

/// Ranked at noon, with money for all of it.
fn ranked() -> JobInput {
    submitted().job(|job| {
        job.ranking = Some(ranking(noon_plus(0)));
        job.reserved = Some(JobReservation {
            number: 1,
            rate: Rate::from_usd_micros_per_hour(4_000_000),
            transfer_usd: Amount::ZERO,
            usd: Amount::from_usd(32.0),
            until: noon_plus(9 * HOUR),
            granted: true,
            released: false,
        });
    })
}

pub(crate) fn reserving() -> JobInput {
    ranked().job(|job| {
        job.reserved = job.reserved.map(|reserved| JobReservation { granted: false, ..reserved });
        job.phase = Phase::Reserving;
    })
}

/// The first candidate of the first pass of the first attempt is requested; nothing else was read.
pub(crate) fn launching() -> JobInput {
    let given = ranked().job(|job| {
        (job.attempt, job.passes) = (1, 1);
        job.phase = Phase::Launching(LaunchInProgress {
            candidate: 0,
            pass: 1,
            at: noon_plus(0),
            ends_at: noon_plus(8 * HOUR),
            quotas: Vec::new(),
            avoid: None,
            unanswered: false,
            refused: RefusedCandidates::default(),
            replaces: None,
        });
    });
    given.facts(|facts| (facts.head, facts.cancel) = (None, None))
}

/// `i-1` runs since noon, all is well, and everything is known.
pub(crate) fn running() -> JobInput {
    let given = ranked().job(|job| {
        (job.attempt, job.machines) = (1, 1);
        job.phase = Phase::Running(placed("i-1", 1));
    });
    given.at_time(HOUR).with_machine(InstanceState::Running, None).heartbeat_at(HOUR - MINUTE).exit(None)
}

pub(crate) fn interrupted() -> JobInput {
    running().job(|job| {
        job.phase = Phase::Interrupted(MachineReplacement {
            machine: placed("i-1", 1),
            lost: LossReason::HeartbeatStopped,
            since: noon_plus(HOUR),
        });
    })
}

/// Since noon there is no capacity; the second pass was the last.
pub(crate) fn waiting() -> JobInput {
    let given = ranked().job(|job| {
        (job.attempt, job.passes, job.unplaced_since) = (1, 2, Some(noon_plus(0)));
        job.phase = Phase::Waiting(CapacityWait {
            until: noon_plus(10 * MINUTE),
            passes: 2,
            message: "no capacity".to_owned(),
        });
    });
    given.at_time(5 * MINUTE).released()
}

pub(crate) fn held(by: HoldReason) -> JobInput {
    submitted().job(|job| {
        job.phase = Phase::Held(LaunchHold { by, why: "so".to_owned(), until: noon_plus(5 * MINUTE), passes: 0 });
    })
}

/// Since one o'clock, while `i-1` was still there.
pub(crate) fn ended(result: JobResult) -> JobInput {
    running().job(|job| {
        let machine = Some(placed("i-1", 1));
        let ended =
            JobEnd { result, why: "so".to_owned(), at: noon_plus(HOUR), machine, released: false, closed: false };
        job.phase = Phase::Ended(ended);
    })
}

impl JobInput {
    pub(crate) fn job(mut self, change: impl FnOnce(&mut Job)) -> Self {
        change(&mut self.job);
        self
    }

    pub(crate) fn facts(mut self, change: impl FnOnce(&mut JobFacts)) -> Self {
        change(&mut self.facts);
        self
    }

    /// So many seconds after noon.
    pub(crate) fn at_time(self, seconds: i64) -> Self {
        Self { now: noon_plus(seconds), ..self }
    }

    pub(crate) fn observing(self) -> Self {
        self.facts(|facts| facts.may_act = false)
    }

    pub(crate) fn warned(self, instance: &str) -> Self {
        self.facts(|facts| facts.warned = Some(instance.into())).knowing_nothing()
    }

    /// Not read, or the read failed.
    pub(crate) fn knowing_nothing(self) -> Self {
        self.facts(|facts| {
            *facts = JobFacts {
                may_act: facts.may_act,
                no_progress_attempts_max: facts.no_progress_attempts_max,
                warned: facts.warned.clone(),
                answer: facts.answer.clone(),
                ..JobFacts::default()
            };
        })
    }

    pub(crate) fn sight(self, sight: MachineSight) -> Self {
        self.facts(|facts| facts.machine = sight)
    }

    pub(crate) fn with_machine(self, state: InstanceState, reason: Option<&str>) -> Self {
        self.sight(MachineSight::Seen { state, reason: reason.map(str::to_owned) })
    }

    /// `i-0` of an earlier attempt, which should be gone at one o'clock, is seen so.
    pub(crate) fn after(self, sight: MachineSight) -> Self {
        let lost = JobMachine { ends_at: noon_plus(HOUR), ..placed("i-0", 0) };
        self.job(|job| job.previous_attempt = Some(lost)).facts(|facts| facts.previous_attempt = sight)
    }

    /// The last heartbeat, in seconds after noon.
    pub(crate) fn heartbeat_at(self, seconds: i64) -> Self {
        self.facts(|facts| facts.heartbeat = Some(Some(noon_plus(seconds))))
    }

    pub(crate) fn without_heartbeat(self) -> Self {
        self.facts(|facts| facts.heartbeat = Some(None))
    }

    pub(crate) fn head_unknown(self) -> Self {
        self.facts(|facts| facts.head = None)
    }

    pub(crate) fn checkpoint(self, attempt: u32, step: u64) -> Self {
        let head = Head { attempt, checkpoint: Some(Checkpoint { attempt, step, rewrite: 0 }), ..Head::default() };
        self.facts(|facts| facts.head = Some(Some(head)))
    }

    /// What was reserved is given back.
    pub(crate) fn released(self) -> Self {
        self.job(|job| {
            job.reserved = job.reserved.map(|reserved| JobReservation { granted: false, released: true, ..reserved });
        })
    }

    pub(crate) fn result(self, attempt: u32, succeeded: bool) -> Self {
        let result = HeadResult { succeeded, code: Some(3), why: String::new(), at: noon_plus(HOUR), is_final: false };
        let head = Head { attempt, result: Some(result), ..Head::default() };
        self.facts(|facts| facts.head = Some(Some(head)))
    }

    pub(crate) fn exit(self, reason: Option<ExitReason>) -> Self {
        let exit = |reason| ExitRecord {
            attempt: 1,
            at: noon_plus(HOUR),
            reason,
            code: None,
            why: "said so".to_owned(),
            is_final: false,
        };
        self.facts(|facts| facts.exit = Some(reason.map(exit)))
    }

    pub(crate) fn cancelled(self) -> Self {
        self.facts(|facts| facts.cancel = Some(Some(CancelRequest { at: noon_plus(HOUR), by: Some("ada".to_owned()) })))
    }

    pub(crate) fn answered(self, answer: EffectResult) -> Self {
        self.facts(|facts| facts.answer = Some(answer))
    }

    pub(crate) fn launched(self, instance: &str, seconds: i64) -> Self {
        let launched =
            LaunchResult::Launched { instance: instance.into(), members: Vec::new(), launched_at: noon_plus(seconds) };
        self.answered(EffectResult::Launched(launched))
    }

    pub(crate) fn no_capacity(self) -> Self {
        self.answered(EffectResult::Launched(LaunchResult::NoCapacity("no capacity".to_owned())))
    }

    pub(crate) fn over_quota(self, quota: Option<&str>) -> Self {
        let quota = quota.map(|quota| QuotaCode(quota.to_owned()));
        self.answered(EffectResult::Launched(LaunchResult::Quota("quota".to_owned(), quota)))
    }

    pub(crate) fn next(&self) -> JobInput {
        self.turn().0
    }

    /// What is given to the round after this one: the state that was written, and nothing known.
    pub(crate) fn turn(&self) -> (JobInput, Vec<Effect>) {
        let (job, effects) = next(&self.job, &self.facts, self.now);
        let given = JobInput { job, facts: JobFacts { answer: None, ..self.facts.clone() }, now: self.now };
        (given, effects)
    }
}

/// Where the job stands then, and what is done, in order.
#[track_caller]
pub(crate) fn check(given: JobInput, expect: &str) {
    let (job, effects) = next(&given.job, &given.facts, given.now);
    assert_eq!(line(&job, &effects), expect);
    let again = next(&given.job, &given.facts, given.now);
    assert_eq!(again, (job.clone(), effects), "the same gives the same");
    let read: Job = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
    assert_eq!(read, job, "what is written down is read back");
}

/// Nothing changes, and nothing is done.
#[track_caller]
pub(crate) fn check_nothing(given: JobInput) {
    let (job, effects) = next(&given.job, &given.facts, given.now);
    assert_eq!((job, effects), (given.job, Vec::new()));
}

pub(crate) fn line(job: &Job, effects: &[Effect]) -> String {
    let effects: Vec<String> = effects.iter().map(effect).collect();
    if effects.is_empty() { phase(job) } else { format!("{}: {}", phase(job), effects.join(", ")) }
}

fn phase(job: &Job) -> String {
    let with =
        |machine: &Option<JobMachine>| machine.as_ref().map_or(String::new(), |one| format!(" with {}", one.instance));
    match &job.phase {
        Phase::Submitted => "submitted".to_owned(),
        Phase::Reserving => "reserving".to_owned(),
        Phase::Launching(launching) => {
            format!("launching {}.{}.{}", job.attempt, launching.pass, launching.candidate)
        }
        Phase::Running(placed) => format!("running {}", placed.instance),
        Phase::Interrupted(replacing) => format!("interrupted {} {:?}", replacing.machine.instance, replacing.lost),
        Phase::Waiting(waiting) => format!("waiting after {}", waiting.passes),
        Phase::Retrying(waiting) => format!("retrying{}", with(&waiting.machine)),
        Phase::Held(held) => format!("held by {}", held.by.as_str()),
        Phase::Ended(ended) => {
            let closed = if ended.closed { ", closed" } else { "" };
            format!("{:?}{}{closed}", ended.result, with(&ended.machine)).to_lowercase()
        }
    }
}

fn join<'a>(instances: impl IntoIterator<Item = &'a ResourceId>) -> String {
    instances.into_iter().map(ResourceId::as_str).collect::<Vec<_>>().join("+")
}

fn group_name(group: &JobGroup) -> String {
    match group {
        JobGroup::Security { id, .. } => id.to_string(),
        JobGroup::Placement { attempt, .. } => format!("placement {attempt}"),
    }
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Rank => "rank".to_owned(),
        Effect::Reserve { usd, until, .. } => format!("reserve {usd} until {}", until.strftime("%H:%M")),
        Effect::Launch(launch) => {
            format!("launch {} until {}", launch.candidate.instance_type, launch.ends_at.strftime("%H:%M:%S"))
        }
        Effect::Terminate(placed) => format!("terminate {}", join(placed.instances())),
        Effect::Settle(instances) => format!("settle {}", join(instances)),
        Effect::MakeGroup(group) => format!("make {}", group_name(group)),
        Effect::DeleteGroup(group) => format!("delete {}", group_name(group)),
        Effect::Release(_) => "release".to_owned(),
        Effect::Forget => "forget".to_owned(),
        Effect::Record(note) => match &note.kind {
            TransitionKind::Launched(instance) => format!("note launched {instance}"),
            TransitionKind::Lost(instance, lost) => format!("note lost {instance} {lost:?}"),
            TransitionKind::Ended(instance) => format!("note ended {instance}"),
            TransitionKind::Held => "note held".to_owned(),
            TransitionKind::Waits => "note waits".to_owned(),
            TransitionKind::Finished => "note over".to_owned(),
        },
    }
}

pub(crate) const RECLAIMED: Option<&str> = Some("Server.SpotInstanceTermination");
pub(crate) const ITSELF: Option<&str> = Some("Client.InstanceInitiatedShutdown");
pub(crate) const A_PERSON: Option<&str> = Some("Client.UserInitiatedShutdown");

pub(crate) const GOING: [InstanceState; 4] =
    [InstanceState::ShuttingDown, InstanceState::Terminated, InstanceState::Stopping, InstanceState::Stopped];

/// The ranking of noon is still young.
pub(crate) fn soon() -> JobInput {
    running().at_time(14 * MINUTE).heartbeat_at(13 * MINUTE)
}

pub(crate) fn says(answer: fn(String) -> LaunchResult) -> EffectResult {
    EffectResult::Launched(answer("so EC2 says".to_owned()))
}
