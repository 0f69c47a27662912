//! `DescribeInstances`.

mod xml;

use std::borrow::Cow;
use std::collections::BTreeMap;

use aws_sdk_ec2::operation::describe_instances::builders::DescribeInstancesFluentBuilder;
use aws_sdk_ec2::operation::describe_instances::{DescribeInstances, DescribeInstancesError, DescribeInstancesOutput};
use aws_smithy_runtime_api::client::interceptors::context::{Error, Output};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::curfew_tags::JOB;
use model::id::{Region, ResourceId, TypeName};
use model::instance::{DescribedInstance, Instance, InstanceState, InstanceTypeFacts, PrepaidCapacity, PurchaseOption};

use self::xml::InstanceXml;
use super::document::XmlError;
use super::manager;
use super::reading::{self, CustomAnswer};
use crate::convert::timestamp;
use crate::error::CallError;

pub(crate) const DESCRIBE_INSTANCES: &str = "ec2:DescribeInstances";

#[derive(Debug, Default)]
pub(crate) struct InstancesPage {
    /// The instances of all its reservations, in order.
    pub(crate) described: Vec<DescribedInstance>,
    /// The Spot requests that instances name.
    pub(crate) spot_requests: BTreeMap<ResourceId, String>,
    /// Times at which instances were stopped, as far as EC2's text can be read.
    pub(crate) stopped_at: BTreeMap<ResourceId, Timestamp>,
    /// Times at which instances were terminated, or began to stop or terminate.
    pub(crate) ended_at: BTreeMap<ResourceId, Timestamp>,
    /// The place of each instance in its launch, from 0 on (EC2 API reference, `Instance`: `AmiLaunchIndex`).
    pub(crate) launch_indexes: BTreeMap<ResourceId, u8>,
    /// The launches of instances with the tag `curfew:job`.
    pub(crate) launch_names: BTreeMap<ResourceId, LaunchNames>,
    /// The number of instances without id, type or launch time.
    pub(crate) incomplete: usize,
    pub(crate) next_token: Option<String>,
}

/// The words of a launch that EC2 keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LaunchNames {
    pub(crate) client_token: Option<String>,
    /// The name of the instance profile, without its path.
    pub(crate) profile: Option<String>,
}

impl LaunchNames {
    fn read(item: &InstanceXml<'_>) -> Option<Self> {
        item.tags.contains_key(JOB).then(|| Self {
            client_token: item.client_token.as_deref().filter(|token| !token.is_empty()).map(str::to_owned),
            profile: item.profile_arn.as_deref().and_then(|arn| arn.rsplit('/').next()).map(str::to_owned),
        })
    }
}

/// Sends one `DescribeInstances`. An answer that cannot be read to its end is an error.
pub(crate) async fn page(call: DescribeInstancesFluentBuilder, region: &Region) -> Result<InstancesPage, CallError> {
    reading::read::<DescribeInstances, _, _>(region, async |own| call.customize().interceptor(own).send().await).await
}

impl CustomAnswer for DescribeInstances {
    const CALL: &'static str = DESCRIBE_INSTANCES;
    type Page = InstancesPage;

    fn read(body: &[u8], region: &Region) -> Result<InstancesPage, XmlError> {
        InstancesPage::read(body, region)
    }

    fn nothing() -> Output {
        Output::erase(DescribeInstancesOutput::builder().build())
    }

    fn refusal(error: XmlError) -> Error {
        Error::erase(DescribeInstancesError::unhandled(error))
    }
}

impl InstancesPage {
    fn read(body: &[u8], region: &Region) -> Result<Self, XmlError> {
        let mut page = Self::default();
        let next_token = xml::read(body, |item| page.add_instance(item, region))?;
        Ok(Self { next_token, ..page })
    }

    fn add_instance(&mut self, item: InstanceXml<'_>, region: &Region) {
        let request = item.spot_request.clone();
        let index = item.launch_index.as_deref().and_then(|index| index.parse().ok());
        let launch = LaunchNames::read(&item);
        let transition = item.transition_reason.as_deref().and_then(time_of_transition);
        match described(item, region) {
            Some(described) => {
                let request = request.map(|request| (described.instance.id.clone(), request.into_owned()));
                self.spot_requests.extend(request);
                self.launch_names.extend(launch.map(|launch| (described.instance.id.clone(), launch)));
                self.launch_indexes.extend(index.map(|index| (described.instance.id.clone(), index)));
                let at = transition.map(|at| (described.instance.id.clone(), at));
                match described.instance.state {
                    InstanceState::Stopped => self.stopped_at.extend(at),
                    InstanceState::Stopping | InstanceState::ShuttingDown | InstanceState::Terminated => {
                        self.ended_at.extend(at);
                    }
                    InstanceState::Pending | InstanceState::Running | InstanceState::Unknown => {}
                }
                self.described.push(described);
            }
            None => self.incomplete += 1,
        }
    }
}

