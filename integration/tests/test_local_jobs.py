"""EC2 as the local AWS answers those who launch jobs, where moto alone would be wrong."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_aws import LocalAws

ZONE = "us-east-1a"
SPOT_G = "L-3819A6DF"
MOMENT = 600.0  # seconds: longer than a test takes; tests advance the time
SPOT = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time", "MaxPrice": "0.5"}}


def image(aws: LocalAws, architecture: str = "x86_64") -> str:
    name = f"/aws/service/deeplearning/ami/{architecture}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
    return aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]


def subnet(aws: LocalAws, zone: str = ZONE) -> str:
    wanted = [{"Name": "default-for-az", "Values": ["true"]}, {"Name": "availability-zone", "Values": [zone]}]
    return aws.client("ec2").describe_subnets(Filters=wanted)["Subnets"][0]["SubnetId"]


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
