"""What template.yaml says, as plain data: its functions, and what the role of each may do; and what deploy/permissions.csv says of that."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Iterator

import yaml

REPOSITORY = Path(__file__).resolve().parent.parent
TEMPLATE = REPOSITORY / "template.yaml"


class Loader(yaml.SafeLoader):
    """Reads CloudFormation's short forms as their long ones: `!Ref X` is `{"Ref": "X"}`."""


def _long_form(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if tag == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}


Loader.add_multi_constructor("!", _long_form)


@cache
def template(path: Path = TEMPLATE) -> dict[str, Any]:
    """A whole template, with every short form written out. Read once: do not change it."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)


def resources(kind: str | None = None) -> dict[str, dict[str, Any]]:
    """All resources by logical id, or those of one type."""
    return {
        name: resource
        for name, resource in template()["Resources"].items()
        if kind is None or resource["Type"] == kind
    }


def fixed_environment() -> dict[str, str]:
    """The variables of every function whose values the template itself says."""
    variables = template()["Globals"]["Function"]["Environment"]["Variables"]
    return {name: value for name, value in variables.items() if isinstance(value, str)}


def logical_ids() -> dict[str, str]:
    """The functions' logical ids by the name of their directory, which is the name of their binary too."""
    found = resources("AWS::Serverless::Function")
    return {Path(function["Properties"]["CodeUri"]).name: name for name, function in found.items()}


def functions() -> dict[str, dict[str, Any]]:
    """The functions by the name of their directory."""
    return {directory: resources()[name] for directory, name in logical_ids().items()}


@dataclass(frozen=True)
class Statement:
    """One statement of a role, and the conditions of the template under all of which it exists."""

    sid: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[Any, ...]
    conditions: dict[str, dict[str, Any]]
    only_if: tuple[str, ...]
    # It is about everything but these, where it names no resources.
    not_resources: tuple[Any, ...] = ()


@cache
def statements(function_name: str) -> list[Statement]:
    """Every statement that the role of a function can have, whatever the parameters."""
    role_id = functions()[function_name]["Properties"]["Role"]["Fn::GetAtt"][0]
    return statements_of_role(resources("AWS::IAM::Role")[role_id]["Properties"])


def statements_of_role(role: dict[str, Any]) -> list[Statement]:
    """Every statement that a role of a template can have, by its properties: inline, and by the managed policies of template.yaml."""
    return [
        Statement(
            sid=statement.get("Sid", ""),
            effect=statement["Effect"],
            actions=tuple(_listed(statement["Action"])),
            resources=tuple(_listed(statement.get("Resource", []))),
            conditions=statement.get("Condition", {}),
            only_if=(*outer, *inner),
            not_resources=tuple(_listed(statement.get("NotResource", []))),
        )
        for policy, outer in (*_possible(role["Policies"]), *_managed_policies(role))
        for statement, inner in _possible(_listed(policy["PolicyDocument"]["Statement"]))
    ]


def managed_policy_ids(role: dict[str, Any]) -> list[str]:
    """The logical ids of the managed policies of template.yaml that a role can have, each on a condition."""
    given = role.get("ManagedPolicyArns", [])
    if isinstance(given, dict):  # of deploy/team-role.yaml: a list that is a parameter
        return []
    return [one["Fn::If"][1]["Ref"] for one in given]


def _managed_policies(role: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Each managed policy, and the conditions of the template under all of which it exists."""
    for name in managed_policy_ids(role):
        policy = resources("AWS::IAM::ManagedPolicy")[name]
        both = template()["Conditions"][policy["Condition"]].get("Fn::And", [{"Condition": policy["Condition"]}])
        yield policy["Properties"], tuple(one["Condition"] for one in both)


@cache
def permissions() -> dict[str, dict[str, str]]:
    """The rows of deploy/permissions.csv by action. test_template.py compares them with the template. Read once: do not change them."""
    lines = (REPOSITORY / "deploy" / "permissions.csv").read_text(encoding="utf-8").splitlines()
    return {row["action"]: row for row in csv.DictReader(lines)}


def granted_actions(function: str) -> set[str]:
    """The actions that the role of a function may be allowed, such as `ec2:StopInstances`."""
    return {action for action, row in permissions().items() if row[function]}


# Those of `run-jobs` that only a box needs: test_boxes.py.
OF_BOXES = {f"ec2:{name}" for name in ("AttachVolume", "CreateVolume", "CreateSnapshot", "DeleteVolume", "DeleteSnapshot", "DescribeVolumes", "DescribeSnapshots")}


# Those of `run-jobs` that only a job on several machines needs.
OF_GANGS = {
    f"ec2:{name}"
    for name in (
        "AuthorizeSecurityGroupEgress",
        "AuthorizeSecurityGroupIngress",
        "CreatePlacementGroup",
        "CreateSecurityGroup",
        "DeletePlacementGroup",
        "DeleteSecurityGroup",
        "DescribePlacementGroups",
        "DescribeSecurityGroups",
        "RevokeSecurityGroupEgress",
    )
}


def called_actions(function: str) -> set[str]:
    """Those that the function itself needs in a stack whose parameters all have their defaults, but for the mode."""
    return {action for action, row in permissions().items() if row[function] == "x" and row["condition"] in ("", "Enforcing")}


def changing_actions(function: str) -> set[str]:
    return {action for action in granted_actions(function) if permissions()[action]["condition"] == "Enforcing"}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _possible(items: list[Any]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """The items of a list, looking into `!If [condition, item, !Ref AWS::NoValue]`."""
    for item in items:
        if "Fn::If" in item:
            condition, present, absent = item["Fn::If"]
            assert absent == {"Ref": "AWS::NoValue"}, f"{condition} chooses between two items: extend _possible"
            yield present, (condition,)
        else:
            yield item, ()
