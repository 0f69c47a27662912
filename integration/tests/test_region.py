"""The state bucket's region is cut off: a second stack takes over from the copy, and the first, back again, finds that it was replaced.

The local AWS does not replicate: a test copies what replication had carried. Both stacks are the real binaries, each with its own bucket, region
and environment, in one account.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from earlier_runs import rfc3339
from local_aws.client import REGION
from moved_clock import IS_HERE
from reaping import BUCKET, EUROPE, SUBSCRIBER, Account, Run, now

COPY = "curfew-copy"
HOME = "home.json"
DELAY = timedelta(minutes=20)  # TAKEOVER_DELAY in shared/model/src/home.rs
FIRST = {"CURFEW_REPLICA_BUCKET": COPY, "CURFEW_REPLICA_REGION": EUROPE}
FUNCTIONS = ("reap-instances", "reap-volumes", "reap-sagemaker", "enforce-budgets", "send-report", "run-jobs")

pytestmark = pytest.mark.skipif(not IS_HERE, reason="the clock of a process is moved on Linux")


class Stacks:
    """The first stack, in REGION, and the one that is restored in EUROPE."""

    def __init__(self, account: Account) -> None:
        self.account, self.aws = account, account.aws
        self.aws.client("s3", EUROPE).create_bucket(Bucket=COPY, CreateBucketConfiguration={"LocationConstraint": EUROPE})
        topic = self.aws.client("sns", EUROPE).create_topic(Name="restored")["TopicArn"]
        self.aws.client("sns", EUROPE).subscribe(TopicArn=topic, Protocol="email", Endpoint=SUBSCRIBER)
        self.aws.confirm_subscription(SUBSCRIBER)
        self.restored = {"AWS_REGION": EUROPE, "AWS_DEFAULT_REGION": EUROPE, "CURFEW_BUCKET": COPY, "CURFEW_TOPIC_ARN": topic, "CURFEW_RESTORED": "yes"}

    def run(self, environment: dict[str, str], at: datetime, function: str = "reap-instances") -> Run:
        self.account.function = function
        self.account.restart(**environment)
        before = Counter(one["topic"] for one in self.aws.messages())
        run = self.account.tick_at(at)
        # Each topic has its own, one after the other.
        new = [one for one in self.aws.messages() if (before.subtract([one["topic"]]) or before[one["topic"]]) < 0]
        return replace(run, messages=new)

    def first(self, at: datetime, function: str = "reap-instances") -> Run:
        return self.run(FIRST, at, function)

    def second(self, at: datetime) -> Run:
        return self.run(self.restored, at)

    def replicate(self) -> None:
        """Carries every object of the first bucket over, as it is now."""
        for key in self.account.keys():
            self.aws.client("s3", EUROPE).put_object(Bucket=COPY, Key=key, Body=self.aws.object(BUCKET, key))

    def record(self, bucket: str) -> dict[str, Any]:
        return json.loads(self.aws.object(bucket, HOME) or b"null")

    def write_record(self, bucket: str, body: bytes) -> None:
        self.aws.client("s3", EUROPE if bucket == COPY else REGION).put_object(Bucket=bucket, Key=HOME, Body=body)

    def put_takeover(self, at: datetime) -> None:
        before = {"bucket": BUCKET, "region": REGION}
        self.write_record(COPY, json.dumps({"schema": 1, "term": 2, "bucket": COPY, "region": EUROPE, "since": rfc3339(at), "before": before}).encode())

    def cut_off(self) -> None:
        """S3 of the first region answers nobody."""
        self.aws.fault("s3:*", "reset", region=REGION, times=None)


def puts(run: Run) -> list[str]:
    return [key for call in run.calls if call["action"] in ("s3:PutObject", "s3:DeleteObject") for key in call["resources"]]


def is_replaced(run: Run) -> bool:
    """It says so, changes nothing in EC2, and writes into no bucket but its own log of messages."""
    assert run.ec2_writes == [] and all(COPY not in key and "/notices/" in key for key in puts(run)), run.calls
    return "has taken over" in run.response.get("replaced", "")


@pytest.fixture
def stacks(account: Account) -> Stacks:
    account.configure(untagged={"grace": "1h"})
    return Stacks(account)


def test_a_second_stack_takes_over_and_the_first_only_observes(stacks: Stacks) -> None:
    account, start = stacks.account, now().replace(microsecond=0)
    announced = account.untagged(launched=start - timedelta(hours=5))
    run = stacks.first(start)
    assert run.said(announced)[0] == "mark" and run.said(announced)[2] == "done" and run.gaps == []
    own = {"schema": 1, "term": 1, "bucket": BUCKET, "region": REGION}
    assert stacks.record(BUCKET) == {**own, "since": stacks.record(BUCKET)["since"]}
    stacks.replicate()
    # What is newer than the copy: an instance, and its announcement.
    newer = account.untagged(launched=start - timedelta(hours=5))
    run = stacks.first(start + timedelta(minutes=1))
    assert run.said(newer)[2] == "done" and account.mark(newer)
    stacks.cut_off()

    # It takes over, says that the first stack does not know yet, and waits for that one's last run.
    taken = start + timedelta(minutes=5)
    run = stacks.second(taken)
    assert run.ec2_writes == []
    record = stacks.record(COPY)
    assert (record["term"], record["bucket"], record["before"]) == (2, COPY, {"bucket": BUCKET, "region": REGION})
    [gap] = [one for one in run.gaps if one["call"] == "s3:GetObject" and "acts from" in one["error"]]
    assert "acts from" in gap["error"]
    run = stacks.second(taken + DELAY - timedelta(minutes=1))
    assert run.ec2_writes == []

    # The announcement of the copy is known, and the newer one is made anew, with the whole grace.
    acts = taken + DELAY + timedelta(minutes=1)
    run = stacks.second(acts)
    assert run.said(newer)[0] == "mark" and run.said(newer)[2] == "done"
    assert all(write[0] != "StopInstances" for write in run.ec2_writes)
    assert any("could not be told" in gap["error"] for gap in run.gaps), run.gaps
    run = stacks.second(start + timedelta(minutes=62))
    assert run.said(announced)[0] == "stop" and run.said(announced)[2] == "done"
    assert [write for write in run.ec2_writes if write[0] == "StopInstances"] == [("StopInstances", announced)]

    # The first region is back. Both stacks have a deadline that has passed; one acts.
    stacks.aws.clear_faults()
    late = acts + timedelta(minutes=62)
    run = stacks.first(late)
    assert is_replaced(run) and [one for one in run.messages if "has taken over" in one["message"]]
    run = stacks.second(late + timedelta(minutes=1))
    assert ("StopInstances", newer) in run.ec2_writes and not any("could not be told" in gap["error"] for gap in run.gaps)
    assert stacks.record(BUCKET) == stacks.record(COPY) == record
    run = stacks.first(late + timedelta(minutes=2))
    assert is_replaced(run) and run.messages == [], "once a day"
    # It knows by its own record, whatever becomes of the copy's.
    stacks.aws.fault("s3:*", "reset", region=EUROPE, times=None)
    assert is_replaced(stacks.first(late + timedelta(minutes=3)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_function_of_a_replaced_stack_does_anything(stacks: Stacks, function: str) -> None:
    stacks.put_takeover(now() - timedelta(hours=1))
    account = stacks.account
    instance = account.untagged()
    assert account.remember(instance) is None
    run = stacks.first(now(), function)
    assert is_replaced(run)
    assert function == "reap-instances" or (puts(run) == [] and run.messages == [])
    assert stacks.record(COPY)["term"] == 2


ABSURD = {
    "huge": b"{" + b" " * 100_000,
    "no object": b"[]",
    "wrong types": b'{"schema": 1, "term": "two", "bucket": 7, "region": null, "since": "never"}',
    "a term beyond all": b'{"schema": 1, "term": 18446744073709551615, "bucket": "curfew-state", "region": "us-east-1", "since": "2026-11-01T00:00:00Z"}',
    "no bucket": b'{"schema": 1, "term": 2, "bucket": "../x", "region": "us-east-1", "since": "2026-11-01T00:00:00Z"}',
    "no region": b'{"schema": 1, "term": 2, "bucket": "curfew-copy", "region": "evil.example/", "since": "2026-11-01T00:00:00Z"}',
}


@pytest.mark.parametrize("bucket", [BUCKET, COPY])
@pytest.mark.parametrize("body", ABSURD.values(), ids=ABSURD)
def test_an_absurd_record_never_acts_and_is_said(stacks: Stacks, bucket: str, body: bytes) -> None:
    stacks.write_record(bucket, body)
    stacks.account.configure(untagged={"grace": "0s"})
    stacks.account.was_announced(stacks.account.untagged(), f"untagged=stop@{rfc3339(now() - timedelta(hours=1))}")
    run = stacks.first(now())
    assert run.ec2_writes == []
    [gap] = [one for one in run.gaps if HOME in one["error"]]
    assert f"s3://{bucket}/{HOME}" in gap["error"] and "only observes" in gap["error"]
    assert [one for one in run.messages if "only observes" in one["message"]]
    assert stacks.aws.object(bucket, HOME) == body, "it stays, for people to see"


def test_a_stack_that_cannot_read_the_copy_only_observes_in_that_run(stacks: Stacks) -> None:
    account, start = stacks.account, now().replace(microsecond=0)
    instance = account.untagged()
    assert stacks.first(start).said(instance)[2] == "done"
    stacks.aws.fault("s3:*", "access_denied", region=EUROPE, times=None)
    run = stacks.first(start + timedelta(minutes=65))
    assert run.ec2_writes == [] and run.said(instance)[2] != "done"
    # Nothing was called off meanwhile.
    stacks.aws.clear_faults()
    run = stacks.first(start + timedelta(minutes=66))
    assert run.said(instance)[0] == "stop" and run.said(instance)[2] == "done"


def test_without_a_copy_nobody_asks_which_stack_acts(account: Account) -> None:
    run = account.tick()
    assert not any(HOME in str(call["resources"]) for call in run.calls) and HOME not in account.keys()
