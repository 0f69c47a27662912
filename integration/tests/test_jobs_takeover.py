"""Jobs of a stack that was restored from a copy of its bucket: the states are older than what runs."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from typing import Any

from jobs import Job, JobAccount
from reaping import BUCKET, ago, now, rfc3339

COPY = {"CURFEW_RESTORED": "yes"}


def take_over(jobs: JobAccount, since: datetime) -> None:
    """The bucket was a copy, and its stack has acted since then."""
    before = {"bucket": "curfew-first", "region": "eu-central-1"}
    record = {"schema": 1, "term": 2, "bucket": BUCKET, "region": "us-east-1", "since": rfc3339(since), "before": before}
    jobs.put("home.json", json.dumps(record).encode())
    jobs.restart(**COPY)


def accepted(jobs: JobAccount, name: str = "llama") -> tuple[Job, dict[str, Any]]:
    """A job that runs, and its state before it was launched."""
    job = jobs.running(name)
    fields = {"phase": {"state": "submitted"}, "attempt": 0, "machines": 0, "reserved": None, "ranking": None}
    older = {key: value for key, value in job.document.items() if key not in ("last_machine", "passes")}
    return job, older | fields


def described(run: Any) -> set[str]:
    """The regions whose instances it asked about."""
    return {call["region"] for call in run.calls if call["action"] == "ec2:DescribeInstances"}


def test_a_machine_that_is_newer_than_the_copy_becomes_the_jobs(jobs: JobAccount) -> None:
    job, older = accepted(jobs)
    machine, launched = job.machine, job.phase
    job.rewrite(**older)
    # A stack acts 20 minutes after it has taken over; until then the one before may have launched a machine.
    take_over(jobs, ago(minutes=20))
    run = jobs.tick()
    assert job.state == "running" and job.machine == machine and job.attempt == 1 and jobs.machines() == [machine]
    found = job.phase
    assert {key: found[key] for key in ("zone", "type", "rate_max", "launched_at")} == {key: launched[key] for key in ("zone", "type", "rate_max", "launched_at")}
    assert abs(datetime.fromisoformat(found["ends_at"]) - datetime.fromisoformat(launched["ends_at"])) < timedelta(minutes=1)
    assert job.document["settled_term"] == 2
    assert described(run) == {"eu-central-1", "us-east-1"}, "and in the region of the stack before"
    # It is searched once.
    assert described(jobs.tick()) == {"us-east-1"}
    job.ends()
    jobs.tick()
    assert job.state == "ended" and jobs.ever_launched() == [machine]


def test_an_instance_that_only_claims_to_be_its_machine_delays_a_job_for_an_hour(jobs: JobAccount) -> None:
    job, older = accepted(jobs)
    machine = job.machine
    job.rewrite(**older | {"attempt": 3})
    jobs.aws.shut_down(machine)
    tags = {"curfew:job": job.id, "curfew:attempt": "4", "curfew:expires-at": rfc3339(now() + timedelta(days=9))}
    stranger = jobs.aws.run_instance("g5.xlarge", tags, launch_time=ago(hours=1))
    take_over(jobs, ago(minutes=30))
    run = jobs.tick()
    assert job.state == "submitted" and jobs.machines() == [stranger]
    gaps = [gap["error"] for gap in run.response["gaps"]]
    assert any(stranger in gap and job.id in gap and "nothing is launched for that job" in gap for gap in gaps), gaps
    take_over(jobs, ago(minutes=61))
    jobs.tick()
    assert job.state == "running" and job.machine != stranger
    assert jobs.machines() == [stranger, job.machine], "and it is left alone"


def test_a_silent_machine_is_kept_while_it_may_move(jobs: JobAccount) -> None:
    job = jobs.running()
    machine, phase = job.machine, job.document["phase"]
    job.rewrite(phase={**phase, "of": {**phase["of"], "launched_at": rfc3339(ago(hours=2))}})
    job.beats(at=ago(minutes=45))
    take_over(jobs, ago(minutes=25))
    jobs.tick()
    assert job.state == "running" and jobs.machines() == [machine]
    take_over(jobs, ago(minutes=31))
    jobs.tick()
    assert machine not in jobs.machines() and job.document["attempt"] == 2, "and then it is replaced"


def identity(jobs: JobAccount, instance: str) -> dict[str, Any]:
    """What the machine is told of itself."""
    _, block = jobs.user_data(instance).split("<<'CURFEW_IDENTITY'", 1)
    _, block = block.split("\n", 1)
    return json.loads(base64.b64decode(block.split("CURFEW_IDENTITY", 1)[0]))


def test_a_machine_is_told_of_the_copy_and_of_nothing_without_one(jobs: JobAccount) -> None:
    alone = identity(jobs, jobs.running("alone").machine)
    assert not {"replica", "is_restored"} & set(alone)
    copy = {"bucket": "curfew-copy", "region": "eu-central-1"}
    there = {"LocationConstraint": copy["region"]}
    jobs.aws.client("s3", copy["region"]).create_bucket(Bucket=copy["bucket"], CreateBucketConfiguration=there)
    jobs.restart(CURFEW_REPLICA_BUCKET=copy["bucket"], CURFEW_REPLICA_REGION=copy["region"])
    told = identity(jobs, jobs.running("copied").machine)
    assert told["replica"] == copy and "is_restored" not in told
    take_over(jobs, ago(minutes=90))
    assert identity(jobs, jobs.running("restored").machine)["is_restored"] is True
