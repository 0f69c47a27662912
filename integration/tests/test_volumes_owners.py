"""Whose a volume is: its own tags, else those of the instance it was last seen on, else its source snapshot's."""

from __future__ import annotations

from typing import Any


from local_aws.client import REGION
from reaping import TAGGED, Run, ago, rfc3339
from reaping_volumes import VolumeAccount

SINCE: dict[str, Any] = {"unattached_since": ago(days=20)}


def source(storage: VolumeAccount, region: str = REGION, **tags: str) -> str:
    """A snapshot of somebody's, with these tags."""
    volume = storage.volume(region=region, tags={"curfew:protected": ""})
    snapshot = storage.aws.client("ec2", region).create_snapshot(VolumeId=volume)["SnapshotId"]
    if tags:
        storage.aws.change(tag={"resource": snapshot, "region": region, "tags": tags})
    return snapshot


def assert_belongs(run: Run, volume: str, team: str, owner: str) -> None:
    assert run.step(volume)["team"] == team
    [said] = [one for one in run.message(team).split("\n\n") if one.startswith(f"{volume} (")]
    assert f"owner {owner}" in said


def test_the_instance_it_was_last_seen_on(storage: VolumeAccount) -> None:
    """Which is terminated by then, and forgotten by EC2."""
    volume = storage.untagged_volume()
    host = storage.attach(volume, storage.host(tags=TAGGED))
    assert storage.tick().skipped == {"attached": 1}
    storage.aws.client("ec2").terminate_instances(InstanceIds=[host])
    assert storage.tick().said(volume) == ("mark", "orphaned", "done")
    storage.tag(volume, unattached_since=rfc3339(ago(days=20)))
    run = storage.tick()
    assert_belongs(run, volume, "vision", "ada")
    assert run.step(volume)["evidence"]["last_attached_to"] == host
    assert host in run.message()


def test_the_snapshot_it_came_from(storage: VolumeAccount) -> None:
    volume = storage.untagged_volume(**SINCE, snapshot_id=source(storage, Team="nlp", Owner="grace"))
    run = storage.tick()
    assert_belongs(run, volume, "nlp", "grace")


def test_the_snapshot_belongs_to_whom_the_volume_did(storage: VolumeAccount) -> None:
    """Whoever is asked whether it may go must be found when its volume has long been gone."""
    storage.configure(volumes={"keep_snapshots": "0s"})
    volume = storage.untagged_volume()
    storage.attach(volume, storage.host(tags=TAGGED))
    storage.tick()
    storage.detach(volume)
    storage.tag(volume, unattached_since=rfc3339(ago(days=20)))
    for action in ("mark", "snapshot", "delete"):
        run = storage.tick()
        assert run.said(volume) == (action, "orphaned", "done")
        assert run.step(volume)["team"] == "vision"
    snapshot = storage.snapshot(volume)
    run = storage.tick()
    assert run.said(snapshot) == ("delete", "expired", "done")
    assert run.step(snapshot)["team"] == "vision" and snapshot in run.message()
