"""What ends a job's machine from outside, and what is left of a job that has ended."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs import SPEC, Job, JobAccount
from local_aws.client import REGION
from reaping import ago, moment, now
from reaping_budgets import month


def launched_at(job: Job) -> object:
    return moment(job.phase["launched_at"])


def test_a_silent_heart_is_terminated_then_replaced(jobs: JobAccount) -> None:
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
    assert any("fell silent" in message["message"] or "launched again" in message["message"] for message in run.messages)


def test_as_long_as_it_is_not_gone_there_is_no_other(jobs: JobAccount) -> None:
    job = jobs.running()
    first = job.machine
    job.checkpoint(40)
    job.beats(at=ago(minutes=11))
    jobs.aws.fault("ec2:TerminateInstances", "access_denied", times=None)
    run = jobs.tick()
    assert job.state == "interrupted" and jobs.machines() == [first]
    assert [(step["action"], step["outcome"]) for step in run.steps] == [("terminate", "failed")]
    jobs.aws.clear_faults()
    jobs.tick()
    assert job.state == "running" and job.attempt == 2 and jobs.machines() == [job.machine]


def test_an_agent_that_was_never_heard_of_within_a_quarter_of_an_hour(jobs: JobAccount) -> None:
    job = jobs.running()
    first = job.machine
    jobs.tick_at(now() + timedelta(minutes=14))
    assert job.machine == first
    jobs.tick_at(now() + timedelta(minutes=16))
    assert job.attempt == 2 and jobs.state(first) == "terminated"


def test_documents_that_cannot_be_read_end_nothing(jobs: JobAccount) -> None:
    job = jobs.running()
    jobs.aws.fault("s3:GetObject", "access_denied", match="heartbeat.json", times=None)
    jobs.aws.fault("s3:GetObject", "access_denied", match="head.json", times=None)
    run = jobs.tick_at(now() + timedelta(minutes=30))
    assert job.attempt == 1 and job.state == "running" and not run.ec2_writes
    assert {gap["call"] for gap in run.gaps} == {"s3:GetObject"}


HOLDS = [("curfew:protected", ""), ("curfew:keep-until", "2099-01-01"), ("curfew:mode", "observe"), ("curfew:hours", "sometimes")]


@pytest.mark.parametrize(("key", "value"), HOLDS)
def test_a_machine_that_a_tag_holds_is_neither_ended_nor_replaced(jobs: JobAccount, key: str, value: str) -> None:
    job = jobs.running()
    job.checkpoint(1)
    job.beats(at=ago(minutes=30))
    jobs.aws.change(tag={"resource": job.machine, "region": REGION, "tags": {key: value}})
    run = jobs.tick()
    assert jobs.state(job.machine) == "running" and jobs.machines() == [job.machine] and not run.ec2_writes
    assert (job.state, [step["action"] for step in run.steps]) == ("running", ["hold"])
    assert key in run.messages[0]["message"] and "neither terminates nor replaces" in run.messages[0]["message"]
    assert not jobs.tick().messages, "told once"
    assert jobs.warn(job.machine).counts["ec2:RunInstances"] == 0
    job.cancel()
    assert jobs.tick().counts["ec2:TerminateInstances"] == 0 and jobs.state(job.machine) == "running"


def test_a_machine_that_outlives_its_end_is_ended(jobs: JobAccount) -> None:
    job = jobs.running(text=SPEC.replace("8h", "1h"))
    machine, ends_at = job.machine, moment(job.phase["ends_at"])
    job.checkpoint(3)
    job.beats(at=ends_at)
    jobs.tick_at(ends_at + timedelta(minutes=4))
    assert jobs.state(machine) == "running", "its own killers come first"
    job.beats(at=ends_at + timedelta(minutes=5))
    jobs.tick_at(ends_at + timedelta(minutes=6))
    assert jobs.state(machine) == "terminated"
    assert (job.state, job.phase["result"]) == ("ended", "expired") and len(jobs.ever_launched()) == 1


# Ends


def test_a_job_that_succeeded_is_closed_and_its_money_given_back(jobs: JobAccount) -> None:
    job = jobs.running()
    job.ends()
    run = jobs.tick()
    assert (job.state, job.phase["result"]) == ("ended", "succeeded")
    assert job.phase["closed"] and job.phase["released"] and not job.is_active
    assert jobs.machines() == [] and run.counts["ec2:TerminateInstances"] == 0
    assert "ended" in jobs.read(f"budgets/vision/{month()}.json")["reservations"][job.id]
    assert "succeeded" in run.messages[0]["message"]
    run = jobs.tick()
    assert run.messages == [] and run.steps == [] and not run.ec2_writes


def test_a_failed_command_is_told_with_its_exit_code(jobs: JobAccount) -> None:
    job = jobs.running()
    job.ends(succeeded=False, code=137, why="out of memory")
    run = jobs.tick()
    assert job.phase["result"] == "failed" and job.phase["closed"]
    assert "137" in run.messages[0]["message"] and "out of memory" in run.messages[0]["message"]


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


def test_an_index_without_a_job_is_a_gap_and_the_others_go_on(jobs: JobAccount) -> None:
    jobs.put("active/vision/ghost-0123abcd", b"")
    jobs.submit()
    run = jobs.tick()
    assert jobs.job().state == "running"
    assert any("vision/ghost-0123abcd" in gap["error"] for gap in run.gaps)


def test_a_state_that_cannot_be_understood_stops_no_other_job(jobs: JobAccount) -> None:
    broken = jobs.running("broken")
    machine = broken.machine
    jobs.put(f"jobs/{broken.id}/state.json", b'{"schema": 2}')
    jobs.submit("fine")
    run = jobs.tick()
    assert jobs.job("fine").state == "running" and jobs.state(machine) == "running"
    assert any(broken.id in gap["error"] and "schema 2" in gap["error"] for gap in run.gaps)
