"""CloudFormation, as far as a stack's owner calls it: which resources it made, what it answers, and that it go.
Moto's needs dependencies of its own, and knows no serverless functions.

Source: "DescribeStackResources", "DescribeStacks", "CreateStack", "UpdateStack" and "DeleteStack" (AWS CloudFormation API Reference). A
stack is what a test says it is (see `LocalAws.put_stack`), or one that is created of a template: of that its roles, with their inline
policies, and instance profiles are made in IAM, and nothing else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
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
        members = asked(call, request)
        name = members["StackName"]
        if call.operation in ("CreateStack", "UpdateStack"):
            return self._deploy(call, name, members)
        if call.operation == "DeleteStack":  # one that is not there is no error
            self._made.pop((call.region, name), None)
            created = self._created.pop((call.region, name), None)
            if created is not None:
                _unmake(created)
            return answer(call, {})
        made = self._made.get((call.region, name))
        if made is None:
            return error_response(call, 400, "ValidationError", f"Stack with id {name} does not exist")
        if call.operation == "DescribeStacks":
            return answer(call, {"Stacks": [_stack(name, made, self._created.get((call.region, name)))]})
        return answer(call, {"StackResources": [_resource(name, one, *resource) for one, resource in made.items()]})

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
        created = _Created(members["TemplateBody"], _parameters(members.get("Parameters", []), before), "CREATE_COMPLETE" if is_new else "UPDATE_COMPLETE")
        if before is not None:
            if (before.template, before.parameters) == (created.template, created.parameters):
                return error_response(call, 400, "ValidationError", "No updates are to be performed.")
            _unmake(before)
        self._created[key], self._made[key] = created, _make(created)
        return answer(call, {"StackId": f"arn:aws:cloudformation:{call.region}:{DEFAULT_ACCOUNT_ID}:stack/{name}/1"})


def _parameters(given: list[dict[str, Any]], before: _Created | None) -> dict[str, str]:
    known = before.parameters if before else {}
    return {
        one["ParameterKey"]: known.get(one["ParameterKey"], "") if one.get("UsePreviousValue") else one.get("ParameterValue", "")
        for one in given
    }


def _of(created: _Created) -> dict[str, dict[str, Any]]:
    """The template's resources with their parameters filled in, as far as roles and profiles use its functions."""
    template = yaml.load(created.template, Loader=Loader)
    conditions = template.get("Conditions", {})
    values: dict[str, Any] = {"AWS::Partition": "aws", "AWS::AccountId": DEFAULT_ACCOUNT_ID, "AWS::NoValue": _NO_VALUE}
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
            iam.create_role(properties["RoleName"], policy, properties["Path"], None, "", {}, 3600)
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


def _stack(name: str, made: dict[str, tuple[str, str]], created: _Created | None) -> dict[str, Any]:
    """Its outputs are the names of what it made."""
    parameters = created.parameters if created else {}
    return {
        "StackName": name,
        "StackStatus": created.status if created else "CREATE_COMPLETE",
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        "CreationTime": _CREATED_AT,
        "Outputs": [{"OutputKey": f"{one}Name", "OutputValue": physical_id} for one, (_, physical_id) in made.items()],
    }


def _resource(stack: str, logical_id: str, kind: str, physical_id: str) -> dict[str, Any]:
    own = {"StackName": stack, "LogicalResourceId": logical_id, "PhysicalResourceId": physical_id, "ResourceType": kind}
    return {**own, "Timestamp": _CREATED_AT, "ResourceStatus": "CREATE_COMPLETE"}
