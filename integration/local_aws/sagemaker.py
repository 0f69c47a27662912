"""SageMaker, of which moto has too little (no apps, no stops of jobs), with the tags and scalable targets of its resources.

Sources (Amazon SageMaker API Reference): the lists' pages of 10 if not said otherwise; "ListTrainingJobs": StatusEquals filters
after a page is filled; "ListApps": deleted apps are listed for 24 hours; "StopNotebookInstance", "DeleteApp", "DeleteEndpoint",
"CreateEndpoint", "UpdateInferenceComponentRuntimeConfig" (a number of copies, down to none), "AddTags" (a tag's new value overwrites its old one). "GetResources" (Resource Groups Tagging API Reference) knows
only what has or had tags. "DescribeScalableTargets" (Application Auto Scaling API Reference).

Answers are cut to what each operation has, by botocore's model: a list does not say what only a look at one does. What
changes does so at once, without `Pending` and `Stopping`.
"""

from __future__ import annotations

import json
import time
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.utils import get_service_model

from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response

# By IAM prefix: as botocore names the service.
SERVICES = {"sagemaker": "sagemaker", "tag": "resourcegroupstaggingapi", "application-autoscaling": "application-autoscaling"}

# By the type in ARNs: the prefix of the fields that have the ARN, the status and, but for apps, the name.
_PREFIXES = {
    "notebook-instance": "NotebookInstance",
    "app": "App",
    "endpoint": "Endpoint",
    "endpoint-config": "EndpointConfig",
    "inference-component": "InferenceComponent",
    "training-job": "TrainingJob",
    "processing-job": "ProcessingJob",
    "hyper-parameter-tuning-job": "HyperParameterTuningJob",
}
_KINDS = {prefix: kind for kind, prefix in _PREFIXES.items()}
# What AWS says of each, and no test asks about.
_ALWAYS: dict[str, dict[str, Any]] = {
    "training-job": {
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ModelArtifacts": {"S3ModelArtifacts": "s3://models/model.tar.gz"},
        "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
    },
    "processing-job": {"AppSpecification": {"ImageUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/prepare:1"}},
}
_SCALABLE_TARGET = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    "MinCapacity": 1,
    "MaxCapacity": 4,
    "RoleARN": f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/scaling",
    "CreationTime": 1_767_225_600,
}
_APP_KEY = ("DomainId", "UserProfileName", "SpaceName", "AppType", "AppName")


class _Refused(Exception):
    """By its code, and its message."""


