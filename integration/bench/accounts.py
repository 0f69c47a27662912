"""The accounts that are measured, one a function and one for `curfew scan`: what EC2 and CloudWatch say in each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import cbor2
from local_aws.aws_call import AwsCall

from . import ebs_xml, ec2_xml
from .endpoints import Endpoints
from .fleet import CONFIG as INSTANCES_CONFIG
from .fleet import AT_HOME_PERCENT, REGION, REGIONS, Machine, fleet
from .instance_metrics import InstanceMetrics
from .refused import Refused
from .storage import CONFIG as VOLUMES_CONFIG
from .storage import Snapshot, Volume, remembered, storage
from .volume_metrics import VolumeMetrics
from .xml_pages import Pages, filters, listing, numbered

_CBOR = {"Content-Type": "application/cbor", "smithy-protocol": "rpc-v2-cbor"}
_JSON = {"Content-Type": "application/x-amz-json-1.0"}
_VALUES_MAX = 200  # of a filter (Amazon EC2 User Guide, "Filter resources")


class _Region:
    """What one region has."""

    def __init__(
        self,
        machines: list[Machine],
        metrics: InstanceMetrics | VolumeMetrics,
        volumes: list[Volume],
        own: list[Snapshot],
        sources: list[Snapshot],
    ) -> None:
        self._metrics = metrics
        reservations = {one.id: ec2_xml.reservation(one) for one in machines}
        self.instances = _Listed("DescribeInstances", "reservationSet", "InstanceId", reservations)
        rendered = {one.id: ebs_xml.volume(one) for one in volumes}
        self.volumes = _Listed("DescribeVolumes", "volumeSet", "VolumeId", rendered)
        unattached = {one.id: rendered[one.id] for one in volumes if one.attached_to is None}
        self._unattached = _Listed("DescribeVolumes", "volumeSet", "VolumeId", unattached)
        self._own = _Listed("DescribeSnapshots", "snapshotSet", "SnapshotId", {one.id: ebs_xml.snapshot(one) for one in own})
        self._sources = {one.id: ebs_xml.snapshot(one) for one in sources}

    def ec2(self, operation: str, form: dict[str, str]) -> bytes:
        by = filters(form)
        match operation:
            case "DescribeInstances":
                return self.instances.describe(form)
            case "DescribeInstanceTypes":
                return ec2_xml.instance_types(numbered(form, "InstanceType") or by.get("instance-type"))
            case "DescribeVolumes" if not by:
                return self.volumes.describe(form)
            case "DescribeVolumes" if by == {"status": ["available"]}:
                return self._unattached.describe(form)
            case "DescribeSnapshots":
                return self._snapshots(form, by)
            case "DescribeCapacityReservations":
                return listing(operation, "capacityReservationSet", [])
        raise Refused(f"{operation} by {by} is not prepared")

    def cloudwatch(self, call: AwsCall, body: bytes) -> tuple[bytes, dict[str, str]]:
        match call.operation, call.protocol:
            case "ListMetrics", "cbor":
                return self._metrics.list_metrics(cbor2.loads(body)), _CBOR
            case "GetMetricData", "cbor":
                return self._metrics.get_metric_data(cbor2.loads(body)), _CBOR
            case "GetMetricStatistics", "json" if isinstance(self._metrics, InstanceMetrics):
                return self._metrics.get_metric_statistics(json.loads(body)), _JSON
        raise Refused(f"{call.operation} in {call.protocol} is not prepared")

    def _snapshots(self, form: dict[str, str], by: dict[str, list[str]]) -> bytes:
        """Of the public ones there are millions, so that one must say which one means."""
        owners = numbered(form, "Owner")
        if by == {"description": ["Curfew: *"]} and owners == ["self"]:
            return self._own.describe(form)
        if by.keys() == {"snapshot-id"} and len(by["snapshot-id"]) <= _VALUES_MAX:
            found = (self._sources[one] for one in by["snapshot-id"] if one in self._sources)
            return listing("DescribeSnapshots", "snapshotSet", found)
        if not by and numbered(form, "SnapshotId"):
            return self._own.describe(form)
        raise Refused(f"DescribeSnapshots of {owners} by {by} is not prepared")


class _Listed:
    """The answer of one operation: the named resources, or all, page by page."""

    def __init__(self, operation: str, of: str, name: str, items: dict[str, str]) -> None:
        self._operation, self._of, self._name = operation, of, name
        self._items = items
        self._pages = Pages(operation, of, items.values())
        self.rendered_bytes = len(self._pages)

    def describe(self, form: dict[str, str]) -> bytes:
        named = numbered(form, self._name)
        if named:
            return listing(self._operation, self._of, [self._items[one] for one in named])
        return self._pages.page(form)


@dataclass(frozen=True)
class Account:
    config: str
    regions: dict[str, _Region]
    rendered_bytes: int  # all pages of what the function looks at
    log: dict[str, Any] | None = None  # of notifications, as earlier runs left it

    def ec2(self, call: AwsCall, form: dict[str, str]) -> bytes:
        if call.operation == "DescribeRegions":
            return ec2_xml.regions(list(self.regions))
        return self.regions[call.region].ec2(call.operation, form)

    def cloudwatch(self, call: AwsCall, body: bytes) -> tuple[bytes, dict[str, str]]:
        return self.regions[call.region].cloudwatch(call, body)


def _of_instances(count: int) -> Account:
    machines = fleet(count)
    region = _Region(machines, InstanceMetrics(machines), [], [], [])
    return Account(INSTANCES_CONFIG, {REGION: region}, region.instances.rendered_bytes)


def _of_volumes(count: int) -> Account:
    seen = storage(count)
    region = _Region(seen.machines, VolumeMetrics(seen.volumes), seen.volumes, seen.own, seen.sources)
    return Account(VOLUMES_CONFIG, {REGION: region}, region.volumes.rendered_bytes, remembered(seen))


def _of_scan(count: int) -> Account:
    """The fleet and as many volumes, spread over all regions. Nothing is deployed."""
    seen = storage(count)
    machines, volumes = _spread(fleet(count)), _spread([one for one in seen.volumes if one.attached_to is None])
    regions = {name: _Region(machines[name], InstanceMetrics(machines[name]), volumes[name], [], seen.sources) for name in REGIONS}
    return Account("", regions, sum(region.instances.rendered_bytes for region in regions.values()))


def _spread(all: list[Any]) -> dict[str, list[Any]]:
    at_home = len(all) * AT_HOME_PERCENT // 100
    others = REGIONS[1:]
    return {REGION: all[:at_home], **{name: all[at_home + at :: len(others)] for at, name in enumerate(others)}}


ACCOUNTS = {"reap-instances": _of_instances, "reap-volumes": _of_volumes, "reap-sagemaker": Endpoints, "scan": _of_scan}
