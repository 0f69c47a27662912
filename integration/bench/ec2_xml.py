"""DescribeInstances, DescribeInstanceTypes and DescribeRegions as EC2 words them, with all that a real instance has.

Source: the responses in "DescribeInstances" and "DescribeInstanceTypes" (Amazon EC2 API Reference), and what the API
sends beyond those examples for a Nitro instance in a VPC.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .fleet import TYPES, Machine, Type
from .xml_pages import item, listing, moment, tags

_OWNER = "123456789012"
_GROUPS = [
    {"groupId": "sg-0aa11bb22cc33dd44", "groupName": "ml-workers"},
    {"groupId": "sg-0ee55ff66aa77bb88", "groupName": "vpc-endpoints"},
]
_NETWORK = {"subnetId": "subnet-0f1e2d3c4b5a69788", "vpcId": "vpc-0123456789abcdef0"}
_FALSE, _TRUE = "false", "true"


def instances(machines: Iterable[Machine], next_token: str | None = None) -> bytes:
    """One page of DescribeInstances: a reservation for each instance."""
    return listing("DescribeInstances", "reservationSet", map(reservation, machines), next_token)


def instance_types(names: Iterable[str] | None = None) -> bytes:
    """DescribeInstanceTypes, of those named or of all."""
    known = {one.name: one for one in TYPES}
    asked = [known[name] for name in (known if names is None else names) if name in known]
    return listing("DescribeInstanceTypes", "instanceTypeSet", map(_type, asked))


def regions(names: list[str]) -> bytes:
    endpoints = ((name, f"ec2.{name}.amazonaws.com") for name in names)
    items = [{"regionName": name, "regionEndpoint": at, "optInStatus": "opt-in-not-required"} for name, at in endpoints]
    return listing("DescribeRegions", "regionInfo", map(item, items))


def reservation(machine: Machine) -> str:
    own = {"ownerId": _OWNER, "groupSet": "", "instancesSet": [_instance(machine)]}
    return item({"reservationId": f"r-{machine.id[2:]}", **own})


def _instance(machine: Machine) -> dict[str, Any]:
    unique, launched = machine.id[2:], moment(machine.launched)
    return {
        "instanceId": machine.id,
        "imageId": "ami-0a1b2c3d4e5f67890",
        "instanceState": {"code": 80, "name": "stopped"} if machine.stopped else {"code": 16, "name": "running"},
        "privateDnsName": machine.host,
        "dnsName": "",
        **_reason(machine),
        "keyName": "ml-platform",
        "amiLaunchIndex": 0,
        "productCodes": "",
        "instanceType": machine.type.name,
        "launchTime": launched,
        "placement": {
            "availabilityZone": f"us-east-1{machine.zone}",
            "availabilityZoneId": "use1-az2",
            "groupName": "",
            "tenancy": "default",
        },
        "monitoring": {"state": "disabled"},
        **_NETWORK,
        "privateIpAddress": machine.address,
        "sourceDestCheck": _TRUE,
        "groupSet": _GROUPS,
        "architecture": "x86_64",
        "rootDeviceType": "ebs",
        "rootDeviceName": "/dev/sda1",
        "blockDeviceMapping": [
            {
                "deviceName": device,
                "ebs": {"volumeId": volume, "status": "attached", "attachTime": launched, "deleteOnTermination": _TRUE},
            }
            for device, volume in machine.disks
        ],
        "virtualizationType": "hvm",
        "clientToken": f"{unique[:8]}-{unique[8:12]}-4{unique[13:16]}-8{unique[1:4]}-{unique[5:]}",
        "tagSet": tags(
            {
                "Name": f"{machine.team}-train-{machine.number}",
                "Team": machine.team,
                "Owner": f"person{machine.number % 200}@example.com",
                "Project": f"project-{machine.number % 37}",
                "Environment": "research",
                "CostCenter": f"{4000 + machine.number % 60}",
                "ManagedBy": "terraform",
                "Repository": "https://git.example.com/ml/training-cluster",
            }
        ),
        "hypervisor": "xen",
        "networkInterfaceSet": [_interface(machine, index, launched) for index in range(machine.type.interfaces)],
        "iamInstanceProfile": {
            "arn": f"arn:aws:iam::{_OWNER}:instance-profile/ml-worker",
            "id": "AIPAEXAMPLE1234567890",
        },
        "ebsOptimized": _TRUE,
        "enaSupport": _TRUE,
        "cpuOptions": {"coreCount": machine.type.vcpus // 2, "threadsPerCore": 2},
        "capacityReservationSpecification": {"capacityReservationPreference": "open"},
        "hibernationOptions": {"configured": _FALSE},
        "metadataOptions": {
            "state": "applied",
            "httpTokens": "required",
            "httpPutResponseHopLimit": 2,
            "httpEndpoint": "enabled",
            "httpProtocolIpv6": "disabled",
            "instanceMetadataTags": "disabled",
        },
        "enclaveOptions": {"enabled": _FALSE},
        "platformDetails": "Linux/UNIX",
        "usageOperation": "RunInstances",
        "usageOperationUpdateTime": launched,
        "privateDnsNameOptions": {
            "hostnameType": "ip-name",
            "enableResourceNameDnsARecord": _FALSE,
            "enableResourceNameDnsAAAARecord": _FALSE,
        },
        "maintenanceOptions": {"autoRecovery": "default", "rebootMigration": "default"},
        "currentInstanceBootMode": "uefi",
        "networkPerformanceOptions": {"bandwidthWeighting": "default"},
        "operator": {"managed": _FALSE},
    }


def _reason(machine: Machine) -> dict[str, Any]:
    if machine.stopped is None:
        return {"reason": ""}
    by = "Client.UserInitiatedShutdown"
    reason = f"User initiated ({machine.stopped:%Y-%m-%d %H:%M:%S} GMT)"
    return {"reason": reason, "stateReason": {"code": by, "message": f"{by}: User initiated shutdown"}}


def _interface(machine: Machine, index: int, launched: str) -> dict[str, Any]:
    unique = f"{index:x}{machine.id[3:]}"
    mac = ":".join(f"{part:02x}" for part in (machine.number >> 8 & 255, machine.number & 255, index))
    address = {"privateIpAddress": machine.address, "privateDnsName": machine.host}
    return {
        "networkInterfaceId": f"eni-{unique}",
        **_NETWORK,
        "description": "",
        "ownerId": _OWNER,
        "status": "in-use",
        "macAddress": f"0a:ff:c1:{mac}",
        **address,
        "sourceDestCheck": _TRUE,
        "groupSet": _GROUPS,
        "attachment": {
            "attachmentId": f"eni-attach-{unique}",
            "deviceIndex": index,
            "networkCardIndex": index,
            "status": "attached",
            "attachTime": launched,
            "deleteOnTermination": _TRUE,
        },
        "privateIpAddressesSet": [{**address, "primary": _TRUE}],
        "ipv6AddressesSet": "",
        "interfaceType": "efa" if machine.type.interfaces > 1 else "interface",
        "operator": {"managed": _FALSE},
    }


def _type(one: Type) -> str:
    memory = {"sizeInMiB": one.gpu_memory_mib}
    return item(
        {
            "instanceType": one.name,
            "currentGeneration": _TRUE,
            "bareMetal": _FALSE,
            "hypervisor": "nitro",
            "vCpuInfo": {"defaultVCpus": one.vcpus, "defaultCores": one.vcpus // 2, "defaultThreadsPerCore": 2},
            "memoryInfo": {"sizeInMiB": one.memory_gib * 1024},
            "instanceStorageSupported": _TRUE,
            "instanceStorageInfo": {
                "totalSizeInGB": one.disks * one.disk_gb,
                "disks": [{"sizeInGB": one.disk_gb, "count": one.disks, "type": "ssd"}],
                "nvmeSupport": "required",
                "encryptionSupport": "required",
            },
            "gpuInfo": {
                "gpus": [{"name": one.gpu, "manufacturer": "NVIDIA", "count": one.gpus, "memoryInfo": memory}],
                "totalGpuMemoryInMiB": one.gpu_memory_mib * one.gpus,
            },
        }
    )
