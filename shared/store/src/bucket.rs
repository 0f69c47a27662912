//! Objects: bytes by key.

mod files;

use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::{ByteStream, DateTime};
use domain::fault::sentence;
use jiff::Timestamp;

use crate::error::StoreError;

pub(crate) use files::{Payload, Pieces};

const GET: &str = "s3:GetObject";
const PUT: &str = "s3:PutObject";
pub(crate) const LIST: &str = "s3:ListBucket";
pub(crate) const DELETE: &str = "s3:DeleteObject";

const JSON: &str = "application/json";

/// What must hold for a write.
pub(crate) enum Condition<'a> {
    /// Nothing.
    None,
    /// That this `ETag` is still there; `None`: that there is still nothing.
    StillAt(Option<&'a str>),
}

/// An object as it was read.
pub(crate) struct Object {
    pub(crate) bytes: Vec<u8>,
    pub(crate) etag: Option<String>,
    /// `None` in a bucket without versions (Amazon S3 API reference, "`GetObject`").
    pub(crate) version: Option<String>,
    /// To the second, by S3's clock.
    pub(crate) written_at: Timestamp,
}

/// An object as it was read, however large.
pub(crate) struct Found {
    /// What is in it; or of how many bytes it is, where that is more than was to be read.
    pub(crate) bytes: Result<Vec<u8>, usize>,
    /// By what exactly these bytes are known.
    pub(crate) by: Written,
    /// To the second, by S3's clock.
    pub(crate) written_at: Timestamp,
}

/// An object by its name.
pub(crate) struct Listed {
    pub(crate) key: String,
    /// To the second.
    pub(crate) written_at: Timestamp,
}

/// By what an object is known once it is written.
pub(crate) struct Written {
    pub(crate) etag: Option<String>,
    pub(crate) version: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    client: Client,
    name: String,
}

