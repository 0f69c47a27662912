"""DescribeInstances and DescribeInstanceTypes as EC2 words them: indented XML, with all that a real instance has.

Source: the responses in "DescribeInstances" and "DescribeInstanceTypes" (Amazon EC2 API Reference), and what the API
sends beyond those examples for a Nitro instance in a VPC.
"""

from __future__ import annotations

from textwrap import indent
from typing import Iterable

from .fleet import REGION, TYPES, Machine, Type

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<%s xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">\n'
_REQUEST_ID = "    <requestId>8f7724cf-496f-496e-8fe3-example01234</requestId>\n"

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
                        <code>16</code>
                        <name>running</name>
                    </instanceState>
                    <privateDnsName>%(host)s</privateDnsName>
                    <dnsName/>
                    <reason/>
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
_VOLUME = """\
                        <item>
                            <deviceName>%s</deviceName>
                            <ebs>
                                <volumeId>vol-%s</volumeId>
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


def instances(page: Iterable[Machine], next_token: str | None = None) -> bytes:
    """One page of DescribeInstances: a reservation for each instance."""
    token = f"    <nextToken>{next_token}</nextToken>\n" if next_token else ""
    body = "".join(_reservation(machine) for machine in page)
    return _answer("DescribeInstancesResponse", f"    <reservationSet>\n{body}    </reservationSet>\n{token}")


def instance_types(names: Iterable[str] | None = None) -> bytes:
    """DescribeInstanceTypes, of those named or of all."""
    known = {one.name: one for one in TYPES}
    asked = [known[name] for name in (known if names is None else names) if name in known]
    body = "".join(_type(one) for one in asked)
    return _answer("DescribeInstanceTypesResponse", f"    <instanceTypeSet>\n{body}    </instanceTypeSet>\n")


def regions() -> bytes:
    item = f"""\
<item>
    <regionName>{REGION}</regionName>
    <regionEndpoint>ec2.{REGION}.amazonaws.com</regionEndpoint>
    <optInStatus>opt-in-not-required</optInStatus>
</item>
"""
    body = indent(item, " " * 8)
    return _answer("DescribeRegionsResponse", f"    <regionInfo>\n{body}    </regionInfo>\n")


def _answer(name: str, body: str) -> bytes:
    return f"{_HEAD % name}{_REQUEST_ID}{body}</{name}>\n".encode()


def _reservation(machine: Machine) -> str:
    unique = machine.id[2:]
    launched = machine.launched.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    volumes = (("/dev/sda1", f"0{unique[1:]}"), ("/dev/sdf", f"1{unique[1:]}"))
    return _RESERVATION % {
        "hex": unique,
        "id": machine.id,
        "host": machine.host,
        "type": machine.type.name,
        "launched": launched,
        "zone": "abcd"[machine.number % 4],
        "address": machine.address,
        "token": f"{unique[:8]}-{unique[8:12]}-4{unique[13:16]}-8{unique[1:4]}-{unique[5:]}",
        "volumes": "".join(_VOLUME % (*volume, launched) for volume in volumes),
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
