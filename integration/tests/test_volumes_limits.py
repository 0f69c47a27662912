"""How much at once, at most; and what it costs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local_aws.client import REGION
from reaping import EUROPE, Run, ago, moment, now
from reaping_volumes import VolumeAccount, soon

MONTH_HOURS = 730


def test_all_at_once(storage: VolumeAccount) -> None:
    volumes = [storage.orphan(region=region, size=size) for region in (REGION, EUROPE) for size in range(10, 15)]
    storage.tick()
    storage.tick()
    run = storage.tick()
    assert {run.said(volume) for volume in volumes} == {("delete", "orphaned", "done")}
    assert len(run.messages) == 1 and all(volume in run.message() for volume in volumes)


def test_limits_hold_deletions(storage: VolumeAccount) -> None:
    """Above the limit none is deleted, and that is told; snapshots and marks are not counted."""
    storage.configure(limits={"actions_max": 1})
    volumes = [storage.marked() for _ in range(2)]
    run = storage.tick()
    assert {run.said(volume) for volume in volumes} == {("snapshot", "orphaned", "done")}
    run = storage.tick()
    assert {run.said(volume) for volume in volumes} == {("delete", "orphaned", "not-reached")}
    assert "actions_max = 1" in run.step(volumes[0])["error"] and run.ec2_writes == []
    assert run.severities() == {"vision": "error"}
    assert storage.tick().messages == []
    storage.configure(limits={"actions_max": 2})
    run = storage.tick()
    assert {run.said(volume) for volume in volumes} == {("delete", "orphaned", "done")}


@pytest.mark.parametrize(("deletions", "fleet", "held"), [(2, 10, False), (3, 10, True), (3, 9, False)])
def test_a_fifth_of_the_volumes_where_there_are_ten(
    storage: VolumeAccount, deletions: int, fleet: int, held: bool
) -> None:
    storage.configure(limits={"fleet_share_max_percent": 20}, volumes={"action": "delete"})
    for _ in range(deletions):
        storage.marked("delete")
    for _ in range(fleet - deletions):
        storage.volume(tags={"curfew:protected": ""})
    run = storage.tick()
    assert run.response["seen"] == fleet
    assert {step["outcome"] for step in run.steps} == {"not-reached" if held else "done"}


def test_prices(storage: VolumeAccount) -> None:
    """Of us-east-1: what is provisioned beyond what comes with gp3 costs extra. Elsewhere they are unknown."""
    known = {
        storage.orphan(size=500): 40.0,
        storage.orphan(size=500, volume_type="gp2"): 50.0,
        storage.orphan(size=500, volume_type="st1"): 22.5,
    }
    provisioned = storage.orphan(size=500, asked={"Iops": 6000, "Throughput": 500})
    elsewhere = storage.orphan(size=500, region=EUROPE)
    run = storage.tick()
    for volume, usd in known.items():
        step = run.step(volume)
        assert step["because"]["usd_per_month"] == pytest.approx(usd, abs=0.01)
        assert step["saves_usd_per_hour"] == pytest.approx(usd / MONTH_HOURS, rel=0.01)
        assert f"${usd:.2f} a month" in paragraph(run, volume)
    assert run.step(provisioned)["because"]["usd_per_month"] > 45
    assert run.step(elsewhere)["because"]["usd_per_month"] is None
    assert run.step(elsewhere)["saves_usd_per_hour"] is None
    assert "price unknown" in paragraph(run, elsewhere)


def paragraph(run: Run, resource_id: str, team: str = "vision") -> str:
    [found] = [one for one in run.message(team).split("\n\n") if one.startswith(f"{resource_id} (")]
    return found


def test_the_evidence(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "1d"})
    volume = storage.orphan(size=500, unattached_since=ago(days=20).replace(microsecond=0))
    step = storage.tick().step(volume)
    because = step["because"]
    assert because.keys() == {"rule", "unattached_since", "size_gib", "volume_type", "usd_per_month", "deadline"}
    assert (because["size_gib"], because["volume_type"]) == (500, "gp3")
    assert because["unattached_since"] == storage.aws.tags(volume)["curfew:unattached-since"]
    assert timedelta(hours=23) < moment(because["deadline"]) - now() <= soon(days=1) - now()
