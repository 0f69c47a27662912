"""The other two of the three killers, the agent and `reap-instances`, are each enough alone: the machine's timer is broken here."""

from __future__ import annotations

from datetime import timedelta

import moved_clock
import pytest
import training
from hosts import Control, Host
from hosts.host import wait_for
from machine_without_control_plane import BY_THE_REAPER, STEPS, MachineWithoutControlPlane
from reaping import BUCKET, moment, rfc3339
from reaping_budgets import month

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")

REAPED_AFTER = timedelta(minutes=10)


# The agent


def test_the_agent_ends_its_machine_in_order(machine: MachineWithoutControlPlane) -> None:
    machine.hosts.hurry = 10  # so that its five minutes suffice for a last upload on a busy machine: they are half a minute
    machine.train_for_ever().break_timer()
    machine.comes_to(machine.agent_ends_at)
    machine.has_ended()
    left, head = machine.exit(), machine.head()
    assert left["reason"] == "expired" and machine.agent_ends_at <= moment(left["at"]) < machine.ends_at
    assert machine.step() == machine.trail()[-1], "the step at which it was told to end is kept"
    assert head["attempt"] == 1 and head.get("result") is None


def test_the_agent_ends_its_machine_without_a_network(machine: MachineWithoutControlPlane) -> None:
    host = machine.train_for_ever()
    host.break_timer()
    host.cut_network()
    machine.comes_to(machine.agent_ends_at)
    machine.has_ended()
    assert machine.exit() is None


# The reaper


def has_no_killer(machine: MachineWithoutControlPlane) -> Host:
    """Neither a timer nor an agent, and no control plane."""
    machine.launch(machine.training(STEPS))
    machine.lose_agent()
    host = machine.boot()
    host.break_timer()
    return host


def test_a_machine_without_any_killer_outlives_its_end(machine: MachineWithoutControlPlane) -> None:
    host = has_no_killer(machine)
    machine.clock.move_to(machine.ends_at + timedelta(hours=2))
    machine.says("the timer of curfew-end.service is broken")
    machine.says("curfew-agent.service has ended: 1")
    assert host.is_on and machine.jobs.state(host.id) == "running"


def test_the_reaper_ends_a_machine_ten_minutes_after_its_end(machine: MachineWithoutControlPlane) -> None:
    host = has_no_killer(machine)
    expires_at = machine.ends_at + REAPED_AFTER
    strangers = [
        machine.jobs.gpu(),
        machine.jobs.gpu(tags={"curfew:expires-at": rfc3339(expires_at + timedelta(hours=1))}),
        machine.jobs.gpu(tags={"curfew:job": machine.job.id, "curfew:attempt": "1"}),
        machine.jobs.untagged(),
    ]
    assert machine.reap(expires_at - timedelta(seconds=30)).ec2_writes == [] and host.is_on
    run = machine.reap(expires_at + timedelta(seconds=1))
    assert run.said(host.id) == ("terminate", "expired", "done")
    assert [write for write in run.ec2_writes if write[0] != "CreateTags"] == [("TerminateInstances", host.id)]
    machine.has_ended(BY_THE_REAPER)
    assert {machine.jobs.state(one) for one in strangers} == {"running"}


# Without them


def test_a_job_succeeds_without_the_control_plane(machine: MachineWithoutControlPlane) -> None:
    jobs, ledger = machine.jobs, f"budgets/vision/{month()}.json"
    with Control(machine.aws, machine.environment, every=0.5) as control:
        jobs.submit(text=machine.spec(machine.training(STEPS)))
        wait_for(jobs.machines, 120, lambda: str(control.runs))
        control.pause()
        machine.knows(jobs.job())
        runs, host = len(control.runs), machine.begin()
        machine.has_ended()
        assert machine.job.state == "running" and len(control.runs) == runs
        assert machine.head()["result"]["succeeded"] and machine.exit()["reason"] == "succeeded"
        assert "ended" not in jobs.read(ledger)["reservations"][machine.job.id]
        control.resume()
        machine.until(lambda: not machine.job.is_active)
    phase = machine.job.phase
    assert (phase["state"], phase["result"]) == ("ended", "succeeded") and phase["closed"] and phase["released"]
    assert "ended" in jobs.read(ledger)["reservations"][machine.job.id]
    output = machine.aws.client("s3").get_object(Bucket=BUCKET, Key=f"outputs/{machine.job.id}/1{machine.result}")["Body"].read()
    assert output.decode() == training.undisturbed(STEPS)
    assert jobs.ever_launched() == [host.id]
