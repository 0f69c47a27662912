"""Corrections of moto's EC2, made on its classes in-process: where moto lies, tests would prove nothing.

The list of corrections is in the package's docstring. Each replaces one method of moto 5.2.5, which is pinned.
"""

from __future__ import annotations

import copy
import re
from functools import lru_cache
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2 import utils as ec2_utils
from moto.ec2.exceptions import EC2ClientError, InvalidInstanceIdError, OperationNotPermitted4
from moto.ec2.models import EC2Backend
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import Instance
from moto.ec2.responses.instances import InstanceResponse

from . import ebs_corrections, interface_corrections, lifecycle, placement_groups, spot

_STARTABLE = ("stopped", "running", "pending")
_STOPPABLE = ("pending", "running", "stopping", "stopped")
_MORE_FILTERS = {
    "client-token": "client_token",
    "instance-lifecycle": "instance_lifecycle",
    "spot-instance-request-id": "spot_instance_request_id",
    "root-device-type": "root_device_type",
    "reason": "state_transition_reason",
    "placement-group-name": "placement_group_name",
}

_moto_start = EC2Backend.start_instances
_moto_stop = EC2Backend.stop_instances
_moto_terminate = EC2Backend.terminate_instances
_moto_do_resources_exist = EC2Backend.do_resources_exist
_moto_describe_regions = EC2Backend.describe_regions
_moto_run_instances = InstanceResponse.run_instances


def apply(regions: tuple[str, ...]) -> None:
    """Corrects moto. `regions` is what DescribeRegions answers; empty: everything that moto knows."""
    EC2Backend.start_instances = _start_instances
    EC2Backend.stop_instances = _stop_instances
    EC2Backend.terminate_instances = _terminate_instances
    EC2Backend.do_resources_exist = _do_resources_exist
    EC2Backend.describe_regions = _described_regions(regions)
    InstanceResponse.run_instances = _run_instances
    Instance.instance_lifecycle = property(lambda instance: instance.lifecycle)
    Instance.placement_group_name = property(lambda instance: instance.placement.group_name)
    TaggedEC2Resource.get_tags = _get_tags
    ec2_utils.filter_dict_attribute_mapping.update(_MORE_FILTERS)
    ec2_utils.instance_value_in_filter_values = passes_filter


def _start_instances(backend: EC2Backend, instance_ids: list[str]) -> list[tuple[Any, Any]]:
    for instance in _existing(backend, instance_ids):
        if instance.state not in _STARTABLE:
            raise _incorrect_state(instance, "started")
    started = _moto_start(backend, instance_ids)
    for instance, previous in started:
        if previous.name == "stopped":
            instance.launch_time = utcnow()
    return started


def _stop_instances(backend: EC2Backend, instance_ids: list[str]) -> list[tuple[Any, Any]]:
    for instance in _existing(backend, instance_ids):
        if instance.state not in _STOPPABLE:
            raise _incorrect_state(instance, "stopped")
        if instance.root_device_type != "ebs":
            raise EC2ClientError(
                "UnsupportedOperation",
                f"The instance '{instance.id}' does not have an 'ebs' root device type and cannot be stopped.",
            )
        if instance.lifecycle == "spot" and spot.request_type(instance) != "persistent":
            raise EC2ClientError(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot "
                "Instance request. You can only stop Spot Instances associated with persistent Spot Instance requests.",
            )
    stopped = _moto_stop(backend, instance_ids)
    for instance, _ in stopped:
        _write_reason(instance)
    return stopped


def _terminate_instances(backend: EC2Backend, instance_ids: list[str]) -> list[tuple[Any, Any]]:
    """One protected instance spares its whole zone, and the call fails ("TerminateInstances", API Reference)."""
    instances = _existing(backend, instance_ids)
    protected = [instance for instance in instances if instance.disable_api_termination is True]
    spared_zones = {instance.availability_zone for instance in protected}
    ended = []
    for instance in instances:
        if instance.availability_zone in spared_zones:
            continue
        if instance.state == "terminated":
            ended.append((instance, instance._state))
            continue
        if lifecycle.are_ends_held(backend):
            ended.append((instance, copy.copy(instance._state)))
            lifecycle.end(instance, lifecycle.BY_CALL)
        else:
            ended += _moto_terminate(backend, [instance.id])
        _write_reason(instance)
    if protected:
        raise OperationNotPermitted4(protected[0].id)
    return ended


