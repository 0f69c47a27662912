"""CloudFormation, as far as whoever looks after a stack asks it: which resources it made, what it answers, and that it go.
Moto's needs dependencies of its own, and knows no serverless functions.

Source: "DescribeStackResources", "DescribeStacks" and "DeleteStack" (AWS CloudFormation API Reference). A stack is what a test says it is: see `LocalAws.put_stack`.
"""

from __future__ import annotations

from uuid import uuid4
from xml.sax.saxutils import escape

from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response


class Stacks:
    def __init__(self) -> None:
        # By region and name: the type and the physical id of each logical id.
        self._made: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}

    def put(self, name: str, region: str, resources: dict[str, tuple[str, str]]) -> None:
        self._made[region, name] = resources

    def clear(self) -> None:
        self._made.clear()

    def answer(self, call: AwsCall, request: Request) -> Response:
        if call.operation not in ("DescribeStackResources", "DescribeStacks", "DeleteStack"):
            return error_response(call, 400, "InvalidAction", f"Could not find operation {call.operation}")
        name = {**request.query_parameters, **request.form}["StackName"]
        if call.operation == "DeleteStack":  # one that is not there is no error
            self._made.pop((call.region, name), None)
            return _answer(call.operation, "")
        made = self._made.get((call.region, name))
        if made is None:
            return error_response(call, 400, "ValidationError", f"Stack with id {name} does not exist")
        if call.operation == "DescribeStacks":
            return _answer(call.operation, f"<Stacks>{_stack(name, made)}</Stacks>")
        members = "".join(_member(name, logical_id, *resource) for logical_id, resource in made.items())
        return _answer(call.operation, f"<StackResources>{members}</StackResources>")


def _answer(operation: str, result: str) -> Response:
    body = (
        f'<{operation}Response xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/">'
        f"<{operation}Result>{result}</{operation}Result>"
        f"<ResponseMetadata><RequestId>{uuid4()}</RequestId></ResponseMetadata></{operation}Response>"
    )
    return Response(200, [("Content-Type", "text/xml")], body.encode())


def _stack(name: str, made: dict[str, tuple[str, str]]) -> str:
    """Its outputs are the names of what it made."""
    outputs = "".join(
        f"<member><OutputKey>{escape(logical_id)}Name</OutputKey><OutputValue>{escape(physical_id)}</OutputValue></member>"
        for logical_id, (_, physical_id) in made.items()
    )
    return (
        f"<member><StackName>{escape(name)}</StackName><StackStatus>CREATE_COMPLETE</StackStatus>"
        f"<CreationTime>2026-09-01T12:00:00Z</CreationTime><Outputs>{outputs}</Outputs></member>"
    )


def _member(stack: str, logical_id: str, kind: str, physical_id: str) -> str:
    return (
        f"<member><StackName>{escape(stack)}</StackName><LogicalResourceId>{escape(logical_id)}</LogicalResourceId>"
        f"<PhysicalResourceId>{escape(physical_id)}</PhysicalResourceId><ResourceType>{escape(kind)}</ResourceType>"
        "<Timestamp>2026-09-01T12:00:00Z</Timestamp><ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>"
    )
