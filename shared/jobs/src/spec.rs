//! The document of a job, written by a team: `inbox/<team>/<name>.toml`, which becomes the immutable `jobs/<team>/<job>/spec.toml`.

pub(crate) mod checks;
mod foreign_keys;
mod hints;
mod judge;
mod model_sizing;
mod read;
mod references;
mod written;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::id::{Region, ResourceId, TeamName, TypeName};
use model::money::{Amount, Rate};
use serde::{Deserialize, Serialize};

use super::boxes::BoxTerms;
use super::efa::EfaChoice;
use super::gpu_type::check_gpu_type;
use super::{ContainerImage, InputSpec, JobId, JobName, ParameterSweep, Shell, WorkdirDigest};
pub use checks::TYPE_GPUS_MAX;
pub use model_sizing::ModelSizing;

/// A whole spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    pub name: JobName,
    pub owner: Option<String>,
    /// The work of the machine; only its agent reads it.
    pub work: Workload,
    /// Limits of the job, and the machines on which it runs.
    pub terms: JobTerms,
    /// Estimate of the memory of `[gpu] model`.
    pub sizing: Option<ModelSizing>,
    /// `[sweep]`: the document asks for one job for each member, and `terms` are those of one. `None` where it is a single job.
    pub sweep: Option<ParameterSweep>,
}

/// The work of the machine. None of it ever comes into user data: the agent reads it from `spec.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The command, a line of shell.
    pub command: String,
    /// Line of shell that runs before the command, in every attempt.
    pub setup: Option<String>,
    /// The shell of both; else `bash`, or `sh` if there is none.
    pub shell: Option<Shell>,
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
    /// Paths on the machine that are uploaded when the command has ended.
    pub outputs: Vec<String>,
    /// Its machine has GPUs.
    pub has_gpus: bool,
    /// `true` if the command may read the instance metadata, and act as the role of the machine.
    pub metadata: bool,
    /// The jobs that it comes after, `<name>-<8 hex>` of its team. The command finds their outputs.
    pub after: Vec<String>,
    /// `[limits] idle`: the job ends once every GPU has been idle for so long.
    pub idle_max: Option<SignedDuration>,
    /// `[box]`: instead of a command people work on the machine.
    pub is_box: bool,
}

/// The limits of a job, and the machines on which it runs: all that launching needs.
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
    /// `[limits] max_usd_per_hour`: of its machine, however it is bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<Rate>,
    /// Number of times that the job is launched again after its command has failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// `[checkpoint]`; `None`: it begins at zero with each attempt.
    pub checkpoint: Option<CheckpointSpec>,
    /// `[box]`; `None`: a job with a command.
    #[serde(rename = "box", default, skip_serializing_if = "Option::is_none")]
    pub gpu_box: Option<BoxTerms>,
    /// `[network]`; `None`: its machine needs no network of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    /// `[machine]`.
    pub machine: MachineSpec,
    /// The region of the state bucket, which holds the checkpoints; `None`: unknown.
    #[serde(default)]
    pub bucket_region: Option<Region>,
}

/// Returns `true` for a number that is not written, as before there were retries.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(super) const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Number of nodes of a spec that does not say.
pub(super) const fn one_node() -> u8 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(super) const fn is_one_node(nodes: &u8) -> bool {
    *nodes == 1
}

impl JobTerms {
    /// Returns `true` if several machines run its command together.
    #[must_use]
    pub const fn is_gang(&self) -> bool {
        self.gpu.nodes > 1
    }

    /// The job with whose newest checkpoint a job of that team begins.
    #[must_use]
    pub fn resume_from(&self, team: &TeamName) -> Option<JobId> {
        self.checkpoint.as_ref()?.begins_with(team)
    }

    /// True if it needs no GPU: its machine is described under `[machine]`.
    #[must_use]
    pub const fn is_cpu_job(&self) -> bool {
        self.gpu.count == 0
    }

    /// The named types, and the key that names them.
    #[must_use]
    pub fn types(&self) -> (&[TypeName], &'static str) {
        if self.is_cpu_job() { (&self.machine.types, "machine.types") } else { (&self.gpu.types, "gpu.types") }
    }

    /// Returns `true` if the deadline decides between Spot and on-demand.
    #[must_use]
    pub const fn deadline_decides(&self) -> bool {
        self.estimated_runtime_seconds.is_some() && self.finish_by.is_some()
    }
}

/// `[gpu]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GpuSpec {
    /// Least number of GPUs; 0: a CPU job.
    pub count: u32,
    /// Number of machines that run the command together, each with the GPUs that the other keys say.
    #[serde(default = "one_node", skip_serializing_if = "is_one_node")]
    pub nodes: u8,
    /// Only these, such as `A10G`, of any type that has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Each with at least this much memory, as it is sold: 24 is one of 24 GB, however many MiB EC2 says that it has.
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

/// `[network]`, of a job on several machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct NetworkSpec {
    #[serde(default)]
    pub efa: EfaChoice,
    /// `None`: a cluster placement group where its machines use EFA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

/// `network.placement`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// A cluster placement group.
    Cluster,
    None,
}

/// `[spot]`, where it is enabled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpotSpec {
    /// The most that it may cost by the hour; else what it costs on demand.
    pub max_rate: Option<Rate>,
    /// Seconds without Spot after which the job runs on demand.
    pub fallback_to_on_demand_after_seconds: Option<i64>,
}

/// `[checkpoint]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CheckpointSpec {
    /// The directory in which the command writes its checkpoints.
    pub dir: String,
    /// Expected time between two checkpoints, in seconds.
    pub every_seconds: i64,
    /// Number of checkpoints that are kept in the bucket.
    pub keep: u32,
    /// Largest size of a checkpoint, in GB, as the job states it.
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

impl CheckpointSpec {
    /// Returns the job with whose newest checkpoint a job of that team begins.
    #[must_use]
    pub fn begins_with(&self, team: &TeamName) -> Option<JobId> {
        Some(JobId { team: team.clone(), job: self.resume_from.clone()? })
    }
}

/// `[machine]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct MachineSpec {
    /// Regions in which it may run; empty: the home region.
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
    /// Least number of vCPUs of a CPU job.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vcpus: u32,
    /// Least memory of a CPU job, or for what `[gpu] model` offloads.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_gib: u32,
    /// The only types for a CPU job; empty: every type that fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeName>,
    /// The instance metadata answer a container, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metadata: bool,
}

#[cfg(test)]
mod tests;
