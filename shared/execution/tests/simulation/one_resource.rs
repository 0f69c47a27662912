//! Calls about one resource: how each simulated account answers them, and what becomes of a lost answer.

use model::id::ResourceId;
use model::instance::Instance;
use model::sagemaker::SageMakerResource;
use model::volume::{Snapshot, Volume};
use ports::{CallError, Ec2Write, SageMakerWrite};

/// How an account answers calls about one resource. Each account has some kinds of resources, and no run about them asks for others.
pub(crate) trait OneResource {
    fn find_instance(&self, instance: &ResourceId) -> Result<Instance, CallError> {
        unreachable!("there is no instance {instance}")
    }

    fn find_volume(&self, volume: &ResourceId) -> Result<Volume, CallError> {
        unreachable!("there is no volume {volume}")
    }

    fn find_snapshot(&self, snapshot: &ResourceId) -> Result<Snapshot, CallError> {
        unreachable!("there is no snapshot {snapshot}")
    }

    fn find_snapshots_of(&self, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError> {
        unreachable!("there is no volume {volume}")
    }

    fn find_sagemaker(&self, resource: &SageMakerResource) -> Result<SageMakerResource, CallError> {
        unreachable!("there is no {}", resource.id)
    }

    /// The effect of the call, if EC2 accepts it.
    fn change_ec2(&self, _call: &'static str, write: &Ec2Write<'_>) -> Result<(), CallError> {
        unreachable!("no run asks EC2 for {write:?}")
    }

    /// The effect of the call, if `SageMaker` accepts it.
    fn change_sagemaker(&self, _: &SageMakerResource, write: &SageMakerWrite<'_>) -> Result<(), CallError> {
        unreachable!("no run asks SageMaker for {write:?}")
    }
}

pub(super) const fn name_of(write: &Ec2Write<'_>) -> &'static str {
    match write {
        Ec2Write::CreateTags { .. } => "ec2:CreateTags",
        Ec2Write::DeleteTags { .. } => "ec2:DeleteTags",
        Ec2Write::StopInstance(_) => "ec2:StopInstances",
        Ec2Write::TerminateInstance(_) => "ec2:TerminateInstances",
        Ec2Write::StartInstance(_) => "ec2:StartInstances",
        Ec2Write::CreateSnapshot { .. } => "ec2:CreateSnapshot",
        Ec2Write::DeleteVolume(_) => "ec2:DeleteVolume",
        Ec2Write::DeleteSnapshot(_) => "ec2:DeleteSnapshot",
    }
}

/// The next run writes lost tags again; any other lost call needs a person to find out what happened.
pub(super) const fn looked_at_again<'a>(write: &Ec2Write<'a>) -> Option<&'a ResourceId> {
    match write {
        Ec2Write::CreateTags { .. } => None,
        Ec2Write::DeleteTags { resource, .. }
        | Ec2Write::CreateSnapshot { volume: resource, .. }
        | Ec2Write::StopInstance(resource)
        | Ec2Write::TerminateInstance(resource)
        | Ec2Write::StartInstance(resource)
        | Ec2Write::DeleteVolume(resource)
        | Ec2Write::DeleteSnapshot(resource) => Some(resource),
    }
}
