"""The index of unfinished jobs can be lost: it is made anew from the jobs themselves."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

import moved_clock
import pytest

from jobs import LISTS_AT_MINUTE, Job, JobAccount
from reaping import BUCKET, now

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")


def forget(job: Job) -> None:
    """Nothing leads to it any more: neither the index, nor an answer of this second that is looked at again."""
    for key in (f"active/{job.id}", *job.account.keys("inbox/")):
        job.account.aws.client("s3").delete_object(Bucket=BUCKET, Key=key)


def swept_at(job: Job) -> datetime:
    """The next time at which a run looks for it: one minute of a day."""
    hour = hashlib.sha256(job.id.encode()).digest()[0] % 24
    at = now().replace(hour=hour, minute=LISTS_AT_MINUTE, second=20, microsecond=0)
    return at if at > now() + timedelta(minutes=5) else at + timedelta(days=1)


def test_an_unfinished_job_that_is_missing_is_found_within_a_day(jobs: JobAccount) -> None:
    jobs.aws.set_capacity(0, "g5.xlarge")
    jobs.submit()
    jobs.tick()
    job = jobs.job()
    forget(job)
    at = swept_at(job)
    for other in (at - timedelta(minutes=1), at + timedelta(hours=1)):
        assert jobs.tick_at(other).response["seen"] == 0 and not job.is_active
    jobs.aws.set_capacity(9, "g5.xlarge")
    run = jobs.tick_at(at)
    assert run.response["seen"] == 1 and run.gaps == [] and job.is_active
    assert job.state == "running", "and it continues in that very run"
