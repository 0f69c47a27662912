"""Recognises which AWS call an HTTP request is: service, operation, region, protocol, resources, permissions.

Four wire protocols occur: EC2 and the older services send a form with `Action=`, the newer ones JSON with
`X-Amz-Target`, CloudWatch CBOR with the operation in the path ("Smithy RPC v2 CBOR"), and S3 speaks REST, as does the one call of SES
that Curfew makes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import cbor2

from . import s3_operations
from .http_message import Request
from .models import rest_operation

# Signing names that differ from the prefix of IAM's actions.
_IAM_PREFIXES = {"monitoring": "cloudwatch", "email": "ses", "tagging": "tag"}
_CREDENTIAL_SCOPE = re.compile(r"Credential=[^/]+/\d+/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")
_CBOR_PATH = re.compile(r"/service/(?P<target>[^/]+)/operation/(?P<operation>\w+)$")
_INVOCATION_PATH = re.compile(r"^/2015-03-31/functions/(?P<function>[^/]+)/invocations$")
_RESOURCE_PARAMETER = re.compile(
    r"(InstanceId|VolumeId|SnapshotId|ResourceId|SpotInstanceRequestId|ImageId|TopicArn|RoleArn|QueueUrl)(\.\d+)?$"
)
_WORD_IN_NAME = re.compile(r"(?<=[a-z])(?=[A-Z])")  # TrainingJob is training-job in ARNs
_RESOURCES_MAX = 50


@dataclass(frozen=True)
class AwsCall:
    service: str  # as in IAM: ec2, s3, sns, cloudwatch, ...
    operation: str  # as in the SDKs: DescribeInstances, ListObjectsV2, ...
    region: str
    protocol: str  # ec2, query, json, cbor or s3
    resources: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()  # the IAM actions that the call needs
    metrics_asked: int = 0  # GetMetricData: what CloudWatch would bill
    instances_asked: tuple[int, int] | None = None  # RunInstances: MinCount and MaxCount

    @property
    def action(self) -> str:
        return f"{self.service}:{self.operation}"


def identify(request: Request) -> AwsCall:
    scope = _credential_scope(request)
    region = scope["region"] if scope else "us-east-1"
    signing_name = scope["service"] if scope else "s3"  # unsigned requests are presumed S3's, as moto does
    service = _IAM_PREFIXES.get(signing_name, signing_name)

    cbor_path = _CBOR_PATH.search(request.path)
    if cbor_path and "smithy-protocol" in request.headers:
        return _structured(service, cbor_path["operation"], region, "cbor", _decoded_cbor(request.body))
    if "x-amz-target" in request.headers:
        name = request.headers["x-amz-target"].rpartition(".")[2]
        return _structured(service, name, region, "json", _decoded_json(request.body))
    if service == "s3":
        return _s3(request, region)
    form = {**request.query_parameters, **request.form}
    if "Action" in form:
        return _query(service, region, form)
    if invoked := _INVOCATION_PATH.search(request.path):
        return AwsCall(service, "Invoke", region, "json", (invoked["function"],), ("lambda:InvokeFunction",))
    operation = rest_operation(service, request.method, request.path)
    if operation is None:
        return AwsCall(service, f"{request.method} {request.path}", region, "json")
    recipients = _decoded_json(request.body).get("Destination", {}).get("ToAddresses", []) if service == "ses" else ()
    return AwsCall(service, operation, region, "json", tuple(recipients), (f"{service}:{operation}",))


def bucket_and_key(request: Request) -> tuple[str, str]:
    """Bucket and key of an S3 request, in the path style or with the bucket as the host's first label."""
    host = request.headers.get("host", "").split(":")[0]
    path = request.path.lstrip("/")
    label, _, rest = host.partition(".")
    if rest.endswith("localhost") or rest.endswith("amazonaws.com") and not label.startswith("s3"):
        return label, path
    bucket, _, key = path.partition("/")
    return bucket, key


def _credential_scope(request: Request) -> dict[str, str] | None:
    presigned = request.query_parameters.get("X-Amz-Credential")
    text = f"Credential={presigned}" if presigned else request.headers.get("authorization", "")
    found = _CREDENTIAL_SCOPE.search(text)
    return found.groupdict() if found else None


def _query(service: str, region: str, form: dict[str, str]) -> AwsCall:
    named = [value for name, value in form.items() if _RESOURCE_PARAMETER.search(name)]
    operation = form["Action"]
    permissions = [f"{service}:{operation}"]
    if service == "ec2" and operation.startswith(("Run", "Create")) and operation != "CreateTags":
        if any(name.startswith("TagSpecification") for name in form):
            permissions.append("ec2:CreateTags")
        if any(name.startswith("IamInstanceProfile") for name in form):
            permissions.append("iam:PassRole")
    queries = {name.split(".")[2] for name in form if name.startswith("MetricDataQueries.member.")}
    return AwsCall(
        service,
        operation,
        region,
        "ec2" if service == "ec2" else "query",
        tuple(named[:_RESOURCES_MAX]),
        tuple(permissions),
        len(queries),
        (_count(form, "MinCount"), _count(form, "MaxCount")) if operation == "RunInstances" else None,
    )


def _count(form: dict[str, str], name: str) -> int:
    """0 where it is no number, which is a violation of AWS's model."""
    text = form.get(name, "1")
    return int(text) if text.isdigit() else 0


def _structured(service: str, operation: str, region: str, protocol: str, body: dict[str, Any]) -> AwsCall:
    named = [str(value) for name, value in body.items() if _RESOURCE_PARAMETER.search(name)]
    if service == "sagemaker":
        named = _sagemaker_ids(body)
    if isinstance(body.get("Namespace"), str):
        named.append("/".join(filter(None, (body["Namespace"], body.get("MetricName")))))
    return AwsCall(
        service,
        operation,
        region,
        protocol,
        tuple(named[:_RESOURCES_MAX]),
        (f"{service}:{operation}",),
        len(body.get("MetricDataQueries") or ()),
    )


def _sagemaker_ids(body: dict[str, Any]) -> list[str]:
    """Of a call about one resource the last part of its ARN, which is the only id that it has."""
    if "ResourceArn" in body:
        return [str(body["ResourceArn"]).rpartition(":")[2]]
    if "AppName" in body:
        owner = body.get("SpaceName") or body.get("UserProfileName")
        return [f"app/{body.get('DomainId')}/{owner}/{str(body.get('AppType')).lower()}/{body['AppName']}"]
    kinds = {name: _WORD_IN_NAME.sub("-", name.removesuffix("Name")).lower() for name in body if name.endswith("Name")}
    return [f"{kind}/{body[name]}" for name, kind in kinds.items()]


def _s3(request: Request, region: str) -> AwsCall:
    bucket, key = bucket_and_key(request)
    query = request.query_parameters
    operation = s3_operations.operation(request.method, bucket, key, query, request.headers)
    named = "/".join(filter(None, (bucket, key or query.get("prefix"))))
    is_of_version = "versionId" in query or operation == "DeleteObjects" and b"<VersionId>" in request.body
    permissions = s3_operations.permissions(operation, is_of_version)
    return AwsCall("s3", operation, region, "s3", (named,) if named else (), permissions)


def _decoded_json(body: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(body or b"{}")
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _decoded_cbor(body: bytes) -> dict[str, Any]:
    try:
        decoded = cbor2.loads(body) if body else {}
    except (cbor2.CBORDecodeError, ValueError):
        return {}
    return decoded if isinstance(decoded, dict) else {}
