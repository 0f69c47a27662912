"""The network interfaces of a launch, and the security groups that they hold.

Moto ignores card and type of an interface, keeps one of each device index, gives every interface an address, and lets a security group go
that an instance has.

Source: "RunInstances", "InstanceNetworkInterfaceSpecification" and "DeleteSecurityGroup" (EC2 API Reference): a request with interfaces names
its subnet and its security groups in them; a public address needs a request of exactly one. "Elastic Fabric Adapter" (EC2 User Guide): an
`efa-only` interface has no address, and is never the primary one. Messages are those that people quote (aws/aws-cli#518,
erlcloud/erlcloud#285); where nobody does, the code alone is meant.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from moto.ec2.exceptions import DependencyViolationError, EC2ClientError, InvalidSecurityGroupNotFoundError
from moto.ec2.models import EC2Backend
from moto.ec2.models.elastic_network_interfaces import Attachment
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Instance
from moto.ec2.models.security_groups import SecurityGroupBackend

_GROUPS_MAX = 5  # "Amazon VPC quotas", security groups for each network interface

_moto_prepare = Instance.prep_nics
_moto_attachment = Attachment.__init__
_moto_delete_group = SecurityGroupBackend.delete_security_group


def apply() -> None:
    Instance.prep_nics = _prepare
    Attachment.__init__ = _attachment
    SecurityGroupBackend.delete_security_group = _delete_group


def check_launch(backend: EC2Backend, asked: dict[str, Any], instance_type: str) -> None:
    """Refuses the interfaces that EC2 refuses. `asked` has the parameters of the call."""
    interfaces = asked.get("NetworkInterfaces") or []
    groups = [one for interface in interfaces for one in interface.get("Groups", [])] + asked.get("SecurityGroupIds", [])
    for group in groups:
        if backend.get_security_group_from_id(group) is None:
            raise InvalidSecurityGroupNotFoundError(group)
    if not interfaces:
        return
    for parameter, words in (("SubnetId", "subnet ID"), ("SecurityGroupIds", "security groups")):
        if asked.get(parameter):
            said = f"Network interfaces and an instance-level {words} may not be specified on the same request"
            raise _combination(said)
    if len(interfaces) > 1 and any("AssociatePublicIpAddress" in one for one in interfaces):
        said = "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces."
        raise _combination(said)
    if len({interface.get("SubnetId") for interface in interfaces}) > 1:
        raise _invalid("Network interfaces of one launch here are in one subnet")
    _check_cards(interfaces, INSTANCE_TYPES.get(instance_type, {}).get("NetworkInfo", {}))


def _check_cards(interfaces: list[dict[str, Any]], network: dict[str, Any]) -> None:
    cards = {one["NetworkCardIndex"]: one for one in network.get("NetworkCards", [])}
    places = [_place(interface) for interface in interfaces]
    if places.count((0, 0)) != 1:
        raise _invalid("Exactly one network interface is device 0 of card 0")
    if len(set(places)) < len(places):
        raise _invalid("Each network interface needs a device index of its own on its card")
    on_card = Counter(card for card, _ in places)
    for interface, place in zip(interfaces, places):
        kind, card = interface.get("InterfaceType", "interface"), cards.get(place[0])
        if card is None or kind not in card.get("InterfaceTypes", ["interface"]):
            raise _invalid(f"No interface of type {kind} on card {place[0]} of this instance type")
        if kind == "efa-only" and place == (0, 0):
            raise _invalid("An interface of type efa-only cannot be the primary network interface")
        if on_card[place[0]] > card["MaximumNetworkInterfaces"]:
            raise EC2ClientError("NetworkInterfaceLimitExceeded", f"Card {place[0]} takes {card['MaximumNetworkInterfaces']} interfaces")
        if len(interface.get("Groups", [])) > _GROUPS_MAX:
            raise EC2ClientError("SecurityGroupsPerInterfaceLimitExceeded", f"An interface has at most {_GROUPS_MAX} security groups")
    efas = sum(interface.get("InterfaceType", "interface") != "interface" for interface in interfaces)
    if efas > network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0):
        raise _invalid(f"The instance type takes fewer than {efas} interfaces with EFA")


def _place(interface: dict[str, Any]) -> tuple[int, int]:
    return int(interface.get("NetworkCardIndex", 0)), int(interface.get("DeviceIndex", 0))


def _prepare(instance: Instance, nic_spec: list[dict[str, Any]], **named: Any) -> None:
    """Moto keeps one interface of each device index, so each has its place in the request as one while it is made, the primary one first."""
    asked = sorted(nic_spec, key=_place)
    if len(asked) > 1:
        named["associate_public_ip"] = instance.associate_public_ip = False
    for number, interface in enumerate(asked):
        interface |= {"DeviceIndex": number, "Card": _place(interface)}
    _moto_prepare(instance, asked, **named)
    if not asked:
        instance.nics[0].delete_on_termination = True
    for number, interface in enumerate(asked):
        made = instance.nics[number]
        made.network_card_index, made.device_index = interface["Card"]
        made.interface_type = interface.get("InterfaceType", "interface")
        if "DeleteOnTermination" not in interface:
            made.delete_on_termination = number == 0
        if made.interface_type == "efa-only":
            made.private_ip_address, made.private_ip_addresses, made.private_dns_name = None, [], None
    if asked:
        # Those of an instance are those of its primary interface.
        instance.security_groups = list(instance.nics[0]._group_set)


def _attachment(attachment: Attachment, interface: Any) -> None:
    _moto_attachment(attachment, interface)
    attachment.network_card_index = getattr(interface, "network_card_index", 0)


def _delete_group(backend: Any, name: str | None = None, group_id: str | None = None) -> None:
    """Not while an interface has it."""
    group = backend.get_security_group_by_name_or_id(group_id or name)
    if group is not None and _is_used(backend, group):
        raise DependencyViolationError(f"resource {group.id} has a dependent object")
    _moto_delete_group(backend, name, group_id)


def _is_used(backend: Any, group: Any) -> bool:
    every = [one for reservation in backend.reservations.values() for one in reservation.instances]
    is_held = any(group in one.security_groups for one in every if one.state != "terminated")
    return is_held or any(group in interface._group_set for interface in backend.enis.values())


def _combination(message: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameterCombination", message)


def _invalid(message: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameterValue", message)
