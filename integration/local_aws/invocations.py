"""Functions of Lambda, as far as somebody invokes them: each answers what a test says. Moto's run in containers.

Source: "Invoke" (AWS Lambda API Reference): an error of the function itself is an answer with status 200 and a header, and a function with
a reserved concurrency of 0 is throttled ("Configuring reserved concurrency for a function", Lambda developer guide).
"""

from __future__ import annotations

import json
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.core import DEFAULT_ACCOUNT_ID

from .aws_call import AwsCall
from .http_message import Request, Response


class Invocations:
    def __init__(self) -> None:
        # By region and function: the response, and the kind of error that it is.
        self._responses: dict[tuple[str, str], tuple[Any, str | None]] = {}
        self._events: dict[tuple[str, str], list[Any]] = {}

    def put(self, region: str, function: str, response: Any, error: str | None) -> None:
        self._responses[region, function] = (response, error)

    def events(self, region: str, function: str) -> list[Any]:
        return self._events.get((region, function), [])

    def clear(self) -> None:
        self._responses.clear()
        self._events.clear()

    def answer(self, call: AwsCall, request: Request) -> Response:
        [function] = call.resources
        if _is_paused(call.region, function):
            return _error(429, "TooManyRequestsException", "Rate Exceeded.")
        if (call.region, function) not in self._responses:
            arn = f"arn:aws:lambda:{call.region}:{DEFAULT_ACCOUNT_ID}:function:{function}"
            return _error(404, "ResourceNotFoundException", f"Function not found: {arn}")
        self._events.setdefault((call.region, function), []).append(json.loads(request.body or b"null"))
        response, error = self._responses[call.region, function]
        headers = [("Content-Type", "application/json"), *([("X-Amz-Function-Error", error)] if error else [])]
        return Response(200, headers, json.dumps(response).encode())


def _is_paused(region: str, function: str) -> bool:
    known = lambda_backends[DEFAULT_ACCOUNT_ID][region].list_functions()
    return any(one.function_name == function and one.reserved_concurrency in (0, "0") for one in known)


def _error(status: int, code: str, message: str) -> Response:
    headers = [("Content-Type", "application/json"), ("x-amzn-ErrorType", code)]
    return Response(status, headers, json.dumps({"Type": "User", "message": message}).encode())
