"""A back door without a counterpart in AWS: recorded calls, planned faults, and changes to the account.

Each public method is one of `LocalAws` (client.py), and a route of the control API (control.py): arguments and answer are JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.elastic_block_store import Snapshot, Volume
from moto.ec2.models.instances import Instance, StateReason
from moto.iam.models import iam_backends
from moto.s3.models import FakeKey, s3_backends
from moto.sns.models import sns_backends

from . import capacity_reservations, commitments, ebs_corrections, file_systems, lifecycle, sns_corrections, spot, spot_prices
from .faults import Rule

if TYPE_CHECKING:
    from .proxy import Proxy

REGION = "us-east-1"


class Unknown(ValueError):
    """The back door was asked for a resource or a field that it does not know."""


class BackDoor:
    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    # Recorded calls

    def recorded(self) -> dict[str, Any]:
        """`calls` in order, `counts` by action, and the `permissions` that they needed."""
        return self._proxy.ledger.listed()

    def clear_calls(self) -> None:
        self._proxy.ledger.clear()

    def violations(self) -> list[str]:
        """Each operation and member that broke AWS's own model since the last time, see contract.py; they fail a test."""
        return self._proxy.violations.take()

    def expect_violation(self, action: str, words: str) -> None:
        """`expect_violation("sns:Publish", "unknown member Text")`: a test sends something wrong on purpose, and must."""
        self._proxy.violations.expect(action, words)

    def messages(self) -> list[dict[str, Any]]:
        """Everything that was published to SNS, topic by topic, oldest first."""
        return [
            {
                "region": region,
                "topic": topic.arn,
                "subject": subject,
                "message": message,
                "attributes": {name: attribute.get("Value") for name, attribute in (attributes or {}).items()},
            }
            for region, backend in sns_backends[DEFAULT_ACCOUNT_ID].items()
            for topic in backend.topics.values()
            for _, message, subject, attributes, _ in topic.sent_notifications
        ]

    # Planned faults

    def fault(self, action: str, fault: str, **rule: Any) -> None:
        """Makes calls fail: `fault("ec2:StopInstances", "throttle", match="i-0", skip=1, times=None)`."""
        self._proxy.rules.add(Rule(action, fault, **rule))

    def before(self, action: str, change: dict[str, dict[str, Any]], **rule: Any) -> None:
        """Just before a call is carried out, calls another method: `before("ec2:StopInstances", {"tag": {"resource": …, "tags": …}})`."""
        self._proxy.rules.add(Rule(action, before=change, **rule))

    def faults(self) -> list[dict[str, Any]]:
        """The rules, with how many calls each has `seen` and `struck`, those that are still held up among them."""
        return self._proxy.rules.listed()

    def clear_faults(self) -> None:
        """Calls that are slow already stay so."""
        self._proxy.rules.clear()

    def release(self, action: str) -> None:
        """Removes the faults of that action, and carries out now what they made slow."""
        self._proxy.rules.release(action)

    def reset(self) -> None:
        """An empty account, no rules, no recorded calls."""
        self._proxy.reset()

    # Instances

    def machines(self) -> list[dict[str, Any]]:
        """Every instance of every region. Not a call of EC2, and not counted."""
        return [
            {
                "id": instance.id,
                "region": region,
                "state": instance.state,
                "lifecycle": instance.lifecycle or "on-demand",
                "type": instance.instance_type,
                "zone": instance.availability_zone,
                "address": instance.private_ip_address,
                "launch_index": instance.ami_launch_index,
                "launched_together": len(reservation.instances),
                "has_user_data": bool(instance.user_data),
            }
            for region, backend in ec2_backends[DEFAULT_ACCOUNT_ID].items()
            for reservation in backend.reservations.values()
            for instance in reservation.instances
        ]

    def user_data(self, instance: str, region: str = REGION) -> str:
        """What a machine was launched with, in base64."""
        told = _instance(instance, region).user_data
        return told.decode() if isinstance(told, bytes) else str(told)

    def set_instance(self, instance: str, region: str = REGION, **fields: Any) -> None:
        """`set_instance(id, launch_time=datetime(...), spot_instance_request="persistent", state="pending")`."""
        _set(_instance(instance, region), _INSTANCE_FIELDS, fields)

    def interrupt(self, instance: str, region: str = REGION) -> None:
        """AWS takes a Spot instance back."""
        found = _instance(instance, region)
        if found.lifecycle != "spot":
            raise Unknown(f"{instance} is no Spot instance")
        lifecycle.end(found, lifecycle.RECLAIMED)
        lifecycle.gone(found)

    def shut_down(self, instance: str, region: str = REGION) -> None:
        """From within the instance, by its shutdown behaviour."""
        lifecycle.shut_down(_instance(instance, region))

    def gone(self, instance: str, region: str = REGION) -> None:
        """It is off: what is `shutting-down` is terminated, what is `stopping` is stopped."""
        lifecycle.gone(_instance(instance, region))

    def hold_ends(self, region: str = REGION, held: bool = True) -> None:
        """What is terminated from now on is `shutting-down` until it is `gone`."""
        lifecycle.hold_ends(_backend(region), held)

    def set_capacity(
        self,
        left: int,
        instance_type: str | None = None,
        zone: str | None = None,
        lifecycle: str | None = None,
        region: str = REGION,
    ) -> None:
        """`set_capacity(0, "g5.xlarge", zone="us-east-1a", lifecycle="spot")`: so many are left; what is not said means any."""
        self._proxy.launches.set_capacity(region, left, instance_type, zone, lifecycle)

    def put_savings_plan(self, plan: str, **fields: Any) -> None:
        """A Compute plan of the account, with the API's names for its fields; `commitment` is USD an hour, as text."""
        self._proxy.savings_plans.put(plan, fields)

    def put_reserved_instances(self, reservation: str, region: str = REGION, **fields: Any) -> None:
        commitments.put_reserved(_backend(region), reservation, fields)

    def set_quota(self, code: str, value: float, region: str = REGION, enforced: bool = False) -> None:
        """A quota of EC2; GPU families have 0 where nothing is set, as in a new account. Launches above it are refused where it
        is `enforced`."""
        self._proxy.quotas.put(code, region, value)
        if enforced:
            self._proxy.launches.set_quota(code, region, value)

    # Storage

    def set_volume(self, volume: str, region: str = REGION, **fields: Any) -> None:
        """`set_volume(id, create_time=datetime(...), state="error")`; what is `unlisted` is found by its id alone."""
        _set(_volume(volume, region), _VOLUME_FIELDS, fields)

    def set_snapshot(self, snapshot: str, region: str = REGION, **fields: Any) -> None:
        _set(_snapshot(snapshot, region), _SNAPSHOT_FIELDS, fields)

    def hold_snapshots(self, region: str = REGION) -> None:
        """A new snapshot is `completed` at once, if not for this: it stays `pending` until `complete_snapshots`."""
        ebs_corrections.hold_snapshots(_backend(region))

    def complete_snapshots(self, snapshots: list[str] | None = None, region: str = REGION) -> None:
        """Completes these, or all that are pending; new ones are still held."""
        ebs_corrections.complete_snapshots(_backend(region), snapshots or [])

    def attach(self, volume: str, instance: str, region: str = REGION) -> None:
        _backend(region).attach_volume(_volume(volume, region).id, instance, "/dev/sdf")

    def detach(self, volume: str, region: str = REGION) -> None:
        attachment = _volume(volume, region).attachment
        if attachment is None:
            raise Unknown(f"{volume} is not attached")
        _backend(region).detach_volume(volume, attachment.instance_id, attachment.device)

    def delete(self, resource: str, region: str = REGION) -> None:
        """A volume or a snapshot."""
        if resource.startswith("vol-"):
            _backend(region).delete_volume(_volume(resource, region).id)
        else:
            _backend(region).delete_snapshot(_snapshot(resource, region).id)

    def tag(self, resource: str, tags: dict[str, str], region: str = REGION) -> None:
        """Also with tags that only AWS may write."""
        _backend(region).create_tags([resource], tags)

    # The bucket

    def objects(self, bucket: str) -> list[dict[str, str]]:
        """Each object: its key, and when its newest version was written. Not a call of S3, and not counted."""
        found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(bucket)
        newest = found.keys.items() if found is not None else ()
        return [{"key": key, "written": one.last_modified.isoformat()} for key, one in newest if isinstance(one, FakeKey)]

    def put_object(self, bucket: str, key: str, text: str) -> None:
        """Another writer's."""
        store_object(bucket, key, text.encode())

    def set_object(self, bucket: str, key: str, last_modified: str | datetime) -> None:
        """When its newest version was written."""
        found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(bucket, key)
        if found is None:
            raise Unknown(f"no object {key} in {bucket}")
        _moment("last_modified")(found, last_modified)

    def add_objects(self, bucket: str, prefix: str, count: int) -> None:
        """So many empty objects at once, with numbers for names."""
        s3 = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        for number in range(count):
            s3.put_object(bucket, f"{prefix}{number:06}", b"", disable_notification=True)

    # Other services

    def set_spot_price(
        self, instance_type: str, usd_per_hour_by_zone: dict[str, float], region: str = REGION, since: str | datetime | None = None
    ) -> None:
        """`set_spot_price("g5.xlarge", {"us-east-1a": 0.41})`; what is not set has no price history. From now on, or `since`."""
        moment = datetime.now(timezone.utc) if since is None else datetime.fromisoformat(str(since))
        for zone, usd_per_hour in usd_per_hour_by_zone.items():
            if not zone.startswith(region):
                raise Unknown(f"{zone!r} is no zone of {region}")
            spot_prices.set_price(_backend(region), instance_type, zone, float(usd_per_hour), moment)

    def put_capacity_reservation(self, reservation: str, region: str = REGION, **fields: Any) -> None:
        """`put_capacity_reservation("cr-1", InstanceType="p5.48xlarge", TotalInstanceCount=2)`; see capacity_reservations.py."""
        capacity_reservations.put(_backend(region), reservation, fields)

    def put_file_system(self, file_system: str, region: str = REGION, **fields: Any) -> None:
        """`put_file_system("fs-1", CreationTime=…)`; see file_systems.py."""
        file_systems.put(region, file_system, fields)

    def set_listed_price(self, instance_type: str, usd: str, region: str = REGION) -> None:
        """What the Price List says of it from now on."""
        self._proxy.price_list.put(instance_type, region, usd)

    def put_sagemaker(
        self, kind: str, name: str, fields: dict[str, Any], tags: dict[str, str] | None = None, region: str = REGION
    ) -> None:
        """`put_sagemaker("endpoint", "llm", {"EndpointStatus": "InService", …})`; with more fields of one that is there, see sagemaker.py."""
        self._proxy.sagemaker.put(kind, name, region, fields, tags or {})

    def scale_sagemaker(self, resource_id: str, region: str = REGION) -> None:
        """Registers `endpoint/<name>/variant/<variant>` with Application Auto Scaling."""
        self._proxy.sagemaker.scale(resource_id, region)

    def put_stack(
        self,
        name: str,
        resources: dict[str, tuple[str, str]],
        region: str = REGION,
        parameters: dict[str, str] | None = None,
        outputs: dict[str, str] | None = None,
    ) -> None:
        """Says what a CloudFormation stack made: the type and the physical id of each logical id."""
        self._proxy.stacks.put(name, region, resources, parameters or {}, outputs or {})
        iam = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
        known = {profile.name for profile in iam.get_instance_profiles()}
        for kind, made in resources.values():
            if kind == "AWS::IAM::InstanceProfile" and made not in known:
                iam.create_instance_profile(made, "/", [])

    def fail_stack(self, name: str, logical_id: str, reason: str, region: str = REGION) -> None:
        """Has the next update or deletion of a stack fail at that resource."""
        self._proxy.stacks.fail(name, region, logical_id, reason)

    def set_stack_status(self, name: str, status: str, region: str = REGION) -> None:
        self._proxy.stacks.set_status(name, region, status)

    def put_invocation(self, function: str, response: dict[str, Any], error: str | None = None, region: str = REGION) -> None:
        """Says what a Lambda function answers when it is invoked, and with `error` that it fails so (`Unhandled`)."""
        self._proxy.invocations.put(region, function, response, error)

    def invoked_with(self, function: str, region: str = REGION) -> list[Any]:
        """The events that a function was invoked with."""
        return self._proxy.invocations.events(region, function)

    def confirm_subscription(self, endpoint: str) -> None:
        """Clicks the link in the e-mail that SNS sends to a new subscriber."""
        if sns_corrections.confirm(endpoint) == 0:
            raise Unknown(f"there is no subscription of {endpoint}")


