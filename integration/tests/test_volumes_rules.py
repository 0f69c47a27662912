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
    deadline = run.step(volume)["because"]["deadline"]
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
    assert again.is_quiet and again.spared == {"young": 1}


def test_an_old_volume_is_as_young_as_its_first_sight(storage: VolumeAccount) -> None:
    """It may have hung on an instance until a minute ago."""
    volume = storage.volume(create_time=ago(days=900))
    storage.tick()
    assert storage.tick().spared == {"young": 1}
    assert storage.mark(volume) is None


@pytest.mark.parametrize(("age", "due"), [(timedelta(days=14), True), (timedelta(days=13, hours=23), False)])
def test_orphaned_after_14_days(storage: VolumeAccount, age: timedelta, due: bool) -> None:
    volume = storage.volume(unattached_since=now() - age)
    run = storage.tick()
    assert (storage.mark(volume) is not None) == due
    assert run.spared == ({} if due else {"young": 1})


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
    assert run.step(volume)["because"]["unattached_since"] == since
    after = storage.tick()
    assert after.is_quiet and (after.steps, after.spared) == ([], {"restorable": 1})
    assert after.response["seen"] == 0
    assert storage.snapshots(volume, region) == [snapshot]


def test_between_the_announcement_and_the_deadline_it_waits(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "3d"})
    volume = storage.orphan()
    run = assert_announced(storage, volume)
    wait = moment(run.step(volume)["because"]["deadline"]) - now()
    assert timedelta(days=2, hours=23) < wait <= timedelta(days=3)
    for _ in range(2):
        run = storage.tick()
        assert run.is_quiet and run.spared == {"marked": 1}
    storage.announce(volume, at=ago(seconds=5))
    assert_photographed(storage, volume)


def test_a_snapshot_takes_as_many_runs_as_it_takes(storage: VolumeAccount) -> None:
    volume = storage.marked(size=16_384)
    storage.aws.hold_snapshots()
    snapshot = assert_photographed(storage, volume)
    for _ in range(3):
        run = storage.tick()
        assert (run.steps, run.spared) == ([], {"snapshot-pending": 1, "volume-exists": 1})
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


def test_a_failed_snapshot_is_tried_again_the_next_day(storage: VolumeAccount) -> None:
    volume = storage.marked()
    failed = assert_photographed(storage, volume)
    storage.aws.set_snapshot(failed, state="error", start_time=ago(hours=25))
    run = storage.tick()
    assert run.said(volume) == ("snapshot", "orphaned", "done")
    first, second = storage.snapshots(volume)
    assert first == failed
    run = assert_deleted(storage, volume, [first, second])
    assert second in run.message() and f"--snapshot-id {second}" in run.message()


def test_a_snapshot_of_an_earlier_time_is_no_safety(storage: VolumeAccount) -> None:
    """What was written since would be lost."""
    volume = storage.marked()
    old = storage.snapshot_of(volume, started=ago(days=21))
    run = storage.tick()
    assert run.said(volume) == ("snapshot", "orphaned", "done")
    new = [one for one in storage.snapshots(volume) if one != old]
    run = assert_deleted(storage, volume, [old, *new])
    assert f"--snapshot-id {new[0]}" in run.message()


def test_a_snapshot_of_the_same_orphanage_is_one(storage: VolumeAccount) -> None:
    """Say, of a run whose mark was taken back since."""
    volume = storage.orphan()
    snapshot = storage.snapshot_of(volume, started=ago(days=3))
    assert_announced(storage, volume)
    assert_deleted(storage, volume, [snapshot])


@pytest.mark.parametrize("tags", [{"curfew:snapshot-of": "vol-0123456789abcdef0"}, {"curfew:snapshot-of": ""}])
def test_a_snapshot_that_names_another_volume_is_no_safety(storage: VolumeAccount, tags: dict[str, str]) -> None:
    volume = storage.marked()
    storage.snapshot_of(volume, tags=tags)
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")


def test_a_copy_of_a_snapshot_is_no_safety(storage: VolumeAccount) -> None:
    volume = storage.marked()
    storage.snapshot_of(volume, volume_id="vol-ffffffff")
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")


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


def test_only_told_where_the_account_says_so(storage: VolumeAccount) -> None:
    storage.configure(volumes={"action": "notify"})
    volume = storage.orphan()
    run = storage.tick()
    assert run.said(volume) == ("notify", "orphaned", "done")
    assert f"{volume} (" in run.message() and run.ec2_writes == []
    for _ in range(2):
        again = storage.tick()
        assert again.is_quiet and again.spared == {"told": 1}
    assert storage.exists(volume) and storage.mark(volume) is None


