//! The few fields of a `DescribeInstances` answer that decisions need, by their path in its XML.
//!
//! Everything else is skipped, at any depth: an `instanceId` of a network interface is not the instance's.

use std::borrow::Cow;

use aws_sdk_ec2::primitives::DateTime;
use model::instance::Tags;

use crate::describe::document::{XmlAnswer, XmlError, XmlReader, name, operator, tag};

const ANSWER: XmlAnswer = XmlAnswer { root: "DescribeInstancesResponse", set: "reservationSet" };

/// One instance as EC2 describes it (EC2 API reference, `Instance`). `None` if the answer leaves the element out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct InstanceXml<'a> {
    pub(super) instance_id: Option<Cow<'a, str>>,
    pub(super) instance_type: Option<Cow<'a, str>>,
    pub(super) launch_time: Option<DateTime>,
    pub(super) launch_index: Option<Cow<'a, str>>,
    pub(super) client_token: Option<Cow<'a, str>>,
    /// `iamInstanceProfile.arn`
    pub(super) profile_arn: Option<Cow<'a, str>>,
    /// `instanceState.name`
    pub(super) state: Option<Cow<'a, str>>,
    /// `reason`: `StateTransitionReason`
    pub(super) transition_reason: Option<Cow<'a, str>>,
    /// `stateReason.code`
    pub(super) state_reason: Option<Cow<'a, str>>,
    pub(super) private_dns_name: Option<Cow<'a, str>>,
    pub(super) root_device_type: Option<Cow<'a, str>>,
    pub(super) platform: Option<Cow<'a, str>>,
    pub(super) platform_details: Option<Cow<'a, str>>,
    /// `placement.availabilityZone`
    pub(super) zone: Option<Cow<'a, str>>,
    /// `placement.tenancy`
    pub(super) tenancy: Option<Cow<'a, str>>,
    /// `placement.groupName`
    pub(super) placement_group: Option<Cow<'a, str>>,
    /// `placement.partitionNumber`, of a group of strategy `partition`
    pub(super) partition: Option<Cow<'a, str>>,
    pub(super) lifecycle: Option<Cow<'a, str>>,
    pub(super) spot_request: Option<Cow<'a, str>>,
    pub(super) capacity_block: Option<Cow<'a, str>>,
    pub(super) capacity_reservation: Option<Cow<'a, str>>,
    /// `operator.managed`
    pub(super) managed: Option<bool>,
    /// `operator.principal`
    pub(super) principal: Option<Cow<'a, str>>,
    /// Every tag, including AWS's own (`aws:*`); an absent value is empty.
    pub(super) tags: Tags,
}

/// Passes every instance of the page, in order, to `send_each`; returns the token of the next page. If this fails, `send_each` may have had
/// some of the page.
pub(super) fn read<'a>(body: &'a [u8], mut each: impl FnMut(InstanceXml<'a>)) -> Result<Option<String>, XmlError> {
    ANSWER.read(body, |document| reservation(document, &mut each))
}

fn reservation<'a>(document: &mut XmlReader<'a>, each: &mut impl FnMut(InstanceXml<'a>)) -> Result<(), XmlError> {
    while let Some(child) = document.child()? {
        match name(&child) {
            "instancesSet" => document.items(|document| {
                each(instance(document)?);
                Ok(())
            })?,
            _ => document.skip(&child)?,
        }
    }
    Ok(())
}

/// The elements that [`instance`] reads.
const FIELDS: [&str; 20] = [
    "instanceId",
    "instanceType",
    "launchTime",
    "amiLaunchIndex",
    "clientToken",
    "iamInstanceProfile",
    "instanceState",
    "reason",
    "stateReason",
    "privateDnsName",
    "rootDeviceType",
    "platform",
    "platformDetails",
    "placement",
    "instanceLifecycle",
    "spotInstanceRequestId",
    "capacityBlockId",
    "capacityReservationId",
    "operator",
    "tagSet",
];

fn instance<'a>(document: &mut XmlReader<'a>) -> Result<InstanceXml<'a>, XmlError> {
    let mut item = InstanceXml::default();
    while let Some(child) = document.child_of(&FIELDS)? {
        match name(&child) {
            "instanceId" => item.instance_id = Some(document.text()?),
            "instanceType" => item.instance_type = Some(document.text()?),
            "launchTime" => item.launch_time = Some(document.time("launchTime")?),
            "amiLaunchIndex" => item.launch_index = Some(document.text()?),
            "clientToken" => item.client_token = Some(document.text()?),
            "iamInstanceProfile" => item.profile_arn = document.text_within("arn")?,
            "instanceState" => item.state = document.text_within("name")?,
            "reason" => item.transition_reason = Some(document.text()?),
            "stateReason" => item.state_reason = document.text_within("code")?,
            "privateDnsName" => item.private_dns_name = Some(document.text()?),
            "rootDeviceType" => item.root_device_type = Some(document.text()?),
            "platform" => item.platform = Some(document.text()?),
            "platformDetails" => item.platform_details = Some(document.text()?),
            "placement" => [item.zone, item.tenancy, item.placement_group, item.partition] = placement(document)?,
            "instanceLifecycle" => item.lifecycle = Some(document.text()?),
            "spotInstanceRequestId" => item.spot_request = Some(document.text()?),
            "capacityBlockId" => item.capacity_block = Some(document.text()?),
            "capacityReservationId" => item.capacity_reservation = Some(document.text()?),
            "operator" => (item.managed, item.principal) = operator(document)?,
            "tagSet" => document.items(|document| tag(document, &mut item.tags))?,
            _ => document.skip(&child)?,
        }
    }
    Ok(item)
}

/// `availabilityZone`, `tenancy`, `groupName` and `partitionNumber` of the open `placement`.
fn placement<'a>(document: &mut XmlReader<'a>) -> Result<[Option<Cow<'a, str>>; 4], XmlError> {
    let (mut zone, mut tenancy, mut group, mut partition) = (None, None, None, None);
    while let Some(child) = document.child()? {
        match name(&child) {
            "availabilityZone" => zone = Some(document.text()?),
            "tenancy" => tenancy = Some(document.text()?),
            "groupName" => group = Some(document.text()?),
            "partitionNumber" => partition = Some(document.text()?),
            _ => document.skip(&child)?,
        }
    }
    Ok([zone, tenancy, group, partition])
}

#[cfg(test)]
mod tests;
