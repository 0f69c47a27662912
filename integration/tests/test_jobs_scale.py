"""Many jobs at once: what they have in common is asked for once, and all are launched, or wait and say so, within a few sweeps.

`JOBS=500 pytest integration/tests/test_jobs_scale.py -k at_once -s` prints what each sweep took (docs/measurements.md).
"""

from __future__ import annotations

import os
from collections import Counter

from jobs import SPEC, JobAccount

JOBS = int(os.environ.get("JOBS", "12"))
RANKINGS_MAX = 120  # of one sweep, as in shared/execution/src/jobs/work.rs
# What a ranking takes of AWS, for however many jobs that want the same.
ONCE = {
    "ec2:DescribeInstanceTypes": 1,
    "ec2:DescribeInstanceTypeOfferings": 1,
    "ec2:DescribeSubnets": 1,
    "ssm:GetParameter": 1,
    "ec2:DescribeImages": 1,
}


def states(jobs: JobAccount, count: int) -> Counter[str]:
    return Counter(jobs.job(f"job{number:03}").state for number in range(count))


def submit(jobs: JobAccount, count: int) -> None:
    for number in range(count):
        jobs.submit(f"job{number:03}")
    jobs.written_long_ago()


def test_jobs_at_once_are_launched_within_few_sweeps_and_ask_once(jobs: JobAccount) -> None:
    submit(jobs, JOBS)
    sweeps = -(-JOBS // RANKINGS_MAX)
    for sweep in range(1, sweeps + 1):
        run = jobs.tick(patience_s=300)
        print(f"sweep {sweep}: {run.invocation.seconds:.1f} s, {sum(run.counts.values())} calls, {run.counts['ec2:RunInstances']} launches")
        assert run.gaps == [] and {action: run.counts[action] for action in ONCE} == ONCE
        assert run.counts["ec2:RunInstances"] == min(RANKINGS_MAX, JOBS - (sweep - 1) * RANKINGS_MAX)
        if sweep == 1:
            assert (run.counts["pricing:GetProducts"], run.counts["ec2:DescribeSpotPriceHistory"]) == (1, 1)
            prices = [call for call in run.calls if call["resources"] and call["resources"][0].endswith("prices/current.json")]
            assert [call["action"] for call in prices] == ["s3:GetObject", "s3:PutObject"]
    all_jobs = [jobs.job(f"job{number:03}") for number in range(JOBS)]
    assert Counter(job.state for job in all_jobs) == {"running": JOBS} and len({job.machine for job in all_jobs}) == JOBS


def test_each_kind_of_job_asks_for_what_is_its_own(jobs: JobAccount) -> None:
    jobs.aws.set_listed_price("g5.2xlarge", usd="1.212")
    for number in range(4):
        types = ("g5.xlarge", "g5.2xlarge")[number % 2]
        jobs.submit(f"job{number:03}", SPEC.replace("g5.xlarge", types))
    run = jobs.tick()
    assert states(jobs, 4) == {"running": 4}
    twice = {"ec2:DescribeInstanceTypes": 2, "ec2:DescribeInstanceTypeOfferings": 2}
    assert {action: run.counts[action] for action in ONCE} == ONCE | twice
    assert run.counts["pricing:GetProducts"] == 2


def test_what_the_price_list_does_not_say_is_asked_once_a_run(jobs: JobAccount) -> None:
    jobs.aws.fault("pricing:GetProducts", "access_denied", times=None)
    submit(jobs, 4)
    run = jobs.tick()
    assert states(jobs, 4) == {"running": 4}, "the table knows the price"
    assert run.counts["pricing:GetProducts"] == 1 and len(run.gaps) == 1
