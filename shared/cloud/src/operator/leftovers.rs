//! Leftovers of an uninstalled Curfew on resources of EC2, and their removal.

use model::id::{Region, ResourceId};
use model::volume::Snapshot;
use ports::{Cloud as _, Ec2Write};

use crate::aws::Aws;
use crate::error::CallError;
use crate::observe;

/// The account's snapshots of a region that are described as Curfew's.
///
/// # Errors
/// If EC2 did not answer in full.
pub async fn snapshots(aws: &Aws, region: &Region) -> Result<Vec<Snapshot>, CallError> {
    observe::own_snapshots(&aws.ec2(region), region).await
}

/// Deletes a snapshot.
///
/// # Errors
/// If EC2 refused, or did not answer.
pub async fn delete_snapshot(aws: &Aws, region: &Region, snapshot: &ResourceId) -> Result<(), CallError> {
    aws.write(region, Ec2Write::DeleteSnapshot(snapshot)).await
}

/// Removes these labels of a resource.
///
/// # Errors
/// If EC2 refused, or did not answer.
pub async fn remove_labels(aws: &Aws, region: &Region, resource: &ResourceId, keys: &[&str]) -> Result<(), CallError> {
    aws.write(region, Ec2Write::DeleteTags { resource, keys }).await
}
