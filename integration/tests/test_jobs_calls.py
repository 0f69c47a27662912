"""What a run about jobs asks of AWS: how often, and which permissions that takes."""

from __future__ import annotations

from datetime import timedelta

from jobs import SPEC, JobAccount
from reaping import ago, now

# What the function's role needs, all of a job's life together.
PERMISSIONS = {
    "ec2:CreateTags",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
    "ec2:RunInstances",
    "ec2:TerminateInstances",
    "iam:PassRole",
    "pricing:GetProducts",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:PutObject",
    "sns:ListSubscriptionsByTopic",
    "sns:Publish",
    "ssm:GetParameter",
}


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
    jobs.tick()  # answers of the same second as what they answer are written again, once
    run = jobs.tick()
    assert run.counts == {
        "ec2:DescribeInstances": 1,
        "s3:GetObject": 2 + 5 * len(names),  # state, head, heartbeat, exit, cancel
        "s3:ListObjectsV2": 2,
        "sns:ListSubscriptionsByTopic": 1,
    }


def test_a_warning_costs_one_more_read_than_the_launch(jobs: JobAccount) -> None:
    """Whatever comes after the accepted launch: the state, the budgets, the message, and that it was told."""
    job = jobs.running()
    job.beats()
    run = jobs.warn(job.machine)
    actions = [call["action"] for call in run.calls]
    after = actions[actions.index("ec2:RunInstances") + 1 :]
    assert set(after) == {"s3:GetObject", "s3:PutObject", "sns:Publish"} and len(after) <= 10, after


def test_a_job_that_waits_asks_nothing_of_ec2(jobs: JobAccount) -> None:
    jobs.aws.set_capacity(0, "g5.xlarge")
    jobs.submit()
    jobs.tick()
    run = jobs.tick()
    assert not [action for action in run.counts if action.startswith("ec2:")]


def test_a_whole_life_needs_these_permissions_and_no_others(jobs: JobAccount) -> None:
    needed: set[str] = set()

    def after(run: object) -> None:
        needed.update(jobs.aws.permissions())

    jobs.aws.set_spot_price("g5.xlarge", {"us-east-1a": 0.3}, since=ago(minutes=5))
    jobs.submit(text=SPEC)
    jobs.submit("wrong", "command = 1")
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
    assert needed == PERMISSIONS
