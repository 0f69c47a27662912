"""CloudFormation, as far as whoever looks after a stack asks it: which resources it made, what it answers, and that it go.
Moto's needs dependencies of its own, and knows no serverless functions.

Source: "DescribeStackResources", "DescribeStacks", "CreateStack", "UpdateStack" and "DeleteStack" (AWS CloudFormation API Reference). A
stack is what a test says it is (see `LocalAws.put_stack`), or one that is created of a template: of that its roles and instance profiles
are made in IAM, and nothing else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import uuid4
from xml.sax.saxutils import escape

import yaml
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam import iam_backends

from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response


_OPERATIONS = ("DescribeStackResources", "DescribeStacks", "CreateStack", "UpdateStack", "DeleteStack")


@dataclass
class _Created:
    """A stack that was created of a template."""

    template: str
    parameters: dict[str, str]
    status: str


class Stacks:
    def __init__(self) -> None:
        # By region and name: the type and the physical id of each logical id.
        self._made: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        self._created: dict[tuple[str, str], _Created] = {}

    def put(self, name: str, region: str, resources: dict[str, tuple[str, str]]) -> None:
        self._made[region, name] = resources

    def clear(self) -> None:
        self._made.clear()
        self._created.clear()

    def answer(self, call: AwsCall, request: Request) -> Response:
        if call.operation not in _OPERATIONS:
            return error_response(call, 400, "InvalidAction", f"Could not find operation {call.operation}")
        form = {**request.query_parameters, **request.form}
        name = form["StackName"]
        if call.operation in ("CreateStack", "UpdateStack"):
            return self._deploy(call, name, form)
        if call.operation == "DeleteStack":  # one that is not there is no error
            self._made.pop((call.region, name), None)
            created = self._created.pop((call.region, name), None)
            if created is not None:
                _unmake(created)
            return _answer(call.operation, "")
        made = self._made.get((call.region, name))
        if made is None:
            return error_response(call, 400, "ValidationError", f"Stack with id {name} does not exist")
        if call.operation == "DescribeStacks":
            return _answer(call.operation, f"<Stacks>{_stack(name, made, self._created.get((call.region, name)))}</Stacks>")
        members = "".join(_member(name, logical_id, *resource) for logical_id, resource in made.items())
        return _answer(call.operation, f"<StackResources>{members}</StackResources>")


    def _deploy(self, call: AwsCall, name: str, form: dict[str, str]) -> Response:
        key = (call.region, name)
        is_new = call.operation == "CreateStack"
        if is_new and key in self._made:
            return error_response(call, 400, "AlreadyExistsException", f"Stack [{name}] already exists")
        if not is_new and key not in self._created:
            return error_response(call, 400, "ValidationError", f"Stack [{name}] does not exist")
        if "CAPABILITY_NAMED_IAM" not in form.values():
            return error_response(call, 400, "InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]")
        before = self._created.get(key)
        template = form["TemplateBody"]
        created = _Created(template, _parameters(form, before), "CREATE_COMPLETE" if is_new else "UPDATE_COMPLETE")
        if before is not None:
            if (before.template, before.parameters) == (created.template, created.parameters):
                return error_response(call, 400, "ValidationError", "No updates are to be performed.")
            _unmake(before)
        self._created[key], self._made[key] = created, _make(created)
        return _answer(call.operation, f"<StackId>arn:aws:cloudformation:{call.region}:{DEFAULT_ACCOUNT_ID}:stack/{escape(name)}/1</StackId>")


def _parameters(form: dict[str, str], before: _Created | None) -> dict[str, str]:
    given: dict[str, str] = {}
    for place in range(1, 61):
        prefix = f"Parameters.member.{place}."
        key = form.get(f"{prefix}ParameterKey")
        if key is None:
            break
        if form.get(f"{prefix}UsePreviousValue") == "true":
            given[key] = before.parameters.get(key, "") if before else ""
        else:
            given[key] = form.get(f"{prefix}ParameterValue", "")
    return given


class _Loader(yaml.SafeLoader):
    """A template's short forms: `!Ref Name` is `{"Ref": "Name"}`."""