class SageMaker:
    def __init__(self) -> None:
        self._resources: dict[str, dict[str, Any]] = {}  # by ARN
        self._tags: dict[str, dict[str, str]] = {}
        self._scaled: set[tuple[str, str]] = set()  # regions and resource ids

    def clear(self) -> None:
        self.__init__()

    def put(self, kind: str, name: str, region: str, fields: dict[str, Any], tags: dict[str, str]) -> None:
        """A resource, or more fields of one; of a space, a user profile or a domain only the tags. An app's name is that of its ARN:
        `d-1/vision/jupyterlab/default`."""
        arn = _arn(region, kind, name)
        if prefix := _PREFIXES.get(kind):
            own = {f"{prefix}Arn": arn} | ({} if kind == "app" else {f"{prefix}Name": name})
            self._resources[arn] = {**_ALWAYS.get(kind, {}), **self._resources.get(arn, {}), **own, **fields}
        self._tags.setdefault(arn, {}).update(tags)

    def scale(self, resource_id: str, region: str) -> None:
        self._scaled.add((region, resource_id))

    def answer(self, call: AwsCall, request: Request) -> Response:
        asked = json.loads(request.body or b"{}")
        model = get_service_model(SERVICES[call.service]).operation_model(call.operation)
        try:
            members = self._carry_out(call, asked)
        except _Refused as refused:
            return error_response(call, 400, *refused.args)
        body = json.dumps(_cut(members, model.output_shape)).encode() if model.output_shape else b""
        return Response(200, [("Content-Type", "application/x-amz-json-1.1")], body)

    def _carry_out(self, call: AwsCall, asked: dict[str, Any]) -> dict[str, Any]:
        own = getattr(self, f"_{call.operation}", None)
        if own is not None:
            return own(call, asked) or {}
        if call.operation.startswith("List"):
            return self._list(call, asked)
        verb = next(verb for verb in ("Describe", "Stop", "Start", "Delete") if call.operation.startswith(verb))
        kind = _KINDS[call.operation.removeprefix(verb)]
        found = self._find(kind, call.region, asked)
        status = "Status" if kind == "app" else f"{_PREFIXES[kind]}Status"
        if verb == "Describe":
            return found
        if verb == "Delete" and kind == "app":
            found[status] = "Deleted"
        elif verb == "Delete":
            arn = found[f"{_PREFIXES[kind]}Arn"]
            del self._resources[arn]
            self._tags.pop(arn, None)
        else:
            needed, after = ("Stopped", "InService") if verb == "Start" else ("InService", "Stopped")
            if kind == "notebook-instance" and found[status] != needed:
                raise _Refused("ValidationException", f"Status ({found[status]}) not in ([{needed}]).")
            found[status] = after
            found["LastModifiedTime"] = time.time()
        return {}

    def _find(self, kind: str, region: str, asked: dict[str, Any]) -> dict[str, Any]:
        key = {name: asked.get(name) for name in _APP_KEY} if kind == "app" else asked
        for found in self._of(kind, region):
            if all(found.get(name) == value for name, value in key.items()):
                return found
        if kind in ("endpoint", "endpoint-config", "inference-component"):
            arn = _arn(region, kind, str(next(iter(asked.values()))))
            named = kind.replace("-config", " configuration").replace("-", " ")
            raise _Refused("ValidationException", f'Could not find {named} "{arn}".')
        if kind == "notebook-instance":
            raise _Refused("ValidationException", "RecordNotFound")
        raise _Refused("ResourceNotFound", "Requested resource not found.")

    def _of(self, kind: str, region: str) -> list[dict[str, Any]]:
        return [found for arn, found in self._resources.items() if arn.startswith(_arn(region, kind, ""))]

    def _list(self, call: AwsCall, asked: dict[str, Any]) -> dict[str, Any]:
        kind = _KINDS[call.operation.removeprefix("List").removesuffix("s")]
        items = {"training-job": "TrainingJobSummaries", "processing-job": "ProcessingJobSummaries"}
        items |= {"hyper-parameter-tuning-job": "HyperParameterTuningJobSummaries"}
        since = asked.get("LastModifiedTimeAfter")
        changed = [one for one in self._of(kind, call.region) if since is None or one["LastModifiedTime"] > since]
        for name in ("EndpointName", "VariantName"):
            changed = [one for one in changed if one.get(name) == asked.get(f"{name}Equals", one.get(name))]
        page, token = _page(changed, asked.get("NextToken"), asked.get("MaxResults", 10))
        if status := asked.get("StatusEquals"):
            page = [one for one in page if one[f"{_PREFIXES[kind]}Status"] == status]
        return {items.get(kind, f"{_PREFIXES[kind]}s"): page} | ({"NextToken": token} if token else {})

    def _CreateEndpoint(self, call: AwsCall, asked: dict[str, Any]) -> dict[str, Any]:
        name, config = asked["EndpointName"], asked["EndpointConfigName"]
        self._find("endpoint-config", call.region, {"EndpointConfigName": config})
        arn = _arn(call.region, "endpoint", name)
        if arn in self._resources:
            raise _Refused("ValidationException", f"Cannot create already existing endpoint \"{arn}\".")
        times = {"CreationTime": time.time(), "LastModifiedTime": time.time()}
        fields = {"EndpointConfigName": config, "EndpointStatus": "InService", **times}
        self.put("endpoint", name, call.region, fields, {tag["Key"]: tag["Value"] for tag in asked.get("Tags", [])})
        return {"EndpointArn": arn}

    def _UpdateInferenceComponentRuntimeConfig(self, call: AwsCall, asked: dict[str, Any]) -> dict[str, Any]:
        """Done at once, without `Updating`; the instances of its endpoint stay as they are."""
        found = self._find("inference-component", call.region, {"InferenceComponentName": asked["InferenceComponentName"]})
        copies = asked["DesiredRuntimeConfig"]["CopyCount"]
        found |= {"RuntimeConfig": {"DesiredCopyCount": copies, "CurrentCopyCount": copies}, "LastModifiedTime": time.time()}
        return {"InferenceComponentArn": found["InferenceComponentArn"]}

    def _AddTags(self, _call: AwsCall, asked: dict[str, Any]) -> dict[str, Any]:
        tags = self._tags_of(asked["ResourceArn"])
        tags.update((tag["Key"], tag["Value"]) for tag in asked["Tags"])
        return {"Tags": _pairs(tags)}

    def _DeleteTags(self, _call: AwsCall, asked: dict[str, Any]) -> None:
        for key in asked["TagKeys"]:
            self._tags_of(asked["ResourceArn"]).pop(key, None)

    def _ListTags(self, _call: AwsCall, asked: dict[str, Any]) -> dict[str, Any]:
        return {"Tags": _pairs(self._tags_of(asked["ResourceArn"]))}

    def _tags_of(self, arn: str) -> dict[str, str]:
        if arn not in self._tags:
            raise _Refused("ResourceNotFound", f"{arn} does not exist.")
        return self._tags[arn]

    def _GetResources(self, call: AwsCall, asked: dict[str, Any]) -> dict[str, Any]:
        starts = tuple(_arn(call.region, kind.removeprefix("sagemaker:"), "") for kind in asked["ResourceTypeFilters"])
        tagged = [arn for arn, tags in self._tags.items() if tags and arn.startswith(starts)]
        page, token = _page(tagged, asked.get("PaginationToken"), asked.get("ResourcesPerPage", 50))
        mappings = [{"ResourceARN": arn, "Tags": _pairs(self._tags[arn])} for arn in page]
        return {"ResourceTagMappingList": mappings, "PaginationToken": token}

    def _DescribeScalableTargets(self, call: AwsCall, asked: dict[str, Any]) -> dict[str, Any]:
        of_it = (one for region, one in sorted(self._scaled) if region == call.region)
        targets = [{**_SCALABLE_TARGET, "ResourceId": one} for one in of_it if one in asked.get("ResourceIds", [one])]
        return {"ScalableTargets": targets}


def _arn(region: str, kind: str, name: str) -> str:
    return f"arn:aws:sagemaker:{region}:{DEFAULT_ACCOUNT_ID}:{kind}/{name}"


def _pairs(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _page(items: list[Any], token: str | None, size: int) -> tuple[list[Any], str]:
    first = int(token or 0)
    past = first + size
    return items[first:past], str(past) if past < len(items) else ""


def _cut(value: Any, shape: Any) -> Any:
    """To the members that this shape has."""
    if shape.type_name == "structure" and isinstance(value, dict):
        return {name: _cut(one, shape.members[name]) for name, one in value.items() if name in shape.members}
    if shape.type_name == "list" and isinstance(value, list):
        return [_cut(one, shape.member) for one in value]
    return value
