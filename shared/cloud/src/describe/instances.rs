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
use model::id::{Region, ResourceId, TypeName};
use model::instance::{DescribedInstance, Instance, InstanceState, InstanceTypeFacts, PrepaidCapacity, PurchaseOption};

use self::xml::InstanceXml;
use super::document::XmlError;
use super::manager;
use super::reading::{self, CustomAnswer};
use crate::convert::timestamp;
use crate::error::CallError;

/// The call by its IAM action.
pub(crate) const DESCRIBE_INSTANCES: &str = "ec2:DescribeInstances";

/// One answer.
#[derive(Debug, Default)]
pub(crate) struct InstancesPage {
    /// The instances of all its reservations, in order.
    pub(crate) described: Vec<DescribedInstance>,
    /// The Spot requests that instances name.
    pub(crate) spot_requests: BTreeMap<ResourceId, String>,
    /// When those that are stopped were, where EC2 says so in words that can be read.
    pub(crate) stopped_at: BTreeMap<ResourceId, Timestamp>,
    /// The same of those that are terminated, or on their way to either.
    pub(crate) ended_at: BTreeMap<ResourceId, Timestamp>,
    /// So many came without id, type or launch time.
    pub(crate) incomplete: usize,
    /// Where the next page begins.
    pub(crate) next_token: Option<String>,
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
        let next_token = xml::read(body, |told| page.add_instance(told, region))?;
        Ok(Self { next_token, ..page })
    }

    fn add_instance(&mut self, told: InstanceXml<'_>, region: &Region) {
        let request = told.spot_request.clone();
        let transition = told.transition_reason.as_deref().and_then(time_of_transition);
        match described(told, region) {
            Some(described) => {
                let request = request.map(|request| (described.instance.id.clone(), request.into_owned()));
                self.spot_requests.extend(request);
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

/// One instance, before its type is known. `None` where EC2 leaves out its id, its type or its launch time: it cannot be
/// judged.
///
/// A Spot instance that names its request is of [`PurchaseOption::SpotUnknown`] until the request has been read.
fn described(told: InstanceXml<'_>, region: &Region) -> Option<DescribedInstance> {
    let (purchase, prepaid, plain_linux) = (purchase(&told), prepaid(&told), is_plain_linux(&told));
    let instance = Instance {
        id: ResourceId::new(told.instance_id?),
        region: region.clone(),
        zone: told.zone.filter(|zone| !zone.is_empty()).map(Cow::into_owned),
        instance_type: TypeName::new(told.instance_type?),
        state: state(told.state.as_deref()),
        launched_at: timestamp(&told.launch_time?)?,
        tags: told.tags,
        purchase,
        root_on_instance_storage: told.root_device_type.as_deref() == Some("instance-store"),
        operator: manager(told.managed, told.principal),
        prepaid,
        plain_linux,
        host: None,
        state_reason: told.state_reason.filter(|code| !code.is_empty()).map(Cow::into_owned),
        machine: InstanceTypeFacts::UNKNOWN,
    };
    Some(DescribedInstance { private_dns_name: told.private_dns_name.map(Cow::into_owned), instance })
}

/// `StateTransitionReason` of an instance that was stopped or terminated, such as `User initiated (2026-01-01 12:00:00 GMT)` (EC2 API
/// reference, `Instance`). EC2 promises no wording: what does not end with a moment says nothing.
fn time_of_transition(reason: &str) -> Option<Timestamp> {
    let (_, time) = reason.strip_suffix(')')?.rsplit_once('(')?;
    let time = time.strip_suffix(" GMT").or_else(|| time.strip_suffix(" UTC"))?;
    let time = DateTime::strptime("%Y-%m-%d %H:%M:%S", time).ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}

fn purchase(told: &InstanceXml<'_>) -> PurchaseOption {
    match told.lifecycle.as_deref() {
        _ if told.capacity_block.is_some() => PurchaseOption::CapacityBlock,
        Some("capacity-block") => PurchaseOption::CapacityBlock,
        Some("spot") if told.spot_request.is_some() => PurchaseOption::SpotUnknown,
        Some("spot") => PurchaseOption::SpotOneTime,
        _ => PurchaseOption::OnDemand,
    }
}

/// EC2 user guide, "On-Demand Capacity Reservations" and "Dedicated Hosts".
fn prepaid(told: &InstanceXml<'_>) -> Option<PrepaidCapacity> {
    if told.tenancy.as_deref() == Some("host") {
        return Some(PrepaidCapacity::DedicatedHost);
    }
    told.capacity_reservation.as_ref().map(|_| PrepaidCapacity::CapacityReservation)
}

/// EC2 user guide, "AMI billing information fields": `PlatformDetails`.
fn is_plain_linux(told: &InstanceXml<'_>) -> bool {
    let platform = told.platform_details.as_deref().is_none_or(|details| details == "Linux/UNIX");
    platform && told.platform.is_none() && matches!(told.tenancy.as_deref(), None | Some("default"))
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
