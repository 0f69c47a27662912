"""Changes to the account that AWS offers no call for: launch times, states, Spot requests, owners, prices."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Callable

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.elastic_block_store import Snapshot, Volume
from moto.ec2.models.instances import Instance, StateReason
from moto.iam.models import iam_backends
from moto.s3.models import FakeKey, s3_backends
from moto.sns.models import sns_backends

from . import honest_ebs, honest_sns, lifecycle, spot, spot_prices

_STATE_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


class Unknown(ValueError):
    """The back door was asked for a resource or a field that it does not know."""


def set_instance(instance_id: str, region: str, fields: dict[str, Any]) -> None:
    _set(_instance(instance_id, region), _INSTANCE_FIELDS, fields)


def interrupt(instance_id: str, region: str, warning_seconds: float, ending_seconds: float) -> None:
    """As AWS takes a Spot instance back."""
    instance = _instance(instance_id, region)
    if instance.lifecycle != "spot":
        raise Unknown(f"{instance_id} is no Spot instance")
    lifecycle.interrupt(_backend(region), instance, warning_seconds, ending_seconds)


def shut_down(instance_id: str, region: str, ending_seconds: float) -> None:
    """From within."""
    lifecycle.shut_down(_backend(region), _instance(instance_id, region), ending_seconds)


def gone(instance_id: str, region: str) -> None:
    """What `shutting-down` or `stopping` has begun is over."""
    lifecycle.gone(_backend(region), _instance(instance_id, region))


def machines() -> list[dict[str, Any]]:
    """Every instance that EC2 has not forgotten, whoever may see it."""
    return [
        {
            "id": instance.id,
            "region": region,
            "state": instance.state,
            "lifecycle": instance.lifecycle or "on-demand",
            "type": instance.instance_type,
            "zone": instance.availability_zone,
            "has_user_data": bool(instance.user_data),
        }
        for region, backend in ec2_backends[DEFAULT_ACCOUNT_ID].items()
        for reservation in backend.reservations.values()
        for instance in reservation.instances
        if not getattr(instance, "forgotten", False)
    ]


def user_data(instance_id: str, region: str) -> str:
    """As RunInstances got it: in base64."""
    told = _instance(instance_id, region).user_data
    return told.decode() if isinstance(told, bytes) else str(told)


def objects(bucket: str) -> list[dict[str, str]]:
    """Each object, and when its newest version was written."""
    found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(bucket)
    newest = found.keys.items() if found is not None else ()
    return [{"key": key, "written": one.last_modified.isoformat()} for key, one in newest if isinstance(one, FakeKey)]


def forget(instance_id: str, region: str) -> None:
    lifecycle.forget(_instance(instance_id, region))


def hide_new_instances(region: str, calls: int, seconds: float) -> None:
    lifecycle.hide_new(_backend(region), calls, seconds)


def end_slowly(region: str, seconds: float) -> None:
    lifecycle.end_slowly(_backend(region), seconds)


def advance(region: str, seconds: float) -> None:
    lifecycle.advance(_backend(region), seconds)


def settle(region: str) -> None:
    lifecycle.settle(_backend(region))


def create_profiles(names: list[str]) -> None:
    """Instance profiles that a stack made."""
    iam = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    known = {profile.name for profile in iam.get_instance_profiles()}
    for name in names:
        if name not in known:
            iam.create_instance_profile(name, "/", [])


def set_volume(volume_id: str, region: str, fields: dict[str, Any]) -> None:
    _set(_volume(volume_id, region), _VOLUME_FIELDS, fields)


def set_snapshot(snapshot_id: str, region: str, fields: dict[str, Any]) -> None:
    _set(_snapshot(snapshot_id, region), _SNAPSHOT_FIELDS, fields)


def hold_snapshots(region: str) -> None:
    """What CreateSnapshot begins from now on stays `pending`."""
    honest_ebs.hold_snapshots(_backend(region))


def complete_snapshots(region: str, snapshot_ids: list[str]) -> None:
    """Those that are pending, of these or of all."""
    for snapshot_id in snapshot_ids:
        _snapshot(snapshot_id, region)
    honest_ebs.complete_snapshots(_backend(region), snapshot_ids)


def set_spot_price(instance_type: str, region: str, fields: dict[str, Any]) -> None:
    since = fields.pop("since", None)
    moment = datetime.now(timezone.utc) if since is None else datetime.fromisoformat(since.replace("Z", "+00:00"))
    for zone, usd_per_hour in fields.items():
        if not zone.startswith(region):
            raise Unknown(f"{zone!r} is no zone of {region}")
        spot_prices.set_price(_backend(region), instance_type, zone, float(usd_per_hour), moment)


def set_object(bucket: str, key: str, last_modified: str) -> None:
    """Of its newest version."""
    found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(bucket, key)
    if found is None:
        raise Unknown(f"no object {key} in {bucket}")
    found.last_modified = datetime.fromisoformat(last_modified).astimezone(timezone.utc).replace(tzinfo=None)


def add_objects(bucket: str, prefix: str, count: int) -> None:
    """So many empty objects at once: more than anybody would want to put there one by one."""
    s3 = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for number in range(count):
        s3.put_object(bucket, f"{prefix}{number:06}", b"", disable_notification=True)


def confirm_subscription(endpoint: str) -> None:
    if honest_sns.confirm(endpoint) == 0:
        raise Unknown(f"nobody subscribed {endpoint}")


def apply(change: dict[str, Any]) -> None:
    """Carries out a rule's `before`: any of the kinds in `_CHANGES`."""
    for kind, what in change.items():
        if kind not in _CHANGES:
            raise Unknown(f"unknown change {kind!r}; there are {', '.join(_CHANGES)}")
        _CHANGES[kind](dict(what))


