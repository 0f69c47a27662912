"""The ledger of every AWS call that was made, in order: what tests count, and compare with what IAM grants."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from .aws_call import AwsCall
from .http_message import Request


@dataclass
class RecordedCall:
    action: str  # service and SDK operation: `s3:ListObjectsV2`
    permissions: tuple[str, ...]  # IAM's names: `s3:ListBucket`
    region: str
    at: float  # seconds since the epoch, when it arrived
    resources: tuple[str, ...]
    metrics_asked: int
    invocation: str | None = None  # the same for each attempt of the SDK at one call
    access_key: str | None = None  # by whose credentials it was signed
    fault: str | None = None
    status: int | None = None  # None: never answered


class Ledger:
    def __init__(self) -> None:
        self._calls: list[RecordedCall] = []
        self._lock = threading.Lock()

    def begin(self, call: AwsCall, request: Request) -> RecordedCall:
        recorded = RecordedCall(
            call.action,
            call.permissions,
            call.region,
            time.time(),
            call.resources,
            call.metrics_asked,
            request.invocation,
            request.access_key,
        )
        with self._lock:
            self._calls.append(recorded)
        return recorded

    def clear(self) -> None:
        with self._lock:
            self._calls.clear()

    def listed(self) -> dict[str, Any]:
        with self._lock:
            calls = [asdict(call) for call in self._calls]
        counts = Counter(call["action"] for call in calls)
        permissions = sorted({permission for call in calls for permission in call["permissions"]})
        return {"calls": calls, "counts": dict(counts), "permissions": permissions}
