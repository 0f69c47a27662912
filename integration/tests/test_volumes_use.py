"""Signs of use: EBS reports a volume's idle time only while it hangs on a running instance."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from local_aws.client import REGION
from reaping import EUROPE, Run, ago, moment, now
from reaping_volumes import VolumeAccount


def metrics_asked(run: Run) -> int:
    """What CloudWatch would bill."""
    return sum(call["metrics_asked"] for call in run.calls)


def since(storage: VolumeAccount, volume: str) -> datetime:
    return moment(storage.aws.tags(volume)["curfew:unattached-since"])


@pytest.mark.parametrize("used", [timedelta(hours=1), timedelta(days=1), timedelta(days=14), timedelta(days=19)])
def test_used_since_it_is_not_orphaned(storage: VolumeAccount, used: timedelta) -> None:
    """A volume that is attached for an hour each night. After 15 days CloudWatch tells no single minutes any more."""
    volume = storage.orphan()
    storage.used_at(volume, now() - used)
    run = storage.tick()
    assert run.messages == [] and storage.mark(volume) is None
    assert storage.exists(volume)


@pytest.mark.parametrize("days", [70, 100])
def test_use_of_months_ago_counts(storage: VolumeAccount, days: int) -> None:
    """After 63 days only hours are told."""
    volume = storage.volume(unattached_since=ago(days=120), create_time=ago(days=400))
    storage.used_at(volume, ago(days=days))
    storage.tick()
    assert storage.mark(volume) is None


def test_use_before_it_was_unattached_is_none(storage: VolumeAccount) -> None:
    volume = storage.orphan()
    storage.used_at(volume, ago(days=21))
    assert storage.tick().said(volume) == ("mark", "orphaned", "done")
    assert storage.mark(volume)


def test_what_was_used_begins_anew(storage: VolumeAccount) -> None:
    """Each run saw it unattached, and yet it was not: what was written down is taken away, and written anew."""
    volume = storage.marked()
    storage.used_at(volume, ago(hours=3))
    run = storage.tick()
    assert run.said(volume) == ("unmark", "orphaned", "done")
    assert "is called off" in run.message()
    storage.tick()
    assert since(storage, volume) > ago(minutes=1)
    run = storage.tick()
    assert run.is_quiet and run.spared == {"young": 1}


def test_used_just_before_the_deletion(storage: VolumeAccount) -> None:
    volume = storage.marked()
    assert storage.tick().said(volume)[0] == "snapshot"
    storage.used_at(volume, ago(minutes=30))
    run = storage.tick()
    assert run.said(volume) == ("unmark", "orphaned", "done")
    assert storage.exists(volume) and storage.mark(volume) is None


def test_metrics_of_another_volume_prove_nothing(storage: VolumeAccount) -> None:
    orphan, used = storage.orphan(), storage.orphan()
    storage.used_at(used, ago(hours=1))
    run = storage.tick()
    assert run.said(orphan) == ("mark", "orphaned", "done")
    assert storage.mark(orphan) and storage.mark(used) is None


def test_nobody_can_say(storage: VolumeAccount) -> None:
    """Then nothing is done, whatever was announced."""
    volumes = [storage.orphan(), storage.marked()]
    far = storage.orphan(region=EUROPE)
    storage.aws.fault("cloudwatch:GetMetricData", "access_denied", region=REGION, times=None)
    for _ in range(2):
        run = storage.tick()
        assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "cloudwatch:GetMetricData")]
        assert {write[1] for write in run.ec2_writes} <= {far}
        assert run.spared == {"usage-unknown": 1, "marked": 1}
    assert storage.mark(far, EUROPE) and all(storage.exists(volume) for volume in volumes)
    storage.aws.clear_faults()
    run = storage.tick()
    assert [run.step(volume)["action"] for volume in volumes] == ["mark", "snapshot"]


def test_only_those_that_could_be_orphaned_are_asked_about(storage: VolumeAccount) -> None:
    """CloudWatch bills by the metric."""
    storage.volume()
    storage.volume(unattached_since=ago(days=13))
    storage.attached()
    storage.orphan(tags={"curfew:protected": ""})
    storage.orphan(tags={"curfew:keep-until": "2099-01-01"})
    storage.orphan(tags={"curfew:mode": "Enforced"})
    storage.orphan(tags={"ebs.csi.aws.com/cluster": "true"})
    run = storage.tick()
    assert metrics_asked(run) == 0 and run.counts["cloudwatch:GetMetricData"] == 0
    for _ in range(3):
        storage.orphan()
    run = storage.tick()
    assert metrics_asked(run) == 3 and run.counts["cloudwatch:GetMetricData"] == 1


def test_of_what_waits_for_its_deadline_every_run_asks(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "3d"})
    storage.orphan()
    assert [metrics_asked(storage.tick()) for _ in range(3)] == [1, 1, 1]


def test_of_what_was_told_it_is_asked_once_a_day(storage: VolumeAccount) -> None:
    """In an hour of its own, which may be this one, or begin between two runs."""
    storage.orphan(tags={"curfew:mode": "observe"})
    storage.configure(volumes={"grace": "3d"})
    asked = [metrics_asked(storage.tick()) for _ in range(4)]
    assert asked[0] == 1 and asked[1:] in ([0, 0, 0], [1, 1, 1], [0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0])
