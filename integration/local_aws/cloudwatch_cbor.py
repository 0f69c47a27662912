"""Translates CloudWatch's rpc-v2-cbor, the only protocol that today's SDKs speak, to the JSON that moto speaks.

Source: "Smithy RPC v2 CBOR protocol" (smithy.io). A timestamp is CBOR tag 1 with epoch seconds; JSON has
bare numbers, so the way back follows the shapes of botocore's model of the service.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Callable

import botocore.session
import cbor2
from botocore.model import ServiceModel

from .aws_call import AwsCall
from .errors import cbor_error_body, error_response
from .http_message import Request, Response

_KEPT_HEADERS = ("x-amzn-requestid", "x-amzn-query-error")
_TARGET = "GraniteServiceVersion20100801"


def carry_out(request: Request, call: AwsCall, forward: Callable[..., Response]) -> Response:
    """Answers a CBOR request by way of `forward(request, **environ)`, which speaks JSON 1.0."""
    if call.operation not in _model().operation_names:
        return error_response(call, 404, "UnknownOperationException", f"no operation {call.operation}")
    try:
        asked = cbor2.loads(request.body) if request.body else {}
    except (cbor2.CBORDecodeError, ValueError) as error:
        return error_response(call, 400, "SerializationException", f"The body is not CBOR: {error}")
    if not isinstance(asked, dict):
        return error_response(call, 400, "SerializationException", "The body is not a map.")
    answer = forward(
        request,
        body=json.dumps(asked, default=_epoch).encode(),
        PATH_INFO="/",
        RAW_URI="/",
        REQUEST_URI="/",
        CONTENT_TYPE="application/x-amz-json-1.0",
        HTTP_X_AMZ_TARGET=f"{_TARGET}.{call.operation}",
    )
    if answer.status != 200:
        return _error(answer)
    shape = _model().operation_model(call.operation).output_shape
    told = json.loads(answer.body or b"{}")
    body = cbor2.dumps(_shaped(told, shape) if shape else {})
    headers = [("Content-Type", "application/cbor"), ("smithy-protocol", "rpc-v2-cbor")]
    return Response(200, headers + _kept(answer), body)


def _error(answer: Response) -> Response:
    """Moto names the error's shape in the body, and the older protocol's code in a header, as AWS does."""
    told = json.loads(answer.body)
    body = cbor_error_body(told["__type"].rpartition("#")[2], told.get("message", ""))
    headers = [("Content-Type", "application/cbor"), ("smithy-protocol", "rpc-v2-cbor")]
    return Response(answer.status, headers + _kept(answer), body)


def _kept(answer: Response) -> list[tuple[str, str]]:
    return [(name, value) for name, value in answer.headers if name.lower() in _KEPT_HEADERS]


@lru_cache(maxsize=1)
def _model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("cloudwatch")


def _epoch(value: Any) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(f"{type(value).__name__} does not occur in CloudWatch's requests")


def _shaped(value: Any, shape: Any) -> Any:
    """The JSON value with the types its shape asks for: decoders are strict about 5 and 5.0."""
    if value is None:
        return None
    kind = shape.type_name
    if kind == "structure":
        members = shape.members
        return {
            name: _shaped(member, members[name])
            for name, member in value.items()
            if name in members and member is not None
        }
    if kind == "list":
        return [_shaped(member, shape.member) for member in value]
    if kind == "map":
        return {name: _shaped(member, shape.value) for name, member in value.items()}
    if kind == "timestamp":
        return cbor2.CBORTag(1, _seconds(value))
    if kind in ("double", "float"):
        return float(value)
    if kind in ("integer", "long"):
        return int(value)
    return value


def _seconds(value: Any) -> float:
    """Moto writes some timestamps as numbers and some as ISO 8601 text."""
    if isinstance(value, (int, float)):
        return float(value)
    moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