impl Bucket {
    pub(crate) fn new(config: &SdkConfig, name: String) -> Self {
        // A stand-in for S3 has no host name of its own for each bucket.
        let s3 = aws_sdk_s3::config::Builder::from(config).force_path_style(config.endpoint_url().is_some());
        Self { client: Client::from_conf(s3.build()), name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The object's name for people.
    pub(crate) fn address(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }

    /// Reads an object; `None` where there is none.
    pub(crate) async fn get(&self, key: &str, bytes_max: usize) -> Result<Option<Object>, StoreError> {
        let Some(Found { bytes, by, written_at }) = self.find(key, bytes_max).await? else { return Ok(None) };
        let too_large = |bytes| StoreError::TooLarge { address: self.address(key), bytes, bytes_max };
        let bytes = bytes.map_err(too_large)?;
        Ok(Some(Object { bytes, etag: by.etag, version: by.version, written_at }))
    }

    /// The same, where one that is too large is to be answered: its size and its version are those of one and the same object.
    pub(crate) async fn find(&self, key: &str, bytes_max: usize) -> Result<Option<Found>, StoreError> {
        match self.client.get_object().bucket(&self.name).key(key).send().await {
            Ok(output) => self.body(key, output, bytes_max).await.map(Some),
            Err(error) if error.code() == Some("NoSuchKey") => Ok(None),
            Err(error) => Err(self.failed(GET, key, &error)),
        }
    }

    async fn body(&self, key: &str, output: GetObjectOutput, bytes_max: usize) -> Result<Found, StoreError> {
        let by = Written { etag: output.e_tag, version: version(output.version_id) };
        let written_at = moment(output.last_modified.as_ref());
        let length = output.content_length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default();
        if length > bytes_max {
            return Ok(Found { bytes: Err(length), by, written_at });
        }
        let (mut bytes, mut body) = (Vec::with_capacity(length), output.body);
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|error| StoreError::call(GET, self.address(key), None, &sentence(&error)))?;
            if bytes.len() + chunk.len() > bytes_max {
                return Ok(Found { bytes: Err(bytes.len() + chunk.len()), by, written_at });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Found { bytes: Ok(bytes), by, written_at })
    }

    /// Every object whose key begins so, in order of keys.
    pub(crate) async fn list(&self, prefix: &str, keys_max: usize) -> Result<Vec<Listed>, StoreError> {
        let mut pages = self.client.list_objects_v2().bucket(&self.name).prefix(prefix).into_paginator().send();
        let mut all = Vec::new();
        // Of 1,000 keys each (Amazon S3 API reference, "ListObjectsV2").
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| self.failed(LIST, prefix, &error))?;
            for object in page.contents.unwrap_or_default() {
                let written_at = moment(object.last_modified.as_ref());
                all.extend(object.key.map(|key| Listed { key, written_at }));
            }
            if all.len() > keys_max {
                return Err(StoreError::TooMany { address: self.address(prefix), keys_max });
            }
        }
        Ok(all)
    }

    /// Every folder right under that one, which ends in `/`, in order, each with that one and its own `/`.
    pub(crate) async fn folders(&self, prefix: &str, folders_max: usize) -> Result<Vec<String>, StoreError> {
        let listing = self.client.list_objects_v2().bucket(&self.name).prefix(prefix).delimiter("/");
        let mut pages = listing.into_paginator().send();
        let mut all = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| self.failed(LIST, prefix, &error))?;
            all.extend(page.common_prefixes.unwrap_or_default().into_iter().filter_map(|folder| folder.prefix));
            if all.len() > folders_max {
                return Err(StoreError::TooMany { address: self.address(prefix), keys_max: folders_max });
            }
        }
        Ok(all)
    }

    /// Deletes an object, if there is one. In a bucket with versions the bytes stay as an older one.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let answer = self.client.delete_object().bucket(&self.name).key(key).send().await;
        answer.map(drop).map_err(|error| self.failed(DELETE, key, &error))
    }

    /// Whether there is an object at that key, whatever is in it.
    pub(crate) async fn has(&self, key: &str) -> Result<bool, StoreError> {
        match self.client.head_object().bucket(&self.name).key(key).send().await {
            Ok(_) => Ok(true),
            // An answer without a body, and so without a code of S3's own (Amazon S3 API reference, "`HeadObject`").
            Err(error) if error.raw_response().is_some_and(|answer| answer.status().as_u16() == 404) => Ok(false),
            Err(error) => Err(self.failed(GET, key, &error)),
        }
    }

    /// Writes a JSON document.
    pub(crate) async fn put(&self, key: &str, bytes: Vec<u8>, condition: Condition<'_>) -> Result<Written, StoreError> {
        self.put_as(JSON, key, bytes, condition).await
    }

    /// Writes an object of that media type.
    pub(crate) async fn put_as(
        &self,
        media_type: &str,
        key: &str,
        bytes: Vec<u8>,
        condition: Condition<'_>,
    ) -> Result<Written, StoreError> {
        let put = self
            .client
            .put_object()
            .bucket(&self.name)
            .key(key)
            .content_type(media_type)
            .body(ByteStream::from(bytes.clone()));
        let (put, conditional) = match condition {
            Condition::None => (put, false),
            Condition::StillAt(Some(etag)) => (put.if_match(etag), true),
            Condition::StillAt(None) => (put.if_none_match("*"), true),
        };
        match put.send().await {
            Ok(written) => Ok(Written { etag: written.e_tag, version: version(written.version_id) }),
            Err(error) if conditional && is_lost(error.code()) => {
                self.holding(key, &bytes).await.ok_or_else(|| StoreError::Lost { address: self.address(key) })
            }
            Err(error) => Err(self.failed(PUT, key, &error)),
        }
    }

    /// Where exactly this is there, by what it is known. A write whose answer was lost is repeated by the SDK, and the repeat refused
    /// for what the first one wrote.
    async fn holding(&self, key: &str, bytes: &[u8]) -> Option<Written> {
        let object = self.get(key, bytes.len()).await.ok().flatten()?;
        (object.bytes == bytes).then_some(Written { etag: object.etag, version: object.version })
    }

    fn failed<E>(&self, action: &'static str, key: &str, error: &SdkError<E>) -> StoreError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let said = match (error.code(), error.message()) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code.to_owned(),
            (None, _) => sentence(error),
        };
        StoreError::call(action, self.address(key), error.code(), &said)
    }
}

/// What was written while the bucket had no versions has this one (Amazon S3 user guide, "How S3 Versioning works").
fn version(id: Option<String>) -> Option<String> {
    id.filter(|id| id != "null")
}

/// To the second; what S3 does not say is long ago.
fn moment(at: Option<&DateTime>) -> Timestamp {
    at.and_then(|at| Timestamp::from_second(at.secs()).ok()).unwrap_or(Timestamp::MIN)
}

/// Amazon S3 API reference, "`PutObject`": 412 to whom comes too late, 409 to one of two that come at once, and 404 where
/// the object is gone that was to be replaced.
fn is_lost(code: Option<&str>) -> bool {
    matches!(code, Some("PreconditionFailed" | "ConditionalRequestConflict" | "NoSuchKey"))
}
