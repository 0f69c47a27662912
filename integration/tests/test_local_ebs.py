"""Volumes and snapshots as the local AWS answers for them, where moto alone would be wrong."""

from __future__ import annotations


import pytest
from botocore.exceptions import ClientError

from ebs_calls import by, snapshot, snapshots, tagged
from local_aws import LocalAws
from local_aws.client import ACCOUNT, REGION

TAGS = {"Team": "vision", "curfew:marked": "x"}


# What a volume says of itself


# Snapshots


def test_the_answer_to_create_snapshot_is_pending(aws: LocalAws) -> None:
    volume_id = aws.create_volume(8, TAGS)
    created = aws.client("ec2").create_snapshot(
        VolumeId=volume_id, Description="why", TagSpecifications=tagged("snapshot", {"curfew:snapshot-of": volume_id})
    )

    assert (created["State"], created["VolumeId"], created["OwnerId"]) == ("pending", volume_id, ACCOUNT)
    [found] = aws.client("ec2").describe_snapshots(SnapshotIds=[created["SnapshotId"]])["Snapshots"]
    assert (found["State"], found["Progress"], found["Description"]) == ("completed", "100%", "why")
    assert aws.tags(created["SnapshotId"]) == {"curfew:snapshot-of": volume_id}, "what was specified, not the volume's"
    assert aws.calls("ec2:CreateSnapshot")[0]["permissions"] == ["ec2:CreateSnapshot", "ec2:CreateTags"]
    snapshot(aws, volume_id)
    assert aws.calls("ec2:CreateSnapshot")[1]["permissions"] == ["ec2:CreateSnapshot"]


def test_a_snapshot_behind_an_image_stays(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    snapshot_id = snapshot(aws, aws.create_volume(8, {}), Team="vision")
    device = {"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": snapshot_id}}
    image_id = ec2.register_image(Name="image", RootDeviceName="/dev/sda1", BlockDeviceMappings=[device])["ImageId"]
    assert snapshots(aws) == [snapshot_id]

    with pytest.raises(ClientError, match=f"InvalidSnapshot.InUse.*{snapshot_id} is currently in use by {image_id}"):
        ec2.delete_snapshot(SnapshotId=snapshot_id)
    ec2.deregister_image(ImageId=image_id)
    ec2.delete_snapshot(SnapshotId=snapshot_id)

    assert snapshots(aws) == [] and aws.tags(snapshot_id) == {}
    with pytest.raises(ClientError, match="InvalidSnapshot.NotFound"):
        ec2.delete_snapshot(SnapshotId=snapshot_id)


# Volumes come and go


def test_a_volume_from_a_snapshot(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    original = aws.create_volume(100, {}, asked={"Encrypted": True, "Iops": 4000, "Throughput": 250})
    aws.hold_snapshots()
    snapshot_id = snapshot(aws, original)
    wanted = {"AvailabilityZone": "us-east-1b", "SnapshotId": snapshot_id, "VolumeType": "gp3"}
    with pytest.raises(ClientError, match="IncorrectState.*pending"):
        ec2.create_volume(**wanted)
    aws.complete_snapshots()
    ec2.delete_volume(VolumeId=original)

    restored = aws.volume(ec2.create_volume(**wanted, Iops=4000, Throughput=250)["VolumeId"])

    assert (restored["SnapshotId"], restored["Size"], restored["Encrypted"]) == (snapshot_id, 100, True)
    assert (restored["Iops"], restored["Throughput"]) == (4000, 250)
    assert aws.volume(ec2.create_volume(**wanted, Size=120)["VolumeId"])["Size"] == 120
    with pytest.raises(ClientError, match="InvalidParameterValue.*smaller than snapshot"):
        ec2.create_volume(**wanted, Size=99)


# Tags


def test_tags_that_cannot_be_written(aws: LocalAws) -> None:
    ec2, volume_id = aws.client("ec2"), aws.create_volume(8, {str(key): "" for key in range(49)})

    for tags, error in (
        ({"AWS:x": ""}, "reserved"),
        ({"x": "y" * 257}, "256"),
        ({"x" * 129: ""}, "128"),
        ({"a": "", "b": ""}, "TagLimitExceeded"),
    ):
        named = [{"Key": key, "Value": value} for key, value in tags.items()]
        with pytest.raises(ClientError, match=error):
            ec2.create_tags(Resources=[volume_id], Tags=named)
    assert len(aws.tags(volume_id)) == 49
    aws.change(tag={"resource": volume_id, "region": REGION, "tags": {"aws:x": ""}})
    ec2.create_tags(Resources=[volume_id], Tags=[{"Key": "a", "Value": ""}, {"Key": "1", "Value": "one"}])
    assert len(aws.tags(volume_id)) == 51, "those of AWS do not count, nor what is overwritten"


def test_delete_tags_without_tags_wipes_all(aws: LocalAws) -> None:
    ec2, volume_id = aws.client("ec2"), aws.create_volume(8, TAGS)
    aws.change(tag={"resource": volume_id, "region": REGION, "tags": {"aws:x": ""}})

    ec2.delete_tags(Resources=[volume_id], Tags=[{"Key": "Team", "Value": "nlp"}])
    assert aws.tags(volume_id) == {**TAGS, "aws:x": ""}, "another value is not meant"
    ec2.delete_tags(Resources=[volume_id], Tags=[{"Key": "Team"}])
    assert aws.tags(volume_id) == {"curfew:marked": "x", "aws:x": ""}
    ec2.delete_tags(Resources=[volume_id])
    assert aws.tags(volume_id) == {"aws:x": ""}
    with pytest.raises(ClientError, match="reserved"):
        ec2.delete_tags(Resources=[volume_id], Tags=[{"Key": "aws:x"}])


# Listings


def test_listings_have_pages_and_refuse_what_ec2_refuses(aws: LocalAws) -> None:
    """Amazon EC2 API Reference, "DescribeVolumes" and "DescribeSnapshots"."""
    ec2 = aws.client("ec2")
    made = [snapshot(aws, aws.create_volume(8, {})) for _ in range(6)]
    for operation, member in (("describe_volumes", "Volumes"), ("describe_snapshots", "Snapshots")):
        pages = list(ec2.get_paginator(operation).paginate(PaginationConfig={"PageSize": 5}))
        assert [len(page[member]) for page in pages] == [5, 1]
    for asked, error in (
        ({"MaxResults": 4}, "InvalidParameterValue.*maxResults"),
        ({"MaxResults": 5, "SnapshotIds": made[:1]}, "InvalidParameterCombination.*snapshotSet"),
        (by("state", "available"), "InvalidParameterValue.*'state' is invalid"),
        ({"SnapshotIds": ["snap-00000000000000000"]}, "InvalidSnapshot.NotFound"),
    ):
        with pytest.raises(ClientError, match=error):
            snapshots(aws, **asked)
    assert snapshots(aws, **by("snapshot-id", "snap-00000000000000000")) == []