@pytest.mark.parametrize("action", ["snapshot-and-delete", "delete"])
def test_without_any_patience(storage: VolumeAccount, action: str) -> None:
    """0s is legal for every duration: first sight and announcement are one, and so are the tags of both."""
    storage.configure(volumes={"orphaned_after": "0s", "grace": "0s", "keep_snapshots": "0s", "action": action})
    volume = storage.volume()
    run = assert_announced(storage, volume, action)
    assert run.counts["ec2:CreateTags"] == 1
    assert moment(since_of(storage, volume) or "") <= now()
    snapshots = [assert_photographed(storage, volume)] if action == "snapshot-and-delete" else []
    assert_deleted(storage, volume, snapshots)
    for snapshot in snapshots:
        run = storage.tick()
        assert run.said(snapshot) == ("delete", "expired", "done")
        assert not storage.snapshot_exists(snapshot)
    assert storage.tick().is_quiet


def test_something_milder_was_announced_than_is_wanted_now(storage: VolumeAccount) -> None:
    """Whoever heard of a snapshot is told anew, and waits anew."""
    storage.configure(volumes={"action": "delete", "grace": "1d"})
    volume = storage.marked("snapshot-and-delete")
    assert_announced(storage, volume, "delete")
    assert storage.tick().spared == {"marked": 1}


def test_something_harsher_was_announced_than_is_wanted_now(storage: VolumeAccount) -> None:
    """What is configured now is done: with a snapshot."""
    volume = storage.marked("delete")
    snapshot = assert_photographed(storage, volume)
    assert_deleted(storage, volume, [snapshot])


def test_its_own_tag_says_since_when(storage: VolumeAccount) -> None:
    """Whoever sets it back by hand means it."""
    volume = storage.orphan()
    storage.tag(volume, unattached_since=rfc3339(ago(days=1)))
    assert storage.tick().spared == {"young": 1}


def test_a_copied_first_sight_is_announced_with_the_whole_grace(storage: VolumeAccount) -> None:
    """A volume that was restored from a backup has the tags of the one that was lost. Its first sight is taken at its
    word; what was announced for the other binds nobody."""
    storage.configure(volumes={"grace": "3d"})
    volume = storage.orphan(create_time=ago(hours=1), snapshot_id="snap-0123456789abcdef0")
    storage.tag(volume, marked=f"vol-0123456789abcdef0 orphaned=delete@{rfc3339(ago(days=1))}")
    run = assert_announced(storage, volume)
    assert moment(run.step(volume)["because"]["deadline"]) - now() > timedelta(days=2, hours=23)


def test_without_its_tag_it_begins_anew(storage: VolumeAccount) -> None:
    """Nobody knows any more since when; what was announced is of no life that can be proved."""
    volume = storage.marked()
    storage.aws.change(untag={"resource": volume, "region": REGION, "keys": ["curfew:unattached-since"]})
    for _ in range(2):
        storage.tick()
    assert storage.mark(volume) is None
    assert moment(since_of(storage, volume) or "") > ago(minutes=1)
    assert storage.tick().spared == {"young": 1}


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
    assert again.is_quiet and again.spared == {"attached": 1}


def test_attached_again_before_anything_was_announced_nobody_hears_of_it(storage: VolumeAccount) -> None:
    volume = storage.volume(unattached_since=ago(days=2))
    storage.attach(volume)
    run = storage.tick()
    assert run.said(volume) == ("unmark", "orphaned", "done")
    assert run.messages == [] and storage.aws.tags(volume) == TAGGED


def test_attached_and_detached_again_it_begins_anew(storage: VolumeAccount) -> None:
    volume = storage.marked()
    storage.attach(volume)
    storage.tick()
    storage.detach(volume)
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done") and run.messages == []
    assert moment(since_of(storage, volume) or "") > ago(minutes=1)
    assert storage.tick().spared == {"young": 1}


def test_a_mark_of_another_volume_binds_nobody(storage: VolumeAccount) -> None:
    """Tags are copied by hand, and from a snapshot's."""
    volume = storage.orphan()
    storage.tag(volume, marked=f"vol-0123456789abcdef0 orphaned=delete@{rfc3339(ago(days=1))}")
    assert_announced(storage, volume)
    assert storage.exists(volume)


def test_a_mark_of_an_earlier_orphanage_binds_nobody(storage: VolumeAccount) -> None:
    volume = storage.volume(unattached_since=ago(days=15))
    storage.announce(volume, at=ago(days=16))
    assert_announced(storage, volume)


def test_a_longer_patience_calls_it_off(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "3d"})
    volume = storage.orphan()
    assert_announced(storage, volume)
    storage.configure(volumes={"orphaned_after": "60d"})
    run = storage.tick()
    assert run.said(volume) == ("unmark", "orphaned", "done")
    assert storage.mark(volume) is None and since_of(storage, volume), "it is unattached still"
