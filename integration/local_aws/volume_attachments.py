"""Volumes that are attached, detached and modified as EC2 does it, in place of moto's calls, which refuse next to nothing.

Source: "AttachVolume", "DetachVolume" and "ModifyVolume" (Amazon EC2 API Reference), "Error codes for the Amazon EC2 API", and for the limit of
modifications "Modify an Amazon EBS volume" (Amazon EBS User Guide): four in any 24 hours since January 2026, each after the one before is over.
Messages are those that people quote from real answers.
"""

from __future__ import annotations

from datetime import timedelta

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.elastic_block_store import Volume
from moto.ec2.responses.elastic_block_store import ElasticBlockStore

from .ebs_corrections import volume_of

_MODIFICATIONS_A_DAY = 4

_moto_attach_volume = ElasticBlockStore.attach_volume
_moto_modify_volume = ElasticBlockStore.modify_volume


def apply() -> None:
    ElasticBlockStore.attach_volume = _attach_volume
    ElasticBlockStore.detach_volume = _detach_volume
    ElasticBlockStore.modify_volume = _modify_volume


def _attach_volume(response: ElasticBlockStore) -> ActionResult:
    backend = response.ec2_backend
    volume = volume_of(backend, response._get_param("VolumeId"))
    instance, device = backend.get_instance(response._get_param("InstanceId")), response._get_param("Device")
    if instance.state not in ("running", "stopped"):
        raise EC2ClientError("IncorrectState", f"Instance '{instance.id}' is not 'running'.")
    if volume.attachment is not None:
        raise EC2ClientError("VolumeInUse", f"{volume.id} is already attached to an instance")
    if volume.status != "available":
        raise EC2ClientError("IncorrectState", f"{volume.id} is not 'available'.")
    if volume.availability_zone != instance.placement.zone:
        message = f"The volume '{volume.id}' is not in the same availability zone as instance '{instance.id}'"
        raise EC2ClientError("InvalidVolume.ZoneMismatch", message)
    if device in instance.block_device_mapping:
        message = f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use"
        raise EC2ClientError("InvalidParameterValue", message)
    return _moto_attach_volume(response)


def _detach_volume(response: ElasticBlockStore) -> ActionResult:
    """Of the instance that it is attached to: EC2 needs the name of one only with Multi-Attach."""
    volume = volume_of(response.ec2_backend, response._get_param("VolumeId"))
    if volume.attachment is None:
        raise EC2ClientError("IncorrectState", f"Volume '{volume.id}' is in the 'available' state.")
    instance, device = volume.attachment.instance, volume.attachment.device
    if response._get_param("InstanceId", instance.id) != instance.id or response._get_param("Device", device) != device:
        raise EC2ClientError("InvalidAttachment.NotFound", f"The volume '{volume.id}' is not attached there")
    if device == instance.root_device_name and instance.state != "stopped":
        message = f"Unable to detach root volume '{volume.id}' from instance '{instance.id}'"
        raise EC2ClientError("OperationNotPermitted", message)
    gone = response.ec2_backend.detach_volume(volume.id, instance.id, device)
    facts = {"VolumeId": volume.id, "InstanceId": instance.id, "Device": device, "AttachTime": gone.attach_time}
    return ActionResult({**facts, "State": "detaching"})


def _modify_volume(response: ElasticBlockStore) -> ActionResult:
    volume: Volume = volume_of(response.ec2_backend, response._get_param("VolumeId"))
    size = response._get_param("Size")
    if size is not None and int(size) < volume.size:
        raise EC2ClientError("InvalidParameterValue", "New size cannot be smaller than existing size")
    day_ago = utcnow() - timedelta(days=1)
    if sum(one.start_time > day_ago for one in volume.modifications) >= _MODIFICATIONS_A_DAY:
        message = "You've reached the maximum modification rate per volume limit."
        raise EC2ClientError("VolumeModificationRateExceeded", message)
    return _moto_modify_volume(response)

