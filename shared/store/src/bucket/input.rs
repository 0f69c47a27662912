//! The data of jobs, in other buckets than Curfew's: which objects there are, and their content.
//!
//! Each request names the `ETag` that the listing had, so that an object that changes meanwhile is an error and no mixture.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_config::{Region, SdkConfig};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::types::ChecksumMode;
use aws_smithy_checksums::ChecksumAlgorithm;
use aws_smithy_types::base64;
use bytes::Bytes;
use jobs::{INPUT_BYTES_MAX, INPUT_OBJECTS_MAX, InputFile, InputObject, InputSource, input};
use model::fault::error_sentence;
use tokio::sync::mpsc;

use super::list::key_decoder;
use super::{Bucket, GET, LIST, ListDepth, ObjectStream};
use crate::StoreError;
use crate::checkpoints::{WAITING, pour};

/// The most bytes of one request. S3 sends 85 to 90 MB/s for one (Amazon S3 user guide, "Performance design patterns for Amazon S3"), so a lost one
/// costs a second.
pub const INPUT_PART_BYTES: u64 = 64 * 1024 * 1024;

/// A request is made so often, besides what the SDK repeats: it does not repeat a body that breaks off.
const TRIES: u32 = 3;

/// The bytes that are read at once to check a file.
const CHECK_BYTES: usize = 1024 * 1024;

/// Reason for a missing input.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// There is no such bucket or nothing in it, or it cannot become the input: another machine would find the same.
    #[error("{0}")]
    Unfit(String),
    /// The bucket no longer holds what was listed, or the content is damaged.
    #[error("{0}")]
    Refused(String),
    /// The machine's own disk.
    #[error("{}: {}", path.display(), error_sentence(error))]
    Disk {
        /// The file.
        path: PathBuf,
        /// Error of the disk.
        error: std::io::Error,
    },
    /// S3 refused, or did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A bucket with inputs.
#[derive(Debug, Clone)]
pub struct InputBucket {
    pub(crate) bucket: Bucket,
}

impl InputBucket {
    /// The bucket of that name, in whichever region it is.
    ///
    /// # Errors
    /// If there is none, or S3 did not answer.
    pub async fn open(config: &SdkConfig, name: &str) -> Result<Self, InputError> {
        let bucket = Bucket::new(config, name.to_owned());
        let Some(region) = bucket.find_region().await? else { return Ok(Self { bucket }) };
        // S3 answers only in the bucket's region (Amazon S3 user guide, "Request routing").
        let there = config.clone().into_builder().region(Region::new(region)).build();
        Ok(Self { bucket: Bucket::new(&there, name.to_owned()) })
    }

    /// Returns `true` if the bucket has a policy, which may allow a role what the role's own policies do not.
    ///
    /// # Errors
    /// If the caller may not know.
    pub async fn has_policy(&self) -> Result<bool, StoreError> {
        Ok(self.bucket.policy().await?.is_some())
    }

    /// The files that a source becomes.
    ///
    /// # Errors
    /// If it has no objects, too many, or such as can be no files; or S3 refused.
    pub async fn list(&self, source: &InputSource) -> Result<Vec<InputFile>, InputError> {
        if let Some(key) = source.object()
            && let Some(object) = self.find_object(key).await?
        {
            return Ok(vec![input::plan_file(object).map_err(|why| InputError::Unfit(why.to_string()))?]);
        }
        let folder = source.folder();
        let objects = self.list_folder(&folder).await?;
        let files = input::plan_files(&folder, objects).map_err(|why| InputError::Unfit(why.to_string()))?;
        let bytes = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
        if files.is_empty() {
            let or_object = source.object().map(|key| format!(", nor an object {key:?} that the role may read"));
            let (address, or_object) = (self.bucket.address(&folder), or_object.unwrap_or_default());
            return Err(InputError::Unfit(format!("there are no objects below {address}{or_object}")));
        }
        if bytes > INPUT_BYTES_MAX {
            return Err(InputError::Unfit(format!(
                "it has {bytes} bytes, and {INPUT_BYTES_MAX} are the most; name a smaller folder"
            )));
        }
        Ok(files)
    }

