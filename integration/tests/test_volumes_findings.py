"""Volumes of instances that have been stopped for long: told once, with what they cost, and left alone."""

from __future__ import annotations

import pytest

from local_aws.client import REGION
from reaping import EUROPE, TAGGED, ago
from reaping_volumes import VolumeAccount


def test_a_volume_on_an_instance_that_is_stopped_for_long(storage: VolumeAccount) -> None:
    since = ago(days=20)
    host = storage.stopped_host(since)
    volume = storage.attached(host, size=500)
    run = storage.tick()
    assert (run.steps, run.spared, run.ec2_writes) == ([], {"attached": 1}, [])
    assert run.severities() == {"vision": "info"}
    for part in (f"{volume} (", host, f"{since:%Y-%m-%dT%H:%M:%S}Z", "14d", "$40.00 a month"):
        assert part in run.message(), part
    again = storage.tick()
    assert again.is_quiet and again.spared == {"attached": 1}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("stopped", "User initiated ({days_ago[3]:%Y-%m-%d %H:%M:%S} GMT)"),
        ("stopped", "Server.ScheduledStop"),
        ("stopped", ""),
        ("running", "User initiated ({days_ago[20]:%Y-%m-%d %H:%M:%S} GMT)"),
        ("stopping", "User initiated ({days_ago[20]:%Y-%m-%d %H:%M:%S} GMT)"),
    ],
)
def test_on_others_there_is_nothing_to_say(storage: VolumeAccount, state: str, reason: str) -> None:
    """Not stopped for long, or nobody can say since when."""
    reason = reason.format(days_ago={days: ago(days=days) for days in (3, 20)})
    storage.attached(storage.host(state=state, state_transition_reason=reason))
    run = storage.tick()
    assert run.is_quiet and run.spared == {"attached": 1}


def test_stopped_anew_it_is_told_anew(storage: VolumeAccount) -> None:
    host = storage.stopped_host(ago(days=30))
    storage.attached(host)
    assert storage.tick().messages and not storage.tick().messages
    reason = f"User initiated ({ago(days=16):%Y-%m-%d %H:%M:%S} GMT)"
    storage.aws.set_instance(host, state_transition_reason=reason)
    assert host in storage.tick().message()


def test_whose_it_is_the_instance_says(storage: VolumeAccount) -> None:
    volume = storage.untagged_volume()
    storage.attach(volume, storage.stopped_host(ago(days=20), tags=TAGGED))
    assert volume in storage.tick().message("vision")


@pytest.mark.parametrize("tags", [{"curfew:protected": ""}, {"curfew:keep-until": "2099-01-01"}])
def test_the_owner_who_said_so_hears_nothing(storage: VolumeAccount, tags: dict[str, str]) -> None:
    storage.attached(storage.stopped_host(ago(days=20)), tags=tags)
    assert storage.tick().is_quiet


def test_a_root_volume_counts_too(storage: VolumeAccount) -> None:
    """Of a machine that was stopped and forgotten, it is often the only one."""
    reason = f"User initiated ({ago(days=20):%Y-%m-%d %H:%M:%S} GMT)"
    host = storage.aws.run_instance("g5.xlarge", TAGGED, state="stopped", state_transition_reason=reason)
    run = storage.tick()
    assert run.response["seen"] == 1 and host in run.message()


def test_where_instances_cannot_be_read_nothing_is_judged(storage: VolumeAccount) -> None:
    """A region that was not seen in full is a gap and no more; the others are done."""
    storage.attached(storage.stopped_host(ago(days=20)))
    storage.orphan()
    far = storage.orphan(region=EUROPE)
    storage.aws.fault("ec2:DescribeInstances", "access_denied", region=REGION, times=None)
    run = storage.tick()
    assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "ec2:DescribeInstances")]
    assert run.said(far) == ("mark", "orphaned", "done")
    assert run.response["seen"] == 1 and run.spared == {}


def test_what_nobody_hangs_on_is_not_asked_for(storage: VolumeAccount) -> None:
    storage.orphan()
    storage.host()
    assert storage.tick().counts["ec2:DescribeInstances"] == 0
