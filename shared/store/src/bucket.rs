//! Objects: bytes by key.

mod files;
mod input;
mod list;
mod measure;

use std::collections::HashMap;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::primitives::{ByteStream, DateTime};
use aws_sdk_s3::types::ChecksumMode;
use bytes::Bytes;
use jiff::Timestamp;
use model::fault::{error_sentence, shortened};
use ports::action::{DELETE, DELETE_VERSION, LIST, LIST_VERSIONS};

use crate::StoreError;

pub(crate) use files::{ObjectStream, Payload};
pub use input::{INPUT_PART_BYTES, InputBucket, InputError};
pub(crate) use list::ListDepth;
pub use measure::{MeasuredData, measure_data};

const GET: &str = "s3:GetObject";
const PUT: &str = "s3:PutObject";

const JSON: &str = "application/json";
/// Limit of a key in an error, in characters. A key that Curfew writes is shorter, unless a tag fills it.
const ADDRESS_CHARACTERS_MAX: usize = 300;

/// A conditional write that collides with another one is tried this often. S3 refuses it only while the other one is in progress.
const CONFLICT_TRIES: u32 = 5;

/// The pause before the second try; each further pause is twice as long.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);

pub(crate) enum WriteCondition<'a> {
    None,
    /// The object still has this `ETag`; `None`: it is still absent.
    StillAt(Option<&'a str>),
}

/// An object as it was read.
pub(crate) struct StoredObject {
    pub(crate) bytes: Vec<u8>,
    pub(crate) etag: Option<String>,
    pub(crate) metadata: HashMap<String, String>,
}

/// An object as it was read, however large.
pub(crate) struct FoundObject {
    /// Its content; or its size in bytes, if that exceeds the limit.
    pub(crate) bytes: Result<Vec<u8>, usize>,
    /// The identity of exactly these bytes.
    pub(crate) by: ObjectVersion,
    /// Time of the write by S3's clock, to the second.
    pub(crate) written_at: Timestamp,
    /// Metadata as it was written with the object.
    pub(crate) metadata: HashMap<String, String>,
}

/// The identity of a written object.
pub(crate) struct ObjectVersion {
    pub(crate) etag: Option<String>,
    /// `None` in a bucket without versions (Amazon S3 API reference, "`GetObject`").
    pub(crate) version: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    client: Client,
    name: String,
    /// `true` if a denied read lists the key, to learn whether the object exists.
    asks_listing: bool,
}

impl Bucket {
    pub(crate) fn new(config: &SdkConfig, name: String) -> Self {
        // A local S3 has no host name for each bucket.
        let s3 = aws_sdk_s3::config::Builder::from(config).force_path_style(config.endpoint_url().is_some());
        Self { client: Client::from_conf(s3.build()), name, asks_listing: false }
    }