    /// The object at exactly that key. S3 hides an absent one from a role that may list only some prefixes (Amazon S3 API reference,
    /// "`HeadObject`", "Permissions").
    async fn find_object(&self, key: &str) -> Result<Option<InputObject>, InputError> {
        let head = self.bucket.client.head_object().bucket(&self.bucket.name).key(key).send().await;
        match head {
            Ok(head) => {
                let bytes = head.content_length.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
                Ok(Some(InputObject { key: key.to_owned(), bytes, etag: head.e_tag.unwrap_or_default() }))
            }
            Err(error) if matches!(status(&error), Some(403 | 404)) => Ok(None),
            Err(error) => Err(self.bucket.failed(GET, key, &error).into()),
        }
    }

    async fn list_folder(&self, folder: &str) -> Result<Vec<InputObject>, InputError> {
        let mut pages = self.bucket.listing(folder, ListDepth::All, None).into_paginator().send();
        let mut objects = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| self.refusal(LIST, folder, &error))?;
            let named = key_decoder(&page);
            for object in page.contents.unwrap_or_default() {
                let Some(key) = object.key else { continue };
                let bytes = object.size.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
                objects.push(InputObject { key: named(key), bytes, etag: object.e_tag.unwrap_or_default() });
            }
            if objects.len() > INPUT_OBJECTS_MAX {
                return Err(InputError::Unfit(format!(
                    "{} has more than {INPUT_OBJECTS_MAX} objects; name a smaller folder, or put small files into archives",
                    self.bucket.address(folder)
                )));
            }
        }
        Ok(objects)
    }

    /// Writes `length` bytes from `start` on into the file, at the same place. Of a whole object the SDK compares the checksum.
    ///
    /// # Errors
    /// If the object has changed since it was listed, or is gone; or S3 or the disk refused.
    pub async fn fetch_part(&self, file: &InputFile, part: (u64, u64), into: &Arc<File>) -> Result<(), InputError> {
        for tried in 1..TRIES {
            match self.fetch_once(file, part, into).await {
                Err(InputError::Store(error)) if !error.lasts() => {
                    tokio::time::sleep(Duration::from_millis(250 << tried)).await;
                }
                fetched => return fetched,
            }
        }
        self.fetch_once(file, part, into).await
    }

    async fn fetch_once(
        &self,
        file: &InputFile,
        (start, length): (u64, u64),
        into: &Arc<File>,
    ) -> Result<(), InputError> {
        let range =
            (length < file.bytes).then(|| format!("bytes={start}-{}", start.saturating_add(length).saturating_sub(1)));
        let get = self.bucket.client.get_object().bucket(&self.bucket.name).key(&file.key).if_match(&file.etag);
        let output = get.checksum_mode(ChecksumMode::Enabled).set_range(range).send().await;
        let output = output.map_err(|error| self.refusal(GET, &file.key, &error))?;
        if output.content_length.and_then(|found| u64::try_from(found).ok()) != Some(length) {
            return Err(self.has_changed(&file.key));
        }
        let pieces = ObjectStream { body: output.body, address: self.bucket.address(&file.key) };
        let (sender, received) = mpsc::channel(WAITING);
        let into = Arc::clone(into);
        let write = tokio::task::spawn_blocking(move || write(&into, start, received));
        let (poured, written) = futures::join!(pour(pieces, sender), write);
        // Where the disk refused, nothing more was poured.
        let written = written.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let written = written.map_err(|error| InputError::Disk { path: PathBuf::from(&file.path), error })?;
        poured?;
        if written == length { Ok(()) } else { Err(self.has_changed(&file.key)) }
    }

    /// Compares a file that came in parts with the checksum of the whole object, where S3 has one.
    ///
    /// # Errors
    /// If they differ; or S3 or the disk refused.
    pub async fn verify(&self, file: &InputFile, content: &Arc<File>) -> Result<(), InputError> {
        let head = self.bucket.client.head_object().bucket(&self.bucket.name).key(&file.key).if_match(&file.etag);
        let head = head.checksum_mode(ChecksumMode::Enabled).send().await;
        let head = head.map_err(|error| self.refusal(GET, &file.key, &error))?;
        let Some((algorithm, expect)) = whole_checksum(&head) else { return Ok(()) };
        let content = Arc::clone(content);
        let found = tokio::task::spawn_blocking(move || checksum(&content, algorithm)).await;
        let found = found.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let found = found.map_err(|error| InputError::Disk { path: PathBuf::from(&file.path), error })?;
        if found == expect {
            return Ok(());
        }
        let address = self.bucket.address(&file.key);
        Err(InputError::Refused(format!("{address} does not have its checksum ({})", algorithm.as_str())))
    }

    /// Error of a refused call. An error that S3 would answer again does not count as one that passes.
    fn refusal<E>(&self, action: &'static str, key: &str, error: &SdkError<E>) -> InputError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        match status(error) {
            Some(412) => self.has_changed(key),
            Some(404) if action == LIST => InputError::Unfit(format!("there is no bucket {}", self.bucket.name)),
            Some(404) => InputError::Refused(format!("{} is gone since it was listed", self.bucket.address(key))),
            _ => self.bucket.failed(action, key, error).into(),
        }
    }

    fn has_changed(&self, key: &str) -> InputError {
        InputError::Refused(format!("{} has changed since it was listed", self.bucket.address(key)))
    }
}

