//! Objects that are no documents: files of any size, in parts.

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier};

use super::{Bucket, DELETE, GET, PUT};
use crate::error::StoreError;

/// So many are deleted by one call (Amazon S3 API reference, "`DeleteObjects`").
const DELETED_AT_ONCE: usize = 1_000;

impl Bucket {
    /// Writes a file in one request.
    pub(crate) async fn put_file(&self, key: &str, body: ByteStream) -> Result<(), StoreError> {
        let put = self.client.put_object().bucket(&self.name).key(key).body(body).send().await;
        put.map(drop).map_err(|error| self.failed(PUT, key, &error))
    }

    /// Begins a file in parts; gives the upload's id.
    pub(crate) async fn begin_upload(&self, key: &str) -> Result<String, StoreError> {
        // The SDK sends a CRC-32 with each part, which S3 compares (Amazon S3 user guide, "Checking object integrity").
        let begun = self.client.create_multipart_upload().bucket(&self.name).key(key);
        let begun = begun.checksum_algorithm(aws_sdk_s3::types::ChecksumAlgorithm::Crc32).send().await;
        let begun = begun.map_err(|error| self.failed(PUT, key, &error))?;
        begun.upload_id.ok_or_else(|| StoreError::call(PUT, self.address(key), None, "the upload was given no id"))
    }

    /// Writes a part; they are numbered from 1 on.
    pub(crate) async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: i32,
        body: ByteStream,
    ) -> Result<CompletedPart, StoreError> {
        let part = self.client.upload_part().bucket(&self.name).key(key).upload_id(upload).part_number(number);
        let part = part.checksum_algorithm(aws_sdk_s3::types::ChecksumAlgorithm::Crc32).body(body).send().await;
        let part = part.map_err(|error| self.failed(PUT, key, &error))?;
        let done = CompletedPart::builder().part_number(number).set_e_tag(part.e_tag);
        Ok(done.set_checksum_crc32(part.checksum_crc32).build())
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

    /// So many bytes of an object; `None` where there is none, or it is shorter.
    pub(crate) async fn get_range(
        &self,
        key: &str,
        (start, length): (u64, u64),
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let range = format!("bytes={start}-{}", start + length.max(1) - 1);
        let output = match self.client.get_object().bucket(&self.name).key(key).range(range).send().await {
            Ok(output) => output,
            // Amazon S3 API reference, "Error responses".
            Err(error) if matches!(error.code(), Some("NoSuchKey" | "InvalidRange")) => return Ok(None),
            Err(error) => return Err(self.failed(GET, key, &error)),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        match self.body(key, output, length).await {
            Ok(object) if object.bytes.len() == length => Ok(Some(object.bytes)),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        }
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
