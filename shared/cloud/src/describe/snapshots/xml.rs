//! The few fields of a `DescribeSnapshots` answer that decisions need, by their path in its XML.

use std::borrow::Cow;

use aws_sdk_ec2::primitives::DateTime;
use model::instance::Tags;

use crate::describe::document::{XmlAnswer, XmlError, XmlReader, name, tag};

const ANSWER: XmlAnswer = XmlAnswer { root: "DescribeSnapshotsResponse", set: "snapshotSet" };

/// One snapshot as EC2 describes it (EC2 API reference, `Snapshot`). `None` if the answer leaves the element out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SnapshotXml<'a> {
    pub(super) snapshot_id: Option<Cow<'a, str>>,
    pub(super) volume_id: Option<Cow<'a, str>>,
    /// `status`
    pub(super) state: Option<Cow<'a, str>>,
    pub(super) start_time: Option<DateTime>,
    pub(super) description: Option<Cow<'a, str>>,
    /// GiB
    pub(super) volume_size: Option<i32>,
    /// Every tag, including AWS's own (`aws:*`); an absent value is empty.
    pub(super) tags: Tags,
}

/// Passes every snapshot of the page, in order, to `send_each`; returns the token of the next page. If this fails, `send_each` may have had
/// some of the page.
pub(super) fn read<'a>(
    body: &'a [u8],
    mut each: impl FnMut(SnapshotXml<'a>) -> Result<(), XmlError>,
) -> Result<Option<String>, XmlError> {
    ANSWER.read(body, |document| each(snapshot(document)?))
}

fn snapshot<'a>(document: &mut XmlReader<'a>) -> Result<SnapshotXml<'a>, XmlError> {
    let mut item = SnapshotXml::default();
    while let Some(child) = document.child()? {
        match name(&child) {
            "snapshotId" => item.snapshot_id = Some(document.text()?),
            "volumeId" => item.volume_id = Some(document.text()?),
            "status" => item.state = Some(document.text()?),
            "startTime" => item.start_time = Some(document.time("startTime")?),
            "description" => item.description = Some(document.text()?),
            "volumeSize" => item.volume_size = Some(document.value("volumeSize")?),
            "tagSet" => document.items(|document| tag(document, &mut item.tags))?,
            _ => document.skip(&child)?,
        }
    }
    Ok(item)
}

#[cfg(test)]
mod tests;
