"""DescribeVolumes and DescribeSnapshots as the local AWS answers them, where moto alone would be wrong."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from ebs_calls import by, snapshot, snapshots, volumes
from local_aws import LocalAws


def test_volumes_and_snapshots_are_paged(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    for _ in range(12):
        snapshot(aws, aws.create_volume(8, {}))

    for operation, member in (("describe_volumes", "Volumes"), ("describe_snapshots", "Snapshots")):
        pages = list(ec2.get_paginator(operation).paginate(PaginationConfig={"PageSize": 5}))
        assert [len(page[member]) for page in pages] == [5, 5, 2]
        assert len(getattr(ec2, operation)()[member]) == 12, "all, where no size is asked for"


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
