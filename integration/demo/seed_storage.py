"""Builds the account's volumes, and the snapshots of volumes that earlier runs deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from earlier_runs import record_of_safety, rfc3339, snapshot_description
from local_aws import LocalAws

from .fleet import OWNERS, REGIONS
from .memory import remember
from .storage import SAFETIES, Disk, disks

FUNCTION = "reap-volumes"
_BOUGHT = timedelta(days=90)
_ACTIVE_HOUR = [60.0] * 12  # VolumeIdleTime, every 5 minutes: EBS reports it while a volume is attached


@dataclass
class Storage:
    disks: dict[str, Disk] = field(default_factory=dict)  # by id
    roots: int = 0  # root volumes of the machines
    safeties: int = 0  # snapshots that earlier runs left

    def id_of(self, name: str) -> str:
        return next(volume_id for volume_id, disk in self.disks.items() if disk.name == name)


def seed_storage(aws: LocalAws, bucket: str, machines: dict[str, str], now: datetime) -> Storage:
    """`machines` has the ids of the instances by name."""
    storage = Storage()
    for region in REGIONS:
        storage.roots += len(aws.client("ec2", region).describe_volumes()["Volumes"])
    for disk in disks(now):
        fields = {"create_time": now - _BOUGHT, **disk.fields}
        volume_id = aws.create_volume(disk.gib, disk.all_tags(now), disk.region, disk.type, disk.asked, **fields)
        storage.disks[volume_id] = disk
        if disk.on:
            attach(aws, volume_id, machines[disk.on], disk.region)
        if disk.used:
            at = {"VolumeId": volume_id}
            start = now - disk.used
            aws.put_metrics("AWS/EBS", "VolumeIdleTime", at, _ACTIVE_HOUR, start, region=disk.region)
        if disk.unattached:
            remember(aws, bucket, FUNCTION, disk.region, {volume_id: {"since": rfc3339(now - disk.unattached)}})
    for name, age in SAFETIES.items():
        _leave_behind(aws, bucket, name, (now - age).replace(microsecond=0))
        storage.safeties += 1
    return storage


def attach(aws: LocalAws, volume_id: str, instance_id: str, region: str) -> None:
    aws.client("ec2", region).attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")


def _leave_behind(aws: LocalAws, bucket: str, name: str, deleted_at: datetime) -> None:
    """A safety snapshot of a volume that an earlier run deleted, as that run left it."""
    region = REGIONS[0]
    client = aws.client("ec2", region)
    volume_id = aws.create_volume(100, {}, region)
    tags = {
        "Name": name,
        "Team": "vision",
        "Owner": OWNERS["vision"],
        "curfew:snapshot-of": volume_id,
        "curfew:restore": f"{region}a,gp3,100,3000,125",
        "curfew:deleted-at": rfc3339(deleted_at),
    }
    named = [{"Key": key, "Value": value} for key, value in tags.items()]
    created = client.create_snapshot(
        VolumeId=volume_id,
        Description=snapshot_description(volume_id),
        TagSpecifications=[{"ResourceType": "snapshot", "Tags": named}],
    )
    snapshot, started = created["SnapshotId"], deleted_at - timedelta(hours=1)
    client.delete_volume(VolumeId=volume_id)
    aws.set_snapshot(snapshot, region, start_time=started)
    remember(aws, bucket, FUNCTION, region, {snapshot: record_of_safety(volume_id, started, deleted_at)})
