"""DescribeVolumes and DescribeSnapshots as EC2 words them: indented XML, with all that a real volume has.

Source: the responses in "DescribeVolumes" and "DescribeSnapshots" and the types "Volume" and "Snapshot" (Amazon EC2 API
Reference).
"""

from __future__ import annotations

from .storage import Disk, Snapshot, Volume
from .xml_pages import moment

_KEY = "arn:aws:kms:us-east-1:123456789012:key/0ea3fef3-80a7-4778-9d8c-example01234"

_VOLUME = """\
        <item>
            <volumeId>%(id)s</volumeId>
            <volumeArn>arn:aws:ec2:us-east-1:123456789012:volume/%(id)s</volumeArn>
            <ownerId>123456789012</ownerId>
            <size>%(size)s</size>
%(source)s\
            <availabilityZone>us-east-1%(zone)s</availabilityZone>
            <availabilityZoneId>use1-az2</availabilityZoneId>
            <status>%(state)s</status>
            <createTime>%(created)s</createTime>
%(attachments)s\
%(tags)s\
            <volumeType>%(type)s</volumeType>
%(performance)s\
            <encrypted>true</encrypted>
            <kmsKeyId>%(key)s</kmsKeyId>
            <sseType>sse-kms</sseType>
            <multiAttachEnabled>false</multiAttachEnabled>
            <operator>
                <managed>false</managed>
                <hiddenByDefault>false</hiddenByDefault>
            </operator>
        </item>
"""
_ATTACHMENT = """\
            <attachmentSet>
                <item>
                    <volumeId>%(id)s</volumeId>
                    <instanceId>%(instance)s</instanceId>
                    <device>%(device)s</device>
                    <status>attached</status>
                    <attachTime>%(at)s</attachTime>
                    <deleteOnTermination>true</deleteOnTermination>
                    <ebsCardIndex>0</ebsCardIndex>
                </item>
            </attachmentSet>
"""
_TAG = """\
                <item>
                    <key>%s</key>
                    <value>%s</value>
                </item>
"""
_SNAPSHOT = """\
        <item>
            <snapshotId>%(id)s</snapshotId>
            <volumeId>%(volume)s</volumeId>
            <status>completed</status>
            <startTime>%(started)s</startTime>
            <progress>100%%</progress>
            <ownerId>123456789012</ownerId>
            <volumeSize>%(size)s</volumeSize>
            <description/>
%(tags)s\
            <encrypted>true</encrypted>
            <kmsKeyId>%(key)s</kmsKeyId>
            <storageTier>standard</storageTier>
            <transferType>standard</transferType>
            <completionTime>%(started)s</completionTime>
            <fullSnapshotSizeInBytes>%(bytes)s</fullSnapshotSizeInBytes>
            <sseType>sse-kms</sseType>
        </item>
"""


def volume(one: Volume) -> str:
    return _VOLUME % {
        "id": one.id,
        "size": one.disk.size_gib,
        "source": _element("snapshotId", one.source or ""),
        "zone": one.zone,
        "state": "in-use" if one.attached_to else "available",
        "created": moment(one.created),
        "attachments": _attachment(one),
        "tags": _tags(one.tags),
        "type": one.disk.type,
        "performance": _performance(one.disk),
        "key": _KEY,
    }


def snapshot(one: Snapshot) -> str:
    return _SNAPSHOT % {
        "id": one.id,
        "volume": one.volume_id,
        "started": moment(one.started),
        "size": one.size_gib,
        "tags": _tags(one.tags),
        "key": _KEY,
        "bytes": one.size_gib * 2**29,
    }


def _attachment(one: Volume) -> str:
    if one.attached_to is None:
        return _element("attachmentSet", "")
    at = moment(one.attached_to.launched)
    return _ATTACHMENT % {"id": one.id, "instance": one.attached_to.id, "device": one.device, "at": at}


def _performance(disk: Disk) -> str:
    said = {"iops": disk.iops, "throughput": disk.throughput}
    return "".join(_element(name, str(value)) for name, value in said.items() if value is not None)


def _tags(tags: dict[str, str]) -> str:
    """Left out where there are none."""
    items = "".join(_TAG % tag for tag in tags.items())
    return f"            <tagSet>\n{items}            </tagSet>\n" if items else ""


def _element(name: str, value: str) -> str:
    return f"            <{name}>{value}</{name}>\n" if value else f"            <{name}/>\n"
