"""A job with an estimate and a deadline: on Spot while there is time, and on demand when the deadline asks for it."""

from __future__ import annotations

from datetime import datetime, timedelta

import moved_clock
import pytest

from command import curfew
from jobs import SPEC, JobAccount
from reaping import ago, moment, now, rfc3339

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")

WITHIN = timedelta(hours=4)
SPEC_WITH_DEADLINE = SPEC.replace('max_runtime = "8h"', 'max_runtime = "8h"\nwithin = "4h"\nestimated_runtime = "1h"')
# 10 minutes to start on demand, 5 until a decision, 5 to end in order; and on Spot 10 to start, 15 until a checkpoint and 5 until it is seen.
SET_ASIDE = timedelta(hours=1, minutes=50)


@pytest.fixture
def begun(jobs: JobAccount) -> datetime:
    jobs.aws.set_spot_price("g5.xlarge", {"us-east-1a": 0.3, "us-east-1b": 0.31}, since=ago(minutes=5))
    return now()


def lifecycle(jobs: JobAccount) -> str:
    return jobs.job().phase["lifecycle"]


def test_it_waits_for_spot_and_is_launched_on_demand_at_the_last_moment(jobs: JobAccount, begun: datetime) -> None:
    jobs.aws.set_capacity(0, lifecycle="spot")
    jobs.submit(text=SPEC_WITH_DEADLINE)
    run = jobs.tick_at(begun)
    job = jobs.job()
    assert job.state == "waiting" and "Spot capacity may return and the deadline leaves time to wait" in job.phase["said"], job.phase
    assert "the deadline lets it wait until" in run.messages[0]["message"]
    jobs.tick_at(begun + timedelta(minutes=20))
    assert job.state == "waiting" and jobs.ever_launched() == [], job.phase
    # By then no run has come for long, so nothing was decided before.
    run = jobs.tick_at(begun + WITHIN - SET_ASIDE + timedelta(minutes=2))
    assert job.state == "running" and lifecycle(jobs) == "on-demand", job.phase
    assert run.counts["ec2:RunInstances"] == 1, "Spot is not asked any more"
    assert moment(job.phase["ends_at"]) - begun <= WITHIN + timedelta(seconds=5)
    assert job.document["deadline"]["decision"] == {"capacity": "on_demand", "reason": "no_time_to_lose"}
    out = curfew(jobs.environment(), "jobs").out
    assert "the deadline leaves no time for another restart; it has " in out, out


def test_it_returns_to_spot_after_a_checkpoint_once_ec2_accepts(jobs: JobAccount, begun: datetime) -> None:
    jobs.aws.set_capacity(0, lifecycle="spot")
    jobs.submit(text=SPEC_WITH_DEADLINE.replace('"4h"', '"12h"').replace('"1h"', '"6h"').replace('"8h"', '"1d"'))
    job, at = None, begun
    for _ in range(60):
        jobs.tick_at(at)
        job = jobs.job()
        if job.state == "running":
            break
        at += timedelta(minutes=10)
    assert job is not None and lifecycle(jobs) == "on-demand", job.phase
    assert job.document["deadline"]["decision"]["reason"] == "spot_stays_away"
    # The local EC2 launches by another clock than the process's.
    phase = job.document["phase"]
    job.rewrite(phase={**phase, "of": {**phase["of"], "launched_at": rfc3339(at)}})
    on_demand, launches = job.machine, jobs.ever_launched()
    job.beats(job.attempt, at)
    jobs.tick_at(at + timedelta(minutes=1))
    attempt = job.phase["attempt"]
    job.checkpoint(7, attempt)
    job.beats(attempt, at + timedelta(minutes=20))
    jobs.tick_at(at + timedelta(minutes=20))
    assert job.machine == on_demand and jobs.ever_launched() == launches, "EC2 refuses, and the machine keeps running"
    assert job.attempt == attempt + 1 and job.phase["attempt"] == attempt
    jobs.aws.set_capacity(9, lifecycle="spot")
    job.checkpoint(8, attempt)
    job.beats(attempt, at + timedelta(minutes=36))
    run = jobs.tick_at(at + timedelta(minutes=36))
    # What follows the termination is of that other clock: the new machine seems old, and sent no heartbeat.
    launch, notify, terminate = run.steps[:3]
    assert [step["action"] for step in (launch, notify, terminate)] == ["launch", "notify", "terminate"]
    assert notify["resource"] == terminate["resource"] == on_demand not in jobs.machines()
    assert jobs.aws.instance(launch["resource"])["InstanceLifecycle"] == "spot"
    assert "is left for a machine on Spot" in notify["evidence"]["why"]
