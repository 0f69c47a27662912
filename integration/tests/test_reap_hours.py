"""`curfew:hours`, with windows around the present moment, in zones with and without clock changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from local_aws.client import REGION
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
        because = run.step(gpu)["because"]
        assert (because["hours"], moment(because["at"]), moment(because["deadline"])) == (tag, end, end)
        assert account.mark(gpu) == f"{gpu} hours=stop@{rfc3339(end)}"
    assert run.severities() == {"vision": "warning"}
    assert f"end at {rfc3339(end)}" in run.message()
    again = account.tick()
    assert again.spared == {"marked": len(gpus)} and again.is_quiet
    assert {account.state(gpu) for gpu in gpus} == {"running"}


def test_earlier_nothing_is_said(account: Account) -> None:
    end = minute(timedelta(minutes=32))
    working(account, hours(end - timedelta(hours=9), end))
    run = account.tick()
    assert run.spared == {"busy": 1} and run.is_quiet


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


def test_found_outside_its_hours_it_has_half_an_hour(account: Account) -> None:
    end = minute(timedelta(hours=-2))
    gpu = working(account, hours(end - timedelta(hours=2), end))
    run = account.tick()
    assert run.said(gpu) == ("mark", "hours", "done")
    wait = moment(run.step(gpu)["because"]["deadline"]) - now()
    assert timedelta(minutes=29) < wait <= timedelta(minutes=30)


def test_started_by_hand_outside_its_hours_it_is_left(account: Account) -> None:
    end = minute(timedelta(hours=-2))
    working(account, hours(end - timedelta(hours=2), end), launched=ago(hours=1))
    run = account.tick()
    assert run.steps == [] and run.is_quiet


def test_ends_by_hours_are_not_limited(account: Account) -> None:
    account.configure(limits={"actions_max": 0})
    end = minute(timedelta(minutes=-1))
    gpu = working(account, hours(end - timedelta(hours=4), end))
    account.tag(gpu, marked=f"{gpu} hours=stop@{rfc3339(end)}")
    assert account.tick().said(gpu) == ("stop", "hours", "done")


def test_longer_hours_call_it_off(account: Account) -> None:
    end = minute(timedelta(minutes=20))
    gpu = working(account, hours(end - timedelta(hours=9), end))
    account.tick()
    account.tag(gpu, hours=hours(end - timedelta(hours=9), end + timedelta(hours=3)))
    run = account.tick()
    assert run.said(gpu) == ("unmark", "hours", "done")
    assert account.mark(gpu) is None


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
        assert moment(run.step(gpu)["because"]["at"]) == start
        assert account.state(gpu) == "running"
    assert run.severities() == {"vision": "action"} and "It was started" in run.message()
    after = account.tick()
    assert not any("curfew:stopped" in account.aws.tags(gpu) for gpu in gpus)
    assert after.messages == []
    last = account.tick()
    assert last.messages == [] and last.ec2_writes == []


@pytest.mark.parametrize("tag", ["Mon-Sun 00:00-24:00 UTC", "Sun-Sat 00:00-24:00 Asia/Tokyo"])
def test_whole_weeks_are_always_begun(account: Account, tag: str) -> None:
    gpu = stopped(account, tag, f"hours {rfc3339(ago(hours=11))}")
    assert account.tick().said(gpu) == ("start", "hours", "done")


@pytest.mark.parametrize(
    ("by", "tags"),
    [
        (None, {}),  # by a person
        ("untagged", {}),
        ("lifetime", {}),
        ("expired", {}),
        ("hours", {"curfew:protected": ""}),
        ("hours", {"curfew:keep-until": "2099-01-01"}),
        ("hours", {"curfew:expires-at": "2025-01-01T00:00:00Z"}),
        ("hours", {"curfew:idle-after": "soon"}),
        ("hours", {"eks:cluster-name": "ml"}),
    ],
)
def test_what_stays_stopped(account: Account, by: str | None, tags: dict[str, str]) -> None:
    start = minute(timedelta(minutes=-3))
    gpu = stopped(account, hours(start, start + timedelta(hours=9)), f"{by} {rfc3339(ago(hours=11))}", tags=tags)
    if by is None:
        account.aws.change(untag={"resource": gpu, "region": REGION, "keys": ["curfew:stopped"]})
    run = account.tick()
    assert run.steps == [] and run.ec2_writes == []
    assert account.state(gpu) == "stopped"


def test_outside_its_hours_it_is_not_started(account: Account) -> None:
    start = minute(timedelta(minutes=5))
    gpu = stopped(account, hours(start, start + timedelta(hours=9)), f"hours {rfc3339(ago(hours=11))}")
    run = account.tick()
    assert run.spared == {"not-running": 1} and run.is_quiet and account.state(gpu) == "stopped"


@pytest.mark.parametrize("mode", ["account", "tag"])
def test_observed_it_is_only_said(account: Account, mode: str) -> None:
    start = minute(timedelta(minutes=-3))
    own = {"curfew:mode": "observe"} if mode == "tag" else {}
    gpu = stopped(account, hours(start, start + timedelta(hours=9)), f"hours {rfc3339(ago(hours=11))}", tags=own)
    if mode == "account":
        account.restart(CURFEW_MODE="observe")
    run = account.tick()
    assert run.said(gpu) == ("start", "hours", "observed")
    assert "would be started" in run.message() and run.ec2_writes == []
    assert account.tick().messages == [] and account.state(gpu) == "stopped"


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


def test_a_start_that_came_to_nothing_is_an_error(account: Account) -> None:
    """Accepted, pending, stopped again: a missing kms:CreateGrant looks so."""
    start = minute(timedelta(minutes=-3))
    gpu = stopped(
        account,
        hours(start, start + timedelta(hours=9)),
        f"hours {rfc3339(ago(hours=11))}",
        state_reason="Client.InternalError",
    )
    run = account.tick()
    assert run.step(gpu)["action"] == "start"
    assert run.severities() == {"vision": "error"} and "Client.InternalError" in run.message()


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
