"""What ends a job's machine from outside, and what is left of a job that has ended."""

from __future__ import annotations

from jobs import JobAccount
from reaping import ago


def test_a_machine_without_heartbeats_is_terminated_then_replaced(jobs: JobAccount) -> None:
    job = jobs.running()
    first = job.machine
    job.checkpoint(40)
    job.beats(at=ago(minutes=11))
    run = jobs.tick()
    assert job.attempt == 2 and jobs.state(first) == "terminated" and jobs.machines() == [job.machine]
    actions = [call["action"] for call in run.calls]
    assert actions.index("ec2:TerminateInstances") < actions.index("ec2:RunInstances"), "first gone, then another"
    assert [(step["action"], step["outcome"]) for step in run.steps] == [("terminate", "done"), ("notify", "done"), ("launch", "done")]
    assert [step["evidence"]["step"] for step in run.steps] == [40, 40, 40]
    assert any("stopped sending heartbeats" in message["message"] or "launched again" in message["message"] for message in run.messages)


def test_a_machine_held_by_a_tag_is_neither_ended_nor_replaced(jobs: JobAccount) -> None:
    job = jobs.running()
    job.checkpoint(1)
    job.beats(at=ago(minutes=30))
    jobs.tag(job.machine, protected="")
    run = jobs.tick()
    assert jobs.state(job.machine) == "running" and jobs.machines() == [job.machine] and not run.ec2_writes
    assert (job.state, [step["action"] for step in run.steps]) == ("running", ["hold"])
    assert "curfew:protected" in run.messages[0]["message"] and "neither terminates nor replaces" in run.messages[0]["message"]
    assert not jobs.tick().messages, "told once"
    assert jobs.warn(job.machine).counts["ec2:RunInstances"] == 0
    job.cancel()
    assert jobs.tick().counts["ec2:TerminateInstances"] == 0 and jobs.state(job.machine) == "running"


# Ends


def test_a_job_that_succeeded_is_closed_and_its_reservation_released(jobs: JobAccount) -> None:
    job = jobs.running()
    job.ends()
    run = jobs.tick()
    assert (job.state, job.phase["result"]) == ("ended", "succeeded")
    assert job.phase["closed"] and job.phase["released"] and not job.is_active
    assert jobs.machines() == [] and run.counts["ec2:TerminateInstances"] == 0
    assert "ended" in jobs.reserved()[job.id]
    assert "succeeded" in run.messages[0]["message"]
    run = jobs.tick()
    assert run.messages == [] and run.steps == [] and not run.ec2_writes


def test_a_person_cancels_a_running_job(jobs: JobAccount) -> None:
    job = jobs.running()
    machine = job.machine
    job.cancel("ada")
    run = jobs.told_of(f"jobs/{job.id}/cancel.json")
    assert job.phase["result"] == "cancelled" and "ada" in job.phase["why"]
    assert jobs.state(machine) == "terminated"
    assert [step["action"] for step in run.steps] == ["notify", "terminate"]
    jobs.tick()
    assert job.phase["closed"] and not job.is_active
