//! Calls that change one resource of EC2, and some of the looks at it before. In which order a step makes them, `execution` says.

use aws_sdk_ec2::config::Config;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::types::{ResourceType, Tag, TagSpecification};
use model::id::{Region, ResourceId};
use model::instance::{Instance, Tags};
use model::volume::Snapshot;
use ports::Ec2Write;

use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind, call_error};
use crate::observe::{described_as_curfews, filter};

pub(crate) async fn instance(aws: &Aws, region: &Region, id: &ResourceId) -> Result<Instance, CallError> {
    let page = describe::page(aws.ec2(region).describe_instances().instance_ids(id.as_str()), region).await?;
    page.described.into_iter().next().map(|one| one.instance).ok_or_else(|| {
        CallError::new(DESCRIBE_INSTANCES, region, CallErrorKind::NotFound, format!("EC2 answered without {id}"))
    })
}

/// The snapshots of a volume that are described as Curfew's.
pub(crate) async fn snapshots_of(aws: &Aws, region: &Region, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError> {
    let call = aws.ec2(region).describe_snapshots().owner_ids("self").filters(filter("volume-id", [volume.as_str()]));
    let page = describe::snapshots_page(call.filters(described_as_curfews()), region).await?;
    Ok(page.snapshots)
}

/// The only place that changes a resource.
pub(crate) async fn write(aws: &Aws, region: &Region, write: Ec2Write<'_>) -> Result<(), CallError> {
    let ec2 = aws.ec2(region);
    match write {
        Ec2Write::CreateTags { resources, tags } => {
            let resources = resources.iter().map(|id| id.as_str().to_owned()).collect();
            let tags = tags.iter().map(|(key, value)| tag(key, value)).collect();
            let call = ec2.create_tags().set_resources(Some(resources)).set_tags(Some(tags));
            call.send().await.map(drop).map_err(|error| call_error("ec2:CreateTags", region, &error))
        }
        Ec2Write::DeleteTags { resource, keys } => {
            let keys = keys.iter().map(|key| Tag::builder().key(*key).build()).collect();
            let call = ec2.delete_tags().resources(resource.as_str()).set_tags(Some(keys));
            call.send().await.map(drop).map_err(|error| call_error("ec2:DeleteTags", region, &error))
        }
        Ec2Write::StopInstance(id) => {
            let answer = ec2.stop_instances().instance_ids(id.as_str()).send().await;
            answer.map(drop).map_err(|error| call_error("ec2:StopInstances", region, &error))
        }
        Ec2Write::TerminateInstance(id) => {
            let answer = ec2.terminate_instances().instance_ids(id.as_str()).send().await;
            answer.map(drop).map_err(|error| call_error("ec2:TerminateInstances", region, &error))
        }
        Ec2Write::StartInstance(id) => {
            let answer = ec2.start_instances().instance_ids(id.as_str()).send().await;
            answer.map(drop).map_err(|error| call_error("ec2:StartInstances", region, &error))
        }
        Ec2Write::CreateSnapshot { volume, description, tags } => {
            create_snapshot(aws, region, volume, description, tags).await
        }
        Ec2Write::DeleteVolume(id) => {
            let answer = ec2.delete_volume().volume_id(id.as_str()).send().await;
            answer.map(drop).map_err(|error| call_error("ec2:DeleteVolume", region, &error))
        }
        Ec2Write::DeleteSnapshot(id) => {
            let answer = ec2.delete_snapshot().snapshot_id(id.as_str()).send().await;
            answer.map(drop).map_err(|error| call_error("ec2:DeleteSnapshot", region, &error))
        }
    }
}

/// The SDK must not repeat it: see [`Ec2Write::CreateSnapshot`].
async fn create_snapshot(
    aws: &Aws,
    region: &Region,
    volume: &ResourceId,
    description: &str,
    tags: &Tags,
) -> Result<(), CallError> {
    let tags = tags.iter().map(|(key, value)| tag(key, value)).collect();
    let specification = TagSpecification::builder().resource_type(ResourceType::Snapshot).set_tags(Some(tags)).build();
    let call = aws
        .ec2(region)
        .create_snapshot()
        .volume_id(volume.as_str())
        .description(description)
        .tag_specifications(specification)
        .customize()
        .config_override(Config::builder().retry_config(RetryConfig::disabled()));
    call.send().await.map(drop).map_err(|error| call_error("ec2:CreateSnapshot", region, &error))
}

fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build()
}

#[cfg(test)]
mod tests;
