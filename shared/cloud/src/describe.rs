//! `DescribeInstances`: the one place that knows which of its fields decisions need.
//!
//! The SDK makes a value of each of some hundred fields of each instance, and that is most of a run's CPU time. So its
//! reading of good answers to this one call is replaced. Signing, retries, timeouts and the reading of errors stay the
//! SDK's.

mod xml;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_ec2::config::interceptors::BeforeSerializationInterceptorContextMut;
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents, RuntimePlugin};
use aws_sdk_ec2::error::BoxError;
use aws_sdk_ec2::operation::describe_instances::builders::DescribeInstancesFluentBuilder;
use aws_sdk_ec2::operation::describe_instances::{DescribeInstances, DescribeInstancesError, DescribeInstancesOutput};
use aws_smithy_runtime_api::client::interceptors::context::{Error, Output, OutputOrError};
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::ser_de::{DeserializeResponse, SharedResponseDeserializer};
use domain::id::{Region, ResourceId, TypeName};
use domain::instance::{Described, Instance, Machine, Prepaid, Purchase, State};

use self::xml::Told;
use crate::convert::timestamp;
use crate::error::{CallError, CallErrorKind};

/// The call by its IAM action.
pub(crate) const DESCRIBE_INSTANCES: &str = "ec2:DescribeInstances";

/// One answer.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The instances of all its reservations, in order.
    pub(crate) described: Vec<Described>,
    /// The Spot requests that instances name.
    pub(crate) spot_requests: BTreeMap<ResourceId, String>,
    /// So many came without id, type or launch time.
    pub(crate) incomplete: usize,
    /// Where the next page begins.
    pub(crate) next_token: Option<String>,
}

/// Sends one `DescribeInstances`. An answer that cannot be read to its end is an error.
pub(crate) async fn page(call: DescribeInstancesFluentBuilder, region: &Region) -> Result<Page, CallError> {
    let slot = Slot::default();
    let reading = OwnReading { region: region.clone(), slot: slot.clone() };
    let answer = call.customize().interceptor(reading).send().await;
    answer.map_err(|error| CallError::of(DESCRIBE_INSTANCES, region, &error))?;
    slot.take().ok_or_else(|| CallError {
        call: DESCRIBE_INSTANCES,
        region: region.clone(),
        kind: CallErrorKind::Other,
        message: "the answer was not read by Curfew's own reader".to_owned(),
    })
}

/// Where the page of the last attempt lies: the SDK's output type has no room for it.
#[derive(Debug, Clone, Default)]
struct Slot(Arc<Mutex<Option<Page>>>);

impl Slot {
    fn put(&self, page: Page) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
    }

    fn take(&self) -> Option<Page> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Our reading of the answer, and what puts it in place of the SDK's.
#[derive(Debug, Clone)]
struct OwnReading {
    region: Region,
    slot: Slot,
}

impl Intercept for OwnReading {
    fn name(&self) -> &'static str {
        "OwnReading"
    }

    fn modify_before_serialization(
        &self,
        _: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        settings: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        settings.interceptor_state().store_put(SharedResponseDeserializer::new(self.clone()));
        Ok(())
    }
}

impl DeserializeResponse for OwnReading {
    fn deserialize_nonstreaming_with_config(&self, response: &HttpResponse, settings: &ConfigBag) -> OutputOrError {
        if !response.status().is_success() {
            let of_sdk = DescribeInstances::new().config();
            return match of_sdk.as_ref().and_then(|of_sdk| of_sdk.load::<SharedResponseDeserializer>()) {
                Some(reading) => reading.deserialize_nonstreaming_with_config(response, settings),
                None => Err(OrchestratorError::other("the SDK has no reading of DescribeInstances")),
            };
        }
        let page = Page::read(response.body().bytes().unwrap_or_default(), &self.region)
            .map_err(|error| OrchestratorError::operation(Error::erase(DescribeInstancesError::unhandled(error))))?;
        self.slot.put(page);
        Ok(Output::erase(DescribeInstancesOutput::builder().build()))
    }
}

impl Page {
    fn read(body: &[u8], region: &Region) -> Result<Self, xml::Unreadable> {
        let mut page = Self::default();
        let next_token = xml::read(body, |told| page.take(told, region))?;
        Ok(Self { next_token, ..page })
    }

    fn take(&mut self, told: Told<'_>, region: &Region) {
        let request = told.spot_request.clone();
        match described(told, region) {
            Some(described) => {
                let request = request.map(|request| (described.instance.id.clone(), request.into_owned()));
                self.spot_requests.extend(request);
                self.described.push(described);
            }
            None => self.incomplete += 1,
        }
    }
}

/// One instance, before its type is known. `None` where EC2 leaves out its id, its type or its launch time: it cannot be
/// judged.
///
/// A Spot instance that names its request is of [`Purchase::SpotUnknown`] until the request has been read.
fn described(told: Told<'_>, region: &Region) -> Option<Described> {
    let (purchase, prepaid, plain_linux) = (purchase(&told), prepaid(&told), is_plain_linux(&told));
    // EC2 user guide, "Amazon EC2 managed instances".
    let manager = || told.principal.map_or_else(|| "an AWS service".to_owned(), Cow::into_owned);
    let instance = Instance {
        id: ResourceId::new(told.instance_id?),
        region: region.clone(),
        instance_type: TypeName::new(told.instance_type?),
        state: state(told.state.as_deref()),
        launched_at: timestamp(&told.launch_time?)?,
        tags: told.tags,
        purchase,
        root_on_instance_storage: told.root_device_type.as_deref() == Some("instance-store"),
        operator: (told.managed == Some(true)).then(manager),
        prepaid,
        plain_linux,
        host: None,
        state_reason: told.state_reason.filter(|code| !code.is_empty()).map(Cow::into_owned),
        machine: Machine::UNKNOWN,
    };
    Some(Described { private_dns_name: told.private_dns_name.map(Cow::into_owned), instance })
}

fn purchase(told: &Told<'_>) -> Purchase {
    match told.lifecycle.as_deref() {
        _ if told.capacity_block.is_some() => Purchase::CapacityBlock,
        Some("capacity-block") => Purchase::CapacityBlock,
        Some("spot") if told.spot_request.is_some() => Purchase::SpotUnknown,
        Some("spot") => Purchase::SpotOneTime,
        _ => Purchase::OnDemand,
    }
}

/// EC2 user guide, "On-Demand Capacity Reservations" and "Dedicated Hosts".
fn prepaid(told: &Told<'_>) -> Option<Prepaid> {
    if told.tenancy.as_deref() == Some("host") {
        return Some(Prepaid::DedicatedHost);
    }
    told.capacity_reservation.as_ref().map(|_| Prepaid::CapacityReservation)
}

/// EC2 user guide, "AMI billing information fields": `PlatformDetails`.
fn is_plain_linux(told: &Told<'_>) -> bool {
    let platform = told.platform_details.as_deref().is_none_or(|details| details == "Linux/UNIX");
    platform && told.platform.is_none() && matches!(told.tenancy.as_deref(), None | Some("default"))
}

fn state(name: Option<&str>) -> State {
    match name {
        Some("pending") => State::Pending,
        Some("running") => State::Running,
        Some("stopping") => State::Stopping,
        Some("stopped") => State::Stopped,
        Some("shutting-down") => State::ShuttingDown,
        Some("terminated") => State::Terminated,
        _ => State::Unknown,
    }
}

#[cfg(test)]
mod tests;
