"""DescribeInstances and DescribeInstanceTypes as EC2 words them: indented XML, with all that a real instance has.

Source: the responses in "DescribeInstances" and "DescribeInstanceTypes" (Amazon EC2 API Reference), and what the API
sends beyond those examples for a Nitro instance in a VPC.
"""

from __future__ import annotations

from textwrap import indent
from typing import Iterable

from .fleet import TYPES, Machine, Type
from .xml_pages import listing, moment

_RESERVATION = """\
        <item>
            <reservationId>r-%(hex)s</reservationId>
            <ownerId>123456789012</ownerId>
            <groupSet/>
            <instancesSet>
                <item>
                    <instanceId>%(id)s</instanceId>
                    <imageId>ami-0a1b2c3d4e5f67890</imageId>
                    <instanceState>
                        <code>%(state_code)s</code>
                        <name>%(state)s</name>
                    </instanceState>
                    <privateDnsName>%(host)s</privateDnsName>
                    <dnsName/>
%(reason)s\
                    <keyName>ml-platform</keyName>
                    <amiLaunchIndex>0</amiLaunchIndex>
                    <productCodes/>
                    <instanceType>%(type)s</instanceType>
                    <launchTime>%(launched)s</launchTime>
                    <placement>
                        <availabilityZone>us-east-1%(zone)s</availabilityZone>
                        <availabilityZoneId>use1-az2</availabilityZoneId>
                        <groupName/>
                        <tenancy>default</tenancy>
                    </placement>
                    <monitoring>
                        <state>disabled</state>
                    </monitoring>
                    <subnetId>subnet-0f1e2d3c4b5a69788</subnetId>
                    <vpcId>vpc-0123456789abcdef0</vpcId>
                    <privateIpAddress>%(address)s</privateIpAddress>
                    <sourceDestCheck>true</sourceDestCheck>
                    <groupSet>
                        <item>
                            <groupId>sg-0aa11bb22cc33dd44</groupId>
                            <groupName>ml-workers</groupName>
                        </item>
                        <item>
                            <groupId>sg-0ee55ff66aa77bb88</groupId>
                            <groupName>vpc-endpoints</groupName>
                        </item>
                    </groupSet>
                    <architecture>x86_64</architecture>
                    <rootDeviceType>ebs</rootDeviceType>
                    <rootDeviceName>/dev/sda1</rootDeviceName>
                    <blockDeviceMapping>
%(volumes)s\
                    </blockDeviceMapping>
                    <virtualizationType>hvm</virtualizationType>
                    <clientToken>%(token)s</clientToken>
                    <tagSet>
%(tags)s\
                    </tagSet>
                    <hypervisor>xen</hypervisor>
                    <networkInterfaceSet>
%(interfaces)s\
                    </networkInterfaceSet>
                    <iamInstanceProfile>
                        <arn>arn:aws:iam::123456789012:instance-profile/ml-worker</arn>
                        <id>AIPAEXAMPLE1234567890</id>
                    </iamInstanceProfile>
                    <ebsOptimized>true</ebsOptimized>
                    <enaSupport>true</enaSupport>
                    <cpuOptions>
                        <coreCount>%(cores)s</coreCount>
                        <threadsPerCore>2</threadsPerCore>
                    </cpuOptions>
                    <capacityReservationSpecification>
                        <capacityReservationPreference>open</capacityReservationPreference>
                    </capacityReservationSpecification>
                    <hibernationOptions>
                        <configured>false</configured>
                    </hibernationOptions>
                    <metadataOptions>
                        <state>applied</state>
                        <httpTokens>required</httpTokens>
                        <httpPutResponseHopLimit>2</httpPutResponseHopLimit>
                        <httpEndpoint>enabled</httpEndpoint>
                        <httpProtocolIpv6>disabled</httpProtocolIpv6>
                        <instanceMetadataTags>disabled</instanceMetadataTags>
                    </metadataOptions>
                    <enclaveOptions>
                        <enabled>false</enabled>
                    </enclaveOptions>
                    <platformDetails>Linux/UNIX</platformDetails>
                    <usageOperation>RunInstances</usageOperation>
                    <usageOperationUpdateTime>%(launched)s</usageOperationUpdateTime>
                    <privateDnsNameOptions>
                        <hostnameType>ip-name</hostnameType>
                        <enableResourceNameDnsARecord>false</enableResourceNameDnsARecord>
                        <enableResourceNameDnsAAAARecord>false</enableResourceNameDnsAAAARecord>
                    </privateDnsNameOptions>
                    <maintenanceOptions>
                        <autoRecovery>default</autoRecovery>
                        <rebootMigration>default</rebootMigration>
                    </maintenanceOptions>
                    <currentInstanceBootMode>uefi</currentInstanceBootMode>
                    <networkPerformanceOptions>
                        <bandwidthWeighting>default</bandwidthWeighting>
                    </networkPerformanceOptions>
                    <operator>
                        <managed>false</managed>
                    </operator>
                </item>
            </instancesSet>
        </item>
"""
_RUNNING = """\
                    <reason/>
"""
_STOPPED = """\
                    <reason>User initiated (%s GMT)</reason>
                    <stateReason>
                        <code>Client.UserInitiatedShutdown</code>
                        <message>Client.UserInitiatedShutdown: User initiated shutdown</message>
                    </stateReason>
"""
_VOLUME = """\
                        <item>
                            <deviceName>%s</deviceName>
                            <ebs>
                                <volumeId>%s</volumeId>
                                <status>attached</status>
                                <attachTime>%s</attachTime>
                                <deleteOnTermination>true</deleteOnTermination>
                            </ebs>
                        </item>
"""
_TAG = """\
                        <item>
                            <key>%s</key>
                            <value>%s</value>
                        </item>
"""
_INTERFACE = """\
                        <item>
                            <networkInterfaceId>eni-%(hex)s</networkInterfaceId>
                            <subnetId>subnet-0f1e2d3c4b5a69788</subnetId>
                            <vpcId>vpc-0123456789abcdef0</vpcId>
                            <description/>
                            <ownerId>123456789012</ownerId>
                            <status>in-use</status>
                            <macAddress>0a:ff:c1:%(mac)s</macAddress>
                            <privateIpAddress>%(address)s</privateIpAddress>
                            <privateDnsName>%(host)s</privateDnsName>
                            <sourceDestCheck>true</sourceDestCheck>
                            <groupSet>
                                <item>
                                    <groupId>sg-0aa11bb22cc33dd44</groupId>
                                    <groupName>ml-workers</groupName>
                                </item>
                                <item>
                                    <groupId>sg-0ee55ff66aa77bb88</groupId>
                                    <groupName>vpc-endpoints</groupName>
                                </item>
                            </groupSet>
                            <attachment>
                                <attachmentId>eni-attach-%(hex)s</attachmentId>
                                <deviceIndex>%(index)s</deviceIndex>
                                <networkCardIndex>%(index)s</networkCardIndex>
                                <status>attached</status>
                                <attachTime>%(launched)s</attachTime>
                                <deleteOnTermination>true</deleteOnTermination>
                            </attachment>
                            <privateIpAddressesSet>
                                <item>
                                    <privateIpAddress>%(address)s</privateIpAddress>
                                    <privateDnsName>%(host)s</privateDnsName>
                                    <primary>true</primary>
                                </item>
                            </privateIpAddressesSet>
                            <ipv6AddressesSet/>
                            <interfaceType>%(kind)s</interfaceType>
                            <operator>
                                <managed>false</managed>
                            </operator>
                        </item>
"""
_TYPE = """\
        <item>
            <instanceType>%(name)s</instanceType>
            <currentGeneration>true</currentGeneration>
            <bareMetal>false</bareMetal>
            <hypervisor>nitro</hypervisor>
            <vCpuInfo>
                <defaultVCpus>%(vcpus)s</defaultVCpus>
                <defaultCores>%(cores)s</defaultCores>
                <defaultThreadsPerCore>2</defaultThreadsPerCore>
            </vCpuInfo>
            <memoryInfo>
                <sizeInMiB>%(memory)s</sizeInMiB>
            </memoryInfo>
            <instanceStorageSupported>true</instanceStorageSupported>
            <instanceStorageInfo>
                <totalSizeInGB>%(disk_total)s</totalSizeInGB>
                <disks>
                    <item>
                        <sizeInGB>%(disk)s</sizeInGB>
                        <count>%(disks)s</count>
                        <type>ssd</type>
                    </item>
                </disks>
                <nvmeSupport>required</nvmeSupport>
                <encryptionSupport>required</encryptionSupport>
            </instanceStorageInfo>
            <gpuInfo>
                <gpus>
                    <item>
                        <name>%(gpu)s</name>
                        <manufacturer>NVIDIA</manufacturer>
                        <count>%(gpus)s</count>
                        <memoryInfo>
                            <sizeInMiB>%(gpu_memory)s</sizeInMiB>
                        </memoryInfo>
                    </item>
                </gpus>
                <totalGpuMemoryInMiB>%(gpu_memory_total)s</totalGpuMemoryInMiB>
            </gpuInfo>
        </item>
"""


