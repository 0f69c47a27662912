"""CreateSnapshot has no token, so that at times a snapshot is one too many, also of two runs at the same moment: it expires like the
others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hosts.host import wait_for
from local_aws import LocalAws
from reaping import Run
from reaping_volumes import VolumeAccount

HELD_SECONDS = 60.0  # until it is released
DELETED_AT = "curfew:deleted-at"


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
