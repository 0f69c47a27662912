"""The end of Curfew's own snapshots, in time; and of nobody else's, ever."""

from __future__ import annotations

from local_aws.client import REGION
from reaping import EUROPE, ago, moment, now
from reaping_volumes import VolumeAccount


def test_it_ends_30_days_after_its_volume_and_never_before_that_is_gone(storage: VolumeAccount) -> None:
    due, far = storage.left_behind(ago(days=30, minutes=1)), storage.left_behind(ago(days=31), region=EUROPE)
    kept = storage.left_behind(ago(days=29, hours=23))
    volume = storage.volume(tags={"curfew:protected": ""})
    of_volume = storage.snapshot_of(volume, started=ago(days=400), deleted_at=ago(days=400))
    run = storage.tick()
    assert {run.said(one) for one in (due, far)} == {("delete", "expired", "done")}
    assert sorted(run.ec2_writes) == sorted(("DeleteSnapshot", one) for one in (due, far))
    assert run.skipped == {"restorable": 1, "protected": 1, "volume-exists": 1} and run.response["seen"] == 1
    assert not storage.snapshot_exists(due) and not storage.snapshot_exists(far, EUROPE)
    assert storage.snapshot_exists(kept) and storage.snapshot_exists(of_volume)
    assert run.severities() == {"vision": "action"} and due in run.message()
    assert storage.tick().is_quiet


def test_a_volume_that_is_gone_without_a_word_is_told_with_its_undo(storage: VolumeAccount) -> None:
    """Somebody else deleted it, or a run gave DeleteVolume up and EC2 carried it out all the same: its 30 days begin now."""
    volume = storage.marked()
    snapshot = storage.snapshot_of(volume)
    storage.aws.delete(volume)
    run = storage.tick()
    assert run.said(snapshot) == ("mark", "expired", "done") and run.ec2_writes == [("CreateTags", snapshot)]
    assert run.severities() == {"vision": "info"}
    assert "its volume is gone. Undo until" in run.message() and f"--snapshot-id {snapshot} " in run.message()
    deleted_at = moment(storage.aws.tags(snapshot)["curfew:deleted-at"])
    assert abs((now() - deleted_at).total_seconds()) < 60
    again = storage.tick()
    assert again.is_quiet and again.skipped == {"restorable": 1}


def test_nobody_elses_are_touched(storage: VolumeAccount) -> None:
    """Neither those without the tag, nor those that only carry it, nor another account's."""
    ec2, past = storage.aws.client("ec2"), {"curfew:deleted-at": "2020-01-01T00:00:00Z"}
    gone = storage.volume()
    plain = ec2.create_snapshot(VolumeId=gone)["SnapshotId"]
    tagged = ec2.create_snapshot(VolumeId=gone)["SnapshotId"]
    storage.aws.tag(tagged, past)
    of_another = storage.snapshot_of(
        gone, deleted_at=ago(days=400), tags={"curfew:snapshot-of": "vol-0123456789abcdef0"}
    )
    foreign = storage.snapshot_of(gone, deleted_at=ago(days=400), owner_id="999999999999")
    storage.aws.delete(gone)
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
