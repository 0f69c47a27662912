//! Objects that are not documents: files of any size, in parts.

use aws_runtime::auth::PayloadSigningOverride;
use aws_sdk_s3::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_s3::config::{Builder, ConfigBag, Intercept, ResponseChecksumValidation, RuntimeComponents};
use aws_sdk_s3::error::{BoxError, ProvideErrorMetadata};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier};
use aws_smithy_types::base64;
use bytes::Bytes;
use futures::stream::{self, TryStreamExt};
use jobs::checkpoints::ManifestFile;
use model::fault::error_sentence;

use super::{Bucket, DELETE_VERSION, GET, LIST_VERSIONS, PUT};
use crate::StoreError;

/// Pages of 1,000 versions that are deleted at once, while the next one is listed.
const DELETIONS: usize = 4;

/// Bytes to write, and their checksum.
///
/// The SDK would hash them twice more: SHA-256 to sign them, and CRC-32 for S3 to compare. Hashing takes most of an upload's time.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    pub(crate) bytes: Bytes,
    /// Their SHA-256, in hex.
    pub(crate) sha256: String,
}

impl Payload {
    fn body(&self) -> ByteStream {
        ByteStream::from(self.bytes.clone())
    }

    /// Checksum in S3's form (Amazon S3 user guide, "Checking object integrity").
    pub(crate) fn checksum(&self) -> String {
        base64::encode(from_hex(&self.sha256))
    }

    fn signed(&self) -> PayloadSigner {
        PayloadSigner(self.sha256.clone())
    }
}

fn from_hex(digits: &str) -> Vec<u8> {
    let digit = |at: usize| digits.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    (0..digits.len()).step_by(2).filter_map(digit).collect()
}

/// S3's checksum of an object in parts: the checksum of the parts' checksums, and their number (Amazon S3 user guide, "Checking object
/// integrity", on composite checksums).
fn composite(digests: &[String]) -> String {
    let joined: Vec<u8> = digests.iter().flat_map(|digest| from_hex(digest)).collect();
    format!("{}-{}", base64::encode(from_hex(&ManifestFile::digest(&joined))), digests.len())
}

/// Signs a request with the known SHA-256 of its body.
#[derive(Debug)]
struct PayloadSigner(String);

impl Intercept for PayloadSigner {
    fn name(&self) -> &'static str {
        "Signed"
    }

    fn modify_before_signing(
        &self,
        _context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        config.interceptor_state().store_put(PayloadSigningOverride::Precomputed(self.0.clone()));
        Ok(())
    }
}

/// Some of an object, as it comes.
pub(crate) struct ObjectStream {
    pub(super) body: ByteStream,
    pub(super) address: String,
}

impl ObjectStream {
    /// The next one; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let piece = self.body.next().await.transpose();
        piece.map_err(|error| StoreError::call(GET, self.address.clone(), None, &error_sentence(&error)))
    }
}

impl Bucket {
    /// Writes a file in one request.
    pub(crate) async fn put_file(&self, key: &str, payload: &Payload) -> Result<(), StoreError> {
        let put = self.client.put_object().bucket(&self.name).key(key).body(payload.body());
        let put = put.checksum_sha256(payload.checksum()).customize().interceptor(payload.signed()).send().await;
        put.map(drop).map_err(|error| self.failed(PUT, key, &error))
    }

    /// Begins a file in parts; returns the upload's id.
    pub(crate) async fn begin_upload(&self, key: &str) -> Result<String, StoreError> {
        let begun = self.client.create_multipart_upload().bucket(&self.name).key(key);
        let begun = begun.checksum_algorithm(ChecksumAlgorithm::Sha256).send().await;
        let begun = begun.map_err(|error| self.failed(PUT, key, &error))?;
        begun.upload_id.ok_or_else(|| StoreError::call(PUT, self.address(key), None, "the upload was given no id"))
    }

