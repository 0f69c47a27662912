//! The one job that is explored, and where it can be launched.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use jobs::{
    Candidate, CheckpointSpec, GpuSpec, Job, JobId, JobName, JobTerms, Lifecycle, MachineImage, MachineSpec, QuotaCode,
    Ranking, SpotSpec, SweepMember,
};
use model::id::{Region, ResourceId, TeamName, TypeName};
use model::money::Rate;

/// So much compute time it may take, of all attempts together.
pub(crate) const RUNTIME_MAX: SignedDuration = SignedDuration::from_hours(2);

/// By then it must be over, so that waiting for capacity has an end too.
pub(crate) const FINISH_WITHIN: SignedDuration = SignedDuration::from_hours(6);

/// After so many attempts without progress it ends.
pub(crate) const NO_PROGRESS_ATTEMPTS_MAX: u32 = 3;

/// When it is submitted: 2026-10-05 08:00 UTC.
pub(crate) fn begin() -> Timestamp {
    Timestamp::constant(1_791_187_200, 0)
}

/// How long it takes where a deadline decides what it runs on, and when it is submitted so long before that.
const ESTIMATED: SignedDuration = SignedDuration::from_mins(30);
const DEADLINE_WITHIN: SignedDuration = SignedDuration::from_mins(110);

/// From then on the time left covers no loss: the work, 10 minutes to start, 5 until a decision, 5 to end in order.
pub(crate) fn leaves_spot_at() -> Timestamp {
    begin() + DEADLINE_WITHIN - ESTIMATED - SignedDuration::from_mins(20)
}

pub(crate) fn with_retries(retries: u32) -> Job {
    let job = submitted();
    let terms = JobTerms { retries, ..job.terms };
    Job::submitted(job.job, None, terms, begin())
}

/// The job that another one comes after.
pub(crate) const DEPENDENCY: &str = "prepare-0123abcd";

/// The second of two members that run one after the other.
pub(crate) fn after_others(job: Job) -> Job {
    let sweep = SweepMember { number: 2, parameters: Vec::new(), max_parallel: Some(1) };
    Job { sweep: Some(sweep), ..job.after(vec![DEPENDENCY.to_owned()]) }
}

pub(crate) fn with_deadline() -> Job {
    let job = submitted();
    let terms = JobTerms {
        estimated_runtime_seconds: Some(ESTIMATED.as_secs()),
        finish_by: Some(begin() + DEADLINE_WITHIN),
        ..job.terms
    };
    Job::submitted(job.job, None, terms, begin())
}

pub(crate) fn submitted() -> Job {
    let name = JobName::read("llama").unwrap();
    let terms = JobTerms {
        tags: BTreeMap::new(),
        gpu: GpuSpec { count: 1, nodes: 1, name: None, memory_gib_min: 0, types: Vec::new() },
        network: None,
        spot: Some(SpotSpec { max_rate: None, fallback_to_on_demand_after_seconds: None }),
        max_runtime_seconds: RUNTIME_MAX.as_secs(),
        finish_by: Some(begin() + FINISH_WITHIN),
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
    };
    Job::submitted(JobId::from_object(TeamName::from("vision"), &name, "0123456789abcdef"), None, terms, begin())
}

/// Two pools under one quota, Spot and on demand: the second can be stopped, and is never taken back.
pub(crate) fn ranking(now: Timestamp) -> Ranking {
    let candidate = |zone: &str, lifecycle, usd_micros| Candidate {
        region: Region::from("eu-central-1"),
        zone: zone.to_owned(),
        subnet: ResourceId::from("subnet-1"),
        instance_type: TypeName::from("g5.xlarge"),
        lifecycle,
        rate: Rate::from_usd_micros_per_hour(usd_micros),
        rate_max: Rate::from_usd_micros_per_hour(1_000_000),
        quota: Some(QuotaCode("L-3819A6DF".to_owned())),
        image: 0,
        transfer: None,
        vcpus: 0,
        network: None,
    };
    Ranking {
        at: now,
        candidates: vec![candidate("a", Lifecycle::Spot, 400_000), candidate("b", Lifecycle::OnDemand, 1_000_000)],
        images: vec![MachineImage {
            ami: ResourceId::from("ami-1"),
            architecture: "x86_64".to_owned(),
            agent_sha256: "00".to_owned(),
            root_device: "/dev/xvda".to_owned(),
            root_gib: 100,
            is_for_all: true,
            other_devices: Vec::new(),
        }],
        has_other_teams: false,
        left_out: None,
    }
}
