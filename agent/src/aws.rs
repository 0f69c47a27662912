//! AWS besides the bucket, which has a region of its own.

use std::error::Error;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_ssm::error::ProvideErrorMetadata;
use model::fault::error_sentence;

/// The environment's configuration, in that region.
pub(crate) async fn config(region: String) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest()).region(Region::new(region)).load().await
}

/// What AWS said, or why it said nothing.
pub(crate) fn said<E: Error + ProvideErrorMetadata>(error: &E) -> String {
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => error_sentence(error),
    }
}