    /// Writes a part; they are numbered from 1 on.
    pub(crate) async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: i32,
        payload: &Payload,
    ) -> Result<CompletedPart, StoreError> {
        let part = self.client.upload_part().bucket(&self.name).key(key).upload_id(upload).part_number(number);
        let part = part.body(payload.body()).checksum_sha256(payload.checksum());
        let part = part.customize().interceptor(payload.signed()).send().await;
        let part = part.map_err(|error| self.failed(PUT, key, &error))?;
        let done = CompletedPart::builder().part_number(number).set_e_tag(part.e_tag);
        Ok(done.checksum_sha256(payload.checksum()).build())
    }

    /// Assembles a file from its parts, with their SHA-256 in `digests`, in hex.
    ///
    /// S3 forgets a completed upload. So if an answer was lost and the retry is refused, the checksum of the object shows whether the
    /// upload was completed.
    pub(crate) async fn complete_upload(
        &self,
        key: &str,
        upload: &str,
        parts: Vec<CompletedPart>,
        digests: &[String],
    ) -> Result<(), StoreError> {
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let complete = self.client.complete_multipart_upload().bucket(&self.name).key(key).upload_id(upload);
        match complete.multipart_upload(parts).send().await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("NoSuchUpload") => {
                let there = self.read_sha256(key).await?;
                if there == Some(composite(digests)) { Ok(()) } else { Err(self.failed(PUT, key, &error)) }
            }
            Err(error) => Err(self.failed(PUT, key, &error)),
        }
    }

    /// Aborts an upload. If that fails, a lifecycle rule of the bucket deletes its parts later.
    pub(crate) async fn abort_upload(&self, key: &str, upload: &str) {
        let _ = self.client.abort_multipart_upload().bucket(&self.name).key(key).upload_id(upload).send().await;
    }

    /// A range of an object as a stream; `None` if the object is absent or shorter. The caller compares a checksum, so the SDK does not.
    pub(crate) async fn get_range(
        &self,
        key: &str,
        (start, length): (u64, u64),
    ) -> Result<Option<ObjectStream>, StoreError> {
        let range = format!("bytes={start}-{}", start.saturating_add(length.max(1)).saturating_sub(1));
        let unchecked = Builder::new().response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        let asked = self.client.get_object().bucket(&self.name).key(key).range(range);
        let output = match asked.customize().config_override(unchecked).send().await {
            Ok(output) => output,
            // Amazon S3 API reference, "Error responses".
            Err(error) if matches!(error.code(), Some("NoSuchKey" | "InvalidRange")) => return Ok(None),
            Err(error) if self.is_absent(key, &error).await => return Ok(None),
            Err(error) => return Err(self.failed(GET, key, &error)),
        };
        let whole = output.content_length.is_some_and(|found| u64::try_from(found) == Ok(length));
        Ok(whole.then(|| ObjectStream { body: output.body, address: self.address(key) }))
    }

    /// Deletes every version of every object below a prefix, so that it costs nothing any more. In a bucket with versions a deletion
    /// without a version only hides the object, and its bytes are still billed (Amazon S3 user guide, "Deleting object versions from a
    /// versioning-enabled bucket").
    pub(crate) async fn delete_versions(&self, prefix: &str) -> Result<(), StoreError> {
        let pages = stream::try_unfold(Some(PageMarker::default()), |marker| async move {
            let Some(marker) = marker else { return Ok(None) };
            self.list_versions(prefix, marker).await.map(Some)
        });
        pages.try_for_each_concurrent(DELETIONS, |page| self.delete_page(prefix, page)).await
    }

    /// A page of versions and delete markers, and where the next one begins.
    async fn list_versions(
        &self,
        prefix: &str,
        PageMarker { key, version }: PageMarker,
    ) -> Result<(Vec<ObjectIdentifier>, Option<PageMarker>), StoreError> {
        let page = self.client.list_object_versions().bucket(&self.name).prefix(prefix);
        let page = page.set_key_marker(key).set_version_id_marker(version).send().await;
        let page = page.map_err(|error| self.failed(LIST_VERSIONS, prefix, &error))?;
        let versions = page.versions().iter().map(|one| (one.key(), one.version_id()));
        let markers = page.delete_markers().iter().map(|one| (one.key(), one.version_id()));
        let identified = versions.chain(markers).map(|(key, version)| {
            ObjectIdentifier::builder()
                .set_key(key.map(str::to_owned))
                .set_version_id(version.map(str::to_owned))
                .build()
        });
        let identified = identified.collect::<Result<Vec<_>, _>>().map_err(|error| self.unnamed(prefix, &error))?;
        let has_more = page.is_truncated() == Some(true);
        let next = PageMarker { key: page.next_key_marker, version: page.next_version_id_marker };
        Ok((identified, has_more.then_some(next)))
    }

    /// Deletes the versions of one page. `DeleteObjects` takes as many as a page of a list: 1,000 (Amazon S3 API reference).
    async fn delete_page(&self, prefix: &str, page: Vec<ObjectIdentifier>) -> Result<(), StoreError> {
        if page.is_empty() {
            return Ok(());
        }
        let all = Delete::builder().set_objects(Some(page)).quiet(true).build();
        let all = all.map_err(|error| self.unnamed(prefix, &error))?;
        let deleted = self.client.delete_objects().bucket(&self.name).delete(all).send().await;
        let deleted = deleted.map_err(|error| self.failed(DELETE_VERSION, prefix, &error))?;
        let Some(refused) = deleted.errors().first() else { return Ok(()) };
        let key = refused.key().unwrap_or(prefix);
        let said = refused.message().unwrap_or("S3 refused it");
        Err(StoreError::call(DELETE_VERSION, self.address(key), refused.code(), said))
    }

    fn unnamed(&self, prefix: &str, error: &dyn std::error::Error) -> StoreError {
        StoreError::call(DELETE_VERSION, self.address(prefix), None, &error.to_string())
    }
}

/// The start of a page of versions; empty for the first one.
#[derive(Default)]
struct PageMarker {
    key: Option<String>,
    version: Option<String>,
}
