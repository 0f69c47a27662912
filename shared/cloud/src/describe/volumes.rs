//! `DescribeVolumes`.

mod xml;

use std::collections::BTreeMap;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::operation::describe_volumes::builders::DescribeVolumesFluentBuilder;
use aws_sdk_ec2::operation::describe_volumes::{DescribeVolumes, DescribeVolumesError, DescribeVolumesOutput};
use aws_smithy_runtime_api::client::interceptors::context::{Error, Output};
use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::volume::{Volume, VolumeState};

use self::xml::{AttachmentXml, VolumeXml};
use super::document::XmlError;
use super::reading::{self, CustomAnswer};
use super::{manager, whole};
use crate::convert::timestamp;
use crate::error::CallError;

pub(crate) const DESCRIBE_VOLUMES: &str = "ec2:DescribeVolumes";

#[derive(Debug, Default)]
pub(crate) struct VolumesPage {
    /// Its volumes, in order.
    pub(crate) volumes: Vec<Volume>,
    /// Resources that cannot be judged, because EC2 left something out.
    pub(crate) incomplete: Vec<ResourceId>,
    /// The attachments of each volume with their time, the earliest first.
    pub(crate) attached_since: BTreeMap<ResourceId, Vec<(Timestamp, ResourceId)>>,
    pub(crate) next_token: Option<String>,
}

/// Sends one `DescribeVolumes`. An answer that cannot be read to its end is an error.
pub(crate) async fn volumes_page(
    call: DescribeVolumesFluentBuilder,
    region: &Region,
) -> Result<VolumesPage, CallError> {
    reading::read::<DescribeVolumes, _, _>(region, async |own| call.customize().interceptor(own).send().await).await
}

pub(crate) async fn volume(ec2: &Client, region: &Region, id: &ResourceId) -> Result<Volume, CallError> {
    let page = volumes_page(ec2.describe_volumes().volume_ids(id.as_str()), region).await?;
    let found = page.volumes.into_iter().find(|volume| volume.id == *id);
    found.ok_or_else(|| CallError::without(DESCRIBE_VOLUMES, region, id, page.incomplete.contains(id)))
}

impl CustomAnswer for DescribeVolumes {
    const CALL: &'static str = DESCRIBE_VOLUMES;
    type Page = VolumesPage;

    fn read(body: &[u8], region: &Region) -> Result<VolumesPage, XmlError> {
        let mut page = VolumesPage::default();
        page.next_token = xml::read(body, |item| page.add_volume(item, region))?;
        Ok(page)
    }

    fn nothing() -> Output {
        Output::erase(DescribeVolumesOutput::builder().build())
    }

    fn refusal(error: XmlError) -> Error {
        Error::erase(DescribeVolumesError::unhandled(error))
    }
}

impl VolumesPage {
    /// A volume without an id could be any volume: then no volume is known to be gone.
    fn add_volume(&mut self, mut item: VolumeXml<'_>, region: &Region) -> Result<(), XmlError> {
        let id = item.volume_id.take().filter(|id| !id.is_empty()).ok_or(XmlError::Nameless("volumeId"))?;
        let id = ResourceId::new(id);
        let since = attached_since(&item.attachments);
        if !since.is_empty() {
            self.attached_since.insert(id.clone(), since);
        }
        match judgeable(item, id.clone(), region) {
            Some(volume) => self.volumes.push(volume),
            None => self.incomplete.push(id),
        }
        Ok(())
    }
}

/// `None` if EC2 leaves out its zone, type, size or time, or what it is attached to: it cannot be judged.
fn judgeable(item: VolumeXml<'_>, id: ResourceId, region: &Region) -> Option<Volume> {
    Some(Volume {
        id,
        region: region.clone(),
        zone: item.zone.filter(|zone| !zone.is_empty())?.into_owned(),
        volume_type: item.volume_type.filter(|name| !name.is_empty())?.into_owned(),
        size_gib: whole(item.size)?,
        iops: whole(item.iops),
        throughput_mibps: whole(item.throughput),
        state: state(item.state.as_deref()),
        attached_to: attached_to(item.attachments)?,
        multi_attach: item.multi_attach == Some(true),
        created_at: timestamp(&item.create_time?)?,
        tags: item.tags,
        from_snapshot: item.snapshot_id.filter(|id| !id.is_empty()).map(ResourceId::new),
        operator: manager(item.managed, item.principal),
    })
}

/// A volume that AWS manages has no instance, but a resource with an ARN (EC2 API reference, `VolumeAttachment`).
fn attached_to(attachments: Vec<AttachmentXml<'_>>) -> Option<Vec<ResourceId>> {
    let to_something = attachments.into_iter().filter(|attachment| attachment.state.as_deref() != Some("detached"));
    let holder = |attachment: AttachmentXml<'_>| {
        let instance = attachment.instance_id.filter(|id| !id.is_empty());
        instance.or_else(|| attachment.associated_resource.filter(|arn| !arn.is_empty())).map(ResourceId::new)
    };
    let mut holders: Vec<ResourceId> = to_something.map(holder).collect::<Option<_>>()?;
    // A vector that grew has room for four, and an account has tens of thousands of volumes.
    holders.shrink_to_fit();
    Some(holders)
}

fn attached_since(attachments: &[AttachmentXml<'_>]) -> Vec<(Timestamp, ResourceId)> {
    let holds = attachments.iter().filter(|attachment| attachment.state.as_deref() != Some("detached"));
    let mut since: Vec<(Timestamp, ResourceId)> = holds
        .filter_map(|attachment| {
            let instance = attachment.instance_id.as_deref().filter(|id| !id.is_empty())?;
            Some((timestamp(attachment.attach_time.as_ref()?)?, ResourceId::new(instance)))
        })
        .collect();
    since.sort();
    since
}

fn state(name: Option<&str>) -> VolumeState {
    match name {
        Some("creating") => VolumeState::Creating,
        Some("available") => VolumeState::Available,
        Some("in-use") => VolumeState::InUse,
        Some("deleting") => VolumeState::Deleting,
        Some("deleted") => VolumeState::Deleted,
        Some("error") => VolumeState::Error,
        _ => VolumeState::Unknown,
    }
}

#[cfg(test)]
mod tests;
