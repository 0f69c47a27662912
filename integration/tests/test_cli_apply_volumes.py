"""`curfew apply` of a plan over volumes: each goes only with its snapshot whole, as it was reviewed."""

from __future__ import annotations

from pending_plans import applied, apply, hold
from reaping import Account
from reaping_volumes import VolumeAccount
from test_cli_apply import check_refused, touched


def held(storage: VolumeAccount, count: int = 2) -> tuple[list[str], str]:
    """So many volumes whose deletion waits, their snapshots whole; and the run that left it to a person."""
    volumes = [storage.marked() for _ in range(count)]
    storage.tick()
    run = hold(storage)
    assert {run.said(volume) for volume in volumes} == {("delete", "orphaned", "not-reached")}
    return volumes, run.response["run"]


def test_the_whole_list(storage: VolumeAccount) -> None:
    """Deleted, their snapshots dated, told with how it is undone; other snapshots and volumes are not looked at twice."""
    volumes, plan = held(storage)
    others = [storage.marked(), storage.orphan()]
    left_behind = storage.left_behind()
    snapshots = {storage.snapshot(volume) for volume in volumes}
    told = len(storage.aws.messages())
    said, outcomes = applied(storage, plan)
    assert said.code == 0 and outcomes == {volume: "done" for volume in volumes}, said
    assert touched(storage) == set(volumes) | snapshots
    assert not any(storage.exists(volume) for volume in volumes)
    assert all("curfew:deleted-at" in storage.aws.tags(snapshot) for snapshot in snapshots)
    assert all(storage.exists(volume) for volume in others)
    assert "curfew:deleted-at" not in storage.aws.tags(left_behind)
    [message] = storage.aws.messages()[told:]
    assert all(snapshot in message["message"] for snapshot in snapshots)
    assert "2 ended before" in apply(storage, plan, "--yes").fine().out


def test_break_glass_reaches_the_hourly_function(storage: VolumeAccount, account: Account) -> None:
    """CURFEW_MODE is the account's: the reaper of instances shows within minutes that it is observe."""
    _, plan = held(storage, 1)
    account.restart(CURFEW_MODE="observe")
    account.tick()
    check_refused(storage, plan, "reap-instances ran in observe mode")
