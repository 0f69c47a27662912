//! One launch.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::Builder;
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::builders::EbsBlockDeviceBuilder;
use aws_sdk_ec2::types::{
    BlockDeviceMapping, EbsBlockDevice, HttpTokensState, IamInstanceProfileSpecification, Instance as Told,
    InstanceInterruptionBehavior, InstanceMarketOptionsRequest, InstanceMetadataEndpointState,
    InstanceMetadataOptionsRequest, InstanceMetadataTagsState, InstanceType, MarketType, ResourceType,
    ShutdownBehavior, SpotInstanceType, SpotMarketOptions, Tag, TagSpecification, VolumeType,
};
use aws_smithy_types::base64;
use jobs::{Candidate, JobTerms, LaunchRequest, LaunchResult, Lifecycle, governing_quota};
use model::id::{Region, ResourceId};
use model::instance::{Instance, Tags};
use model::money::Rate;

use super::AnswerCache;
use super::refusal::{self, NoCapacityIsAnAnswer, RefusalMeaning};
use crate::aws::Aws;
use crate::convert::timestamp;
use crate::describe;
use crate::error::{CallError, call_error};
use crate::observe::filter;

const RUN_INSTANCES: &str = "ec2:RunInstances";
/// EC2 user guide, "Run commands when you launch an EC2 instance": as it is before base64.
const USER_DATA_BYTES_MAX: usize = 16 * 1024;
/// So that a container on the machine reaches the metadata service as well (EC2 user guide, "Use the Instance Metadata Service").
const HOP_LIMIT: i32 = 2;

/// All that a launch request says.
#[derive(Debug, Clone, Copy)]
pub struct LaunchOrder<'a> {
    /// Where, of what, by which token, until when.
    pub launch: &'a LaunchRequest,
    /// Security groups and the size of the root volume.
    pub terms: &'a JobTerms,
    /// For the instance, and for its volumes.
    pub tags: &'a Tags,
    /// As the machine reads it: not in base64.
    pub user_data: &'a str,
    /// The instance profile, by name; `None`: the machine gets no credentials.
    pub profile: Option<&'a str>,
}

/// Launches, and says what came of it. The same order can be given again, to learn what came of the first: EC2 answers a token that it knows
/// with the instance that it launched by it, whatever has become of that since. Of an old token it is only asked what was launched by it.
///
/// Never fails in any other way: what nobody knows is [`LaunchResult::Unknown`].
pub async fn launch(aws: &Aws, asked: &AnswerCache, order: &LaunchOrder<'_>) -> LaunchResult {
    let candidate = &order.launch.candidate;
    if order.user_data.len() > USER_DATA_BYTES_MAX {
        let bytes = order.user_data.len();
        return LaunchResult::Refused(format!(
            "the machine's user data has {bytes} bytes, and EC2 takes {USER_DATA_BYTES_MAX}: give the job, its team and the bucket shorter names"
        ));
    }
    let ec2 = aws.ec2(&candidate.region);
    if order.launch.only_find {
        return match launched_by(&ec2, order.launch).await {
            Ok(Some(launched)) => launched,
            Ok(None) => LaunchResult::NoCapacity(
                "nothing is there that was launched hours ago, when nobody heard of an answer".to_owned(),
            ),
            Err(why) => LaunchResult::Unknown(why),
        };
    }
    let settings = Builder::new().retry_classifier(NoCapacityIsAnAnswer);
    let error = match request(&ec2, order).customize().config_override(settings).send().await {
        Ok(answer) => return launched(answer.instances(), &candidate.region),
        Err(error) => error,
    };
    let refused = call_error(RUN_INSTANCES, &candidate.region, &error);
    match refusal::meaning(error.code().unwrap_or_default(), error.message().unwrap_or_default(), refused.kind) {
        RefusalMeaning::NoCapacity => LaunchResult::NoCapacity(refused.message),
        RefusalMeaning::VcpuQuota => over_quota(aws, asked, candidate, &refused).await,
        RefusalMeaning::OtherQuota => LaunchResult::Quota(refused.to_string(), None),
        RefusalMeaning::Denied => LaunchResult::Denied(refused.to_string()),
        RefusalMeaning::SpotRoleMissing => LaunchResult::SpotRoleMissing(refused.to_string()),
        RefusalMeaning::ProfileUnknown => LaunchResult::ProfileUnknown(refused.to_string()),
        RefusalMeaning::Refused => LaunchResult::Refused(refused.to_string()),
        RefusalMeaning::RequestRefused => LaunchResult::RefusedRequest(refused.to_string()),
        RefusalMeaning::Unknown => LaunchResult::Unknown(refused.to_string()),
        // The account's tags may have been configured anew between two tries: what the first one launched is there all the same.
        of_token @ (RefusalMeaning::Over | RefusalMeaning::Otherwise) => match launched_by(&ec2, order.launch).await {
            Ok(Some(launched)) => launched,
            Ok(None) if of_token == RefusalMeaning::Otherwise => LaunchResult::Mismatch(refused.to_string()),
            // As long as it could be seen, its end was the job's to find out; now there is none by this token, and never will be.
            Ok(None) => LaunchResult::NoCapacity("what was launched by this token has been terminated".to_owned()),
            Err(why) => LaunchResult::Unknown(why),
        },
    }
}

