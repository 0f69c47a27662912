//! The place of a launch in the network: subnet, groups, and the network interfaces of machines with EFA.

use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{InstanceNetworkInterfaceSpecification, Placement};
use jobs::LaunchOrder;
use jobs::efa::NetworkInterface;

/// Adds subnet and groups: in each interface where any is named, else beside them (EC2 API reference, `RunInstances`, `SubnetId`).
///
/// No interface asks for a public address, so that the primary one has what its subnet gives. Never tried on AWS.
pub(super) fn place(call: RunInstancesFluentBuilder, order: &LaunchOrder<'_>) -> RunInstancesFluentBuilder {
    let candidate = &order.launch.candidate;
    let named = candidate.network.as_ref().map(|network| &network.security_groups);
    let groups = named.filter(|groups| !groups.is_empty()).unwrap_or(&order.terms.machine.security_groups);
    let groups: Vec<String> = groups.iter().map(|group| group.as_str().to_owned()).collect();
    let groups = Some(groups).filter(|groups| !groups.is_empty());
    let placement = order.launch.placement_group.as_ref();
    let call = call.set_placement(placement.map(|name| Placement::builder().group_name(name).build()));
    let interfaces = candidate.network.iter().flat_map(|network| &network.interfaces);
    let interfaces: Vec<_> = interfaces.map(|one| interface(one, candidate.subnet.as_str(), groups.clone())).collect();
    if interfaces.is_empty() {
        return call.subnet_id(candidate.subnet.as_str()).set_security_group_ids(groups);
    }
    call.set_network_interfaces(Some(interfaces))
}

/// Returns `true` if EC2 does not know the group that Curfew made for the job: it may not know it yet, and each ranking makes it where it lacks.
pub(super) fn lacks_group(order: &LaunchOrder<'_>, code: Option<&str>, message: &str) -> bool {
    let own = order.launch.candidate.network.as_ref().and_then(|network| network.group.as_ref());
    code == Some("InvalidGroup.NotFound") && own.is_some_and(|own| message.contains(own.as_str()))
}

fn interface(
    interface: &NetworkInterface,
    subnet: &str,
    groups: Option<Vec<String>>,
) -> InstanceNetworkInterfaceSpecification {
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    InstanceNetworkInterfaceSpecification::builder()
        .network_card_index(number(interface.card))
        .device_index(number(interface.device))
        .interface_type(interface.kind.as_str())
        .subnet_id(subnet)
        .set_groups(groups)
        .delete_on_termination(true)
        .build()
}
