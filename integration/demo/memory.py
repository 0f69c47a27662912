"""The logs of earlier runs about the demo's account."""

from __future__ import annotations

import json
from typing import Any

from earlier_runs import key_of, log_of
from local_aws import LocalAws


def remember(aws: LocalAws, bucket: str, function: str, region: str, records: dict[str, dict[str, Any]]) -> None:
    """Replaces fields of what the log of a function has about a region's resources."""
    log = _log(aws, bucket, function, region)
    for resource, record in records.items():
        log["resources"].setdefault(resource, {}).update(record)
    aws.client("s3").put_object(Bucket=bucket, Key=key_of(function, region), Body=json.dumps(log).encode())


def recall(aws: LocalAws, bucket: str, function: str, region: str, resource: str) -> dict[str, Any]:
    """The record of a resource in the log of a function."""
    return _log(aws, bucket, function, region)["resources"][resource]


def _log(aws: LocalAws, bucket: str, function: str, region: str) -> dict[str, Any]:
    s3, key = aws.client("s3"), key_of(function, region)
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents", [])
    return json.load(s3.get_object(Bucket=bucket, Key=key)["Body"]) if listed else log_of({})
