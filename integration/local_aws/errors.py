"""AWS error answers, each in the wire format of the call it answers, with the wording of the real services."""

from __future__ import annotations

import json
from uuid import uuid4
from xml.sax.saxutils import escape

import cbor2

from .aws_call import AwsCall
from .http_message import Response

_PRINCIPAL = "arn:aws:sts::123456789012:assumed-role/curfew/local"
_ACCOUNT = "123456789012"


def error_response(call: AwsCall, status: int, code: str, message: str) -> Response:
    request_id = str(uuid4())
    headers = [("x-amzn-RequestId", request_id)]
    fault = "Sender" if status < 500 else "Receiver"
    if call.protocol == "cbor":
        headers += [("Content-Type", "application/cbor"), ("smithy-protocol", "rpc-v2-cbor")]
        headers += [("x-amzn-query-error", f"{code};{fault}")]  # CloudWatch came to CBOR from the query protocol
        return Response(status, headers, cbor_error_body(code, message))
    if call.protocol == "json":
        headers += [("Content-Type", "application/x-amz-json-1.0")]
        return Response(status, headers, json.dumps({"__type": code, "message": message}).encode())
    code, message = escape(code), escape(message)
    if call.protocol == "s3":
        # The answer to HEAD has no body, so that the client sees a bare 403 or 404, as with S3.
        text = f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>{request_id}</RequestId></Error>"
        if call.operation.startswith("Head"):
            text = ""
    elif call.protocol == "ec2":
        text = (
            f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
            f"<RequestID>{request_id}</RequestID></Response>"
        )
    else:
        text = (
            f"<ErrorResponse><Error><Type>{fault}</Type><Code>{code}</Code><Message>{message}</Message></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
    return Response(status, headers + [("Content-Type", "text/xml")], text.encode())


def cbor_error_body(code: str, message: str) -> bytes:
    return cbor2.dumps({"__type": f"com.amazonaws.cloudwatch#{code}", "message": message})


def throttle(call: AwsCall) -> tuple[int, str, str]:
    if call.service == "ec2":
        return 503, "RequestLimitExceeded", "Request limit exceeded."
    if call.service == "s3":
        return 503, "SlowDown", "Please reduce your request rate."
    return 400, "Throttling", "Rate exceeded"


def error500(call: AwsCall) -> tuple[int, str, str]:
    if call.service == "ec2":
        return 500, "InternalError", "An internal error has occurred"
    if call.service == "s3":
        return 500, "InternalError", "We encountered an internal error. Please try again."
    return 500, "InternalFailure", "The request processing has failed because of an unknown error."


def access_denied(call: AwsCall) -> tuple[int, str, str]:
    action = call.permissions[0] if call.permissions else call.action
    return _denied(call, f"because no identity-based policy allows the {action} action")


def scp_denied(call: AwsCall) -> tuple[int, str, str]:
    return _denied(call, "with an explicit deny in a service control policy")


def not_found(call: AwsCall) -> tuple[int, str, str]:
    resource = call.resources[0] if call.resources else "unknown"
    if call.service == "s3":
        return 404, "NoSuchKey", "The specified key does not exist."
    if call.service != "ec2":
        return 404, "NotFound", f"{resource} does not exist"
    if resource.startswith("vol-"):
        return 400, "InvalidVolume.NotFound", f"The volume '{resource}' does not exist."
    if resource.startswith("snap-"):
        return 400, "InvalidSnapshot.NotFound", f"The snapshot '{resource}' does not exist."
    return 400, "InvalidInstanceID.NotFound", f"The instance ID '{resource}' does not exist"


def insufficient_capacity(_call: AwsCall) -> tuple[int, str, str]:
    # EC2 lists it among the server errors: the SDKs retry it.
    return (
        500,
        "InsufficientInstanceCapacity",
        "We currently do not have sufficient capacity in the Availability Zone you requested. "
        "Our system will be working on provisioning additional capacity.",
    )


def _denied(call: AwsCall, why: str) -> tuple[int, str, str]:
    action = call.permissions[0] if call.permissions else call.action
    denied = f"User: {_PRINCIPAL} is not authorized to perform: {action} on resource: {_arn(call)} {why}"
    if call.service == "ec2":
        return 403, "UnauthorizedOperation", f"You are not authorized to perform this operation. {denied}"
    return 403, "AccessDenied", denied


def _arn(call: AwsCall) -> str:
    resource = call.resources[0] if call.resources else "*"
    if call.service == "s3":
        return f'"arn:aws:s3:::{resource}"'
    kinds = {"i": "instance", "vol": "volume", "snap": "snapshot"}
    kind = kinds.get(resource.partition("-")[0])
    if call.service == "ec2" and kind:
        return f"arn:aws:ec2:{call.region}:{_ACCOUNT}:{kind}/{resource}"
    return resource
