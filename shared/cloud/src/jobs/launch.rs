//! One launch.

mod gang;
mod network;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::Builder;
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::builders::EbsBlockDeviceBuilder;
use aws_sdk_ec2::types::{
    BlockDeviceMapping, EbsBlockDevice, HttpTokensState, IamInstanceProfileSpecification, Instance as Ec2Instance,
    InstanceInterruptionBehavior, InstanceMarketOptionsRequest, InstanceMetadataEndpointState,
    InstanceMetadataOptionsRequest, InstanceMetadataTagsState, InstanceType, MarketType, ResourceType,
    ShutdownBehavior, SpotInstanceType, SpotMarketOptions, Tag, TagSpecification, VolumeType,
};
use aws_smithy_types::base64;
use jobs::{LaunchOrder, LaunchRequest, LaunchResult, Lifecycle, USER_DATA_BYTES_MAX};
use model::id::{Region, ResourceId};
use model::image_source::check_id;
use model::instance::{Instance, Tags};
use model::money::Rate;
use ports::VcpuQuotaExceeded;

use super::refusal::{self, NoCapacityIsAnAnswer, RefusalMeaning};
use crate::aws::Aws;
use crate::convert::timestamp;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind, call_error};
use crate::observe::filter;

pub(crate) const RUN_INSTANCES: &str = "ec2:RunInstances";
/// Hops that the token of the instance metadata may take. A container with a network of its own is the second (EC2 user guide, "Use the
/// Instance Metadata Service to access instance metadata").
const fn hop_limit(may_read_metadata: bool) -> i32 {
    if may_read_metadata { 2 } else { 1 }
}

/// The root volume of a CPU job that names no size: that of Amazon Linux has 8 GiB, which no data set fits on.
const CPU_ROOT_GIB: u32 = 64;

/// Launches, and returns the result. The same order can be repeated to learn the result of the first: EC2 answers a known token with the
/// instance that it launched for it, in whatever state. An old token is only looked up.
///
/// Every other failure is [`LaunchResult::Unknown`].
///
/// # Errors
/// If a quota of vCPUs is used up.
pub(super) async fn launch(aws: &Aws, order: &LaunchOrder<'_>) -> Result<LaunchResult, VcpuQuotaExceeded> {
    let candidate = &order.launch.candidate;
    if order.user_data.len() > USER_DATA_BYTES_MAX {
        let bytes = order.user_data.len();
        return Ok(LaunchResult::Refused(format!(
            "the machine's user data has {bytes} bytes, and EC2 takes {USER_DATA_BYTES_MAX}: give the job, its team and the bucket shorter names"
        )));
    }
    let ec2 = aws.ec2(&candidate.region);
    if order.launch.only_find {
        return Ok(match launched_by(&ec2, order).await {
            Ok(Some(launched)) => launched,
            Ok(None) => {
                LaunchResult::NoCapacity("EC2 has no instance of the launch that got no answer hours ago".to_owned())
            }
            Err(error) => LaunchResult::Unknown(error.to_string()),
        });
    }
    let settings = Builder::new().retry_classifier(NoCapacityIsAnAnswer);
    let error = match request(&ec2, order).customize().config_override(settings).send().await {
        Ok(answer) if order.terms.is_gang() => {
            let nodes = gang::read_nodes(answer.instances());
            return Ok(gang::complete(&ec2, order, nodes).await);
        }
        Ok(answer) => return Ok(launched(answer.instances(), &candidate.region)),
        Err(error) => error,
    };
    let refused = call_error(RUN_INSTANCES, &candidate.region, &error);
    if network::lacks_group(order, error.code(), &refused.message) {
        return Ok(LaunchResult::NoCapacity(refused.to_string()));
    }
    Ok(match refusal::meaning(error.code().unwrap_or_default(), error.message().unwrap_or_default(), refused.kind) {
        RefusalMeaning::NoCapacity => LaunchResult::NoCapacity(refused.message),
        RefusalMeaning::VcpuQuota => return Err(VcpuQuotaExceeded(refused)),
        RefusalMeaning::OtherQuota => LaunchResult::Quota(refused.to_string(), None),
        RefusalMeaning::Denied => LaunchResult::Denied(refused.to_string()),
        RefusalMeaning::SpotRoleMissing => LaunchResult::SpotRoleMissing(refused.to_string()),
        RefusalMeaning::ProfileUnknown => LaunchResult::ProfileUnknown(refused.to_string()),
        RefusalMeaning::Refused => LaunchResult::Refused(refused.to_string()),
        RefusalMeaning::RequestRefused => LaunchResult::RefusedRequest(refused.to_string()),
        RefusalMeaning::Unknown => LaunchResult::Unknown(refused.to_string()),
        // The account's tags may have been reconfigured between two tries; the instance of the first one still exists.
        of_token @ (RefusalMeaning::Over | RefusalMeaning::Otherwise) => match launched_by(&ec2, order).await {
            Ok(Some(launched)) => launched,
            Ok(None) if of_token == RefusalMeaning::Otherwise => LaunchResult::Mismatch(refused.to_string()),
            // While EC2 showed it, the job could observe its termination. Now the token has no instance, and never will.
            Ok(None) => LaunchResult::NoCapacity("the instance of this token has been terminated".to_owned()),
            Err(error) => LaunchResult::Unknown(error.to_string()),
        },
    })
}

