"""CloudFormation, as far as a stack's owner calls it: which resources it made, what it answers, and that it go.
Moto's needs dependencies of its own, and knows no serverless functions.

Source: "DescribeStackResources", "DescribeStacks", "DescribeStackEvents", "CreateStack", "UpdateStack" and "DeleteStack" (AWS
CloudFormation API Reference), "Troubleshooting CloudFormation" (user guide). A stack is what a test says it is (see
`LocalAws.put_stack`), or one that is created of a template: of that its roles, with their inline policies, and instance profiles are made
in IAM, and nothing else. One that a test has put has a template with a macro, whose parameters have no defaults, and its next operation
fails if a test says so (`LocalAws.fail_stack`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import yaml
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam import iam_backends

from template_actions import Loader

from .answers import answer, asked
from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response

_CREATED_AT = datetime(2026, 9, 1, 12, tzinfo=timezone.utc)
_NO_VALUE = object()
_OPERATIONS = (
    *("DescribeStackResources", "DescribeStacks", "DescribeStackEvents", "CreateStack", "UpdateStack", "DeleteStack"),
)
_UPDATABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE", "IMPORT_ROLLBACK_COMPLETE")


@dataclass
class _Created:
    """A stack that was created of a template."""

    template: str
    parameters: dict[str, str]
    status: str
    tags: dict[str, str]


@dataclass
class _Put:
    """A stack that a test has put."""

    parameters: dict[str, str]
    outputs: dict[str, str]
    status: str = "CREATE_COMPLETE"
    # What it becomes once somebody has seen it at work.
    then: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)  # the newest first
    fails: tuple[str, str] | None = None  # logical id, reason

    def seen(self) -> str:
        status = self.status
        self.status, self.then = self.then or status, None
        return status


class Stacks:
    def __init__(self) -> None:
        # By region and name: the type and the physical id of each logical id.
        self._made: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        self._created: dict[tuple[str, str], _Created] = {}
        self._put: dict[tuple[str, str], _Put] = {}

    def put(
        self, name: str, region: str, resources: dict[str, tuple[str, str]], parameters: dict[str, str], outputs: dict[str, str]
    ) -> None:
        self._made[region, name] = resources
        self._put[region, name] = _Put(parameters, outputs)

    def fail(self, name: str, region: str, logical_id: str, reason: str) -> None:
        self._put[region, name].fails = (logical_id, reason)

    def set_status(self, name: str, region: str, status: str) -> None:
        self._put[region, name].status = status

    def clear(self) -> None:
        self._made.clear()
        self._created.clear()
        self._put.clear()

    def answer(self, call: AwsCall, request: Request) -> Response:
        if call.operation not in _OPERATIONS:
            return error_response(call, 400, "InvalidAction", f"Could not find operation {call.operation}")
        members = asked(call, request)
        if "StackName" not in members:  # of DescribeStacks alone it is optional
            names = [name for region, name in self._made if region == call.region]
            return answer(call, {"Stacks": [self._described(call.region, name) for name in names]})
        name = members["StackName"]
        put = self._put.get((call.region, name))
        if put is not None and call.operation == "UpdateStack" and members.get("UsePreviousTemplate"):
            return self._update_put(call, name, put, members)
        if put is not None and call.operation == "DeleteStack" and put.fails:
            _fail(put, name, "DELETE", members)
            put.status = "DELETE_FAILED"
            return answer(call, {})
        if call.operation in ("CreateStack", "UpdateStack"):
            return self._deploy(call, name, members)
        if call.operation == "DeleteStack":  # one that is not there is no error
            self._made.pop((call.region, name), None)
            self._put.pop((call.region, name), None)
            created = self._created.pop((call.region, name), None)
            if created is not None:
                _unmake(created)
            return answer(call, {})
        made = self._made.get((call.region, name))
        if made is None:
            return error_response(call, 400, "ValidationError", f"Stack with id {name} does not exist")
        if call.operation == "DescribeStacks":
            return answer(call, {"Stacks": [self._described(call.region, name)]})
        if call.operation == "DescribeStackEvents":
            return answer(call, {"StackEvents": put.events if put else []})
        return answer(call, {"StackResources": [_resource(name, one, *resource) for one, resource in made.items()]})

    def _described(self, region: str, name: str) -> dict[str, Any]:
        key = (region, name)
        return _stack(name, self._made[key], self._created.get(key), self._put.get(key))

    def _update_put(self, call: AwsCall, name: str, put: _Put, members: dict[str, Any]) -> Response:
        if put.status not in _UPDATABLE:
            stack = f"arn:aws:cloudformation:{call.region}:{DEFAULT_ACCOUNT_ID}:stack/{name}/1"
            return error_response(call, 400, "ValidationError", f"Stack:{stack} is in {put.status} state and can not be updated.")
        lacking = {"CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"} - set(members.get("Capabilities", []))
        if lacking:
            needed = ", ".join(sorted(lacking))
            return error_response(call, 400, "InsufficientCapabilitiesException", f"Requires capabilities : [{needed}]")
        given = {one["ParameterKey"]: one for one in members.get("Parameters", [])}
        if unknown := sorted(set(given) - set(put.parameters)):
            return error_response(call, 400, "ValidationError", f"Parameters: [{', '.join(unknown)}] do not exist in the template")
        if left_out := sorted(set(put.parameters) - set(given)):
            return error_response(call, 400, "ValidationError", f"Parameters: [{', '.join(left_out)}] must have values")
        after = {
            key: put.parameters[key] if one.get("UsePreviousValue") else one.get("ParameterValue", "") for key, one in given.items()
        }
        if after == put.parameters:
            return error_response(call, 400, "ValidationError", "No updates are to be performed.")
        put.status = "UPDATE_IN_PROGRESS"
        if put.fails:
            _fail(put, name, "UPDATE", members)
            put.then = "UPDATE_ROLLBACK_COMPLETE"
        else:
            put.parameters, put.then = after, "UPDATE_COMPLETE"
        return answer(call, {"StackId": f"arn:aws:cloudformation:{call.region}:{DEFAULT_ACCOUNT_ID}:stack/{name}/1"})

    def _deploy(self, call: AwsCall, name: str, members: dict[str, Any]) -> Response:
        key = (call.region, name)
        is_new = call.operation == "CreateStack"
        if is_new and key in self._made:
            return error_response(call, 400, "AlreadyExistsException", f"Stack [{name}] already exists")
        if not is_new and key not in self._created:
            return error_response(call, 400, "ValidationError", f"Stack [{name}] does not exist")
        if "CAPABILITY_NAMED_IAM" not in members.get("Capabilities", []):
            return error_response(call, 400, "InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]")
        before = self._created.get(key)
        # An update that names no tags keeps those of the stack ("UpdateStack").
        tags = {one["Key"]: one["Value"] for one in members["Tags"]} if "Tags" in members else before.tags if before else {}
        status = "CREATE_COMPLETE" if is_new else "UPDATE_COMPLETE"
        created = _Created(members["TemplateBody"], _parameters(members.get("Parameters", []), before), status, tags)
        if before is not None:
            if (before.template, before.parameters, before.tags) == (created.template, created.parameters, created.tags):
                return error_response(call, 400, "ValidationError", "No updates are to be performed.")
            _unmake(before)
        self._created[key], self._made[key] = created, _make(created)
        return answer(call, {"StackId": f"arn:aws:cloudformation:{call.region}:{DEFAULT_ACCOUNT_ID}:stack/{name}/1"})


def _parameters(given: list[dict[str, Any]], before: _Created | None) -> dict[str, str]:
    """A previous value that was never given is the template's default, and stays so."""
    known = before.parameters if before else {}
    values = {one["ParameterKey"]: known.get(one["ParameterKey"]) if one.get("UsePreviousValue") else one.get("ParameterValue", "") for one in given}
    return {key: value for key, value in values.items() if value is not None}


