"""The local AWS, where it would let another test pass for the wrong reason: faults that do not strike, tokens that launch twice."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from http.client import IncompleteRead
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from hosts.host import wait_for
from local_aws import LocalAws, sns_corrections
from local_aws.faults import DAMAGED
from runtime_api import Function

INTEGRATION = Path(__file__).resolve().parents[1]
TAGS = {"Team": "vision", "curfew:marked": "x"}
SPOT = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time", "MaxPrice": "0.5"}}


@pytest.fixture
def instance_id(aws: LocalAws) -> str:
    launched = aws.run_instance("g5.xlarge", TAGS)
    aws.clear_calls()
    return launched


def stop(aws: LocalAws, instance_id: str) -> None:
    aws.client("ec2").stop_instances(InstanceIds=[instance_id])


def state(aws: LocalAws, instance_id: str) -> str:
    return aws.instance(instance_id)["State"]["Name"]


# Faults


@pytest.mark.parametrize(
    ("service", "operation", "arguments", "fault", "code"),
    [
        ("ec2", "StopInstances", {"InstanceIds": ["i-1"]}, "throttle", "RequestLimitExceeded"),
        ("ec2", "StopInstances", {"InstanceIds": ["i-1"]}, "scp_denied", "UnauthorizedOperation"),
        ("s3", "GetObject", {"Bucket": "b", "Key": "k"}, "throttle", "SlowDown"),
        ("s3", "HeadObject", {"Bucket": "b", "Key": "k"}, "not_found", "404"),
        ("sns", "ListTopics", {}, "access_denied", "AccessDenied"),
        ("ssm", "GetParameter", {"Name": "n"}, "error500", "InternalFailure"),
        ("cloudwatch", "ListMetrics", {}, "throttle", "Throttling"),
    ],
)
def test_errors_speak_each_protocol(
    aws: LocalAws, service: str, operation: str, arguments: dict[str, Any], fault: str, code: str
) -> None:
    aws.fault(f"{service}:{operation}", fault)
    client = aws.client(service)
    method = next(name for name, api in client.meta.method_to_api_mapping.items() if api == operation)
    with pytest.raises(ClientError) as raised:
        getattr(client, method)(**arguments)
    assert raised.value.response["Error"]["Code"] == code


def test_a_reset_call_is_not_carried_out_and_one_whose_answer_is_lost_is(aws: LocalAws, instance_id: str) -> None:
    for fault, then in (("reset", "running"), ("lost_answer", "stopped")):
        aws.fault("ec2:StopInstances", fault)
        with pytest.raises(ConnectionClosedError):
            stop(aws, instance_id)
        assert state(aws, instance_id) == then
    assert [call["status"] for call in aws.calls("ec2:StopInstances")] == [None, None]


@pytest.mark.parametrize("fault", DAMAGED)
def test_a_damaged_answer_was_carried_out(aws: LocalAws, instance_id: str, fault: str) -> None:
    whole = answer_to_stop(aws, instance_id)
    aws.client("ec2").start_instances(InstanceIds=[instance_id])
    aws.fault("ec2:StopInstances", fault)
    if fault == "cut_off":
        with pytest.raises(IncompleteRead) as raised:
            answer_to_stop(aws, instance_id)
        damaged = raised.value.partial
    else:
        damaged = answer_to_stop(aws, instance_id)
    assert len(damaged) == (0 if fault == "empty" else len(whole) // 2)
    assert state(aws, instance_id) == "stopped"


def answer_to_stop(aws: LocalAws, instance_id: str) -> bytes:
    """As it came over the wire."""
    form = f"Action=StopInstances&Version=2016-11-15&InstanceId.1={instance_id}".encode()
    scope = {"Authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/ec2/aws4_request"}
    with urllib.request.urlopen(urllib.request.Request(aws.endpoint, form, scope)) as answer:
        return answer.read()


def test_every_attempt_at_a_struck_call_is_struck(aws: LocalAws, instance_id: str) -> None:
    config = Config(retries={"total_max_attempts": 3})
    persistent = boto3.client("ec2", "us-east-1", endpoint_url=aws.endpoint, config=config)
    aws.fault("ec2:StopInstances", "throttle", every_attempt=True)
    with pytest.raises(ClientError):
        persistent.stop_instances(InstanceIds=[instance_id])
    persistent.stop_instances(InstanceIds=[instance_id])
    calls = aws.calls("ec2:StopInstances")
    assert [call["fault"] for call in calls] == ["throttle", "throttle", "throttle", None]
    assert len({call["invocation"] for call in calls}) == 2
    assert [(rule["seen"], rule["struck"]) for rule in aws.faults()] == [(2, 3)]


def test_a_slow_call_holds_up_no_other(aws: LocalAws, instance_id: str) -> None:
    aws.fault("ec2:StopInstances", "slow", seconds=50)
    slow = threading.Thread(target=stop, args=(aws, instance_id))
    slow.start()
    assert state(aws, instance_id) == "running" and slow.is_alive()
    wait_for(aws.struck, 50, lambda: "it was never called")
    aws.release("ec2:StopInstances")
    assert state(aws, instance_id) == "stopped"
    slow.join()


def test_a_change_between_a_look_and_an_action_is_seen(aws: LocalAws, instance_id: str) -> None:
    protect = {"tag": {"resource": instance_id, "tags": {"curfew:protected": "yes"}}}
    aws.before("ec2:DescribeInstances", protect, match=instance_id, skip=1)
    looks = ["curfew:protected" in {tag["Key"] for tag in aws.instance(instance_id)["Tags"]} for _ in range(2)]
    assert looks == [False, True]


# EC2, where moto alone would be wrong


def launch(aws: LocalAws, token: str = "", zone: str = "us-east-1a", region: str = "us-east-1", **more: Any) -> str:
    named = {"ClientToken": token} if token else {}
    launched = aws.client("ec2", region).run_instances(
        **{"ImageId": "ami-1", "MinCount": 1, "MaxCount": 1, "InstanceType": "g5.xlarge", **named, **more},
        Placement={"AvailabilityZone": zone},
    )
    return launched["Instances"][0]["InstanceId"]


def test_a_token_launches_once_and_in_one_zone_with_one_request(aws: LocalAws) -> None:
    """Amazon EC2 API Reference, "Ensuring idempotency in Amazon EC2 API requests"."""
    aws.fault("ec2:RunInstances", "lost_answer")
    with pytest.raises(ConnectionClosedError):
        launch(aws, "t")
    first = launch(aws, "t")
    assert [one["id"] for one in aws.machines()] == [first]
    assert len({first, launch(aws, "t", zone="us-east-1b"), launch(aws, "t", "eu-central-1a", "eu-central-1")}) == 3
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        launch(aws, "t", InstanceType="g6.xlarge")
    aws.set_capacity(0)
    assert launch(aws, "t") == first
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        launch(aws, "u")
    here = [one["id"] for one in aws.machines() if one["region"] == "us-east-1"]
    aws.client("ec2").terminate_instances(InstanceIds=here)
    with pytest.raises(ClientError, match="IdempotentInstanceTerminated"):
        launch(aws, "t")


def test_calls_at_once_are_serialised(aws: LocalAws) -> None:
    s3, _ = aws.client("s3"), aws.client("ec2")  # made once, as boto3's clients are thread-safe but their making is not
    s3.create_bucket(Bucket="state")
    write = lambda: str(s3.put_object(Bucket="state", Key="k", Body=b"1", IfNoneMatch="*") and "won")  # noqa: E731
    assert outcomes([write] * 8) == {"won": 1, "PreconditionFailed": 7}
    assert list(outcomes([lambda: launch(aws, "t")] * 8).values()) == [8]


def outcomes(acts: list[Callable[[], str]]) -> Counter:
    """How often each answer, or error code, came of doing all of these at once."""

    def outcome(act: Callable[[], str]) -> str:
        try:
            return act()
        except ClientError as error:
            return error.response["Error"]["Code"]

    with ThreadPoolExecutor(len(acts)) as pool:
        return Counter(pool.map(outcome, acts))


def test_ec2_refuses_wrong_calls_about_instances(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    for fields in ({"spot_instance_request": "one-time"}, {"root_device_type": "instance-store"}):
        with pytest.raises(ClientError, match="UnsupportedOperation"):
            stop(aws, aws.run_instance("g5.xlarge", TAGS, **fields))
    known, unknown = aws.run_instance("g5.xlarge", TAGS), "i-00000000000000000"
    for act in (ec2.stop_instances, ec2.start_instances, ec2.terminate_instances):
        with pytest.raises(ClientError, match="InvalidInstanceID.NotFound"):
            act(InstanceIds=[known, unknown])
    with pytest.raises(ClientError, match="InvalidInstanceID.NotFound"):
        ec2.create_tags(Resources=[known, unknown], Tags=[{"Key": "a", "Value": "b"}])
    assert state(aws, known) == "running" and aws.tags(known) == TAGS
    same_zone, protected, elsewhere = launch(aws), launch(aws), launch(aws, zone="us-east-1b")
    ec2.modify_instance_attribute(InstanceId=protected, DisableApiTermination={"Value": True})
    with pytest.raises(ClientError, match="OperationNotPermitted.*disableApiTermination"):
        ec2.terminate_instances(InstanceIds=[same_zone, protected, elsewhere])
    assert [state(aws, one) for one in (same_zone, protected, elsewhere)] == ["running", "running", "terminated"]


def test_ec2_refuses_wrong_launches(aws: LocalAws) -> None:
    launch(aws, "t" * 64, UserData="x" * 16384)
    for asked in ({"UserData": "x" * 16385}, {"ClientToken": "t" * 65}):
        with pytest.raises(ClientError, match="InvalidParameterValue"):
            launch(aws, **asked)
    aws.set_capacity(0, "g5.xlarge", zone="us-east-1a", lifecycle="spot")
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        launch(aws, InstanceMarketOptions=SPOT)
    launch(aws, zone="us-east-1b", InstanceMarketOptions=SPOT)
    aws.set_quota("L-3819A6DF", 4, enforced=True)
    aws.hold_ends()
    [holder] = [one["id"] for one in aws.machines() if one["lifecycle"] == "spot"]
    aws.client("ec2").terminate_instances(InstanceIds=[holder])
    with pytest.raises(ClientError, match="MaxSpotInstanceCountExceeded"):  # what is shutting down still counts
        launch(aws, zone="us-east-1b", InstanceMarketOptions=SPOT)
    aws.gone(holder)
    launch(aws, zone="us-east-1b", InstanceMarketOptions=SPOT)


# EBS and tags


def test_a_snapshot_behind_an_image_stays(aws: LocalAws) -> None:
    ec2, volume = aws.client("ec2"), aws.create_volume(8, {})
    tagged = [{"ResourceType": "snapshot", "Tags": [{"Key": "Team", "Value": "vision"}]}]
    created = ec2.create_snapshot(VolumeId=volume, TagSpecifications=tagged)
    snapshot = created["SnapshotId"]
    assert created["State"] == "pending"
    assert aws.calls("ec2:CreateSnapshot")[0]["permissions"] == ["ec2:CreateSnapshot", "ec2:CreateTags"]
    device = {"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": snapshot}}
    image = ec2.register_image(Name="image", RootDeviceName="/dev/sda1", BlockDeviceMappings=[device])["ImageId"]
    with pytest.raises(ClientError, match=f"InvalidSnapshot.InUse.*{snapshot} is currently in use by {image}"):
        ec2.delete_snapshot(SnapshotId=snapshot)
    ec2.deregister_image(ImageId=image)
    ec2.delete_snapshot(SnapshotId=snapshot)
    assert aws.tags(snapshot) == {}
    with pytest.raises(ClientError, match="InvalidSnapshot.NotFound"):
        ec2.delete_snapshot(SnapshotId=snapshot)


def test_a_volume_is_made_from_a_complete_snapshot_only(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    original = aws.create_volume(100, {}, asked={"Encrypted": True, "Iops": 4000, "Throughput": 250})
    aws.hold_snapshots()
    snapshot = ec2.create_snapshot(VolumeId=original)["SnapshotId"]
    wanted = {"AvailabilityZone": "us-east-1b", "SnapshotId": snapshot, "VolumeType": "gp3"}
    with pytest.raises(ClientError, match="IncorrectState.*pending"):
        ec2.create_volume(**wanted)
    aws.complete_snapshots()
    with pytest.raises(ClientError, match="InvalidParameterValue.*smaller than snapshot"):
        ec2.create_volume(**wanted, Size=99)
    restored = aws.volume(ec2.create_volume(**wanted)["VolumeId"])
    assert (restored["SnapshotId"], restored["Size"], restored["Encrypted"], restored["Iops"]) == (snapshot, 100, True, 3000)


def test_a_volume_is_attached_once_in_its_zone_to_what_runs(aws: LocalAws, instance_id: str) -> None:
    ec2, volume = aws.client("ec2"), aws.create_volume(8, {})
    zone = aws.instance(instance_id)["Placement"]["AvailabilityZone"]
    other = next(one for one in ("us-east-1a", "us-east-1b") if one != zone)
    near, far = (ec2.create_volume(AvailabilityZone=one, Size=8, VolumeType="gp3")["VolumeId"] for one in (zone, other))
    asked = {"InstanceId": instance_id, "Device": "/dev/sdf"}
    with pytest.raises(ClientError, match=f"InvalidVolume.ZoneMismatch.*'{far}'"):
        ec2.attach_volume(VolumeId=far, **asked)
    aws.set_instance(instance_id, state="pending")
    with pytest.raises(ClientError, match="IncorrectState.*is not 'running'"):
        ec2.attach_volume(VolumeId=near, **asked)
    aws.set_instance(instance_id, state="running")
    ec2.attach_volume(VolumeId=near, **asked)
    with pytest.raises(ClientError, match=f"VolumeInUse.*{near} is already attached"):
        ec2.attach_volume(VolumeId=near, InstanceId=instance_id, Device="/dev/sdg")
    another = ec2.create_volume(AvailabilityZone=zone, Size=8, VolumeType="gp3")["VolumeId"]
    with pytest.raises(ClientError, match="InvalidParameterValue.*/dev/sdf is already in use"):
        ec2.attach_volume(VolumeId=another, **asked)
    assert ec2.detach_volume(VolumeId=near)["InstanceId"] == instance_id
    with pytest.raises(ClientError, match="IncorrectState.*'available' state"):
        ec2.detach_volume(VolumeId=near)
    assert aws.volume(near)["State"] == aws.volume(volume)["State"] == "available"


def test_a_volume_grows_four_times_a_day(aws: LocalAws) -> None:
    ec2, volume = aws.client("ec2"), aws.create_volume(8, {})
    for size in (9, 10, 11, 12):
        ec2.modify_volume(VolumeId=volume, Size=size)
    with pytest.raises(ClientError, match="InvalidParameterValue.*smaller"):
        ec2.modify_volume(VolumeId=volume, Size=8)
    with pytest.raises(ClientError, match="VolumeModificationRateExceeded"):
        ec2.modify_volume(VolumeId=volume, Size=13)
    assert aws.volume(volume)["Size"] == 12


def test_tags_as_ec2_takes_them(aws: LocalAws) -> None:
    """DeleteTags without any wipes all but those of AWS."""
    ec2, volume = aws.client("ec2"), aws.create_volume(8, TAGS)
    aws.tag(volume, {"aws:x": ""})
    for tag, error in (({"Key": "AWS:x", "Value": ""}, "reserved"), ({"Key": "x", "Value": "y" * 257}, "256")):
        with pytest.raises(ClientError, match=error):
            ec2.create_tags(Resources=[volume], Tags=[tag])
    ec2.delete_tags(Resources=[volume], Tags=[{"Key": "Team", "Value": "nlp"}])
    assert aws.tags(volume) == {**TAGS, "aws:x": ""}, "another value is not meant"
    ec2.delete_tags(Resources=[volume])
    assert aws.tags(volume) == {"aws:x": ""}


def test_listings_refuse_what_ec2_refuses(aws: LocalAws) -> None:
    ec2 = aws.client("ec2")
    snapshots = [ec2.create_snapshot(VolumeId=aws.create_volume(8, {}))["SnapshotId"] for _ in range(6)]
    pages = list(ec2.get_paginator("describe_snapshots").paginate(PaginationConfig={"PageSize": 5}))
    assert [len(page["Snapshots"]) for page in pages] == [5, 1]
    for asked, error in (
        ({"MaxResults": 4}, "InvalidParameterValue.*maxResults"),
        ({"MaxResults": 5, "SnapshotIds": snapshots[:1]}, "InvalidParameterCombination.*snapshotSet"),
        ({"Filters": [{"Name": "state", "Values": ["available"]}]}, "InvalidParameterValue.*'state' is invalid"),
    ):
        with pytest.raises(ClientError, match=error):
            ec2.describe_snapshots(**asked)


# CloudWatch and S3


@pytest.mark.parametrize(("days", "finest"), [(14, 60), (16, 300), (64, 3600), (456, None)])
def test_a_series_is_found_by_its_dimensions_and_an_old_one_by_longer_periods_only(
    aws: LocalAws, days: int, finest: int | None
) -> None:
    at = datetime.fromtimestamp(datetime.now(timezone.utc).timestamp() // 3600 * 3600, timezone.utc) - timedelta(days=days)
    series = {"VolumeId": "vol-1", "index": "0"}
    aws.put_metrics("AWS/EBS", "VolumeIdleTime", series, [60.0, 59.0], at, step_seconds=60)

    def query(of: dict[str, str], period: int) -> dict[str, Any]:
        dimensions = [{"Name": name, "Value": value} for name, value in of.items()]
        metric = {"Namespace": "AWS/EBS", "MetricName": "VolumeIdleTime", "Dimensions": dimensions}
        return {"Id": f"p{period}x{len(of)}", "MetricStat": {"Metric": metric, "Period": period, "Stat": "SampleCount"}}

    queries = [query(of, period) for period in (60, 300, 3600) for of in (series, {"VolumeId": "vol-1"})]
    span = {"StartTime": at - timedelta(hours=2), "EndTime": datetime.now(timezone.utc)}
    found = aws.client("cloudwatch").get_metric_data(MetricDataQueries=queries, **span)["MetricDataResults"]
    assert {one["Id"] for one in found if one["Values"]} == {
        f"p{period}x2" for period in (60, 300, 3600) if finest and period >= finest
    }


def test_a_machine_cannot_tell_an_absent_object_from_a_forbidden_one(aws: LocalAws) -> None:
    keys = {"aws_access_key_id": "ASIAOFAMACHINE000000", "aws_secret_access_key": "x"}
    machine = boto3.client("s3", "us-east-1", endpoint_url=aws.endpoint, **keys)
    aws.client("s3").create_bucket(Bucket="state")
    for client, absent in ((aws.client("s3"), ("NoSuchKey", "404")), (machine, ("AccessDenied", "403"))):
        for call, code in zip((client.get_object, client.head_object), absent):
            with pytest.raises(ClientError) as refused:
                call(Bucket="state", Key="absent")
            assert refused.value.response["Error"]["Code"] == code


def test_a_machine_cannot_tell_an_absent_secret_from_a_forbidden_one(aws: LocalAws) -> None:
    def code(service: str, call: str, key: str, **asked: Any) -> str | None:
        client = boto3.client(service, "us-east-1", endpoint_url=aws.endpoint, aws_access_key_id=key, aws_secret_access_key="x")
        try:
            getattr(client, call)(**asked)
        except ClientError as refused:
            return refused.response["Error"]["Code"]
        return None

    there = aws.client("secretsmanager").create_secret(Name="hf", SecretString="x")["ARN"]
    machine, person = "ASIAOFAMACHINE000000", "testing"
    for asked, of_a_machine, of_a_person in (
        (there, None, None),
        ("hf", None, None),
        (there[:-6] + "AbCdEf", "AccessDeniedException", "ResourceNotFoundException"),
        ("other", "AccessDeniedException", "ResourceNotFoundException"),
    ):
        found = [code("secretsmanager", "get_secret_value", key, SecretId=asked) for key in (machine, person)]
        assert found == [of_a_machine, of_a_person], asked
    for name, of_a_machine in (("/aws/reference/secretsmanager/other", "AccessDeniedException"), ("/other", "ParameterNotFound")):
        found = [code("ssm", "get_parameter", key, Name=name, WithDecryption=True) for key in (machine, person)]
        assert found == [of_a_machine, "ParameterNotFound"], name


# As a command


def test_the_command_writes_the_environment_of_a_function(tmp_path: Path) -> None:
    file = tmp_path / "new" / "local.env"
    words = [sys.executable, "-m", "local_aws", "--regions", "us-east-1", "--env-file", str(file)]
    process = subprocess.Popen(words, cwd=INTEGRATION, stdout=subprocess.PIPE, text=True)
    try:
        endpoint = process.stdout.readline().strip()
        variables = dict(line.split("=", 1) for line in file.read_text().splitlines())
        with Function(INTEGRATION.parent / "target" / "debug" / "reap-instances", variables) as function:
            event = json.loads((INTEGRATION.parent / "events" / "reap-instances" / "scheduled-rule.json").read_text())
            invocation = function.invoke(event)
    finally:
        process.terminate()
        process.wait()
    assert variables["AWS_ENDPOINT_URL"] == endpoint
    assert invocation.response["mode"] == "observe" and invocation.response["gaps"] == []


# SNS and SES


def test_more_than_ten_messages_in_a_second_suspend_an_email_subscription(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> None:
    sns, clock = aws.client("sns"), [0.0]
    monkeypatch.setattr(sns_corrections, "monotonic", lambda: clock[0])
    topic = sns.create_topic(Name="curfew")["TopicArn"]
    filters = {"all": {}, "nlp": {"Attributes": {"FilterPolicy": json.dumps({"team": ["nlp"]})}}}
    for name, attributes in filters.items():
        sns.subscribe(TopicArn=topic, Protocol="email", Endpoint=f"{name}@example.com", **attributes)
        aws.confirm_subscription(f"{name}@example.com")

    def pending() -> list[str]:
        listed = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        return [one["Endpoint"] for one in listed if one["SubscriptionArn"] == "PendingConfirmation"]

    for _ in range(10):
        clock[0] += 0.09
        sns.publish(TopicArn=topic, Message="x", MessageAttributes={"team": {"DataType": "String", "StringValue": "vision"}})
    assert pending() == []
    sns.publish(TopicArn=topic, Message="x")
    assert pending() == ["all@example.com"]
    aws.confirm_subscription("all@example.com")
    clock[0] += 1.0
    for _ in range(5):
        sns.publish(TopicArn=topic, Message="x")
    assert pending() == []


def test_a_mail_needs_the_permission_for_the_configuration_set_of_its_identity(aws: LocalAws) -> None:
    ses = aws.client("sesv2")
    ses.create_configuration_set(ConfigurationSetName="by-default")
    ses.create_email_identity(EmailIdentity="example.com", ConfigurationSetName="by-default")
    mail = {"Subject": {"Data": "x"}, "Body": {"Text": {"Data": "x"}}}
    ses.send_email(FromEmailAddress="curfew@example.com", Destination={"ToAddresses": ["ada@example.org"]}, Content={"Simple": mail})
    [call] = aws.calls("ses:SendEmail")
    start = "arn:aws:ses:us-east-1:123456789012:"
    assert call["authorized_on"] == [f"{start}identity/example.com", f"{start}configuration-set/by-default"]


def test_the_root_of_an_image_is_a_volume(aws: LocalAws, instance_id: str) -> None:
    image = aws.client("ec2").create_image(InstanceId=instance_id, Name="copy")["ImageId"]
    [found] = aws.client("ec2").describe_images(ImageIds=[image])["Images"]
    assert found["RootDeviceType"] == "ebs"
