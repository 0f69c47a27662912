"""The proxy: what it records, what it makes fail, and how it starts and ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import urllib.request
from http.client import IncompleteRead
from pathlib import Path
from typing import Any, Callable

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from local_aws import LocalAws, LocalAwsError
from local_aws.faults import DAMAGED

INTEGRATION = Path(__file__).resolve().parents[1]
TAGS = {"Team": "vision"}


@pytest.fixture
def instance_id(aws: LocalAws) -> str:
    launched = aws.run_instance("g5.xlarge", TAGS)
    aws.clear_calls()
    return launched


def stop(aws: LocalAws, instance_id: str) -> None:
    aws.client("ec2").stop_instances(InstanceIds=[instance_id])


def state(aws: LocalAws, instance_id: str) -> str:
    return aws.instance(instance_id)["State"]["Name"]


# Recording


def test_calls_are_recorded_in_order(aws: LocalAws, instance_id: str) -> None:
    aws.client("ec2", "eu-central-1").describe_instances()
    stop(aws, instance_id)
    topic = aws.client("sns").create_topic(Name="curfew")["TopicArn"]
    aws.client("sns").publish(TopicArn=topic, Message="hello")

    calls = aws.calls()

    assert [(call["action"], call["region"], call["status"]) for call in calls] == [
        ("ec2:DescribeInstances", "eu-central-1", 200),
        ("ec2:StopInstances", "us-east-1", 200),
        ("sns:CreateTopic", "us-east-1", 200),
        ("sns:Publish", "us-east-1", 200),
    ]
    assert calls[1]["resources"] == [instance_id]
    assert calls[3]["resources"] == [topic]
    assert abs(calls[0]["at"] - time.time()) < 60


def test_s3_operations_and_their_permissions(aws: LocalAws) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="state")
    s3.head_bucket(Bucket="state")
    s3.put_object(Bucket="state", Key="config/curfew.toml", Body=b"x")
    s3.head_object(Bucket="state", Key="config/curfew.toml")
    s3.get_object(Bucket="state", Key="config/curfew.toml")
    s3.list_objects_v2(Bucket="state", Prefix="config/")
    s3.copy_object(Bucket="state", Key="copy", CopySource="state/config/curfew.toml")
    upload = s3.create_multipart_upload(Bucket="state", Key="big")["UploadId"]
    s3.upload_part(Bucket="state", Key="big", UploadId=upload, PartNumber=1, Body=b"x")
    s3.abort_multipart_upload(Bucket="state", Key="big", UploadId=upload)
    s3.delete_object(Bucket="state", Key="copy")

    recorded = [(call["action"].partition(":")[2], call["permissions"]) for call in aws.calls()]

    assert recorded == [
        ("CreateBucket", ["s3:CreateBucket"]),
        ("HeadBucket", ["s3:ListBucket"]),
        ("PutObject", ["s3:PutObject"]),
        ("HeadObject", ["s3:GetObject"]),
        ("GetObject", ["s3:GetObject"]),
        ("ListObjectsV2", ["s3:ListBucket"]),
        ("CopyObject", ["s3:GetObject", "s3:PutObject"]),
        ("CreateMultipartUpload", ["s3:PutObject"]),
        ("UploadPart", ["s3:PutObject"]),
        ("AbortMultipartUpload", ["s3:AbortMultipartUpload"]),
        ("DeleteObject", ["s3:DeleteObject"]),
    ]
    assert aws.calls("s3:GetObject")[0]["resources"] == ["state/config/curfew.toml"]
    assert aws.calls("s3:ListObjectsV2")[0]["resources"] == ["state/config/"]


def test_a_tagged_launch_needs_two_permissions(aws: LocalAws) -> None:
    aws.run_instance("g5.xlarge", TAGS)

    assert aws.permissions() == ["ec2:CreateTags", "ec2:RunInstances"]
    aws.clear_calls()
    assert aws.calls() == [] and aws.counts() == {}


def test_published_messages_can_be_read(aws: LocalAws) -> None:
    topic = aws.client("sns").create_topic(Name="curfew")["TopicArn"]
    team = {"DataType": "String", "StringValue": "vision"}
    aws.client("sns").publish(TopicArn=topic, Message="m", Subject="s", MessageAttributes={"team": team})

    assert aws.messages() == [
        {"region": "us-east-1", "topic": topic, "subject": "s", "message": "m", "attributes": {"team": "vision"}}
    ]


def test_an_email_subscription_waits_for_its_confirmation(aws: LocalAws) -> None:
    sns = aws.client("sns")
    topic = sns.create_topic(Name="curfew")["TopicArn"]

    def listening() -> tuple:
        attributes = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
        [subscription] = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        pending = subscription["SubscriptionArn"] == "PendingConfirmation"
        return attributes["SubscriptionsConfirmed"], attributes["SubscriptionsPending"], pending

    sns.subscribe(TopicArn=topic, Protocol="email", Endpoint="ada@example.com")
    assert listening() == ("0", "1", True)
    aws.confirm_subscription("ada@example.com")
    assert listening() == ("1", "0", False)


# Faults


@pytest.mark.parametrize(
    ("fault", "status", "code", "message"),
    [
        ("throttle", 503, "RequestLimitExceeded", "Request limit exceeded."),
        ("error500", 500, "InternalError", ""),
        ("not_found", 400, "InvalidInstanceID.NotFound", "i-"),
        ("insufficient_capacity", 500, "InsufficientInstanceCapacity", "sufficient capacity"),
        ("access_denied", 403, "UnauthorizedOperation", "because no identity-based policy allows"),
        ("scp_denied", 403, "UnauthorizedOperation", "with an explicit deny in a service control policy"),
    ],
)
def test_ec2_errors(aws: LocalAws, instance_id: str, fault: str, status: int, code: str, message: str) -> None:
    aws.fault("ec2:StopInstances", fault)

    with pytest.raises(ClientError, match=code) as raised:
        stop(aws, instance_id)

    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert message in raised.value.response["Error"]["Message"]
    assert state(aws, instance_id) == "running"
    [call] = aws.calls("ec2:StopInstances")
    assert (call["fault"], call["status"]) == (fault, status)


@pytest.mark.parametrize(
    ("service", "operation", "arguments", "fault", "code"),
    [
        ("s3", "GetObject", {"Bucket": "b", "Key": "k"}, "throttle", "SlowDown"),
        ("s3", "GetObject", {"Bucket": "b", "Key": "k"}, "access_denied", "AccessDenied"),
        ("s3", "HeadObject", {"Bucket": "b", "Key": "k"}, "not_found", "404"),
        ("sns", "ListTopics", {}, "throttle", "Throttling"),
        ("sns", "ListTopics", {}, "access_denied", "AccessDenied"),
        ("ssm", "GetParameter", {"Name": "n"}, "error500", "InternalFailure"),
        ("cloudwatch", "ListMetrics", {}, "throttle", "Throttling"),
    ],
)
def test_errors_speak_each_protocol(
    aws: LocalAws, service: str, operation: str, arguments: dict[str, str], fault: str, code: str
) -> None:
    aws.fault(f"{service}:{operation}", fault)
    client = aws.client(service)
    method = {name: method for method, name in client.meta.method_to_api_mapping.items()}[operation]

    with pytest.raises(ClientError) as raised:
        getattr(client, method)(**arguments)

    assert raised.value.response["Error"]["Code"] == code


def test_custom_errors(aws: LocalAws) -> None:
    aws.client("s3").create_bucket(Bucket="state")
    aws.fault("s3:PutObject", "custom", status=409, code="ConditionalRequestConflict", message="two at once")

    with pytest.raises(ClientError, match="ConditionalRequestConflict.*two at once"):
        aws.client("s3").put_object(Bucket="state", Key="k")


def test_a_reset_call_is_not_carried_out(aws: LocalAws, instance_id: str) -> None:
    aws.fault("ec2:StopInstances", "reset")

    with pytest.raises(ConnectionClosedError):
        stop(aws, instance_id)

    assert state(aws, instance_id) == "running"
    assert aws.calls("ec2:StopInstances")[0]["status"] is None


def test_a_lost_answer_was_carried_out(aws: LocalAws, instance_id: str) -> None:
    aws.fault("ec2:StopInstances", "lost_answer")

    with pytest.raises(ConnectionClosedError):
        stop(aws, instance_id)

    assert state(aws, instance_id) == "stopped"


@pytest.mark.parametrize("fault", DAMAGED)
def test_a_damaged_answer_was_carried_out(aws: LocalAws, instance_id: str, fault: str) -> None:
    whole, damaged = answer_to_stop(aws, instance_id), None
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
    form = f"Action=StopInstances&InstanceId.1={instance_id}".encode()
    scope = {"Authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/ec2/aws4_request"}
    with urllib.request.urlopen(urllib.request.Request(aws.endpoint, form, scope)) as answer:
        return answer.read()


def test_every_attempt_at_a_struck_call_is_struck(aws: LocalAws, instance_id: str) -> None:
    persistent = boto3.client(
        "ec2", "us-east-1", endpoint_url=aws.endpoint, config=Config(retries={"total_max_attempts": 3})
    )
    aws.fault("ec2:StopInstances", "throttle", every_attempt=True)

    assert not succeeds(lambda: persistent.stop_instances(InstanceIds=[instance_id]))
    assert succeeds(lambda: persistent.stop_instances(InstanceIds=[instance_id]))

    calls = aws.calls("ec2:StopInstances")
    assert [call["fault"] for call in calls] == ["throttle", "throttle", "throttle", None]
    assert len({call["invocation"] for call in calls}) == 2
    assert [(rule["seen"], rule["struck"]) for rule in aws.faults()] == [(2, 3)]


def test_a_call_says_by_whose_credentials_it_was_signed(aws: LocalAws) -> None:
    others = {"aws_access_key_id": "ASIAOFAMACHINE000000", "aws_secret_access_key": "secret"}
    aws.client("ec2").describe_instances()
    boto3.client("s3", "us-east-1", endpoint_url=aws.endpoint, **others).list_buckets()
    urllib.request.urlopen(f"{aws.endpoint}/").close()

    assert [call["access_key"] for call in aws.calls()] == ["testing", "ASIAOFAMACHINE000000", None]


def test_a_slow_call_holds_up_no_other(aws: LocalAws, instance_id: str) -> None:
    aws.fault("ec2:StopInstances", "slow", seconds=1.5)
    slow = threading.Thread(target=stop, args=(aws, instance_id))
    slow.start()

    began = time.monotonic()
    assert state(aws, instance_id) == "running"
    assert time.monotonic() - began < 1
    slow.join()
    assert state(aws, instance_id) == "stopped"


def test_rules_choose_calls(aws: LocalAws) -> None:
    first, second = aws.run_instance("g5.xlarge", TAGS), aws.run_instance("g5.xlarge", TAGS)
    aws.fault("ec2:Stop*", "throttle", match=second, skip=1, times=2)
    aws.fault("ec2:DescribeInstances", "throttle", region="eu-central-1", times=None)

    outcomes = []
    for _ in range(4):
        stop(aws, first)
        outcomes.append(succeeds(lambda: stop(aws, second)))

    assert outcomes == [True, False, False, True]
    assert succeeds(lambda: aws.client("ec2").describe_instances())
    assert not any(succeeds(lambda: aws.client("ec2", "eu-central-1").describe_instances()) for _ in range(3))
    assert [rule["struck"] for rule in aws.faults()] == [2, 3]
    aws.clear_faults()
    assert succeeds(lambda: aws.client("ec2", "eu-central-1").describe_instances())


def succeeds(act: Callable[[], Any]) -> bool:
    try:
        act()
    except ClientError:
        return False
    return True


@pytest.mark.parametrize("rule", [{"fault": "meteor"}, {}, {"fault": "reset", "unknown": 1}])
def test_rules_that_make_no_sense_are_refused(aws: LocalAws, rule: dict[str, Any]) -> None:
    with pytest.raises(LocalAwsError):
        aws._control("POST", "faults", {"action": "ec2:*", **rule})


def test_somebody_protects_the_instance_between_look_and_act(aws: LocalAws, instance_id: str) -> None:
    tag = {"resource": instance_id, "region": "us-east-1", "tags": {"curfew:protected": "yes"}}
    aws.before("ec2:DescribeInstances", {"tag": tag}, match=instance_id, skip=1)

    looks = [{tag["Key"] for tag in aws.instance(instance_id)["Tags"]} for _ in range(2)]

    assert looks == [{"Team"}, {"Team", "curfew:protected"}]


def test_somebody_terminates_the_instance_between_look_and_act(aws: LocalAws, instance_id: str) -> None:
    change = {"resource": instance_id, "region": "us-east-1", "state": "terminated"}
    aws.before("ec2:StopInstances", {"instance": change})

    with pytest.raises(ClientError, match="IncorrectInstanceState"):
        stop(aws, instance_id)


def test_a_hook_waits_for_a_call_that_is_carried_out(aws: LocalAws, instance_id: str) -> None:
    aws.before("ec2:StopInstances", {"untag": {"resource": instance_id, "region": "us-east-1", "keys": ["Team"]}})
    aws.fault("ec2:StopInstances", "throttle")

    assert not succeeds(lambda: stop(aws, instance_id))
    assert aws.tags(instance_id) == TAGS
    stop(aws, instance_id)
    assert aws.tags(instance_id) == {}


# Life and death


def started(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "local_aws", *arguments],
        cwd=INTEGRATION,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_says_where_it_is_and_ends_at_once(number: int) -> None:
    with started("--regions", "eu-west-1") as process:
        endpoint = process.stdout.readline().strip()
        ready = urllib.request.urlopen(f"{endpoint}/_local/ready").status
        regions = LocalAws(endpoint).client("ec2").describe_regions()["Regions"]
        began = time.monotonic()
        process.send_signal(number)
        rest, errors = process.communicate(timeout=10)

    assert ready == 200
    assert [region["RegionName"] for region in regions] == ["eu-west-1"]
    assert time.monotonic() - began < 2
    assert (process.returncode, rest, errors) == (0, "", "")


def test_the_command_ends_with_its_parent() -> None:
    script = (
        "import subprocess, sys, os\n"
        "child = subprocess.Popen([sys.executable, '-m', 'local_aws'], stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); os._exit(0)\n"
    )
    orphan = int(subprocess.check_output([sys.executable, "-c", script], cwd=INTEGRATION))
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and alive(orphan):
        time.sleep(0.05)
    assert not alive(orphan)


def alive(process_id: int) -> bool:
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"  # a zombie that nobody has reaped is dead


def test_unknown_controls_are_refused(aws: LocalAws) -> None:
    with pytest.raises(LocalAwsError, match="no GET /_local/nonsense"):
        aws._control("GET", "nonsense")


def test_what_moto_cannot_do_is_seen(aws: LocalAws, instance_id: str, capfd: pytest.CaptureFixture) -> None:
    with pytest.raises(ClientError, match="NotImplemented"):
        aws.client("ec2").describe_instances(Filters=[{"Name": "no-such-filter", "Values": ["x"]}])
    assert "no-such-filter" in capfd.readouterr().err
