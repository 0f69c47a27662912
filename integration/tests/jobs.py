"""An account whose teams submit jobs: what they drop into the inbox, what an agent leaves behind, and the real `run-jobs`.

jobs = JobAccount(aws)                          # in tests: the fixture `jobs`
jobs.submit("llama")                            # as a person does: an object of the inbox
run = jobs.tick()                               # a sweep; jobs.warn(instance) is the event of an interruption
job = jobs.job("llama")
assert job.state == "running" and jobs.machines() == [job.machine]

The agent's side is played by the test: `job.beats()`, `job.checkpoint(7)`, `job.ends(succeeded=True)`.
"""

from __future__ import annotations

import base64
import json
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from local_aws import LocalAws
from local_aws.client import ACCOUNT, REGION
from reaping import BUCKET, REPOSITORY, Account, Run, now, rfc3339
from reaping_budgets import budget_key, month

# The minute of each hour in which a run lists all jobs, to find those that nothing leads to (jobs/src/sweep.rs).
LISTS_AT_MINUTE = 7

AGENT = b"#!/bin/sh\nexit 0\n"  # the content of the agent does not matter here
PROFILE = "curfew-job"
ON_DEMAND = {"g5.xlarge": 1.006, "g5.2xlarge": 1.212}  # USD an hour of the table, us-east-1

EAGER: dict[str, Any] = {"mode": "enforce"}

SPEC = """
command = "python train.py"
owner = "ada@example.com"
[gpu]
types = ["g5.xlarge"]
[limits]
max_runtime = "8h"
[checkpoint]
"""

BOX_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9rY1X8yVqKq0f3l2nq5l3q5l3q5l3q5l3q5l3q5l3q ada"


def box_spec(more: str = "", owner: str = "ada@example.com") -> str:
    """A box on demand, with `more` keys of `[box]`."""
    return f"""
owner = "{owner}"
[gpu]
types = ["g5.xlarge"]
[spot]
enabled = false
[box]
public_key = "{BOX_KEY}"
{more}
"""


def not_while_all_is_listed() -> None:
    """Waits where a run lists all jobs besides, once an hour: it makes more calls, and finds what nothing else leads to."""
    lists = now().replace(minute=LISTS_AT_MINUTE, second=0, microsecond=0)
    if lists - timedelta(seconds=40) < now() < lists + timedelta(minutes=1):
        time.sleep((lists + timedelta(minutes=1) - now()).total_seconds())


def sample(name: str) -> dict[str, Any]:
    """An event as AWS sends it."""
    return json.loads((REPOSITORY / "events" / "run-jobs" / f"{name}.json").read_text())


@dataclass
class Job:
    """One job, as its documents say."""

    account: JobAccount
    id: str  # <team>/<job>

    @property
    def document(self) -> dict[str, Any]:
        return self.account.read(f"jobs/{self.id}/state.json")

    @property
    def phase(self) -> dict[str, Any]:
        """Its `state`, and what is known in that."""
        phase = self.document["phase"]
        return {"state": phase["state"], **phase.get("of", {})}

    @property
    def state(self) -> str:
        return self.phase["state"]

    @property
    def attempt(self) -> int:
        return self.document["attempt"]

    @property
    def machine(self) -> str:
        """The instance that it runs on."""
        return self._placed()["instance"]

    @property
    def machines(self) -> list[str]:
        """The instances of its nodes, by number."""
        return [self._placed()["instance"], *self._placed().get("members", [])]

    @property
    def launch(self) -> str:
        """Of a job on several machines: the folder of their documents."""
        return self._placed()["launch"]

    def _placed(self) -> dict[str, Any]:
        phase = self.phase
        return phase.get("machine", phase)

    @property
    def is_active(self) -> bool:
        return f"active/{self.id}" in self.account.keys("active/")

    def rewrite(self, **fields: Any) -> None:
        """Another state than it is, as if somebody had written it."""
        self.account.put(f"jobs/{self.id}/state.json", json.dumps({**self.document, **fields}).encode())

    # The agent's side

    def write(self, name: str, **fields: Any) -> None:
        self.account.put(f"attempts/{self.id}/{name}", json.dumps({"schema": 1, **fields}).encode())

    def beats(self, attempt: int | None = None, at: datetime | None = None, **fields: Any) -> None:
        """A heartbeat of its machine, now or at that moment by S3's clock."""
        attempt = attempt or self.attempt
        self.write(f"{attempt}/heartbeat.json", at=rfc3339(at or now()), attempt=attempt, doing="running", **fields)
        if at is not None:
            self.account.aws.set_object(BUCKET, f"attempts/{self.id}/{attempt}/heartbeat.json", at)

    def checkpoint(self, step: int, attempt: int | None = None, **fields: Any) -> None:
        attempt = attempt or self.attempt
        self.write("head.json", attempt=attempt, checkpoint={"attempt": attempt, "step": step}, **fields)

    def ends(self, succeeded: bool = True, code: int = 0, why: str = "", shuts_down: bool = True) -> None:
        """The command ended: the agent records that, and shuts its machine down."""
        attempt, machine = self.attempt, self.machine
        result = {"succeeded": succeeded, "code": code, "why": why, "at": rfc3339(now())}
        self.write("head.json", attempt=attempt, result=result)
        reason = "succeeded" if succeeded else "failed"
        self.write(f"{attempt}/exit.json", attempt=attempt, at=rfc3339(now()), reason=reason, code=code, why=why)
        if shuts_down:
            self.account.aws.shut_down(machine)

    def cancel(self, by: str = "ada") -> None:
        self.account.put(f"jobs/{self.id}/cancel.json", json.dumps({"schema": 1, "at": rfc3339(now()), "by": by}).encode())


