"""The proxy: what it records, what it makes fail, and how it starts and ends."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import threading
import urllib.request
from http.client import IncompleteRead
from pathlib import Path
from typing import Any, Callable

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from hosts.host import wait_for
from local_aws import LocalAws
from local_aws.faults import DAMAGED
from runtime_api import Function

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


def sha256(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def test_s3_compares_the_checksums_of_parts(aws: LocalAws) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="state")
    big = {"Bucket": "state", "Key": "big"}
    upload = big | {"UploadId": s3.create_multipart_upload(**big, ChecksumAlgorithm="SHA256")["UploadId"]}
    bodies = [b"a" * 5 * 1024 * 1024, b"b"]
    with pytest.raises(ClientError, match="BadDigest"):
        s3.upload_part(**upload, PartNumber=1, Body=bodies[0], ChecksumSHA256=sha256(bodies[1]))
    parts: list[dict[str, Any]] = []
    for number, body in enumerate(bodies, 1):
        etag = s3.upload_part(**upload, PartNumber=number, Body=body, ChecksumSHA256=sha256(body))["ETag"]
        parts.append({"PartNumber": number, "ETag": etag, "ChecksumSHA256": sha256(body)})

    def complete(*changed: dict[str, Any]) -> None:
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": changed})

    with pytest.raises(ClientError, match="InvalidPart"):
        complete(parts[0], parts[1] | {"ChecksumSHA256": sha256(b"c")})
    with pytest.raises(ClientError, match="missing for part 2"):
        complete(parts[0], {"PartNumber": 2, "ETag": parts[1]["ETag"]})
    complete(*parts)
    head = s3.head_object(**big, ChecksumMode="ENABLED")
    of_digests = sha256(b"".join(hashlib.sha256(body).digest() for body in bodies))
    assert (head["ChecksumSHA256"], head["ChecksumType"]) == (f"{of_digests}-2", "COMPOSITE")
    with pytest.raises(ClientError, match="NoSuchUpload"):
        complete(*parts)


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


def test_a_machine_cannot_tell_an_absent_object_from_a_forbidden_one(aws: LocalAws) -> None:
    machine = boto3.client("s3", "us-east-1", endpoint_url=aws.endpoint, aws_access_key_id="ASIAOFAMACHINE000000", aws_secret_access_key="x")
    aws.client("s3").create_bucket(Bucket="state")
    aws.client("s3").put_object(Bucket="state", Key="there", Body=b"1")

    assert machine.get_object(Bucket="state", Key="there")["Body"].read() == b"1"
    for client, absent in ((aws.client("s3"), ("NoSuchKey", "404")), (machine, ("AccessDenied", "403"))):
        for call, code in zip((client.get_object, client.head_object), absent):
            with pytest.raises(ClientError) as refused:
                call(Bucket="state", Key="absent")
            assert refused.value.response["Error"]["Code"] == code
    assert machine.list_objects_v2(Bucket="state", Prefix="absent")["KeyCount"] == 0


def test_a_slow_call_holds_up_no_other(aws: LocalAws, instance_id: str) -> None:
    aws.fault("ec2:StopInstances", "slow", seconds=50)
    slow = threading.Thread(target=stop, args=(aws, instance_id))
    slow.start()

    assert state(aws, instance_id) == "running"
    assert slow.is_alive()
    wait_for(aws.struck, 50, lambda: "it was never called")
    aws.release("ec2:StopInstances")
    assert state(aws, instance_id) == "stopped"
    slow.join()


def succeeds(act: Callable[[], Any]) -> bool:
    try:
        act()
    except ClientError:
        return False
    return True


def test_somebody_protects_the_instance_between_look_and_act(aws: LocalAws, instance_id: str) -> None:
    tag = {"resource": instance_id, "region": "us-east-1", "tags": {"curfew:protected": "yes"}}
    aws.before("ec2:DescribeInstances", {"tag": tag}, match=instance_id, skip=1)

    looks = [{tag["Key"] for tag in aws.instance(instance_id)["Tags"]} for _ in range(2)]

    assert looks == [{"Team"}, {"Team", "curfew:protected"}]


# Life and death


def started(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "local_aws", *arguments],
        cwd=INTEGRATION,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_writes_the_environment_of_a_function(tmp_path: Path) -> None:
    file = tmp_path / "new" / "local.env"
    with started("--regions", "us-east-1", "--env-file", str(file)) as process:
        endpoint = process.stdout.readline().strip()
        variables = dict(line.split("=", 1) for line in file.read_text().splitlines())
        buckets = LocalAws(endpoint).client("s3").list_buckets()["Buckets"]
        with Function(INTEGRATION.parent / "target" / "debug" / "reap-instances", variables) as function:
            invocation = function.invoke(json.loads((INTEGRATION.parent / "events" / "reap-instances" / "scheduled-rule.json").read_text()))
        process.terminate()
        process.communicate(timeout=30)
    assert variables["AWS_ENDPOINT_URL"] == endpoint
    assert [one["Name"] for one in buckets] == [variables["CURFEW_BUCKET"]]
    assert invocation.response["mode"] == "observe" and invocation.response["gaps"] == []
