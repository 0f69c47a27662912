"""Volumes of instances that have been stopped for long: told once, with what they cost, and left alone."""

from __future__ import annotations


from local_aws.client import REGION
from reaping import EUROPE, ago
from reaping_volumes import VolumeAccount


def test_a_volume_on_an_instance_that_is_stopped_for_long(storage: VolumeAccount) -> None:
    since = ago(days=20)
    host = storage.stopped_host(since)
    volume = storage.attached(host, size=500)
    run = storage.tick()
    assert (run.steps, run.skipped, run.ec2_writes) == ([], {"attached": 1}, [])
    assert run.severities() == {"vision": "info"}
    for part in (f"{volume} (", host, f"{since:%Y-%m-%dT%H:%M:%S}Z", "14d", "$40.00 a month"):
        assert part in run.message(), part
    again = storage.tick()
    assert again.is_quiet and again.skipped == {"attached": 1}


def test_where_instances_cannot_be_read_nothing_is_judged(storage: VolumeAccount) -> None:
    """A region that was not seen in full is a gap and no more; the others are done."""
    storage.attached(storage.stopped_host(ago(days=20)))
    storage.orphan()
    far = storage.orphan(region=EUROPE)
    storage.aws.fault("ec2:DescribeInstances", "access_denied", region=REGION, times=None)
    run = storage.tick()
    assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "ec2:DescribeInstances")]
    assert run.said(far) == ("mark", "orphaned", "done")
    assert run.response["seen"] == 1 and run.skipped == {}
