"""Requests and answers of services that moto does not have, by botocore's model of each, as moto reads and writes those that it has."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.serialize import SerializationContext, get_serializer_class
from moto.core.utils import get_service_model

from .aws_call import AwsCall
from .http_message import Request, Response


def asked(call: AwsCall, request: Request) -> dict[str, Any]:
    """The members of a request in the query protocol."""
    operation = get_service_model(call.service).operation_model(call.operation)
    return PROTOCOL_PARSERS["query"](operation).parse({"values": {**request.query_parameters, **request.form}})


def answer(call: AwsCall, members: dict[str, Any]) -> Response:
    operation = get_service_model(call.service).operation_model(call.operation)
    written = get_serializer_class(call.service, "query")(operation, SerializationContext(str(uuid4()))).serialize(members)
    return Response(written["status_code"], list(written["headers"].items()), written["body"].encode())
