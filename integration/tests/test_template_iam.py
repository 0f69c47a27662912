"""The limits of IAM, and the rules of organizations: that every role fits, has the boundary and the path of the account, and that one
stack alone can be made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from template_actions import REPOSITORY, managed_policy_ids, resources, template
from template_iam import Request, arn_of, may

TEMPLATES = ["template.yaml", "deploy/team-role.yaml", "deploy/forwarder.yaml", "deploy/organization/look-role.yaml"]
# Of every template: its file, the logical id of a role, and the role's properties.
ROLES = [
    (file, name, resource["Properties"])
    for file in TEMPLATES
    for name, resource in template(REPOSITORY / file)["Resources"].items()
    if resource["Type"] == "AWS::IAM::Role"
]
NO_VALUE = {"Ref": "AWS::NoValue"}

# --------------------------------------------------------------------------------------------------------------- sizes

# The regions with the longest names, and those of the other partition.
PARTITIONS = {"us-east-1": "aws", "ap-northeast-3": "aws", "us-gov-west-1": "aws-us-gov"}
ACCOUNT = "123456789012"
# IAM user guide, "IAM and AWS STS quotas": blanks are not counted.
INLINE_MAX, MANAGED_MAX, MANAGED_PER_ROLE_MAX = 10_240, 6_144, 10
# CloudFormation user guide, "CloudFormation quotas".
PARAMETER_MAX = 4_096
# A function's name has 64 characters, and "-enforce-budgets" is the longest end of one: so long is the longest name of a stack. S3 takes 63
# characters for the name of a bucket.
STACK = "s" * 48


def filled(entry: Callable[[int], str]) -> list[str]:
    """As many different entries as a parameter holds."""
    entries: list[str] = []
    while len(",".join([*entries, entry(len(entries))])) <= PARAMETER_MAX:
        entries.append(entry(len(entries)))
    return entries


def parameters(region: str) -> dict[str, Any]:
    """The value of each reference in a policy of a stack with all options."""
    partition = PARTITIONS[region]

    def arn(service: str, resource: str) -> str:
        return f"arn:{partition}:{service}:{region}:{ACCOUNT}:{resource}"

    # Short names make more entries, each with two quotes.
    secrets = filled(lambda number: arn("ssm", f"parameter/{number:08d}"))
    bucket = f"{STACK}-statebucket-0123456789ab"[:63]
    return {
        "AWS::Partition": partition,
        "AWS::URLSuffix": "amazonaws.com",
        "AWS::Region": region,
        "AWS::AccountId": ACCOUNT,
        "AWS::StackName": STACK,
        "HomeRegion": region,
        "RolePath": "/a-path/of-the-organization/",
        "StateBucket": bucket,
        "StateBucket.Arn": f"arn:{partition}:s3:::{bucket}",
        "Topic": arn("sns", f"{STACK}-ChatTopic-0123456789AB"),
        "ChatTopic": arn("sns", f"{STACK}-ChatTopic-0123456789AB"),
        "EventBus": "b" * 64,
        "HubBucket": "h" * 63,
        "ReplicaBucket": "r" * 63,
        "ReportSender": "monthly-reports@machine-learning.example.com",
        "Domain": "machine-learning.example.com",
        "VolumeKeyArns": filled(lambda number: arn("kms", f"key/{number:08x}-0123-4567-89ab-0123456789ab")),
        "JobVpcArns": filled(lambda number: arn("ec2", f"vpc/vpc-{number:017x}")),
        "JobImageOwners": filled(lambda number: f"{number:012d}"),
        "JobSecretArns": secrets,
        "SecretArns": secrets,
        "Team": "t" * 40,
        "ReadObjectArns": [f"arn:{partition}:s3:::data-{number}/training/of-a-team/*" for number in range(5)],
        "ReadBucketArns": [f"arn:{partition}:s3:::data-{number}" for number in range(5)],
        "ReadPrefixes": ["training/of-a-team/*"],
    }


def as_deployed(value: Any, given: dict[str, Any]) -> Any:
    """A value of a template as IAM gets it, with every optional part."""
    if isinstance(value, list):
        return [as_deployed(one, given) for one in value if one != NO_VALUE]
    if not isinstance(value, dict):
        return value
    if "Fn::If" in value:
        return as_deployed(value["Fn::If"][1], given)
    if "Ref" in value or "Fn::GetAtt" in value:
        name = value.get("Ref") or ".".join(value["Fn::GetAtt"])
        return given.get(name, f"arn:{given['AWS::Partition']}:logs:{given['AWS::Region']}:{ACCOUNT}:log-group:/aws/lambda/{STACK}-enforce-budgets:*")
    if "Fn::Sub" in value:
        text = value["Fn::Sub"] if isinstance(value["Fn::Sub"], str) else value["Fn::Sub"][0]
        return re.sub(r"\$\{([^}]+)\}", lambda name: str(given[name[1]]), text)
    return {key: as_deployed(one, given) for key, one in value.items()}


def size(document: Any, given: dict[str, Any]) -> int:
    deployed = as_deployed(document, given)
    assert "Fn::" not in json.dumps(deployed)
    return len(json.dumps(deployed, separators=(",", ":")))


@pytest.mark.parametrize("region", PARTITIONS)
@pytest.mark.parametrize(("file", "name", "role"), ROLES, ids=lambda one: one if isinstance(one, str) else "")
def test_the_inline_policies_of_a_role_fit(file: str, name: str, role: dict[str, Any], region: str) -> None:
    given = parameters(region)
    total = sum(size(policy["PolicyDocument"], given) for policy in as_deployed(role["Policies"], given))
    assert total <= INLINE_MAX, f"{file}, {name}: {total} characters"
    assert len(managed_policy_ids(role)) <= MANAGED_PER_ROLE_MAX


@pytest.mark.parametrize("region", PARTITIONS)
@pytest.mark.parametrize("name", resources("AWS::IAM::ManagedPolicy"))
def test_a_managed_policy_holds_as_many_entries_as_a_parameter(name: str, region: str) -> None:
    assert size(resources()[name]["Properties"]["PolicyDocument"], parameters(region)) <= MANAGED_MAX


def test_a_parameter_holds_fifty_keys_and_fifty_secrets() -> None:
    """The descriptions of the parameters say how many. In GovCloud, whose ARNs are the longest, there are two regions with keys."""
    for region, keys in (("us-east-1", 53), ("ap-northeast-3", 50), ("us-gov-west-1", 47)):
        given = parameters(region)
        assert len(given["VolumeKeyArns"]) == keys and len(given["JobSecretArns"]) > 50, region
    for name in ("VolumeKeyArns", "JobSecretArns"):
        assert "4,096 characters" in template()["Parameters"][name]["Description"], name


def test_a_longer_list_is_no_longer_policy_of_a_function() -> None:
    """Each list of a parameter that may be long is in a managed policy of its own."""
    for name, role in resources("AWS::IAM::Role").items():
        for parameter in ("VolumeKeyArns", "JobVpcArns", "JobImageOwners"):
            assert json.dumps({"Ref": parameter}) not in json.dumps(role["Properties"]["Policies"]), name


# ---------------------------------------------------------------------------------------------- rules of organizations


@pytest.mark.parametrize(("file", "name", "role"), ROLES, ids=lambda one: one if isinstance(one, str) else "")
def test_every_role_has_the_boundary_and_the_path_of_the_account(file: str, name: str, role: dict[str, Any]) -> None:
    assert role["PermissionsBoundary"] == {"Fn::If": ["HasPermissionsBoundary", {"Ref": "PermissionsBoundaryArn"}, NO_VALUE]}
    of_machines = {"Fn::Sub": "${RolePath}curfew/"}
    # Absent and not /, so that the update of an earlier stack replaces no role: a change of Path is a new role.
    of_functions = {"Fn::If": ["HasRolePath", {"Ref": "RolePath"}, NO_VALUE]}
    assert role["Path"] == (of_machines if name == "JobRole" else of_functions), (file, name)


@pytest.mark.parametrize("file", TEMPLATES)
def test_every_template_asks_for_the_same(file: str) -> None:
    asked = template(REPOSITORY / file)
    assert asked["Conditions"]["HasPermissionsBoundary"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "PermissionsBoundaryArn"}, ""]}]}
    for name, default in (("PermissionsBoundaryArn", ""), ("RolePath", "/")):
        of_stack = template()["Parameters"][name]
        assert asked["Parameters"][name]["Default"] == default
        for key in ("Type", "AllowedPattern", "MaxLength"):
            assert asked["Parameters"][name].get(key) == of_stack.get(key), (name, key)
    made = {name: resource for name, resource in asked["Resources"].items() if resource["Type"].startswith("AWS::IAM::")}
    assert {resource["Type"] for resource in made.values()} <= {"AWS::IAM::Role", "AWS::IAM::InstanceProfile", "AWS::IAM::ManagedPolicy"}
    assert all("Path" in resource["Properties"] for resource in made.values())


@pytest.mark.parametrize(
    ("path", "is_one"),
    [("/", True), ("/platform/", True), ("/platform/ml/", True), ("", False), ("platform/", False), ("/platform", False), ("//", False), ("/a b/", False), ("/*/", False), ("/${x}/", False)],
)
def test_a_role_path_is_one_that_iam_takes(path: str, is_one: bool) -> None:
    assert bool(re.fullmatch(template()["Parameters"]["RolePath"]["AllowedPattern"], path)) == is_one


@pytest.mark.parametrize("path", ["/", "/platform/", "/curfew/"])
def test_run_jobs_gives_away_only_roles_under_the_path_of_jobs(path: str) -> None:
    """Whatever RolePath is, the roles of its functions are not among them."""
    (pattern,) = [
        one
        for policy in resources()["RunJobsRole"]["Properties"]["Policies"]
        for statement in policy.get("Fn::If", ["", policy])[1]["PolicyDocument"]["Statement"]
        if statement.get("Action") == "iam:PassRole"
        for one in [statement["Resource"]["Fn::Sub"]]
    ]
    prefix = pattern.replace("${AWS::Partition}", "aws").replace("${AWS::AccountId}", ACCOUNT).replace("${RolePath}", path)
    assert prefix == f"arn:aws:iam::{ACCOUNT}:role{path}curfew/*"
    assert not f"arn:aws:iam::{ACCOUNT}:role{path}curfew-RunJobsRole-1ABC".startswith(prefix.removesuffix("*"))
    to_ec2 = {"iam:PassedToService": "ec2.amazonaws.com"}
    assert may("run-jobs", Request("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/curfew/curfew-job", context=to_ec2))


def test_mail_of_an_identity_with_a_configuration_set_is_allowed() -> None:
    """SES asks IAM about both (Service Authorization Reference); and still from one address alone."""
    sender = {"ses:FromAddress": "ReportSender"}
    sets = f"arn:aws:ses:us-east-1:{ACCOUNT}:configuration-set/default"
    (mailing,) = [
        one["Fn::If"][1]
        for policy in resources()["SendReportRole"]["Properties"]["Policies"]
        for one in policy.get("Fn::If", ["", policy])[1]["PolicyDocument"]["Statement"]
        if one.get("Fn::If", [""])[0] == "HasReportSender"
    ]
    assert arn_of(mailing["Resource"][-1]) == sets.replace("default", "*")
    assert mailing["Condition"] == {"StringEquals": {key: {"Ref": value} for key, value in sender.items()}}


# ------------------------------------------------------------------------------------------------ one stack per account

GUARD = "OneCurfewPerAccount"


def referenced(value: Any) -> set[str]:
    """The logical ids that a value refers to."""
    if isinstance(value, list):
        return {one for item in value for one in referenced(item)}
    if not isinstance(value, dict):
        return set()
    if "Ref" in value:
        return {value["Ref"]}
    if "Fn::GetAtt" in value:
        return {value["Fn::GetAtt"][0]}
    if "Fn::Sub" in value:
        return {name.split(".")[0] for name in re.findall(r"\$\{([^}]+)\}", str(value["Fn::Sub"]))}
    return referenced(list(value.values()))


def waits_for(name: str) -> set[str]:
    """What CloudFormation creates before a resource, and what before that."""
    resource = resources()[name]
    first = (referenced(resource.get("Properties")) | {resource.get("DependsOn", "")}) & set(resources())
    return first.union(*(waits_for(one) for one in first))


def test_a_second_stack_is_refused_by_a_name_that_says_why() -> None:
    named = {
        name: value
        for name, resource in resources().items()
        for key, value in resource.get("Properties", {}).items()
        if not isinstance(value, dict) or "Ref" not in value  # another resource's
        if key in ("BucketName", "FunctionName", "GroupName", "InstanceProfileName", "LogGroupName", "ManagedPolicyName", "Name", "QueueName", "RoleName", "TopicName")
    }
    fixed = {name for name, value in named.items() if "${AWS::StackName}" not in str(value)}
    # Names of IAM are unique in the account, whatever their path; of anything else they would be in a region alone.
    assert fixed == {GUARD, "JobRole", "JobProfile", "ReapInstancesRole", "StateBucket"}
    # A restored stack stands beside the one that it replaces.
    assert named[GUARD] == {"Fn::If": ["IsRestored", "only-one-restored-curfew-stack-per-account", "only-one-curfew-stack-per-account"]}
    for name, value in named.items():
        if name in fixed:
            condition, restored, other = value["Fn::If"]
            assert condition == "IsRestored" and restored != other, name
    assert named["ReapInstancesRole"]["Fn::If"][2] == named["StateBucket"]["Fn::If"][2] == NO_VALUE
    # Whichever fails first is the error that people read.
    assert all(GUARD in waits_for(name) for name in fixed - {GUARD})


def test_the_guard_gives_nothing_to_anybody() -> None:
    guard = resources()[GUARD]
    assert not {"Roles", "Users", "Groups"} & set(guard["Properties"]) and "Condition" not in guard
    (statement,) = guard["Properties"]["PolicyDocument"]["Statement"]
    # It needs no permission, and no policy can deny it (AWS STS API reference, "GetCallerIdentity").
    assert (statement["Effect"], statement["Action"]) == ("Allow", "sts:GetCallerIdentity")
    assert not any(GUARD in managed_policy_ids(role) for _, _, role in ROLES)


def test_the_update_of_an_earlier_stack_is_not_refused() -> None:
    """CloudFormation refuses a template that changes the type of a logical id: the guard was the group OneStackPerAccount."""
    assert "OneStackPerAccount" not in resources()
    # Organizations forbid users and groups.
    assert not resources("AWS::IAM::Group") and not resources("AWS::IAM::User")


def test_a_refused_stack_leaves_nothing_behind() -> None:
    kept = {name for name, resource in resources().items() if resource.get("DeletionPolicy") == "Retain"}
    assert kept == {"StateBucket"} and GUARD in waits_for("StateBucket")
