"""Volumes that change between a look and an action, and two runs at the same moment. CreateSnapshot has no token, so two runs may take
two snapshots of a volume: the second one expires like any other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hosts.host import wait_for
from local_aws import LocalAws
from reaping import TAGGED, Run
from reaping_volumes import VolumeAccount

HELD_SECONDS = 60.0  # until it is released
DELETED_AT = "curfew:deleted-at"


def due(storage: VolumeAccount) -> tuple[str, str]:
    """A volume that the next run deletes, and its complete snapshot."""
    volume = storage.marked()
    return volume, storage.snapshot_of(volume)


def assert_all_expire(storage: VolumeAccount, volume: str, count: int) -> None:
    """The deleted volume has `count` dated snapshots, and the next run deletes all of them."""
    assert not storage.exists(volume)
    snapshots = storage.snapshots(volume)
    assert len(snapshots) == count and all(DELETED_AT in storage.aws.tags(one) for one in snapshots)
    for one in snapshots:
        storage.expire(one)
    run = storage.tick()
    assert [run.said(one) for one in snapshots] == [("delete", "expired", "done")] * count
    assert storage.snapshots(volume) == []
    run = storage.tick()
    assert run.messages == [] and run.ec2_writes == []


def test_an_unanswered_and_unlisted_snapshot_is_taken_again(storage: VolumeAccount) -> None:
    """EC2 is eventually consistent, so the next run takes another one."""
    volume = storage.marked()
    storage.aws.fault("ec2:CreateSnapshot", "lost_answer")
    storage.aws.fault("ec2:DescribeSnapshots", "access_denied", match="volume-id")
    storage.tick()
    unseen = storage.snapshot(volume)
    storage.aws.set_snapshot(unseen, unlisted=True)
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")
    storage.aws.set_snapshot(unseen, unlisted=False)
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")
    assert_all_expire(storage, volume, 2)


# Between the look and the action


def test_a_run_leaves_what_changed_since_it_looked(storage: VolumeAccount) -> None:
    host = storage.host()
    protected, announced, attached, unsafe, held, last = storage.marked(), storage.orphan(), *(due(storage)[0] for _ in range(4))

    look = "ec2:DescribeVolumes"

    def meanwhile(volume: str, call: str = look, **change: Any) -> None:
        """Happens before the first such call that names this volume."""
        storage.aws.before(call, change, match=f"VolumeId{'.1' if call == look else ''}={volume}")

    meanwhile(protected, tag={"resource": protected, "tags": {"curfew:protected": ""}})
    meanwhile(announced, attach={"volume": announced, "instance": host})
    meanwhile(attached, attach={"volume": attached, "instance": host})
    meanwhile(unsafe, delete={"resource": (snapshot := storage.snapshot(unsafe))})
    meanwhile(held, "ec2:DeleteVolume", attach={"volume": held, "instance": host})
    run = storage.tick()
    expect = {protected: "snapshot", announced: "mark", attached: "delete", unsafe: "delete", held: "delete"}
    for volume, action in expect.items():
        assert run.said(volume) == (action, "orphaned", "changed") and storage.exists(volume)
        assert volume not in run.message() or action == "mark"
    assert snapshot in run.step(unsafe)["error"] and "VolumeInUse" in run.step(held)["error"]
    assert "curfew:deleted-at" not in storage.aws.tags(storage.snapshot(held))
    assert run.said(last) == ("delete", "orphaned", "done")
    after = storage.tick()
    assert {after.said(volume) for volume in (announced, attached, held)} == {("unmark", "orphaned", "done")}
    assert storage.aws.tags(attached) == TAGGED


# Two runs at the same moment


@contextmanager
def held(storage: VolumeAccount, action: str) -> Iterator[list[Run]]:
    """Holds one call of a run until the block ends; then waits for the run."""
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
    """Two processes that reap the same account."""
    with VolumeAccount(aws) as one:
        other = VolumeAccount.__new__(VolumeAccount)
        other.__dict__.update(one.__dict__)
        with other:
            one.tick(), other.tick()  # both have begun
            yield one, other


def test_two_runs_at_once_take_two_snapshots_and_both_expire(pair: tuple[VolumeAccount, VolumeAccount]) -> None:
    one, other = pair
    volume = one.marked()
    with held(one, "ec2:CreateSnapshot") as late:
        assert other.tick().said(volume) == ("snapshot", "orphaned", "done")
    assert late[0].said(volume) == ("snapshot", "orphaned", "done")
    assert len(one.snapshots(volume)) == 2
    assert one.tick().said(volume) == ("delete", "orphaned", "done")
    assert_all_expire(one, volume, 2)


def test_two_runs_at_once_delete_a_volume_once(pair: tuple[VolumeAccount, VolumeAccount]) -> None:
    """Both runs notify: a repeated message is better than a missing one."""
    one, other = pair
    volume, snapshot = due(one)
    with held(one, "ec2:DeleteVolume") as late:
        run = other.tick()
        assert run.said(volume) == ("delete", "orphaned", "done") and f"--snapshot-id {snapshot}" in run.message()
    assert late[0].said(volume) in (("delete", "orphaned", "done"), ("delete", "orphaned", "already-gone"))
    assert_all_expire(one, volume, 1)
