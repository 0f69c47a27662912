"""Calls that fail, and answers that get lost: no deletion without a completed snapshot, one too many at most."""

from __future__ import annotations

import pytest

from local_aws.client import REGION
from reaping import EUROPE, ago
from reaping_volumes import READS, VolumeAccount

FAULTS = ["throttle", "error500", "reset", "access_denied", "scp_denied"]


@pytest.mark.parametrize("fault", ["cut_off", "garbled", "empty"])
def test_a_damaged_answer_to_create_snapshot(storage: VolumeAccount, fault: str) -> None:
    volume = storage.marked()
    storage.aws.fault("ec2:CreateSnapshot", fault)
    run = storage.tick()
    assert run.counts["ec2:CreateSnapshot"] == 1 and len(storage.snapshots(volume)) == 1
    assert run.said(volume) == ("snapshot", "orphaned", "done")
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")


@pytest.mark.parametrize("fault", FAULTS)
def test_create_snapshot_is_tried_once_a_run(storage: VolumeAccount, fault: str) -> None:
    volume = storage.marked()
    storage.aws.fault("ec2:CreateSnapshot", fault)
    run = storage.tick()
    assert run.said(volume) == ("snapshot", "orphaned", "failed")
    assert run.counts["ec2:CreateSnapshot"] == 1
    assert storage.snapshots(volume) == [] and storage.exists(volume)
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")
    assert len(storage.snapshots(volume)) == 1


@pytest.mark.parametrize("fault", ["lost_answer", "cut_off"])
def test_a_lost_answer_to_delete_volume(storage: VolumeAccount, fault: str) -> None:
    """The SDK repeats it, and hears that there is no such volume: that is what was wanted."""
    volume = storage.marked()
    snapshot = storage.snapshot_of(volume)
    storage.aws.fault("ec2:DeleteVolume", fault)
    run = storage.tick()
    assert run.said(volume) == ("delete", "orphaned", "done")
    assert not storage.exists(volume) and "curfew:deleted-at" in storage.aws.tags(snapshot)
    assert f"--snapshot-id {snapshot}" in run.message()
    assert storage.tick().is_quiet


@pytest.mark.parametrize(
    "action", sorted(READS - {"s3:GetObject", "sns:ListSubscriptionsByTopic", "ec2:DescribeRegions"})
)
@pytest.mark.parametrize("fault", ["access_denied", "scp_denied"])
def test_what_cannot_be_seen_deletes_nothing_there_and_all_else_is_done(
    storage: VolumeAccount, action: str, fault: str
) -> None:
    here, there = storage.marked(), storage.marked(region=EUROPE)
    for volume, region in ((here, REGION), (there, EUROPE)):
        storage.snapshot_of(volume, region=region)
    storage.attached()
    storage.untagged_volume(snapshot_id="snap-0123456789abcdef0")
    expired = storage.left_behind(ago(days=40))
    storage.aws.fault(action, fault, region=REGION, times=None)
    run = storage.tick()
    assert run.said(there) == ("delete", "orphaned", "done")
    assert (REGION, action) in {(gap["region"], gap["call"]) for gap in run.gaps}
    hint = "organisation" if fault == "scp_denied" else f"grant {action}"
    assert any(hint in gap["error"] for gap in run.gaps)
    assert action in run.message("untagged") and REGION in run.message("untagged")
    assert storage.tick().messages == [], "a lasting gap is told once a day"
    storage.aws.clear_faults()
    assert storage.exists(here)
    assert storage.snapshot_exists(expired) == (action != "cloudwatch:GetMetricData")


def test_without_snapshots_in_sight_no_volume_is_deleted_nor_photographed_again(storage: VolumeAccount) -> None:
    """Every run would leave one snapshot more."""
    volume = storage.marked()
    storage.snapshot_of(volume)
    storage.aws.fault("ec2:DescribeSnapshots", "access_denied", region=REGION, times=None)
    for _ in range(2):
        assert storage.tick().ec2_writes == []
    storage.aws.clear_faults()
    assert storage.exists(volume) and len(storage.snapshots(volume)) == 1
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")


@pytest.mark.parametrize("look", ["ec2:DescribeVolumes", "ec2:DescribeSnapshots"])
def test_what_cannot_be_looked_at_again_is_not_deleted(storage: VolumeAccount, look: str) -> None:
    volume = storage.marked()
    snapshot = storage.snapshot_of(volume)
    storage.aws.fault(look, "access_denied", match=volume if look == "ec2:DescribeVolumes" else snapshot)
    run = storage.tick()
    assert run.said(volume) == ("delete", "orphaned", "failed") and f"grant {look}" in run.step(volume)["error"]
    assert run.ec2_writes == [] and run.severities() == {"vision": "error"}
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")


@pytest.mark.parametrize("fault", ["access_denied", "scp_denied"])
@pytest.mark.parametrize("action", ["ec2:CreateSnapshot", "ec2:DeleteVolume", "ec2:DeleteSnapshot"])
def test_a_write_that_is_denied_names_the_permission_and_stops_nothing_else(
    storage: VolumeAccount, action: str, fault: str
) -> None:
    def one() -> str:
        if action == "ec2:DeleteSnapshot":
            return storage.left_behind(ago(days=40))
        volume = storage.marked()
        if action == "ec2:DeleteVolume":
            storage.snapshot_of(volume)
        return volume

    denied, done = one(), one()
    storage.aws.fault(action, fault, match=denied, times=None)
    run = storage.tick()
    assert run.step(denied)["outcome"] == "failed" and run.step(done)["outcome"] == "done"
    assert ("organisation" if fault == "scp_denied" else f"grant {action}") in run.step(denied)["error"]
    assert run.severities()["vision"] == "error"
    assert f"could not {run.step(denied)['action']}" in run.message()
    again = storage.tick()
    assert again.step(denied)["outcome"] == "failed"
    assert not any(denied in one["message"] for one in again.messages), "a lasting failure is told once a day"
    storage.aws.clear_faults()
    assert storage.tick().step(denied)["outcome"] == "done"


@pytest.mark.parametrize(
    "code", ["SnapshotCreationPerVolumeRateExceeded", "SnapshotLimitExceeded", "ConcurrentSnapshotLimitExceeded"]
)
def test_snapshots_that_ec2_does_not_begin_now(storage: VolumeAccount, code: str) -> None:
    volume = storage.marked()
    storage.aws.fault("ec2:CreateSnapshot", "custom", code=code, message="Not now.")
    run = storage.tick()
    assert run.said(volume) == ("snapshot", "orphaned", "failed") and code in run.step(volume)["error"]
    assert run.counts["ec2:CreateSnapshot"] == 1
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")


@pytest.mark.parametrize("seconds", [5, 21])
def test_without_time_left_nothing_is_deleted_and_yet_it_answers(storage: VolumeAccount, seconds: int) -> None:
    volume = storage.marked()
    storage.snapshot_of(volume)
    storage.aws.fault("cloudwatch:GetMetricData", "slow", seconds=1.5)
    run = storage.tick(deadline_s=seconds)
    assert run.ec2_writes == [] and run.invocation.seconds < seconds
    assert all(step["outcome"] == "not-reached" for step in run.steps)
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")
