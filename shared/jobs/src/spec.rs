//! What a team asks for: `inbox/<team>/<name>.toml`, which becomes the immutable `jobs/<team>/<job>/spec.toml`.

pub(crate) mod checks;
mod judge;
mod model_sizing;
mod read;
mod references;
mod written;

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::{Region, ResourceId, TeamName, TypeName};
use model::money::{Amount, Rate};
use serde::{Deserialize, Serialize};

use super::gpu_type::check_gpu_type;
use super::{ContainerImage, InputSpec, JobId, JobName, ParameterSweep, WorkdirDigest};
pub use checks::TYPE_GPUS_MAX;
pub use model_sizing::ModelSizing;

/// A whole spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    pub name: JobName,
    pub owner: Option<String>,
    /// What the machine does; only its agent reads it.
    pub work: Workload,
    /// What it may take, and where it runs.
    pub terms: JobTerms,
    /// How the memory of `[gpu] model` was estimated.
    pub sizing: Option<ModelSizing>,
    /// `[sweep]`: the document asks for one job for each member, and `terms` are those of one. `None` where it is a single job.
    pub sweep: Option<ParameterSweep>,
}

/// What the machine does. None of it ever comes into user data: the agent reads it from `spec.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The command, for `sh -c`.
    pub command: String,
    /// What is run before it, in every attempt.
    pub setup: Option<String>,
    /// The image of the container that runs both; else they run on the machine itself.
    pub container: Option<ContainerImage>,
    /// The archive that is unpacked in the user's home before `setup`, in every attempt.
    pub workdir: Option<WorkdirDigest>,
    /// `[[inputs]]`: the data that is on the machine before `setup`.
    pub inputs: Vec<InputSpec>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Variables by the ARN of the secret, or of the parameter, whose value they get.
    pub secrets: BTreeMap<String, String>,
    /// The user that runs it; else the agent chooses.
    pub user: Option<String>,
    /// What is uploaded when it has ended: paths on the machine.
    pub outputs: Vec<String>,
    /// It may read the instance metadata, and act as the role of the machine.
    pub metadata: bool,
    /// The jobs that it comes after, `<name>-<8 hex>` of its team. The command finds their outputs.
    pub after: Vec<String>,
}

/// What a job may take, and where it runs: all that launching needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobTerms {
    /// Tags for the instance and its volumes, beside Curfew's own.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// `[gpu]`.
    pub gpu: GpuSpec,
    /// `[spot]`; `None`: on demand only.
    pub spot: Option<SpotSpec>,
    /// `[limits] max_runtime`, in seconds, of all attempts together.
    pub max_runtime_seconds: i64,
    /// `[limits] finish_by`, or `within` from the submission on.
    pub finish_by: Option<Timestamp>,
    /// `[limits] estimated_runtime`, in seconds. With it the deadline decides between Spot and on-demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_runtime_seconds: Option<i64>,
    /// `[limits] max_usd`.
    pub max_usd: Option<Amount>,
    /// How often the job is launched again after its command has failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// `[checkpoint]`; `None`: it begins at zero with each attempt.
    pub checkpoint: Option<CheckpointSpec>,
    /// `[machine]`.
    pub machine: MachineSpec,
    /// The region of the state bucket, which holds the checkpoints; `None`: unknown.
    #[serde(default)]
    pub bucket_region: Option<Region>,
}

/// Whether it is written as it was before there were retries.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(super) const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl JobTerms {
    /// The job with whose newest checkpoint a job of that team begins.
    #[must_use]
    pub fn resume_from(&self, team: &TeamName) -> Option<JobId> {
        let job = self.checkpoint.as_ref()?.resume_from.clone()?;
        Some(JobId { team: team.clone(), job })
    }

    /// Whether the deadline decides between Spot and on-demand.
    #[must_use]
    pub const fn deadline_decides(&self) -> bool {
        self.estimated_runtime_seconds.is_some() && self.finish_by.is_some()
    }
}

/// `[gpu]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GpuSpec {
    /// At least so many.
    pub count: u32,
    /// Each with at least so much memory, as it is sold: 24 is one of 24 GB, however many MiB EC2 says that it has.
    pub memory_gib_min: u32,
    /// Only these types; empty: every type that fits.
    pub types: Vec<TypeName>,
}

impl GpuSpec {
    /// The named types of families that the table does not have: EC2 may have them, or they are written wrong.
    #[must_use]
    pub fn types_of_unknown_families(&self) -> Vec<&TypeName> {
        self.types.iter().filter(|name| check_gpu_type(name.as_str()).is_ok_and(|is_known| !is_known)).collect()
    }
}

/// `[spot]`, where it is enabled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpotSpec {
    /// The most that it may cost by the hour; else what it costs on demand.
    pub max_rate: Option<Rate>,
    /// On demand, after there was no Spot for so many seconds.
    pub fallback_to_on_demand_after_seconds: Option<i64>,
}

/// `[checkpoint]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CheckpointSpec {
    /// Where the command writes its checkpoints.
    pub dir: String,
    /// How often it is expected to, in seconds.
    pub every_seconds: i64,
    /// How many are kept in the bucket.
    pub keep: u32,
    /// How large one is at most, in GB, as the job states it.
    #[serde(default)]
    pub size_gb: Option<u32>,
    /// The step at which the job is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u64>,
    /// Patterns of paths in it that go with each checkpoint, though they have no number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Patterns of paths in it that are part of none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The signal to write a checkpoint and end: `SIGTERM`.
    pub signal: String,
    /// The job of the same team, `<name>-<8 hex>`, with whose newest checkpoint it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<String>,
}

/// `[machine]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct MachineSpec {
    /// Where it may run; empty: in the home region.
    pub regions: Vec<Region>,
    /// The image; else the Deep Learning AMI.
    pub ami: Option<ResourceId>,
    /// `x86_64` or `arm64`; else that of the named types, or `x86_64` where none are named.
    pub architecture: Option<String>,
    /// The subnets; empty: the default ones.
    pub subnets: Vec<ResourceId>,
    /// The security groups; empty: that of the VPC.
    pub security_groups: Vec<ResourceId>,
    /// The instance profile, by name; else Curfew's own.
    pub instance_profile: Option<String>,
    /// The size of the root volume; else that of the image.
    pub root_volume_gib: Option<u32>,
    /// The instance metadata answer a container, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metadata: bool,
}

#[cfg(test)]
mod tests;
