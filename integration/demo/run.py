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

from runtime_api import Function

from .seed import BUCKET, Account

REPOSITORY = Path(__file__).resolve().parents[2]
BINARIES = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "debug"
INSTANCES, VOLUMES, BUDGETS = "reap-instances", "reap-volumes", "enforce-budgets"


class Broken(Exception):
    """The demo cannot go on."""


@dataclass(frozen=True)
class Run:
    """What one event led to."""

    response: dict[str, Any]
    audit_key: str
    audit_text: str  # as it lies in the bucket
    record: dict[str, Any]
    messages: list[dict[str, Any]]
    calls: Counter
    metrics_asked: int
    seconds: float
    documents: dict[str, Any]  # of this month's budgets, by team; the account's is under (account)


class Reaper:
    """The binary under the Runtime API, in one mode; each run gets the next sample event."""

    def __init__(self, account: Account, function: Function) -> None:
        self._account = account
        self._function = function
        self._samples = sorted((REPOSITORY / "events" / function.name).glob("*.json"))
        self._events = 0

    def run(self) -> Run:
        aws = self._account.aws
        told_before = len(aws.messages())
        audited_before = set(_audit_keys(self._account))
        aws.clear_calls()
        event = self._samples[self._events % len(self._samples)].read_bytes()
        self._events += 1
        try:
            invocation = self._function.invoke(event)
        except TimeoutError as error:
            raise Broken(str(error)) from None
        calls = aws.calls()
        if invocation.error is not None:
            raise Broken(f"the run failed: {invocation.error}\n{invocation.logs}")
        new_keys = sorted(set(_audit_keys(self._account)) - audited_before)
        if len(new_keys) != 1:
            raise Broken(f"a run leaves one audit record; this one left {new_keys}")
        body = aws.client("s3").get_object(Bucket=BUCKET, Key=new_keys[0])["Body"].read().decode()
        return Run(
            response=invocation.response,
            audit_key=new_keys[0],
            audit_text=body,
            record=json.loads(body),
            messages=sorted(aws.messages()[told_before:], key=lambda one: one["attributes"]["team"]),
            calls=Counter(call["action"] for call in calls),
            metrics_asked=sum(call["metrics_asked"] or 0 for call in calls),
            seconds=invocation.seconds,
            documents=_budgets(self._account),
        )


@contextmanager
def reapers(account: Account, mode: str) -> Iterator[tuple[Reaper, Reaper]]:
    """Of the instances, and of the volumes."""
    with reaper(account, mode, INSTANCES) as instances, reaper(account, mode, VOLUMES) as volumes:
        yield instances, volumes


@contextmanager
def reaper(account: Account, mode: str, name: str) -> Iterator[Reaper]:
    """One of them, or enforce-budgets."""
    binary = BINARIES / name
    if not binary.exists():
        raise Broken(f"{binary} is not built: run `make demo`, or `cargo build --package {name}`")
    env = {
        **account.aws.environment(),
        "CURFEW_BUCKET": BUCKET,
        "CURFEW_TOPIC_ARN": account.topic_arn,
        "CURFEW_MODE": mode,
    }
    with Function(binary, env) as function:
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
