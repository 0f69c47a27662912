//! AWS calls of every run: notifying, reading one resource, and changing it. `execution` decides their order.

use aws_sdk_ec2::config;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::types::{ResourceType, Tag, TagSpecification};
use model::channels::MessageTopics;
use model::config::Config;
use model::id::{Region, ResourceId};
use model::instance::{Instance, Tags};
use model::observation::Observation;
use model::sagemaker::SageMakerResource;
use model::subscriptions::TopicSubscriptions;
use model::volume::{Snapshot, Volume};
use notify::{Event, Message};
use plan::report::RunUsage;
use ports::{Cloud, Ec2Write, SageMakerWrite};

use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind, call_error};
use crate::observe::{self, described_as_curfews, filter};
use crate::{events, sagemaker, ses, sns};

impl Cloud for Aws {
    fn home(&self) -> &Region {
        self.home()
    }

    async fn regions(&self, config: &Config) -> Observation<Region> {
        observe::regions(self, config).await
    }

    async fn subscriptions(&self, topics: &MessageTopics) -> Result<TopicSubscriptions, CallError> {
        sns::subscriptions(self, topics).await
    }

    async fn publish(&self, topic_arn: &str, message: &Message) -> Result<(), CallError> {
        let _slot = self.message_pace.slot().await;
        sns::publish(self, topic_arn, message).await
    }

    async fn publish_to_chat(&self, topic_arn: &str, message: &Message) -> Result<(), CallError> {
        sns::publish(self, topic_arn, message).await
    }

    async fn mail(&self, sender: &str, recipient: &str, message: &Message) -> Result<(), CallError> {
        ses::send_text(self, sender, recipient, message).await
    }

    async fn put_events(&self, bus: &str, events: &[Event]) -> Result<(), CallError> {
        events::put(self, bus, events).await
    }

    fn take_usage(&self) -> RunUsage {
        self.meter.take()
    }

    fn add_usage(&self, more: RunUsage) {
        self.meter.add(more);
    }

    async fn describe_instance(&self, region: &Region, instance: &ResourceId) -> Result<Instance, CallError> {
        let page =
            describe::page(self.ec2(region).describe_instances().instance_ids(instance.as_str()), region).await?;
        page.described.into_iter().next().map(|one| one.instance).ok_or_else(|| {
            CallError::new(
                DESCRIBE_INSTANCES,
                region,
                CallErrorKind::NotFound,
                format!("EC2 answered without {instance}"),
            )
        })
    }

    async fn describe_volume(&self, region: &Region, volume: &ResourceId) -> Result<Volume, CallError> {
        describe::volume(&self.ec2(region), region, volume).await
    }

    async fn describe_snapshot(&self, region: &Region, snapshot: &ResourceId) -> Result<Snapshot, CallError> {
        describe::snapshot(&self.ec2(region), region, snapshot).await
    }

    async fn describe_snapshots_of(&self, region: &Region, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError> {
        let call =
            self.ec2(region).describe_snapshots().owner_ids("self").filters(filter("volume-id", [volume.as_str()]));
        let page = describe::snapshots_page(call.filters(described_as_curfews()), region).await?;
        Ok(page.snapshots)
    }

    async fn write(&self, region: &Region, write: Ec2Write<'_>) -> Result<(), CallError> {
        let ec2 = self.ec2(region);
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
                create_snapshot(self, region, volume, description, tags).await
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

    async fn describe_sagemaker(&self, seen: &SageMakerResource) -> Result<SageMakerResource, CallError> {
        // Boxed: its future is larger than those of all other steps.
        Box::pin(sagemaker::describe(self, seen)).await
    }

    async fn write_sagemaker(&self, resource: &SageMakerResource, write: SageMakerWrite<'_>) -> Result<(), CallError> {
        Box::pin(sagemaker::write(self, resource, write)).await
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
        .config_override(config::Config::builder().retry_config(RetryConfig::disabled()));
    call.send().await.map(drop).map_err(|error| call_error("ec2:CreateSnapshot", region, &error))
}

fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build()
}

#[cfg(test)]
mod tests;
