"""EC2 as the local AWS answers those who launch jobs, where moto alone would be wrong."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_aws import LocalAws

ZONE = "us-east-1a"
ON_DEMAND_G, SPOT_G = "L-DB2E81BA", "L-3819A6DF"
MOMENT = 600.0  # seconds: longer than a test takes; tests advance the time
SPOT = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time", "MaxPrice": "0.5"}}


def image(aws: LocalAws, architecture: str = "x86_64") -> str:
    name = f"/aws/service/deeplearning/ami/{architecture}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
    return aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]


def subnet(aws: LocalAws, zone: str = ZONE) -> str:
    wanted = [{"Name": "default-for-az", "Values": ["true"]}, {"Name": "availability-zone", "Values": [zone]}]
    return aws.client("ec2").describe_subnets(Filters=wanted)["Subnets"][0]["SubnetId"]


def profile(aws: LocalAws, name: str = "curfew-job") -> dict[str, str]:
    aws.client("iam").create_instance_profile(InstanceProfileName=name)
    return {"Name": name}


def launch(aws: LocalAws, **asked: Any) -> dict[str, Any]:
    wanted = {"ImageId": image(aws), "InstanceType": "g5.xlarge", "SubnetId": subnet(aws), **asked}
    return aws.client("ec2").run_instances(MinCount=1, MaxCount=1, **wanted)["Instances"][0]


def spot(aws: LocalAws, **asked: Any) -> str:
    return launch(aws, InstanceMarketOptions=SPOT, **asked)["InstanceId"]


def reason(aws: LocalAws, instance_id: str) -> tuple[str, str]:
    told = aws.instance(instance_id)
    return told["State"]["Name"], told.get("StateReason", {}).get("Code", "")


def seen(aws: LocalAws, instance_id: str) -> bool:
    wanted = [{"Name": "instance-id", "Values": [instance_id]}]
    return bool(aws.client("ec2").describe_instances(Filters=wanted)["Reservations"])


# Images


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_the_deep_learning_image_of_today(aws: LocalAws, architecture: str) -> None:
    found = aws.client("ec2").describe_images(ImageIds=[image(aws, architecture)])["Images"][0]

    assert (found["Architecture"], found["State"], found["RootDeviceType"]) == (architecture, "available", "ebs")
    assert found["PlatformDetails"] == "Linux/UNIX" and "Platform" not in found
    devices = {one["DeviceName"]: one.get("Ebs") for one in found["BlockDeviceMappings"]}
    assert found["RootDeviceName"] in devices and [name for name, ebs in devices.items() if ebs] == ["/dev/sda1", "/dev/sdf"]


# What a launch keeps


def test_what_a_launch_says_is_kept_and_can_be_seen(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    tags = [{"Key": "Team", "Value": "vision"}]
    launched = launch(
        aws,
        IamInstanceProfile=profile(aws),
        InstanceInitiatedShutdownBehavior="terminate",
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2, "HttpEndpoint": "enabled"},
        BlockDeviceMappings=[
            {"DeviceName": "/dev/sda1", "Ebs": {"Encrypted": True, "DeleteOnTermination": True, "VolumeSize": 200}},
            {"DeviceName": "/dev/sdf", "Ebs": {"Encrypted": True, "DeleteOnTermination": True}},
        ],
        TagSpecifications=[{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")],
        UserData="#!/bin/sh\n",
    )["InstanceId"]

    told = aws.instance(launched)
    assert told["MetadataOptions"]["HttpTokens"] == "required" and told["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert told["IamInstanceProfile"]["Arn"].endswith(":instance-profile/curfew-job")
    assert told["Tags"] == tags
    assert {one["DeviceName"]: one["Ebs"]["DeleteOnTermination"] for one in told["BlockDeviceMappings"]} == {
        "/dev/sda1": True,
        "/dev/sdf": True,
    }
    volumes = ec2.describe_volumes()["Volumes"]
    assert sorted(one["Size"] for one in volumes) == [10, 200]
    assert all(one["Encrypted"] and one["VolumeType"] == "gp3" and one["Tags"] == tags for one in volumes)
    asked = {"InstanceId": launched}
    behaviour = ec2.describe_instance_attribute(**asked, Attribute="instanceInitiatedShutdownBehavior")
    assert behaviour["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    data = ec2.describe_instance_attribute(**asked, Attribute="userData")["UserData"]["Value"]
    assert base64.b64decode(data) == b"#!/bin/sh\n"

    ec2.terminate_instances(InstanceIds=[launched])
    assert ec2.describe_volumes()["Volumes"] == []


def test_a_launch_that_forgets_a_device_leaves_its_volume(aws: LocalAws) -> None:
    launched = launch(aws)["InstanceId"]
    volumes = aws.client("ec2").describe_volumes()["Volumes"]
    assert sorted((one["Size"], one["Encrypted"]) for one in volumes) == [(10, False), (65, False)]

    aws.client("ec2").terminate_instances(InstanceIds=[launched])
    assert [one["Size"] for one in aws.client("ec2").describe_volumes()["Volumes"]] == [10]


# What a launch is refused for


def refused(aws: LocalAws, code: str, **asked: Any) -> ClientError:
    with pytest.raises(ClientError) as error:
        launch(aws, **asked)
    assert error.value.response["Error"]["Code"] == code
    return error.value


def test_an_unknown_profile_is_refused_as_by_ec2(aws: LocalAws) -> None:
    error = refused(aws, "InvalidParameterValue", IamInstanceProfile={"Name": "nobody"})
    assert "Value (nobody) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name" in str(error)


def test_user_data_and_tokens_have_a_length(aws: LocalAws) -> None:
    launch(aws, UserData="x" * 16384, ClientToken="t" * 64)
    refused(aws, "InvalidParameterValue", UserData="x" * 16385)
    refused(aws, "InvalidParameterValue", ClientToken="t" * 65)


def test_a_root_below_its_image_is_refused(aws: LocalAws) -> None:
    small = [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 64}}]
    refused(aws, "InvalidBlockDeviceMapping", BlockDeviceMappings=small)


# Capacity and quotas


def test_a_pool_without_capacity(aws: LocalAws) -> None:
    aws.set_capacity(0, "g5.xlarge", zone=ZONE, lifecycle="spot")

    error = refused(aws, "InsufficientInstanceCapacity", InstanceMarketOptions=SPOT)
    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    launch(aws)
    spot(aws, SubnetId=subnet(aws, "us-east-1b"))
    spot(aws, InstanceType="g6.xlarge")


def test_the_same_token_is_answered_though_capacity_has_run_out(aws: LocalAws) -> None:
    aws.set_capacity(1)
    first = launch(aws, ClientToken="t")["InstanceId"]

    assert launch(aws, ClientToken="t")["InstanceId"] == first
    refused(aws, "InsufficientInstanceCapacity", ClientToken="u")


def test_a_quota_counts_what_is_shutting_down(aws: LocalAws) -> None:
    aws.set_quota(SPOT_G, 4, enforced=True)
    aws.end_slowly(MOMENT)
    first = spot(aws)
    refused(aws, "MaxSpotInstanceCountExceeded", InstanceMarketOptions=SPOT)
    launch(aws)  # another quota counts it

    aws.client("ec2").terminate_instances(InstanceIds=[first])
    assert reason(aws, first) == ("shutting-down", "Client.UserInitiatedShutdown")
    refused(aws, "MaxSpotInstanceCountExceeded", InstanceMarketOptions=SPOT)
    aws.advance(MOMENT)
    assert reason(aws, first) == ("terminated", "Client.UserInitiatedShutdown")
    spot(aws)


def test_a_price_that_is_too_low(aws: LocalAws) -> None:
    aws.set_spot_price("g5.xlarge", {ZONE: 0.6})

    refused(aws, "SpotMaxPriceTooLow", InstanceMarketOptions=SPOT)
    spot(aws, SubnetId=subnet(aws, "us-east-1b"))


# How instances end


def test_an_interrupted_instance_is_gone_after_a_moment(aws: LocalAws) -> None:
    launched = spot(aws)
    aws.interrupt(launched, warning_seconds=MOMENT, ending_seconds=MOMENT)

    assert reason(aws, launched)[0] == "running"
    aws.advance(MOMENT)
    assert reason(aws, launched) == ("shutting-down", "Server.SpotInstanceTermination")
    aws.advance(MOMENT)
    assert reason(aws, launched) == ("terminated", "Server.SpotInstanceTermination")
    request = aws.client("ec2").describe_spot_instance_requests()["SpotInstanceRequests"][0]
    assert (request["State"], request["Status"]["Code"]) == ("closed", "instance-terminated-no-capacity")
    aws.forget(launched)
    assert not seen(aws, launched)


@pytest.mark.parametrize("behaviour, expect", [("terminate", "terminated"), ("stop", "stopped")])
def test_an_instance_that_shuts_itself_down(aws: LocalAws, behaviour: str, expect: str) -> None:
    launched = launch(aws, InstanceInitiatedShutdownBehavior=behaviour)["InstanceId"]
    aws.shut_down(launched)

    assert reason(aws, launched) == (expect, "Client.InstanceInitiatedShutdown")


def test_a_token_whose_instance_is_terminated(aws: LocalAws) -> None:
    aws.end_slowly(MOMENT)
    launched = launch(aws, ClientToken="t")["InstanceId"]
    aws.client("ec2").terminate_instances(InstanceIds=[launched])
    assert launch(aws, ClientToken="t")["InstanceId"] == launched

    aws.advance(MOMENT)
    refused(aws, "IdempotentInstanceTerminated", ClientToken="t")


# Eventual consistency


def test_a_new_instance_is_not_seen_at_once(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    aws.hide_new_instances(calls=2)
    launched = launch(aws)["InstanceId"]

    with pytest.raises(ClientError, match="InvalidInstanceID.NotFound"):
        ec2.terminate_instances(InstanceIds=[launched])
    assert not seen(aws, launched)
    with pytest.raises(ClientError, match="InvalidInstanceID.NotFound"):
        ec2.describe_instances(InstanceIds=[launched])
    assert seen(aws, launched)
