"""The Python side of a running local AWS: boto3 clients for it, and its back door as methods."""

from __future__ import annotations

import base64
import inspect
import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from . import shared_models  # noqa: F401  (before Moto)
from .admin_api import REGION, BackDoor, store_object, stored_keys, stored_object
from .in_process import sender

ACCOUNT = "123456789012"  # moto's
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_SESSION_TOKEN": "testing"}
# By it the local AWS knows the machine of a job, see absence_errors.py.
MACHINE_KEY = "ASIAOFAMACHINE000000"
_PUT_METRIC_DATA_MAX = 1000
CERTIFICATE = str(Path(__file__).with_name("nobody.pem"))


class LocalAwsError(Exception):
    """The control API refused a request."""


def read_object(s3: Any, bucket: str, key: str) -> bytes | None:
    try:
        return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None


def list_keys(s3: Any, bucket: str, prefix: str) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [one["Key"] for page in pages for one in page.get("Contents", [])]


class LocalAws:
    """Besides these, it has every method of `BackDoor`. With the proxy of the same process its own calls need no HTTP."""

    def __init__(self, endpoint: str, proxy: Any = None) -> None:
        self.endpoint = endpoint
        self._proxy = proxy
        self.client = lru_cache(maxsize=None)(self._client)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(BackDoor, name, None)
        if method is None or name.startswith("_"):
            raise AttributeError(name)
        return lambda *given, **named: self._asked(name, method, *given, **named)

    def _asked(self, name: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        _, *positional = _signature(method).parameters
        body = json.dumps(dict(zip(positional, given), **named), default=datetime.isoformat).encode()
        if self._proxy is not None:
            answer = self._proxy.control(name, body)
            if answer.status >= 300:
                raise LocalAwsError(json.loads(answer.body)["error"])
            return json.loads(answer.body)
        request = urllib.request.Request(f"{self.endpoint}/_local/{name}", method="POST", data=body)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise LocalAwsError(json.load(error)["error"]) from error

    def environment(self, region: str = REGION) -> dict[str, str]:
        """What a program needs in its environment to use this AWS instead of the real one."""
        return {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_EC2_METADATA_DISABLED": "true",
            # It speaks no TLS: reading the hundred certificates of the system would take a fifth of the CPU time of a command.
            "SSL_CERT_FILE": CERTIFICATE,
        }

    def _client(self, service: str, region: str = REGION) -> Any:
        client = boto3.client(
            service,
            region_name=region,
            endpoint_url=self.endpoint,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            # A test that injects one fault wants to see it, not the retry after it. botocore composes its own name anew for each call.
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, user_agent="tests"),
        )
        if self._proxy is not None:
            client.meta.events.register("before-send", sender(self._proxy))
        return client

    # Recorded calls

    def calls(self, action: str | None = None, region: str | None = None) -> list[dict[str, Any]]:
        """The recorded calls in order: action, permissions, region, at, resources, metrics_asked, instances_asked,
        authorized_on, invocation, access_key, fault, status."""
        return [
            call
            for call in self.recorded()["calls"]
            if action in (None, call["action"]) and region in (None, call["region"])
        ]

    def counts(self) -> Counter:
        return Counter(self.recorded()["counts"])

    def permissions(self) -> list[str]:
        """The IAM actions that the recorded calls needed."""
        return self.recorded()["permissions"]

    def struck(self) -> int:
        """How many calls the faults have struck so far, those that are still held up among them."""
        return sum(rule["struck"] for rule in self.faults())

    # What is there

    def run_instance(self, instance_type: str, tags: dict[str, str], region: str = REGION, **fields: Any) -> str:
        """One running instance with these tags and, by the back door, these fields. Answers its id."""
        launched = self.client("ec2", region).run_instances(
            ImageId="ami-0123456789abcdef0",
            InstanceType=instance_type,
            MinCount=1,
            MaxCount=1,
            TagSpecifications=_tag_specifications("instance", tags),
        )
        instance_id = launched["Instances"][0]["InstanceId"]
        if fields:
            self.set_instance(instance_id, region, **fields)
        return instance_id

    def create_volume(
        self,
        size_gib: int,
        tags: dict[str, str],
        region: str = REGION,
        volume_type: str = "gp3",
        asked: dict[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """One unattached volume with these tags, with whatever else CreateVolume is asked for and, by the back door,
        these fields. Answers its id."""
        wanted = {
            "AvailabilityZone": f"{region}a",
            "Size": size_gib,
            "VolumeType": volume_type,
            "TagSpecifications": _tag_specifications("volume", tags),
            **(asked or {}),
        }
        volume_id = self.client("ec2", region).create_volume(**wanted)["VolumeId"]
        if fields:
            self.set_volume(volume_id, region, **fields)
        return volume_id

    def volume(self, volume_id: str, region: str = REGION) -> dict[str, Any]:
        return self.client("ec2", region).describe_volumes(VolumeIds=[volume_id])["Volumes"][0]

    def object(self, bucket: str, key: str) -> bytes | None:
        """Its newest version. In this process it is read where Moto keeps it, for tests wait for many an object by asking for it again and again."""
        if self._proxy is not None:
            return stored_object(bucket, key)
        return read_object(self.client("s3"), bucket, key)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Those of all objects below a prefix, sorted. In this process they are read where Moto keeps them, as `object` is."""
        if self._proxy is not None:
            return stored_keys(bucket, prefix)
        return list_keys(self.client("s3"), bucket, prefix)

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Writes an object. In this process it is put where Moto keeps it, as it is read by `object`."""
        if self._proxy is not None:
            store_object(bucket, key, body)
        else:
            self.client("s3").put_object(Bucket=bucket, Key=key, Body=body)

    def instance(self, instance_id: str, region: str = REGION) -> dict[str, Any]:
        found = self.client("ec2", region).describe_instances(InstanceIds=[instance_id])
        return found["Reservations"][0]["Instances"][0]

    def booted_with(self, instance_id: str, region: str = REGION) -> bytes:
        """The user data, as the machine reads it."""
        return base64.b64decode(self.user_data(instance_id, region))

    def tags(self, resource_id: str, region: str = REGION) -> dict[str, str]:
        filters = [{"Name": "resource-id", "Values": [resource_id]}]
        pages = self.client("ec2", region).get_paginator("describe_tags").paginate(Filters=filters)
        return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}

    def put_metrics(
        self,
        namespace: str,
        metric_name: str,
        dimensions: dict[str, str],
        values: Iterable[float],
        start: datetime,
        step_seconds: int = 300,
        region: str = REGION,
    ) -> None:
        """One series: the first value at `start`, each next one `step_seconds` later."""
        named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
        data = [
            {
                "MetricName": metric_name,
                "Dimensions": named,
                "Value": value,
                "Timestamp": datetime.fromtimestamp(start.timestamp() + number * step_seconds, timezone.utc),
            }
            for number, value in enumerate(values)
        ]
        for first in range(0, len(data), _PUT_METRIC_DATA_MAX):
            page = data[first : first + _PUT_METRIC_DATA_MAX]
            self.client("cloudwatch", region).put_metric_data(Namespace=namespace, MetricData=page)


@cache
def _signature(method: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(method)


def _tag_specifications(resource_type: str, tags: dict[str, str]) -> list[dict[str, Any]]:
    named = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": resource_type, "Tags": named}] if named else []
