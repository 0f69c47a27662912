//! Image that a machine boots.

use std::time::Duration;

use aws_sdk_ec2::types::{BlockDeviceMapping, DeviceType, Image as Ec2Image, ImageState};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use jobs::{LaunchObstacle, MachineImage};
use model::id::{Region, ResourceId};
use model::image_source::ImageSource;
use serde_json::{Value, json};
use signed_call::SignedCall;

use crate::aws::Aws;
use crate::error::{CallError, call_error};

const TIMEOUT: Duration = Duration::from_secs(30);
const DESCRIBE_IMAGES: &str = "ec2:DescribeImages";

/// Systems without cloud-init, by the names of their images: there user data could not stop a machine at its deadline.
const WITHOUT_CLOUD_INIT: [&str; 5] = ["bottlerocket", "flatcar", "talos", "coreos", "rancheros"];

/// Looks up the image for [`JobCloud::find_image`](ports::JobCloud::find_image), with the errors that it lists.
pub(super) async fn image(
    aws: &Aws,
    region: &Region,
    architecture: &str,
    source: &ImageSource,
    agent_sha256: &str,
) -> Result<MachineImage, LaunchObstacle> {
    let asked = async {
        let id = match source.for_architecture(architecture) {
            ImageSource::Image(id) => id,
            ImageSource::Parameter(name) => read_parameter(aws, region, &name).await?,
        };
        let ec2_image = describe_image(aws, region, &id).await?;
        let unfit = |why| LaunchObstacle::new(format!("the image {id} in {region} cannot run a job: {why}"));
        let root_device = usable(&ec2_image, architecture).map_err(unfit)?.to_owned();
        let (root, others): (Vec<_>, Vec<_>) = devices(&ec2_image).partition(|(name, _)| *name == root_device);
        Ok(MachineImage {
            ami: id,
            architecture: architecture.to_owned(),
            agent_sha256: agent_sha256.to_owned(),
            is_for_all: ec2_image.public() == Some(true) || ec2_image.image_owner_alias() == Some("amazon"),
            root_gib: root.first().map(|(_, gib)| *gib).unwrap_or_default(),
            other_devices: others.into_iter().map(|(name, _)| name.to_owned()).collect(),
            root_device,
        })
    };
    let too_long = |_| Err(LaunchObstacle::new(CallError::timed_out(DESCRIBE_IMAGES, region, TIMEOUT)));
    tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(too_long)
}

async fn read_parameter(aws: &Aws, region: &Region, name: &str) -> Result<ResourceId, LaunchObstacle> {
    let change = "change `[jobs] image`, or name an image under `[machine] ami`";
    let call = SignedCall::get_parameter(region.as_str());
    match Box::pin(call.send(aws.sdk_config(), &json!({ "Name": name }))).await {
        Ok(answer) => {
            let value = answer.pointer("/Parameter/Value").and_then(Value::as_str).unwrap_or_default();
            let is_id = value.starts_with("ami-");
            is_id.then(|| ResourceId::new(value)).ok_or_else(|| {
                LaunchObstacle::new(format!("the parameter {name} holds no id of an image in {region}; {change}"))
            })
        }
        Err(error) if error.code() == Some("ParameterNotFound") => {
            Err(LaunchObstacle::new(format!("{region} has no parameter {name} with the image to boot; {change}")))
        }
        Err(error) => Err(LaunchObstacle::new(call_error(call.call, region, &error))),
    }
}

async fn describe_image(aws: &Aws, region: &Region, id: &ResourceId) -> Result<Ec2Image, LaunchObstacle> {
    let answer = aws.ec2(region).describe_images().image_ids(id.as_str()).send().await;
    let answer = answer.map_err(|error| LaunchObstacle::new(call_error(DESCRIBE_IMAGES, region, &error)))?;
    let mut images = answer.images.unwrap_or_default().into_iter();
    images.find(|image| image.image_id() == Some(id.as_str())).ok_or_else(|| {
        LaunchObstacle::new(format!(
            "this account sees no image {id} in {region}; an image belongs to one region, and another account must share it"
        ))
    })
}

/// Its root device; or why it cannot be used.
fn usable<'a>(ec2_image: &'a Ec2Image, architecture: &str) -> Result<&'a str, LaunchObstacle> {
    if let Some(state) = ec2_image.state.as_ref().filter(|state| **state != ImageState::Available) {
        return Err(LaunchObstacle::new(format!("it is {state}")));
    }
    // Without an architecture in the answer, RunInstances itself refuses an image that does not fit the type.
    if let Some(own) = ec2_image.architecture.as_ref().filter(|own| own.as_str() != architecture) {
        return Err(LaunchObstacle::new(format!("it is for {own}, and the machine is {architecture}")));
    }
    if ec2_image.root_device_type == Some(DeviceType::InstanceStore) {
        return Err(LaunchObstacle::new("its root is on instance storage; it must be on EBS"));
    }
    if ec2_image.platform.as_ref().is_some_and(|platform| platform.as_str().eq_ignore_ascii_case("windows")) {
        return Err(LaunchObstacle::new("it has Windows, for which there is no agent"));
    }
    let names = [ec2_image.name(), ec2_image.description()];
    let is_called = |system: &&&str| names.iter().flatten().any(|name| name.to_ascii_lowercase().contains(**system));
    if let Some(system) = WITHOUT_CLOUD_INIT.iter().find(is_called) {
        return Err(LaunchObstacle::new(format!("it is called {system}, which has no cloud-init to arm the deadline")));
    }
    // EC2 user guide, "AMI billing information fields": anything else costs more than the list price of Linux.
    if let Some(billed) = ec2_image.platform_details().filter(|details| !details.is_empty() && *details != "Linux/UNIX")
    {
        return Err(LaunchObstacle::new(format!(
            "it is billed as {billed}, and only the price of Linux/UNIX is known"
        )));
    }
    if ec2_image
        .product_codes()
        .iter()
        .any(|code| code.product_code_type().is_some_and(|kind| kind.as_str() == "marketplace"))
    {
        return Err(LaunchObstacle::new("it is from AWS Marketplace, and the price of its software is unknown"));
    }
    ec2_image
        .root_device_name()
        .filter(|root| !root.is_empty())
        .ok_or_else(|| LaunchObstacle::new("EC2 does not name its root device"))
}

/// Its EBS devices by name, and their GiB.
fn devices(ec2_image: &Ec2Image) -> impl Iterator<Item = (&str, u32)> {
    let of_ebs = |mapping: &'_ BlockDeviceMapping| -> Option<u32> {
        let ebs = mapping.ebs.as_ref().filter(|_| mapping.no_device.is_none())?;
        Some(ebs.volume_size.and_then(|gib| u32::try_from(gib).ok()).unwrap_or_default())
    };
    ec2_image.block_device_mappings().iter().filter_map(move |mapping| Some((mapping.device_name()?, of_ebs(mapping)?)))
}

#[cfg(test)]
mod tests;
