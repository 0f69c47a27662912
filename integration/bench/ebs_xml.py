"""DescribeVolumes and DescribeSnapshots as EC2 words them, with all that a real volume has.

Source: the responses in "DescribeVolumes" and "DescribeSnapshots" and the types "Volume" and "Snapshot" (Amazon EC2 API
Reference).
"""

from __future__ import annotations

from typing import Any

from earlier_runs import snapshot_description

from .storage import Snapshot, Volume
from .xml_pages import item, moment, tags

_OWNER = "123456789012"
_ENCRYPTED = {"encrypted": "true", "kmsKeyId": "arn:aws:kms:us-east-1:123456789012:key/0ea3fef3-80a7-4778-9d8c-example01234"}


def volume(one: Volume) -> str:
    return item(
        {
            "volumeId": one.id,
            "volumeArn": f"arn:aws:ec2:us-east-1:{_OWNER}:volume/{one.id}",
            "ownerId": _OWNER,
            "size": one.disk.size_gib,
            "snapshotId": one.source or "",
            "availabilityZone": f"us-east-1{one.zone}",
            "availabilityZoneId": "use1-az2",
            "status": "in-use" if one.attached_to else "available",
            "createTime": moment(one.created),
            "attachmentSet": _attachments(one),
            "tagSet": tags(one.tags),
            "volumeType": one.disk.type,
            "iops": one.disk.iops,
            "throughput": one.disk.throughput,
            **_ENCRYPTED,
            "sseType": "sse-kms",
            "multiAttachEnabled": "false",
            "operator": {"managed": "false", "hiddenByDefault": "false"},
        }
    )


def _attachments(one: Volume) -> list[dict[str, Any]] | str:
    if one.attached_to is None:
        return ""
    return [
        {
            "volumeId": one.id,
            "instanceId": one.attached_to.id,
            "device": one.device,
            "status": "attached",
            "attachTime": moment(one.attached_to.launched),
            "deleteOnTermination": "true",
            "ebsCardIndex": 0,
        }
    ]


def snapshot(one: Snapshot) -> str:
    started = moment(one.started)
    return item(
        {
            "snapshotId": one.id,
            "volumeId": one.volume_id,
            "status": "completed",
            "startTime": started,
            "progress": "100%",
            "ownerId": _OWNER,
            "volumeSize": one.size_gib,
            "description": snapshot_description(one.volume_id) if "curfew:snapshot-of" in one.tags else "",
            "tagSet": tags(one.tags),
            **_ENCRYPTED,
            "storageTier": "standard",
            "transferType": "standard",
            "completionTime": started,
            "fullSnapshotSizeInBytes": one.size_gib * 2**29,
            "sseType": "sse-kms",
        }
    )
