"""What the accounts of an organization may do to its hub: the policy of deploy/organization/hub.yaml together with the roles of template.yaml.

IAM allows a request of the bucket's own account if either policy does, and one of another account if both do (IAM user guide, "Cross-account
policy evaluation logic").
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from template_actions import REPOSITORY, functions, statements, template
from template_iam import ACCOUNT, ADMINISTRATOR, Request, decision, may, statements_of

HUB = template(REPOSITORY / "deploy" / "organization" / "hub.yaml")
ROLLOUT = template(REPOSITORY / "deploy" / "organization" / "rollout.yaml")
BUCKET = "HubBucket.Arn"
# The account with the hub, one that the roles of the tests are of, and one whose id begins as theirs.
HUB_ACCOUNT, OTHER, ALIKE = "999999999999", "111122223333", f"{ACCOUNT}0"
OURS, THEIRS = "OrganizationId", "o-strangers00"
PUBLISHERS = ("enforce-budgets", "send-report")


def policy_for(account: str) -> list[Any]:
    """The bucket's policy as IAM reads it for a request of that account: with the value of its variable."""
    document = HUB["Resources"]["HubBucketPolicy"]["Properties"]["PolicyDocument"]
    return statements_of(json.loads(json.dumps(document).replace("${!aws:PrincipalAccount}", account).replace("${aws:PrincipalAccount}", account)))


def bucket_says(request: Request, account: str, organization: str | None = OURS) -> str:
    known = {"aws:PrincipalOrgID": organization} if organization is not None else {}
    asked = replace(request, context={**request.context, **known, "aws:SecureTransport": "true"})
    return decision(policy_for(account), asked)


def administrator_may(request: Request, account: str, organization: str | None = OURS) -> bool:
    """Somebody whom the own account allows everything."""
    said = bucket_says(request, account, organization)
    return said == "allowed" or (account == HUB_ACCOUNT and said != "explicitDeny")


def put(key: str) -> Request:
    return Request("s3:PutObject", f"{BUCKET}/{key}")


def figures(account: str, month: str = "2026-11") -> str:
    return f"accounts/{account}/figures/{month}.json"


@pytest.mark.parametrize("account", [ACCOUNT, OTHER, HUB_ACCOUNT])
def test_an_account_writes_its_own_figures_and_nothing_else(account: str) -> None:
    assert administrator_may(put(figures(account)), account)
    foreign = [figures(other) for other in (ACCOUNT, OTHER, ALIKE, HUB_ACCOUNT) if other != account]
    tricks = [f"accounts/{account}", f"accounts/{account}/config.toml", f"accounts//{account}/figures/a.json", "accounts/", "leases/gpu.json", f"/{figures(account)}"]
    for key in (*foreign, *tricks):
        assert not administrator_may(put(key), account), key


def sums(account: str, month: str = "2026-11") -> str:
    return f"sums/{account}/{month}.json"


def test_configuration_exports_and_sums_are_written_in_the_hub_alone() -> None:
    for key in ("config/curfew.toml", "exports/account=111122223333/month=2026-11/teams.csv", sums(ACCOUNT), sums(OTHER)):
        assert administrator_may(put(key), HUB_ACCOUNT)
        assert not administrator_may(put(key), ACCOUNT), key


@pytest.mark.parametrize("account", [ACCOUNT, OTHER])
def test_an_account_reads_the_configuration_and_its_sums_and_nothing_else(account: str) -> None:
    def reads(key: str) -> bool:
        return administrator_may(Request("s3:GetObject", f"{BUCKET}/{key}"), account)

    assert reads("config/curfew.toml") and reads(sums(account))
    foreign = [sums(other) for other in (ACCOUNT, OTHER, ALIKE, HUB_ACCOUNT) if other != account]
    for key in (*foreign, "sums/", f"sums/{account}", f"/{sums(account)}", figures(ACCOUNT), figures(OTHER), "exports/account=111122223333/month=2026-11/teams.csv", "config", "sums/x.json"):
        assert not reads(key), key

    def lists(prefix: str | None) -> bool:
        return administrator_may(Request("s3:ListBucket", BUCKET, context={} if prefix is None else {"s3:prefix": prefix}), account)

    assert lists("config/curfew.toml") and lists(sums(account))
    for prefix in (*foreign, "sums/", f"sums/{account}", None, "", "c", "config", "accounts/", f"accounts/{account}/", "exports/"):
        assert not lists(prefix), prefix