def _short_form(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {suffix: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {suffix: loader.construct_sequence(node, deep=True)}
    return {suffix: loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _short_form)


def _of(created: _Created) -> dict[str, dict[str, Any]]:
    """The template's resources with their parameters filled in, as far as roles and profiles name them."""
    def resolved(value: Any) -> Any:
        if isinstance(value, dict) and "Ref" in value:
            return created.parameters.get(value["Ref"], value["Ref"])
        if isinstance(value, dict):
            return {key: resolved(one) for key, one in value.items()}
        return [resolved(one) for one in value] if isinstance(value, list) else value

    return resolved(yaml.load(created.template, Loader=_Loader)["Resources"])


def _make(created: _Created) -> dict[str, tuple[str, str]]:
    iam = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    made, resources = {}, _of(created)
    for logical_id, resource in resources.items():
        kind, properties = resource["Type"], resource["Properties"]
        if kind == "AWS::IAM::Role":
            policy = json.dumps(properties["AssumeRolePolicyDocument"])
            iam.create_role(properties["RoleName"], policy, properties["Path"], None, "", {}, 3600)
            made[logical_id] = (kind, properties["RoleName"])
    for logical_id, resource in resources.items():
        kind, properties = resource["Type"], resource["Properties"]
        if kind == "AWS::IAM::InstanceProfile":
            iam.create_instance_profile(properties["InstanceProfileName"], properties["Path"], [])
            for role in properties["Roles"]:
                iam.add_role_to_instance_profile(properties["InstanceProfileName"], made[role][1])
            made[logical_id] = (kind, properties["InstanceProfileName"])
    return made


def _unmake(created: _Created) -> None:
    iam = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    resources = [(one["Type"], one["Properties"]) for one in _of(created).values()]
    for _, properties in (one for one in resources if one[0] == "AWS::IAM::InstanceProfile"):
        profile = iam.get_instance_profile(properties["InstanceProfileName"])
        for role in list(profile.roles):
            iam.remove_role_from_instance_profile(profile.name, role.name)
        iam.delete_instance_profile(profile.name)
    for _, properties in (one for one in resources if one[0] == "AWS::IAM::Role"):
        iam.delete_role(properties["RoleName"])


def _answer(operation: str, result: str) -> Response:
    body = (
        f'<{operation}Response xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/">'
        f"<{operation}Result>{result}</{operation}Result>"
        f"<ResponseMetadata><RequestId>{uuid4()}</RequestId></ResponseMetadata></{operation}Response>"
    )
    return Response(200, [("Content-Type", "text/xml")], body.encode())


def _stack(name: str, made: dict[str, tuple[str, str]], created: _Created | None) -> str:
    """Its outputs are the names of what it made."""
    outputs = "".join(
        f"<member><OutputKey>{escape(logical_id)}Name</OutputKey><OutputValue>{escape(physical_id)}</OutputValue></member>"
        for logical_id, (_, physical_id) in made.items()
    )
    given = created.parameters.items() if created else ()
    parameters = "".join(
        f"<member><ParameterKey>{escape(key)}</ParameterKey><ParameterValue>{escape(value)}</ParameterValue></member>" for key, value in given
    )
    status = created.status if created else "CREATE_COMPLETE"
    return (
        f"<member><StackName>{escape(name)}</StackName><StackStatus>{status}</StackStatus><Parameters>{parameters}</Parameters>"
        f"<CreationTime>2026-09-01T12:00:00Z</CreationTime><Outputs>{outputs}</Outputs></member>"
    )


def _member(stack: str, logical_id: str, kind: str, physical_id: str) -> str:
    return (
        f"<member><StackName>{escape(stack)}</StackName><LogicalResourceId>{escape(logical_id)}</LogicalResourceId>"
        f"<PhysicalResourceId>{escape(physical_id)}</PhysicalResourceId><ResourceType>{escape(kind)}</ResourceType>"
        "<Timestamp>2026-09-01T12:00:00Z</Timestamp><ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>"
    )
