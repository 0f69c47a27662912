"""The end of Curfew's own snapshots, in time; and of nobody else's, ever."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from local_aws.client import REGION
from reaping import EUROPE, TAGGED, ago, moment, now
from reaping_volumes import VolumeAccount


@pytest.mark.parametrize("region", [REGION, EUROPE])
def test_it_ends_30_days_after_its_volume(storage: VolumeAccount, region: str) -> None:
    due = storage.left_behind(ago(days=30, minutes=1), region=region)
    kept = storage.left_behind(ago(days=29, hours=23), region=region)
    run = storage.tick()
    assert run.said(due) == ("delete", "expired", "done")
    assert run.ec2_writes == [("DeleteSnapshot", due)]
    assert run.spared == {"restorable": 1} and run.response["seen"] == 0
    assert not storage.snapshot_exists(due, region) and storage.snapshot_exists(kept, region)
    assert run.severities() == {"vision": "action"} and due in run.message()
    assert storage.tick().is_quiet


def test_what_it_says_of_it(storage: VolumeAccount) -> None:
    snapshot = storage.left_behind(ago(days=40))
    of_volume = storage.aws.tags(snapshot)["curfew:snapshot-of"]
    run = storage.tick()
    step = run.step(snapshot)
    assert step["because"].keys() >= {"rule", "volume", "deleted_at", "expires_at"}
    assert step["because"]["volume"] == of_volume and step["team"] == "vision"
    span = moment(step["because"]["expires_at"]) - moment(step["because"]["deleted_at"])
    assert span == timedelta(days=30)
    assert of_volume in run.message().splitlines()[0], "what is lost comes first: it cannot be restored any more"


def test_a_volume_that_somebody_else_deleted(storage: VolumeAccount) -> None:
    """Also after a run that could not write it down: the 30 days begin when that is first seen."""
    snapshot = storage.left_behind()
    run = storage.tick()
    assert run.said(snapshot) == ("mark", "expired", "done")
    assert "its volume is gone" in run.message() and run.ec2_writes == [("CreateTags", snapshot)]
    deleted_at = moment(storage.aws.tags(snapshot)["curfew:deleted-at"])
    assert abs((now() - deleted_at).total_seconds()) < 60
    again = storage.tick()
    assert again.is_quiet and again.spared == {"restorable": 1}


@pytest.mark.parametrize("is_dated", [False, True])
def test_never_while_its_volume_exists(storage: VolumeAccount, is_dated: bool) -> None:
    """Also where it says otherwise."""
    volume = storage.volume(tags={"curfew:protected": ""})
    snapshot = storage.snapshot_of(volume, started=ago(days=400), deleted_at=ago(days=400) if is_dated else None)
    run = storage.tick()
    assert (run.steps, run.spared, run.ec2_writes) == ([], {"protected": 1, "volume-exists": 1}, [])
    assert storage.snapshot_exists(snapshot)


@pytest.mark.parametrize("state", ["creating", "deleting", "error", "in-use"])
def test_a_volume_in_whatever_state_exists(storage: VolumeAccount, state: str) -> None:
    volume = storage.volume(tags={"curfew:protected": ""})
    snapshot = storage.snapshot_of(volume, deleted_at=ago(days=400))
    storage.aws.set_volume(volume, state=state)
    assert storage.tick().ec2_writes == [] and storage.snapshot_exists(snapshot)


def test_where_volumes_cannot_be_listed_no_snapshot_ends(storage: VolumeAccount) -> None:
    snapshots = [storage.left_behind(ago(days=40)), storage.left_behind()]
    storage.aws.fault("ec2:DescribeVolumes", "access_denied", region=REGION, times=None)
    run = storage.tick()
    assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "ec2:DescribeVolumes")]
    assert run.ec2_writes == [] and all(storage.snapshot_exists(one) for one in snapshots)


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ({"curfew:protected": ""}, "protected"),
        ({"curfew:keep-until": "2099-01-01"}, "kept"),
        ({"curfew:keep-until": "forever"}, "unreadable"),
        ({"curfew:deleted-at": "last year"}, "unreadable"),
        ({"curfew:protectd": ""}, "unreadable"),
    ],
)
def test_spared(storage: VolumeAccount, tags: dict[str, str], reason: str) -> None:
    snapshot = storage.left_behind(ago(days=40), tags=tags)
    run = storage.tick()
    assert (run.steps, run.spared, run.ec2_writes) == ([], {reason: 1}, [])
    assert (snapshot in "".join(one["message"] for one in run.messages)) == (reason == "unreadable")
    assert storage.tick().is_quiet and storage.snapshot_exists(snapshot)


def test_nobody_elses_are_touched(storage: VolumeAccount) -> None:
    """Neither those without the tag, nor those that only carry it, nor another account's."""
    ec2, past = storage.aws.client("ec2"), {"curfew:deleted-at": "2020-01-01T00:00:00Z"}
    gone = storage.volume()
    plain = ec2.create_snapshot(VolumeId=gone)["SnapshotId"]
    tagged = ec2.create_snapshot(VolumeId=gone)["SnapshotId"]
    storage.aws.change(tag={"resource": tagged, "region": REGION, "tags": past})
    of_another = storage.snapshot_of(
        gone, deleted_at=ago(days=400), tags={"curfew:snapshot-of": "vol-0123456789abcdef0"}
    )
    foreign = storage.snapshot_of(gone, deleted_at=ago(days=400), owner_id="999999999999")
    storage.aws.change(delete={"resource": gone, "region": REGION})
    run = storage.tick()
    assert run.ec2_writes == [] and run.steps == []
    assert all(storage.snapshot_exists(one) for one in (plain, tagged, of_another, foreign))


