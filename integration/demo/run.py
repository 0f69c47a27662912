"""One run of a real reaper, and everything that it left behind."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_aws.client import CREDENTIALS
from runtime_api import Function

from .seed import BUCKET, Account

REPOSITORY = Path(__file__).resolve().parents[2]
BINARIES = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "debug"
INSTANCES, VOLUMES, BUDGETS, JOBS = "reap-instances", "reap-volumes", "enforce-budgets", "run-jobs"


class Broken(Exception):
    """The demo cannot go on, or not as in its story."""


def expect(what: str, promised: Any, found: Any) -> None:
    """`make demo` is an acceptance test as well."""
    if found != promised:
        raise Broken(f"not as in the story: {what} was to be {promised}, and is {found}")


@dataclass(frozen=True)
class Run:
    """What one event led to."""

    response: dict[str, Any]
    audit_key: str  # empty where there is no record: run-jobs leaves none where nothing was done
    audit_text: str  # as it lies in the bucket
    record: dict[str, Any]
    messages: list[dict[str, Any]]
    calls: Counter
    asked: list[dict[str, Any]]  # the same calls, in order
    metrics_asked: int
    seconds: float
    documents: dict[str, Any]  # of this month's budgets, by team; the account's is under (account)

    @property
    def done(self) -> list[dict[str, Any]]:
        """The steps that were."""
        return [step for step in self.response["steps"] if step["outcome"] == "done"]

    @property
    def heard(self) -> set[str]:
        """Which teams."""
        return {message["attributes"]["team"] for message in self.messages}

    @property
    def written(self) -> set[str]:
        """The calls of EC2 that change something."""
        return {action for action in self.calls if action.startswith("ec2:") and "Describe" not in action}


class Reaper:
    """The binary under the Runtime API, in one mode; a run that is woken by no event in particular gets the next sample."""

    def __init__(self, account: Account, function: Function) -> None:
        self._account = account
        self._function = function
        self._samples = sorted((REPOSITORY / "events" / function.name).glob("*.json"))
        self._events = 0

    def run(self, event: dict[str, Any] | None = None) -> Run:
        aws = self._account.aws
        told_before = len(aws.messages())
        audited_before = set(_audit_keys(self._account))
        aws.clear_calls()
        if event is None:
            event = json.loads(self._samples[self._events % len(self._samples)].read_bytes())
            self._events += 1
        try:
            invocation = self._function.invoke(event)
        except TimeoutError as error:
            raise Broken(str(error)) from None
        # Concurrent calls of agents do not count as calls of the function.
        calls = [call for call in aws.calls() if call["access_key"] == CREDENTIALS["AWS_ACCESS_KEY_ID"]]
        if invocation.error is not None:
            raise Broken(f"the run failed: {invocation.error}\n{invocation.logs}")
        new_keys = sorted(set(_audit_keys(self._account)) - audited_before)
        may_be_none = self._function.name == JOBS and not invocation.response["steps"]
        if len(new_keys) != 1 and not (may_be_none and not new_keys):
            raise Broken(f"a run leaves one audit record; this one left {new_keys}")
        key = new_keys[0] if new_keys else ""
        body = aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read().decode() if key else ""
        return Run(
            response=invocation.response,
            audit_key=key,
            audit_text=body,
            record=json.loads(body) if body else {},
            messages=sorted(aws.messages()[told_before:], key=lambda one: one["attributes"]["team"]),
            calls=Counter(call["action"] for call in calls),
            asked=calls,
            metrics_asked=sum(call["metrics_asked"] or 0 for call in calls),
            seconds=invocation.seconds,
            documents=_budgets(self._account),
        )


def environment(account: Account, mode: str, **more: str) -> dict[str, str]:
    """What a function gets from the template, and more."""
    return {
        **account.aws.environment(),
        "CURFEW_BUCKET": BUCKET,
        "CURFEW_TOPIC_ARN": account.topic_arn,
        "CURFEW_MODE": mode,
        **more,
    }


@contextmanager
def reapers(account: Account, mode: str) -> Iterator[tuple[Reaper, Reaper]]:
    """Of the instances, and of the volumes."""
    with reaper(account, mode, INSTANCES) as instances, reaper(account, mode, VOLUMES) as volumes:
        yield instances, volumes


@contextmanager
def reaper(account: Account, mode: str, name: str, **more: str) -> Iterator[Reaper]:
    """One of them, or another function; with more in its environment."""
    binary = BINARIES / name
    if not binary.exists():
        raise Broken(f"{binary} is not built: run `make demo`, or `cargo build --package {name}`")
    with Function(binary, environment(account, mode, **more)) as function:
        try:
            function.wait_until_ready()
        except AssertionError as error:
            raise Broken(str(error)) from None
        yield Reaper(account, function)


def _audit_keys(account: Account) -> list[str]:
    return _keys(account, "plans/")


def _budgets(account: Account) -> dict[str, Any]:
    """The demo is over before a month is, but for once a month."""
    documents = {}
    for key in _keys(account, "budgets/"):
        document = json.load(account.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"])
        documents[document.get("team", "(account)")] = document
    return documents


def _keys(account: Account, prefix: str) -> list[str]:
    listed = account.aws.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [one["Key"] for one in listed.get("Contents", [])]
