"""AWS's own models against the calls of all tests: what is wrong in each way is seen, and what is right passes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

import cbor2
import pytest

from local_aws import LocalAws, check_calls
from local_aws.aws_call import AwsCall, identify
from local_aws.contract import compiled_pattern, wrong_in_answer, wrong_in_request
from local_aws.http_message import Request, Response
from local_aws.models import service_model
from local_aws.server import InvalidCalls

LAUNCH = {"Action": "RunInstances", "Version": "2016-11-15", "MinCount": "1", "MaxCount": "1", "InstanceType": "g5.xlarge"}
PUBLISH = {"Action": "Publish", "Version": "2010-03-31", "TopicArn": "t", "Message": "m"}
ARN = "arn:aws:sagemaker:us-east-1:123456789012:endpoint-config/a"
SNS = "http://sns.amazonaws.com/doc/2010-03-31/"


def signed(service: str, **headers: str) -> dict[str, str]:
    scope = f"AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/{service}/aws4_request"
    return {"authorization": scope, "content-type": "", **headers}


def form(service: str, fields: dict[str, str]) -> Request:
    return Request("POST", "/", "", signed(service), urlencode(fields).encode())


def structured(service: str, target: str, body: Any) -> Request:
    return Request("POST", "/", "", signed(service, **{"x-amz-target": target}), json.dumps(body).encode())


def cbor(operation: str, body: Any) -> Request:
    headers = signed("monitoring", **{"smithy-protocol": "rpc-v2-cbor"})
    path = f"/service/GraniteServiceVersion20100801/operation/{operation}"
    return Request("POST", path, "", headers, cbor2.dumps(body))


def put(query: str = "", **headers: str) -> Request:
    return Request("PUT", "/bucket/a/key", query, signed("s3", **{name.replace("_", "-"): value for name, value in headers.items()}), b"x")


def mail(body: Any) -> Request:
    return Request("POST", "/v2/email/outbound-emails", "", signed("ses"), json.dumps(body).encode())


def check(request: Request, *expected: str) -> None:
    """Each violation begins so, and there is none besides."""
    found = wrong_in_request(identify(request), request)
    assert len(found) == len(expected) and all(one.startswith(start) for one, start in zip(found, expected)), found


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ()),
        ({"Placement.AvailabilityZone": "us-east-1a", "BlockDeviceMapping.1.Ebs.Encrypted": "true"}, ()),
        ({"TagSpecification.1.ResourceType": "instance", "TagSpecification.1.Tag.1.Key": "a", "TagSpecification.1.Tag.1.Value": ""}, ()),
        ({"SpotPrice": "1"}, ("unknown member SpotPrice",)),
        ({"Placement.Zone": "a"}, ("unknown member Placement.Zone",)),
        ({"InstanceType": "g5.huge"}, ("InstanceType: 'g5.huge' is none of",)),
        ({"MinCount": "one"}, ("MinCount: 'one' is no integer",)),
        ({"EbsOptimized": "yes"}, ("EbsOptimized: 'yes' is no boolean",)),
        ({"SecurityGroupId.2": "sg-1"}, ("the request cannot be read: a list's items are numbered 2",)),
        ({"Version": "2013-10-15"}, ("Version is 2013-10-15, not 2016-11-15",)),
    ],
)
def test_a_form_of_ec2(changed: dict[str, str], expected: tuple[str, ...]) -> None:
    check(form("ec2", LAUNCH | changed), *expected)


def test_a_required_member_that_is_missing() -> None:
    check(form("ec2", {name: value for name, value in LAUNCH.items() if name != "MaxCount"}), "required member MaxCount is missing")
    check(structured("secretsmanager", "secretsmanager.GetSecretValue", {}), "required member SecretId is missing")
    check(mail({"Destination": {}}), "required member Content is missing")


def test_a_form_of_the_query_protocol() -> None:
    attribute = {"MessageAttributes.entry.1.Name": "team", "MessageAttributes.entry.1.Value.DataType": "String"}
    check(form("sns", PUBLISH | attribute))
    check(form("sns", PUBLISH | attribute | {"MessageAttributes.entry.1.Value.Type": "x"}), "unknown member MessageAttributes['team'].Type")
    check(form("sns", PUBLISH | {"MessageAttributes.1.Name": "team"}), "the request cannot be read: ['1'] where only 'entry' is due")
    check(form("sns", {**PUBLISH, "Action": "Shout"}), "no operation Shout of sns")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ()),
        ({"NextToken": None}, ()),  # null is absent
        ({"MaxResults": 0}, ("MaxResults: the value 0 is below 1",)),
        ({"MaxResults": 101}, ("MaxResults: the value 101 is above 100",)),
        ({"MaxResults": "10"}, ("MaxResults: '10' is no integer",)),
        ({"StatusEquals": "Running"}, ("StatusEquals: 'Running' is none of",)),
        ({"NameContains": "a" * 64}, ("NameContains: the length 64 is above 63",)),
        ({"NameContains": "a b"}, ("NameContains: 'a b' does not match",)),
        ({"Status": "x"}, ("unknown member Status",)),
    ],
)
def test_a_request_in_json(changed: dict[str, Any], expected: tuple[str, ...]) -> None:
    check(structured("sagemaker", "SageMaker.ListTrainingJobs", {"MaxResults": 10} | changed), *expected)


def test_what_names_the_operation_of_json() -> None:
    check(structured("sagemaker", "Sage.ListTrainingJobs", {}), "X-Amz-Target is Sage.ListTrainingJobs")
    check(structured("sagemaker", "SageMaker.ListMachines", {}), "no operation ListMachines of sagemaker")
    check(structured("sagemaking", "SageMaker.ListTrainingJobs", {}), "no operation ListTrainingJobs of sagemaking")


def test_a_request_in_cbor() -> None:
    check(cbor("ListMetrics", {"Namespace": "CWAgent", "RecentlyActive": "PT3H"}))
    check(cbor("ListMetrics", {"Namespace": "CWAgent", "RecentlyActive": "PT1H"}), "RecentlyActive: 'PT1H' is none of PT3H")
    check(cbor("ListMetrics", {"Metric": "x"}), "unknown member Metric")


def test_a_request_of_s3() -> None:
    check(put(if_none_match="*", x_amz_meta_team="vision", x_amz_date="x", content_length="1", x_amz_checksum_crc32="AAAAAA=="))
    check(put("x-id=PutObject&X-Amz-Signature=abc"))
    check(put("acl=yes"), "unknown member ?acl")
    wanted = signed("s3", **{"x-amz-object-attributes": "ETag, Size"})
    assert wrong_in_request(AwsCall("s3", "GetObjectAttributes", "us-east-1", "s3"), Request("GET", "/bucket/key", "attributes", wanted, b"")) == ["ObjectAttributes[1]: 'Size' is none of ETag, Checksum, ObjectParts, StorageClass, ObjectSize"]
    check(put(x_amz_colour="red"), "unknown member x-amz-colour")
    check(put(x_amz_storage_class="COLD"), "StorageClass: 'COLD' is none of")
    deletion = b'<Delete><Object><Key>a</Key></Object><Silent>true</Silent></Delete>'
    check(Request("POST", "/bucket", "delete", signed("s3"), deletion), "unknown member Delete.Silent")


@pytest.mark.parametrize("body", [b"\xff", b"{", b"[]", b"<a>", b"null", b'"text"', b"Action=RunInstances&Version=2016-11-15&=&.=&InstanceType..=x"])
def test_a_body_that_cannot_be_read_is_a_violation(body: bytes) -> None:
    headers = [signed("ec2"), signed("sagemaker", **{"x-amz-target": "SageMaker.DeleteTags"}), signed("monitoring", **{"smithy-protocol": "rpc-v2-cbor"}), signed("ses")]
    paths = ["/", "/", "/service/GraniteServiceVersion20100801/operation/PutMetricData", "/v2/email/outbound-emails"]
    for path, header in zip(paths, headers):
        request = Request("POST", path, "", header, body)
        assert wrong_in_request(identify(request), request), (path, header)
    request = Request("POST", "/bucket", "delete", signed("s3"), body)
    assert wrong_in_request(identify(request), request)


def test_an_answer_that_is_made_up() -> None:
    call = identify(structured("sagemaker", "SageMaker.DescribeEndpointConfig", {}))
    right = {"EndpointConfigName": "a", "EndpointConfigArn": ARN, "ProductionVariants": [{"VariantName": "v"}], "CreationTime": 1.5}

    def found(**changed: Any) -> list[str]:
        members = {name: value for name, value in (right | changed).items() if value is not None}
        return wrong_in_answer(call, Response(200, [], json.dumps(members).encode()))

    assert found() == []
    assert found(CreationTime=None) == ["required member CreationTime is missing"]
    assert found(CreatedAt=1) == ["unknown member CreatedAt"]
    assert found(ProductionVariants=[{"VariantName": "v", "InstanceType": "ml.g5.huge"}])[0].startswith("ProductionVariants[0].InstanceType: 'ml.g5.huge' is none of")


def test_an_answer_in_xml() -> None:
    call = identify(form("sns", {"Action": "ListTopics", "Version": "2010-03-31"}))

    def found(inner: str) -> list[str]:
        text = f'<ListTopicsResponse xmlns="{SNS}"><ListTopicsResult>{inner}</ListTopicsResult><ResponseMetadata/></ListTopicsResponse>'
        return wrong_in_answer(call, Response(200, [], text.encode()))

    assert found("<Topics><member><TopicArn>a</TopicArn></member></Topics>") == []
    assert found("<Topics><member><Arn>a</Arn></member></Topics>") == ["unknown member Topics[0].Arn"]
    assert found("<Count>1</Count>") == ["unknown member Count"]


def test_every_pattern_of_the_services_in_use_can_be_read() -> None:
    services = "ec2 sns cloudwatch ses tag application-autoscaling servicequotas pricing ce ssm secretsmanager events iam sts cloudformation sagemaker ecr"
    shapes = [service_model(one).shape_for(name) for one in services.split() for name in service_model(one).shape_names]
    patterns = {shape.metadata["pattern"] for shape in shapes if "pattern" in shape.metadata}
    unread = [one for one in patterns if compiled_pattern(one) is None]
    assert len(patterns) > 500 and all("$" in one.rstrip("$") for one in unread) and len(unread) <= 2, unread


def send(aws: LocalAws, fields: dict[str, str]) -> None:
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(aws.endpoint, urlencode(fields).encode(), signed("sns")))


def test_a_wrong_call_fails_its_test_if_not_announced(aws: LocalAws) -> None:
    send(aws, PUBLISH | {"Text": "m"})
    aws.clear_calls()
    with pytest.raises(InvalidCalls, match="sns:Publish request: unknown member Text"):
        check_calls(aws)
    aws.expect_violation("sns:Publish", "unknown member Text")
    send(aws, PUBLISH | {"Text": "m"})
    check_calls(aws)
    aws.expect_violation("sns:Publish", "unknown member Text")
    with pytest.raises(InvalidCalls, match="there was none"):
        check_calls(aws)
