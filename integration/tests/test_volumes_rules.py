"""From first sight to deletion: written down, announced, photographed, and deleted once the snapshot is whole."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from local_aws.client import REGION
from reaping import EUROPE, TAGGED, Run, ago, moment, now, rfc3339
from reaping_volumes import VolumeAccount


def since_of(storage: VolumeAccount, volume: str, region: str = REGION) -> str | None:
    return storage.aws.tags(volume, region).get("curfew:unattached-since")


def assert_announced(
    storage: VolumeAccount, volume: str, ending: str = "snapshot-and-delete", region: str = REGION, team: str = "vision"
) -> Run:
    """Marked exactly so, told, and there still."""
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done")
    deadline = run.step(volume)["evidence"]["deadline"]
    assert storage.mark(volume, region) == f"{volume} orphaned={ending}@{deadline}"
    assert f"{volume} (" in run.message(team) and deadline in run.message(team)
    assert run.ec2_writes == [("CreateTags", volume)]
    assert storage.exists(volume, region)
    return run


def assert_photographed(storage: VolumeAccount, volume: str, region: str = REGION) -> str:
    """A snapshot was begun, and nothing else. Answers its id."""
    run = storage.tick()
    assert run.said(volume) == ("snapshot", "orphaned", "done")
    assert run.ec2_writes == [("CreateSnapshot", volume)]
    assert storage.exists(volume, region)
    return storage.snapshot(volume, region)


def assert_deleted(storage: VolumeAccount, volume: str, snapshots: list[str], region: str = REGION) -> Run:
    """Deleted once, told, and its snapshots expire from now on."""
    run = storage.tick()
    assert run.said(volume) == ("delete", "orphaned", "done")
    assert not storage.exists(volume, region)
    assert run.ec2_writes[0] == ("DeleteVolume", volume)
    assert [one for one in run.messages if volume in one["message"]][0]["attributes"]["severity"] == "action"
    for snapshot in snapshots:
        deleted_at = moment(storage.aws.tags(snapshot, region)["curfew:deleted-at"])
        assert abs((now() - deleted_at).total_seconds()) < 60
    tagged = {resource for call, *resources in run.ec2_writes[1:] if call == "CreateTags" for resource in resources}
    assert tagged == set(snapshots) and len(run.ec2_writes) <= 1 + len(snapshots)
    return run


# First sight


def test_first_sight_is_written_down_and_not_told(storage: VolumeAccount) -> None:
    volume = storage.volume()
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done")
    assert run.messages == [] and run.ec2_writes == [("CreateTags", volume)]
    assert storage.aws.tags(volume).keys() == {*TAGGED, "curfew:unattached-since"}
    assert abs((now() - moment(since_of(storage, volume) or "")).total_seconds()) < 60
    again = storage.tick()
    assert again.is_quiet and again.skipped == {"young": 1}


# The whole way


@pytest.mark.parametrize("region", [REGION, EUROPE])
def test_announced_photographed_deleted(storage: VolumeAccount, region: str) -> None:
    volume = storage.orphan(region=region)
    since = since_of(storage, volume, region)
    assert_announced(storage, volume, region=region)
    snapshot = assert_photographed(storage, volume, region)
    tags = storage.aws.tags(snapshot, region)
    assert tags == {**TAGGED, "curfew:snapshot-of": volume, "curfew:restore": f"{region}a,gp3,100,3000,125"}
    run = assert_deleted(storage, volume, [snapshot], region)
    assert run.step(volume)["evidence"]["unattached_since"] == since
    after = storage.tick()
    assert after.is_quiet and (after.steps, after.skipped) == ([], {"restorable": 1})
    assert after.response["seen"] == 0
    assert storage.snapshots(volume, region) == [snapshot]


def test_a_snapshot_takes_as_many_runs_as_it_takes(storage: VolumeAccount) -> None:
    volume = storage.marked(size=16_384)
    storage.aws.hold_snapshots()
    snapshot = assert_photographed(storage, volume)
    for _ in range(3):
        run = storage.tick()
        assert (run.steps, run.skipped) == ([], {"snapshot-pending": 1, "volume-exists": 1})
        assert run.is_quiet and storage.exists(volume)
    storage.aws.complete_snapshots()
    assert_deleted(storage, volume, [snapshot])


@pytest.mark.parametrize("state", ["error", "recoverable", "recovering"])
def test_a_snapshot_that_came_to_nothing_deletes_nothing(storage: VolumeAccount, state: str) -> None:
    volume = storage.marked()
    snapshot = assert_photographed(storage, volume)
    storage.aws.set_snapshot(snapshot, state=state)
    run = storage.tick()
    assert run.ec2_writes == [] and run.steps == []
    assert snapshot in run.message() and volume in run.message()
    again = storage.tick()
    assert again.is_quiet and storage.exists(volume)


def test_a_snapshot_of_the_same_orphanage_is_one(storage: VolumeAccount) -> None:
    """Say, of a run whose mark was taken back since."""
    volume = storage.orphan()
    snapshot = storage.snapshot_of(volume, started=ago(days=3))
    assert_announced(storage, volume)
    assert_deleted(storage, volume, [snapshot])


def test_a_snapshot_of_somebody_elses_backup_is_no_safety(storage: VolumeAccount) -> None:
    """It ends when its own owner wants it to end."""
    volume = storage.marked()
    storage.aws.client("ec2").create_snapshot(VolumeId=volume)
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")


@pytest.mark.parametrize(
    ("kind", "asked", "restore"),
    [
        ("gp3", {"Iops": 6000, "Throughput": 500}, "us-east-1a,gp3,500,6000,500"),
        ("gp2", {}, "us-east-1a,gp2,500,1500,"),
        ("io2", {"Iops": 9000}, "us-east-1a,io2,500,9000,"),
        ("st1", {"AvailabilityZone": "us-east-1c"}, "us-east-1c,st1,500,,"),
    ],
)
def test_the_snapshot_carries_what_its_volume_was(
    storage: VolumeAccount, kind: str, asked: dict[str, Any], restore: str
) -> None:
    own = {**TAGGED, "Name": 'ñ\'s "data"', "empty": "", "curfew:mode": "enforce"}
    volume = storage.marked(size=500, volume_type=kind, asked=asked, tags={**own, "aws:backup:source": "x"})
    snapshot = assert_photographed(storage, volume)
    assert storage.aws.tags(snapshot) == {**own, "curfew:snapshot-of": volume, "curfew:restore": restore}


# Variants


def test_deleted_without_a_snapshot_where_the_account_says_so(storage: VolumeAccount) -> None:
    storage.configure(volumes={"action": "delete"})
    volume = storage.orphan()
    run = assert_announced(storage, volume, "delete")
    assert run.message().splitlines()[0].startswith(f"Lost by what Curfew ends: {volume}")
    run = assert_deleted(storage, volume, [])
    assert run.counts["ec2:CreateSnapshot"] == 0 and storage.snapshots(volume) == []
    assert "aws ec2 create-volume" not in run.message()


def test_something_harsher_was_announced_than_is_wanted_now(storage: VolumeAccount) -> None:
    """What is configured now is done: with a snapshot."""
    volume = storage.marked("delete")
    snapshot = assert_photographed(storage, volume)
    assert_deleted(storage, volume, [snapshot])


def test_a_copied_first_sight_is_announced_with_the_whole_grace(storage: VolumeAccount) -> None:
    """A volume that was restored from a backup has the tags of the one that was lost. Its first sight is taken at its
    word; what was announced for the other binds nobody."""
    storage.configure(volumes={"grace": "3d"})
    volume = storage.orphan(create_time=ago(hours=1), snapshot_id="snap-0123456789abcdef0")
    storage.tag(volume, marked=f"vol-0123456789abcdef0 orphaned=delete@{rfc3339(ago(days=1))}")
    run = assert_announced(storage, volume)
    assert moment(run.step(volume)["evidence"]["deadline"]) - now() > timedelta(days=2, hours=23)


# Mended


def test_attached_again_both_tags_go(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "3d"})
    volume = storage.orphan()
    assert_announced(storage, volume)
    storage.attach(volume)
    run = storage.tick()
    assert run.said(volume) == ("unmark", "orphaned", "done")
    assert run.ec2_writes == [("DeleteTags", volume)]
    assert storage.aws.tags(volume) == TAGGED
    assert f"{volume} (" in run.message() and "is called off" in run.message()
    again = storage.tick()
    assert again.is_quiet and again.skipped == {"attached": 1}


def test_a_longer_patience_calls_it_off(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "3d"})
    volume = storage.orphan()
    assert_announced(storage, volume)
    storage.configure(volumes={"orphaned_after": "60d"})
    run = storage.tick()
    assert run.said(volume) == ("unmark", "orphaned", "done")
    assert storage.mark(volume) is None and since_of(storage, volume), "it is unattached still"
