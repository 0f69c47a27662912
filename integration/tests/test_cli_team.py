"""`curfew team`: the role of each team's machines."""

from __future__ import annotations

import json

import pytest

from command import Said, curfew
from reaping import BUCKET, Account
from test_cli_jobs import LLAMA, running

VISION = "curfew-job-vision"


def team(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), "team", *arguments)


def stack(account: Account, name: str) -> dict[str, str]:
    """Its parameters."""
    (found,) = account.aws.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    return {one["ParameterKey"]: one["ParameterValue"] for one in found["Parameters"]}


def profiles(account: Account) -> list[str]:
    return sorted(one["InstanceProfileName"] for one in account.aws.client("iam").list_instance_profiles()["InstanceProfiles"])


def test_a_role_is_made_and_said(account: Account) -> None:
    said = team(account, "create", "vision").fine()
    assert said.out == f"vision: role and instance profile {VISION} created (stack curfew-team-vision)\n"
    assert "launched within a few minutes" in said.err
    profile = account.aws.client("iam").get_instance_profile(InstanceProfileName=VISION)["InstanceProfile"]
    assert (profile["Path"], [role["RoleName"] for role in profile["Roles"]]) == ("/curfew/", [VISION])
    assert stack(account, "curfew-team-vision") == {
        "Team": "vision", "RoleName": VISION, "StateBucket": BUCKET, "ReplicaBucket": "", "Ssh": "yes", "ReadObjectArns": "", "ReadBucketArns": "", "ReadPrefixes": "",
        "PermissionsBoundaryArn": "", "RolePath": "/",
    }


def test_a_second_create_changes_only_the_given_arguments(account: Account) -> None:
    one, other = (f"arn:aws:ssm:us-east-1:123456789012:parameter/{name}" for name in ("one", "other"))
    policy = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
    team(account, "create", "vision", "--secret-arn", one, "--secret-arn", other, "--policy-arn", policy).fine()
    assert stack(account, "curfew-team-vision")["SecretArns"] == f"{one},{other}"
    assert team(account, "create", "vision", "--json").fine().json()["outcome"] == "unchanged"
    assert team(account, "create", "vision", "--secret-arn", one, "--json").fine().json() == {
        "schema": 1, "team": "vision", "outcome": "updated", "role": VISION, "stack": "curfew-team-vision"
    }
    made = stack(account, "curfew-team-vision")
    assert (made["SecretArns"], made["PolicyArns"]) == (one, policy)


def test_a_role_follows_the_configuration_about_shells(account: Account) -> None:
    team(account, "create", "vision").fine()
    account.configure(jobs={"ssh": False})
    assert team(account, "create", "vision", "--json").fine().json()["outcome"] == "updated"
    assert stack(account, "curfew-team-vision")["Ssh"] == "no"


BOUNDARY, OTHER = (f"arn:aws:iam::123456789012:policy/{name}" for name in ("boundary", "other"))


def deployed_with(account: Account, tags: dict[str, str], **parameters: str) -> None:
    """Curfew's own stack, with these parameters and tags."""
    account.aws.client("cloudformation").create_stack(
        StackName="curfew",
        TemplateBody=json.dumps({"Resources": {}}),
        Capabilities=["CAPABILITY_NAMED_IAM"],
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )


def role(account: Account) -> tuple[str, str | None, dict[str, str]]:
    """Its path, its boundary and its tags."""
    found = account.aws.client("iam").get_role(RoleName=VISION)["Role"]
    tags = {one["Key"]: one["Value"] for one in found.get("Tags", [])}
    return found["Path"], found.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"), tags


def test_a_role_has_the_boundary_the_path_and_the_tags_of_the_stack(account: Account) -> None:
    deployed_with(account, {"cost-center": "ml"}, PermissionsBoundaryArn=BOUNDARY, RolePath="/platform/")
    team(account, "create", "vision").fine()
    assert role(account) == ("/platform/curfew/", BOUNDARY, {"cost-center": "ml"})
    profile = account.aws.client("iam").get_instance_profile(InstanceProfileName=VISION)["InstanceProfile"]
    assert profile["Path"] == "/platform/curfew/"
    # It is found under any path.
    account.configure(teams={"vision": {}, "nlp": {}})
    assert "exists" in team(account, "list").out


