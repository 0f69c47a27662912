//! The archives of directories that jobs bring along: `workdirs/<team>/<sha256>.tar.zst`.

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use jobs::checkpoints::ManifestFile;
use jobs::{WORKDIR_ARCHIVE_BYTES_MAX, WorkdirDigest};
use model::id::TeamName;
use model::team_folder::team_folder;

use crate::bucket::{Bucket, Payload};
use crate::{Store, StoreError};

/// An older archive is uploaded again: half of [`jobs::WORKDIR_KEPT`], so that each job keeps its archive for 90 days.
const UPLOAD_AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The smallest part that S3 accepts (Amazon S3 user guide, "Amazon S3 multipart upload limits"). Parts are sent one after another: a call has
/// 30 seconds, and an uplink of 2 Mbit/s sends one part in 21.
const PART_BYTES: usize = 5 * 1024 * 1024;

impl Store {
    /// Returns `true` if the bucket has this archive, and keeps it for long enough.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn has_workdir(
        &self,
        team: &TeamName,
        digest: &WorkdirDigest,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let written_at = self.bucket.written_at(&key(team, digest)).await?;
        Ok(written_at.is_some_and(|at| now.duration_since(at) < UPLOAD_AGAIN_AFTER))
    }

    /// Uploads an archive, part by part. `progress` hears after each part how many bytes are sent.
    ///
    /// # Errors
    /// If S3 refused; then nothing is kept.
    pub async fn upload_workdir(
        &self,
        team: &TeamName,
        digest: &WorkdirDigest,
        archive: Vec<u8>,
        progress: impl FnMut(usize),
    ) -> Result<(), StoreError> {
        upload(&self.bucket, &key(team, digest), &Bytes::from(archive), progress).await
    }

    /// The bytes of an archive, unchecked; `None` if the bucket does not have it.
    ///
    /// # Errors
    /// If S3 refused, or it is too large.
    pub async fn fetch_workdir(&self, team: &TeamName, digest: &WorkdirDigest) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.bucket.get(&key(team, digest), WORKDIR_ARCHIVE_BYTES_MAX).await?;
        Ok(found.map(|object| object.bytes))
    }

    /// The address of an archive, for people.
    #[must_use]
    pub fn workdir_address(&self, team: &TeamName, digest: &WorkdirDigest) -> String {
        self.bucket.address(&key(team, digest))
    }
}

async fn upload(
    bucket: &Bucket,
    key: &str,
    archive: &Bytes,
    mut progress: impl FnMut(usize),
) -> Result<(), StoreError> {
    let payload = |bytes: Bytes| Payload { sha256: ManifestFile::digest(&bytes), bytes };
    if archive.len() <= PART_BYTES {
        bucket.put_file(key, &payload(archive.clone())).await?;
        progress(archive.len());
        return Ok(());
    }
    let upload = bucket.begin_upload(key).await?;
    let sent = async {
        let (mut parts, mut digests, mut sent) = (Vec::new(), Vec::new(), 0);
        for (number, part) in (1..).zip(archive.chunks(PART_BYTES)) {
            let part = payload(archive.slice_ref(part));
            parts.push(bucket.put_part(key, &upload, number, &part).await?);
            sent += part.bytes.len();
            digests.push(part.sha256);
            progress(sent);
        }
        bucket.complete_upload(key, &upload, parts, &digests).await
    };
    let sent = sent.await;
    if sent.is_err() {
        bucket.abort_upload(key, &upload).await;
    }
    sent
}

pub(super) fn key(team: &TeamName, digest: &WorkdirDigest) -> String {
    format!("workdirs/{}/{}.tar.zst", team_folder(team), digest.hex())
}
