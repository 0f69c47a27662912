//! Unfinished jobs as rows.

use std::cmp::{Ordering, Reverse};

use ::jobs::node_gang::{NodeHeartbeats, merge_node_heartbeats};
use ::jobs::{Heartbeat, JobId, JobMachine, JobOverview};
use jiff::Timestamp;
use model::id::{Region, ResourceId, TypeName};
use model::money::{Amount, Rate};
use serde::Serialize;

use super::{GpuUse, WatchedJob};

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobRow {
    pub job: JobId,
    pub owner: Option<String>,
    pub state: &'static str,
    pub why: String,
    pub attempts: u32,
    pub instance: Option<ResourceId>,
    /// The nodes 1 and up of a gang.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<ResourceId>,
    pub instance_type: Option<TypeName>,
    pub region: Option<Region>,
    /// Cost of the job's machines now; zero without one.
    pub usd_per_hour: Rate,
    /// The most that the job has cost so far.
    pub cost_usd_max: Amount,
    /// The most that the job may cost, if its owner set a limit.
    pub max_usd: Option<Amount>,
    /// The newest step that its machine or a checkpoint names.
    pub step: Option<u64>,
    pub total_steps: Option<u64>,
    pub gpu: GpuUse,
    /// The use of each machine of a gang.
    #[serde(skip)]
    node_gpus: Vec<GpuUse>,
    /// The activity that the job's machine reports.
    pub doing: Option<String>,
    /// Time of the last heartbeat of the job's machine.
    pub heartbeat_at: Option<Timestamp>,
    /// Time when the attempt ends; if the job waits or is held, time of the next try.
    pub until: Option<Timestamp>,
    /// Time by which the job should be finished, if its owner set one.
    pub finish_by: Option<Timestamp>,
    /// Below 0 it will be late.
    pub slack_seconds: Option<i64>,
}

impl JobRow {
    pub(super) fn from_job(watched: &WatchedJob, now: Timestamp) -> Self {
        let WatchedJob { job, heartbeat, nodes } = watched;
        let overview = JobOverview::from_job(job, now);
        let merged = merge_node_heartbeats(nodes);
        // Without a machine, the last heartbeat is of one that is gone.
        let beat = heartbeat.as_ref().or(merged.as_ref()).filter(|_| overview.machine.is_some());
        let machine = overview.machine;
        Self {
            job: overview.job,
            owner: overview.owner,
            state: overview.state,
            why: overview.why,
            attempts: overview.attempts,
            usd_per_hour: machine.as_ref().map(|machine| machine.rate).unwrap_or_default(),
            cost_usd_max: overview.cost_usd_max,
            max_usd: job.terms.max_usd,
            step: beat.and_then(|(_, heartbeat)| heartbeat.step).max(overview.step),
            total_steps: job.terms.checkpoint.as_ref().and_then(|checkpoint| checkpoint.total_steps),
            gpu: gpu_of(machine.is_some(), beat),
            node_gpus: machine.as_ref().map(|machine| gpus_of_nodes(machine, nodes)).unwrap_or_default(),
            members: machine.as_ref().map(|machine| machine.members.clone()).unwrap_or_default(),
            doing: beat.map(|(_, heartbeat)| heartbeat.doing.clone()).filter(|doing| !doing.is_empty()),
            heartbeat_at: beat.map(|(at, _)| *at),
            until: overview.until,
            finish_by: job.terms.finish_by,
            slack_seconds: overview.slack_seconds,
            region: machine.as_ref().map(|machine| machine.region.clone()),
            instance_type: machine.as_ref().map(|machine| machine.instance_type.clone()),
            instance: machine.map(|machine| machine.instance),
        }
    }

    /// Returns the GPU use of an instance; `None` if it is no machine of the job.
    pub(super) fn gpu_of_instance(&self, region: &Region, instance: &ResourceId) -> Option<GpuUse> {
        self.region.as_ref().filter(|own| *own == region)?;
        let node = self.instance.iter().chain(&self.members).position(|own| own == instance)?;
        Some(if self.members.is_empty() { self.gpu } else { *self.node_gpus.get(node)? })
    }

    /// `4 × g6.12xlarge`, `g6.xlarge`, or `-`.
    #[must_use]
    pub fn describe_type(&self) -> String {
        match (&self.instance_type, self.members.len()) {
            (None, _) => "-".to_owned(),
            (Some(instance_type), 0) => instance_type.to_string(),
            (Some(instance_type), more) => format!("{} × {instance_type}", more.saturating_add(1)),
        }
    }

    /// The dearest first, by the hour, then by what it has cost.
    pub(super) fn by_money(&self, other: &Self) -> Ordering {
        let place = |row: &Self| (Reverse(row.usd_per_hour), Reverse(row.cost_usd_max));
        place(self).cmp(&place(other)).then_with(|| self.job.cmp(&other.job))
    }

    /// `1200 of 5000 (24 %)`, `1200`, or `-`.
    #[must_use]
    pub fn describe_progress(&self) -> String {
        match (self.step, self.total_steps.filter(|total| *total > 0)) {
            (None, None) => "-".to_owned(),
            (Some(step), None) => step.to_string(),
            (step, Some(total)) => {
                let step = step.unwrap_or_default();
                let percent = u128::from(step) * 100 / u128::from(total);
                format!("{step} of {total} ({} %)", percent.min(100))
            }
        }
    }
}

fn gpus_of_nodes(machine: &JobMachine, beats: &NodeHeartbeats) -> Vec<GpuUse> {
    (0..).zip(machine.instances()).map(|(node, _)| gpu_of(true, beats.get(&node))).collect()
}

fn gpu_of(has_machine: bool, beat: Option<&(Timestamp, Heartbeat)>) -> GpuUse {
    let measured = beat.and_then(|(at, heartbeat)| Some(GpuUse::measured(heartbeat.gpu_percent?, *at)));
    measured.unwrap_or(if has_machine { GpuUse::UNKNOWN } else { GpuUse::OFF })
}
