//! Jobs and their machines: launches that are answered late or never, states that know their machine, jobs that end, and copied tags.

use std::collections::BTreeMap;
use std::rc::Rc;

use jobs::{
    GpuSpec, Job, JobEnd, JobId, JobMachine, JobResult, JobTerms, LaunchInProgress, Lifecycle, MachineSpec, Phase,
    RefusedCandidates,
};
use model::instance::InstanceState as Ec2State;
use model::money::Rate;

use crate::chance::{DAY, HOUR, RandomStream, TICK, stamp};
use crate::fault::Fault;
use crate::faults::FaultInjector;
use crate::owners::Behaviour;
use crate::world::SimulatedMachine;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobStateSays {
    /// Its launch is pending.
    Launching,
    /// It knows its machine.
    Knows,
    /// The answer to its launch was lost: it expects another machine.
    Forgot,
    /// It is over, and all its resources are gone.
    Closed,
    /// Its state was deleted.
    Deleted,
}

struct SimulatedJob {
    /// The machine that was launched for it.
    machine: String,
    region: model::id::Region,
    says: JobStateSays,
    /// When that next changes.
    until: i64,
}

/// All jobs of an account, by their number.
pub(crate) struct SimulatedJobs {
    chance: RandomStream,
    all: Vec<SimulatedJob>,
}

/// What a run read of each: its state and its machine; `None` if the read failed.
#[derive(Clone, Default)]
pub(crate) struct JobReading(Rc<Vec<Option<(JobStateSays, String)>>>);

/// The job of a machine, by what a run read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MachineOwner {
    /// It names no job.
    NoJob,
    /// It belongs to the job that it names.
    OwnJob,
    /// Unknown.
    Unknown,
    /// It names a job without a state.
    MissingJob,
    /// It does not belong to the job that it names.
    NotOwned,
}

impl MachineOwner {
    pub(crate) fn knows_only_its_expiry(self) -> bool {
        matches!(self, Self::OwnJob | Self::Unknown)
    }

    pub(crate) fn is_disowned(self) -> bool {
        matches!(self, Self::MissingJob | Self::NotOwned)
    }
}

pub(crate) fn name(number: u32) -> String {
    format!("vision/sim-{number:08x}")
}

impl SimulatedJobs {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self { chance: RandomStream::from_seed(seed, 5), all: Vec::new() }
    }

    /// Whether the next machine is launched for a job.
    pub(crate) fn wants_one(&mut self) -> bool {
        self.chance.one_in(6)
    }

    /// The number of the next job.
    pub(crate) fn next(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn launched(&mut self, machine: &SimulatedMachine, now: i64) {
        let until = now + self.chance.ticks(0, HOUR);
        let region = machine.ec2.region.clone();
        self.all.push(SimulatedJob { machine: machine.id().to_owned(), region, says: JobStateSays::Launching, until });
    }

    /// A tick: launches are answered, or are not, and jobs end.
    pub(crate) fn pass(&mut self, now: i64, machines: &mut [SimulatedMachine], mut did: impl FnMut(Behaviour)) {
        for (number, one) in self.all.iter_mut().enumerate() {
            let own = machines.iter().find(|machine| machine.id() == one.machine);
            let is_gone = own.is_none_or(|machine| machine.is(Ec2State::Terminated));
            let next = match one.says {
                JobStateSays::Closed | JobStateSays::Deleted => continue,
                JobStateSays::Knows | JobStateSays::Forgot if is_gone => JobStateSays::Closed,
                _ if now < one.until => continue,
                JobStateSays::Launching if self.chance.one_in(4) => JobStateSays::Forgot,
                JobStateSays::Launching => JobStateSays::Knows,
                JobStateSays::Knows | JobStateSays::Forgot if self.chance.one_in(3) => JobStateSays::Deleted,
                JobStateSays::Knows | JobStateSays::Forgot => JobStateSays::Closed,
            };
            one.says = next;
            one.until = now + self.chance.ticks(DAY, 6 * DAY);
            match next {
                JobStateSays::Forgot => did(Behaviour::LoseJob),
                JobStateSays::Closed | JobStateSays::Deleted => did(Behaviour::EndJob),
                JobStateSays::Knows | JobStateSays::Launching => {}
            }
            let naming = |machine: &&mut SimulatedMachine| machine.says.job.is_some_and(|job| job as usize == number);
            machines.iter_mut().filter(naming).for_each(|machine| machine.changed_at = now);
        }
    }

    /// The truth.
    pub(crate) fn truth(&self) -> JobReading {
        JobReading(Rc::new(self.all.iter().map(|one| Some((one.says, one.machine.clone()))).collect()))
    }

    /// The states that a run reads, each by itself, so that each read can fail.
    pub(crate) fn read(&self, now: i64, faults: &mut FaultInjector) -> JobReading {
        let read =
            |one: &SimulatedJob| (!faults.occurs(Fault::JobUnread, now)).then(|| (one.says, one.machine.clone()));
        JobReading(Rc::new(self.all.iter().map(read).collect()))
    }

    /// The document of a job; the inner `None` if there is none, the outer if the run could not read it.
    #[expect(clippy::option_option, reason = "whether it was read, and whether there is one")]
    pub(crate) fn document(&self, read: &JobReading, id: &JobId, now: i64) -> Option<Option<Job>> {
        let number = u32::from_str_radix(id.job.strip_prefix("sim-").unwrap_or_default(), 16);
        let Some((one, read)) = number.ok().and_then(|number| {
            let place = usize::try_from(number).ok()?;
            Some((self.all.get(place)?, read.0.get(place)?))
        }) else {
            return Some(None);
        };
        let (says, _) = read.as_ref()?;
        Some((*says != JobStateSays::Deleted).then(|| state(id.clone(), one, *says, now)))
    }
}