def _do_resources_exist(backend: EC2Backend, resource_ids: list[str]) -> bool:
    """Moto asks this before CreateTags, and lets instances, volumes and snapshots through that do not exist."""
    for resource_id in resource_ids:
        kind = resource_id.partition("-")[0]
        if kind == "i" and backend.get_instance_by_id(resource_id) is None:
            raise InvalidInstanceIdError(resource_id)
        if kind == "vol":
            ebs_corrections.volume_of(backend, resource_id)
        if kind == "snap":
            ebs_corrections.snapshot_of(backend, resource_id)
    return _moto_do_resources_exist(backend, resource_ids)


def _described_regions(regions: tuple[str, ...]) -> Any:
    def describe_regions(backend: EC2Backend, region_names: Any = None) -> list[Any]:
        known = _moto_describe_regions(backend, region_names)
        return [region for region in known if not regions or region.name in regions]

    return describe_regions


def _run_instances(response: InstanceResponse) -> ActionResult:
    backend, group = response.ec2_backend, response._get_param("Placement.GroupName")
    asked = {name: response._get_param(name) or [] for name in ("NetworkInterfaces", "SecurityGroupIds", "SubnetId")}
    interface_corrections.check_launch(backend, asked, response._get_param("InstanceType"))
    if group:
        subnet = asked["SubnetId"] or next((one["SubnetId"] for one in asked["NetworkInterfaces"] if "SubnetId" in one), None)
        zone = backend.get_subnet(subnet).availability_zone if subnet else response._get_param("Placement.AvailabilityZone")
        placement_groups.check_launch(backend, group, zone)
    result = _moto_run_instances(response)
    launched = result.result.instances
    market = response._get_param("InstanceMarketOptions", {})
    profile = backend.iam_instance_profile_associations.get(launched[0].id)
    for instance in launched:
        instance.placement.group_name = group or ""
        instance.disable_api_termination = bool(response._get_param("DisableApiTermination"))
        if profile is not None and instance is not launched[0]:
            backend.associate_iam_instance_profile(instance.id, iam_instance_profile_name=profile.iam_instance_profile.name)
        if market.get("MarketType") == "spot":
            options = market.get("SpotOptions", {})
            spot.attach_request(instance, options.get("SpotInstanceType", "one-time"), options)
    # EC2's answers are not in the order of the launch index (joaquincasares/cassandralauncher#10).
    launched.sort(key=lambda instance: (instance.ami_launch_index % 2 == 0, instance.ami_launch_index))
    return result


def _get_tags(resource: Any) -> list[dict[str, str]]:
    """As moto's, but without searching the tags of all resources for those of one."""
    tags = resource.ec2_backend.tags
    if resource.id not in tags:
        return []
    return [
        {"resource_id": resource.id, "key": key, "value": value, "resource_type": ""}
        for key, value in tags[resource.id].items()
    ]


def passes_filter(value: Any, accepted: list[str]) -> bool:
    """EC2's filters take `*` and `?`; moto compares whole values."""
    values = value if isinstance(value, list) else [value]
    texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in values if one is not None]
    return any(_wildcard(pattern).fullmatch(text) for pattern in accepted for text in texts)


@lru_cache(maxsize=10_000)
def _wildcard(pattern: str) -> re.Pattern:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."))


def _existing(backend: EC2Backend, instance_ids: list[str]) -> list[Instance]:
    """In the order asked for. One unknown id fails the whole call, before anything is done."""
    return backend.get_multi_instances_by_id(instance_ids)


def _incorrect_state(instance: Instance, participle: str) -> EC2ClientError:
    return EC2ClientError(
        "IncorrectInstanceState",
        f"The instance '{instance.id}' is not in a state from which it can be {participle}.",
    )


def _write_reason(instance: Instance) -> None:
    """EC2 writes GMT where moto writes UTC, and programs parse it."""
    instance._reason = f"User initiated ({utcnow().strftime('%Y-%m-%d %H:%M:%S')} GMT)"