def instances(machines: Iterable[Machine], next_token: str | None = None) -> bytes:
    """One page of DescribeInstances: a reservation for each instance."""
    return listing("DescribeInstances", "reservationSet", map(reservation, machines), next_token)


def instance_types(names: Iterable[str] | None = None) -> bytes:
    """DescribeInstanceTypes, of those named or of all."""
    known = {one.name: one for one in TYPES}
    asked = [known[name] for name in (known if names is None else names) if name in known]
    return listing("DescribeInstanceTypes", "instanceTypeSet", map(_type, asked))


def regions(names: list[str]) -> bytes:
    item = """\
<item>
    <regionName>{0}</regionName>
    <regionEndpoint>ec2.{0}.amazonaws.com</regionEndpoint>
    <optInStatus>opt-in-not-required</optInStatus>
</item>
"""
    return listing("DescribeRegions", "regionInfo", [indent(item.format(name), " " * 8) for name in names])


def reservation(machine: Machine) -> str:
    unique = machine.id[2:]
    launched = moment(machine.launched)
    return _RESERVATION % {
        "hex": unique,
        "id": machine.id,
        "host": machine.host,
        "type": machine.type.name,
        "launched": launched,
        "zone": machine.zone,
        "address": machine.address,
        "token": f"{unique[:8]}-{unique[8:12]}-4{unique[13:16]}-8{unique[1:4]}-{unique[5:]}",
        "state_code": 80 if machine.stopped else 16,
        "state": "stopped" if machine.stopped else "running",
        "reason": _STOPPED % f"{machine.stopped:%Y-%m-%d %H:%M:%S}" if machine.stopped else _RUNNING,
        "volumes": "".join(_VOLUME % (*disk, launched) for disk in machine.disks),
        "tags": "".join(_TAG % tag for tag in _tags(machine)),
        "interfaces": "".join(_interface(machine, index, launched) for index in range(machine.type.interfaces)),
        "cores": machine.type.vcpus // 2,
    }


