"""A month turns while a job goes on: what it has reserved is in two documents then, and is settled and given back in both."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import moved_clock
import pytest

from jobs import JobAccount
from reaping import moment, rfc3339
from reaping_budgets import month, month_began

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")

TEAMS = {"vision": {"monthly_budget_usd": 100, "over_budget": "hold"}}
HOUR = timedelta(hours=1)


def turn() -> datetime:
    """When this month ends."""
    return month_began(month_began() + timedelta(days=32))


def begun_before(jobs: JobAccount, launches: bool = True) -> datetime:
    """A job that is submitted an hour before the month ends; that moment."""
    end, before = turn(), turn() - HOUR
    jobs.configure(teams=TEAMS, account={"monthly_budget_usd": 500, "over_budget": "hold"})
    for team in ("vision", None):
        jobs.write_budget(team=team, at=before)
    if not launches:
        jobs.aws.set_capacity(0, "g5.xlarge")
    jobs.submit()
    jobs.tick_at(before)
    assert jobs.job().state == ("running" if launches else "waiting"), jobs.job().phase
    return end


def carried_over(jobs: JobAccount, end: datetime) -> None:
    """As the first beat of the new month does."""
    for team in ("vision", None):
        jobs.write_budget(team=team, at=end, reservations=jobs.reserved(team, end - HOUR))


def replaced(jobs: JobAccount, at: datetime) -> list[str]:
    """The job's machine is taken back, and there is another one; both."""
    job = jobs.job()
    first = job.machine
    # The local EC2 launches by another clock than the process's.
    phase = job.document["phase"]
    job.rewrite(phase={**phase, "of": {**phase["of"], "launched_at": rfc3339(at - HOUR)}})
    jobs.tick_at(at, event=jobs.event_of("ec2-spot-interruption-warning", first))
    assert job.state == "running" and job.machine != first
    return sorted([first, job.machine])


def test_what_is_carried_over_is_settled_and_given_back_in_both_months(jobs: JobAccount) -> None:
    end = begun_before(jobs)
    job = jobs.job()
    carried_over(jobs, end)
    machines = replaced(jobs, end + timedelta(minutes=10))
    places = [(team, at) for at in (end - HOUR, end) for team in ("vision", None)]
    for place in places:
        one = jobs.reserved(*place)[job.id]
        assert sorted(one["instances"]) == machines and "ended" not in one
    job.ends()
    jobs.tick_at(end + timedelta(minutes=20))
    assert job.state == "ended"
    for place in places:
        assert moment(jobs.reserved(*place)[job.id]["ended"]) >= end + timedelta(minutes=20)


def test_before_the_first_beat_of_the_month_it_is_given_back_in_the_month_before(jobs: JobAccount) -> None:
    """So that the beat does not carry it over."""
    end = begun_before(jobs)
    job = jobs.job()
    job.ends()
    jobs.tick_at(end + timedelta(minutes=1))
    assert job.state == "ended"
    for team in ("vision", None):
        assert moment(jobs.reserved(team, end - HOUR)[job.id]["ended"]) >= end
    assert not [one for one in jobs.keys("budgets/") if one.endswith(f"{month(end)}.json")], "there is nothing to write"


def test_what_never_had_a_machine_gives_everything_back_at_once(jobs: JobAccount) -> None:
    """It was tried to launch it: the attempt has a number. Nothing was spent."""
    end = begun_before(jobs, launches=False)
    job = jobs.job()
    assert job.attempt == 1
    carried_over(jobs, end)
    job.cancel()
    jobs.tick_at(end + timedelta(minutes=1))
    assert job.phase["result"] == "cancelled"
    for team in ("vision", None):
        assert jobs.reserved(team, end - HOUR) == {} == jobs.reserved(team, end)


def test_where_the_account_refuses_nothing_of_the_team_is_carried_over(jobs: JobAccount) -> None:
    """The job needs more than it had, in the new month, which the team gives and the account has not."""
    end = begun_before(jobs, launches=False)
    job = jobs.job()
    carried_over(jobs, end)
    jobs.write_budget(team=None, at=end, spent_usd=499.0)
    job.rewrite(reserved={**job.document["reserved"], "rate": 0.01})
    jobs.tick_at(end + timedelta(minutes=1))
    assert (job.state, job.phase["by"]) == ("held", "budget"), job.phase
    assert jobs.reserved(at=end) == {} and "ended" in jobs.reserved(at=end - HOUR)[job.id]
