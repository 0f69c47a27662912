"""Between the look and the act: what people and other controllers do in that second; and two runs at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from local_aws import LocalAws
from local_aws.client import REGION
from reaping import TAGGED, Run, ago
from reaping_volumes import VolumeAccount

# The second look names its volume; the first names none.
SECOND_LOOK = {"action": "ec2:DescribeVolumes", "match": "VolumeId.1"}


def due(storage: VolumeAccount, **volume: Any) -> str:
    """Announced and photographed: the next run deletes it."""
    volume_id = storage.marked(**volume)
    storage.snapshot_of(volume_id)
    return volume_id


def with_change(storage: VolumeAccount, change: dict[str, Any]) -> Run:
    """A run in which this happens after the look: just before the second one."""
    storage.aws.before(SECOND_LOOK["action"], change, match=SECOND_LOOK["match"])
    return storage.tick()


def on(volume: str, **more: Any) -> dict[str, Any]:
    return {"resource": volume, "region": REGION, **more}


@pytest.mark.parametrize(
    "tags",
    [
        {"curfew:protected": ""},
        {"curfew:keep-until": "2099-01-01"},
        {"curfew:mode": "observe"},
        {"curfew:keep-until": "soon"},
        {"Owner": "grace"},
    ],
)
@pytest.mark.parametrize("step", ["snapshot", "delete"])
def test_a_tag_that_was_set_meanwhile_is_heeded(storage: VolumeAccount, step: str, tags: dict[str, str]) -> None:
    volume = storage.marked() if step == "snapshot" else due(storage)
    run = with_change(storage, {"tag": on(volume, tags=tags)})
    assert run.said(volume) == (step, "orphaned", "changed")
    assert run.ec2_writes == [] and run.messages == [] and storage.exists(volume)


@pytest.mark.parametrize("step", ["mark", "snapshot", "delete"])
def test_attached_meanwhile(storage: VolumeAccount, step: str) -> None:
    volume = {"mark": storage.orphan, "snapshot": storage.marked, "delete": lambda: due(storage)}[step]()
    host = storage.host()
    run = with_change(storage, {"attach": on(volume, instance=host)})
    assert run.said(volume) == (step, "orphaned", "changed")
    assert run.ec2_writes == []
    assert storage.aws.volume(volume)["State"] == "in-use"
    after = storage.tick()
    assert after.said(volume) == ("unmark", "orphaned", "done")
    assert storage.aws.tags(volume) == TAGGED


# The snapshot


@pytest.mark.parametrize("change", ["delete", "pending", "error", "untag", "another's"])
def test_its_snapshot_changed_just_before_the_deletion(storage: VolumeAccount, change: str) -> None:
    volume = due(storage)
    snapshot = storage.snapshot(volume)
    changes = {
        "delete": {"delete": on(snapshot)},
        "pending": {"snapshot": on(snapshot, state="pending")},
        "error": {"snapshot": on(snapshot, state="error")},
        "untag": {"untag": on(snapshot, keys=["curfew:snapshot-of"])},
        "another's": {"tag": on(snapshot, tags={"curfew:snapshot-of": "vol-0123456789abcdef0"})},
    }
    run = with_change(storage, changes[change])
    assert run.said(volume) == ("delete", "orphaned", "changed")
    assert snapshot in run.step(volume)["error"]
    assert run.ec2_writes == [] and run.messages == [] and storage.exists(volume)


def test_no_snapshot_ends_while_its_volume_is_there_after_all(storage: VolumeAccount) -> None:
    """A listing that missed the volume, for EC2 is eventually consistent: it is looked for by its id just before."""
    volume = storage.volume(unlisted=True)
    snapshot = storage.snapshot_of(volume, started=ago(days=50), deleted_at=ago(days=40))
    run = storage.tick()
    assert run.response["seen"] == 0
    assert run.said(snapshot) == ("delete", "expired", "changed")
    assert run.ec2_writes == [] and storage.snapshot_exists(snapshot)
    storage.aws.set_volume(volume, unlisted=False)
    assert storage.tick().skipped["volume-exists"] == 1


# Two at once


def test_two_runs_at_once_leave_one_snapshot_too_many_at_most(aws: LocalAws) -> None:
    """Lambda may run a function twice at the same time. CreateSnapshot has no token that would tell."""
    with VolumeAccount(aws) as one:
        other = VolumeAccount.__new__(VolumeAccount)
        other.__dict__.update(one.__dict__)
        with other:
            volumes = [one.orphan() for _ in range(4)]
            runs: list[Run] = []
            for _ in range(5):
                pair = [threading.Thread(target=lambda who=who: runs.append(who.tick())) for who in (one, other)]
                [thread.start() for thread in pair]
                [thread.join() for thread in pair]
    assert len(runs) == 10
    for run in runs:
        assert {step["outcome"] for step in run.steps} <= {"done", "changed", "already-gone", "failed"}, run.steps
    for volume in volumes:
        assert not one.exists(volume)
        snapshots = one.snapshots(volume)
        assert 1 <= len(snapshots) <= 2
        found = aws.client("ec2").describe_snapshots(SnapshotIds=snapshots)["Snapshots"]
        assert {snapshot["State"] for snapshot in found} == {"completed"}
    one.configure(volumes={"keep_snapshots": "0s"})
    with one:
        for _ in range(2):
            one.tick()
    assert all(one.snapshots(volume) == [] for volume in volumes), "the one too many expires like the others"