def _of(created: _Created) -> dict[str, dict[str, Any]]:
    """The template's resources with their parameters filled in, as far as roles and profiles use its functions."""
    template = yaml.load(created.template, Loader=Loader)
    conditions = template.get("Conditions", {})
    values: dict[str, Any] = {"AWS::Partition": "aws", "AWS::URLSuffix": "amazonaws.com", "AWS::AccountId": DEFAULT_ACCOUNT_ID, "AWS::NoValue": _NO_VALUE}
    for name, parameter in template.get("Parameters", {}).items():
        text = created.parameters.get(name, parameter.get("Default", ""))
        values[name] = text.split(",") if parameter["Type"] == "CommaDelimitedList" else text

    def resolved(value: Any) -> Any:
        match value:
            case {"Ref": name}:
                return values.get(name, name)
            case {"Fn::Sub": text}:
                return re.sub(r"\$\{([^}]+)\}", lambda found: str(values.get(found[1], found[0])), text)
            case {"Fn::Join": [between, items]}:
                return between.join(resolved(items))
            case {"Fn::Equals": [one, other]}:
                return resolved(one) == resolved(other)
            case {"Fn::Not": [condition]}:
                return not resolved(condition)
            case {"Fn::If": [condition, then, otherwise]}:
                return resolved(then if resolved(conditions[condition]) else otherwise)
            case dict():
                return {key: one for key, inner in value.items() if (one := resolved(inner)) is not _NO_VALUE}
            case list():
                return [one for inner in value if (one := resolved(inner)) is not _NO_VALUE]
        return value

    return resolved(template["Resources"])


