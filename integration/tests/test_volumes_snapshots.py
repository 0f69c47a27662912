"""The end of Curfew's own snapshots, in time; and of nobody else's, ever."""

from __future__ import annotations

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
    assert run.skipped == {"restorable": 1} and run.response["seen"] == 0
    assert not storage.snapshot_exists(due, region) and storage.snapshot_exists(kept, region)
    assert run.severities() == {"vision": "action"} and due in run.message()
    assert storage.tick().is_quiet


def test_a_volume_that_somebody_else_deleted(storage: VolumeAccount) -> None:
    """Also after a run that could not write it down: the 30 days begin when that is first seen."""
    snapshot = storage.left_behind()
    run = storage.tick()
    assert run.said(snapshot) == ("mark", "expired", "done")
    assert "its volume is gone" in run.message() and run.ec2_writes == [("CreateTags", snapshot)]
    deleted_at = moment(storage.aws.tags(snapshot)["curfew:deleted-at"])
    assert abs((now() - deleted_at).total_seconds()) < 60
    again = storage.tick()
    assert again.is_quiet and again.skipped == {"restorable": 1}


@pytest.mark.parametrize("is_dated", [False, True])
def test_never_while_its_volume_exists(storage: VolumeAccount, is_dated: bool) -> None:
    """Also where it says otherwise."""
    volume = storage.volume(tags={"curfew:protected": ""})
    snapshot = storage.snapshot_of(volume, started=ago(days=400), deleted_at=ago(days=400) if is_dated else None)
    run = storage.tick()
    assert (run.steps, run.skipped, run.ec2_writes) == ([], {"protected": 1, "volume-exists": 1}, [])
    assert storage.snapshot_exists(snapshot)


def test_where_volumes_cannot_be_listed_no_snapshot_ends(storage: VolumeAccount) -> None:
    snapshots = [storage.left_behind(ago(days=40)), storage.left_behind()]
    storage.aws.fault("ec2:DescribeVolumes", "access_denied", region=REGION, times=None)
    run = storage.tick()
    assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "ec2:DescribeVolumes")]
    assert run.ec2_writes == [] and all(storage.snapshot_exists(one) for one in snapshots)


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
