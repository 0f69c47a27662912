//! What a machine boots.

use std::time::Duration;

use aws_sdk_ec2::types::{BlockDeviceMapping, DeviceType, Image as Told, ImageState};
use aws_sdk_ssm::error::ProvideErrorMetadata;
use jobs::MachineImage;
use model::id::{Region, ResourceId};
use model::image_source::ImageSource;

use crate::aws::Aws;
use crate::error::{CallError, call_error};

const PATIENCE: Duration = Duration::from_secs(30);
const GET_PARAMETER: &str = "ssm:GetParameter";
const DESCRIBE_IMAGES: &str = "ec2:DescribeImages";

/// Systems that have no cloud-init, by what their images are called: user data would end no machine of them.
const WITHOUT_CLOUD_INIT: [&str; 5] = ["bottlerocket", "flatcar", "talos", "coreos", "rancheros"];

/// As [`super::Asked::image`] says.
pub(super) async fn image(
    aws: &Aws,
    region: &Region,
    architecture: &str,
    source: &ImageSource,
    agent_sha256: &str,
) -> Result<MachineImage, String> {
    let asked = async {
        let id = match source.for_architecture(architecture) {
            ImageSource::Image(id) => id,
            ImageSource::Parameter(name) => read_parameter(aws, region, &name).await?,
        };
        let told = described(aws, region, &id).await?;
        let unfit = |why| format!("the image {id} in {region} cannot run a job: {why}");
        let root_device = usable(&told, architecture).map_err(unfit)?.to_owned();
        let (root, others): (Vec<_>, Vec<_>) = devices(&told).partition(|(name, _)| *name == root_device);
        Ok(MachineImage {
            ami: id,
            architecture: architecture.to_owned(),
            agent_sha256: agent_sha256.to_owned(),
            root_gib: root.first().map(|(_, gib)| *gib).unwrap_or_default(),
            other_devices: others.into_iter().map(|(name, _)| name.to_owned()).collect(),
            root_device,
        })
    };
    let too_long = |_| Err(CallError::timed_out(DESCRIBE_IMAGES, region, PATIENCE).to_string());
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(too_long)
}

async fn read_parameter(aws: &Aws, region: &Region, name: &str) -> Result<ResourceId, String> {
    let change = "change `[jobs] image`, or name an image under `[machine] ami`";
    match aws.ssm(region).get_parameter().name(name).send().await {
        Ok(answer) => {
            let value = answer.parameter.and_then(|parameter| parameter.value).unwrap_or_default();
            let is_id = value.starts_with("ami-");
            is_id
                .then(|| ResourceId::new(value))
                .ok_or_else(|| format!("the parameter {name} holds no id of an image in {region}; {change}"))
        }
        Err(error) if error.code() == Some("ParameterNotFound") => {
            Err(format!("{region} has no parameter {name} that says which image to boot; {change}"))
        }
        Err(error) => Err(call_error(GET_PARAMETER, region, &error).to_string()),
    }
}

async fn described(aws: &Aws, region: &Region, id: &ResourceId) -> Result<Told, String> {
    let answer = aws.ec2(region).describe_images().image_ids(id.as_str()).send().await;
    let answer = answer.map_err(|error| call_error(DESCRIBE_IMAGES, region, &error).to_string())?;
    let mut images = answer.images.unwrap_or_default().into_iter();
    images.find(|image| image.image_id() == Some(id.as_str())).ok_or_else(|| {
        format!("this account sees no image {id} in {region}; an image is of one region, and may be of another account only where that shares it")
    })
}

/// Its root device; or why it is of no use.
fn usable<'a>(told: &'a Told, architecture: &str) -> Result<&'a str, String> {
    if let Some(state) = told.state.as_ref().filter(|state| **state != ImageState::Available) {
        return Err(format!("it is {state}"));
    }
    // RunInstances itself refuses an image of another architecture than the type's, where this one is not told.
    if let Some(own) = told.architecture.as_ref().filter(|own| own.as_str() != architecture) {
        return Err(format!("it is for {own}, and the machine is {architecture}"));
    }
    if told.root_device_type == Some(DeviceType::InstanceStore) {
        return Err("its root is on instance storage; it has to be on EBS".to_owned());
    }
    if told.platform.as_ref().is_some_and(|platform| platform.as_str().eq_ignore_ascii_case("windows")) {
        return Err("it is Windows, for which there is no agent".to_owned());
    }
    let names = [told.name(), told.description()];
    let is_called = |system: &&&str| names.iter().flatten().any(|name| name.to_ascii_lowercase().contains(**system));
    if let Some(system) = WITHOUT_CLOUD_INIT.iter().find(is_called) {
        return Err(format!("it is called {system}, which has no cloud-init to end the machine in time"));
    }
    // EC2 user guide, "AMI billing information fields": anything else costs more than the price list says of Linux.
    if let Some(billed) = told.platform_details().filter(|details| !details.is_empty() && *details != "Linux/UNIX") {
        return Err(format!("it is billed as {billed}, and only the price of Linux/UNIX is known"));
    }
    if told
        .product_codes()
        .iter()
        .any(|code| code.product_code_type().is_some_and(|kind| kind.as_str() == "marketplace"))
    {
        return Err("it is of AWS Marketplace, and the price of its software is not known".to_owned());
    }
    told.root_device_name().filter(|root| !root.is_empty()).ok_or_else(|| "EC2 does not say its root device".to_owned())
}

/// Its EBS devices by name, and their GiB.
fn devices(told: &Told) -> impl Iterator<Item = (&str, u32)> {
    let of_ebs = |mapping: &'_ BlockDeviceMapping| -> Option<u32> {
        let ebs = mapping.ebs.as_ref().filter(|_| mapping.no_device.is_none())?;
        Some(ebs.volume_size.and_then(|gib| u32::try_from(gib).ok()).unwrap_or_default())
    };
    told.block_device_mappings().iter().filter_map(move |mapping| Some((mapping.device_name()?, of_ebs(mapping)?)))
}

#[cfg(test)]
mod tests;
