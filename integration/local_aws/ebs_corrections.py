"""Volumes and snapshots as EC2 answers for them, in place of what moto's classes say; their listing is ebs_listing.py.

The list of corrections is in the package's docstring. Source: the pages of the calls in the Amazon EC2 API Reference,
and "Error codes for the Amazon EC2 API". Messages are those that people quote from real answers.
"""

from __future__ import annotations

import copy
from datetime import timezone
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.elastic_block_store import Snapshot, Volume, VolumeAttachment
from moto.ec2.responses.amis import AmisResponse
from moto.ec2.responses.elastic_block_store import ElasticBlockStore

from . import tag_corrections

VOLUME_STATES = ("creating", "available", "in-use", "deleting", "deleted", "error")
SNAPSHOT_STATES = ("pending", "completed", "error", "recoverable", "recovering")

# "CreateVolume": GiB, IOPS and MiB/s that each type takes.
_SIZES = {
    "gp2": (1, 16_384),
    "gp3": (1, 65_536),
    "io1": (4, 16_384),
    "io2": (4, 65_536),
    "st1": (125, 16_384),
    "sc1": (125, 16_384),
    "standard": (1, 1024),
}
_IOPS = {"gp3": (3000, 80_000), "io1": (100, 64_000), "io2": (100, 256_000)}
_THROUGHPUT = {"gp3": (125, 2000)}

_moto_create_volume = ElasticBlockStore.create_volume
_moto_create_snapshot = ElasticBlockStore.create_snapshot
_moto_register_image = AmisResponse.register_image
_moto_backend_create_snapshot = EC2Backend.create_snapshot
_moto_delete_volume = EC2Backend.delete_volume
_moto_delete_snapshot = EC2Backend.delete_snapshot


def apply() -> None:
    _correct_what_volumes_say()
    _correct_what_snapshots_say()
    ElasticBlockStore.create_volume = _create_volume
    ElasticBlockStore.create_snapshot = _create_snapshot
    AmisResponse.register_image = _register_image
    EC2Backend.create_snapshot = _snapshot_as_it_was
    EC2Backend.delete_volume = _delete_volume
    EC2Backend.delete_snapshot = _delete_snapshot


def hold_snapshots(backend: Any) -> None:
    """From now on a new snapshot of this region stays `pending`, as one of a large volume does for hours."""
    backend.__dict__["snapshots_are_held"] = True  # in moto's backend, so that moto's reset forgets it


def complete_snapshots(backend: Any, snapshot_ids: list[str]) -> None:
    """Of these, or of all, those that are pending."""
    for snapshot_id in snapshot_ids or list(backend.snapshots):
        snapshot = snapshot_of(backend, snapshot_id)
        if snapshot.status == "pending":
            snapshot.status = "completed"


def volume_of(backend: Any, volume_id: str) -> Volume:
    if volume_id not in backend.volumes:
        raise EC2ClientError("InvalidVolume.NotFound", f"The volume '{volume_id}' does not exist.")
    return backend.volumes[volume_id]


def snapshot_of(backend: Any, snapshot_id: str) -> Snapshot:
    if snapshot_id not in backend.snapshots:
        raise EC2ClientError("InvalidSnapshot.NotFound", f"The snapshot '{snapshot_id}' does not exist.")
    return backend.snapshots[snapshot_id]


# ------------------------------------------------------------------------------------------------- what they answer


def _correct_what_volumes_say() -> None:
    Volume.iops = _remembered("iops", _default_iops)
    Volume.throughput = _remembered("throughput", lambda volume: 125 if volume.volume_type == "gp3" else None)
    Volume.multi_attach_enabled = _remembered("multi_attach_enabled", lambda _: False)
    Volume.snapshot_id = _remembered("snapshot_id", lambda _: "")
    Volume.status = _remembered("status", lambda volume: "in-use" if volume.attachments else "available")
    Volume.attachments = property(lambda volume: [volume.attachment] if volume.attachment else [])
    VolumeAttachment.delete_on_termination = property(_delete_on_termination)


def _correct_what_snapshots_say() -> None:
    Snapshot.volume_id = _remembered("volume_id", lambda snapshot: snapshot.volume.id)
    Snapshot.volume_size = _remembered("volume_size", lambda snapshot: snapshot.volume.size)
    Snapshot.progress = property(lambda snapshot: "100%" if snapshot.status == "completed" else "0%")
    Snapshot.completion_time = property(
        lambda snapshot: snapshot.start_time.replace(tzinfo=timezone.utc) if snapshot.status == "completed" else None
    )


def _remembered(name: str, otherwise: Any) -> property:
    """An attribute that was set, by moto or by the back door; otherwise what `otherwise` makes of the resource."""
    key = f"_{name}_that_was_set"

    def get(resource: Any) -> Any:
        value = resource.__dict__.get(key)
        return otherwise(resource) if value is None else value

    return property(get, lambda resource, value: resource.__dict__.update({key: value}))


def _default_iops(volume: Volume) -> int | None:
    """For gp2 the baseline, 3 IOPS a GiB ("Volume", "Amazon EBS General Purpose SSD volumes"); none for hard disks."""
    if volume.volume_type == "gp2":
        return min(max(3 * volume.size, 100), 16_000)
    return 3000 if volume.volume_type == "gp3" else None


def _delete_on_termination(attachment: VolumeAttachment) -> bool:
    device = attachment.instance.block_device_mapping.get(attachment.device)
    return bool(device and device.delete_on_termination)


# ---------------------------------------------------------------------------------------------------------- volumes