def _make(created: _Created) -> dict[str, tuple[str, str]]:
    iam = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    made, resources = {}, _of(created)
    for logical_id, resource in resources.items():
        kind, properties = resource["Type"], resource["Properties"]
        if kind == "AWS::IAM::Role":
            policy = json.dumps(properties["AssumeRolePolicyDocument"])
            tags = [{"Key": key, "Value": value} for key, value in created.tags.items()]
            iam.create_role(properties["RoleName"], policy, properties["Path"], properties.get("PermissionsBoundary"), "", tags, 3600)
            for inline in properties.get("Policies", []):
                iam.put_role_policy(properties["RoleName"], inline["PolicyName"], json.dumps(inline["PolicyDocument"]))
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
        for inline in properties.get("Policies", []):
            iam.delete_role_policy(properties["RoleName"], inline["PolicyName"])
        iam.delete_role(properties["RoleName"])


def _fail(put: _Put, name: str, verb: str, members: dict[str, Any]) -> None:
    """One resource fails, another is given up for it, and the stack says so."""
    logical_id, reason = put.fails or ("", "")
    put.fails = None
    # A deletion that fails is not rolled back.
    then = {"DELETE": "DELETE_FAILED", "UPDATE": "UPDATE_ROLLBACK_IN_PROGRESS"}[verb]
    events = [
        ("Unrelated", "AWS::SNS::Topic", f"{verb}_FAILED", "An earlier operation", "earlier"),
        (logical_id, "AWS::Lambda::Function", f"{verb}_FAILED", reason, None),
        ("Other", "AWS::IAM::Role", f"{verb}_FAILED", f"Resource {verb.lower()} cancelled", None),
        (name, "AWS::CloudFormation::Stack", then, f"failed: [{logical_id}]", None),
    ]
    for number, (resource, kind, status, why, token) in enumerate(events):
        event = {"StackId": name, "EventId": str(number), "StackName": name, "LogicalResourceId": resource, "ResourceType": kind}
        event |= {"Timestamp": _CREATED_AT, "ResourceStatus": status, "ResourceStatusReason": why}
        put.events.insert(0, {**event, "ClientRequestToken": token or members.get("ClientRequestToken", "none")})


def _stack(name: str, made: dict[str, tuple[str, str]], created: _Created | None, put: _Put | None) -> dict[str, Any]:
    """Its outputs are the names of what it made, and what a test says."""
    parameters = created.parameters if created else put.parameters if put else {}
    outputs = {f"{one}Name": physical_id for one, (_, physical_id) in made.items()} | (put.outputs if put else {})
    return {
        "StackName": name,
        "StackStatus": created.status if created else put.seen() if put else "CREATE_COMPLETE",
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        "Tags": [{"Key": key, "Value": value} for key, value in (created.tags if created else {}).items()],
        "CreationTime": _CREATED_AT,
        "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()],
    }


def _resource(stack: str, logical_id: str, kind: str, physical_id: str) -> dict[str, Any]:
    own = {"StackName": stack, "LogicalResourceId": logical_id, "PhysicalResourceId": physical_id, "ResourceType": kind}
    return {**own, "Timestamp": _CREATED_AT, "ResourceStatus": "CREATE_COMPLETE"}
