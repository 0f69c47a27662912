"""How much at once, at most; and what it costs."""

from __future__ import annotations

from datetime import timedelta


from reaping import ago, moment, now
from reaping_volumes import VolumeAccount, soon


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


def test_the_evidence(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "1d"})
    volume = storage.orphan(size=500, unattached_since=ago(days=20).replace(microsecond=0))
    step = storage.tick().step(volume)
    evidence = step["evidence"]
    assert evidence.keys() == {"rule", "unattached_since", "size_gib", "volume_type", "usd_per_month", "deadline"}
    assert (evidence["size_gib"], evidence["volume_type"]) == (500, "gp3")
    assert evidence["unattached_since"] == storage.aws.tags(volume)["curfew:unattached-since"]
    assert timedelta(hours=23) < moment(evidence["deadline"]) - now() <= soon(days=1) - now()
