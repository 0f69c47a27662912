"""The ledger of every AWS call that was made, in order: what tests count, and compare with what IAM grants."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, Tuple

from .aws_call import AwsCall


@dataclass
class RecordedCall:
    action: str  # service and SDK operation: `s3:ListObjectsV2`
    permissions: Tuple[str, ...]  # IAM's names: `s3:ListBucket`
    region: str
    at: float  # seconds since the epoch, when it arrived
    resources: Tuple[str, ...]
    metrics_asked: int
    fault: Optional[str] = None
    status: Optional[int] = None  # None: never answered


class Ledger:
    def __init__(self) -> None:
        self._calls: List[RecordedCall] = []
        self._lock = threading.Lock()

    def begin(self, call: AwsCall) -> RecordedCall:
        recorded = RecordedCall(
            call.action, call.permissions, call.region, time.time(), call.resources, call.metrics_asked
        )
        with self._lock:
            self._calls.append(recorded)
        return recorded

    def clear(self) -> None:
        with self._lock:
            self._calls.clear()

    def listed(self) -> Dict[str, Any]:
        with self._lock:
            calls = [asdict(call) for call in self._calls]
        counts = Counter(call["action"] for call in calls)
        permissions = sorted({permission for call in calls for permission in call["permissions"]})
        return {"calls": calls, "counts": dict(counts), "permissions": permissions}
