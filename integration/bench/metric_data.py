"""GetMetricData in CBOR, which the Rust SDK speaks: its limits, its answers.

Source: "GetMetricData", "MetricStat" (CloudWatch API Reference), "Smithy RPC v2 CBOR protocol".
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import cbor2

from .refused import Refused

_QUERIES_MAX = 500
_DATAPOINTS_MAX = 100_800
_LATE_SECONDS = 300
_DAY = 86_400
# Older samples are there in coarser periods only, by the age of the start.
_PERIODS = {63 * _DAY: 3600, 15 * _DAY: 300, 0: 60}


def checked_span(asked: dict[str, Any]) -> tuple[float, float]:
    """From when to when is asked, of a request that CloudWatch would answer in one page."""
    queries = asked["MetricDataQueries"]
    start, end = epoch(asked["StartTime"]), epoch(asked["EndTime"])
    periods = [int(query["MetricStat"]["Period"]) for query in queries]
    if len(queries) > _QUERIES_MAX or sum((end - start) / period for period in periods) > _DATAPOINTS_MAX:
        raise Refused(f"{len(queries)} queries over {end - start:.0f} s are more than a call may ask for")
    finest = next(period for age, period in _PERIODS.items() if time.time() - start > age)
    if any(period % finest for period in periods):
        raise Refused(f"periods {sorted(set(periods))} s are no multiples of {finest}, as of so old samples")
    return start, end


def metric_data(asked: dict[str, Any], answer: Callable[[dict[str, Any]], bytes]) -> bytes:
    """`answer` makes of a `MetricStat` what `result` does."""
    queries = asked["MetricDataQueries"]
    results = (b"\xa5\x62Id" + cbor2.dumps(query["Id"]) + answer(query["MetricStat"]) for query in queries)
    return b"\xa1" + cbor2.dumps("MetricDataResults") + array_of(len(queries)) + b"".join(results)


def result(label: str, times: list[float], values: list[float]) -> bytes:
    """A MetricDataResult of five members, without its head and its id. The newest sample comes first."""
    return b"".join(
        [
            cbor2.dumps({"Label": label, "StatusCode": "Complete"})[1:],
            cbor2.dumps("Timestamps"),
            array_of(len(times)),
            *(b"\xc1\xfb" + struct.pack(">d", at) for at in reversed(times)),
            cbor2.dumps("Values"),
            cbor2.dumps(values[::-1]),
        ]
    )


def times(start: float, end: float, period: int) -> list[float]:
    """The start of every period that has samples by now."""
    if period % 60:
        raise Refused(f"a period of {period} s is no multiple of 60")
    first, until = start // 60 * 60, min(end, time.time() - _LATE_SECONDS)
    return [first + period * number for number in range(max(0, int((until - first + period - 1) // period)))]


def array_of(count: int) -> bytes:
    return b"\x99" + struct.pack(">H", count)


def epoch(moment: Any) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else float(moment)
