"""A month ends while a job runs: its reservation is then in two documents, and is settled and given back in both."""

from __future__ import annotations

from datetime import timedelta

import moved_clock
import pytest

from jobs import JobAccount
from reaping import moment, rfc3339
from reaping_budgets import month_began

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")

HOUR = timedelta(hours=1)


def test_a_reservation_of_two_months_is_settled_and_given_back_in_both(jobs: JobAccount) -> None:
    end = month_began(month_began() + timedelta(days=32))
    jobs.configure(teams={"vision": {"monthly_budget_usd": 100, "over_budget": "hold"}}, account={"monthly_budget_usd": 500, "over_budget": "hold"})
    for team in ("vision", None):
        jobs.write_budget(team=team, at=end - HOUR)
    jobs.submit()
    jobs.tick_at(end - HOUR)
    job = jobs.job()
    first = job.machine
    for team in ("vision", None):  # as the first beat of the new month does
        jobs.write_budget(team=team, at=end, reservations=jobs.reserved(team, end - HOUR))
    # The local EC2 launches by another clock than the process's.
    interrupted_at, phase = end + timedelta(minutes=10), job.document["phase"]
    job.rewrite(phase={**phase, "of": {**phase["of"], "launched_at": rfc3339(interrupted_at - HOUR)}})
    jobs.tick_at(interrupted_at, event=jobs.event_of("ec2-spot-interruption-warning", first))
    assert job.state == "running" and job.machine != first
    places = [(team, at) for at in (end - HOUR, end) for team in ("vision", None)]
    for place in places:
        one = jobs.reserved(*place)[job.id]
        assert sorted(one["instances"]) == sorted([first, job.machine]) and "ended" not in one
    job.ends()
    jobs.tick_at(end + timedelta(minutes=20))
    assert job.state == "ended"
    for place in places:
        assert moment(jobs.reserved(*place)[job.id]["ended"]) >= end + timedelta(minutes=20)
