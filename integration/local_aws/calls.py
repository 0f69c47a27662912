"""The ledger of every AWS call that was made, in order: what tests count, and compare with what IAM grants."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from . import ses_permissions
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
    instances_asked: tuple[int, int] | None = None  # RunInstances: MinCount and MaxCount
    authorized_on: tuple[str, ...] = ()  # SES: the ARNs that its permission has to cover
    invocation: str | None = None  # the same for each attempt of the SDK at one call
    access_key: str | None = None  # by whose credentials it was signed
    fault: str | None = None
    status: int | None = None  # None: never answered


class Violations:
    """Where requests, and answers that are made up here, break AWS's own models: see contract.py. `clear_calls` leaves them."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}  # each once, in order
        self._expected: list[tuple[str, str]] = []  # of which call, and words of the violation
        self._lock = threading.Lock()

    def add(self, call: AwsCall, side: str, wrong: list[str]) -> None:
        with self._lock:
            self._found |= {f"{call.action} {side}: {one}": None for one in wrong}

    def expect(self, action: str, words: str) -> None:
        with self._lock:
            self._expected.append((action, words))

    def take(self) -> list[str]:
        """Those that no test has announced; and what was announced and did not happen, so that an exemption stays as narrow as it was."""
        with self._lock:
            left, found = dict(self._found), list(self._found)
            self._found.clear()
            expected, self._expected = self._expected, []
        unmet = []
        for action, words in expected:
            met = [one for one in found if one.startswith(f"{action} ") and words in one]
            unmet += [] if met else [f"{action}: expected a violation with {words!r}, and there was none"]
            for one in met:
                left.pop(one, None)
        return [*left, *unmet]

    def clear(self) -> None:
        with self._lock:
            self._found.clear()
            self._expected.clear()


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
            call.instances_asked,
            ses_permissions.resources_of_mail(request, call.region) if call.action == "ses:SendEmail" else (),
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
            calls = [dict(vars(call)) for call in self._calls]
        counts = Counter(call["action"] for call in calls)
        permissions = sorted({permission for call in calls for permission in call["permissions"]})
        return {"calls": calls, "counts": dict(counts), "permissions": permissions}