class JobAccount(Account):
    function = "run-jobs"
    eager = EAGER

    def __init__(self, aws: LocalAws, heard: bool = True, profile: bool = True) -> None:
        super().__init__(aws, heard)
        self._package = tempfile.TemporaryDirectory()
        for architecture in ("x86_64", "arm64"):
            (Path(self._package.name) / f"agent-{architecture}").write_bytes(AGENT + architecture.encode())
        if profile:
            aws.client("iam").create_instance_profile(InstanceProfileName=PROFILE)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        # A process that serves another test has read its agents from here.
        self._package.cleanup()

    def environment(self, **over: str | None) -> dict[str, str]:
        return super().environment(**{"LAMBDA_TASK_ROOT": self._package.name, "CURFEW_JOB_PROFILE": PROFILE, **over})

    # What people do

    def submit(self, name: str = "llama", text: str = SPEC, team: str = "vision") -> str:
        """The key of the object."""
        key = f"inbox/{team}/{name}.toml"
        self.put(key, text.encode())
        return key

    def written_long_ago(self) -> None:
        """What lies in the inbox. An answer of the same second as what it answers is read, and written, again: S3's moments are whole
        seconds, and several runs of a test fit into one."""
        for key in self.keys("inbox/"):
            if key.endswith(".toml"):
                self.aws.set_object(BUCKET, key, now() - timedelta(minutes=1))

    def answer(self, key: str) -> dict[str, Any] | None:
        """The newest answer to an object of the inbox."""
        answers = []
        for ending in ("accepted", "rejected"):
            try:
                answers.append({**self.read(key.removesuffix(".toml") + f".{ending}.json"), "is": ending})
            except ClientError as error:
                assert error.response["Error"]["Code"] == "NoSuchKey"
        return max(answers, key=lambda answer: answer["at"], default=None)

    def running(self, name: str = "llama", text: str = SPEC, team: str = "vision") -> Job:
        """A job that was submitted, and launched."""
        self.submit(name, text, team)
        self.tick()
        job = self.job(name, team)
        assert job.state == "running", job.phase
        return job

    # Their budgets

    def write_budget(self, usd: float = 100, team: str | None = "vision", at: datetime | None = None, **over: Any) -> None:
        """What a beat of enforce-budgets would have written by then."""
        document = {"schema": 1, "month": month(at), "as_of": rfc3339(at or now()), "budget_usd": usd, "spent_usd": 0.0}
        document |= {"over_budget": "hold", "mode": "enforce", **({"team": team} if team else {}), **over}
        self.put(budget_key(team, at), json.dumps(document).encode())

    def reserved(self, team: str | None = "vision", at: datetime | None = None) -> dict[str, Any]:
        return self.read(budget_key(team, at)).get("reservations", {})

    # What there is

    def job(self, name: str = "llama", team: str = "vision") -> Job:
        """The one job of that name."""
        ids = {"/".join(key.split("/")[1:3]) for key in self.keys(f"jobs/{team}/{name}-")}
        assert len(ids) == 1, ids
        return Job(self, ids.pop())

    def machines(self, region: str = REGION, **filters: str) -> list[str]:
        """Instances that are not gone, the oldest first."""
        wanted = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
        wanted += [{"Name": f"tag:curfew:{key}", "Values": [value]} for key, value in filters.items()]
        pages = self.aws.client("ec2", region).describe_instances(Filters=wanted)["Reservations"]
        return [one["InstanceId"] for page in pages for one in page["Instances"]]

    def ever_launched(self, region: str = REGION) -> list[str]:
        pages = self.aws.client("ec2", region).describe_instances()["Reservations"]
        return [one["InstanceId"] for page in pages for one in page["Instances"]]

    def user_data(self, instance_id: str) -> str:
        asked = {"InstanceId": instance_id, "Attribute": "userData"}
        told = self.aws.client("ec2").describe_instance_attribute(**asked)["UserData"]["Value"]
        return base64.b64decode(told).decode()

    # What AWS tells

    def told_of(self, key: str, bucket: str = BUCKET, **how: Any) -> Run:
        """The run that an object wakes."""
        event = sample("s3-object-created-inbox")
        event["detail"]["bucket"]["name"], event["detail"]["object"]["key"] = bucket, key
        return self.tick(event, **how)

    def event_of(self, name: str, instance_id: str, region: str = REGION) -> dict[str, Any]:
        event = sample(name)
        event["region"], event["detail"]["instance-id"] = region, instance_id
        event["resources"] = [f"arn:aws:ec2:{region}:{ACCOUNT}:instance/{instance_id}"]
        return event

    def batch_of(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        """What Lambda hands over when the queue holds these events."""
        batch = sample("sqs-one-state-change")
        (record,) = batch["Records"]
        batch["Records"] = [{**record, "messageId": str(number), "body": json.dumps(event)} for number, event in enumerate(events)]
        return batch

    def warn(self, instance_id: str, **how: Any) -> Run:
        """The run that an interruption warning wakes."""
        return self.tick(self.event_of("ec2-spot-interruption-warning", instance_id), **how)
