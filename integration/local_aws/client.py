"""The Python side of a running local AWS: boto3 clients for it, and its control API as methods."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

import boto3
from botocore.config import Config

REGION = "us-east-1"
ACCOUNT = "123456789012"  # moto's
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_SESSION_TOKEN": "testing"}
# By it the local AWS knows the machine of a job, see honest_absence.py.
MACHINE_KEY = "ASIAOFAMACHINE000000"
_PUT_METRIC_DATA_MAX = 1000


class LocalAwsError(Exception):
    """The control API refused a request."""


class LocalAws:
    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.client = lru_cache(maxsize=None)(self._client)

    def environment(self, region: str = REGION) -> dict[str, str]:
        """What a program needs in its environment to use this AWS instead of the real one."""
        return {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _client(self, service: str, region: str = REGION) -> Any:
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=self.endpoint,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            # A test that injects one fault wants to see it, not the retry after it.
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    # What was asked of AWS

    def calls(self, action: str | None = None, region: str | None = None) -> list[dict[str, Any]]:
        """The recorded calls in order: action, permissions, region, at, resources, metrics_asked, invocation,
        access_key, fault, status."""
        return [
            call
            for call in self._control("GET", "calls")["calls"]
            if action in (None, call["action"]) and region in (None, call["region"])
        ]

    def counts(self) -> Counter:
        return Counter(self._control("GET", "calls")["counts"])

    def permissions(self) -> list[str]:
        """The IAM actions that the recorded calls needed."""
        return self._control("GET", "calls")["permissions"]

    def clear_calls(self) -> None:
        self._control("DELETE", "calls")

    def messages(self) -> list[dict[str, Any]]:
        """Everything published to SNS: region, topic, subject, message, attributes."""
        return self._control("GET", "messages")

    # What shall go wrong

    def fault(self, action: str, fault: str, **rule: Any) -> None:
        """Makes calls fail: `fault("ec2:StopInstances", "throttle", match="i-0", skip=1, times=None)`."""
        self._control("POST", "faults", {"action": action, "fault": fault, **rule})

    def before(self, action: str, change: dict[str, Any], **rule: Any) -> None:
        """Changes the account just before a call is carried out; see `change`."""
        self._control("POST", "faults", {"action": action, "before": change, **rule})

    def faults(self) -> list[dict[str, Any]]:
        return self._control("GET", "faults")

    def clear_faults(self) -> None:
        """Calls that are slow already stay so."""
        self._control("DELETE", "faults")

    def release(self, action: str) -> None:
        """Removes the faults of that action, and carries out now what they made slow."""
        self._control("POST", "faults/release", {"action": action})

    def struck(self) -> int:
        """How many calls the faults have struck so far, those that are still held up among them."""
        return sum(rule["struck"] for rule in self.faults())

    # The back door

    def set_instance(self, instance_id: str, region: str = REGION, **fields: Any) -> None:
        """`set_instance(id, launch_time=datetime(...), spot_instance_request="persistent", state="pending")`."""
        self._control("POST", f"instances/{instance_id}", {"region": region, **fields})

    def set_volume(self, volume_id: str, region: str = REGION, **fields: Any) -> None:
        """`set_volume(id, create_time=datetime(...), state="error")`."""
        self._control("POST", f"volumes/{volume_id}", {"region": region, **fields})

    def set_snapshot(self, snapshot_id: str, region: str = REGION, **fields: Any) -> None:
        self._control("POST", f"snapshots/{snapshot_id}", {"region": region, **fields})

    def hold_snapshots(self, region: str = REGION) -> None:
        """A new snapshot is `completed` at once, if not for this: it stays `pending` until `complete_snapshots`."""
        self._control("POST", "snapshots/hold", {"region": region})

    def complete_snapshots(self, *snapshot_ids: str, region: str = REGION) -> None:
        """Completes these, or all that are pending; new ones are still held."""
        self._control("POST", "snapshots/complete", {"region": region, "snapshots": snapshot_ids})

    def set_spot_price(
        self,
        instance_type: str,
        usd_per_hour_by_zone: dict[str, float],
        region: str = REGION,
        since: datetime | None = None,
    ) -> None:
        """`set_spot_price("g5.xlarge", {"us-east-1a": 0.41})`; what is not set has no price history. From now on, or `since`."""
        moment = {} if since is None else {"since": since.isoformat()}
        self._control("POST", f"spot-prices/{instance_type}", {"region": region, **usd_per_hour_by_zone, **moment})

    def set_listed_price(self, instance_type: str, usd: str, region: str = REGION) -> None:
        """What the Price List says of it from now on."""
        self._control("POST", "price-list", {"instance_type": instance_type, "region": region, "usd": usd})

    def set_object(self, bucket: str, key: str, last_modified: datetime) -> None:
        """When its newest version was written."""
        self._control("POST", "objects", {"bucket": bucket, "key": key, "last_modified": last_modified})

    def add_objects(self, bucket: str, prefix: str, count: int) -> None:
        """So many empty objects, with numbers for names."""
        self._control("POST", "objects/add", {"bucket": bucket, "prefix": prefix, "count": count})

    def put_stack(self, name: str, resources: dict[str, tuple[str, str]], region: str = REGION) -> None:
        """Says what a CloudFormation stack made: the type and the physical id of each logical id."""
        self._control("POST", "stacks", {"name": name, "region": region, "resources": resources})

    def set_quota(self, code: str, value: float, region: str = REGION, enforced: bool = False) -> None:
        """A quota of EC2; GPU families have 0 where nothing is set, as in a new account. Launches above it are refused where it
        is `enforced`."""
        self._control("POST", "quotas", {"code": code, "region": region, "value": value, "enforced": enforced})

    def set_capacity(
        self,
        left: int,
        instance_type: str | None = None,
        zone: str | None = None,
        lifecycle: str | None = None,
        region: str = REGION,
    ) -> None:
        """`set_capacity(0, "g5.xlarge", zone="us-east-1a", lifecycle="spot")`: so many are left; what is not said means any."""
        asked = {"instance_type": instance_type, "zone": zone, "lifecycle": lifecycle}
        self._control("POST", "capacity", {"region": region, "left": left, **asked})

    def hide_new_instances(self, calls: int = 0, seconds: float = 0, region: str = REGION) -> None:
        """EC2 is eventually consistent: nobody sees what is launched from now on for so many DescribeInstances, or so long."""
        self._control("POST", "launches/hide", {"region": region, "calls": calls, "seconds": seconds})

    def end_slowly(self, seconds: float, region: str = REGION) -> None:
        """What is terminated from now on is `shutting-down` for so long."""
        self._control("POST", "ends", {"region": region, "seconds": seconds})

    def advance(self, seconds: float, region: str = REGION) -> None:
        """Lets that much time pass for the instances of a region: what they await happens at the next call."""
        self._control("POST", "time", {"region": region, "seconds": seconds})

    def interrupt(
        self, instance_id: str, warning_seconds: float = 0, ending_seconds: float = 0, region: str = REGION
    ) -> None:
        """AWS takes a Spot instance back: `shutting-down` after the warning, `terminated` after so long again."""
        times = {"warning_seconds": warning_seconds, "ending_seconds": ending_seconds}
        self._control("POST", f"interruptions/{instance_id}", {"region": region, **times})

    def shut_down(self, instance_id: str, ending_seconds: float = 0, region: str = REGION) -> None:
        """From within the instance, by its shutdown behaviour."""
        self._control("POST", f"shutdowns/{instance_id}", {"region": region, "ending_seconds": ending_seconds})

    def gone(self, instance_id: str, region: str = REGION) -> None:
        """It is off: what is `shutting-down` is terminated, what is `stopping` is stopped."""
        self._control("POST", f"gone/{instance_id}", {"region": region})

    def machines(self) -> list[dict[str, Any]]:
        """Every instance of every region: id, region, state, lifecycle, type, zone, has_user_data. Not a call of EC2: nobody counts it."""
        return self._control("GET", "machines")

    def user_data(self, instance_id: str, region: str = REGION) -> bytes:
        """What a machine was launched with, as it reads it."""
        told = self._control("POST", "user-data", {"instance_id": instance_id, "region": region})["user_data"]
        return base64.b64decode(told)

    def objects(self, bucket: str) -> list[dict[str, str]]:
        """Each object: its key, and when its newest version was written. Not a call of S3: nobody counts it."""
        return self._control("POST", "objects/newest", {"bucket": bucket})

    def forget(self, instance_id: str, region: str = REGION) -> None:
        """EC2 does not know it any more, as about an hour after it was terminated."""
        self._control("POST", f"forgotten/{instance_id}", {"region": region})

    def confirm_subscription(self, endpoint: str) -> None:
        """Clicks the link in the e-mail that SNS sends to a new subscriber."""
        self._control("POST", "subscriptions/confirm", {"endpoint": endpoint})

    def change(self, **change: Any) -> None:
        """Any of `tag={resource, region, tags}`, `untag={resource, region, keys}`, `instance={resource, region, …}`,
        `object={bucket, key, text}`."""
        self._control("POST", "change", change)

    def reset(self) -> None:
        """An empty account, no rules, no recorded calls."""
        self._control("POST", "reset")

    # Seeds

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
        created = self.client("ec2", region).create_volume(
            **{
                "AvailabilityZone": f"{region}a",
                "Size": size_gib,
                "VolumeType": volume_type,
                "TagSpecifications": _tag_specifications("volume", tags),
                **(asked or {}),
            }
        )
        if fields:
            self.set_volume(created["VolumeId"], region, **fields)
        return created["VolumeId"]

    def volume(self, volume_id: str, region: str = REGION) -> dict[str, Any]:
        return self.client("ec2", region).describe_volumes(VolumeIds=[volume_id])["Volumes"][0]

    def instance(self, instance_id: str, region: str = REGION) -> dict[str, Any]:
        found = self.client("ec2", region).describe_instances(InstanceIds=[instance_id])
        return found["Reservations"][0]["Instances"][0]

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

    def _control(self, method: str, route: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"{self.endpoint}/_local/{route}",
            method=method,
            data=json.dumps(body, default=datetime.isoformat).encode() if body is not None else None,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise LocalAwsError(json.load(error)["error"]) from error


def _tag_specifications(resource_type: str, tags: dict[str, str]) -> list[dict[str, Any]]:
    named = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": resource_type, "Tags": named}] if named else []
