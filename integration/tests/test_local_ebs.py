"""Volumes and snapshots as the local AWS answers for them, where moto alone would be wrong."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ebs_calls import attach, by, snapshot, snapshots, state, tagged, volumes
from local_aws import LocalAws, LocalAwsError
from local_aws.client import ACCOUNT, REGION

TAGS = {"Team": "vision", "curfew:marked": "x"}
NOW = datetime.now(timezone.utc).replace(microsecond=0)


# What a volume says of itself


@pytest.mark.parametrize(
    ("kind", "asked", "iops", "throughput"),
    [
        ("gp3", {}, 3000, 125),
        ("gp3", {"Iops": 6000, "Throughput": 500}, 6000, 500),
        ("gp2", {}, 1500, None),
        ("io1", {"Iops": 200}, 200, None),
        ("io2", {"Iops": 9000}, 9000, None),
        ("st1", {}, None, None),
        ("sc1", {}, None, None),
        ("standard", {}, None, None),
    ],
)
def test_iops_and_throughput_by_type(
    aws: LocalAws, kind: str, asked: dict[str, int], iops: int | None, throughput: int | None
) -> None:
    volume = aws.volume(aws.create_volume(500, {}, volume_type=kind, asked=asked))

    assert (volume.get("Iops"), volume.get("Throughput")) == (iops, throughput)


def test_an_unattached_volume(aws: LocalAws) -> None:
    created = aws.client("ec2").create_volume(
        AvailabilityZone="us-east-1b", Size=8, TagSpecifications=tagged("volume", TAGS)
    )
    volume = aws.volume(created["VolumeId"])

    assert created["State"] == "creating"
    assert (volume["State"], volume["VolumeType"], volume["Iops"]) == ("available", "gp2", 100)
    assert (volume["SnapshotId"], volume["MultiAttachEnabled"], volume["Encrypted"]) == ("", False, False)
    assert volume["Attachments"] == [] and "Operator" not in volume
    assert {tag["Key"]: tag["Value"] for tag in volume["Tags"]} == TAGS


def test_an_attached_volume(aws: LocalAws) -> None:
    volume_id = aws.create_volume(8, TAGS)
    instance_id = attach(aws, volume_id)

    volume = aws.volume(volume_id)
    assert volume["State"] == "in-use"
    [attachment] = volume["Attachments"]
    assert (attachment["InstanceId"], attachment["Device"]) == (instance_id, "/dev/sdf")
    assert (attachment["State"], attachment["DeleteOnTermination"]) == ("attached", False)
    root = [one for one in volumes(aws, **by("attachment.instance-id", instance_id)) if one != volume_id]
    assert [aws.volume(one)["Attachments"][0]["DeleteOnTermination"] for one in root] == [True]


def test_what_stays_of_a_terminated_instance(aws: LocalAws) -> None:
    volume_id = aws.create_volume(8, TAGS)
    instance_id = attach(aws, volume_id)

    aws.client("ec2").terminate_instances(InstanceIds=[instance_id])

    assert volumes(aws) == [volume_id]
    assert aws.volume(volume_id)["State"] == "available" and aws.tags(volume_id) == TAGS


def test_fields_of_a_volume(aws: LocalAws) -> None:
    volume_id = aws.create_volume(
        8, {}, state="error", multi_attach_enabled=True, snapshot_id="snap-1", operator_managed=True
    )

    volume = aws.volume(volume_id)
    assert (volume["State"], volume["MultiAttachEnabled"], volume["SnapshotId"]) == ("error", True, "snap-1")
    assert volume["Operator"] == {"Managed": True, "Principal": "eks.amazonaws.com"}

    aws.set_volume(volume_id, state="available")
    attach(aws, volume_id)
    aws.set_volume(volume_id, attachment_state="detaching")
    volume = aws.volume(volume_id)
    assert (volume["State"], volume["Attachments"][0]["State"]) == ("in-use", "detaching")


def test_a_volume_on_something_of_awss_own(aws: LocalAws) -> None:
    volume_id = aws.create_volume(8, {}, associated_resource="arn:aws:lambda:us-east-1:123456789012:instance/1")

    volume = aws.volume(volume_id)
    assert volume["State"] == "in-use" and "InstanceId" not in volume["Attachments"][0]
    assert volume["Attachments"][0]["AssociatedResource"].startswith("arn:aws:lambda:")
    with pytest.raises(ClientError, match="VolumeInUse"):
        aws.client("ec2").delete_volume(VolumeId=volume_id)


@pytest.mark.parametrize("fields", [{"state": "lost"}, {"attachment_state": "attached"}, {"size": 9}])
def test_fields_that_are_none_are_refused(aws: LocalAws, fields: dict[str, Any]) -> None:
    volume_id = aws.create_volume(8, {})

    with pytest.raises(LocalAwsError):
        aws.set_volume(volume_id, **fields)
    with pytest.raises(LocalAwsError, match="no volume vol-0"):
        aws.set_volume("vol-0", state="error")


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


def test_a_snapshot_that_takes_its_time(aws: LocalAws) -> None:
    volume_id = aws.create_volume(8, {})
    quick = snapshot(aws, volume_id)
    aws.hold_snapshots()
    first, second = snapshot(aws, volume_id), snapshot(aws, volume_id)
    assert [state(aws, one) for one in (quick, first, second)] == ["completed", "pending", "pending"]

    aws.complete_snapshots(first)
    assert [state(aws, one) for one in (first, second)] == ["completed", "pending"]
    aws.complete_snapshots()
    third = snapshot(aws, volume_id)
    assert [state(aws, one) for one in (second, third)] == ["completed", "pending"]

    aws.set_snapshot(third, state="error")
    aws.complete_snapshots()
    assert state(aws, third) == "error"
    with pytest.raises(LocalAwsError, match="no snapshot snap-0"):
        aws.complete_snapshots("snap-0")


def test_a_held_account_is_free_after_a_reset(aws: LocalAws) -> None:
    aws.hold_snapshots()
    aws.reset()

    assert state(aws, snapshot(aws, aws.create_volume(8, {}))) == "completed"


def test_a_snapshot_outlives_its_volume_and_does_not_grow(aws: LocalAws) -> None:
    ec2, volume_id = aws.client("ec2"), aws.create_volume(8, {})
    snapshot_id = snapshot(aws, volume_id)
    ec2.modify_volume(VolumeId=volume_id, Size=16)
    ec2.delete_volume(VolumeId=volume_id)

    [found] = ec2.describe_snapshots(SnapshotIds=[snapshot_id])["Snapshots"]
    assert (found["VolumeId"], found["VolumeSize"]) == (volume_id, 8)


def test_a_copy_names_no_volume(aws: LocalAws) -> None:
    volume_id = aws.create_volume(8, {})
    copied = aws.client("ec2").copy_snapshot(SourceRegion=REGION, SourceSnapshotId=snapshot(aws, volume_id, a="b"))

    [found] = aws.client("ec2").describe_snapshots(SnapshotIds=[copied["SnapshotId"]])["Snapshots"]
    assert (found["VolumeId"], found.get("Tags", [])) == ("vol-ffffffff", [])


def test_snapshots_of_what_is_not_there(aws: LocalAws) -> None:
    with pytest.raises(ClientError, match="InvalidVolume.NotFound"):
        snapshot(aws, "vol-00000000000000000")
    with pytest.raises(ClientError, match="IncorrectState"):
        snapshot(aws, aws.create_volume(8, {}, state="creating"))
    assert snapshots(aws) == []


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


def test_deleting_a_volume(aws: LocalAws) -> None:
    ec2, volume_id = aws.client("ec2"), aws.create_volume(8, TAGS)
    instance_id = attach(aws, volume_id)

    with pytest.raises(ClientError, match=f"VolumeInUse.*{volume_id} is currently attached to {instance_id}"):
        ec2.delete_volume(VolumeId=volume_id)
    ec2.detach_volume(VolumeId=volume_id)
    aws.set_volume(volume_id, state="creating")
    with pytest.raises(ClientError, match="IncorrectState"):
        ec2.delete_volume(VolumeId=volume_id)
    aws.set_volume(volume_id, state="available")
    ec2.delete_volume(VolumeId=volume_id)

    assert aws.tags(volume_id) == {}
    for act in (ec2.delete_volume, ec2.create_snapshot):
        with pytest.raises(ClientError, match="InvalidVolume.NotFound"):
            act(VolumeId=volume_id)


def test_attaching_and_detaching(aws: LocalAws) -> None:
    ec2, volume_id, other = aws.client("ec2"), aws.create_volume(8, {}), aws.create_volume(8, {})
    instance_id = attach(aws, volume_id)
    elsewhere = aws.create_volume(8, {}, asked={"AvailabilityZone": "us-east-1b"})
    gone = aws.run_instance("g5.xlarge", {}, state="terminated")

    for volume, instance, device, error in (
        (volume_id, instance_id, "/dev/sdg", "VolumeInUse"),
        (other, instance_id, "/dev/sdf", "InvalidParameterValue.*already in use"),
        (elsewhere, instance_id, "/dev/sdg", "InvalidVolume.ZoneMismatch"),
        (other, gone, "/dev/sdg", "IncorrectState"),
        ("vol-00000000000000000", instance_id, "/dev/sdg", "InvalidVolume.NotFound"),
    ):
        with pytest.raises(ClientError, match=error):
            ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device=device)
    ec2.detach_volume(VolumeId=volume_id)
    assert aws.volume(volume_id)["State"] == "available"
    with pytest.raises(ClientError, match="IncorrectState.*'available' state"):
        ec2.detach_volume(VolumeId=volume_id)


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


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"AvailabilityZone": "us-east-1z"}, "InvalidZone.NotFound"),
        ({"VolumeType": "gp9"}, "InvalidParameterValue"),
        ({"Size": 65_537}, "InvalidParameterValue"),
        ({"Iops": 2999}, "InvalidParameterValue"),
        ({"Throughput": 2001}, "InvalidParameterValue"),
        ({"VolumeType": "gp2", "Iops": 3000}, "InvalidParameterCombination.*iops is not supported for gp2"),
        ({"VolumeType": "io2", "Iops": 100, "Throughput": 125}, "InvalidParameterCombination.*throughput"),
        ({"VolumeType": "st1", "Size": 124}, "InvalidParameterValue"),
        ({"SnapshotId": "snap-00000000000000000"}, "InvalidSnapshot.NotFound"),
        ({"TagSpecifications": tagged("snapshot", TAGS)}, "InvalidParameterValue.*taggable"),
        ({"TagSpecifications": tagged("volume", {"aws:x": ""})}, "InvalidParameterValue.*reserved"),
        ({"TagSpecifications": tagged("volume", {"x": "y" * 257})}, "InvalidParameterValue.*256"),
        ({"TagSpecifications": tagged("volume", {str(key): "" for key in range(51)})}, "TagLimitExceeded"),
    ],
)
def test_volumes_that_there_cannot_be(aws: LocalAws, wanted: dict[str, Any], error: str) -> None:
    with pytest.raises(ClientError, match=error):
        aws.client("ec2").create_volume(
            **{"AvailabilityZone": "us-east-1a", "Size": 200, "VolumeType": "gp3", **wanted}
        )
    assert volumes(aws) == []


def test_nothing_is_made_where_its_tags_are_refused(aws: LocalAws) -> None:
    volume_id = aws.create_volume(8, {})
    for tags in ({"aws:x": ""}, {str(key): "" for key in range(51)}):
        with pytest.raises(ClientError):
            aws.client("ec2").create_snapshot(VolumeId=volume_id, TagSpecifications=tagged("snapshot", tags))
    assert snapshots(aws) == []


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


# Colleagues


def test_what_a_colleague_does_just_before_a_call(aws: LocalAws) -> None:
    ec2, instance_id = aws.client("ec2"), aws.run_instance("g5.xlarge", {})
    kept, lost, hanging = (aws.create_volume(8, {}) for _ in range(3))
    behind = snapshot(aws, kept)
    ec2.attach_volume(VolumeId=hanging, InstanceId=instance_id, Device="/dev/sdg")
    aws.before(
        "ec2:DeleteVolume", {"attach": {"resource": kept, "region": REGION, "instance": instance_id}}, match=kept
    )
    aws.before("ec2:DeleteVolume", {"delete": {"resource": lost, "region": REGION}}, match=lost)
    aws.before("ec2:DeleteVolume", {"detach": {"resource": hanging, "region": REGION}}, match=hanging)
    aws.before("ec2:DeleteSnapshot", {"delete": {"resource": behind, "region": REGION}})

    with pytest.raises(ClientError, match="VolumeInUse"):
        ec2.delete_volume(VolumeId=kept)
    with pytest.raises(ClientError, match="InvalidVolume.NotFound"):
        ec2.delete_volume(VolumeId=lost)
    ec2.delete_volume(VolumeId=hanging)
    with pytest.raises(ClientError, match="InvalidSnapshot.NotFound"):
        ec2.delete_snapshot(SnapshotId=behind)


def test_changes_to_what_is_not_there_are_refused(aws: LocalAws) -> None:
    for change in (
        {"delete": {"resource": "vol-0", "region": REGION}},
        {"delete": {"resource": "snap-0", "region": REGION}},
        {"detach": {"resource": aws.create_volume(8, {}), "region": REGION}},
        {"attach": {"resource": "vol-0", "region": REGION, "instance": "i-0"}},
    ):
        with pytest.raises(LocalAwsError):
            aws.change(**change)


def test_when_an_instance_was_stopped(aws: LocalAws) -> None:
    said = "User initiated (2026-01-02 03:04:05 GMT)"
    instance_id = aws.run_instance("g5.xlarge", {}, state="stopped", state_transition_reason=said)

    assert aws.instance(instance_id)["StateTransitionReason"] == said
    attach_to = aws.create_volume(8, {})
    aws.client("ec2").attach_volume(VolumeId=attach_to, InstanceId=instance_id, Device="/dev/sdf")
    assert aws.volume(attach_to)["State"] == "in-use"
