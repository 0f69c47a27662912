"""`curfew:hours`, with windows around the present moment, in zones with and without clock changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from reaping import Account, ago, moment, now, rfc3339

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]


def zones() -> list[str]:
    """Those whose clocks do not change within a day of now: a time that comes twice cannot be meant by hours."""
    around = ago(days=1), now() + timedelta(days=1)
    return [zone for zone in ZONES if len({at.astimezone(ZoneInfo(zone)).utcoffset() for at in around}) == 1]


def minute(offset: timedelta) -> datetime:
    """A whole minute, as hours are written."""
    return (now() + offset).replace(second=0, microsecond=0)


def hours(start: datetime, end: datetime, zone: str = "UTC") -> str:
    """Every day from then until then, which may be over midnight."""
    local = [at.astimezone(ZoneInfo(zone)).strftime("%H:%M") for at in (start, end)]
    return f"Mon-Sun {local[0]}-{local[1]} {zone}"


def working(account: Account, tag: str, **gpu: Any) -> str:
    """Busy, and so of no interest to any rule but its hours."""
    tags = {"curfew:hours": tag, **gpu.pop("tags", {})}
    return account.busy(account.gpu(tags=tags, **gpu))


def stopped(account: Account, tag: str, by: str, **gpu: Any) -> str:
    tags = {"curfew:hours": tag, "curfew:stopped": by, **gpu.pop("tags", {})}
    return account.gpu(tags=tags, state="stopped", launched=ago(days=2), **gpu)


def test_half_an_hour_before_the_end_it_is_announced(account: Account) -> None:
    account.configure(mode="observe")  # its owner's word is enough
    end = minute(timedelta(minutes=20))
    gpus = {working(account, tag): tag for tag in (hours(end - timedelta(hours=9), end, zone) for zone in zones())}
    run = account.tick()
    for gpu, tag in gpus.items():
        assert run.said(gpu) == ("mark", "hours", "done")
        evidence = run.step(gpu)["evidence"]
        assert (evidence["hours"], moment(evidence["at"]), moment(evidence["deadline"])) == (tag, end, end)
        assert account.mark(gpu) == f"{gpu} hours=stop@{rfc3339(end)}"
    assert run.severities() == {"vision": "warning"}
    assert f"end at {rfc3339(end)}" in run.message()
    again = account.tick()
    assert again.skipped == {"marked": len(gpus)} and again.is_quiet
    assert {account.state(gpu) for gpu in gpus} == {"running"}


def test_at_its_end_it_is_stopped(account: Account) -> None:
    account.configure(mode="observe")
    end = minute(timedelta(minutes=-1))
    gpus = [working(account, hours(end - timedelta(hours=4), end, zone)) for zone in zones()]
    for gpu in gpus:
        account.tag(gpu, marked=f"{gpu} hours=stop@{rfc3339(end)}")
    run = account.tick()
    for gpu in gpus:
        assert run.said(gpu) == ("stop", "hours", "done")
        assert account.state(gpu) == "stopped"
        tags = account.aws.tags(gpu)
        assert tags["curfew:stopped"].startswith("hours ") and "curfew:marked" not in tags
    assert account.tick().is_quiet, "they are not started before their next hours"


@pytest.mark.parametrize("rule", ["hours", "idle"])
def test_when_its_hours_begin_it_is_started(account: Account, rule: str) -> None:
    account.configure(mode="observe")
    start = minute(timedelta(minutes=-3))
    end, by = start + timedelta(hours=9), f"{rule} {rfc3339(ago(hours=11))}"
    gpus = [stopped(account, hours(start, end, zone), by) for zone in zones()]
    run = account.tick()
    for gpu in gpus:
        assert run.said(gpu) == ("start", "hours", "done")
        assert run.step(gpu)["saves_usd_per_hour"] is None
        assert moment(run.step(gpu)["evidence"]["at"]) == start
        assert account.state(gpu) == "running"
    assert run.severities() == {"vision": "action"} and "It was started" in run.message()
    after = account.tick()
    assert not any("curfew:stopped" in account.aws.tags(gpu) for gpu in gpus)
    assert after.messages == []
    last = account.tick()
    assert last.messages == [] and last.ec2_writes == []


def test_without_capacity_it_is_told_once_and_tried_in_every_run(account: Account) -> None:
    start = minute(timedelta(minutes=-3))
    gpu = stopped(account, hours(start, start + timedelta(hours=9)), f"hours {rfc3339(ago(hours=11))}")
    other = stopped(account, hours(start, start + timedelta(hours=9)), f"hours {rfc3339(ago(hours=11))}")
    account.aws.fault(
        "ec2:StartInstances", "custom", status=400, code="InsufficientInstanceCapacity", match=gpu, times=None
    )
    run = account.tick()
    assert run.said(gpu) == ("start", "hours", "failed")
    assert "InsufficientInstanceCapacity" in run.step(gpu)["error"] and "tries again" in run.step(gpu)["error"]
    assert run.said(other) == ("start", "hours", "done")
    assert run.severities() == {"vision": "error"} and gpu in run.message()
    for _ in range(2):
        run = account.tick()
        assert run.said(gpu) == ("start", "hours", "failed") and run.messages == []
    account.aws.clear_faults()
    run = account.tick()
    assert run.said(gpu) == ("start", "hours", "done") and gpu in run.message()


def test_capacity_as_ec2_words_it(account: Account) -> None:
    """A server error, which the SDK repeats."""
    start = minute(timedelta(minutes=-3))
    gpu = stopped(account, hours(start, start + timedelta(hours=9)), f"hours {rfc3339(ago(hours=11))}")
    account.aws.fault("ec2:StartInstances", "insufficient_capacity", times=None)
    assert account.tick().said(gpu) == ("start", "hours", "failed")
    account.aws.clear_faults()
    assert account.tick().said(gpu) == ("start", "hours", "done")


def test_a_whole_day_of_it(account: Account) -> None:
    """Announced, stopped, and started in the morning, each by a run of its own; the clock is moved by the tag."""
    end = minute(timedelta(minutes=10))
    gpu = working(account, hours(end - timedelta(hours=9), end))
    assert account.tick().said(gpu)[0] == "mark"
    over = minute(timedelta(minutes=-5))
    account.tag(gpu, hours=hours(over - timedelta(hours=4), over), marked=f"{gpu} hours=stop@{rfc3339(over)}")
    assert account.tick().said(gpu)[0] == "stop"
    morning = minute(timedelta(minutes=-1))
    account.tag(
        gpu,
        hours=hours(morning, morning + timedelta(hours=9)),
        stopped=f"hours {rfc3339(morning - timedelta(hours=11))}",
    )
    account.aws.set_instance(gpu, launch_time=ago(days=1))
    assert account.tick().said(gpu)[0] == "start"
    assert account.state(gpu) == "running"