/// EC2 does not say which quota it was. Service Quotas is asked only now, once in a run for each region.
async fn over_quota(aws: &Aws, asked: &AnswerCache, candidate: &Candidate, refused: &CallError) -> LaunchResult {
    let listed = asked.quotas(aws, &candidate.region).await.map_err(|error| error.to_string());
    let (quota, about) = governing_quota(candidate, listed.as_deref().map_err(String::as_str));
    LaunchResult::Quota(format!("{refused}; {about}"), quota)
}

fn request(ec2: &Client, order: &LaunchOrder<'_>) -> RunInstancesFluentBuilder {
    let LaunchRequest { token, candidate, image, .. } = order.launch;
    let groups = order.terms.machine.security_groups.iter().map(|group| group.as_str().to_owned()).collect();
    let metadata = InstanceMetadataOptionsRequest::builder()
        .http_tokens(HttpTokensState::Required)
        .http_endpoint(InstanceMetadataEndpointState::Enabled)
        .http_put_response_hop_limit(HOP_LIMIT)
        .instance_metadata_tags(InstanceMetadataTagsState::Disabled)
        .build();
    // Of the image's size where none is asked for, or a smaller one, of which EC2 would make no volume.
    let root_gib = order.terms.machine.root_volume_gib.unwrap_or_default().max(image.root_gib);
    let root = ebs().volume_type(VolumeType::Gp3).set_volume_size(i32::try_from(root_gib).ok().filter(|gib| *gib > 0));
    let others = image.other_devices.iter().map(|name| device(name, ebs()));
    let devices = std::iter::once(device(&image.root_device, root)).chain(others).collect();
    ec2.run_instances()
        .client_token(token)
        .min_count(1)
        .max_count(1)
        .image_id(image.ami.as_str())
        .instance_type(InstanceType::from(candidate.instance_type.as_str()))
        .subnet_id(candidate.subnet.as_str())
        .set_security_group_ids(Some(groups).filter(|groups: &Vec<String>| !groups.is_empty()))
        .set_iam_instance_profile(order.profile.map(profile))
        .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
        .metadata_options(metadata)
        .set_block_device_mappings(Some(devices))
        .set_instance_market_options(market(candidate.lifecycle, candidate.rate_max))
        .tag_specifications(tagged(ResourceType::Instance, order.tags))
        .tag_specifications(tagged(ResourceType::Volume, order.tags))
        .user_data(base64::encode(order.user_data))
}

fn profile(name: &str) -> IamInstanceProfileSpecification {
    IamInstanceProfileSpecification::builder().name(name).build()
}

/// What every volume has.
fn ebs() -> EbsBlockDeviceBuilder {
    EbsBlockDevice::builder().encrypted(true).delete_on_termination(true)
}

fn device(name: &str, ebs: EbsBlockDeviceBuilder) -> BlockDeviceMapping {
    BlockDeviceMapping::builder().device_name(name).ebs(ebs.build()).build()
}

/// On demand nothing is said.
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

fn tagged(kind: ResourceType, tags: &Tags) -> TagSpecification {
    let tags = tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags)).build()
}

fn launched(instances: &[Told], region: &Region) -> LaunchResult {
    let told = instances.first().and_then(|told| Some((told.instance_id()?, timestamp(told.launch_time()?)?)));
    match told {
        Some((id, launched_at)) if is_whole(id) => {
            LaunchResult::Launched { instance: ResourceId::from(id), launched_at }
        }
        // The SDK takes an answer that is cut off for a shorter one.
        _ => LaunchResult::Unknown(format!(
            "{RUN_INSTANCES} was answered in {region} without the instance that was launched; the same token asks again"
        )),
    }
}

/// EC2 user guide, "Resource IDs": 8 or 17 hex digits.
fn is_whole(id: &str) -> bool {
    let digits = id.strip_prefix("i-").unwrap_or_default();
    matches!(digits.len(), 8 | 17) && digits.chars().all(|digit| digit.is_ascii_hexdigit())
}

/// What was launched by this token, which EC2 does not say where it refuses one. In words, where nobody knows.
async fn launched_by(ec2: &Client, launch: &LaunchRequest) -> Result<Option<LaunchResult>, String> {
    let region = &launch.candidate.region;
    let call = ec2.describe_instances().filters(filter("client-token", [launch.token.as_str()]));
    let page = describe::page(call, region).await.map_err(|error| error.to_string())?;
    let answer =
        |instance: Instance| LaunchResult::Launched { instance: instance.id, launched_at: instance.launched_at };
    match page.described.into_iter().next() {
        None if page.incomplete > 0 => Err(format!("{region} does not say whole what was launched by this token")),
        found => Ok(found.map(|one| answer(one.instance))),
    }
}

#[cfg(test)]
mod tests;