    pub(crate) fn asking_listing(self) -> Self {
        Self { asks_listing: true, ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The object's name for people, cut: a key that S3 refuses has any length.
    pub(crate) fn address(&self, key: &str) -> String {
        format!("s3://{}/{}", self.name, shortened(key, ADDRESS_CHARACTERS_MAX))
    }

    /// Reads an object; `None` if it is absent.
    pub(crate) async fn get(&self, key: &str, bytes_max: usize) -> Result<Option<StoredObject>, StoreError> {
        let Some(FoundObject { bytes, by, metadata, .. }) = self.find(key, bytes_max).await? else { return Ok(None) };
        let too_large = |bytes| StoreError::TooLarge { address: self.address(key), bytes, bytes_max };
        let bytes = bytes.map_err(too_large)?;
        Ok(Some(StoredObject { bytes, etag: by.etag, metadata }))
    }

    /// Reads an object that may be too large; `None` if it is absent. Size and version belong to the same object.
    pub(crate) async fn find(&self, key: &str, bytes_max: usize) -> Result<Option<FoundObject>, StoreError> {
        match self.client.get_object().bucket(&self.name).key(key).send().await {
            Ok(output) => self.body(key, output, bytes_max).await.map(Some),
            Err(error) if error.code() == Some("NoSuchKey") => Ok(None),
            Err(error) if self.is_absent(key, &error).await => Ok(None),
            Err(error) => Err(self.failed(GET, key, &error)),
        }
    }

    /// Returns `true` if a read was denied only because the object is absent. The listing has a permission of its own; if that is denied
    /// too, the answer is unknown, and the read has failed. The key itself is the first of all keys with this prefix.
    pub(super) async fn is_absent<E>(&self, key: &str, error: &SdkError<E>) -> bool {
        // An answer to HEAD has no code.
        let is_denied = error.raw_response().is_some_and(|answer| answer.status().as_u16() == 403);
        if !self.asks_listing || !is_denied {
            return false;
        }
        let listed = self.list_first(key).await;
        listed.is_ok_and(|first| first.is_none_or(|first| first != key))
    }

    async fn body(&self, key: &str, output: GetObjectOutput, bytes_max: usize) -> Result<FoundObject, StoreError> {
        let by = ObjectVersion { etag: output.e_tag, version: version(output.version_id) };
        let written_at = moment(output.last_modified.as_ref());
        let metadata = output.metadata.unwrap_or_default();
        let length = output.content_length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default();
        if length > bytes_max {
            return Ok(FoundObject { bytes: Err(length), by, written_at, metadata });
        }
        let (mut bytes, mut body) = (Vec::with_capacity(length), output.body);
        while let Some(chunk) = body.next().await {
            let chunk =
                chunk.map_err(|error| StoreError::call(GET, self.address(key), None, &error_sentence(&error)))?;
            if bytes.len() + chunk.len() > bytes_max {
                return Ok(FoundObject { bytes: Err(bytes.len() + chunk.len()), by, written_at, metadata });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(FoundObject { bytes: Ok(bytes), by, written_at, metadata })
    }

    /// The bucket's policy, a JSON document; `None` if it has none.
    pub(crate) async fn policy(&self) -> Result<Option<String>, StoreError> {
        match self.client.get_bucket_policy().bucket(&self.name).send().await {
            Ok(found) => Ok(found.policy),
            Err(error) if error.code() == Some("NoSuchBucketPolicy") => Ok(None),
            Err(error) => Err(self.failed("s3:GetBucketPolicy", "", &error)),
        }
    }

    /// Deletes an object, if it exists. In a bucket with versions the bytes stay as an older version.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let answer = self.client.delete_object().bucket(&self.name).key(key).send().await;
        answer.map(drop).map_err(|error| self.failed(DELETE, key, &error))
    }

    /// Returns `true` if there is an object at that key.
    pub(crate) async fn has(&self, key: &str) -> Result<bool, StoreError> {
        self.head(key).await.map(|found| found.is_some())
    }

    /// The SHA-256 that S3 keeps of an object, in S3's form; `None` if it keeps none, or there is no object. For an object in parts that is
    /// the checksum of the parts' checksums, `-` and their number (Amazon S3 user guide, "Checking object integrity").
    pub(crate) async fn read_sha256(&self, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.head(key).await?.and_then(|found| found.checksum_sha256))
    }

    /// Time at which the object at that key was written, to the second; `None` if there is none.
    pub(crate) async fn written_at(&self, key: &str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.head(key).await?.map(|found| moment(found.last_modified.as_ref())))
    }

    async fn head(&self, key: &str) -> Result<Option<HeadObjectOutput>, StoreError> {
        let head = self.client.head_object().bucket(&self.name).key(key).checksum_mode(ChecksumMode::Enabled);
        match head.send().await {
            Ok(found) => Ok(Some(found)),
            // An answer without a body, so without a code of S3 (Amazon S3 API reference, "`HeadObject`").
            Err(error) if error.raw_response().is_some_and(|answer| answer.status().as_u16() == 404) => Ok(None),
            Err(error) if self.is_absent(key, &error).await => Ok(None),
            Err(error) => Err(self.failed(GET, key, &error)),
        }
    }

    /// Writes a JSON document.
    pub(crate) async fn put(
        &self,
        key: &str,
        bytes: Vec<u8>,
        condition: WriteCondition<'_>,
    ) -> Result<ObjectVersion, StoreError> {
        self.put_as(JSON, key, bytes, condition).await
    }

    /// Writes an object of that media type.
    pub(crate) async fn put_as(
        &self,
        media_type: &str,
        key: &str,
        bytes: Vec<u8>,
        condition: WriteCondition<'_>,
    ) -> Result<ObjectVersion, StoreError> {
        self.put_with_metadata(media_type, key, bytes, condition, HashMap::new()).await
    }

    /// Writes an object of that media type, with its metadata.
    pub(crate) async fn put_with_metadata(
        &self,
        media_type: &str,
        key: &str,
        bytes: Vec<u8>,
        condition: WriteCondition<'_>,
        metadata: HashMap<String, String>,
    ) -> Result<ObjectVersion, StoreError> {
        let (bytes, mut tries, mut pause) = (Bytes::from(bytes), 1..CONFLICT_TRIES, CONFLICT_PAUSE);
        loop {
            let put = self.client.put_object().bucket(&self.name).key(key).content_type(media_type);
            let put = put.body(ByteStream::from(bytes.clone())).set_metadata(Some(metadata.clone()));
            let put = match condition {
                WriteCondition::None => put,
                WriteCondition::StillAt(Some(etag)) => put.if_match(etag),
                WriteCondition::StillAt(None) => put.if_none_match("*"),
            };
            // On the heap: each future that writes an object would have it in it.
            let error = match Box::pin(put.send()).await {
                Ok(written) => return Ok(ObjectVersion { etag: written.e_tag, version: version(written.version_id) }),
                Err(error) => error,
            };
            match (WriteRefusal::from_code(error.code()), &condition) {
                // The same condition again: if the object has another `ETag` by then, S3 answers 412.
                (Some(WriteRefusal::Conflict), _) if tries.next().is_some() => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                (Some(WriteRefusal::Conflict), _) => return Err(StoreError::Conflict { address: self.address(key) }),
                (Some(WriteRefusal::Precondition), _) => {
                    return self.accept_if_already_written(key, &bytes, &metadata).await;
                }
                (Some(WriteRefusal::Gone), WriteCondition::StillAt(Some(_))) => {
                    return Err(StoreError::Lost { address: self.address(key) });
                }
                _ => return Err(self.failed(PUT, key, &error)),
            }
        }
    }

    /// Accepts a write that got a 412 if the object has exactly these bytes and metadata. The SDK retries a write after a lost answer, and
    /// S3 refuses the retry.
    async fn accept_if_already_written(
        &self,
        key: &str,
        bytes: &[u8],
        metadata: &HashMap<String, String>,
    ) -> Result<ObjectVersion, StoreError> {
        match self.find(key, bytes.len()).await? {
            Some(FoundObject { bytes: Ok(there), by, metadata: of_it, .. })
                if there == bytes && metadata.iter().all(|(name, value)| of_it.get(name) == Some(value)) =>
            {
                Ok(by)
            }
            _ => Err(StoreError::Lost { address: self.address(key) }),
        }
    }

    fn failed<E>(&self, action: &'static str, key: &str, error: &SdkError<E>) -> StoreError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let said = match (error.code(), error.message()) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code.to_owned(),
            (None, _) => error_sentence(error),
        };
        if matches!(error, SdkError::DispatchFailure(_)) {
            return StoreError::unreached(action, self.address(key), &said);
        }
        StoreError::call(action, self.address(key), error.code(), &said)
    }
}

/// An object from before versioning has this version (Amazon S3 user guide, "How S3 Versioning works").
fn version(id: Option<String>) -> Option<String> {
    id.filter(|id| id != "null")
}

/// Converts a time, to the second; an absent time is long ago.
fn moment(at: Option<&DateTime>) -> Timestamp {
    at.and_then(|at| Timestamp::from_second(at.secs()).ok()).unwrap_or(Timestamp::MIN)
}

/// Reason for a refused conditional write (Amazon S3 user guide, "How to prevent object overwrites with conditional writes").
enum WriteRefusal {
    /// 409: another write or deletion of the object is in progress. Nothing was written, and the write must be repeated.
    Conflict,
    /// 412: the condition does not hold.
    Precondition,
    /// 404: the object to replace is gone.
    Gone,
}

impl WriteRefusal {
    fn from_code(code: Option<&str>) -> Option<Self> {
        match code? {
            "ConditionalRequestConflict" => Some(Self::Conflict),
            "PreconditionFailed" => Some(Self::Precondition),
            "NoSuchKey" => Some(Self::Gone),
            _ => None,
        }
    }
}
