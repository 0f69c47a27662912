"""The accounts that are measured, one a function and one for `curfew scan`: what EC2 and CloudWatch say in each."""

from __future__ import annotations

import json
from typing import Any, Protocol

import cbor2
from local_aws.aws_call import AwsCall

from . import ebs_xml, ec2_xml
from .fleet import CONFIG as INSTANCES_CONFIG
from .fleet import REGION, Machine, fleet
from .instance_metrics import InstanceMetrics
from .refused import Refused
from .storage import CONFIG as VOLUMES_CONFIG
from .storage import Volume, storage
from .volume_metrics import VolumeMetrics
from .xml_pages import Pages, filters, listing, numbered

_CBOR = {"Content-Type": "application/cbor", "smithy-protocol": "rpc-v2-cbor"}
_JSON = {"Content-Type": "application/x-amz-json-1.0"}
_VALUES_MAX = 200  # of a filter (Amazon EC2 User Guide, "Filter resources")

Typed = tuple[bytes, dict[str, str]]  # body, headers


class Account(Protocol):
    config: str
    rendered_bytes: int  # all pages of what the function looks at

    def ec2(self, call: AwsCall, form: dict[str, str]) -> bytes: ...

    def cloudwatch(self, call: AwsCall, body: bytes) -> Typed: ...


class InstancesAccount:
    config = INSTANCES_CONFIG

    def __init__(self, count: int) -> None:
        machines = fleet(count)
        self._instances = _Instances(machines)
        self._metrics = InstanceMetrics(machines)
        self.rendered_bytes = self._instances.rendered_bytes

    def ec2(self, call: AwsCall, form: dict[str, str]) -> bytes:
        operation = call.operation
        if operation == "DescribeInstances":
            return self._instances.describe(form)
        if operation == "DescribeInstanceTypes":
            named = numbered(form, "InstanceType") or filters(form).get("instance-type")
            return ec2_xml.instance_types(named)
        return _of_any(operation, [REGION])

    def cloudwatch(self, call: AwsCall, body: bytes) -> Typed:
        return _said_of_instances(self._metrics, call, body)


def _said_of_instances(metrics: InstanceMetrics, call: AwsCall, body: bytes) -> Typed:
    match call.operation, call.protocol:
        case "ListMetrics", "cbor":
            return metrics.list_metrics(cbor2.loads(body)), _CBOR
        case "GetMetricData", "cbor":
            return metrics.get_metric_data(cbor2.loads(body)), _CBOR
        case "GetMetricStatistics", "json":
            return metrics.get_metric_statistics(json.loads(body)), _JSON
    raise Refused(f"{call.operation} in {call.protocol} is not prepared")


class VolumesAccount:
    config = VOLUMES_CONFIG

    def __init__(self, count: int) -> None:
        seen = storage(count)
        volumes = {one.id: ebs_xml.volume(one) for one in seen.volumes}
        own = {one.id: ebs_xml.snapshot(one) for one in seen.own}
        self._sources = {one.id: ebs_xml.snapshot(one) for one in seen.sources}
        self._volumes = _Listed("DescribeVolumes", "volumeSet", "VolumeId", volumes)
        self._own = _Listed("DescribeSnapshots", "snapshotSet", "SnapshotId", own)
        self._instances = _Instances(seen.machines)
        self._metrics = VolumeMetrics(seen.volumes)
        self.rendered_bytes = self._volumes.rendered_bytes

    def ec2(self, call: AwsCall, form: dict[str, str]) -> bytes:
        operation = call.operation
        if operation == "DescribeVolumes" and not filters(form):
            return self._volumes.describe(form)
        if operation == "DescribeSnapshots":
            return self._snapshots(form)
        if operation == "DescribeInstances":
            return self._instances.describe(form)
        return _of_any(operation, [REGION])

    def cloudwatch(self, call: AwsCall, body: bytes) -> Typed:
        if (call.operation, call.protocol) != ("GetMetricData", "cbor"):
            raise Refused(f"{call.operation} in {call.protocol} is not prepared")
        return self._metrics.get_metric_data(cbor2.loads(body)), _CBOR

    def _snapshots(self, form: dict[str, str]) -> bytes:
        """Of the public ones there are millions, so that one must say which one means."""
        by, owners = filters(form), numbered(form, "Owner")
        if by == {"tag-key": ["curfew:snapshot-of"]} and owners == ["self"]:
            return self._own.describe(form)
        if by.keys() == {"snapshot-id"} and len(by["snapshot-id"]) <= _VALUES_MAX:
            found = (self._sources[one] for one in by["snapshot-id"] if one in self._sources)
            return listing("DescribeSnapshots", "snapshotSet", found)
        if not by and numbered(form, "SnapshotId"):
            return self._own.describe(form)
        raise Refused(f"DescribeSnapshots of {owners} by {by} is not prepared")


