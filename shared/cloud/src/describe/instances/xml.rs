//! The few fields of a `DescribeInstances` answer that decisions need, by their path in its XML.
//!
//! Everything else is skipped, at any depth: an `instanceId` of a network interface is not the instance's.

use std::borrow::Cow;

use aws_sdk_ec2::primitives::DateTime;
use model::instance::Tags;

use crate::describe::document::{XmlAnswer, XmlError, XmlReader, name, operator, tag};

const ANSWER: XmlAnswer = XmlAnswer { root: "DescribeInstancesResponse", set: "reservationSet" };

/// One instance in EC2's words (EC2 API reference, `Instance`). `None` where the answer leaves the element out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct InstanceXml<'a> {
    pub(super) instance_id: Option<Cow<'a, str>>,
    pub(super) instance_type: Option<Cow<'a, str>>,
    pub(super) launch_time: Option<DateTime>,
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
    pub(super) lifecycle: Option<Cow<'a, str>>,
    pub(super) spot_request: Option<Cow<'a, str>>,
    pub(super) capacity_block: Option<Cow<'a, str>>,
    pub(super) capacity_reservation: Option<Cow<'a, str>>,
    /// `operator.managed`
    pub(super) managed: Option<bool>,
    /// `operator.principal`
    pub(super) principal: Option<Cow<'a, str>>,
    /// All of them, those of AWS (`aws:*`) included; one without a value has an empty one.
    pub(super) tags: Tags,
}

/// Every instance of the page, in order, to `send_each`; and the token of the next page. Where this fails, `send_each` may have had
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

fn instance<'a>(document: &mut XmlReader<'a>) -> Result<InstanceXml<'a>, XmlError> {
    let mut told = InstanceXml::default();
    while let Some(child) = document.child()? {
        match name(&child) {
            "instanceId" => told.instance_id = Some(document.text()?),
            "instanceType" => told.instance_type = Some(document.text()?),
            "launchTime" => told.launch_time = Some(document.time("launchTime")?),
            "instanceState" => told.state = document.text_within("name")?,
            "reason" => told.transition_reason = Some(document.text()?),
            "stateReason" => told.state_reason = document.text_within("code")?,
            "privateDnsName" => told.private_dns_name = Some(document.text()?),
            "rootDeviceType" => told.root_device_type = Some(document.text()?),
            "platform" => told.platform = Some(document.text()?),
            "platformDetails" => told.platform_details = Some(document.text()?),
            "placement" => [told.zone, told.tenancy] = placement(document)?,
            "instanceLifecycle" => told.lifecycle = Some(document.text()?),
            "spotInstanceRequestId" => told.spot_request = Some(document.text()?),
            "capacityBlockId" => told.capacity_block = Some(document.text()?),
            "capacityReservationId" => told.capacity_reservation = Some(document.text()?),
            "operator" => (told.managed, told.principal) = operator(document)?,
            "tagSet" => document.items(|document| tag(document, &mut told.tags))?,
            _ => document.skip(&child)?,
        }
    }
    Ok(told)
}

/// `availabilityZone` and `tenancy` of the open `placement`.
fn placement<'a>(document: &mut XmlReader<'a>) -> Result<[Option<Cow<'a, str>>; 2], XmlError> {
    let (mut zone, mut tenancy) = (None, None);
    while let Some(child) = document.child()? {
        match name(&child) {
            "availabilityZone" => zone = Some(document.text()?),
            "tenancy" => tenancy = Some(document.text()?),
            _ => document.skip(&child)?,
        }
    }
    Ok([zone, tenancy])
}

#[cfg(test)]
mod tests;
