"""Events at once, crashes and lost answers: exactly one machine, and nothing forgotten."""

from __future__ import annotations

import os
import signal
import threading

from hosts.host import wait_for
from jobs import SPEC, JobAccount, sample
from reaping import BUCKET, Run, binary, scheduled
from runtime_api import Function, Invocation

HELD_SECONDS = 60  # until it is released
RETRIED = 4  # so often the SDK asks


def at_once(jobs: JobAccount, *events: object) -> list[Invocation]:
    """As many processes, one event each, begun together."""
    functions = [Function(binary("run-jobs"), env=jobs.environment()).__enter__() for _ in events]
    answers: list[Invocation] = []
    try:
        for function in functions:
            function.wait_until_ready()
        runs = [threading.Thread(target=lambda f=f, e=e: answers.append(f.invoke(e))) for f, e in zip(functions, events)]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
    finally:
        for function in functions:
            function.__exit__(None, None, None)
    assert all(answer.error is None for answer in answers), [answer.error for answer in answers]
    return answers


def submitted_event(key: str) -> dict[str, object]:
    event = sample("s3-object-created-inbox")
    event["detail"]["bucket"]["name"], event["detail"]["object"]["key"] = BUCKET, key
    return event


def test_an_event_and_the_schedule_at_once_launch_one_machine(jobs: JobAccount) -> None:
    key = jobs.submit()
    at_once(jobs, submitted_event(key), scheduled("run-jobs"))
    jobs.tick()
    job = jobs.job()
    assert job.state == "running" and jobs.machines(job=job.id) == [job.machine]


def test_an_event_and_the_schedule_at_once_tell_once_of_a_sweep(jobs: JobAccount) -> None:
    key = jobs.submit("tune", f'{SPEC}\n[sweep]\nseed = "1..12"\n')
    at_once(jobs, submitted_event(key), scheduled("run-jobs"), submitted_event(key))
    jobs.tick()
    assert sum("the sweep was accepted" in message["message"] for message in jobs.aws.messages()) == 1
    answer = jobs.answer(key)
    assert answer and answer["members"] == 12


def test_two_warnings_and_the_schedule_at_once_launch_one_machine(jobs: JobAccount) -> None:
    job = jobs.running()
    first = job.machine
    warning = jobs.event_of("ec2-spot-interruption-warning", first)
    at_once(jobs, warning, warning, scheduled("run-jobs"))
    jobs.tick()
    assert job.attempt == 2 and job.state == "running" and jobs.machines() == [first, job.machine]


COLLISION = {"status": 409, "code": "ConditionalRequestConflict", "message": "Somebody else writes it."}


def test_a_job_is_accepted_once_it_is_written(jobs: JobAccount) -> None:
    jobs.submit()
    jobs.aws.fault("s3:PutObject", "custom", match="state.json", times=None, **COLLISION)
    run = jobs.tick()
    assert {gap["call"] for gap in run.gaps} == {"s3:PutObject"} and all("others write it at the same time" in gap["error"] for gap in run.gaps)
    assert jobs.keys("active/") == [] and not any("accepted" in key for key in jobs.keys("inbox/")) and jobs.ever_launched() == []
    jobs.aws.clear_faults()
    jobs.tick()
    assert jobs.job().state == "running"


def test_a_launch_without_an_answer_is_repeated_with_its_token(jobs: JobAccount) -> None:
    """Every try of the run gets no answer: as a crash right after RunInstances."""
    jobs.submit()
    jobs.aws.fault("ec2:RunInstances", "lost_answer", times=RETRIED)
    run = jobs.tick()
    job = jobs.job()
    assert job.state == "launching"
    assert [(step["action"], step["outcome"]) for step in run.steps] == [("launch", "failed")]
    jobs.aws.clear_faults()
    jobs.tick()
    assert job.state == "running" and jobs.ever_launched() == [job.machine] and job.attempt == 1


def wait_for_launch(jobs: JobAccount) -> None:
    """Until EC2 was asked for the machine and holds the call up."""
    wait_for(jobs.aws.struck, HELD_SECONDS, lambda: str(jobs.aws.calls()))
    assert jobs.job().state == "launching"


