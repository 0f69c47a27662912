"""What earlier runs of Curfew left in its log of notifications, where alone stands what was announced, seen and carried out
(docs/state-bucket.md, "The log of notifications"); for whoever seeds an account."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

RUN = "run-1"
# `[volumes] keep_snapshots`, where the configuration says nothing else.
KEPT = timedelta(days=30)


def rfc3339(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_of(function: str, region: str) -> str:
    return f"notices/{function}/{region}.json"


def log_of(records: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The document with a record for each resource."""
    return {"schema": 2, "resources": records}


def announced(mark: str, at: datetime | None = None) -> dict[str, Any]:
    """The announcements of a record that has this mark; made an hour before the deadline if not said otherwise."""
    rule, _, announcement = mark.partition("=")
    action, _, deadline = announcement.partition("@")
    at = at or datetime.fromisoformat(deadline) - timedelta(hours=1)
    return {rule: {"action": action, "mode": "enforce", "at": rfc3339(at), "deadline": deadline}}


def record_of_labels(since: datetime, tags: dict[str, str]) -> dict[str, Any]:
    """The record of a resource of that life whose labels Curfew wrote itself, and whose expiry it saw in time."""
    record: dict[str, Any] = {"since": rfc3339(since)}
    if mark := tags.get("curfew:marked"):
        record["announced"] = announced(mark)
    if stopped := tags.get("curfew:stopped"):
        rule, _, at = stopped.partition(" ")
        record["carried_out"] = {"rule": rule, "action": "stop", "at": at}
    if expires_at := tags.get("curfew:expires-at"):
        record["expiry_seen"] = expires_at
    return record


def snapshot_description(volume_id: str) -> str:
    """By which a snapshot is Curfew's, if the log knows that run."""
    return f"Curfew: {volume_id} before its deletion, by {RUN}"


def record_of_safety(volume_id: str, started: datetime, deleted_at: datetime | None = None) -> dict[str, Any]:
    """The record of a snapshot that Curfew made; its end is announced from the deletion of its volume on."""
    record: dict[str, Any] = {"since": rfc3339(started), "safety": {"volume": volume_id, "run": RUN}}
    if deleted_at:
        record["safety"]["deleted_at"] = rfc3339(deleted_at)
        record["announced"] = announced(f"expired=delete@{rfc3339(deleted_at + KEPT)}", deleted_at)
    return record