impl Bucket {
    /// The region of the bucket. S3 says it even to a caller that may not list it (Amazon S3 API reference, "`HeadBucket`").
    async fn find_region(&self) -> Result<Option<String>, InputError> {
        let error = match self.client.head_bucket().bucket(&self.name).send().await {
            Ok(found) => return Ok(found.bucket_region),
            Err(error) => error,
        };
        match error.raw_response() {
            Some(answer) if answer.status().as_u16() == 404 => {
                Err(InputError::Unfit(format!("there is no bucket {}", self.name)))
            }
            Some(answer) => Ok(answer.headers().get("x-amz-bucket-region").map(str::to_owned)),
            None => Err(self.failed(LIST, "", &error).into()),
        }
    }
}

fn status<E>(error: &SdkError<E>) -> Option<u16> {
    error.raw_response().map(|answer| answer.status().as_u16())
}

/// The checksum of all bytes in their order. That of an object in parts may be one of the parts' checksums, and has a `-` then (Amazon S3 user guide,
/// "Checking object integrity").
fn whole_checksum(head: &HeadObjectOutput) -> Option<(ChecksumAlgorithm, String)> {
    let all = [
        (ChecksumAlgorithm::Crc64Nvme, &head.checksum_crc64_nvme),
        (ChecksumAlgorithm::Crc32c, &head.checksum_crc32_c),
        (ChecksumAlgorithm::Crc32, &head.checksum_crc32),
        (ChecksumAlgorithm::Sha256, &head.checksum_sha256),
        (ChecksumAlgorithm::Sha1, &head.checksum_sha1),
    ];
    all.into_iter().find_map(|(algorithm, found)| {
        let found = found.as_ref().filter(|found| !found.contains('-'))?;
        Some((algorithm, found.clone()))
    })
}

/// Checksum of the content, in S3's form.
fn checksum(content: &File, algorithm: ChecksumAlgorithm) -> std::io::Result<String> {
    let (mut digest, mut bytes, mut at) = (algorithm.into_impl(), vec![0; CHECK_BYTES], 0_u64);
    loop {
        let read = content.read_at(&mut bytes, at)?;
        if read == 0 {
            return Ok(base64::encode(digest.finalize()));
        }
        digest.update(&bytes[..read]);
        at = at.saturating_add(u64::try_from(read).unwrap_or_default());
    }
}

/// Writes all bytes that come. Returns their number.
fn write(file: &File, start: u64, mut received: mpsc::Receiver<Vec<Bytes>>) -> std::io::Result<u64> {
    let mut at = start;
    while let Some(pieces) = received.blocking_recv() {
        for piece in pieces {
            file.write_all_at(&piece, at)?;
            at = at.saturating_add(u64::try_from(piece.len()).unwrap_or_default());
        }
    }
    Ok(at.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    #[test]
    fn a_file_is_compared_with_the_checksum_of_the_whole_object() {
        let head = |whole: Option<&str>, parts: Option<&str>| {
            HeadObjectOutput::builder()
                .set_checksum_crc32(whole.map(str::to_owned))
                .set_checksum_sha256(parts.map(str::to_owned))
                .build()
        };
        assert!(whole_checksum(&head(None, Some("b2s=-3"))).is_none());
        let (algorithm, expect) = whole_checksum(&head(Some("y/Q5Jg=="), Some("b2s=-3"))).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"123456789").unwrap();
        file.rewind().unwrap();
        assert_eq!(checksum(&file, algorithm).unwrap(), expect);
    }
}