/// One instance, before its type is known. `None` if EC2 leaves out its id, its type or its launch time: it cannot be judged.
///
/// A Spot instance that names its request has [`PurchaseOption::SpotUnknown`] until the request has been read.
fn described(item: InstanceXml<'_>, region: &Region) -> Option<DescribedInstance> {
    let (purchase, prepaid, plain_linux) = (purchase(&item), prepaid(&item), is_plain_linux(&item));
    let instance = Instance {
        id: ResourceId::new(item.instance_id?),
        region: region.clone(),
        zone: item.zone.filter(|zone| !zone.is_empty()).map(Cow::into_owned),
        instance_type: TypeName::new(item.instance_type?),
        state: state(item.state.as_deref()),
        launched_at: timestamp(&item.launch_time?)?,
        tags: item.tags,
        purchase,
        root_on_instance_storage: item.root_device_type.as_deref() == Some("instance-store"),
        operator: manager(item.managed, item.principal),
        prepaid,
        capacity_reservation: item.capacity_reservation.filter(|id| !id.is_empty()).map(ResourceId::new),
        placement_group: placement_group(item.placement_group, item.partition),
        plain_linux,
        host: None,
        state_reason: item.state_reason.filter(|code| !code.is_empty()).map(Cow::into_owned),
        machine: InstanceTypeFacts::UNKNOWN,
    };
    Some(DescribedInstance { private_dns_name: item.private_dns_name.map(Cow::into_owned), instance })
}

/// The instances of a group of strategy `partition` have a partition, and are no gang (EC2 user guide, "Placement groups").
fn placement_group(group: Option<Cow<'_, str>>, partition: Option<Cow<'_, str>>) -> Option<String> {
    let has_partition = partition.is_some_and(|number| !number.is_empty());
    group.filter(|name| !name.is_empty() && !has_partition).map(Cow::into_owned)
}

/// `StateTransitionReason` of an instance that was stopped or terminated, such as `User initiated (2026-01-01 12:00:00 GMT)` (EC2 API
/// reference, `Instance`). EC2 promises no wording: a reason that does not end with a time is ignored.
fn time_of_transition(reason: &str) -> Option<Timestamp> {
    let (_, time) = reason.strip_suffix(')')?.rsplit_once('(')?;
    let time = time.strip_suffix(" GMT").or_else(|| time.strip_suffix(" UTC"))?;
    let time = DateTime::strptime("%Y-%m-%d %H:%M:%S", time).ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}

fn purchase(item: &InstanceXml<'_>) -> PurchaseOption {
    match item.lifecycle.as_deref() {
        _ if item.capacity_block.is_some() => PurchaseOption::CapacityBlock,
        Some("capacity-block") => PurchaseOption::CapacityBlock,
        Some("interruptible-capacity-reservation") => PurchaseOption::InterruptibleReservation,
        Some("spot") if item.spot_request.is_some() => PurchaseOption::SpotUnknown,
        Some("spot") => PurchaseOption::SpotOneTime,
        _ => PurchaseOption::OnDemand,
    }
}

/// EC2 user guide, "On-Demand Capacity Reservations" and "Dedicated Hosts".
fn prepaid(item: &InstanceXml<'_>) -> Option<PrepaidCapacity> {
    if item.tenancy.as_deref() == Some("host") {
        return Some(PrepaidCapacity::DedicatedHost);
    }
    let is_reserved = item.capacity_reservation.is_some() || purchase(item) == PurchaseOption::InterruptibleReservation;
    is_reserved.then_some(PrepaidCapacity::CapacityReservation)
}

/// EC2 user guide, "AMI billing information fields": `PlatformDetails`.
fn is_plain_linux(item: &InstanceXml<'_>) -> bool {
    let platform = item.platform_details.as_deref().is_none_or(|details| details == "Linux/UNIX");
    platform && item.platform.is_none() && matches!(item.tenancy.as_deref(), None | Some("default"))
}

fn state(name: Option<&str>) -> InstanceState {
    match name {
        Some("pending") => InstanceState::Pending,
        Some("running") => InstanceState::Running,
        Some("stopping") => InstanceState::Stopping,
        Some("stopped") => InstanceState::Stopped,
        Some("shutting-down") => InstanceState::ShuttingDown,
        Some("terminated") => InstanceState::Terminated,
        _ => InstanceState::Unknown,
    }
}

#[cfg(test)]
mod tests;
