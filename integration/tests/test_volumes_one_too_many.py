"""CreateSnapshot has no token, so that at times a snapshot is one too many: it expires like the others, and none is ever one
too few. What happens between the second look and the call itself, and what two runs at the same moment do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hosts.host import wait_for
from local_aws import LocalAws
from local_aws.client import REGION
from reaping import Run, ago
from reaping_volumes import VolumeAccount

HELD_SECONDS = 60.0  # until it is released
DELETED_AT = "curfew:deleted-at"


def on(resource: str, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "region": REGION, **more}


def due(storage: VolumeAccount) -> tuple[str, str]:
    """Announced and photographed: the next run deletes it. The volume, and its snapshot."""
    volume = storage.marked()
    return volume, storage.snapshot_of(volume)


def all_expire(storage: VolumeAccount, volume: str, count: int) -> None:
    """So many snapshots of it, each dated, and each gone when its time has come."""
    assert not storage.exists(volume)
    snapshots = storage.snapshots(volume)
    assert len(snapshots) == count and all(DELETED_AT in storage.aws.tags(one) for one in snapshots)
    storage.configure(volumes={"keep_snapshots": "0s"})
    run = storage.tick()
    assert [run.said(one) for one in snapshots] == [("delete", "expired", "done")] * count
    assert storage.snapshots(volume) == [] and storage.tick().is_quiet


# The answer was lost


def test_a_snapshot_of_which_no_answer_came_is_found(storage: VolumeAccount) -> None:
    volume = storage.marked()
    storage.aws.fault("ec2:CreateSnapshot", "lost_answer")
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")
    all_expire(storage, volume, 1)


def test_a_snapshot_of_which_no_answer_came_and_that_cannot_be_looked_for(storage: VolumeAccount) -> None:
    volume = storage.marked()
    storage.aws.fault("ec2:CreateSnapshot", "lost_answer")
    storage.aws.fault("ec2:DescribeSnapshots", "access_denied", match="tag:curfew:snapshot-of")
    run = storage.tick()
    assert run.said(volume) == ("snapshot", "orphaned", "failed")
    assert "could not snapshot it" in run.message()
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")
    all_expire(storage, volume, 1)


def test_a_snapshot_of_which_no_answer_came_and_that_is_not_listed_yet(storage: VolumeAccount) -> None:
    """EC2 is eventually consistent: the next run begins another."""
    volume = storage.marked()
    storage.aws.fault("ec2:CreateSnapshot", "lost_answer")
    storage.aws.fault("ec2:DescribeSnapshots", "access_denied", match="tag:curfew:snapshot-of")
    storage.tick()
    unseen = storage.snapshot(volume)
    storage.aws.set_snapshot(unseen, unlisted=True)
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")
    storage.aws.set_snapshot(unseen, unlisted=False)
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")
    all_expire(storage, volume, 2)


def test_one_that_is_listed_when_its_volume_is_gone_is_dated_then(storage: VolumeAccount) -> None:
    volume, first = due(storage)
    second = storage.snapshot_of(volume)
    storage.aws.set_snapshot(second, unlisted=True)
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")
    assert DELETED_AT in storage.aws.tags(first) and DELETED_AT not in storage.aws.tags(second)
    storage.aws.set_snapshot(second, unlisted=False)
    assert storage.tick().said(second) == ("mark", "expired", "done")
    all_expire(storage, volume, 2)


def test_a_date_that_was_lost_is_written_again(storage: VolumeAccount) -> None:
    """Its time begins anew, for what has no date does not end."""
    snapshot = storage.left_behind(ago(days=40))
    storage.aws.change(untag=on(snapshot, keys=[DELETED_AT]))
    storage.aws.fault("ec2:CreateTags", "lost_answer")
    assert storage.tick().said(snapshot) == ("mark", "expired", "done")
    assert storage.tick().is_quiet and storage.snapshot_exists(snapshot)


def test_a_deletion_of_which_no_run_has_heard_is_told_by_the_next(storage: VolumeAccount) -> None:
    """A run gave DeleteVolume up, or was cut off, and EC2 carried it out all the same: how to get the volume back is told in
    either case."""
    volume, snapshot = due(storage)
    storage.aws.change(delete=on(volume))
    run = storage.tick()
    assert run.said(snapshot) == ("mark", "expired", "done") and run.severities() == {"vision": "info"}
    assert "its volume is gone. Undo until" in run.message() and f"--snapshot-id {snapshot} " in run.message()
    assert storage.tick().is_quiet
    all_expire(storage, volume, 1)


# Between the second look and the call itself


def test_attached_just_before_its_deletion(storage: VolumeAccount) -> None:
    """EC2 refuses; its snapshot is not dated, and both tags go."""
    (volume, snapshot), host = due(storage), storage.host()
    storage.aws.before("ec2:DeleteVolume", {"attach": on(volume, instance=host)})
    run = storage.tick()
    assert run.said(volume) == ("delete", "orphaned", "changed") and "VolumeInUse" in run.step(volume)["error"]
    assert storage.exists(volume) and DELETED_AT not in storage.aws.tags(snapshot)
    assert run.messages == []
    assert storage.tick().said(volume) == ("unmark", "orphaned", "done")


# Two runs at the same moment


@contextmanager
def held(storage: VolumeAccount, action: str) -> Iterator[list[Run]]:
    """One run whose call hangs, after its looks; within, the account is as before that call. Afterwards the run is over."""
    runs: list[Run] = []
    storage.aws.fault(action, "slow", seconds=HELD_SECONDS)
    thread = threading.Thread(target=lambda: runs.append(storage.tick()))
    thread.start()
    wait_for(storage.aws.struck, HELD_SECONDS, lambda: f"it never called {action}")
    yield runs
    assert runs == [], "the other run took longer than this one was held"
    storage.aws.release(action)
    thread.join()


@pytest.fixture
def pair(aws: LocalAws) -> Iterator[tuple[VolumeAccount, VolumeAccount]]:
    """The same account, reaped by two processes."""
    with VolumeAccount(aws) as one:
        other = VolumeAccount.__new__(VolumeAccount)
        other.__dict__.update(one.__dict__)
        with other:
            one.tick(), other.tick()  # both have begun
            yield one, other


def test_two_runs_that_photograph_at_once_leave_one_too_many(pair: tuple[VolumeAccount, VolumeAccount]) -> None:
    one, other = pair
    volume = one.marked()
    with held(one, "ec2:CreateSnapshot") as late:
        assert other.tick().said(volume) == ("snapshot", "orphaned", "done")
    assert late[0].said(volume) == ("snapshot", "orphaned", "done")
    assert len(one.snapshots(volume)) == 2
    assert one.tick().said(volume) == ("delete", "orphaned", "done")
    all_expire(one, volume, 2)


def test_two_runs_that_delete_at_once(pair: tuple[VolumeAccount, VolumeAccount]) -> None:
    """Both say so: better heard twice than not at all."""
    one, other = pair
    volume, snapshot = due(one)
    with held(one, "ec2:DeleteVolume") as late:
        run = other.tick()
        assert run.said(volume) == ("delete", "orphaned", "done") and f"--snapshot-id {snapshot}" in run.message()
    assert late[0].said(volume) in (("delete", "orphaned", "done"), ("delete", "orphaned", "already-gone"))
    all_expire(one, volume, 1)


def test_a_snapshot_that_is_begun_when_another_run_has_deleted_the_volume(
    pair: tuple[VolumeAccount, VolumeAccount],
) -> None:
    one, other = pair
    volume = one.marked()
    with held(one, "ec2:CreateSnapshot") as late:
        said = [other.tick().said(volume) for _ in range(2)]
        assert said == [("snapshot", "orphaned", "done"), ("delete", "orphaned", "done")]
    assert late[0].step(volume)["outcome"] in ("failed", "already-gone")
    all_expire(one, volume, 1)
