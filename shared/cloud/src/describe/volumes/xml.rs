//! The few fields of a `DescribeVolumes` answer that decisions need, by their path in its XML.

use std::borrow::Cow;

use aws_sdk_ec2::primitives::DateTime;
use model::instance::Tags;

use crate::describe::document::{XmlAnswer, XmlError, XmlReader, name, operator, tag};

const ANSWER: XmlAnswer = XmlAnswer { root: "DescribeVolumesResponse", set: "volumeSet" };

/// One volume as EC2 describes it (EC2 API reference, `Volume`). `None` if the answer leaves the element out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct VolumeXml<'a> {
    pub(super) volume_id: Option<Cow<'a, str>>,
    /// `availabilityZone`
    pub(super) zone: Option<Cow<'a, str>>,
    pub(super) volume_type: Option<Cow<'a, str>>,
    /// GiB
    pub(super) size: Option<i32>,
    pub(super) iops: Option<i32>,
    /// MiB per second
    pub(super) throughput: Option<i32>,
    /// `status`
    pub(super) state: Option<Cow<'a, str>>,
    pub(super) create_time: Option<DateTime>,
    pub(super) snapshot_id: Option<Cow<'a, str>>,
    /// `multiAttachEnabled`
    pub(super) multi_attach: Option<bool>,
    /// `attachmentSet`
    pub(super) attachments: Vec<AttachmentXml<'a>>,
    /// `operator.managed`
    pub(super) managed: Option<bool>,
    /// `operator.principal`
    pub(super) principal: Option<Cow<'a, str>>,
    /// Every tag, including AWS's own (`aws:*`); an absent value is empty.
    pub(super) tags: Tags,
}

/// Attachment of a volume (EC2 API reference, `VolumeAttachment`).
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AttachmentXml<'a> {
    pub(super) instance_id: Option<Cow<'a, str>>,
    pub(super) associated_resource: Option<Cow<'a, str>>,
    /// `status`
    pub(super) state: Option<Cow<'a, str>>,
    pub(super) attach_time: Option<DateTime>,
}

/// Passes every volume of the page, in order, to `send_each`; returns the token of the next page. If this fails, `send_each` may have had
/// some of the page.
pub(super) fn read<'a>(
    body: &'a [u8],
    mut each: impl FnMut(VolumeXml<'a>) -> Result<(), XmlError>,
) -> Result<Option<String>, XmlError> {
    ANSWER.read(body, |document| each(volume(document)?))
}

fn volume<'a>(document: &mut XmlReader<'a>) -> Result<VolumeXml<'a>, XmlError> {
    let mut item = VolumeXml::default();
    while let Some(child) = document.child()? {
        match name(&child) {
            "volumeId" => item.volume_id = Some(document.text()?),
            "availabilityZone" => item.zone = Some(document.text()?),
            "volumeType" => item.volume_type = Some(document.text()?),
            "size" => item.size = Some(document.value("size")?),
            "iops" => item.iops = Some(document.value("iops")?),
            "throughput" => item.throughput = Some(document.value("throughput")?),
            "status" => item.state = Some(document.text()?),
            "createTime" => item.create_time = Some(document.time("createTime")?),
            "snapshotId" => item.snapshot_id = Some(document.text()?),
            "multiAttachEnabled" => item.multi_attach = Some(document.value("multiAttachEnabled")?),
            "attachmentSet" => document.items(|document| {
                item.attachments.push(attachment(document)?);
                Ok(())
            })?,
            "operator" => (item.managed, item.principal) = operator(document)?,
            "tagSet" => document.items(|document| tag(document, &mut item.tags))?,
            _ => document.skip(&child)?,
        }
    }
    Ok(item)
}

fn attachment<'a>(document: &mut XmlReader<'a>) -> Result<AttachmentXml<'a>, XmlError> {
    let mut item = AttachmentXml::default();
    while let Some(child) = document.child()? {
        match name(&child) {
            "instanceId" => item.instance_id = Some(document.text()?),
            "associatedResource" => item.associated_resource = Some(document.text()?),
            "status" => item.state = Some(document.text()?),
            "attachTime" => item.attach_time = Some(document.time("attachTime")?),
            _ => document.skip(&child)?,
        }
    }
    Ok(item)
}

#[cfg(test)]
mod tests;
