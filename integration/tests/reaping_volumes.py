"""An account whose volumes are reaped: builders for them and what they hang on, and the real `reap-volumes`.

storage = VolumeAccount(aws)                    # in tests: the fixture `storage`
volume = storage.orphan(size=500)
assert storage.tick().said(volume) == ("mark", "orphaned", "done")
storage.tick()                                  # the snapshot
assert storage.tick().said(volume) == ("delete", "orphaned", "done")
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from earlier_runs import announced, record_of_safety, snapshot_description
from local_aws.client import REGION
from reaping import TAGGED, Account, ago, rfc3339

# Every team is in enforce mode, without grace: one run marks, one snapshots, and one deletes.
EAGER: dict[str, Any] = {
    "mode": "enforce",
    "untagged": {"mode": "enforce"},
    "volumes": {"orphaned_after": "14d", "grace": "0s"},
    "limits": {"fleet_share_max_percent": 100, "actions_max": 100},
}

# How long a snapshot is kept by default.

# What belongs to a restored volume, and not to the old one.
_OF_ITS_OWN = {"VolumeId", "CreateTime", "SnapshotId"}
_OF_CURFEW = ("curfew:marked", "curfew:unattached-since")


def described(volume: dict[str, Any]) -> dict[str, Any]:
    """Everything that a restored volume has in common with the old one; tags of AWS cannot be given back."""
    tags = {tag["Key"]: tag["Value"] for tag in volume.get("Tags", [])}
    tags = {key: value for key, value in tags.items() if key not in _OF_CURFEW and not key.startswith("aws:")}
    return {**{key: value for key, value in volume.items() if key not in _OF_ITS_OWN}, "Tags": tags}


class VolumeAccount(Account):
    function = "reap-volumes"
    eager = EAGER

    # What is there

    def volume(
        self,
        size: int = 100,
        volume_type: str = "gp3",
        region: str = REGION,
        tags: dict[str, str] | None = None,
        unattached_since: datetime | None = None,
        asked: dict[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """One of team vision, 40 days old, attached to nothing; `tags` come on top, also those of AWS. `asked` is what
        CreateVolume is asked for besides, `fields` what the back door sets."""
        tags = {**TAGGED, **(tags or {})}
        return self._volume(size, volume_type, region, tags, unattached_since, asked, fields)

    def untagged_volume(self, region: str = REGION, tags: dict[str, str] | None = None, **volume: Any) -> str:
        """One without any tags but these."""
        size, volume_type = volume.pop("size", 100), volume.pop("volume_type", "gp3")
        since, asked = volume.pop("unattached_since", None), volume.pop("asked", None)
        return self._volume(size, volume_type, region, tags or {}, since, asked, volume)

    def _volume(
        self,
        size: int,
        volume_type: str,
        region: str,
        tags: dict[str, str],
        since: datetime | None,
        asked: dict[str, Any] | None,
        fields: dict[str, Any],
    ) -> str:
        fields.setdefault("create_time", ago(days=40))
        volume_id = self.aws.create_volume(size, {}, region, volume_type, asked, **fields)
        tags = {**tags, **({"curfew:unattached-since": rfc3339(since)} if since else {})}
        if tags:
            self.aws.tag(volume_id, tags, region)
        if since:
            self.remember(volume_id, region, since=rfc3339(since))
        return volume_id

    def orphan(self, **volume: Any) -> str:
        """First seen unattached 20 days ago, and never used since."""
        return self.volume(**{"unattached_since": ago(days=20), **volume})

    def marked(self, ending: str = "snapshot-and-delete", at: datetime | None = None, **volume: Any) -> str:
        """An orphan that was announced, past its deadline if not said otherwise."""
        region = volume.get("region", REGION)
        volume_id = self.orphan(**volume)
        self.announce(volume_id, ending, at, region)
        return volume_id

    def announce(
        self, volume_id: str, ending: str = "snapshot-and-delete", at: datetime | None = None, region: str = REGION
    ) -> None:
        mark = f"orphaned={ending}@{rfc3339(at or ago(minutes=5))}"
        self.tag(volume_id, region, marked=mark)
        self.remember(volume_id, region, announced=announced(mark))

    def host(self, region: str = REGION, tags: dict[str, str] | None = None, **fields: Any) -> str:
        """An instance without any volume; it needs no accelerator."""
        instance_id = self.aws.run_instance("m5.large", tags or {}, region, **fields)
        filters = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
        for root in self.aws.client("ec2", region).describe_volumes(Filters=filters)["Volumes"]:
            self.detach(root["VolumeId"], region)
            self.aws.delete(root["VolumeId"], region)
        return instance_id

    def stopped_host(self, since: datetime, region: str = REGION, **host: Any) -> str:
        reason = f"User initiated ({since:%Y-%m-%d %H:%M:%S} GMT)"
        return self.host(region, state="stopped", state_transition_reason=reason, **host)

    def attach(self, volume_id: str, instance_id: str | None = None, region: str = REGION) -> str:
        """To this instance, or to one of its own. Answers that."""
        instance_id = instance_id or self.host(region)
        self.aws.attach(volume_id, instance_id, region)
        return instance_id

    def attached(self, instance_id: str | None = None, **volume: Any) -> str:
        """A volume that hangs on this instance, or on one of its own."""
        volume_id = self.volume(**volume)
        self.attach(volume_id, instance_id, volume.get("region", REGION))
        return volume_id

    def detach(self, volume_id: str, region: str = REGION) -> None:
        self.aws.detach(volume_id, region)

    def used_at(self, volume_id: str, when: datetime, region: str = REGION) -> None:
        """Five minutes on a running instance, as EBS reports them."""
        at = {"VolumeId": volume_id}
        self.aws.put_metrics("AWS/EBS", "VolumeIdleTime", at, [60.0] * 5, when, step_seconds=60, region=region)

    def snapshot_of(
        self,
        of: str,
        started: datetime | None = None,
        deleted_at: datetime | None = None,
        region: str = REGION,
        tags: dict[str, str] | None = None,
        **fields: Any,
    ) -> str:
        """As Curfew takes one, an hour ago; `tags` come on top."""
        created = self.aws.client("ec2", region).create_snapshot(VolumeId=of, Description=snapshot_description(of))
        snapshot_id = created["SnapshotId"]
        restore = f"{region}a,gp3,{created['VolumeSize']},3000,125"
        own = {**TAGGED, "curfew:snapshot-of": of, "curfew:restore": restore}
        if deleted_at:
            own["curfew:deleted-at"] = rfc3339(deleted_at)
        self.aws.tag(snapshot_id, {**own, **(tags or {})}, region)
        started = started or ago(hours=1)
        self.aws.set_snapshot(snapshot_id, region, start_time=started, **fields)
        self.remember(snapshot_id, region, **record_of_safety(of, started, deleted_at))
        return snapshot_id

    def expire(self, snapshot_id: str, region: str = REGION) -> None:
        """It is kept neither by the configuration, nor by what was announced: a shorter `keep_snapshots` moves no announced end."""
        self.configure(volumes={"keep_snapshots": "0s"})
        self.remember(snapshot_id, region, announced=announced(f"expired=delete@{rfc3339(ago(minutes=1))}"))

    def left_behind(
        self,
        deleted_at: datetime | None = None,
        region: str = REGION,
        tags: dict[str, str] | None = None,
        **volume: Any,
    ) -> str:
        """A safety snapshot whose volume is gone."""
        volume_id = self.volume(region=region, **volume)
        snapshot_id = self.snapshot_of(volume_id, deleted_at, deleted_at, region, tags)
        self.aws.delete(volume_id, region)
        return snapshot_id

    # What became of it

    def exists(self, volume_id: str, region: str = REGION) -> bool:
        return bool(self._found("volume", volume_id, region))

    def snapshot_exists(self, snapshot_id: str, region: str = REGION) -> bool:
        return bool(self._found("snapshot", snapshot_id, region))

    def snapshots(self, volume_id: str, region: str = REGION) -> list[str]:
        """Those that Curfew took of it, oldest first."""
        filters = [{"Name": "tag:curfew:snapshot-of", "Values": [volume_id]}]
        found = self.aws.client("ec2", region).describe_snapshots(OwnerIds=["self"], Filters=filters)["Snapshots"]
        return [one["SnapshotId"] for one in sorted(found, key=lambda one: one["StartTime"])]

    def snapshot(self, volume_id: str, region: str = REGION) -> str:
        [snapshot_id] = self.snapshots(volume_id, region)
        return snapshot_id

    def _found(self, kind: str, resource_id: str, region: str) -> list[Any]:
        describe = getattr(self.aws.client("ec2", region), f"describe_{kind}s")
        return describe(Filters=[{"Name": f"{kind}-id", "Values": [resource_id]}])[f"{kind.capitalize()}s"]
