"""EC2 as the local AWS answers it, where moto alone would be wrong."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

import pytest
from botocore.exceptions import ClientError

from local_aws import LocalAws

TAGS = {"Team": "vision"}
NOW = datetime.now(timezone.utc).replace(microsecond=0)


def state(aws: LocalAws, instance_id: str) -> str:
    return aws.instance(instance_id)["State"]["Name"]


def found(aws: LocalAws, name: str, *values: str) -> list[str]:
    pages = (
        aws.client("ec2").get_paginator("describe_instances").paginate(Filters=[{"Name": name, "Values": list(values)}])
    )
    return [i["InstanceId"] for page in pages for r in page["Reservations"] for i in r["Instances"]]


def launch(aws: LocalAws, token: str, zone: str = "us-east-1a", region: str = "us-east-1", **more: Any) -> str:
    launched = aws.client("ec2", region).run_instances(
        ImageId="ami-1",
        MinCount=1,
        MaxCount=1,
        ClientToken=token,
        Placement={"AvailabilityZone": zone},
        **{"InstanceType": "g5.xlarge", **more},
    )
    return launched["Instances"][0]["InstanceId"]


def test_a_token_launches_once_and_in_one_zone_with_one_request(aws: LocalAws) -> None:
    """Amazon EC2 API Reference, "Ensuring idempotency in Amazon EC2 API requests"."""
    aws.fault("ec2:RunInstances", "lost_answer")
    with pytest.raises(Exception, match="closed"):
        launch(aws, "t")
    first = launch(aws, "t")
    assert found(aws, "client-token", "t") == [first]
    assert len({first, launch(aws, "t", zone="us-east-1b"), launch(aws, "t", "eu-central-1a", "eu-central-1")}) == 3
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        launch(aws, "t", InstanceType="g6.xlarge")
    aws.fault("ec2:RunInstances", "insufficient_capacity")
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        launch(aws, "u")
    assert launch(aws, "u") == launch(aws, "u")


# Stop, start, terminate


def test_stop_and_start(aws: LocalAws) -> None:
    instance_id = aws.run_instance("g5.xlarge", TAGS, launch_time=NOW - timedelta(days=3))
    assert aws.instance(instance_id)["LaunchTime"] == NOW - timedelta(days=3)

    aws.client("ec2").stop_instances(InstanceIds=[instance_id])
    stopped = aws.instance(instance_id)
    assert stopped["StateTransitionReason"].startswith("User initiated (")
    assert stopped["StateTransitionReason"].endswith(" GMT)")
    assert stopped["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert stopped["LaunchTime"] == NOW - timedelta(days=3)

    aws.client("ec2").start_instances(InstanceIds=[instance_id])
    assert aws.instance(instance_id)["LaunchTime"] >= NOW


@pytest.mark.parametrize(
    "fields", [{"spot_instance_request": "one-time"}, {"lifecycle": "spot"}, {"root_device_type": "instance-store"}]
)
def test_what_cannot_be_stopped(aws: LocalAws, fields: dict[str, str]) -> None:
    instance_id = aws.run_instance("g5.xlarge", TAGS, **fields)

    with pytest.raises(ClientError, match="UnsupportedOperation"):
        aws.client("ec2").stop_instances(InstanceIds=[instance_id])


def test_one_unknown_id_fails_the_whole_call(aws: LocalAws) -> None:
    instance_id = aws.run_instance("g5.xlarge", TAGS)
    ec2, ids = aws.client("ec2"), [instance_id, "i-00000000000000000"]

    for act in (ec2.stop_instances, ec2.start_instances, ec2.terminate_instances):
        with pytest.raises(ClientError, match="InvalidInstanceID.NotFound"):
            act(InstanceIds=ids)
    with pytest.raises(ClientError, match="InvalidInstanceID.NotFound"):
        ec2.create_tags(Resources=ids, Tags=[{"Key": "a", "Value": "b"}])
    assert state(aws, instance_id) == "running"
    assert aws.tags(instance_id) == TAGS


def test_one_protected_instance_spares_its_zone_only(aws: LocalAws) -> None:
    same_zone, protected, elsewhere = launch(aws, "a"), launch(aws, "b"), launch(aws, "c", zone="us-east-1b")
    ec2 = aws.client("ec2")
    ec2.modify_instance_attribute(InstanceId=protected, DisableApiTermination={"Value": True})

    with pytest.raises(ClientError, match="OperationNotPermitted.*disableApiTermination"):
        ec2.terminate_instances(InstanceIds=[same_zone, protected, elsewhere])

    assert [state(aws, one) for one in (same_zone, protected, elsewhere)] == ["running", "running", "terminated"]


# At once


def outcomes(acts: list[Callable[[], Any]]) -> Counter:
    """How often each answer, or error code, came of doing all of these at once."""

    def outcome(act: Callable[[], Any]) -> str:
        try:
            return str(act())
        except ClientError as error:
            return error.response["Error"]["Code"]

    with ThreadPoolExecutor(len(acts)) as pool:
        return Counter(pool.map(outcome, acts))


def test_a_conditional_write_has_one_winner(aws: LocalAws) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="state")

    def write() -> str:
        s3.put_object(Bucket="state", Key="k", Body=b"1", IfNoneMatch="*")
        return "won"

    assert outcomes([write] * 8) == {"won": 1, "PreconditionFailed": 7}


def test_launches_at_once_with_one_token_are_one_launch(aws: LocalAws) -> None:
    aws.client("ec2")  # made once, as boto3's clients are thread-safe but their making is not

    assert list(outcomes([lambda: launch(aws, "t")] * 8).values()) == [8]
