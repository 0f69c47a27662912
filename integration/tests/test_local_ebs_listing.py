"""DescribeVolumes and DescribeSnapshots as the local AWS answers them, where moto alone would be wrong."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ebs_calls import attach, by, snapshot, snapshots, volumes
from local_aws import LocalAws
from local_aws.client import ACCOUNT, REGION

TAGS = {"Team": "vision", "curfew:marked": "x"}
NOW = datetime.now(timezone.utc).replace(microsecond=0)


def test_volumes_and_snapshots_are_paged(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    for _ in range(12):
        snapshot(aws, aws.create_volume(8, {}))

    for operation, member in (("describe_volumes", "Volumes"), ("describe_snapshots", "Snapshots")):
        pages = list(ec2.get_paginator(operation).paginate(PaginationConfig={"PageSize": 5}))
        assert [len(page[member]) for page in pages] == [5, 5, 2]
        assert len(getattr(ec2, operation)()[member]) == 12, "all, where no size is asked for"


def test_a_page_of_volumes_has_500_at_most(aws: LocalAws) -> None:
    volume_id = aws.create_volume(9, TAGS, create_time=NOW - timedelta(days=3))
    aws.change(copy={"resource": volume_id, "region": REGION, "count": 500})

    assert len(volumes(aws, MaxResults=1000)) == 500
    likes = aws.client("ec2").describe_volumes()["Volumes"]
    assert {(one["Size"], one["CreateTime"], len(one["Tags"])) for one in likes} == {(9, NOW - timedelta(days=3), 2)}


@pytest.mark.parametrize("list_of", [volumes, snapshots])
def test_what_cannot_be_asked_for(aws: LocalAws, list_of: Any) -> None:
    volume_id = aws.create_volume(8, {})
    ids = {"VolumeIds": [volume_id]} if list_of is volumes else {"SnapshotIds": [snapshot(aws, volume_id)]}

    for asked, error in (
        ({"MaxResults": 4}, "InvalidParameterValue.*maxResults"),
        ({"MaxResults": 5, **ids}, "InvalidParameterCombination.*(volume|snapshot)Set"),
        ({"NextToken": "anything"}, "InvalidParameterValue.*token"),
        (by("colour", "blue"), "InvalidParameterValue.*'colour' is invalid"),
        (by("state", "available"), "InvalidParameterValue.*'state' is invalid"),
        (by("tag-key", *map(str, range(201))), "FilterLimitExceeded"),
    ):
        with pytest.raises(ClientError, match=error):
            list_of(aws, **asked)


def test_unknown_ids_are_errors_and_filters_on_them_find_nothing(aws: LocalAws) -> None:
    known = aws.create_volume(8, {})

    with pytest.raises(ClientError, match="InvalidVolume.NotFound.*'vol-00000000000000000'"):
        volumes(aws, VolumeIds=[known, "vol-00000000000000000"])
    with pytest.raises(ClientError, match="InvalidSnapshot.NotFound.*'snap-00000000000000000'"):
        snapshots(aws, SnapshotIds=["snap-00000000000000000"])
    assert volumes(aws, **by("volume-id", known, "vol-00000000000000000")) == [known]
    assert snapshots(aws, **by("snapshot-id", "snap-00000000000000000")) == []


def test_what_a_listing_misses_is_found_by_its_id(aws: LocalAws) -> None:
    volume_id = aws.create_volume(8, {}, unlisted=True)
    snapshot_id = snapshot(aws, volume_id)
    aws.set_snapshot(snapshot_id, unlisted=True)

    assert volumes(aws) == volumes(aws, **by("status", "available")) == snapshots(aws, OwnerIds=["self"]) == []
    assert volumes(aws, VolumeIds=[volume_id]) == volumes(aws, **by("volume-id", volume_id)) == [volume_id]
    assert (
        snapshots(aws, SnapshotIds=[snapshot_id]) == snapshots(aws, **by("snapshot-id", snapshot_id)) == [snapshot_id]
    )


def test_filters_of_volumes(aws: LocalAws) -> None:
    plain = aws.create_volume(8, {}, create_time=NOW - timedelta(days=3))
    mine = aws.create_volume(100, TAGS, volume_type="io2", asked={"Iops": 100, "AvailabilityZone": "us-east-1b"})
    hanging = aws.create_volume(8, {"Team": "nlp"})
    instance_id = attach(aws, hanging)
    copy = aws.client("ec2").create_volume(AvailabilityZone="us-east-1a", SnapshotId=snapshot(aws, mine))["VolumeId"]

    for name, value, expected in (
        ("tag-key", "Team", {mine, hanging}),
        ("tag-key", "team", set()),
        ("tag-key", "curfew:*", {mine}),
        ("tag:Team", "vision", {mine}),
        ("tag:Team", "*", {mine, hanging}),
        ("status", "available", {plain, mine, copy}),
        ("volume-type", "io2", {mine}),
        ("size", "100", {mine, copy}),
        ("availability-zone", "us-east-1b", {mine}),
        ("snapshot-id", aws.volume(copy)["SnapshotId"], {copy}),
        ("create-time", (NOW - timedelta(days=3)).strftime("%Y-%m-%d*"), {plain}),
        ("multi-attach-enabled", "true", set()),
        ("attachment.instance-id", instance_id, {hanging, *root_of(aws, instance_id)}),
        ("attachment.delete-on-termination", "false", {hanging}),
        ("attachment.status", "detaching", set()),
        ("attachment.device", "/dev/sd?", {hanging}),
    ):
        assert set(volumes(aws, **by(name, value))) == expected, name
    both = {"Filters": [*by("tag-key", "Team")["Filters"], *by("status", "available")["Filters"]]}
    assert volumes(aws, **both) == [mine]


def root_of(aws: LocalAws, instance_id: str) -> set[str]:
    devices = aws.instance(instance_id)["BlockDeviceMappings"]
    return {one["Ebs"]["VolumeId"] for one in devices if one["DeviceName"] == "/dev/sda1"}


def test_filters_and_owners_of_snapshots(aws: LocalAws) -> None:
    volume_id = aws.create_volume(8, {})
    own = snapshot(aws, volume_id, **{"curfew:snapshot-of": volume_id})
    plain = snapshot(aws, volume_id)
    shared = snapshot(aws, volume_id, Team="nlp")
    aws.set_snapshot(shared, owner_id="999999999999")
    aws.set_snapshot(plain, state="error")

    assert set(snapshots(aws)) == {own, plain, shared}
    assert set(snapshots(aws, OwnerIds=["self"])) == set(snapshots(aws, OwnerIds=[ACCOUNT])) == {own, plain}
    assert snapshots(aws, OwnerIds=["self"], SnapshotIds=[shared]) == []
    assert snapshots(aws, OwnerIds=["self"], **by("tag-key", "curfew:snapshot-of")) == [own]
    assert snapshots(aws, **by("status", "error")) == [plain]
    assert set(snapshots(aws, **by("volume-id", volume_id))) == {own, plain, shared}