@pytest.mark.parametrize("account", [ACCOUNT, OTHER])
def test_nothing_else_is_allowed_from_outside(account: str) -> None:
    for action in ("DeleteObject", "DeleteObjectVersion", "GetObjectVersion", "PutObjectAcl", "PutObjectTagging", "PutObjectRetention", "AbortMultipartUpload", "RestoreObject"):
        for key in (figures(account), "config/curfew.toml", sums(account)):
            assert not administrator_may(Request(f"s3:{action}", f"{BUCKET}/{key}"), account), (action, key)
    for action in ("PutBucketPolicy", "DeleteBucket", "ListBucketVersions", "PutLifecycleConfiguration", "GetBucketPolicy"):
        assert not administrator_may(Request(f"s3:{action}", BUCKET), account), action


@pytest.mark.parametrize("organization", [THEIRS, None])
def test_an_account_of_another_organization_or_of_none_gets_nothing(organization: str | None) -> None:
    for request in (put(figures(ACCOUNT)), Request("s3:GetObject", f"{BUCKET}/config/curfew.toml"), Request("s3:GetObject", f"{BUCKET}/{sums(ACCOUNT)}"), Request("s3:ListBucket", BUCKET, context={"s3:prefix": sums(ACCOUNT)}), Request("s3:ListBucket", BUCKET, context={"s3:prefix": "config/curfew.toml"})):
        assert administrator_may(request, ACCOUNT)
        assert not administrator_may(request, ACCOUNT, organization), request


def test_nothing_travels_without_tls() -> None:
    request = replace(put(figures(ACCOUNT)), context={"aws:PrincipalOrgID": OURS, "aws:SecureTransport": "false"})
    assert decision([ADMINISTRATOR, *policy_for(ACCOUNT)], request) == "explicitDeny"


# As IAM fills its variable in, for a bucket of the own organization.
OF_OUR_ORGANIZATION: dict[str, str | list[str]] = {"aws:ResourceOrgID": "${aws:PrincipalOrgID}"}
HUB_ARN = "arn:aws:s3:::HubBucket"


@pytest.mark.parametrize("function", sorted(functions()))
def test_functions_publish_only_where_a_hub_is_named_and_only_for_their_account(function: str) -> None:
    for enforcing in (True, False):
        def writes(key: str, context: dict[str, str | list[str]] = OF_OUR_ORGANIZATION) -> bool:
            return may(function, Request("s3:PutObject", f"{HUB_ARN}/{key}", context=context), enforcing=enforcing)

        assert writes(figures(ACCOUNT)) == (function in PUBLISHERS)
        # A stranger who took the name of a deleted hub learns nothing.
        for foreign in ({}, {"aws:ResourceOrgID": THEIRS}):
            assert not writes(figures(ACCOUNT), foreign)
        for key in (figures(OTHER), figures(ALIKE), "config/curfew.toml", f"accounts/{ACCOUNT}/leases/x.json", f"/{sums(ACCOUNT)}"):
            assert not writes(key), key