def _set(resource: Any, setters: dict[str, Callable[[Any, Any], None]], fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if name not in setters:
            raise Unknown(f"unknown field {name!r}; there are {', '.join(setters)}")
        setters[name](resource, value)


def _attribute(name: str) -> Callable[[Any, Any], None]:
    return lambda resource, value: setattr(resource, name, value)


def _moment(name: str) -> Callable[[Any, str], None]:
    """An attribute that moto keeps as a naive datetime in UTC, told as RFC 3339."""

    def assign(resource: Any, value: str) -> None:
        moment = datetime.fromisoformat(str(value))
        if moment.tzinfo is None:
            raise Unknown(f"{value!r} names no time zone")
        setattr(resource, name, moment.astimezone(timezone.utc).replace(tzinfo=None))

    return assign


def _one_of(name: str, values: tuple[str, ...]) -> Callable[[Any, str], None]:
    def assign(resource: Any, value: str) -> None:
        if value not in values:
            raise Unknown(f"unknown {name} {value!r}; there are {', '.join(values)}")
        setattr(resource, name, value)

    return assign


def _set_state(instance: Instance, name: str) -> None:
    if name not in lifecycle.STATE_CODES:
        raise Unknown(f"unknown state {name!r}; there are {', '.join(lifecycle.STATE_CODES)}")
    instance._state.name, instance._state.code = name, lifecycle.STATE_CODES[name]


def _set_state_reason(instance: Instance, code: str) -> None:
    instance.state_reason = StateReason(f"{code}: set by a test", code)


def _set_attach_time(volume: Volume, value: str) -> None:
    if volume.attachment is None:
        raise Unknown(f"{volume.id} is not attached")
    _moment("attach_time")(volume.attachment, value)


_INSTANCE_FIELDS: dict[str, Callable[[Any, Any], None]] = {
    "launch_time": _moment("launch_time"),
    "lifecycle": _attribute("lifecycle"),
    "spot_instance_request": spot.attach_request,
    "state": _set_state,
    "state_reason": _set_state_reason,
    "state_transition_reason": _attribute("_reason"),
    "root_device_type": _attribute("root_device_type"),
    "capacity_reservation_id": _attribute("capacity_reservation_id"),
    "disable_api_termination": _attribute("disable_api_termination"),
}
_VOLUME_FIELDS: dict[str, Callable[[Any, Any], None]] = {
    "create_time": _moment("create_time"),
    "state": _one_of("status", ebs_corrections.VOLUME_STATES),
    "attach_time": _set_attach_time,
    "snapshot_id": _attribute("snapshot_id"),
    "multi_attach_enabled": _attribute("multi_attach_enabled"),
    "unlisted": _attribute("unlisted"),
}
_SNAPSHOT_FIELDS: dict[str, Callable[[Any, Any], None]] = {
    "start_time": _moment("start_time"),
    "state": _one_of("status", ebs_corrections.SNAPSHOT_STATES),
    "owner_id": _attribute("owner_id"),
    "unlisted": _attribute("unlisted"),
}


def _instance(instance_id: str, region: str) -> Instance:
    instance = lifecycle.instance_of(_backend(region), instance_id)
    if instance is None:
        raise Unknown(f"no instance {instance_id} in {region}")
    return instance


def _volume(volume_id: str, region: str) -> Volume:
    if volume_id not in _backend(region).volumes:
        raise Unknown(f"no volume {volume_id} in {region}")
    return _backend(region).volumes[volume_id]


def _snapshot(snapshot_id: str, region: str) -> Snapshot:
    if snapshot_id not in _backend(region).snapshots:
        raise Unknown(f"no snapshot {snapshot_id} in {region}")
    return _backend(region).snapshots[snapshot_id]


def _backend(region: str) -> Any:
    return ec2_backends[DEFAULT_ACCOUNT_ID][region]


def stored_object(bucket: str, key: str) -> bytes | None:
    """The newest version of an object. Not a call of S3, and not counted."""
    found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(bucket)
    newest = found.keys.get(key) if found is not None else None
    return newest.value if isinstance(newest, FakeKey) else None


def stored_keys(bucket: str, prefix: str) -> list[str]:
    """The keys of all objects below a prefix, sorted. Not a call of S3, and not counted."""
    found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(bucket)
    newest = list(found.keys.items()) if found is not None else []
    return sorted(key for key, one in newest if key.startswith(prefix) and isinstance(one, FakeKey))


def store_object(bucket: str, key: str, body: bytes) -> None:
    """Another writer's. Not a call of S3, and not counted."""
    s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(bucket, key, body)
