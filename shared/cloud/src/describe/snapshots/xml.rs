//! The few fields of a `DescribeSnapshots` answer that decisions need, by their path in its XML.

use std::borrow::Cow;

use aws_sdk_ec2::primitives::DateTime;
use model::instance::Tags;

use crate::describe::document::{XmlAnswer, XmlError, XmlReader, name, tag};

const ANSWER: XmlAnswer = XmlAnswer { root: "DescribeSnapshotsResponse", set: "snapshotSet" };

/// One snapshot in EC2's words (EC2 API reference, `Snapshot`). `None` where the answer leaves the element out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SnapshotXml<'a> {
    pub(super) snapshot_id: Option<Cow<'a, str>>,
    pub(super) volume_id: Option<Cow<'a, str>>,
    /// `status`
    pub(super) state: Option<Cow<'a, str>>,
    pub(super) start_time: Option<DateTime>,
    /// GiB
    pub(super) volume_size: Option<i32>,
    /// All of them, those of AWS (`aws:*`) included; one without a value has an empty one.
    pub(super) tags: Tags,
}

/// Every snapshot of the page, in order, to `send_each`; and the token of the next page. Where this fails, `send_each` may have had
/// some of the page.
pub(super) fn read<'a>(
    body: &'a [u8],
    mut each: impl FnMut(SnapshotXml<'a>) -> Result<(), XmlError>,
) -> Result<Option<String>, XmlError> {
    ANSWER.read(body, |document| each(snapshot(document)?))
}

fn snapshot<'a>(document: &mut XmlReader<'a>) -> Result<SnapshotXml<'a>, XmlError> {
    let mut told = SnapshotXml::default();
    while let Some(child) = document.child()? {
        match name(&child) {
            "snapshotId" => told.snapshot_id = Some(document.text()?),
            "volumeId" => told.volume_id = Some(document.text()?),
            "status" => told.state = Some(document.text()?),
            "startTime" => told.start_time = Some(document.time("startTime")?),
            "volumeSize" => told.volume_size = Some(document.value("volumeSize")?),
            "tagSet" => document.items(|document| tag(document, &mut told.tags))?,
            _ => document.skip(&child)?,
        }
    }
    Ok(told)
}

#[cfg(test)]
mod tests;
