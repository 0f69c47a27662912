"""CloudWatch's metrics as AWS answers them, in place of moto's store.

Moto lists a series once per datum, adds up series whose dimensions merely contain those asked for, answers
expressions it cannot compute as empty and complete, and scans all data for each query. Here a series is found by
exactly its namespace, name and dimensions, and what cannot be computed is an error.

Source: "GetMetricData", "MetricStat", "ListMetrics", "PutMetricData" (CloudWatch API Reference). Periods begin at the
start time, rounded down; older data is found by longer periods only.
"""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone
from typing import Any, NamedTuple

from moto.cloudwatch.exceptions import InvalidParameterValue, ValidationError
from moto.cloudwatch.models import CloudWatchBackend
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult

_QUERIES_MAX = 500
_DATAPOINTS_MAX = 100_800
_LISTED_PER_PAGE = 500
_PUT_MAX = 1000
_LISTED_FOR_SECONDS = 14 * 24 * 3600
_RECENTLY_ACTIVE_SECONDS = 3 * 3600
# "GetMetricData", "MetricStat": up to this age, data is found by periods that are a multiple of this; and from this age
# on a start time is rounded down to that.
_HOUR, _DAY = 3600, 24 * 3600
_PERIODS_BY_AGE = ((3 * _HOUR, 1), (15 * _DAY, 60), (63 * _DAY, 300), (455 * _DAY, _HOUR))
_START_BY_AGE = ((63 * _DAY, _HOUR), (15 * _DAY, 300), (0, 60))
_ID = re.compile(r"[a-z][a-zA-Z0-9_]*")


class Series(NamedTuple):
    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]  # sorted


class Datum(NamedTuple):
    at: float  # seconds since the epoch
    count: float
    value: float


STATISTICS = {
    "Average": lambda data: sum(d.value * d.count for d in data) / sum(d.count for d in data),
    "Sum": lambda data: sum(d.value * d.count for d in data),
    "Minimum": lambda data: min(d.value for d in data),
    "Maximum": lambda data: max(d.value for d in data),
    "SampleCount": lambda data: sum(d.count for d in data),
}


def apply() -> None:
    CloudWatchBackend.put_metric_data = _put_metric_data
    CloudWatchResponse.list_metrics = _list_metrics
    CloudWatchResponse.get_metric_data = _get_metric_data


def _stored(backend: CloudWatchBackend) -> dict[Series, list[Datum]]:
    """Lives in moto's backend, so that moto's reset empties it."""
    return backend.__dict__.setdefault("corrected_series", {})


def _put_metric_data(backend: CloudWatchBackend, namespace: str, metric_data: list[dict[str, Any]]) -> None:
    if len(metric_data) > _PUT_MAX:
        raise ValidationError(f"The collection MetricData must not have a size greater than {_PUT_MAX}.")
    for number, metric in enumerate(metric_data, 1):
        backend._validate_parameters_put_metric_data(metric, number)
    for metric in metric_data:
        series = Series(namespace, metric["MetricName"], _dimensions(metric))
        _stored(backend).setdefault(series, []).extend(_data(metric))


def _data(metric: dict[str, Any]) -> list[Datum]:
    at = _epoch(metric["Timestamp"]) if metric.get("Timestamp") else time.time()
    values = [float(value) for value in metric.get("Values") or [metric.get("Value", 0)]]
    counts = [float(count) for count in metric.get("Counts") or [1] * len(values)]
    return [Datum(at, count, value) for value, count in zip(values, counts)]


def _list_metrics(response: CloudWatchResponse) -> ActionResult:
    asked = response._get_params()
    recent = asked.get("RecentlyActive")
    if recent not in (None, "PT3H"):
        raise InvalidParameterValue("RecentlyActive must be PT3H")
    since = time.time() - (_RECENTLY_ACTIVE_SECONDS if recent else _LISTED_FOR_SECONDS)
    found = [
        series
        for series, data in _stored(response.cloudwatch_backend).items()
        if _is_asked_for(series, asked) and any(datum.at >= since for datum in data)
    ]
    start = _offset(asked.get("NextToken"))
    end = start + _LISTED_PER_PAGE
    metrics = [
        {
            "Namespace": series.namespace,
            "MetricName": series.name,
            "Dimensions": [{"Name": name, "Value": value} for name, value in series.dimensions],
        }
        for series in found[start:end]
    ]
    return ActionResult({"Metrics": metrics, "NextToken": str(end) if end < len(found) else None})


def _is_asked_for(series: Series, asked: dict[str, Any]) -> bool:
    if asked.get("Namespace") not in (None, series.namespace) or asked.get("MetricName") not in (None, series.name):
        return False
    own = dict(series.dimensions)
    return all(
        one["Name"] in own and one.get("Value") in (None, own[one["Name"]]) for one in asked.get("Dimensions") or []
    )


