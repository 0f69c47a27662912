//! `DescribeSnapshots`.

mod xml;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::operation::describe_snapshots::builders::DescribeSnapshotsFluentBuilder;
use aws_sdk_ec2::operation::describe_snapshots::{DescribeSnapshots, DescribeSnapshotsError, DescribeSnapshotsOutput};
use aws_smithy_runtime_api::client::interceptors::context::{Error, Output};
use model::id::{Region, ResourceId};
use model::volume::{Snapshot, SnapshotState};

use self::xml::SnapshotXml;
use super::document::XmlError;
use super::reading::{self, CustomAnswer};
use super::whole;
use crate::convert::timestamp;
use crate::error::CallError;

pub(crate) const DESCRIBE_SNAPSHOTS: &str = "ec2:DescribeSnapshots";

#[derive(Debug, Default)]
pub(crate) struct SnapshotsPage {
    /// Its snapshots, in order.
    pub(crate) snapshots: Vec<Snapshot>,
    /// Resources that cannot be judged, because EC2 left something out.
    pub(crate) incomplete: Vec<ResourceId>,
    pub(crate) next_token: Option<String>,
}

/// Sends one `DescribeSnapshots`. An answer that cannot be read to its end is an error.
pub(crate) async fn snapshots_page(
    call: DescribeSnapshotsFluentBuilder,
    region: &Region,
) -> Result<SnapshotsPage, CallError> {
    reading::read::<DescribeSnapshots, _, _>(region, async |own| call.customize().interceptor(own).send().await).await
}

pub(crate) async fn snapshot(ec2: &Client, region: &Region, id: &ResourceId) -> Result<Snapshot, CallError> {
    let page = snapshots_page(ec2.describe_snapshots().snapshot_ids(id.as_str()), region).await?;
    let found = page.snapshots.into_iter().find(|snapshot| snapshot.id == *id);
    found.ok_or_else(|| CallError::without(DESCRIBE_SNAPSHOTS, region, id, page.incomplete.contains(id)))
}

impl CustomAnswer for DescribeSnapshots {
    const CALL: &'static str = DESCRIBE_SNAPSHOTS;
    type Page = SnapshotsPage;

    fn read(body: &[u8], region: &Region) -> Result<SnapshotsPage, XmlError> {
        let mut page = SnapshotsPage::default();
        page.next_token = xml::read(body, |item| page.add_snapshot(item, region))?;
        Ok(page)
    }

    fn nothing() -> Output {
        Output::erase(DescribeSnapshotsOutput::builder().build())
    }

    fn refusal(error: XmlError) -> Error {
        Error::erase(DescribeSnapshotsError::unhandled(error))
    }
}

impl SnapshotsPage {
    fn add_snapshot(&mut self, mut item: SnapshotXml<'_>, region: &Region) -> Result<(), XmlError> {
        let id = item.snapshot_id.take().filter(|id| !id.is_empty()).ok_or(XmlError::Nameless("snapshotId"))?;
        let id = ResourceId::new(id);
        match judgeable(item, id.clone(), region) {
            Some(snapshot) => self.snapshots.push(snapshot),
            None => self.incomplete.push(id),
        }
        Ok(())
    }
}

/// `None` if EC2 leaves out its volume, size or time: it cannot be judged.
fn judgeable(item: SnapshotXml<'_>, id: ResourceId, region: &Region) -> Option<Snapshot> {
    Some(Snapshot {
        id,
        region: region.clone(),
        of_volume: item.volume_id.filter(|id| !id.is_empty()).map(ResourceId::new)?,
        state: state(item.state.as_deref()),
        started_at: timestamp(&item.start_time?)?,
        size_gib: whole(item.volume_size)?,
        tags: item.tags,
        description: item.description.unwrap_or_default().into_owned(),
    })
}

fn state(name: Option<&str>) -> SnapshotState {
    match name {
        Some("pending") => SnapshotState::Pending,
        Some("completed") => SnapshotState::Completed,
        Some("error") => SnapshotState::Error,
        _ => SnapshotState::Unknown,
    }
}

#[cfg(test)]
mod tests;
