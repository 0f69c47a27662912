"""CloudWatch as the local AWS answers it: over raw CBOR, as the Rust SDK speaks it, and over boto3."""

from __future__ import annotations

import gzip
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from typing import Any

import cbor2
import pytest
from botocore.exceptions import ClientError

from local_aws import LocalAws

NAMESPACE, METRIC = "CWAgent", "nvidia_smi_utilization_gpu"
# Five-minute boundaries, an hour ago: aligned, so that periods are what a reader expects.
START = datetime.fromtimestamp(datetime.now(timezone.utc).timestamp() // 300 * 300 - 3600, timezone.utc)
END = START + timedelta(hours=1)
FIRST_GPU = {"InstanceId": "i-1", "index": "0"}


def cbor(aws: LocalAws, operation: str, body: Any, compress: bool = False) -> tuple[int, dict[str, str], Any]:
    """One call as the Rust SDK makes it; answers status, headers and the decoded body."""
    data = cbor2.dumps(body)
    request = urllib.request.Request(
        f"{aws.endpoint}/service/GraniteServiceVersion20100801/operation/{operation}",
        data=gzip.compress(data) if compress else data,
        headers={
            "smithy-protocol": "rpc-v2-cbor",
            "Content-Type": "application/cbor",
            "Authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/monitoring/aws4_request, "
            "SignedHeaders=host, Signature=0",
            **({"Content-Encoding": "gzip"} if compress else {}),
        },
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, dict(answer.headers), cbor2.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), cbor2.loads(error.read())


def query(dimensions: dict[str, str], stat: str = "Maximum", period: int = 300, query_id: str = "a") -> dict[str, Any]:
    named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    metric = {"Namespace": NAMESPACE, "MetricName": METRIC, "Dimensions": named}
    return {"Id": query_id, "MetricStat": {"Metric": metric, "Period": period, "Stat": stat}}


def values(aws: LocalAws, *queries: dict[str, Any], **more: Any) -> dict[str, list]:
    answer = aws.client("cloudwatch").get_metric_data(
        StartTime=START, EndTime=END, MetricDataQueries=list(queries), **more
    )
    return {result["Id"]: result["Values"] for result in answer["MetricDataResults"]}


def test_cbor_round_trip(aws: LocalAws) -> None:
    datum = {
        "MetricName": METRIC,
        "Dimensions": [{"Name": "InstanceId", "Value": "i-1"}],
        "Timestamp": cbor2.CBORTag(1, START.timestamp() + 0.5),
        "Value": 7.0,
    }
    assert cbor(aws, "PutMetricData", {"Namespace": NAMESPACE, "MetricData": [datum]})[2] == {}

    status, headers, listed = cbor(aws, "ListMetrics", {"Namespace": NAMESPACE, "RecentlyActive": "PT3H"})
    assert (status, headers["smithy-protocol"], headers["Content-Type"]) == (200, "rpc-v2-cbor", "application/cbor")
    named = [{"Name": "InstanceId", "Value": "i-1"}]
    assert listed == {"Metrics": [{"Namespace": NAMESPACE, "MetricName": METRIC, "Dimensions": named}]}

    span = {"StartTime": cbor2.CBORTag(1, START.timestamp()), "EndTime": cbor2.CBORTag(1, END.timestamp())}
    asked = {**span, "MetricDataQueries": [query({"InstanceId": "i-1"})]}
    [result] = cbor(aws, "GetMetricData", asked)[2]["MetricDataResults"]
    assert result == {"Id": "a", "Label": METRIC, "Timestamps": [START], "Values": [7.0], "StatusCode": "Complete"}
    assert isinstance(result["Values"][0], float)

    assert aws.counts() == {
        "cloudwatch:PutMetricData": 1,
        "cloudwatch:ListMetrics": 1,
        "cloudwatch:GetMetricData": 1,
    }
    assert aws.calls("cloudwatch:GetMetricData")[0]["metrics_asked"] == 1


def test_cbor_errors_carry_the_code_in_body_and_header(aws: LocalAws) -> None:
    span = {"StartTime": cbor2.CBORTag(1, 600.0), "EndTime": cbor2.CBORTag(1, 0.0)}

    status, headers, error = cbor(aws, "GetMetricData", {**span, "MetricDataQueries": [query(FIRST_GPU)]})

    assert status == 400
    assert error["__type"].endswith("#ValidationException")
    assert headers["x-amzn-query-error"] == "ValidationError;Sender"


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


def listed(aws: LocalAws, **asked: Any) -> int:
    pages = aws.client("cloudwatch").get_paginator("list_metrics").paginate(**asked)
    return sum(len(page["Metrics"]) for page in pages)


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


def test_several_periods_with_one_start(aws: LocalAws) -> None:
    used(aws, "vol-1", START)
    used(aws, "vol-2", START + timedelta(minutes=9))
    start = START - timedelta(hours=1)

    found = of_volumes(
        aws, start, {"a": ("vol-1", 60), "b": ("vol-2", 300), "c": ("vol-1", 3600), "d": ("vol-3", 3600)}
    )

    assert found == {
        "a": [(START + timedelta(minutes=minute), 1.0) for minute in (2, 1, 0)],
        "b": [(START + timedelta(minutes=10), 2.0), (START + timedelta(minutes=5), 1.0)],
        "c": [(START, 3.0)],
        "d": [],
    }


@pytest.mark.parametrize(("days", "finest"), [(14, 60), (16, 300), (62, 300), (64, 3600), (456, None)])
def test_what_is_old_is_found_by_longer_periods_only(aws: LocalAws, days: int, finest: int | None) -> None:
    at = START - timedelta(days=days)
    used(aws, "vol-1", at)

    found = of_volumes(aws, at - timedelta(hours=2), {f"p{period}": ("vol-1", period) for period in (60, 300, 3600)})

    assert {name for name, points in found.items() if points} == {
        f"p{period}" for period in (60, 300, 3600) if finest and period >= finest
    }


@pytest.mark.parametrize(("days", "minutes"), [(1, 1), (20, 5), (70, 60)])
def test_the_older_the_start_the_coarser_it_is(aws: LocalAws, days: int, minutes: int) -> None:
    start = (START - timedelta(days=days)).replace(minute=57, second=33)
    used(aws, "vol-1", start + timedelta(minutes=10))

    [(at, _)] = of_volumes(aws, start, {"a": ("vol-1", 7200)})["a"]

    assert at == start.replace(minute=57 // minutes * minutes, second=0)