def _create_volume(response: ElasticBlockStore) -> ActionResult:
    backend, asked = response.ec2_backend, response._get_params()
    tags = _tags_to_create(response, "volume")
    zone, snapshot_id = asked.get("AvailabilityZone"), asked.get("SnapshotId")
    if backend.get_zone_by_name(zone) is None:
        raise EC2ClientError("InvalidZone.NotFound", f"The zone '{zone}' does not exist.")
    snapshot = snapshot_of(backend, snapshot_id) if snapshot_id else None
    _check_numbers(asked, snapshot)
    volume = _moto_create_volume(response).result
    if snapshot is not None:
        volume.encrypted, volume.kms_key_id = snapshot.encrypted or volume.encrypted, snapshot.kms_key_id
    assert {tag["key"]: tag["value"] for tag in volume.get_tags()} == tags
    return ActionResult(_as_it_begins(volume, "creating"))


def _check_numbers(asked: dict[str, Any], snapshot: Snapshot | None) -> None:
    kind = asked.get("VolumeType") or "gp2"
    if kind not in _SIZES:
        raise _invalid(f"Invalid volume type: {kind}")
    if snapshot is not None and snapshot.status != "completed":
        raise EC2ClientError("IncorrectState", f"Snapshot is in invalid state - {snapshot.status}")
    size = int(asked.get("Size") or (snapshot.volume_size if snapshot else 0))
    if size == 0:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter size/snapshot")
    if snapshot is not None and size < snapshot.volume_size:
        least = snapshot.volume_size
        raise _invalid(f"Volume of {size}GiB is smaller than snapshot '{snapshot.id}', expect size >= {least}GiB")
    for name, value, ranges in (
        ("size", size, _SIZES),
        ("iops", asked.get("Iops"), _IOPS),
        ("throughput", asked.get("Throughput"), _THROUGHPUT),
    ):
        if value is None:
            continue
        if kind not in ranges:
            raise EC2ClientError(
                "InvalidParameterCombination", f"The parameter {name} is not supported for {kind} volumes."
            )
        least, most = ranges[kind]
        if not least <= int(value) <= most:
            raise _invalid(f"Volume {name} of {value} is not between {least} and {most}, as {kind} takes it.")


def _delete_volume(backend: Any, volume_id: str) -> Volume:
    volume = volume_of(backend, volume_id)
    if volume.attachment is None and volume.status != "available":
        raise EC2ClientError("IncorrectState", f"The volume '{volume_id}' is not 'available'.")
    deleted = _moto_delete_volume(backend, volume_id)
    backend.tags.pop(volume_id, None)
    return deleted


# -------------------------------------------------------------------------------------------------------- snapshots


def _create_snapshot(response: ElasticBlockStore) -> ActionResult:
    """Answers `pending`, even if the next state follows at once."""
    backend = response.ec2_backend
    tags = _tags_to_create(response, "snapshot")
    volume = volume_of(backend, response._get_param("VolumeId"))
    if volume.status not in ("available", "in-use"):
        raise EC2ClientError("IncorrectState", f"{volume.id} is not 'available'.")
    snapshot = _moto_create_snapshot(response).result
    assert {tag["key"]: tag["value"] for tag in snapshot.get_tags()} == tags
    snapshot.start_time = utcnow()
    if backend.__dict__.get("snapshots_are_held"):
        snapshot.status = "pending"
    return ActionResult(_as_it_begins(snapshot, "pending"))


def _snapshot_as_it_was(backend: Any, *asked: Any, **more: Any) -> Snapshot:
    """Of the volume as it is now: a snapshot does not grow with it."""
    snapshot = _moto_backend_create_snapshot(backend, *asked, **more)
    snapshot.volume_size = snapshot.volume.size
    snapshot.kms_key_id = snapshot.volume.kms_key_id
    snapshot.description = snapshot.description or ""
    return snapshot


def _delete_snapshot(backend: Any, snapshot_id: str) -> Snapshot:
    snapshot_of(backend, snapshot_id)
    deleted = _moto_delete_snapshot(backend, snapshot_id)
    backend.tags.pop(snapshot_id, None)
    return deleted


def _register_image(response: AmisResponse) -> ActionResult:
    """Over the snapshots that its block devices name, which moto does not read."""
    backend = response.ec2_backend
    devices = response._get_param("BlockDeviceMappings", [])
    named = [device["Ebs"]["SnapshotId"] for device in devices if device.get("Ebs", {}).get("SnapshotId")]
    snapshots = [snapshot_of(backend, snapshot_id) for snapshot_id in named]
    result = _moto_register_image(response)
    image = backend.amis[result.result["ImageId"]]
    for snapshot in snapshots:
        snapshot.from_ami = image.id
    if snapshots:
        backend.snapshots.pop(image.ebs_snapshot.id)
        image.ebs_snapshot = snapshots[0]
    return result


# ------------------------------------------------------------------------------------------------------------- both


def _tags_to_create(response: ElasticBlockStore, kind: str) -> dict[str, str]:
    """Checked before anything is made."""
    told = response._parse_tag_specification()
    for other in told:
        if other != kind:
            raise _invalid(f"'{other}' is not a valid taggable resource type for this operation.")
    tags = told.get(kind, {})
    tag_corrections.check(tags, already={})
    return tags


def _as_it_begins(resource: Any, state: str) -> Any:
    """The same resource, in the state in which the answer to its creation shows it."""
    begun = copy.copy(resource)
    begun.status = state
    return begun


def _invalid(message: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameterValue", message)