def test_a_process_that_is_killed_while_ec2_launches(jobs: JobAccount) -> None:
    """The state says that a launch was decided; EC2 carries it out only after the next run has queried EC2."""
    jobs.submit()
    jobs.aws.fault("ec2:RunInstances", "slow", seconds=HELD_SECONDS)
    function = Function(binary("run-jobs"), env=jobs.environment()).__enter__()
    run = threading.Thread(target=function.invoke, args=(scheduled("run-jobs"),))
    run.start()
    wait_for_launch(jobs)
    os.kill(function.process_id, signal.SIGKILL)
    run.join()
    function.__exit__(None, None, None)
    assert jobs.job().state == "launching"
    jobs.tick()
    jobs.aws.release("ec2:RunInstances")
    job = jobs.job()
    assert job.state == "running" and jobs.ever_launched() == [job.machine]


def launched_late(jobs: JobAccount, **meanwhile: object) -> Run:
    """EC2 takes its time with a launch, and meanwhile another run writes that state."""
    jobs.submit()
    jobs.aws.fault("ec2:RunInstances", "slow", seconds=HELD_SECONDS)
    runs: list[Run] = []
    run = threading.Thread(target=lambda: runs.append(jobs.tick()))
    run.start()
    wait_for_launch(jobs)
    jobs.job().rewrite(**meanwhile)
    jobs.aws.release("ec2:RunInstances")
    run.join()
    return runs[0]


WAITS = {"until": "2999-01-01T00:00:00Z", "passes": 1, "said": "no capacity"}


def test_a_machine_that_no_state_expects_is_terminated(jobs: JobAccount) -> None:
    """The other run was told that there is no capacity, and has gone on."""
    run = launched_late(jobs, phase={"state": "waiting", "of": WAITS})
    launched = jobs.ever_launched()
    assert len(launched) == 1 and jobs.machines() == []
    ended = [step for step in run.steps if step["action"] == "terminate"]
    assert [(step["resource"], step["outcome"]) for step in ended] == [(launched[0], "done")]
    assert jobs.job().state == "waiting", "whose swap was lost writes nothing"


def test_a_machine_that_the_other_run_knows_runs_on(jobs: JobAccount) -> None:
    """Both were given the same instance, and the other has only written of it since, that it was asked again."""
    run = launched_late(jobs, told="something")
    assert len(jobs.machines()) == 1 and run.counts["ec2:TerminateInstances"] == 0
    jobs.tick()
    assert jobs.job().state == "running" and jobs.ever_launched() == [jobs.job().machine]


def test_the_next_run_continues_after_a_timeout(jobs: JobAccount) -> None:
    jobs.submit()
    jobs.aws.fault("ec2:RunInstances", "slow", seconds=20)
    run = jobs.tick(deadline_s=23)
    assert any("the run's time was over" in gap["error"] for gap in run.gaps)
    assert run.invocation.seconds < 23 and jobs.job().state == "launching"
    jobs.aws.clear_faults()
    jobs.tick()
    job = jobs.job()
    assert job.state == "running" and jobs.ever_launched() == [job.machine]


def test_the_loser_of_a_swap_stops_quietly(jobs: JobAccount) -> None:
    """Somebody else writes the job between this run's read and its write."""
    first = jobs.running().machine
    jobs.aws.fault("s3:PutObject", "custom", match="state.json", status=412, code="PreconditionFailed", message="At least one of the pre-conditions you specified did not hold", times=None)
    run = jobs.warn(first)
    assert run.steps == [] and run.gaps == [] and run.counts["ec2:RunInstances"] == 0 and jobs.machines() == [first]


def test_the_last_message_of_a_job_is_sent_after_it_is_closed(jobs: JobAccount) -> None:
    """It ends and is closed in one run, and SNS refuses the message: only what is on the index is met again."""
    job = jobs.running()
    job.ends()
    jobs.aws.fault("sns:Publish", "access_denied")
    assert jobs.tick().messages == [] and job.phase["closed"] and job.is_active
    assert "it succeeded at" in jobs.tick().message("vision") and not job.is_active
    assert jobs.tick().messages == []
