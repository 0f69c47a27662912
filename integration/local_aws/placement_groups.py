"""Placement groups, which moto lacks: their calls, and what RunInstances makes of one.

Source: "CreatePlacementGroup", "DeletePlacementGroup" and "DescribePlacementGroups" (EC2 API Reference), "Placement groups" (EC2 User Guide):
a name is unique in a region, all instances of a cluster group are in one zone, and a group is deleted only once all its instances are
terminated. Messages are those that people quote (hashicorp/terraform#16183, FDio/csit#179). The filters by name and tag are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2 import utils as ec2_utils
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance
from moto.ec2.responses.instances import InstanceResponse

_KIND = "placement_groups"
_PREFIX = "pg"
_STRATEGIES = ("cluster", "partition", "spread")
_FIELDS = {"group-name": "name", "strategy": "strategy", "state": "state"}


@dataclass
class PlacementGroup:
    """What DescribePlacementGroups answers; moto's serializer picks the attributes by name."""

    backend: EC2Backend
    id: str
    name: str
    strategy: str
    state: str = "available"

    @property
    def answer(self) -> dict[str, Any]:
        arn = f"arn:aws:ec2:{self.backend.region_name}:{self.backend.account_id}:placement-group/{self.name}"
        tags = [{"Key": key, "Value": value} for key, value in self.tags.items()]
        named = {"GroupId": self.id, "GroupName": self.name, "GroupArn": arn}
        return {**named, "State": self.state, "Strategy": self.strategy, "Tags": tags}

    @property
    def tags(self) -> dict[str, str]:
        return self.backend.tags.get(self.id, {})

    def users(self) -> list[Instance]:
        """Instances of it that are not terminated."""
        reservations = self.backend.reservations.values()
        every = [one for reservation in reservations for one in reservation.instances]
        return [one for one in every if one.placement.group_name == self.name and one.state != "terminated"]


def apply() -> None:
    InstanceResponse.create_placement_group = _create
    InstanceResponse.delete_placement_group = _delete
    InstanceResponse.describe_placement_groups = _describe
    ec2_utils.EC2_PREFIX_TO_RESOURCE[_PREFIX] = "placement-group"


def check_launch(backend: EC2Backend, name: str, zone: str) -> None:
    """Refuses a launch into a group that is not there, or whose instances are in another zone."""
    group = _find(backend, name)
    zones = {one.availability_zone for one in group.users()}
    if group.strategy == "cluster" and zones - {zone}:
        message = f"The placement group '{name}' is in use in another availability zone: {sorted(zones)[0]}"
        raise EC2ClientError("InvalidPlacementGroup.InUse", message)


def _groups(backend: EC2Backend) -> dict[str, PlacementGroup]:
    """By name. The store lives in moto's backend, so that moto's reset empties it."""
    groups: dict[str, PlacementGroup] = backend.__dict__.setdefault(_KIND, {})
    return groups


def _find(backend: EC2Backend, name: str) -> PlacementGroup:
    if name not in _groups(backend):
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The placement group '{name}' is unknown.")
    return _groups(backend)[name]


def _create(response: InstanceResponse) -> ActionResult:
    backend, name = response.ec2_backend, response._get_param("GroupName")
    strategy = response._get_param("Strategy") or "cluster"
    tags = response._parse_tag_specification(_KIND.replace("_", "-").removesuffix("s")).get("placement-group", {})
    if not name or strategy not in _STRATEGIES:
        raise EC2ClientError("InvalidParameterValue", f"No placement group can have the name {name!r} and the strategy {strategy!r}")
    if name in _groups(backend):
        raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
    response.error_on_dryrun()
    group = PlacementGroup(backend, ec2_utils.random_id(prefix=_PREFIX), name, strategy)
    backend.create_tags([group.id], tags)
    _groups(backend)[name] = group
    return ActionResult({"PlacementGroup": group.answer})


def _delete(response: InstanceResponse) -> EmptyResult:
    backend = response.ec2_backend
    group = _find(backend, response._get_param("GroupName"))
    if group.users():
        message = f"The placement group '{group.name}' is in use and may not be deleted."
        raise EC2ClientError("InvalidPlacementGroup.InUse", message)
    del _groups(backend)[group.name]
    backend.tags.pop(group.id, None)
    return EmptyResult()


def _describe(response: InstanceResponse) -> ActionResult:
    from .ec2_corrections import passes_filter

    backend = response.ec2_backend
    found = list(_groups(backend).values())
    if names := response._get_param("GroupNames", []):
        found = [_find(backend, name) for name in names]
    if ids := response._get_param("GroupIds", []):
        found = [one for one in found if one.id in ids]
    for name, values in response._filters_from_querystring().items():
        found = [one for one in found if passes_filter(_value(one, name), values)]
    return ActionResult({"PlacementGroups": [one.answer for one in found]})


def _value(group: PlacementGroup, name: str) -> Any:
    if name == "tag-key":
        return list(group.tags)
    if name.startswith("tag:"):
        return group.tags.get(name.removeprefix("tag:"))
    if name not in _FIELDS:
        raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return getattr(group, _FIELDS[name])