def test_options_name_another_boundary_and_other_tags_and_stay(account: Account) -> None:
    deployed_with(account, {"cost-center": "ml"}, PermissionsBoundaryArn=BOUNDARY)
    team(account, "create", "vision", "--permissions-boundary", OTHER, "--tag", "cost-center=vision", "--tag", "stage=test").fine()
    assert role(account) == ("/curfew/", OTHER, {"cost-center": "vision", "stage": "test"})
    assert team(account, "create", "vision", "--json").fine().json()["outcome"] == "unchanged"
    secret = "arn:aws:ssm:us-east-1:123456789012:parameter/one"
    team(account, "create", "vision", "--secret-arn", secret).fine()
    assert role(account) == ("/curfew/", OTHER, {"cost-center": "vision", "stage": "test"})


@pytest.mark.parametrize(
    ("arguments", "expect"),
    [
        (("--permissions-boundary", "boundary"), "is not the ARN of an IAM policy"),
        (("--role-path", "platform"), "begins and ends with `/`"),
        (("--role-path", "/other/"), "only roles under /platform/curfew/"),
        (("--tag", "cost"), "write KEY=VALUE"),
        (("--tag", "a=1", "--tag", "a=2"), "names a key twice"),
    ],
)
def test_what_iam_would_refuse_is_refused_before(account: Account, arguments: tuple[str, ...], expect: str) -> None:
    deployed_with(account, {}, RolePath="/platform/")
    said = team(account, "create", "vision", *arguments)
    assert said.code == 2 and expect in said.err and not profiles(account), said


def test_a_foreign_stack_is_not_changed(account: Account) -> None:
    account.aws.put_stack("curfew-team-vision", {"Queue": ("AWS::SQS::Queue", "theirs")})
    for word in ("create", "delete"):
        said = team(account, word, "vision")
        assert said.code == 2 and "curfew-team-vision" in said.err, said
    assert account.aws.client("cloudformation").describe_stacks(StackName="curfew-team-vision")["Stacks"]


def test_a_refusal_of_cloudformation_names_the_permission(account: Account) -> None:
    account.aws.fault("cloudformation:CreateStack", "access_denied", times=None)
    said = team(account, "create", "vision")
    assert said.code == 2 and "grant cloudformation:CreateStack" in said.err and not profiles(account)


def test_a_list_shows_missing_roles(account: Account) -> None:
    assert "no team yet" in team(account, "list").fine().out
    running(account)
    said = team(account, "list").fine()
    assert "vision" in said.out and "not needed" in said.out
    account.configure(teams={"nlp": {}}, jobs={"teams": "any"})
    team(account, "create", "nlp").fine()
    account.aws.client("iam").create_instance_profile(InstanceProfileName="curfew-job-old", Path="/curfew/")
    said = team(account, "list")
    assert said.code == 1 and "missing: its jobs are held" in said.out and "curfew team create vision" in said.err
    document = team(account, "list", "--json").json()
    rows = {one["team"]: (one["exists"], one["is_needed"], one["unfinished_jobs"]) for one in document["teams"]}
    assert rows == {"nlp": (True, True, 0), "vision": (False, True, 1)} and document["others"] == ["curfew-job-old"]


def test_a_role_of_unfinished_jobs_is_deleted_only_by_force(account: Account) -> None:
    team(account, "create", "vision").fine()
    running(account)
    said = team(account, "delete", "vision", "--yes", "--json")
    assert said.code == 1 and (said.json()["outcome"], said.json()["unfinished_jobs"]) == ("refused", [LLAMA])
    assert "--force" in team(account, "delete", "vision", "--yes").out and profiles(account) == [VISION]
    assert team(account, "delete", "vision", "--yes", "--force", "--json").fine().json()["outcome"] == "deleted"
    assert profiles(account) == []
    assert team(account, "delete", "vision").fine().out.endswith("(unchanged)\n")


def test_the_doctor_names_teams_without_a_role(account: Account) -> None:
    running(account)
    account.configure(teams={"nlp": {}}, jobs={"teams": "any"})
    (check,) = [one for one in curfew(account.environment(), "doctor", "--json").json()["checks"] if one["check"] == "roles"]
    assert check["state"] == "finding"
    assert [(one["where"], one["remedy"].split(",")[0]) for one in check["findings"]] == [
        ("nlp", "curfew team create nlp"), ("vision", "curfew team create vision")
    ]
