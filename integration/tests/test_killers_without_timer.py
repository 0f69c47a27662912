"""The other two of the three killers, the agent and `reap-instances`, are each enough alone: the machine's timer is broken here."""

from __future__ import annotations

from datetime import timedelta

import moved_clock
import pytest
import training
from hosts import Control, Host
from hosts.host import wait_for
from lone import BY_THE_REAPER, STEPS, LoneMachine
from reaping import BUCKET, moment, rfc3339
from reaping_budgets import month

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")

REAPED_AFTER = timedelta(minutes=10)


# The agent


def test_the_agent_ends_its_machine_in_order(lone: LoneMachine) -> None:
    lone.train_for_ever().break_timer()
    lone.comes_to(lone.agent_ends_at)
    lone.has_ended()
    left, head = lone.exit(), lone.head()
    assert left["reason"] == "expired" and lone.agent_ends_at <= moment(left["at"]) < lone.ends_at
    assert lone.step() == lone.trail()[-1], "the step at which it was told to end is kept"
    assert head["attempt"] == 1 and head.get("result") is None


def test_the_agent_ends_its_machine_without_a_network(lone: LoneMachine) -> None:
    host = lone.train_for_ever()
    host.break_timer()
    host.cut_network()
    lone.comes_to(lone.agent_ends_at)
    lone.has_ended()
    assert lone.exit() is None


# The reaper


def has_no_killer(lone: LoneMachine) -> Host:
    """Neither a timer nor an agent, and no control plane."""
    lone.launch(lone.training(STEPS))
    lone.lose_agent()
    host = lone.boot()
    host.break_timer()
    return host


def test_a_machine_without_any_killer_outlives_its_end(lone: LoneMachine) -> None:
    host = has_no_killer(lone)
    lone.clock.move_to(lone.ends_at + timedelta(hours=2))
    lone.says("the timer of curfew-end.service is broken")
    lone.says("curfew-agent.service has ended: 1")
    assert host.is_on and lone.jobs.state(host.id) == "running"


def test_the_reaper_ends_a_machine_ten_minutes_after_its_end(lone: LoneMachine) -> None:
    host = has_no_killer(lone)
    expires_at = lone.ends_at + REAPED_AFTER
    strangers = [
        lone.jobs.gpu(),
        lone.jobs.gpu(tags={"curfew:expires-at": rfc3339(expires_at + timedelta(hours=1))}),
        lone.jobs.gpu(tags={"curfew:job": lone.job.id, "curfew:attempt": "1"}),
        lone.jobs.untagged(),
    ]
    assert lone.reap(expires_at - timedelta(seconds=30)).ec2_writes == [] and host.is_on
    run = lone.reap(expires_at + timedelta(seconds=1))
    assert run.said(host.id) == ("terminate", "expired", "done")
    assert [write for write in run.ec2_writes if write[0] != "CreateTags"] == [("TerminateInstances", host.id)]
    lone.has_ended(BY_THE_REAPER)
    assert {lone.jobs.state(one) for one in strangers} == {"running"}


# Without them


def test_a_job_succeeds_without_the_control_plane(lone: LoneMachine) -> None:
    jobs, ledger = lone.jobs, f"budgets/vision/{month()}.json"
    with Control(lone.aws, lone.environment, every=0.5) as control:
        jobs.submit(text=lone.spec(lone.training(STEPS)))
        wait_for(jobs.machines, 30, lambda: str(control.runs))
        control.pause()
        lone.knows(jobs.job())
        runs, host = len(control.runs), lone.begin()
        lone.has_ended()
        assert lone.job.state == "running" and len(control.runs) == runs
        assert lone.head()["result"]["succeeded"] and lone.exit()["reason"] == "succeeded"
        assert "ended" not in jobs.read(ledger)["reservations"][lone.job.id]
        control.resume()
        lone.until(lambda: not lone.job.is_active)
    phase = lone.job.phase
    assert (phase["state"], phase["result"]) == ("ended", "succeeded") and phase["closed"] and phase["released"]
    assert "ended" in jobs.read(ledger)["reservations"][lone.job.id]
    output = lone.aws.client("s3").get_object(Bucket=BUCKET, Key=f"outputs/{lone.job.id}/1{lone.result}")["Body"].read()
    assert output.decode() == training.undisturbed(STEPS)
    assert jobs.ever_launched() == [host.id]
