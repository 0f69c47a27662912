"""What a run about jobs answers and leaves behind: the response, the audit record, the messages; and that it repeats nothing."""

from __future__ import annotations

from contract import assert_contract
from jobs import JobAccount
from local_aws import LocalAws
from local_aws.client import REGION
from reaping import Run

RULES = {"job": {"launch", "terminate", "hold", "notify"}}


def assert_answers(run: Run) -> None:
    assert_contract(run.response, "run-jobs", RULES)
    assert run.response["run"] == run.invocation.request_id
    for step in run.steps:
        assert list(step["evidence"]) == ["rule", "job", "attempt", "step", "why"] and step["evidence"]["why"]


def test_a_launch_is_answered_recorded_and_notified(jobs: JobAccount) -> None:
    jobs.submit()
    run = jobs.tick()
    assert_answers(run)
    job = jobs.job()
    [step] = run.steps
    assert (step["region"], step["resource"], step["team"]) == (REGION, job.machine, "vision")
    assert (step["action"], step["outcome"]) == ("launch", "done")
    assert (step["evidence"]["job"], step["evidence"]["attempt"], step["evidence"]["step"]) == (job.id, 1, None)
    assert run.gaps == [] and run.response["seen"] == 1
    record = jobs.audit(run)
    assert record["schema"] == 1 and record["steps"] == [{**step, "what": "g5.xlarge"}]
    [message] = run.messages
    assert message["attributes"]["team"] == "vision" and message["attributes"]["function"] == "run-jobs"
    assert job.machine in message["message"] and job.id in message["message"]


def test_a_quiet_run_sends_and_writes_nothing(jobs: JobAccount) -> None:
    job = jobs.running()
    job.beats()
    jobs.written_long_ago()
    run = jobs.tick()
    assert_answers(run)
    assert run.steps == [] and run.messages == [] and not run.ec2_writes
    assert run.counts["s3:PutObject"] == 0
    assert run.response["seen"] == 1


def test_observe_mode_answers_the_inbox_and_launches_nothing(jobs: JobAccount) -> None:
    jobs.restart(CURFEW_MODE="observe")
    key = jobs.submit()
    run = jobs.tick()
    assert_answers(run)
    answer = jobs.answer(key)
    assert answer and answer["is"] == "accepted"
    [step] = run.steps
    assert (step["action"], step["outcome"]) == ("launch", "observed")
    job = jobs.job()
    assert (job.state, job.phase["by"]) == ("held", "observing")
    assert jobs.ever_launched() == [] and not run.ec2_writes
    assert jobs.tick().steps == []
    jobs.restart()
    assert [step["action"] for step in jobs.tick().steps] == ["launch"]
    assert job.state == "running"


def test_nothing_is_launched_without_a_subscription(aws: LocalAws) -> None:
    with JobAccount(aws, heard=False) as jobs:
        jobs.submit()
        aws.fault("sns:ListSubscriptionsByTopic", "access_denied", times=None)
        run = jobs.tick()
        assert any(gap["call"] == "sns:ListSubscriptionsByTopic" for gap in run.gaps)
        assert jobs.job().state == "submitted", "while the subscriptions are unknown, jobs stay as they are"
        aws.clear_faults()
        run = jobs.tick()
        assert [gap["call"] for gap in run.gaps] == ["sns:ListSubscriptionsByTopic"]
        assert jobs.job().phase["by"] == "observing" and jobs.ever_launched() == []
        jobs.subscribe()
        jobs.tick()
        assert jobs.job().state == "running"
