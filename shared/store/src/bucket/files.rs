//! Objects that are no documents: files of any size, in parts.

use aws_runtime::auth::PayloadSigningOverride;
use aws_sdk_s3::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_s3::config::{Builder, ConfigBag, Intercept, ResponseChecksumValidation, RuntimeComponents};
use aws_sdk_s3::error::{BoxError, ProvideErrorMetadata};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier};
use aws_smithy_types::base64;
use bytes::Bytes;
use domain::fault::sentence;

use super::{Bucket, DELETE, GET, PUT};
use crate::error::StoreError;

/// So many are deleted by one call (Amazon S3 API reference, "`DeleteObjects`").
const DELETED_AT_ONCE: usize = 1_000;

/// Bytes to be written, and what is known of them.
///
/// The SDK would hash them twice more: SHA-256 to sign them, and CRC-32 for S3 to compare. That is most of what an upload takes.
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

    /// As S3 compares it with what arrives (Amazon S3 user guide, "Checking object integrity").
    fn checksum(&self) -> String {
        let digit = |at: usize| self.sha256.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        base64::encode((0..self.sha256.len()).step_by(2).filter_map(digit).collect::<Vec<u8>>())
    }

    fn signed(&self) -> Signed {
        Signed(self.sha256.clone())
    }
}

/// Signs a request by the SHA-256 of its body that is known already.
#[derive(Debug)]
struct Signed(String);

impl Intercept for Signed {
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
pub(crate) struct Pieces {
    body: ByteStream,
    address: String,
}

impl Pieces {
    /// The next one; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let piece = self.body.next().await.transpose();
        piece.map_err(|error| StoreError::call(GET, self.address.clone(), None, &sentence(&error)))
    }
}

impl Bucket {
    /// Writes a file in one request.
    pub(crate) async fn put_file(&self, key: &str, payload: &Payload) -> Result<(), StoreError> {
        let put = self.client.put_object().bucket(&self.name).key(key).body(payload.body());
        let put = put.checksum_sha256(payload.checksum()).customize().interceptor(payload.signed()).send().await;
        put.map(drop).map_err(|error| self.failed(PUT, key, &error))
    }

    /// Begins a file in parts; gives the upload's id.
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

    /// Makes a file of its parts.
    pub(crate) async fn complete_upload(
        &self,
        key: &str,
        upload: &str,
        parts: Vec<CompletedPart>,
    ) -> Result<(), StoreError> {
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let complete = self.client.complete_multipart_upload().bucket(&self.name).key(key).upload_id(upload);
        let completed = complete.multipart_upload(parts).send().await;
        completed.map(drop).map_err(|error| self.failed(PUT, key, &error))
    }

    /// Gives an upload up. Where that fails, a rule of the bucket deletes its parts some day.
    pub(crate) async fn abort_upload(&self, key: &str, upload: &str) {
        let _ = self.client.abort_multipart_upload().bucket(&self.name).key(key).upload_id(upload).send().await;
    }

    /// So many bytes of an object, as they come; `None` where there is none, or it is shorter. Whoever asks compares them with a
    /// checksum, and so the SDK does not.
    pub(crate) async fn get_range(&self, key: &str, (start, length): (u64, u64)) -> Result<Option<Pieces>, StoreError> {
        let range = format!("bytes={start}-{}", start + length.max(1) - 1);
        let unchecked = Builder::new().response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        let asked = self.client.get_object().bucket(&self.name).key(key).range(range);
        let output = match asked.customize().config_override(unchecked).send().await {
            Ok(output) => output,
            // Amazon S3 API reference, "Error responses".
            Err(error) if matches!(error.code(), Some("NoSuchKey" | "InvalidRange")) => return Ok(None),
            Err(error) => return Err(self.failed(GET, key, &error)),
        };
        let whole = output.content_length.is_some_and(|found| u64::try_from(found) == Ok(length));
        Ok(whole.then(|| Pieces { body: output.body, address: self.address(key) }))
    }

    /// Deletes objects; one that is not there counts as deleted.
    pub(crate) async fn delete_all(&self, keys: &[String]) -> Result<(), StoreError> {
        for keys in keys.chunks(DELETED_AT_ONCE) {
            let first = keys.first().map_or("", String::as_str);
            let named = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build());
            let unnamed =
                |error: &dyn std::error::Error| StoreError::call(DELETE, self.address(first), None, &error.to_string());
            let named = named.collect::<Result<Vec<_>, _>>().map_err(|error| unnamed(&error))?;
            let all = Delete::builder().set_objects(Some(named)).quiet(true).build();
            let all = all.map_err(|error| unnamed(&error))?;
            let deleted = self.client.delete_objects().bucket(&self.name).delete(all).send().await;
            let deleted = deleted.map_err(|error| self.failed(DELETE, first, &error))?;
            if let Some(refused) = deleted.errors().first() {
                let key = refused.key().unwrap_or(first);
                let said = refused.message().unwrap_or("S3 refused it");
                return Err(StoreError::call(DELETE, self.address(key), refused.code(), said));
            }
        }
        Ok(())
    }
}
