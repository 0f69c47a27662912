"""CloudWatch as the local AWS answers it, where moto alone would be wrong."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_aws import LocalAws

NAMESPACE, METRIC = "CWAgent", "nvidia_smi_utilization_gpu"
# Five-minute boundaries, an hour ago: aligned, so that periods are what a reader expects.
START = datetime.fromtimestamp(datetime.now(timezone.utc).timestamp() // 300 * 300 - 3600, timezone.utc)
END = START + timedelta(hours=1)
FIRST_GPU = {"InstanceId": "i-1", "index": "0"}


def query(dimensions: dict[str, str], stat: str = "Maximum", period: int = 300, query_id: str = "a") -> dict[str, Any]:
    named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    metric = {"Namespace": NAMESPACE, "MetricName": METRIC, "Dimensions": named}
    return {"Id": query_id, "MetricStat": {"Metric": metric, "Period": period, "Stat": stat}}


def values(aws: LocalAws, *queries: dict[str, Any], **more: Any) -> dict[str, list]:
    answer = aws.client("cloudwatch").get_metric_data(
        StartTime=START, EndTime=END, MetricDataQueries=list(queries), **more
    )
    return {result["Id"]: result["Values"] for result in answer["MetricDataResults"]}


def test_a_series_is_found_by_exactly_its_dimensions(aws: LocalAws) -> None:
    aws.put_metrics(NAMESPACE, METRIC, FIRST_GPU, [10], START)
    aws.put_metrics(NAMESPACE, METRIC, {"InstanceId": "i-1", "index": "1"}, [90], START)

    assert values(aws, query({"index": "0", "InstanceId": "i-1"})) == {"a": [10.0]}
    assert values(aws, query({"InstanceId": "i-1"})) == {"a": []}


def test_newest_first_and_the_end_is_exclusive(aws: LocalAws) -> None:
    aws.put_metrics(NAMESPACE, METRIC, FIRST_GPU, range(13), START)

    assert values(aws, query(FIRST_GPU))["a"] == [float(value) for value in range(11, -1, -1)]
    assert values(aws, query(FIRST_GPU), ScanBy="TimestampAscending")["a"][:2] == [0.0, 1.0]


def test_at_most_500_queries(aws: LocalAws) -> None:
    queries = [query(FIRST_GPU, query_id=f"q{number}") for number in range(501)]

    assert len(values(aws, *queries[:500])) == 500
    with pytest.raises(ClientError, match="ValidationError.*size greater than 500"):
        values(aws, *queries)


IDLE = "VolumeIdleTime"


def used(aws: LocalAws, volume_id: str, at: datetime) -> None:
    """Three minutes of it, as EBS reports them."""
    aws.put_metrics("AWS/EBS", IDLE, {"VolumeId": volume_id}, [60.0, 59.0, 60.0], at, step_seconds=60)


def of_volumes(aws: LocalAws, start: datetime, asked: dict[str, tuple[str, int]]) -> dict[str, list]:
    """When each of these volumes was in use since `start`, by the period that is asked for."""
    queries = [
        {
            "Id": query_id,
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/EBS",
                    "MetricName": IDLE,
                    "Dimensions": [{"Name": "VolumeId", "Value": volume_id}],
                },
                "Period": period,
                "Stat": "SampleCount",
            },
        }
        for query_id, (volume_id, period) in asked.items()
    ]
    answer = aws.client("cloudwatch").get_metric_data(
        StartTime=start, EndTime=datetime.now(timezone.utc), MetricDataQueries=queries
    )
    return {one["Id"]: list(zip(one["Timestamps"], one["Values"])) for one in answer["MetricDataResults"]}


@pytest.mark.parametrize(("days", "finest"), [(14, 60), (16, 300), (62, 300), (64, 3600), (456, None)])
def test_what_is_old_is_found_by_longer_periods_only(aws: LocalAws, days: int, finest: int | None) -> None:
    at = START - timedelta(days=days)
    used(aws, "vol-1", at)

    found = of_volumes(aws, at - timedelta(hours=2), {f"p{period}": ("vol-1", period) for period in (60, 300, 3600)})

    assert {name for name, points in found.items() if points} == {
        f"p{period}" for period in (60, 300, 3600) if finest and period >= finest
    }
