"""Builds the account's volumes and the safety snapshots of earlier runs, and finds those that come to be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from local_aws import LocalAws

from .fleet import OWNERS, REGIONS, rfc3339
from .storage import Disk, Safety, disks, safeties

_BOUGHT = timedelta(days=90)
_ACTIVE_HOUR = [60.0] * 12  # VolumeIdleTime, every 5 minutes: EBS reports it while a volume is attached


@dataclass
class Storage:
    """What was built, by id."""

    disks: dict[str, Disk] = field(default_factory=dict)
    roots: set[str] = field(default_factory=set)  # of the machines
    safeties: dict[str, Safety] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)  # names of the machines that disks hang on

    def id_of(self, name: str) -> str:
        return next(volume_id for volume_id, disk in self.disks.items() if disk.name == name)

    def adopt(self, volume_id: str, old_id: str) -> None:
        """A volume that was restored: nothing is to happen to it."""
        old = self.disks[old_id]
        self.disks[volume_id] = replace(old, name=f"{old.name} (again)", unattached=None)

    def find_snapshots(self, aws: LocalAws) -> None:
        """Those that Curfew made of the disks since; each is the next of its volume's cast."""
        expected = [one for one in safeties() if one.deleted is None]
        for region in REGIONS:
            filters = [{"Name": "tag-key", "Values": ["curfew:snapshot-of"]}]
            found = aws.client("ec2", region).describe_snapshots(OwnerIds=["self"], Filters=filters)["Snapshots"]
            for snapshot in found:
                disk = self.disks.get(snapshot["VolumeId"])
                cast = [one for one in expected if disk and one.of == disk.name]
                if cast:
                    self.safeties.setdefault(snapshot["SnapshotId"], cast[0])


def seed_storage(aws: LocalAws, machines: dict[str, str], now: datetime) -> Storage:
    """`machines` has the ids of the instances by name."""
    storage = Storage()
    for region in REGIONS:
        volumes = aws.client("ec2", region).describe_volumes()["Volumes"]
        storage.roots.update(volume["VolumeId"] for volume in volumes)
    for disk in disks(now):
        fields = {"create_time": now - _BOUGHT, **disk.fields}
        volume_id = aws.create_volume(disk.gib, disk.all_tags(now), disk.region, disk.type, disk.asked, **fields)
        storage.disks[volume_id] = disk
        if disk.on:
            attach(aws, volume_id, machines[disk.on], disk.region)
            storage.hosts[machines[disk.on]] = disk.on
        if disk.used:
            at = {"VolumeId": volume_id}
            start = now - disk.used
            aws.put_metrics("AWS/EBS", "VolumeIdleTime", at, _ACTIVE_HOUR, start, region=disk.region)
    for safety in safeties():
        if safety.deleted is not None:
            storage.safeties[_left_behind(aws, safety, now - safety.deleted)] = safety
    return storage


def attach(aws: LocalAws, volume_id: str, instance_id: str, region: str) -> None:
    aws.client("ec2", region).attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")


def _left_behind(aws: LocalAws, safety: Safety, deleted_at: datetime) -> str:
    """A safety snapshot of a volume that an earlier run deleted, as that run left it."""
    region = REGIONS[0]
    client = aws.client("ec2", region)
    volume_id = aws.create_volume(100, {}, region)
    tags = {
        "Name": safety.of,
        "Team": "vision",
        "Owner": OWNERS["vision"],
        "curfew:snapshot-of": volume_id,
        "curfew:restore": f"{region}a,gp3,100,3000,125",
        "curfew:deleted-at": rfc3339(deleted_at),
    }
    named = [{"Key": key, "Value": value} for key, value in tags.items()]
    created = client.create_snapshot(
        VolumeId=volume_id, TagSpecifications=[{"ResourceType": "snapshot", "Tags": named}]
    )
    client.delete_volume(VolumeId=volume_id)
    aws.set_snapshot(created["SnapshotId"], region, start_time=deleted_at - timedelta(hours=1))
    return created["SnapshotId"]
