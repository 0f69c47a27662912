//! AWS besides the bucket, which may be in another region.

use std::error::Error;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use model::fault::error_sentence;

/// The environment's configuration, in that region.
pub(crate) async fn config(region: String) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest()).region(Region::new(region)).load().await
}

/// The code and message of AWS, or why there is no answer.
pub(crate) fn said<E: Error + ProvideErrorMetadata>(error: &E) -> String {
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => error_sentence(error),
    }
}
