//! AWS calls of a run about jobs.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jobs::boxes::{GpuBox, HomeEffect, HomeSight};
use jobs::takeover::FoundMachine;
use jobs::{
    GroupKey, JobId, JobMachine, LaunchObstacle, LaunchOrder, LaunchResult, ListedGroup, ListedQuota, MachineImage,
    MachineKind, MachineObservation, TypeOfferings, VpcGroups, ZoneSubnets,
};
use model::channels::MessageTopics;
use model::id::{Region, ResourceId, TypeName};
use model::image_source::ImageSource;
use model::instance::Tags;

use crate::{CallError, PriceCloud};

/// A launch that a quota of vCPUs refused. EC2 does not say which one: [`JobCloud::list_quotas`] has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuQuotaExceeded(pub CallError);

/// A group to make for the machines of a job.
#[derive(Debug, Clone, Copy)]
pub struct GroupOrder<'a> {
    pub region: &'a Region,
    pub name: &'a str,
    pub job: &'a JobId,
    pub tags: &'a Tags,
}

/// AWS calls of a run about jobs.
pub trait JobCloud: PriceCloud {
    /// Returns `true` if a topic has a confirmed subscription.
    ///
    /// # Errors
    /// If the subscriptions of a topic cannot be listed, and no other has one.
    async fn has_confirmed_subscription(&self, topics: &MessageTopics) -> Result<bool, CallError>;

    /// Observes these instances of one region. Each is in the answer once, in their order; one that EC2 does not know is
    /// [`MachineSight::Absent`](jobs::MachineSight::Absent).
    ///
    /// # Errors
    /// If EC2's answer is incomplete.
    async fn observe_machines(
        &self,
        region: &Region,
        instances: &[ResourceId],
        now: Timestamp,
    ) -> Result<Vec<MachineObservation>, CallError>;

    /// The instances of a region that boot or run and have the tag `curfew:job`, whoever launched them.
    ///
    /// # Errors
    /// If EC2's answer is incomplete.
    async fn find_job_machines(&self, region: &Region) -> Result<Vec<FoundMachine>, CallError>;

    /// The types of a kind that are sold by the second, with the zones that offer them. Only the named types, if there are any; otherwise
    /// all except bare metal, which boots for longer than a job waits for its first heartbeat.
    ///
    /// # Errors
    /// If EC2's answer is incomplete.
    async fn list_offerings(
        &self,
        region: &Region,
        kind: MachineKind,
        named: &BTreeSet<TypeName>,
    ) -> Result<TypeOfferings, CallError>;

    /// One subnet a zone, that with the most free addresses: of the named ones, or of the default ones.
    ///
    /// # Errors
    /// If EC2's answer is incomplete.
    async fn list_subnets(&self, region: &Region, named: &BTreeSet<ResourceId>) -> Result<ZoneSubnets, CallError>;

    /// The image of that architecture (`x86_64`, `arm64`) in that region, for the agent with that hash.
    ///
    /// # Errors
    /// There is none that can run a job: it must exist for that architecture, and have Linux without a price of its own, EBS, and
    /// cloud-init.
    async fn find_image(
        &self,
        region: &Region,
        architecture: &str,
        source: &ImageSource,
        agent_sha256: &str,
    ) -> Result<MachineImage, LaunchObstacle>;

    /// The quotas of EC2 in that region.
    ///
    /// # Errors
    /// If Service Quotas does not list them.
    async fn list_quotas(&self, region: &Region) -> Result<Vec<ListedQuota>, CallError>;

    /// Launches, and returns the result. The same order can be repeated to learn the result of the first: EC2 answers a known token with the
    /// instance that it launched for it, in whatever state. An old token is only looked up.
    ///
    /// # Errors
    /// If a quota of vCPUs is used up. Every other failure is a [`LaunchResult`].
    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<LaunchResult, VcpuQuotaExceeded>;

    /// Terminates this machine, if it has that job's tag, and no tag that keeps it ([`MachineHold`](jobs::MachineHold)): somebody may have
    /// written one since it was observed. A machine that is shutting down or gone is no error.
    ///
    /// # Errors
    /// If it was not terminated. That includes a machine that EC2 does not know: it may appear a moment later.
    async fn terminate(&self, job: &JobId, machine: &JobMachine, now: Timestamp) -> Result<(), CallError>;

    /// What EC2 says of the home of a box.
    ///
    /// # Errors
    /// If EC2's answer is incomplete.
    async fn observe_home(&self, gpu_box: &GpuBox, now: Timestamp) -> Result<HomeSight, CallError>;

    /// Carries out one step for the home of a box. Returns the volume that it made, if it makes one. To repeat it does no harm.
    ///
    /// # Errors
    /// If EC2 refused, or did not answer.
    async fn change_home(
        &self,
        gpu_box: &GpuBox,
        effect: &HomeEffect,
        tags: &Tags,
    ) -> Result<Option<ResourceId>, CallError>;

    /// Keeps the volume of a box from being reaped until then, by its tag `curfew:keep-until`. One that is kept for longer, or is gone, stays as it is.
    ///
    /// # Errors
    /// If EC2 refused, or did not answer.
    async fn keep_home(&self, gpu_box: &GpuBox, until: Timestamp) -> Result<(), CallError>;

    /// Makes a cluster placement group, unless there is one of that name with that job's tag.
    ///
    /// # Errors
    /// If EC2 refused, or did not answer; or the group of that name is another's.
    async fn ensure_placement_group(&self, group: &GroupOrder<'_>) -> Result<(), CallError>;

    /// Makes a security group that lets its members reach each other and nothing else, unless the VPC has one of that name with that job's tag.
    ///
    /// # Errors
    /// As [`JobCloud::ensure_placement_group`].
    async fn ensure_security_group(&self, group: &GroupOrder<'_>, vpc: &ResourceId) -> Result<VpcGroups, CallError>;

    /// Deletes a group, if it has that job's tag. One that is gone, or another's, is no error.
    ///
    /// # Errors
    /// If it is still there; with [`CallErrorKind::InUse`](crate::CallErrorKind::InUse) because a machine or an interface uses it.
    async fn delete_group(&self, region: &Region, key: &GroupKey, job: &JobId) -> Result<(), CallError>;

    /// The placement and security groups of a region that Curfew made, by name and tag.
    ///
    /// # Errors
    /// If EC2's answer is incomplete.
    async fn list_groups(&self, region: &Region) -> Result<Vec<ListedGroup>, CallError>;
}
