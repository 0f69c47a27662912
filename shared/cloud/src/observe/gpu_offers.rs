//! The types with GPUs that a region offers.

use model::id::Region;
use recommend::GpuOffer;

use crate::aws::Aws;
use crate::error::CallError;
use crate::jobs::pools::all_kinds;

/// Every type of a region with whole NVIDIA GPUs that is sold by the second, except bare metal, by name. In one or two calls; needs
/// `ec2:DescribeInstanceTypes`.
///
/// # Errors
/// If EC2 does not describe them all.
pub async fn gpu_offers(aws: &Aws, region: &Region) -> Result<Vec<GpuOffer>, CallError> {
    let kinds = all_kinds(aws, region).await?;
    let offers = kinds.into_iter().map(|(instance_type, kind)| GpuOffer {
        region: region.clone(),
        instance_type,
        architecture: kind.architecture.to_owned(),
        gpus: kind.gpus,
        gpu_name: kind.gpu_name,
        gpu_memory_mib: kind.gpu_memory_mib,
        vcpus: Some(kind.vcpus).filter(|vcpus| *vcpus > 0),
        memory_mib: Some(kind.memory_mib).filter(|memory_mib| *memory_mib > 0),
        spot: Some(kind.spot),
    });
    Ok(offers.collect())
}
