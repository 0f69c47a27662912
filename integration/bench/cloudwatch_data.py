"""CloudWatch's answers: ListMetrics and GetMetricData in CBOR, which the Rust SDK speaks, and GetMetricStatistics in
JSON, which boto3 does.

A series is found by metric and dimensions. The agent's has a host, which the dimensions must name, and an aggregate by
InstanceId alone besides, as `aggregation_dimensions` of its configuration makes them (CloudWatch user guide, "Create or
edit the CloudWatch agent configuration file"). Every period has a sample, until five minutes ago.

Source: "ListMetrics", "GetMetricData", "GetMetricStatistics" (CloudWatch API Reference), "Smithy RPC v2 CBOR protocol".
"""

from __future__ import annotations

import json
import struct
import time
from datetime import datetime
from typing import Any

import cbor2

from .fleet import VALUES, Machine

GPU_METRIC = "nvidia_smi_utilization_gpu"
_GPU_METRICS = (GPU_METRIC, "nvidia_smi_memory_used")
_LISTED_PER_PAGE = 500
_QUERIES_MAX = 500
_DATAPOINTS_MAX = 100_800
_LATE_SECONDS = 300


class Refused(Exception):
    """The request is none that CloudWatch would answer, or that this endpoint knows."""


class Metrics:
    def __init__(self, machines: list[Machine]) -> None:
        self._machines = {machine.id: machine for machine in machines}
        self._gpu_pages = _listed(machines)

    def list_metrics(self, asked: dict[str, Any]) -> bytes:
        if (asked.get("Namespace"), asked.get("MetricName")) != ("CWAgent", GPU_METRIC) or "Dimensions" in asked:
            raise Refused(f"ListMetrics of {asked} is not prepared")
        return self._gpu_pages[int(asked.get("NextToken") or 0)]

    def get_metric_data(self, asked: dict[str, Any]) -> bytes:
        queries = asked["MetricDataQueries"]
        start, end = _epoch(asked["StartTime"]), _epoch(asked["EndTime"])
        if len(queries) > _QUERIES_MAX or len(queries) * (end - start) / 300 > _DATAPOINTS_MAX:
            raise Refused(f"{len(queries)} queries over {end - start:.0f} s are more than a call may ask for")
        results = bytearray()
        series: dict[tuple[str, str], bytes] = {}  # all but the id is the same for machines that do the same
        for query in queries:
            stat = query["MetricStat"]
            key = self._usage(stat["Metric"]), stat["Metric"]["MetricName"]
            if key not in series:
                series[key] = _result(*key, start, end, int(stat["Period"]))
            results += b"\xa5\x62Id" + cbor2.dumps(query["Id"]) + series[key]
        return b"\xa1" + cbor2.dumps("MetricDataResults") + _array_of(len(queries)) + bytes(results)

    def get_metric_statistics(self, asked: dict[str, Any]) -> bytes:
        value = VALUES[self._usage(asked)][asked["MetricName"]]
        times = _times(_epoch(asked["StartTime"]), _epoch(asked["EndTime"]), int(asked["Period"]))
        statistics = {name: value for name in asked["Statistics"]}
        points = [{"Timestamp": at, "Unit": "None", **statistics} for at in times]
        return json.dumps({"Label": asked["MetricName"], "Datapoints": points}).encode()

    def _usage(self, metric: dict[str, Any]) -> str:
        dimensions = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
        machine = self._machines.get(dimensions.get("InstanceId", ""))
        if machine is None:
            raise Refused(f"{metric} is of no instance of this fleet")
        aggregate = {"InstanceId": machine.id}
        index = dimensions.get("index", "")
        is_device = index.isdigit() and int(index) < machine.type.gpus and dimensions == _device(machine, int(index))
        if metric["MetricName"] not in VALUES[machine.usage] or not (dimensions == aggregate or is_device):
            raise Refused(f"there is no series {metric}")
        return machine.usage


def _listed(machines: list[Machine]) -> list[bytes]:
    """Of each GPU its own series."""
    head = cbor2.dumps({"Namespace": "CWAgent", "MetricName": GPU_METRIC})[1:]
    series = [
        b"\xa3" + head + cbor2.dumps("Dimensions") + cbor2.dumps(_named(_device(machine, index)))
        for machine in machines
        for index in range(machine.type.gpus)
    ]
    pages = [series[start : start + _LISTED_PER_PAGE] for start in range(0, len(series), _LISTED_PER_PAGE)]
    return [
        (b"\xa1" if number == len(pages) else b"\xa2" + cbor2.dumps({"NextToken": str(number)})[1:])
        + cbor2.dumps("Metrics")
        + _array_of(len(page))
        + b"".join(page)
        for number, page in enumerate(pages, 1)
    ]


def _device(machine: Machine, index: int) -> dict[str, str]:
    return {
        "InstanceId": machine.id,
        "arch": "x86_64",
        "host": machine.host,
        "index": str(index),
        "name": f"NVIDIA {machine.type.gpu}",
    }


def _named(dimensions: dict[str, str]) -> list[dict[str, str]]:
    return [{"Name": name, "Value": value} for name, value in dimensions.items()]


def _result(usage: str, metric: str, start: float, end: float, period: int) -> bytes:
    """A MetricDataResult of five members, without its head and its id. The newest sample comes first."""
    times = _times(start, end, period)[::-1]
    value = VALUES[usage][metric]
    return b"".join(
        [
            cbor2.dumps({"Label": metric, "StatusCode": "Complete"})[1:],
            cbor2.dumps("Timestamps"),
            _array_of(len(times)),
            *(b"\xc1\xfb" + struct.pack(">d", at) for at in times),
            cbor2.dumps("Values"),
            cbor2.dumps([value] * len(times)),
        ]
    )


def _times(start: float, end: float, period: int) -> list[float]:
    """The start of every period that has samples by now."""
    if period % 60:
        raise Refused(f"a period of {period} s is no multiple of 60")
    first, until = start // 60 * 60, min(end, time.time() - _LATE_SECONDS)
    return [first + period * number for number in range(max(0, int((until - first + period - 1) // period)))]


def _array_of(count: int) -> bytes:
    return b"\x99" + struct.pack(">H", count)


def _epoch(moment: Any) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else float(moment)
