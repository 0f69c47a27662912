use aws_sdk_ec2::types::builders::{InstanceBuilder, InstanceTypeInfoBuilder};
use aws_sdk_ec2::types::{
    GpuInfo, InferenceAcceleratorInfo, InferenceDeviceInfo, InstanceState, InstanceStorageInfo, NeuronDeviceInfo,
    NeuronInfo, OperatorResponse, Placement, PlatformValues, StateReason, Tag, VCpuInfo,
};

use super::*;

fn running() -> InstanceBuilder {
    types::Instance::builder()
        .instance_id("i-0abc")
        .instance_type(types::InstanceType::G5Xlarge)
        .launch_time(DateTime::from_secs(1_788_177_600))
        .state(InstanceState::builder().name(InstanceStateName::Running).build())
}

fn converted(instance: InstanceBuilder) -> Instance {
    described(instance.build(), &Region::from("us-east-1")).unwrap().instance
}

#[test]
fn a_plain_instance_keeps_what_ec2_says() {
    let told = running()
        .private_dns_name("ip-10-0-0-1.ec2.internal")
        .root_device_type(DeviceType::Ebs)
        .platform_details("Linux/UNIX")
        .placement(Placement::builder().tenancy(Tenancy::Default).build())
        .state_reason(StateReason::builder().code("Client.UserInitiatedShutdown").build())
        .tags(Tag::builder().key("Team").value("vision").build())
        .tags(Tag::builder().key("aws:autoscaling:groupName").value("g").build())
        .tags(Tag::builder().key("empty").build());
    let Described { private_dns_name, instance } = described(told.build(), &Region::from("us-east-1")).unwrap();
    assert_eq!(private_dns_name.as_deref(), Some("ip-10-0-0-1.ec2.internal"));
    let tags = [("Team", "vision"), ("aws:autoscaling:groupName", "g"), ("empty", "")];
    let expected = Instance {
        id: "i-0abc".into(),
        region: "us-east-1".into(),
        instance_type: "g5.xlarge".into(),
        state: State::Running,
        launched_at: "2026-08-31T12:00:00Z".parse().unwrap(),
        tags: tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        purchase: Purchase::OnDemand,
        root_on_instance_storage: false,
        operator: None,
        prepaid: None,
        plain_linux: true,
        host: None,
        state_reason: Some("Client.UserInitiatedShutdown".to_owned()),
        machine: Machine::UNKNOWN,
    };
    assert_eq!(instance, expected);
}

#[test]
fn what_cannot_be_judged_is_no_instance() {
    let region = Region::from("us-east-1");
    let launched = DateTime::from_secs(0);
    let kind = types::InstanceType::G5Xlarge;
    let without = types::Instance::builder;
    assert!(described(without().instance_type(kind.clone()).launch_time(launched).build(), &region).is_none());
    assert!(described(without().instance_id("i-1").launch_time(launched).build(), &region).is_none());
    assert!(described(without().instance_id("i-1").instance_type(kind).build(), &region).is_none());
}

#[test]
fn a_type_newer_than_the_sdk_keeps_its_name() {
    let newer = running().instance_type(types::InstanceType::from("g99.metal"));
    assert_eq!(converted(newer).instance_type.as_str(), "g99.metal");
}

#[test]
fn purchases() {
    let spot = || running().instance_lifecycle(InstanceLifecycleType::Spot);
    let table = [
        (running(), Purchase::OnDemand),
        (spot(), Purchase::SpotOneTime),
        (spot().spot_instance_request_id("sir-1"), Purchase::SpotUnknown),
        (running().instance_lifecycle(InstanceLifecycleType::CapacityBlock), Purchase::CapacityBlock),
        (running().capacity_block_id("cb-1"), Purchase::CapacityBlock),
        (running().instance_lifecycle(InstanceLifecycleType::Scheduled), Purchase::OnDemand),
    ];
    for (instance, expected) in table {
        assert_eq!(converted(instance).purchase, expected);
    }
}

#[test]
fn spot_requests() {
    let (once, persistent) = (SpotInstanceType::OneTime, SpotInstanceType::Persistent);
    let table = [
        (Some(once), SpotInstanceState::Active, Purchase::SpotOneTime),
        (Some(persistent.clone()), SpotInstanceState::Active, Purchase::SpotPersistent),
        (Some(persistent.clone()), SpotInstanceState::Open, Purchase::SpotPersistent),
        (Some(persistent.clone()), SpotInstanceState::Disabled, Purchase::SpotPersistent),
        (Some(persistent.clone()), SpotInstanceState::Cancelled, Purchase::SpotOneTime),
        (Some(persistent), SpotInstanceState::Closed, Purchase::SpotOneTime),
        (Some(SpotInstanceType::from("someday")), SpotInstanceState::Active, Purchase::SpotUnknown),
        (None, SpotInstanceState::Active, Purchase::SpotUnknown),
    ];
    for (kind, state, expected) in table {
        let request = SpotInstanceRequest::builder().set_type(kind).state(state).build();
        assert_eq!(purchase_by(&request), expected, "{request:?}");
    }
}

#[test]
fn prepaid_capacity_and_other_hardware() {
    let on = |tenancy| running().placement(Placement::builder().tenancy(tenancy).build());
    let table = [
        (running(), None, true),
        (on(Tenancy::Dedicated), None, false),
        (on(Tenancy::Host), Some(Prepaid::DedicatedHost), false),
        (on(Tenancy::Host).capacity_reservation_id("cr-1"), Some(Prepaid::DedicatedHost), false),
        (running().capacity_reservation_id("cr-1"), Some(Prepaid::CapacityReservation), true),
        (running().platform_details("Windows").platform(PlatformValues::Windows), None, false),
        (running().platform_details("Red Hat Enterprise Linux"), None, false),
        (running().platform_details("SUSE Linux"), None, false),
    ];
    for (instance, prepaid, plain_linux) in table {
        let instance = converted(instance);
        assert_eq!((instance.prepaid, instance.plain_linux), (prepaid, plain_linux));
    }
}

#[test]
fn operators_count_where_they_manage() {
    let by = |managed| OperatorResponse::builder().managed(managed);
    let table = [
        (by(true).principal("eks.amazonaws.com").build(), Some("eks.amazonaws.com")),
        (by(true).build(), Some("an AWS service")),
        (by(false).build(), None),
    ];
    for (operator, expected) in table {
        assert_eq!(converted(running().operator(operator)).operator.as_deref(), expected);
    }
}

#[test]
fn states() {
    let table = [
        ("pending", State::Pending),
        ("running", State::Running),
        ("stopping", State::Stopping),
        ("stopped", State::Stopped),
        ("shutting-down", State::ShuttingDown),
        ("terminated", State::Terminated),
        ("hovering", State::Unknown),
    ];
    for (name, expected) in table {
        let state = InstanceState::builder().name(InstanceStateName::from(name)).build();
        assert_eq!(converted(running().state(state)).state, expected);
    }
    assert_eq!(state(None), State::Unknown);
}

#[test]
fn an_instance_store_root_is_seen() {
    assert!(converted(running().root_device_type(DeviceType::InstanceStore)).root_on_instance_storage);
    assert!(!converted(running().root_device_type(DeviceType::Ebs)).root_on_instance_storage);
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
        let expected = Machine { accelerator, accelerators, vcpus, instance_storage_gb };
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