impl JobReading {
    pub(crate) fn whose(&self, machine: &SimulatedMachine) -> MachineOwner {
        let Some(number) = machine.says.job else { return MachineOwner::NoJob };
        match self.0.get(number as usize) {
            Some(None | Some((JobStateSays::Launching, _))) => MachineOwner::Unknown,
            Some(Some((JobStateSays::Knows, own))) if own == machine.id() => MachineOwner::OwnJob,
            Some(Some((JobStateSays::Deleted, _))) => MachineOwner::MissingJob,
            Some(Some(_)) | None => MachineOwner::NotOwned,
        }
    }
}

fn state(id: JobId, one: &SimulatedJob, says: JobStateSays, now: i64) -> Job {
    let terms = JobTerms {
        tags: BTreeMap::new(),
        gpu: GpuSpec { count: 1, nodes: 1, name: None, memory_gib_min: 0, types: Vec::new() },
        network: None,
        spot: None,
        max_runtime_seconds: DAY,
        finish_by: None,
        estimated_runtime_seconds: None,
        max_usd: None,
        max_rate: None,
        gpu_box: None,
        retries: 0,
        bucket_region: None,
        checkpoint: None,
        machine: MachineSpec::default(),
    };
    let at = stamp(now);
    let placed = JobMachine {
        instance: one.machine.as_str().into(),
        members: Vec::new(),
        launch: String::new(),
        region: one.region.clone(),
        zone: String::new(),
        instance_type: "g5.xlarge".into(),
        lifecycle: Lifecycle::OnDemand,
        rate_max: Rate::from_usd_micros_per_hour(1),
        rate: Rate::from_usd_micros_per_hour(1),
        transfer: None,
        attempt: 1,
        candidate: 0,
        launched_at: at,
        ends_at: at,
    };
    let phase = match says {
        JobStateSays::Launching => Phase::Launching(LaunchInProgress {
            candidate: 0,
            pass: 1,
            at,
            ends_at: at,
            quotas: Vec::new(),
            avoid: None,
            unanswered: false,
            refused: RefusedCandidates::default(),
            replaces: None,
        }),
        JobStateSays::Knows => Phase::Running(placed),
        JobStateSays::Forgot | JobStateSays::Deleted => Phase::Submitted,
        JobStateSays::Closed => Phase::Ended(JobEnd {
            result: JobResult::Succeeded,
            why: String::new(),
            at,
            machine: Some(placed),
            released: true,
            closed: true,
        }),
    };
    Job { attempt: 1, phase, ..Job::submitted(id, None, terms, at) }
}

/// Every tag of a job's machine, which may be copied: it is opted in, and has a deadline.
pub(crate) fn says_of(number: u32, now: i64, chance: &mut RandomStream) -> crate::tags::OwnerTags {
    crate::tags::OwnerTags {
        team: Some(0),
        owner: true,
        job: Some(number),
        mode: Some(model::mode::Mode::Enforce),
        expires_at: Some(now + chance.ticks(10 * TICK, 8 * DAY)),
        ..crate::tags::OwnerTags::default()
    }
}
