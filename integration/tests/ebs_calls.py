"""What tests of the local AWS ask of it about volumes and snapshots."""

from __future__ import annotations

from typing import Any

from local_aws import LocalAws


def volumes(aws: LocalAws, **asked: Any) -> list[str]:
    return [one["VolumeId"] for one in aws.client("ec2").describe_volumes(**asked)["Volumes"]]


def snapshots(aws: LocalAws, **asked: Any) -> list[str]:
    return [one["SnapshotId"] for one in aws.client("ec2").describe_snapshots(**asked)["Snapshots"]]


def by(name: str, *values: str) -> dict[str, Any]:
    return {"Filters": [{"Name": name, "Values": list(values)}]}


def tagged(kind: str, tags: dict[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]


def snapshot(aws: LocalAws, volume_id: str, **tags: str) -> str:
    specified = {"TagSpecifications": tagged("snapshot", tags)} if tags else {}
    return aws.client("ec2").create_snapshot(VolumeId=volume_id, **specified)["SnapshotId"]


def state(aws: LocalAws, snapshot_id: str) -> str:
    return aws.client("ec2").describe_snapshots(SnapshotIds=[snapshot_id])["Snapshots"][0]["State"]


def attach(aws: LocalAws, volume_id: str, **instance: Any) -> str:
    instance_id = aws.run_instance("g5.xlarge", {}, **instance)
    aws.client("ec2").attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")
    return instance_id
