"""`curfew:hours` over a night, by a clock of the tests' own."""

from __future__ import annotations

from datetime import timedelta

import moved_clock
import pytest

from reaping import Account, ago, moment, now, rfc3339

HOURS = "Mon-Sun 09:00-18:00 Asia/Kolkata"  # from 03:30 to 12:30 UTC, on every day of the year


@pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
def test_announced_stopped_and_started_in_the_morning(account: Account) -> None:
    account.configure(mode="observe")  # its owner's word is enough
    gpu = account.gpu(tags={"curfew:hours": HOURS, "curfew:idle-after": "off"}, launched=ago(hours=20))
    day = (now() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    end, start = day + timedelta(hours=12, minutes=30), day + timedelta(days=1, hours=3, minutes=30)

    run = account.tick_at(end - timedelta(minutes=25))
    assert run.said(gpu) == ("mark", "hours", "done")
    evidence = run.step(gpu)["evidence"]
    assert (evidence["hours"], moment(evidence["at"]), moment(evidence["deadline"])) == (HOURS, end, end)
    assert account.mark(gpu) == f"{gpu} hours=stop@{rfc3339(end)}"
    assert run.severities() == {"vision": "warning"} and f"end at {rfc3339(end)}" in run.message()
    again = account.tick_at(end - timedelta(minutes=20))
    assert again.skipped == {"marked": 1} and again.is_quiet and account.state(gpu) == "running"

    assert account.tick_at(end + timedelta(minutes=1)).said(gpu) == ("stop", "hours", "done")
    tags = account.aws.tags(gpu)
    assert account.state(gpu) == "stopped" and tags["curfew:stopped"].startswith("hours ") and "curfew:marked" not in tags
    assert account.tick_at(start - timedelta(minutes=1)).is_quiet, "it is not started before its next hours"

    # A server error, which the SDK repeats.
    account.aws.fault("ec2:StartInstances", "insufficient_capacity", times=None)
    run = account.tick_at(start + timedelta(minutes=1))
    assert run.said(gpu) == ("start", "hours", "failed") and run.severities() == {"vision": "error"}
    assert all(words in run.step(gpu)["error"] for words in ("InsufficientInstanceCapacity", "tries again"))
    account.aws.clear_faults()
    account.aws.fault("ec2:StartInstances", "custom", code="InsufficientInstanceCapacity", times=None)
    run = account.tick()
    assert run.said(gpu) == ("start", "hours", "failed") and run.messages == [], "tried in every run, told once"
    account.aws.clear_faults()
    run = account.tick()
    assert run.said(gpu) == ("start", "hours", "done") and run.step(gpu)["saves_usd_per_hour"] is None
    assert moment(run.step(gpu)["evidence"]["at"]) == start
    assert "It was started" in run.message() and account.state(gpu) == "running"
    assert account.tick().messages == [] and "curfew:stopped" not in account.aws.tags(gpu)
    last = account.tick()
    assert last.messages == [] and last.ec2_writes == []
