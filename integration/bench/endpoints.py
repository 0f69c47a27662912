"""The endpoints of SageMaker that are measured, and what SageMaker and CloudWatch say of them. Each has one variant on one instance and five tags,
and is ten days old; Curfew only notifies the owners of those that nobody asks.

Sources: the pages of "ListEndpoints" (100), "GetResources" (100); "DescribeEndpoint", "DescribeEndpointConfig" (Amazon SageMaker API Reference).
"""

from __future__ import annotations

import json
import time
from typing import Any

import cbor2
from local_aws.aws_call import AwsCall

from . import ec2_xml
from .fleet import CONFIG as _TEAMS_ENFORCE
from .fleet import REGION, TEAMS
from .metric_data import checked_span, metric_data, result, times
from .refused import Refused

CONFIG = f'{_TEAMS_ENFORCE}[sagemaker]\nmode = "enforce"\n'

UNUSED_EVERY = 10  # endpoints
PAGE = 100
_TYPE = "g5.xlarge"
_VARIANT = "AllTraffic"
_AGE_SECONDS = 10 * 86_400.0
_LISTED_EMPTY = {
    "ListNotebookInstances": "NotebookInstances",
    "ListApps": "Apps",
    "ListInferenceComponents": "InferenceComponents",
    "ListTrainingJobs": "TrainingJobSummaries",
    "ListProcessingJobs": "ProcessingJobSummaries",
    "ListHyperParameterTuningJobs": "HyperParameterTuningJobSummaries",
}
_CBOR = {"Content-Type": "application/cbor", "smithy-protocol": "rpc-v2-cbor"}
_VALUES = {"Invocations": 12.0, "ConcurrentRequestsPerModel": 0.0, "GPUUtilization": 0.0}


def is_unused(number: int) -> bool:
    return number % UNUSED_EVERY == 0


class Endpoints:
    """All answers about them but those of the bucket and the topic."""

    config = CONFIG
    log = None

    def __init__(self, count: int) -> None:
        since = time.time() - _AGE_SECONDS
        self._names = [f"{TEAMS[number % len(TEAMS)]}-llm-{number:05}" for number in range(count)]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        times_of_it = {"CreationTime": since, "LastModifiedTime": since}
        self._listed = [{**self._named(name), **times_of_it, "EndpointStatus": "InService"} for name in self._names]
        self._tagged = [{"ResourceARN": _arn("endpoint", name), "Tags": _tags(number)} for name, number in self._numbers.items()]
        self.rendered_bytes = len(json.dumps([self._listed, self._tagged]))

    @staticmethod
    def _named(name: str) -> dict[str, str]:
        return {"EndpointName": name, "EndpointArn": _arn("endpoint", name)}

    def ec2(self, call: AwsCall, form: dict[str, str]) -> bytes:
        if call.operation == "DescribeInstanceTypes":
            return ec2_xml.instance_types([_TYPE])
        raise Refused(f"{call.operation} is not prepared")

    def sagemaker(self, call: AwsCall, body: bytes) -> bytes:
        return json.dumps(self._answer(call.operation, json.loads(body))).encode()

    def _answer(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        match operation:
            case "ListEndpoints":
                return _page("Endpoints", self._listed, "NextToken", asked, asked["MaxResults"])
            case "GetResources":
                return _page("ResourceTagMappingList", self._tagged, "PaginationToken", asked, asked["ResourcesPerPage"])
            case "DescribeScalableTargets":
                return {"ScalableTargets": []}
            case "DescribeEndpoint":
                listed = self._listed[self._numbers[asked["EndpointName"]]]
                running = {"VariantName": _VARIANT, "CurrentInstanceCount": 1, "DesiredInstanceCount": 1, "CurrentWeight": 1.0}
                return {**listed, "EndpointConfigName": f"{asked['EndpointName']}-v1", "ProductionVariants": [running]}
            case "DescribeEndpointConfig":
                variant = {"VariantName": _VARIANT, "InitialInstanceCount": 1, "InstanceType": f"ml.{_TYPE}", "ModelName": "m"}
                name = asked["EndpointConfigName"]
                return {"EndpointConfigName": name, "EndpointConfigArn": _arn("endpoint-config", name), "ProductionVariants": [variant]}
        if operation in _LISTED_EMPTY:
            return {_LISTED_EMPTY[operation]: []}
        raise Refused(f"{operation} is not prepared")

    def cloudwatch(self, call: AwsCall, body: bytes) -> tuple[bytes, dict[str, str]]:
        asked = cbor2.loads(body)
        start, end = checked_span(asked)
        series: dict[str, bytes] = {}  # all but the id is the same for endpoints that do the same

        def answer(stat: dict[str, Any]) -> bytes:
            metric = stat["Metric"]["MetricName"]
            number = self._numbers[next(one["Value"] for one in stat["Metric"]["Dimensions"] if one["Name"] == "EndpointName")]
            # SageMaker emits no `Invocations` of zero.
            is_silent = metric == "Invocations" and is_unused(number)
            key = f"{metric}, silent" if is_silent else metric
            if key not in series:
                at = [] if is_silent else times(start, end, int(stat["Period"]))
                series[key] = result(metric, at, [_VALUES[metric]] * len(at))
            return series[key]

        return metric_data(asked, answer), _CBOR


def _page(items: str, all_of_them: list[Any], token: str, asked: dict[str, Any], size: int) -> dict[str, Any]:
    first = int(asked.get(token) or 0)
    past = first + min(size, PAGE)
    more = {token: str(past)} if past < len(all_of_them) else {}
    return {items: all_of_them[first:past], **more}


def _tags(number: int) -> list[dict[str, str]]:
    team = TEAMS[number % len(TEAMS)]
    tags = {"Team": team, "Owner": f"person{number % 200}@example.com", "Project": f"project-{number % 37}"}
    tags |= {"Name": f"{team}-llm-{number}", "CostCenter": f"{4000 + number % 60}"}
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _arn(kind: str, name: str) -> str:
    return f"arn:aws:sagemaker:{REGION}:123456789012:{kind}/{name}"
