//! The region of a bucket with data of others, and the size of the data under a prefix.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_s3::types::BucketLocationConstraint;
use model::id::Region;
use ports::action::LIST;

use super::{Bucket, ListDepth};
use crate::StoreError;

const LOCATION: &str = "s3:GetBucketLocation";

/// 100,000 objects, which cost $0.0005 to list (Amazon S3 pricing, us-east-1, 2026-11: $0.005 for 1,000 requests).
const PAGES_MAX: usize = 100;
const KEYS_PER_PAGE: usize = 1_000;

/// The timeout for a waiting person.
const TIMEOUT: Duration = Duration::from_mins(1);

/// What lies under a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredData {
    pub region: Region,
    pub bytes: u64,
    pub objects: u64,
}

/// Lists all objects under a prefix of any bucket that the credentials may list; needs `s3:GetBucketLocation` and `s3:ListBucket`.
///
/// # Errors
/// If S3 refuses, does not answer in time, or there are more than 100,000 objects.
pub async fn measure_data(config: &SdkConfig, bucket: &str, prefix: &str) -> Result<MeasuredData, StoreError> {
    let asked = async {
        let region = Bucket::new(config, bucket.to_owned()).location().await?;
        // S3 answers only in the bucket's region (Amazon S3 user guide, "Request routing").
        let there = config.clone().into_builder().region(aws_config::Region::new(region.as_str().to_owned())).build();
        let (bytes, objects) = Bucket::new(&there, bucket.to_owned()).measure(prefix).await?;
        Ok(MeasuredData { region, bytes, objects })
    };
    let late = |_| {
        Err(StoreError::unreached(LIST, format!("s3://{bucket}/{prefix}"), &format!("no answer within {TIMEOUT:?}")))
    };
    tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(late)
}

impl Bucket {
    async fn location(&self) -> Result<Region, StoreError> {
        let answer = self.client.get_bucket_location().bucket(&self.name).send().await;
        let answer = answer.map_err(|error| self.failed(LOCATION, "", &error))?;
        // Amazon S3 API reference, "GetBucketLocation": buckets in us-east-1 have none, and old ones in Ireland have this.
        Ok(match answer.location_constraint().map(BucketLocationConstraint::as_str) {
            None | Some("") => Region::from("us-east-1"),
            Some("EU") => Region::from("eu-west-1"),
            Some(region) => Region::from(region),
        })
    }

    async fn measure(&self, prefix: &str) -> Result<(u64, u64), StoreError> {
        let mut pages = self.listing(prefix, ListDepth::All, None).into_paginator().send();
        let (mut bytes, mut objects) = (0_u64, 0_u64);
        for _ in 0..PAGES_MAX {
            let Some(page) = pages.next().await else { return Ok((bytes, objects)) };
            let page = page.map_err(|error| self.failed(LIST, prefix, &error))?;
            for object in page.contents() {
                objects += 1;
                bytes = bytes.saturating_add(object.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(0));
            }
        }
        match pages.next().await {
            None => Ok((bytes, objects)),
            Some(_) => Err(StoreError::TooMany { address: self.address(prefix), keys_max: PAGES_MAX * KEYS_PER_PAGE }),
        }
    }
}