def _tags(machine: Machine) -> list[tuple[str, str]]:
    return [
        ("Name", f"{machine.team}-train-{machine.number}"),
        ("Team", machine.team),
        ("Owner", f"person{machine.number % 200}@example.com"),
        ("Project", f"project-{machine.number % 37}"),
        ("Environment", "research"),
        ("CostCenter", f"{4000 + machine.number % 60}"),
        ("ManagedBy", "terraform"),
        ("Repository", "https://git.example.com/ml/training-cluster"),
    ]


def _interface(machine: Machine, index: int, launched: str) -> str:
    return _INTERFACE % {
        "hex": f"{index:x}{machine.id[3:]}",
        "mac": ":".join(f"{part:02x}" for part in (machine.number >> 8 & 255, machine.number & 255, index)),
        "address": machine.address,
        "host": machine.host,
        "index": index,
        "kind": "efa" if machine.type.interfaces > 1 else "interface",
        "launched": launched,
    }


def _type(one: Type) -> str:
    return _TYPE % {
        "name": one.name,
        "vcpus": one.vcpus,
        "cores": one.vcpus // 2,
        "memory": one.memory_gib * 1024,
        "disk_total": one.disks * one.disk_gb,
        "disk": one.disk_gb,
        "disks": one.disks,
        "gpu": one.gpu,
        "gpus": one.gpus,
        "gpu_memory": one.gpu_memory_mib,
        "gpu_memory_total": one.gpu_memory_mib * one.gpus,
    }
