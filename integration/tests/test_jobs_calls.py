"""What a run about jobs asks of AWS: how often, and which permissions that takes."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from jobs import SPEC, JobAccount
from reaping import BUCKET, Run, ago, now
from template_actions import OF_BOXES, OF_GANGS, called_actions
from template_iam import Request, may

pytestmark = pytest.mark.usefixtures("unlisted")


def test_a_sweep_without_jobs_takes_five_calls(jobs: JobAccount) -> None:
    run = jobs.tick()
    assert run.counts == {
        "s3:GetObject": 2,  # the configuration, and what is owed
        "s3:ListObjectsV2": 2,  # inbox and index
        "sns:ListSubscriptionsByTopic": 1,
    }


def test_a_running_job_takes_five_reads_a_minute_and_no_write(jobs: JobAccount) -> None:
    names = [f"job{number}" for number in range(3)]
    for name in names:
        jobs.submit(name)
    jobs.tick()
    for name in names:
        jobs.job(name).beats()
    jobs.written_long_ago()
    run = jobs.tick()
    assert run.counts == {
        "ec2:DescribeInstances": 1,
        "s3:GetObject": 2 + 5 * len(names),  # state, head, heartbeat, exit, cancel
        "s3:ListObjectsV2": 2,
        "sns:ListSubscriptionsByTopic": 1,
    }


# How often, to the call


def puts(run: Run) -> Counter[str]:
    """What was written, by the last word of its key."""
    keys = (call["resources"][0] for call in run.calls if call["action"] == "s3:PutObject")
    return Counter(key.partition("/")[2].partition("/")[0] if "/jobs/" not in key else key.rpartition("/")[2] for key in keys)


def test_from_a_document_to_a_machine(jobs: JobAccount) -> None:
    """Of the second job: what was asked about prices, and the agent, is there from the first."""
    jobs.running("first")
    run = jobs.told_of(jobs.submit("second"))
    assert jobs.job("second").state == "running"
    assert run.counts == {
        "s3:GetObject": 12,  # config, document, two answers, state, cancel, prices, memory; two budgets, read before they are written
        "s3:PutObject": 13,
        "s3:ListObjectsV2": 1,  # whether there is another team
        "sns:ListSubscriptionsByTopic": 1,
        "ec2:DescribeInstanceTypes": 1,
        "ec2:DescribeInstanceTypeOfferings": 1,
        "ec2:DescribeSubnets": 1,
        "ssm:GetParameter": 1,
        "ec2:DescribeImages": 1,
        "ec2:RunInstances": 1,
        "sns:Publish": 1,
    }
    # Submitted, reserving, launching, running, told; and each budget: reserved, and for which machine.
    assert puts(run) == {"spec.toml": 1, "state.json": 5, "active": 1, "inbox": 1, "budgets": 4, "plans": 1}


def test_another_pool_costs_one_write_and_one_launch(jobs: JobAccount) -> None:
    jobs.running("first")
    one = jobs.told_of(jobs.submit("second"))
    for zone, more in (("us-east-1a", 1), ("us-east-1b", 2)):
        jobs.aws.set_capacity(0, "g5.xlarge", zone=zone)
        run = jobs.told_of(jobs.submit(f"job{more}"))
        assert jobs.job(f"job{more}").state == "running"
        assert run.counts - one.counts == {"ec2:RunInstances": more, "s3:PutObject": more}


def test_from_a_warning_to_the_end_of_the_run(jobs: JobAccount) -> None:
    job = jobs.running()
    run = jobs.warn(job.machine)
    assert job.attempt == 2
    assert run.counts == {
        "s3:GetObject": 2 + 2 + 1,  # config and state, the budgets, memory
        "sns:ListSubscriptionsByTopic": 1,
        "ec2:DescribeInstances": 1,
        "ec2:RunInstances": 1,
        "s3:PutObject": 3 + 2 + 1,  # launching, running, told; the budgets; the audit record
        "sns:Publish": 1,
    }


def test_from_missing_heartbeats_to_another_machine(jobs: JobAccount) -> None:
    job = jobs.running()
    job.checkpoint(1)
    job.beats()
    jobs.written_long_ago()
    jobs.tick()  # how far it is, is written down
    quiet = jobs.tick()
    job.beats(at=ago(minutes=11))
    run = jobs.tick()
    assert job.attempt == 2
    assert run.counts - quiet.counts == {
        "ec2:DescribeInstances": 2,  # just before it is ended, and whether it is gone
        "ec2:TerminateInstances": 1,
        "ec2:RunInstances": 1,
        "s3:GetObject": 2 + 1,  # the budgets, and whether reap-instances ended it
        "s3:PutObject": 4 + 2 + 1,  # interrupted, launching, running, told; the budgets; the audit record
        "sns:Publish": 1,
    }


def test_a_whole_life_needs_these_permissions_and_no_others(jobs: JobAccount) -> None:
    needed: set[str] = set()
    calls: list[dict[str, Any]] = []

    def after(run: object) -> None:
        needed.update(jobs.aws.permissions())
        calls.extend(jobs.aws.calls())

    jobs.aws.set_spot_price("g5.xlarge", {"us-east-1a": 0.3}, since=ago(minutes=5))
    jobs.submit(text=SPEC)
    jobs.submit("wrong", "command = 1")
    jobs.aws.set_quota("L-DB2E81BA", 0.0, enforced=True)
    jobs.submit("over-quota", SPEC + "[spot]\nenabled = false\n")
    after(jobs.tick())
    job = jobs.job()
    after(jobs.warn(job.machine))
    job.checkpoint(3)
    job.beats(at=ago(minutes=11))
    after(jobs.tick())
    job.cancel()
    after(jobs.tick())
    after(jobs.tick_at(now() + timedelta(minutes=10)))
    after(jobs.tick_at(now() + timedelta(minutes=20)))
    assert job.phase["closed"] and not job.is_active
    assert needed == called_actions("run-jobs") - OF_BOXES - OF_GANGS
    refused = [request for call in calls for request in asked_for(call) if not may("run-jobs", request)]
    assert refused == [], "template.yaml grants less than this"


def asked_for(call: dict[str, Any]) -> list[Request]:
    """What a call asks of IAM, as far as a recorded call says on what: objects and listings."""
    requests = []
    for permission in call["permissions"]:
        for resource in call["resources"]:
            _, _, key = resource.partition("/")
            if permission == "s3:ListBucket":
                requests.append(Request(permission, "StateBucket.Arn", context={"s3:prefix": key}))
            elif permission.startswith("s3:"):
                assert resource == f"{BUCKET}/{key}"
                requests.append(Request(permission, f"StateBucket.Arn/{key}"))
    assert requests or not any(one.startswith("s3:") for one in call["permissions"]), call
    return requests
