"""Signs of use: EBS reports a volume's idle time only while it hangs on a running instance."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local_aws.client import REGION
from reaping import EUROPE, Run, ago, now
from reaping_volumes import VolumeAccount


def metrics_asked(run: Run) -> int:
    """What CloudWatch would bill."""
    return sum(call["metrics_asked"] for call in run.calls)


@pytest.mark.parametrize("used", [timedelta(hours=1), timedelta(days=1), timedelta(days=14), timedelta(days=19)])
def test_used_since_it_is_not_orphaned(storage: VolumeAccount, used: timedelta) -> None:
    """A volume that is attached for an hour each night. After 15 days CloudWatch tells no single minutes any more."""
    volume = storage.orphan()
    storage.used_at(volume, now() - used)
    run = storage.tick()
    assert run.messages == [] and storage.mark(volume) is None
    assert storage.exists(volume)


def test_used_just_before_the_deletion(storage: VolumeAccount) -> None:
    volume = storage.marked()
    assert storage.tick().said(volume)[0] == "snapshot"
    storage.used_at(volume, ago(minutes=30))
    run = storage.tick()
    assert run.said(volume) == ("unmark", "orphaned", "done")
    assert storage.exists(volume) and storage.mark(volume) is None


def test_nobody_can_say(storage: VolumeAccount) -> None:
    """Then nothing is done, whatever was announced."""
    volumes = [storage.orphan(), storage.marked()]
    far = storage.orphan(region=EUROPE)
    storage.aws.fault("cloudwatch:GetMetricData", "access_denied", region=REGION, times=None)
    for _ in range(2):
        run = storage.tick()
        assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "cloudwatch:GetMetricData")]
        assert {write[1] for write in run.ec2_writes} <= {far}
        assert run.skipped == {"usage-unknown": 1, "marked": 1}
    assert storage.mark(far, EUROPE) and all(storage.exists(volume) for volume in volumes)
    storage.aws.clear_faults()
    run = storage.tick()
    assert [run.step(volume)["action"] for volume in volumes] == ["mark", "snapshot"]
