//! From the SDK's types to the domain's.

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{
    self, DeviceType, GpuDeviceInfo, InstanceLifecycleType, InstanceStateName, InstanceTypeInfo, SpotInstanceRequest,
    SpotInstanceState, SpotInstanceType, Tenancy,
};
use domain::id::{Region, ResourceId, TypeName};
use domain::instance::{Accelerator, Described, Instance, Machine, Prepaid, Purchase, State, Tags};
use jiff::Timestamp;

/// One instance, before its type is known. `None` where EC2 leaves out its id, its type or its launch time: it cannot be
/// judged.
///
/// A Spot instance that names its request is of [`Purchase::SpotUnknown`] until the request has been read.
pub(crate) fn described(instance: types::Instance, region: &Region) -> Option<Described> {
    let purchase = purchase(&instance);
    let prepaid = prepaid(&instance);
    let plain_linux = is_plain_linux(&instance);
    // EC2 user guide, "Amazon EC2 managed instances".
    let operator = instance
        .operator
        .filter(|operator| operator.managed == Some(true))
        .map(|operator| operator.principal.unwrap_or_else(|| "an AWS service".to_owned()));
    let private_dns_name = instance.private_dns_name;
    let instance = Instance {
        id: ResourceId::new(instance.instance_id?),
        region: region.clone(),
        instance_type: TypeName::new(instance.instance_type?.as_str()),
        state: state(instance.state.and_then(|state| state.name).as_ref()),
        launched_at: timestamp(instance.launch_time.as_ref()?)?,
        tags: tags(instance.tags.unwrap_or_default()),
        purchase,
        root_on_instance_storage: instance.root_device_type == Some(DeviceType::InstanceStore),
        operator,
        prepaid,
        plain_linux,
        host: None,
        state_reason: instance.state_reason.and_then(|reason| reason.code).filter(|code| !code.is_empty()),
        machine: Machine::UNKNOWN,
    };
    Some(Described { private_dns_name, instance })
}

fn purchase(instance: &types::Instance) -> Purchase {
    match &instance.instance_lifecycle {
        _ if instance.capacity_block_id.is_some() => Purchase::CapacityBlock,
        Some(InstanceLifecycleType::CapacityBlock) => Purchase::CapacityBlock,
        Some(InstanceLifecycleType::Spot) if instance.spot_instance_request_id.is_some() => Purchase::SpotUnknown,
        Some(InstanceLifecycleType::Spot) => Purchase::SpotOneTime,
        _ => Purchase::OnDemand,
    }
}

/// EC2 user guide, "On-Demand Capacity Reservations" and "Dedicated Hosts".
fn prepaid(instance: &types::Instance) -> Option<Prepaid> {
    if tenancy(instance) == Some(&Tenancy::Host) {
        return Some(Prepaid::DedicatedHost);
    }
    instance.capacity_reservation_id.as_ref().map(|_| Prepaid::CapacityReservation)
}

/// EC2 user guide, "AMI billing information fields": `PlatformDetails`.
fn is_plain_linux(instance: &types::Instance) -> bool {
    let platform = instance.platform_details.as_deref().is_none_or(|details| details == "Linux/UNIX");
    platform && instance.platform.is_none() && matches!(tenancy(instance), None | Some(Tenancy::Default))
}

fn tenancy(instance: &types::Instance) -> Option<&Tenancy> {
    instance.placement.as_ref().and_then(|placement| placement.tenancy.as_ref())
}

fn state(name: Option<&InstanceStateName>) -> State {
    match name {
        Some(InstanceStateName::Pending) => State::Pending,
        Some(InstanceStateName::Running) => State::Running,
        Some(InstanceStateName::Stopping) => State::Stopping,
        Some(InstanceStateName::Stopped) => State::Stopped,
        Some(InstanceStateName::ShuttingDown) => State::ShuttingDown,
        Some(InstanceStateName::Terminated) => State::Terminated,
        _ => State::Unknown,
    }
}

/// All of them, those of AWS (`aws:*`) included.
fn tags(tags: Vec<types::Tag>) -> Tags {
    tags.into_iter().filter_map(|tag| Some((tag.key?, tag.value.unwrap_or_default()))).collect()
}

/// The facts of a type; `None` where it has no accelerator. Never by the name's prefix: EC2 API reference,
/// `InstanceTypeInfo`.
pub(crate) fn machine(info: &InstanceTypeInfo) -> Option<Machine> {
    let (accelerator, accelerators) = gpus(info).or_else(|| neuron(info)).or_else(|| inference(info))?;
    let vcpus = info.v_cpu_info.as_ref().and_then(|vcpus| vcpus.default_v_cpus);
    let storage = info.instance_storage_info.as_ref().and_then(|storage| storage.total_size_in_gb);
    Some(Machine {
        accelerator,
        accelerators,
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

fn whole(count: Option<i32>) -> u32 {
    count.and_then(|count| u32::try_from(count).ok()).unwrap_or_default()
}

/// How an instance of this Spot request is bought. A cancelled or closed request launches nothing any more (EC2 user
/// guide, "Spot request status").
pub(crate) fn purchase_by(request: &SpotInstanceRequest) -> Purchase {
    let over = matches!(request.state, Some(SpotInstanceState::Cancelled | SpotInstanceState::Closed));
    match request.r#type {
        Some(SpotInstanceType::OneTime) => Purchase::SpotOneTime,
        Some(SpotInstanceType::Persistent) if over => Purchase::SpotOneTime,
        Some(SpotInstanceType::Persistent) => Purchase::SpotPersistent,
        _ => Purchase::SpotUnknown,
    }
}

/// Every SDK crate has the same type of time.
pub(crate) fn timestamp(time: &DateTime) -> Option<Timestamp> {
    Timestamp::new(time.secs(), i32::try_from(time.subsec_nanos()).ok()?).ok()
}

/// Whole seconds, which is all that AWS asks for.
pub(crate) fn date_time(at: Timestamp) -> DateTime {
    DateTime::from_secs(at.as_second())
}

#[cfg(test)]
mod tests;
