//! The size of the data under a prefix of another bucket, and the region of that bucket.

use std::time::Duration;

use aws_config::SdkConfig;
use model::id::Region;
use ports::action::LIST;

use super::{Bucket, InputBucket, InputError, ListDepth};
use crate::StoreError;

/// 100,000 objects, which cost $0.0005 to list (Amazon S3 pricing, us-east-1, 2026-11: $0.005 for 1,000 requests).
const PAGES_MAX: usize = 100;
const KEYS_PER_PAGE: usize = 1_000;

/// The timeout for a waiting person.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Size of the data under a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredData {
    pub region: Region,
    pub bytes: u64,
    pub objects: u64,
}

/// Lists all objects under a prefix of any bucket that the credentials may list.
///
/// # Errors
/// If there is no such bucket, S3 refuses or does not answer in time, or there are more than 100,000 objects.
pub async fn measure_data(config: &SdkConfig, bucket: &str, prefix: &str) -> Result<MeasuredData, InputError> {
    let asked = async {
        let InputBucket { bucket: there } = InputBucket::open(config, bucket).await?;
        let unknown = || InputError::Refused(format!("S3 does not say in which region the bucket {bucket} is"));
        let region = Region::from(there.client.config().region().ok_or_else(unknown)?.as_ref());
        let (bytes, objects) = there.measure(prefix).await?;
        Ok(MeasuredData { region, bytes, objects })
    };
    let late = |_| {
        let words = format!("no answer within {TIMEOUT:?}");
        Err(StoreError::unreached(LIST, format!("s3://{bucket}/{prefix}"), &words).into())
    };
    tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(late)
}

impl Bucket {
    async fn measure(&self, prefix: &str) -> Result<(u64, u64), StoreError> {
        let mut pages = self.listing(prefix, ListDepth::All, None).into_paginator().send();
        let (mut bytes, mut objects) = (0_u64, 0_u64);
        for _ in 0..PAGES_MAX {
            let Some(page) = pages.next().await else { return Ok((bytes, objects)) };
            let page = page.map_err(|error| self.failed(LIST, prefix, &error))?;
            for object in page.contents() {
                objects = objects.saturating_add(1);
                bytes = bytes.saturating_add(object.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(0));
            }
        }
        match pages.next().await {
            None => Ok((bytes, objects)),
            Some(_) => Err(StoreError::TooMany { address: self.address(prefix), keys_max: PAGES_MAX * KEYS_PER_PAGE }),
        }
    }
}