# Those that every account has ("Regions and Zones", Amazon EC2 User Guide).
REGIONS = [REGION, "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"]
REGIONS += ["eu-central-1", "eu-west-1", "eu-west-2", "eu-west-3", "eu-north-1"]
REGIONS += ["ap-south-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-southeast-1", "ap-southeast-2"]
AT_HOME_PERCENT = 40  # the others have the same


class ScanAccount:
    """The fleet and as many volumes, spread over all regions. Nothing is deployed."""

    config = ""

    def __init__(self, count: int) -> None:
        seen = storage(count)
        machines, volumes = _spread(fleet(count)), _spread([one for one in seen.volumes if one.attached_to is None])
        sources = {one.id: ebs_xml.snapshot(one) for one in seen.sources}
        self._regions = {name: _Region(machines[name], volumes[name], sources) for name in REGIONS}
        self.rendered_bytes = sum(region.instances.rendered_bytes for region in self._regions.values())

    def ec2(self, call: AwsCall, form: dict[str, str]) -> bytes:
        return self._regions[call.region].ec2(call.operation, form)

    def cloudwatch(self, call: AwsCall, body: bytes) -> Typed:
        return _said_of_instances(self._regions[call.region].metrics, call, body)


def _spread(all: list[Any]) -> dict[str, list[Any]]:
    at_home = len(all) * AT_HOME_PERCENT // 100
    others = REGIONS[1:]
    return {REGION: all[:at_home], **{name: all[at_home + at :: len(others)] for at, name in enumerate(others)}}


class _Region:
    def __init__(self, machines: list[Machine], volumes: list[Volume], sources: dict[str, str]) -> None:
        unattached = {one.id: ebs_xml.volume(one) for one in volumes}
        self.instances = _Instances(machines)
        self.metrics = InstanceMetrics(machines)
        self._unattached = _Listed("DescribeVolumes", "volumeSet", "VolumeId", unattached)
        self._sources = sources

    def ec2(self, operation: str, form: dict[str, str]) -> bytes:
        by = filters(form)
        if operation == "DescribeInstances":
            return self.instances.describe(form)
        if operation == "DescribeInstanceTypes":
            return ec2_xml.instance_types(by["instance-type"])
        if operation == "DescribeVolumes" and by == {"status": ["available"]}:
            return self._unattached.describe(form)
        if operation == "DescribeSnapshots" and by.keys() == {"snapshot-id"} and len(by["snapshot-id"]) <= _VALUES_MAX:
            return listing(operation, "snapshotSet", [self._sources[one] for one in by["snapshot-id"]])
        return _of_any(operation, REGIONS)


class _Listed:
    """What one operation answers: those that are named, or all, page by page."""

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


class _Instances(_Listed):
    def __init__(self, machines: list[Machine]) -> None:
        items = {machine.id: ec2_xml.reservation(machine) for machine in machines}
        super().__init__("DescribeInstances", "reservationSet", "InstanceId", items)


def _of_any(operation: str, regions: list[str]) -> bytes:
    if operation == "DescribeRegions":
        return ec2_xml.regions(regions)
    raise Refused(f"{operation} is not prepared")


ACCOUNTS = {"reap-instances": InstancesAccount, "reap-volumes": VolumesAccount, "scan": ScanAccount}
