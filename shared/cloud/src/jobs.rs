//! Jobs, as EC2 and Systems Manager know them: where one can be launched, from which image, and its machine.
//!
//! Nothing here decides: `jobs` ranks pools, interprets refusals and terminates machines.

pub(crate) mod groups;
mod home;
mod image;
pub(crate) mod launch;
mod machine;
pub(crate) mod pools;
pub(crate) mod quotas;
mod refusal;

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
use ports::{GroupOrder, JobCloud, VcpuQuotaExceeded};

use crate::aws::Aws;
use crate::error::CallError;
use crate::sns;

impl JobCloud for Aws {
    async fn has_confirmed_subscription(&self, topics: &MessageTopics) -> Result<bool, CallError> {
        sns::has_confirmed_subscription(self, topics).await
    }

    async fn observe_machines(
        &self,
        region: &Region,
        instances: &[ResourceId],
        now: Timestamp,
    ) -> Result<Vec<MachineObservation>, CallError> {
        machine::observe_machines(self, region, instances, now).await
    }

    async fn find_job_machines(&self, region: &Region) -> Result<Vec<FoundMachine>, CallError> {
        machine::find_job_machines(self, region).await
    }

    async fn list_offerings(
        &self,
        region: &Region,
        kind: MachineKind,
        named: &BTreeSet<TypeName>,
    ) -> Result<TypeOfferings, CallError> {
        pools::offers(self, region, kind, named).await
    }

    async fn list_subnets(&self, region: &Region, named: &BTreeSet<ResourceId>) -> Result<ZoneSubnets, CallError> {
        pools::subnets(self, region, named).await
    }

    async fn find_image(
        &self,
        region: &Region,
        architecture: &str,
        source: &ImageSource,
        agent_sha256: &str,
    ) -> Result<MachineImage, LaunchObstacle> {
        image::image(self, region, architecture, source, agent_sha256).await
    }

    async fn list_quotas(&self, region: &Region) -> Result<Vec<ListedQuota>, CallError> {
        quotas::list_quotas(self, region).await
    }

    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<LaunchResult, VcpuQuotaExceeded> {
        launch::launch(self, order).await
    }

    async fn terminate(&self, job: &JobId, machine: &JobMachine, now: Timestamp) -> Result<(), CallError> {
        machine::terminate(self, job, machine, now).await
    }

    async fn observe_home(&self, gpu_box: &GpuBox, now: Timestamp) -> Result<HomeSight, CallError> {
        Box::pin(home::observe_home(self, gpu_box, now)).await
    }

    async fn change_home(
        &self,
        gpu_box: &GpuBox,
        effect: &HomeEffect,
        tags: &Tags,
    ) -> Result<Option<ResourceId>, CallError> {
        Box::pin(home::change_home(self, gpu_box, effect, tags)).await
    }

    async fn keep_home(&self, gpu_box: &GpuBox, until: Timestamp) -> Result<(), CallError> {
        Box::pin(home::keep_home(self, gpu_box, until)).await
    }

    async fn ensure_placement_group(&self, group: &GroupOrder<'_>) -> Result<(), CallError> {
        groups::ensure_placement_group(self, group).await
    }

    async fn ensure_security_group(&self, group: &GroupOrder<'_>, vpc: &ResourceId) -> Result<VpcGroups, CallError> {
        Box::pin(groups::ensure_security_group(self, group, vpc)).await
    }

    async fn delete_group(&self, region: &Region, key: &GroupKey, job: &JobId) -> Result<(), CallError> {
        groups::delete_group(self, region, key, job).await
    }

    async fn list_groups(&self, region: &Region) -> Result<Vec<ListedGroup>, CallError> {
        groups::list_groups(self, region).await
    }
}