def _get_metric_data(response: CloudWatchResponse) -> ActionResult:
    asked = response._get_params()
    queries = asked.get("MetricDataQueries") or []
    start, end = _span(asked)
    _validate(queries)
    results = []
    for query in queries:
        if query.get("ReturnData") is False:
            continue
        stat = query["MetricStat"]
        points = _points(response.cloudwatch_backend, stat["Metric"], stat, start, end)
        label = query.get("Label") or stat["Metric"]["MetricName"]
        results.append((query["Id"], label, points))
    ascending = asked.get("ScanBy") == "TimestampAscending"
    size = int(asked.get("MaxDatapoints") or _DATAPOINTS_MAX)
    return ActionResult(_page(results, ascending, _offset(asked.get("NextToken")), size))


def _validate(queries: list[dict[str, Any]]) -> None:
    if len(queries) > _QUERIES_MAX:
        raise ValidationError(f"The collection MetricDataQueries must not have a size greater than {_QUERIES_MAX}.")
    seen = set()
    for number, query in enumerate(queries, 1):
        place = f"MetricDataQueries.member.{number}"
        if query.get("Expression"):
            raise ValidationError(f"{place}.Expression: the local AWS computes no expressions.")
        if "MetricStat" not in query:
            raise ValidationError(f"The parameter {place}.MetricStat is required.\n")
        if not _ID.fullmatch(query["Id"]):
            raise ValidationError(f"The value {query['Id']} for parameter {place}.Id is not matching ^{_ID.pattern}$.")
        if query["Id"] in seen:
            raise ValidationError("The values for parameter id in MetricDataQueries are not unique.")
        seen.add(query["Id"])


def _page(results: list[tuple[str, str, list]], ascending: bool, start: int, size: int) -> dict[str, Any]:
    """At most `size` datapoints, from the `start`-th of all. Each result that has some left is PartialData."""
    answered, position, end = [], 0, start + size
    for query_id, label, points in results:
        points = points if ascending else points[::-1]
        page = points[max(start - position, 0) : max(end - position, 0)]
        position += len(points)
        if page or (not points and start == 0):
            answered.append(
                {
                    "Id": query_id,
                    "Label": label,
                    "Timestamps": [datetime.fromtimestamp(at, timezone.utc) for at, _ in page],
                    "Values": [value for _, value in page],
                    "StatusCode": "PartialData" if position > end else "Complete",
                }
            )
    return {"MetricDataResults": answered, "NextToken": str(end) if position > end else None}


def _points(
    backend: CloudWatchBackend, metric: dict[str, Any], stat: dict[str, Any], start: float, end: float
) -> list[tuple[float, float]]:
    """(start of the period, value), oldest first; a period without data has no point."""
    period = int(stat["Period"])
    if period < 1 or (period % 60 and period not in (1, 5, 10, 20, 30)):
        raise ValidationError(f"Period {period} must be 1, 5, 10, 20, 30 or a multiple of 60.")
    if stat["Stat"] not in STATISTICS:
        raise ValidationError(f"The local AWS computes {', '.join(STATISTICS)}, not {stat['Stat']}.")
    series = Series(metric["Namespace"], metric["MetricName"], _dimensions(metric))
    periods: dict[float, list[Datum]] = {}
    now = time.time()
    for datum in _stored(backend).get(series, ()):
        if start <= datum.at < end and _is_kept(now - datum.at, period):
            periods.setdefault(start + (datum.at - start) // period * period, []).append(datum)
    compute = STATISTICS[stat["Stat"]]
    return [(at, float(compute(periods[at]))) for at in sorted(periods)]


def _is_kept(age: float, period: int) -> bool:
    """Whether CloudWatch still has what is that old in so fine a resolution."""
    return any(age <= limit and period % finest == 0 for limit, finest in _PERIODS_BY_AGE)


def _span(asked: dict[str, Any]) -> tuple[float, float]:
    start, end = _epoch(asked["StartTime"]), _epoch(asked["EndTime"])
    if start >= end:
        raise ValidationError("The parameter EndTime must be greater than StartTime.")
    step = next((step for limit, step in _START_BY_AGE if time.time() - start >= limit), 60)
    return start // step * step, end


def _dimensions(metric: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((one["Name"], one["Value"]) for one in metric.get("Dimensions") or []))


def _offset(token: str | None) -> int:
    if token and not token.isdigit():
        raise InvalidParameterValue("Request parameter NextToken is invalid")
    return int(token or 0)


def _epoch(moment: Any) -> float:
    """Moto parses timestamps to naive datetimes in UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
