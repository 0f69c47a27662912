"""What CloudWatch says of instances: ListMetrics and GetMetricData in CBOR, which the Rust SDK speaks, and GetMetricStatistics in JSON, which
boto3 does.

A series is found by metric and dimensions, of which the CloudWatch agent's have a host. Besides there is an aggregate by InstanceId alone, as
`aggregation_dimensions` of its configuration makes it. Every period has a sample, until five minutes ago.

Source: "ListMetrics", "GetMetricStatistics" (CloudWatch API Reference); "Create or edit the CloudWatch agent configuration file" (user guide).
"""

from __future__ import annotations

import json
from typing import Any

import cbor2

from .fleet import VALUES, Machine
from .metric_data import array_of, checked_span, epoch, metric_data, result, times
from .refused import Refused

GPU_METRIC = "nvidia_smi_utilization_gpu"
POWER_METRIC = "GPUPowerUtilization"  # which EC2 publishes for some types, and here for none
_LISTED_PER_PAGE = 500


class InstanceMetrics:
    def __init__(self, machines: list[Machine]) -> None:
        self._machines = {machine.id: machine for machine in machines}
        self._gpu_pages = _listed(machines)

    def list_metrics(self, asked: dict[str, Any]) -> bytes:
        if (asked.get("Namespace"), asked.get("MetricName")) == ("AWS/EC2", POWER_METRIC) and "Dimensions" not in asked:
            return cbor2.dumps({"Metrics": []})
        if (asked.get("Namespace"), asked.get("MetricName")) != ("CWAgent", GPU_METRIC) or "Dimensions" in asked:
            raise Refused(f"ListMetrics of {asked} is not prepared")
        return self._gpu_pages[int(asked.get("NextToken") or 0)]

    def get_metric_data(self, asked: dict[str, Any]) -> bytes:
        start, end = checked_span(asked)
        series: dict[tuple[str, str], bytes] = {}  # all but the id is the same for machines that do the same

        def answer(stat: dict[str, Any]) -> bytes:
            usage, metric = key = self._usage(stat["Metric"]), stat["Metric"]["MetricName"]
            if key not in series:
                at = times(start, end, int(stat["Period"]))
                series[key] = result(metric, at, [VALUES[usage][metric]] * len(at))
            return series[key]

        return metric_data(asked, answer)

    def get_metric_statistics(self, asked: dict[str, Any]) -> bytes:
        value = VALUES[self._usage(asked)][asked["MetricName"]]
        at = times(epoch(asked["StartTime"]), epoch(asked["EndTime"]), int(asked["Period"]))
        statistics = {name: value for name in asked["Statistics"]}
        points = [{"Timestamp": time, "Unit": "None", **statistics} for time in at]
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
        + array_of(len(page))
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
