"""EC2 as the local AWS answers those who launch jobs, where moto alone would be wrong."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_aws import LocalAws, LocalAwsError

ZONE = "us-east-1a"
ON_DEMAND_G, SPOT_G = "L-DB2E81BA", "L-3819A6DF"
MOMENT = 1.0  # seconds: long beside a call, on a busy machine as well
SPOT = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time", "MaxPrice": "0.5"}}


def image(aws: LocalAws, architecture: str = "x86_64") -> str:
    name = f"/aws/service/deeplearning/ami/{architecture}/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
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


def test_each_region_has_its_own_image_and_nobody_elses(aws: LocalAws) -> None:
    with pytest.raises(ClientError, match="InvalidAMIID.NotFound"):
        aws.client("ec2", "eu-central-1").describe_images(ImageIds=[image(aws)])
    with pytest.raises(ClientError, match="ParameterNotFound"):
        aws.client("ssm").get_parameter(Name="/aws/service/deeplearning/ami/x86_64/base-with-nothing/latest/ami-id")


def test_an_image_brings_nothing_into_the_account(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    ec2.describe_images(ImageIds=[image(aws)])

    assert ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"] == []
    assert ec2.describe_snapshots()["Snapshots"] == ec2.describe_volumes()["Volumes"] == []


# Types


def test_types_and_offers_are_found_by_wildcards(aws: LocalAws) -> None:
    ec2, wanted = aws.client("ec2"), [{"Name": "instance-type", "Values": ["g5.*", "p4d.*"]}]
    types = {one["InstanceType"] for one in ec2.describe_instance_types(Filters=wanted)["InstanceTypes"]}
    assert {"g5.xlarge", "g5.48xlarge", "p4d.24xlarge"} <= types and "g5g.xlarge" not in types

    offers = ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=wanted)
    assert {one["InstanceType"] for one in offers["InstanceTypeOfferings"]} <= types
    assert ZONE in {one["Location"] for one in offers["InstanceTypeOfferings"]}


def test_types_and_offers_come_in_pages(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    first = ec2.describe_instance_types()
    assert len(first["InstanceTypes"]) == 100 and first["NextToken"]
    pages = ec2.get_paginator("describe_instance_types").paginate()
    assert len({one["InstanceType"] for page in pages for one in page["InstanceTypes"]}) > 1000
    assert len(ec2.describe_instance_type_offerings(MaxResults=5)["InstanceTypeOfferings"]) == 5


@pytest.mark.parametrize("call", ["describe_instance_types", "describe_instance_type_offerings"])
def test_an_unknown_filter_is_refused(aws: LocalAws, call: str) -> None:
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        getattr(aws.client("ec2"), call)(Filters=[{"Name": "colour", "Values": ["red"]}])


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


def test_a_stacks_profiles_are_known(aws: LocalAws) -> None:
    aws.put_stack("curfew", {"JobProfile": ("AWS::IAM::InstanceProfile", "curfew-job")})

    assert launch(aws, IamInstanceProfile={"Name": "curfew-job"})["IamInstanceProfile"]["Arn"].endswith("curfew-job")


def test_user_data_and_tokens_have_a_length(aws: LocalAws) -> None:
    launch(aws, UserData="x" * 16384, ClientToken="t" * 64)
    refused(aws, "InvalidParameterValue", UserData="x" * 16385)
    refused(aws, "InvalidParameterValue", ClientToken="t" * 65)


def test_a_root_below_its_image_is_refused(aws: LocalAws) -> None:
    small = [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 64}}]
    refused(aws, "InvalidBlockDeviceMapping", BlockDeviceMappings=small)


def test_an_unknown_subnet_is_refused(aws: LocalAws) -> None:
    refused(aws, "InvalidSubnetID.NotFound", SubnetId="subnet-0123456789abcdef0")


def test_images_types_and_zones_are_checked_once_it_is_asked_for(aws: LocalAws) -> None:
    launch(aws, ImageId="ami-0123456789abcdef0")
    aws.check_launches()

    launch(aws)
    refused(aws, "InvalidAMIID.NotFound", ImageId="ami-0123456789abcdef0")
    refused(aws, "InvalidParameterValue", InstanceType="g9.huge")
    refused(aws, "InvalidParameterValue", InstanceType="g5g.xlarge")
    refused(aws, "Unsupported", SubnetId=subnet(aws, "us-east-1e"))
    launch(aws, InstanceType="g5g.xlarge", ImageId=image(aws, "arm64"))


# Capacity and quotas


def test_a_pool_without_capacity(aws: LocalAws) -> None:
    aws.set_capacity(0, "g5.xlarge", zone=ZONE, lifecycle="spot")

    error = refused(aws, "InsufficientInstanceCapacity", InstanceMarketOptions=SPOT)
    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    launch(aws)
    spot(aws, SubnetId=subnet(aws, "us-east-1b"))
    spot(aws, InstanceType="g6.xlarge")


def test_capacity_runs_out_and_comes_back(aws: LocalAws) -> None:
    aws.set_capacity(1, "g5.xlarge")
    launch(aws)
    refused(aws, "InsufficientInstanceCapacity", SubnetId=subnet(aws, "us-east-1b"))

    aws.set_capacity(1, "g5.xlarge")
    launch(aws)


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
    time.sleep(MOMENT)
    assert reason(aws, first) == ("terminated", "Client.UserInitiatedShutdown")
    spot(aws)


def test_a_quota_on_demand_names_its_limit(aws: LocalAws) -> None:
    aws.set_quota(ON_DEMAND_G, 8, enforced=True)
    launch(aws)
    error = refused(aws, "VcpuLimitExceeded", InstanceType="g6.2xlarge")
    assert "vCPU limit of 8 allows" in str(error)
    launch(aws, InstanceType="g6.xlarge")


def test_a_quota_that_is_only_told_refuses_nothing(aws: LocalAws) -> None:
    aws.set_quota(ON_DEMAND_G, 0)
    launch(aws)


def test_a_price_that_is_too_low(aws: LocalAws) -> None:
    aws.set_spot_price("g5.xlarge", {ZONE: 0.6})

    refused(aws, "SpotMaxPriceTooLow", InstanceMarketOptions=SPOT)
    spot(aws, SubnetId=subnet(aws, "us-east-1b"))


# How instances end


def test_a_spot_launch_has_a_one_time_request(aws: LocalAws) -> None:
    launched = spot(aws)
    request = aws.client("ec2").describe_spot_instance_requests()["SpotInstanceRequests"][0]

    assert (request["Type"], request["InstanceInterruptionBehavior"], request["SpotPrice"]) == ("one-time", "terminate", "0.5")
    with pytest.raises(ClientError, match="UnsupportedOperation"):
        aws.client("ec2").stop_instances(InstanceIds=[launched])


def test_an_interrupted_instance_is_gone_after_a_moment(aws: LocalAws) -> None:
    launched = spot(aws)
    aws.interrupt(launched, warning_seconds=MOMENT, ending_seconds=MOMENT)

    assert reason(aws, launched)[0] == "running"
    time.sleep(MOMENT)
    assert reason(aws, launched) == ("shutting-down", "Server.SpotInstanceTermination")
    time.sleep(MOMENT)
    assert reason(aws, launched) == ("terminated", "Server.SpotInstanceTermination")
    request = aws.client("ec2").describe_spot_instance_requests()["SpotInstanceRequests"][0]
    assert (request["State"], request["Status"]["Code"]) == ("closed", "instance-terminated-no-capacity")
    aws.forget(launched)
    assert not seen(aws, launched)


def test_only_spot_is_interrupted(aws: LocalAws) -> None:
    with pytest.raises(LocalAwsError, match="no Spot instance"):
        aws.interrupt(launch(aws)["InstanceId"])


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

    time.sleep(MOMENT)
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


def test_a_new_instance_is_seen_after_a_while_and_counts_before(aws: LocalAws) -> None:
    aws.set_quota(ON_DEMAND_G, 4, enforced=True)
    aws.hide_new_instances(seconds=MOMENT)
    launched = launch(aws)["InstanceId"]

    assert not seen(aws, launched)
    refused(aws, "VcpuLimitExceeded")
    aws.set_instance(launched, state="pending")  # the back door sees it
    time.sleep(MOMENT)
    assert reason(aws, launched)[0] == "pending"


def test_reset_forgets_it_all(aws: LocalAws) -> None:
    aws.check_launches()
    aws.set_capacity(0)
    aws.set_quota(ON_DEMAND_G, 0, enforced=True)
    aws.hide_new_instances(calls=9)
    aws.end_slowly(9)
    aws.reset()

    launched = launch(aws, ImageId="ami-0123456789abcdef0")["InstanceId"]
    aws.client("ec2").terminate_instances(InstanceIds=[launched])
    assert reason(aws, launched)[0] == "terminated"
    assert json.dumps(aws.faults()) == "[]"
