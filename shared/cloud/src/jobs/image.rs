//! What a machine boots.

use domain::id::{Region, ResourceId};
use domain::job::Image;

use crate::aws::Aws;

/// The image of that architecture in that region: the one that is named, or else the Deep Learning AMI of today.
///
/// # Errors
/// In words, where there is none, or none that can run a job.
pub async fn image(
    _aws: &Aws,
    region: &Region,
    architecture: &str,
    _ami: Option<&ResourceId>,
    _agent_sha256: &str,
) -> Result<Image, String> {
    Err(format!("no image is known of {architecture} in {region}"))
}