def test_a_copy_with_all_its_tags_is_whose_copied_it(storage: VolumeAccount) -> None:
    """Copied by hand or by a backup, to be kept: EC2 names no volume of a copy."""
    original = storage.left_behind(ago(days=40))
    tags = [{"Key": key, "Value": value} for key, value in storage.aws.tags(original).items()]
    specification = [{"ResourceType": "snapshot", "Tags": tags}]
    copies = [
        storage.aws.client("ec2", region).copy_snapshot(
            SourceRegion=REGION, SourceSnapshotId=original, TagSpecifications=specification
        )["SnapshotId"]
        for region in (REGION, EUROPE)
    ]
    run = storage.tick()
    assert run.said(original) == ("delete", "expired", "done")
    assert run.ec2_writes == [("DeleteSnapshot", original)]
    assert storage.snapshot_exists(copies[0]) and storage.snapshot_exists(copies[1], EUROPE)
    assert storage.tick().ec2_writes == []


def test_behind_an_image(storage: VolumeAccount) -> None:
    """Told daily; it ends when the image is gone."""
    snapshot = storage.left_behind(ago(days=40))
    device = {"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": snapshot}}
    ec2 = storage.aws.client("ec2")
    image = ec2.register_image(Name="kept", RootDeviceName="/dev/sda1", BlockDeviceMappings=[device])["ImageId"]
    run = storage.tick()
    assert run.said(snapshot) == ("delete", "expired", "failed")
    assert "InvalidSnapshot.InUse" in run.step(snapshot)["error"] and image in run.step(snapshot)["error"]
    assert run.severities() == {"vision": "error"} and image in run.message()
    again = storage.tick()
    assert again.said(snapshot) == ("delete", "expired", "failed") and again.messages == []
    ec2.deregister_image(ImageId=image)
    assert storage.tick().said(snapshot) == ("delete", "expired", "done")


def test_one_that_cannot_be_deleted_holds_up_no_other(storage: VolumeAccount) -> None:
    snapshots = [storage.left_behind(ago(days=40)) for _ in range(3)]
    storage.aws.fault("ec2:DeleteSnapshot", "access_denied", match=snapshots[1], times=None)
    run = storage.tick()
    assert [run.step(one)["outcome"] for one in snapshots] == ["done", "failed", "done"]


def test_ends_in_time_are_not_counted_by_the_limits(storage: VolumeAccount) -> None:
    """They were announced a month ago, by the deletion."""
    storage.configure(limits={"actions_max": 1})
    snapshots = [storage.left_behind(ago(days=40)) for _ in range(3)]
    run = storage.tick()
    assert {run.said(one) for one in snapshots} == {("delete", "expired", "done")}


@pytest.mark.parametrize(
    ("config", "tags"), [({"mode": "observe"}, {}), ({}, {"curfew:mode": "observe"}), ({"mode": "observe"}, TAGGED)]
)
def test_in_observe_mode_it_is_only_said(storage: VolumeAccount, config: dict[str, Any], tags: dict[str, str]) -> None:
    storage.configure(**config)
    snapshot = storage.left_behind(ago(days=40), tags=tags)
    run = storage.tick()
    assert run.said(snapshot) == ("delete", "expired", "observed")
    assert run.ec2_writes == [] and snapshot in run.message()
    assert storage.tick().messages == [] and storage.snapshot_exists(snapshot)


@pytest.mark.parametrize("state", ["pending", "error"])
def test_one_that_came_to_nothing_ends_as_well(storage: VolumeAccount, state: str) -> None:
    snapshot = storage.left_behind(ago(days=40))
    storage.aws.set_snapshot(snapshot, state=state)
    run = storage.tick()
    assert run.said(snapshot) == ("delete", "expired", "done") and not storage.snapshot_exists(snapshot)


def test_every_snapshot_of_a_deleted_volume_expires(storage: VolumeAccount) -> None:
    """A lost answer may have left one too many."""
    volume = storage.marked()
    snapshots = {storage.snapshot_of(volume), storage.snapshot_of(volume), storage.snapshot_of(volume, state="error")}
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")
    assert all("curfew:deleted-at" in storage.aws.tags(one) for one in snapshots)
    storage.configure(volumes={"keep_snapshots": "0s"})
    run = storage.tick()
    assert {one["resource"] for one in run.steps if one["outcome"] == "done"} == snapshots
