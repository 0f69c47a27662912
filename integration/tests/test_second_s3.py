"""What rests on compare-and-swap, multipart uploads, signatures and real concurrency, on an S3 that moto's authors did not write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

import second_s3
from attempts import NAME, Job, head
from jobs import ON_DEMAND, SPEC, JobAccount
from local_aws import LocalAws
from reaping import BUCKET, binary, scheduled
from runtime_api import Function
from test_jobs_races import at_once

MIB = 1024 * 1024
RUNS = 6
NAMES = [f"job{number}" for number in range(10)]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if why := second_s3.missing():
        pytest.skip(why)
    with second_s3.running(tmp_path_factory.mktemp("seaweed")) as endpoint:
        yield endpoint


@pytest.fixture
def seaweed(aws: LocalAws, endpoint: str) -> Iterator[Any]:
    """A local AWS whose S3 is SeaweedFS, without a bucket."""
    beside = second_s3.BesideS3(aws, endpoint)
    yield beside
    assert aws.counts().keys().isdisjoint({"s3:GetObject", "s3:PutObject"}), "nothing of it went to moto"
    beside.client("s3").delete_bucket(Bucket=BUCKET)


@pytest.fixture
def jobs(seaweed: Any) -> Iterator[JobAccount]:
    with JobAccount(seaweed) as jobs:
        yield jobs


def all_at_once(jobs: JobAccount) -> None:
    """Ten jobs that are submitted, and six runs at once; and then one run after the other, until nothing is left over of the race."""
    for name in NAMES:
        jobs.submit(name, SPEC.replace("[checkpoint]", ""))
    at_once(jobs, *[scheduled("run-jobs")] * RUNS)
    for _ in range(3):
        # A process of its own: one that is warm has asked another S3.
        with Function(binary("run-jobs"), env=jobs.environment()) as function:
            assert function.invoke(scheduled("run-jobs")).error is None


def test_six_runs_at_once_launch_each_of_ten_jobs_once(jobs: JobAccount) -> None:
    all_at_once(jobs)
    all_jobs = [jobs.job(name) for name in NAMES]
    assert {job.state for job in all_jobs} == {"running"}
    assert sorted(jobs.ever_launched()) == sorted(job.machine for job in all_jobs)
    assert all(jobs.answer(f"inbox/vision/{name}.toml")["is"] == "accepted" for name in NAMES)


def test_ten_racing_jobs_never_reserve_a_budget_twice(jobs: JobAccount) -> None:
    """It carries three jobs of eight hours, and not four."""
    usd = 3.5 * 8 * ON_DEMAND["g5.xlarge"]
    jobs.configure(teams={"vision": {"monthly_budget_usd": usd, "over_budget": "hold"}}, account={"monthly_budget_usd": 1000})
    jobs.write_budget(usd)
    jobs.write_budget(1000, team=None)
    all_at_once(jobs)
    launched = [job for job in map(jobs.job, NAMES) if job.state == "running"]
    assert len(launched) == 3 == len(jobs.ever_launched())
    for team in ("vision", None):
        held = jobs.reserved(team)
        assert set(held) == {job.id for job in launched} and sum(one["usd"] for one in held.values()) <= usd


def test_a_signature_is_checked(jobs: JobAccount, endpoint: str) -> None:
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        second_s3.client(endpoint, "wrong").list_objects_v2(Bucket=BUCKET)
    wrong = {**jobs.environment(), "AWS_SECRET_ACCESS_KEY": "wrong"}
    with Function(binary("run-jobs"), env=wrong) as function:
        invocation = function.invoke(scheduled("run-jobs"))
    assert "SignatureDoesNotMatch" in json.dumps(invocation.error)


def test_a_large_file_goes_in_parts_and_comes_back(seaweed: Any, tmp_path: Path) -> None:
    job = Job(seaweed, tmp_path)
    job.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    first, second = (f"{job.checkpoints}/step-{step}" for step in (1, 2))
    writes = f"yes 0123456789abcde | head -c {20 * MIB + 17} > large; : > empty; sha256sum large > {job.scratch}/sum; touch .complete"
    job.spec(f"mkdir {first}; cd {first}; {writes}; while ! [ -e {job.trail} ]; do sleep 0.1; done; mkdir {second}; cd {second}; {writes}", keep=1)
    with job.machine(1) as machine:
        machine.until(lambda: job.kept() == 1)
        job.trail.touch()
        machine.ends()
    assert (job.kept(), job.exit(1)["reason"]) == (2, "succeeded"), machine.said()
    large = job.s3.head_object(Bucket=BUCKET, Key=f"checkpoints/{NAME}/1/2/files/step-2/large", ChecksumMode="ENABLED")
    assert large["ContentLength"] == 20 * MIB + 17 and large["ChecksumSHA256"].endswith("-2")
    there = job.s3.list_object_versions(Bucket=BUCKET, Prefix=f"checkpoints/{NAME}/")
    assert {version["Key"].split("/")[4] for version in there["Versions"]} == {"2"} and not there.get("DeleteMarkers")
    job.put(f"attempts/{NAME}/head.json", head(1, (1, 2)))
    job.spec(f"cd $CURFEW_RESUME_FROM && sha256sum -c {job.scratch}/sum && [ -f empty ]")
    with job.machine(2) as machine:
        machine.ends()
    assert job.head()["result"]["succeeded"] and "large: OK" in job.log(2), machine.said()


def test_one_of_two_machines_of_an_attempt_counts(seaweed: Any, tmp_path: Path) -> None:
    """Both swap `head.json` at once."""
    job = Job(seaweed, tmp_path)
    job.spec("sleep 600", checkpoint=False)
    with job.machine(1, launch="0a") as one, job.machine(1, launch="0b") as other:
        machines = {"0a": one, "0b": other}
        launch = one.until(lambda: job.head().get("launch"))
        machines.pop(launch).until(lambda: (job.heartbeat(1) or {}).get("doing") == "running")
        (fenced,) = machines.values()
        fenced.ends()
        assert "another machine of it has taken over" in fenced.said()
    assert job.head()["launch"] == launch
