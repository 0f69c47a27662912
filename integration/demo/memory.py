"""What earlier runs of Curfew wrote into its logs about this account: only they say what was announced, seen and carried out."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from local_aws import LocalAws

from .fleet import Machine, rfc3339

Records = dict[str, dict[str, Any]]

RUN = "run-1"
KEPT = timedelta(days=30)


def record_of_machine(machine: Machine, now: datetime) -> dict[str, Any]:
    """As if Curfew stopped it where its label says so, and saw its expiry in time."""
    record: dict[str, Any] = {"since": rfc3339(now - machine.launched)}
    if expiry := machine.tags.get("curfew:expires-at"):
        record["expiry_seen"] = expiry
    if stopped := machine.tags.get("curfew:stopped"):
        rule, _, at = stopped.partition(" ")
        record["carried_out"] = {"rule": rule, "action": "stop", "at": at}
    return record


def record_of_safety(volume: str, started: datetime, deleted_at: datetime) -> dict[str, Any]:
    """Of a snapshot that is kept since its volume was deleted."""
    until = {"at": rfc3339(deleted_at), "deadline": rfc3339(deleted_at + KEPT)}
    return {
        "since": rfc3339(started),
        "safety": {"volume": volume, "run": RUN, "deleted_at": rfc3339(deleted_at)},
        "announced": {"expired": {"action": "delete", "mode": "enforce", **until}},
    }


def remember(aws: LocalAws, bucket: str, function: str, region: str, records: Records) -> None:
    """Replaces fields of what the log of a function has about a region's resources."""
    log = _log(aws, bucket, function, region)
    for resource, record in records.items():
        log["resources"].setdefault(resource, {}).update(record)
    aws.client("s3").put_object(Bucket=bucket, Key=_key(function, region), Body=json.dumps(log).encode())


def recall(aws: LocalAws, bucket: str, function: str, region: str, resource: str) -> dict[str, Any]:
    """The record of a resource in the log of a function."""
    return _log(aws, bucket, function, region)["resources"][resource]


def _log(aws: LocalAws, bucket: str, function: str, region: str) -> dict[str, Any]:
    s3, key = aws.client("s3"), _key(function, region)
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents", [])
    return json.load(s3.get_object(Bucket=bucket, Key=key)["Body"]) if listed else {"schema": 2, "resources": {}}


def _key(function: str, region: str) -> str:
    return f"notices/{function}/{region}.json"
