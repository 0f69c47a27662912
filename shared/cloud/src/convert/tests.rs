use aws_sdk_ec2::types::builders::InstanceTypeInfoBuilder;
use aws_sdk_ec2::types::{
    GpuInfo, InferenceAcceleratorInfo, InferenceDeviceInfo, InstanceStorageInfo, NeuronDeviceInfo, NeuronInfo, VCpuInfo,
};

use super::*;

#[test]
fn spot_requests() {
    let (once, persistent) = (SpotInstanceType::OneTime, SpotInstanceType::Persistent);
    let table = [
        (Some(once), SpotInstanceState::Active, PurchaseOption::SpotOneTime),
        (Some(persistent.clone()), SpotInstanceState::Active, PurchaseOption::SpotPersistent),
        (Some(persistent.clone()), SpotInstanceState::Open, PurchaseOption::SpotPersistent),
        (Some(persistent.clone()), SpotInstanceState::Disabled, PurchaseOption::SpotPersistent),
        (Some(persistent.clone()), SpotInstanceState::Cancelled, PurchaseOption::SpotOneTime),
        (Some(persistent), SpotInstanceState::Closed, PurchaseOption::SpotOneTime),
        (Some(SpotInstanceType::from("someday")), SpotInstanceState::Active, PurchaseOption::SpotUnknown),
        (None, SpotInstanceState::Active, PurchaseOption::SpotUnknown),
    ];
    for (kind, state, expected) in table {
        let request = SpotInstanceRequest::builder().set_type(kind).state(state).build();
        assert_eq!(purchase_by(&request), expected, "{request:?}");
    }
}

fn of_type(vcpus: i32) -> InstanceTypeInfoBuilder {
    InstanceTypeInfo::builder().v_cpu_info(VCpuInfo::builder().default_v_cpus(vcpus).build())
}

fn with_gpus(vcpus: i32, manufacturer: &str, count: i32, logical: Option<i32>) -> InstanceTypeInfoBuilder {
    let gpu = GpuDeviceInfo::builder().manufacturer(manufacturer).count(count).set_logical_gpu_count(logical).build();
    of_type(vcpus).gpu_info(GpuInfo::builder().gpus(gpu).build())
}

fn storage(gb: i64) -> InstanceStorageInfo {
    InstanceStorageInfo::builder().total_size_in_gb(gb).build()
}

/// Figures as `DescribeInstanceTypes` answers them for the types in the comments.
#[test]
fn machines() {
    let neuron = |count| NeuronInfo::builder().neuron_devices(NeuronDeviceInfo::builder().count(count).build()).build();
    let inference = |maker: &str, count| {
        let device = InferenceDeviceInfo::builder().manufacturer(maker).count(count).build();
        InferenceAcceleratorInfo::builder().accelerators(device).build()
    };
    let table = [
        // p4d.24xlarge
        (with_gpus(96, "NVIDIA", 8, Some(8)).instance_storage_info(storage(8000)), Accelerator::Nvidia, 8, 96, 8000),
        // g5.xlarge, as older answers had it
        (with_gpus(4, "NVIDIA", 1, None).instance_storage_info(storage(250)), Accelerator::Nvidia, 1, 4, 250),
        // g6f.large: an eighth of a GPU
        (with_gpus(2, "NVIDIA", 0, Some(1)).instance_storage_info(storage(100)), Accelerator::Nvidia, 1, 2, 100),
        // g4ad.16xlarge
        (with_gpus(64, "AMD", 4, Some(4)).instance_storage_info(storage(2400)), Accelerator::Amd, 4, 64, 2400),
        // dl1.24xlarge
        (with_gpus(96, "Habana", 8, None).instance_storage_info(storage(4000)), Accelerator::Other, 8, 96, 4000),
        // trn1.32xlarge
        (of_type(128).neuron_info(neuron(16)).instance_storage_info(storage(7600)), Accelerator::Neuron, 16, 128, 7600),
        // inf2.48xlarge
        (
            of_type(192).neuron_info(neuron(12)).inference_accelerator_info(inference("AWS", 12)),
            Accelerator::Neuron,
            12,
            192,
            0,
        ),
        // inf1.24xlarge, as older answers had it
        (of_type(96).inference_accelerator_info(inference("AWS", 16)), Accelerator::Neuron, 16, 96, 0),
        // dl2q.24xlarge
        (of_type(96).inference_accelerator_info(inference("Qualcomm", 8)), Accelerator::Other, 8, 96, 0),
    ];
    for (info, accelerator, accelerators, vcpus, instance_storage_gb) in table {
        let expected =
            InstanceTypeFacts { accelerator, accelerators, accelerator_memory_mib: 0, vcpus, instance_storage_gb };
        assert_eq!(machine(&info.build()), Some(expected));
    }
}

#[test]
fn a_type_without_an_accelerator_is_no_machine() {
    // i4i.xlarge has NVMe storage and nothing to reap.
    assert_eq!(machine(&of_type(4).instance_storage_info(storage(937)).build()), None);
}

#[test]
fn devices_of_several_kinds_add_up() {
    let gpu = |count| GpuDeviceInfo::builder().manufacturer("NVIDIA").count(count).build();
    let info = of_type(4).gpu_info(GpuInfo::builder().gpus(gpu(1)).gpus(gpu(2)).build()).build();
    assert_eq!(machine(&info).unwrap().accelerators, 3);
}
