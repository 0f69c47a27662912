//! Conversion of the SDK's types to those of `model`.

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{
    GpuDeviceInfo, GpuInfo, InstanceTypeInfo, NeuronInfo, SpotInstanceRequest, SpotInstanceState, SpotInstanceType,
};
use jiff::Timestamp;
use model::instance::{Accelerator, InstanceTypeFacts, PurchaseOption};

/// The facts of a type; `None` without an accelerator. Never by the prefix of its name: EC2 API reference, `InstanceTypeInfo`.
pub(crate) fn machine(info: &InstanceTypeInfo) -> Option<InstanceTypeFacts> {
    let (accelerator, accelerators) = gpus(info).or_else(|| neuron(info)).or_else(|| inference(info))?;
    let vcpus = info.v_cpu_info.as_ref().and_then(|vcpus| vcpus.default_v_cpus);
    let storage = info.instance_storage_info.as_ref().and_then(|storage| storage.total_size_in_gb);
    Some(InstanceTypeFacts {
        accelerator,
        accelerators,
        accelerator_memory_mib: memory_mib(info),
        vcpus: whole(vcpus),
        instance_storage_gb: storage.and_then(|gb| u64::try_from(gb).ok()).unwrap_or_default(),
    })
}

fn gpus(info: &InstanceTypeInfo) -> Option<(Accelerator, u32)> {
    let gpus = info.gpu_info.as_ref()?.gpus();
    let accelerator = match gpus.first().and_then(GpuDeviceInfo::manufacturer) {
        Some(name) if name.eq_ignore_ascii_case("nvidia") => Accelerator::Nvidia,
        Some(name) if name.eq_ignore_ascii_case("amd") => Accelerator::Amd,
        _ => Accelerator::Other,
    };
    // A fraction of a GPU (g6f) has a `Count` of 0 and one logical GPU.
    Some((accelerator, gpus.iter().map(|gpu| whole(gpu.logical_gpu_count.or(gpu.count))).sum()))
}

fn neuron(info: &InstanceTypeInfo) -> Option<(Accelerator, u32)> {
    let devices = info.neuron_info.as_ref()?.neuron_devices();
    Some((Accelerator::Neuron, devices.iter().map(|device| whole(device.count)).sum()))
}

fn inference(info: &InstanceTypeInfo) -> Option<(Accelerator, u32)> {
    let devices = info.inference_accelerator_info.as_ref()?.accelerators();
    let of_aws = devices.iter().all(|device| device.manufacturer().is_none_or(|name| name == "AWS"));
    let accelerator = if of_aws { Accelerator::Neuron } else { Accelerator::Other };
    Some((accelerator, devices.iter().map(|device| whole(device.count)).sum()))
}

/// The memory of the largest accelerator; 0 where EC2 does not say.
fn memory_mib(info: &InstanceTypeInfo) -> u32 {
    let gpus = info.gpu_info.iter().flat_map(GpuInfo::gpus).map(|gpu| gpu.memory_info.as_ref()?.size_in_mib);
    let neuron = info.neuron_info.iter().flat_map(NeuronInfo::neuron_devices);
    let neuron = neuron.map(|device| device.memory_info.as_ref()?.size_in_mib);
    gpus.chain(neuron).map(whole).max().unwrap_or_default()
}

fn whole(count: Option<i32>) -> u32 {
    count.and_then(|count| u32::try_from(count).ok()).unwrap_or_default()
}

/// Purchase option of an instance of this Spot request. A cancelled or closed request launches nothing more (EC2 user guide, "Spot request
/// status").
pub(crate) fn purchase_by(request: &SpotInstanceRequest) -> PurchaseOption {
    let over = matches!(request.state, Some(SpotInstanceState::Cancelled | SpotInstanceState::Closed));
    match request.r#type {
        Some(SpotInstanceType::OneTime) => PurchaseOption::SpotOneTime,
        Some(SpotInstanceType::Persistent) if over => PurchaseOption::SpotOneTime,
        Some(SpotInstanceType::Persistent) => PurchaseOption::SpotPersistent,
        _ => PurchaseOption::SpotUnknown,
    }
}

/// Every SDK crate has the same type of time.
pub(crate) fn timestamp(time: &DateTime) -> Option<Timestamp> {
    Timestamp::new(time.secs(), i32::try_from(time.subsec_nanos()).ok()?).ok()
}

/// Whole seconds, which is all that AWS needs.
pub(crate) fn date_time(at: Timestamp) -> DateTime {
    DateTime::from_secs(at.as_second())
}

#[cfg(test)]
mod tests;