def messages() -> list[dict[str, Any]]:
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
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
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


def _set_volume_state(volume: Volume, state: str) -> None:
    """`available` and `in-use` follow from its attachment, unless something else was set."""
    _one_of("status", honest_ebs.VOLUME_STATES)(volume, state)
    if state == "available":
        volume.status = None


def _set_state(instance: Instance, name: str) -> None:
    if name not in _STATE_CODES:
        raise Unknown(f"unknown state {name!r}; there are {', '.join(_STATE_CODES)}")
    instance._state.name, instance._state.code = name, _STATE_CODES[name]


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
    "state": _set_volume_state,
    "attach_time": _set_attach_time,
    "snapshot_id": _attribute("snapshot_id"),
    "multi_attach_enabled": _attribute("multi_attach_enabled"),
    "unlisted": _attribute("unlisted"),
}
_SNAPSHOT_FIELDS: dict[str, Callable[[Any, Any], None]] = {
    "start_time": _moment("start_time"),
    "state": _one_of("status", honest_ebs.SNAPSHOT_STATES),
    "owner_id": _attribute("owner_id"),
    "unlisted": _attribute("unlisted"),
}


def _tag(what: dict[str, Any]) -> None:
    _backend(what["region"]).create_tags([what["resource"]], what["tags"])


def _untag(what: dict[str, Any]) -> None:
    _backend(what["region"]).delete_tag_keys([what["resource"]], what["keys"])


def _attach(what: dict[str, Any]) -> None:
    _volume(what["resource"], what["region"])
    _backend(what["region"]).attach_volume(what["resource"], what["instance"], what.get("device", "/dev/sdf"))


def _detach(what: dict[str, Any]) -> None:
    volume = _volume(what["resource"], what["region"])
    if volume.attachment is None:
        raise Unknown(f"{volume.id} is not attached")
    _backend(what["region"]).detach_volume(volume.id, volume.attachment.instance_id, volume.attachment.device)


def _delete(what: dict[str, Any]) -> None:
    resource_id, region = what["resource"], what["region"]
    if resource_id.startswith("vol-"):
        _backend(region).delete_volume(_volume(resource_id, region).id)
    else:
        _backend(region).delete_snapshot(_snapshot(resource_id, region).id)


def _setting(set_resource: Callable[[str, str, dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def apply_fields(what: dict[str, Any]) -> None:
        set_resource(what.pop("resource"), what.pop("region"), what)

    return apply_fields


def _put_object(what: dict[str, Any]) -> None:
    """Another writer's object."""
    s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(what["bucket"], what["key"], what["text"].encode())


_CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "tag": _tag,
    "untag": _untag,
    "instance": _setting(set_instance),
    "volume": _setting(set_volume),
    "snapshot": _setting(set_snapshot),
    "attach": _attach,
    "detach": _detach,
    "delete": _delete,
    "object": _put_object,
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