@pytest.mark.parametrize("function", sorted(functions()))
def test_only_functions_of_the_hub_read_figures_and_write_exports_and_sums(function: str) -> None:
    allowed = [one for one in statements(function) if "HubBucket" in str(one.resources) and one.sid != "PublishFigures"]
    conditions = {"send-report": {("ReportsOrganization",)}, "enforce-budgets": {("HasHub",), ("ReportsOrganization",)}, "reap-instances": {("HasHub",)}}
    assert {one.only_if for one in allowed} == conditions.get(function, set())
    reports, sums_up = function == "send-report", function == "enforce-budgets"
    assert may(function, Request("s3:GetObject", f"{HUB_ARN}/{figures(OTHER)}")) == (reports or sums_up)
    assert may(function, Request("s3:ListBucket", HUB_ARN, context={"s3:prefix": "accounts/"})) == (reports or sums_up)
    assert may(function, Request("s3:PutObject", f"{HUB_ARN}/exports/tables.sql")) == reports
    assert may(function, Request("s3:PutObject", f"{HUB_ARN}/{sums(OTHER)}")) == sums_up
    for request in (Request("s3:PutObject", f"{HUB_ARN}/{figures(OTHER)}"), Request("s3:ListBucket", HUB_ARN, context={"s3:prefix": "exports/"}), Request("s3:DeleteObject", f"{HUB_ARN}/{figures(OTHER)}")):
        assert not may(function, request)


def test_the_sums_of_an_account_are_read_by_its_own_beats_alone() -> None:
    def reads(function: str, key: str, context: dict[str, str | list[str]] = OF_OUR_ORGANIZATION) -> bool:
        allowed = [one for one in statements(function) if "ReportsOrganization" not in one.only_if]
        read = Request("s3:GetObject", f"{HUB_ARN}/{key}", context=context)
        listed = Request("s3:ListBucket", HUB_ARN, context={**context, "s3:prefix": key})
        said = {decision(allowed, request) == "allowed" for request in (read, listed)}
        assert len(said) == 1, key
        return said.pop()

    for function in functions():
        assert reads(function, sums(ACCOUNT)) == (function == "enforce-budgets")
        for key in (sums(OTHER), sums(ALIKE), figures(ACCOUNT), "sums/"):
            assert not reads(function, key), (function, key)
        for foreign in ({}, {"aws:ResourceOrgID": THEIRS}):
            assert not reads(function, sums(ACCOUNT), foreign)


def test_one_account_pays_nothing_and_sees_nothing_of_it() -> None:
    parameters, conditions = template()["Parameters"], template()["Conditions"]
    assert (parameters["HubBucket"]["Default"], parameters["OrganizationReport"]["Default"]) == ("", "no")
    assert conditions["HasHub"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "HubBucket"}, ""]}]}
    assert conditions["ReportsOrganization"]["Fn::And"][0] == {"Condition": "HasHub"}
    for function in functions():
        named = [one for one in statements(function) if "HubBucket" in str(one.resources)]
        assert all({"HasHub", "ReportsOrganization"} & set(one.only_if) for one in named), function


def test_the_hub_outlives_its_stack_and_is_private() -> None:
    bucket = HUB["Resources"]["HubBucket"]
    assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"
    properties = bucket["Properties"]
    assert list(properties["PublicAccessBlockConfiguration"].values()) == [True] * 4
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert properties["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    # Nothing but a bucket and its policy: the hub has no role that somebody could assume.
    assert {one["Type"] for one in HUB["Resources"].values()} == {"AWS::S3::Bucket", "AWS::S3::BucketPolicy"}


def test_the_rollout_gives_every_account_parameters_of_the_stack() -> None:
    properties = ROLLOUT["Resources"]["Accounts"]["Properties"]
    given = {one["ParameterKey"]: one["ParameterValue"] for one in properties["Parameters"]}
    assert given == {name: {"Ref": name} for name in given}
    of_stack = {**template()["Parameters"], "ArtifactBucket": ROLLOUT["Parameters"]["ArtifactBucket"]}
    for name in given:
        for field in ("Type", "AllowedPattern", "AllowedValues", "Default", "MaxLength"):
            assert ROLLOUT["Parameters"][name].get(field) == of_stack[name].get(field), (name, field)
    assert (properties["PermissionModel"], properties["Capabilities"]) == ("SERVICE_MANAGED", ["CAPABILITY_NAMED_IAM"])
    assert ROLLOUT["Parameters"]["Mode"]["Default"] == "observe"
