"""Whose a volume is: its own tags, else those of the instance it was last seen on, else its source snapshot's."""

from __future__ import annotations

from typing import Any

import pytest

from local_aws.client import REGION
from reaping import EUROPE, TAGGED, Run, ago, rfc3339
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


def test_its_own_tags_come_first(storage: VolumeAccount) -> None:
    volume = storage.orphan(snapshot_id=source(storage, Team="nlp", Owner="grace"))
    host = storage.host(tags={"Team": "speech", "Owner": "alan"})
    storage.attach(volume, host)
    storage.tick()
    storage.detach(volume)
    storage.tag(volume, unattached_since=rfc3339(ago(days=20)))
    run = storage.tick()
    assert_belongs(run, volume, "vision", "ada")
    assert run.counts["ec2:DescribeInstances"] == 0


def test_the_instance_it_was_last_seen_on(storage: VolumeAccount) -> None:
    """Which is terminated by then, and forgotten by EC2."""
    volume = storage.untagged_volume()
    host = storage.attach(volume, storage.host(tags=TAGGED))
    assert storage.tick().spared == {"attached": 1}
    storage.aws.client("ec2").terminate_instances(InstanceIds=[host])
    assert storage.tick().said(volume) == ("mark", "orphaned", "done")
    storage.tag(volume, unattached_since=rfc3339(ago(days=20)))
    run = storage.tick()
    assert_belongs(run, volume, "vision", "ada")
    assert run.step(volume)["because"]["last_attached_to"] == host
    assert host in run.message()


def test_of_two_instances_the_last(storage: VolumeAccount) -> None:
    volume = storage.untagged_volume()
    for tags in ({"Team": "nlp", "Owner": "grace"}, TAGGED):
        storage.attach(volume, storage.host(tags=tags))
        storage.tick()
        storage.detach(volume)
    storage.tag(volume, unattached_since=rfc3339(ago(days=20)))
    assert_belongs(storage.tick(), volume, "vision", "ada")


def test_the_snapshot_it_came_from(storage: VolumeAccount) -> None:
    volume = storage.untagged_volume(**SINCE, snapshot_id=source(storage, Team="nlp", Owner="grace"))
    run = storage.tick()
    assert_belongs(run, volume, "nlp", "grace")


def test_key_by_key(storage: VolumeAccount) -> None:
    volume = storage.untagged_volume(tags={"Team": "nlp"}, snapshot_id=source(storage, Team="speech", Owner="grace"))
    storage.attach(volume, storage.host(tags={"Team": "vision"}))
    storage.tick()
    storage.detach(volume)
    storage.tag(volume, unattached_since=rfc3339(ago(days=20)))
    assert_belongs(storage.tick(), volume, "nlp", "grace")


def test_a_source_that_is_gone_says_nothing(storage: VolumeAccount) -> None:
    """A filter on its id finds nothing; to name it would be an error."""
    gone = storage.untagged_volume(**SINCE, snapshot_id="snap-0123456789abcdef0")
    there = storage.untagged_volume(**SINCE, snapshot_id=source(storage, Team="nlp", Owner="grace"))
    run = storage.tick()
    assert run.gaps == []
    assert_belongs(run, there, "nlp", "grace")
    assert run.step(gone)["team"] is None and gone in run.message("untagged")


def test_sources_are_looked_up_where_they_help_only(storage: VolumeAccount) -> None:
    snapshot = source(storage, Team="nlp", Owner="grace")
    storage.orphan(snapshot_id=snapshot)
    storage.attached(snapshot_id=snapshot)
    looks = storage.tick().counts["ec2:DescribeSnapshots"]
    storage.untagged_volume(snapshot_id=snapshot)
    storage.untagged_volume(snapshot_id=snapshot, region=EUROPE)
    assert storage.tick().counts["ec2:DescribeSnapshots"] == looks + 2


def test_hundreds_of_sources_are_looked_up_200_at_a_time(storage: VolumeAccount) -> None:
    """EC2 user guide, "List and filter": at most 200 values of a filter."""
    for number in range(201):
        storage.untagged_volume(snapshot_id=f"snap-{number:017x}")
    run = storage.tick()
    assert run.gaps == [] and len(run.steps) == 201
    assert run.counts["ec2:DescribeSnapshots"] == 2 + 2


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_nobodys_go_by_the_accounts_untagged_mode(storage: VolumeAccount, mode: str) -> None:
    storage.configure(untagged={"mode": mode})
    volume = storage.untagged_volume(**SINCE)
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done" if mode == "enforce" else "observed")
    assert run.step(volume)["team"] is None
    assert volume in run.message("untagged")
    assert (storage.mark(volume) is not None) == (mode == "enforce")


def test_what_its_instance_says_of_the_mode_is_of_the_instance(storage: VolumeAccount) -> None:
    """Whose it is, and no more, is taken from elsewhere: an instance's protection is not its volumes'."""
    volume = storage.untagged_volume(snapshot_id=source(storage, Owner="ada", **{"curfew:protected": ""}))
    storage.attach(volume, storage.host(tags={"Team": "vision", "curfew:mode": "observe"}))
    storage.tick()
    storage.detach(volume)
    storage.tag(volume, unattached_since=rfc3339(ago(days=20)))
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done")
    assert_belongs(run, volume, "vision", "ada")


def test_a_team_by_its_instance_has_that_teams_mode(storage: VolumeAccount) -> None:
    storage.configure(teams={"vision": {"mode": "observe"}})
    volume = storage.untagged_volume(**SINCE, snapshot_id=source(storage, **TAGGED))
    assert storage.tick().said(volume) == ("mark", "orphaned", "observed")


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


def test_by_other_keys(storage: VolumeAccount) -> None:
    storage.configure(tags={"team": "team", "owner": "contact", "required": ["team", "cost-centre"]})
    volume = storage.untagged_volume(**SINCE, tags={"team": "nlp"}, snapshot_id=source(storage, contact="grace"))
    run = storage.tick()
    assert_belongs(run, volume, "nlp", "grace")
