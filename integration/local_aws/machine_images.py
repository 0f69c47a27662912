"""The Deep Learning AMIs and Amazon Linux, and the public parameters of Systems Manager that name them, which moto has not; and
the type of the root device, which it has wrong.

Source: "Finding the ID of a DLAMI" (AWS Deep Learning AMIs Developer Guide) for the parameters; "Block device
mappings for volumes on Amazon EC2 instances" (Amazon EC2 User Guide): a launch says of a device only what shall
differ from its image, and a device that it does not name comes as the image has it. Each image has a root of 65 GiB
and, so that a launch which forgets it is seen, a second volume, neither encrypted nor deleted with its instance.
"""

from __future__ import annotations

import hashlib
from itertools import product
from typing import Any

from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.amis import Ami
from moto.ec2.responses.instances import InstanceResponse
from moto.ssm.models import Parameter, SimpleSystemManagerBackend

ARCHITECTURES = ("x86_64", "arm64")
_AMAZON = "898082745236"
_DEEP_LEARNING = "/aws/service/deeplearning/ami/"
_LINUX = "/aws/service/ami-amazon-linux-latest/"
_PARAMETERS = {
    "": _DEEP_LEARNING + "{architecture}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
    "al2023": _LINUX + "al2023-ami-kernel-default-{architecture}",
}
_ROOT, _ROOT_GIB = "/dev/sda1", 65
_SECOND, _SECOND_GIB = "/dev/sdf", 10

_moto_get_parameter = SimpleSystemManagerBackend.get_parameter
_moto_describe_images = EC2Backend.describe_images
_moto_mapping = InstanceResponse._parse_block_device_mapping
_moto_image = Ami.__init__


def apply() -> None:
    SimpleSystemManagerBackend.get_parameter = _get_parameter
    EC2Backend.describe_images = _describe_images
    InstanceResponse._parse_block_device_mapping = _mapping
    Ami.__init__ = _image


def _image(image: Ami, *given: Any, **named: Any) -> None:
    """Moto's `standard` is none of the two types that EC2 has ("Image", EC2 API Reference)."""
    _moto_image(image, *given, **named)
    if image.root_device_type == "standard":
        image.root_device_type = "ebs"


def image_id(region: str, architecture: str, system: str = "") -> str:
    """Of the Deep Learning AMI, or of Amazon Linux, of today: another one in each region."""
    return "ami-" + hashlib.sha256(f"{region} {architecture}{system}".encode()).hexdigest()[:17]


class DeepLearningAmi(Ami):
    def __init__(self, backend: Any, architecture: str, system: str = "") -> None:
        kind = "ARM64 Base" if architecture == "arm64" else "Base"
        name = f"Deep Learning {kind} OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261006"
        super().__init__(
            backend,
            image_id(backend.region_name, architecture, system),
            name=f"al2023-ami-2023.9.20261110.0-kernel-6.1-{architecture}" if system else name,
            description="Supported EC2 instances: see the release notes",
            owner_id=_AMAZON,
            owner_alias="amazon",
            public=True,
            virtualization_type="hvm",
            architecture=architecture,
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name=_ROOT,
            region_name=f"{backend.region_name}a",
        )
        self.platform_details = "Linux/UNIX"
        self.ena_support = True
        self._snapshots = {_ROOT: self._snapshot(_ROOT_GIB), _SECOND: self._snapshot(_SECOND_GIB)}
        backend.snapshots.pop(self.ebs_snapshot.id)

    @property
    def block_device_mappings(self) -> list[dict[str, Any]]:
        devices = [
            {
                "DeviceName": name,
                "Ebs": {
                    "SnapshotId": snapshot.id,
                    "VolumeSize": snapshot.volume_size,
                    "VolumeType": "gp3",
                    "DeleteOnTermination": name == _ROOT,
                    "Encrypted": False,
                },
            }
            for name, snapshot in self._snapshots.items()
        ]
        return [*devices, {"DeviceName": "/dev/sdb", "VirtualName": "ephemeral0"}]

    def _snapshot(self, size_gib: int) -> Any:
        """Only Amazon may list it."""
        backend = self.ec2_backend
        volume = backend.create_volume(size=size_gib, zone_name=f"{backend.region_name}a")
        snapshot = backend.create_snapshot(volume.id, f"Of {self.id}", _AMAZON, from_ami=self.id)
        backend.delete_volume(volume.id)
        snapshot.unlisted = True
        return snapshot


def known_image(backend: Any, ami_id: str) -> Ami | None:
    _bring(backend, [ami_id])
    return backend.amis.get(ami_id)


def _bring(backend: Any, ami_ids: list[str]) -> None:
    """Made when first asked for: moto's volumes and snapshots behind it would cost each new account their time."""
    for architecture, system in product(ARCHITECTURES, _PARAMETERS):
        own = image_id(backend.region_name, architecture, system)
        if own in ami_ids and own not in backend.amis:
            backend.amis[own] = DeepLearningAmi(backend, architecture, system)


def _describe_images(backend: Any, ami_ids: Any = None, filters: Any = None, *more: Any, **others: Any) -> list[Ami]:
    _bring(backend, [*(ami_ids or []), *(filters or {}).get("image-id", [])])
    return _moto_describe_images(backend, ami_ids, filters, *more, **others)


def _get_parameter(backend: Any, name: str) -> Any:
    if not name.startswith((_DEEP_LEARNING, _LINUX)):
        return _moto_get_parameter(backend, name)
    for architecture, system in product(ARCHITECTURES, _PARAMETERS):
        if name == _PARAMETERS[system].format(architecture=architecture):
            value = image_id(backend.region_name, architecture, system)
            return Parameter(
                account_id=backend.account_id,
                name=name,
                value=value,
                parameter_type="String",
                description=None,
                allowed_pattern=None,
                keyid=None,
                last_modified_date=utcnow(),
                version=40,
                data_type="aws:ec2:image",
            )
    return None


def _mapping(response: InstanceResponse) -> list[dict[str, Any]]:
    """Over what the image has, device by device."""
    image = known_image(response.ec2_backend, response._get_param("ImageId") or "")
    if not isinstance(image, DeepLearningAmi):
        return _moto_mapping(response)
    of_image = {one["DeviceName"]: one["Ebs"] for one in image.block_device_mappings if "Ebs" in one}
    merged = dict(of_image)
    for asked in response._get_param("BlockDeviceMappings", []):
        name = asked["DeviceName"]
        if "NoDevice" in asked:
            merged.pop(name, None)
        elif "Ebs" in asked:
            merged[name] = {**merged.get(name, {}), **asked["Ebs"]}
            smallest = of_image.get(name, {}).get("VolumeSize", 1)
            if int(merged[name].get("VolumeSize") or 0) < smallest:
                raise EC2ClientError(
                    "InvalidBlockDeviceMapping",
                    f"Volume of size {merged[name].get('VolumeSize')}GB is smaller than snapshot "
                    f"'{merged[name].get('SnapshotId')}', expect size >= {smallest}GB",
                )
    return [{"DeviceName": name, "VirtualName": None, "NoDevice": None, "Ebs": ebs} for name, ebs in merged.items()]