/// The request of a launch, with all that it says to EC2.
pub(crate) fn request(ec2: &Client, order: &LaunchOrder<'_>) -> RunInstancesFluentBuilder {
    let LaunchRequest { token, candidate, image, .. } = order.launch;
    // All of them, or none.
    let nodes = i32::from(order.terms.gpu.nodes);
    let metadata = InstanceMetadataOptionsRequest::builder()
        .http_tokens(HttpTokensState::Required)
        .http_endpoint(InstanceMetadataEndpointState::Enabled)
        .http_put_response_hop_limit(hop_limit(order.terms.machine.metadata))
        .instance_metadata_tags(InstanceMetadataTagsState::Disabled)
        .build();
    // The image's size, unless the job asks for a larger one: EC2 makes no smaller volume.
    let default_gib = if order.terms.is_cpu_job() { CPU_ROOT_GIB } else { 0 };
    let root_gib = order.terms.machine.root_volume_gib.unwrap_or(default_gib).max(image.root_gib);
    let root = ebs().volume_type(VolumeType::Gp3).set_volume_size(i32::try_from(root_gib).ok().filter(|gib| *gib > 0));
    let others = image.other_devices.iter().map(|name| device(name, ebs()));
    let devices = std::iter::once(device(&image.root_device, root)).chain(others).collect();
    network::place(ec2.run_instances(), order)
        .client_token(token)
        .min_count(nodes)
        .max_count(nodes)
        .image_id(image.ami.as_str())
        .instance_type(InstanceType::from(candidate.instance_type.as_str()))
        .set_iam_instance_profile(order.profile.map(profile))
        .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
        .metadata_options(metadata)
        .set_block_device_mappings(Some(devices))
        .set_instance_market_options(market(candidate.lifecycle, candidate.rate_max.of_each(order.terms.gpu.nodes)))
        .tag_specifications(tagged(ResourceType::Instance, order.tags))
        .tag_specifications(tagged(ResourceType::Volume, order.tags))
        .user_data(base64::encode(order.user_data))
}

fn profile(name: &str) -> IamInstanceProfileSpecification {
    IamInstanceProfileSpecification::builder().name(name).build()
}

/// The properties of every volume.
fn ebs() -> EbsBlockDeviceBuilder {
    EbsBlockDevice::builder().encrypted(true).delete_on_termination(true)
}

fn device(name: &str, ebs: EbsBlockDeviceBuilder) -> BlockDeviceMapping {
    BlockDeviceMapping::builder().device_name(name).ebs(ebs.build()).build()
}

/// `None` for on-demand.
fn market(lifecycle: Lifecycle, rate_max: Rate) -> Option<InstanceMarketOptionsRequest> {
    let spot = || {
        SpotMarketOptions::builder()
            .spot_instance_type(SpotInstanceType::OneTime)
            .instance_interruption_behavior(InstanceInterruptionBehavior::Terminate)
            .max_price(usd(rate_max))
            .build()
    };
    (lifecycle == Lifecycle::Spot)
        .then(|| InstanceMarketOptionsRequest::builder().market_type(MarketType::Spot).spot_options(spot()).build())
}

/// USD an hour, exactly.
fn usd(rate: Rate) -> String {
    let micros = rate.usd_micros_per_hour();
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// The tags of a resource from its creation on.
pub(super) fn tagged(kind: ResourceType, tags: &Tags) -> TagSpecification {
    let tags = tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags)).build()
}

fn launched(instances: &[Ec2Instance], region: &Region) -> LaunchResult {
    let launched =
        instances.first().and_then(|instance| Some((instance.instance_id()?, timestamp(instance.launch_time()?)?)));
    match launched {
        Some((id, launched_at)) if check_id(id, "i", "an instance").is_ok() => {
            LaunchResult::Launched { instance: ResourceId::from(id), members: Vec::new(), launched_at }
        }
        // The SDK accepts a truncated answer as a shorter one.
        _ => LaunchResult::Unknown(format!(
            "{RUN_INSTANCES} was answered in {region} without the launched instance; the next run repeats it with the same token"
        )),
    }
}

/// The instance of this token, or those of a gang, which EC2 does not name when it refuses the token.
async fn launched_by(ec2: &Client, order: &LaunchOrder<'_>) -> Result<Option<LaunchResult>, CallError> {
    let (region, token) = (&order.launch.candidate.region, order.launch.token.as_str());
    let call = ec2.describe_instances().filters(filter("client-token", [token]));
    if order.terms.is_gang() {
        return gang::find(call, region, order.terms.gpu.nodes).await;
    }
    let page = describe::page(call, region).await?;
    let answer = |instance: Instance| LaunchResult::Launched {
        instance: instance.id,
        members: Vec::new(),
        launched_at: instance.launched_at,
    };
    match page.described.into_iter().next() {
        None if page.incomplete > 0 => {
            let message = "the answer about this token is incomplete";
            Err(CallError::new(DESCRIBE_INSTANCES, region, CallErrorKind::Incomplete, message))
        }
        found => Ok(found.map(|one| answer(one.instance))),
    }
}

#[cfg(test)]
mod tests;
