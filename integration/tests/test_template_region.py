"""What the templates allow around the copy of the state bucket: who says which stack acts, and who writes into which of the two buckets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from template_actions import REPOSITORY, functions, resources, statements, statements_of_role, template
from template_iam import ACCOUNT, ADMINISTRATOR, Request, decision, may, role_may, statements_of
from test_template_roles import TEAM_ROLE

OURS: dict[str, str | list[str]] = {"aws:ResourceAccount": "AWS::AccountId"}
STATE, COPY = "StateBucket.Arn", "arn:aws:s3:::ReplicaBucket"
REPLICA = template(REPOSITORY / "deploy" / "replica" / "replica.yaml")["Resources"]
STATE_POLICY = statements_of(resources()["StateBucketPolicy"]["Properties"]["PolicyDocument"])
COPY_POLICY = statements_of(REPLICA["ReplicaBucketPolicy"]["Properties"]["PolicyDocument"])
WRITES = ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion")
WRITER = "ReapInstancesRole.Arn"
RESTORED_WRITER = f"arn:aws:iam::{ACCOUNT}:role/curfew-ReapInstancesRole-restored"
SAMPLE_KEYS = ("home.json", "config/curfew.toml", "jobs/vision/llama/state.json", "attempts/vision/llama/head.json", "ledger/2026-11/us-east-1.json", "plans/x.json")


def test_nobody_but_the_two_functions_says_which_stack_acts() -> None:
    people = (f"arn:aws:iam::{ACCOUNT}:role/Administrator", f"arn:aws:iam::{ACCOUNT}:user/ada", "JobRole.Arn", "RunJobsRole.Arn", f"arn:aws:iam::{ACCOUNT}:role/curfew-ReapInstancesRole-restored2")
    for who in (*people, WRITER, RESTORED_WRITER):
        asked = Request("s3:PutObject", f"{STATE}/home.json", context={"aws:PrincipalArn": who})
        assert (decision((ADMINISTRATOR, *STATE_POLICY), asked) == "allowed") == (who in (WRITER, RESTORED_WRITER)), who
    named = resources()["ReapInstancesRole"]["Properties"]["RoleName"]["Fn::If"]
    assert named == ["IsRestored", RESTORED_WRITER.rpartition("/")[2], {"Ref": "AWS::NoValue"}]


@pytest.mark.parametrize("key", ["home.json", "attempts/../home.json", "home.json/", "/home.json"])
def test_no_machine_and_no_submitter_writes_the_record(key: str) -> None:
    """Whatever a team attaches to its role, and whoever may write what jobs are made of."""
    for role in (resources()["JobRole"]["Properties"], TEAM_ROLE):
        for bucket, action in ((bucket, action) for bucket in (STATE, "arn:aws:s3:::StateBucket", COPY) for action in WRITES):
            asked = Request(action, f"{bucket}/{key}", context=OURS)
            # `*` reaches keys of its folder alone, whatever they look like: S3 resolves no path.
            assert not role_may(role, asked) or key.startswith("attempts/")
            if key == "home.json" and (bucket == STATE) != (role is TEAM_ROLE):
                assert not role_may(role, asked, besides=(ADMINISTRATOR,)), (bucket, action)
    submitter = statements_of({"Statement": [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": [f"{STATE}/attempts/*", f"{STATE}/inbox/*"]}]})
    asked = Request("s3:PutObject", f"{STATE}/{key}", context={"aws:PrincipalArn": f"arn:aws:iam::{ACCOUNT}:user/ada"})
    assert decision((*submitter, *STATE_POLICY), asked) != "allowed" or key.startswith("attempts/")


def test_machines_move_to_their_own_part_of_the_copy() -> None:
    for role, team, other in ((resources()["JobRole"]["Properties"], "vision", "vision"), (TEAM_ROLE, "Team", "nlp")):
        def can(action: str, key: str, role: dict[str, Any] = role, context: dict[str, Any] = OURS) -> bool:
            return role_may(role, Request(action, f"{COPY}/{key}", context=context))

        assert can("s3:GetObject", "home.json") and can("s3:GetObject", f"jobs/{team}/llama/state.json")
        for folder in ("attempts", "outputs", "checkpoints"):
            assert can("s3:PutObject", f"{folder}/{team}/llama/x") and not can("s3:PutObject", f"{folder}/{team}/llama/x", context={})
            assert can("s3:PutObject", f"{folder}/{other}/llama/x") == (other == team)
        for key in ("config/curfew.toml", f"jobs/{team}/llama/state.json", f"inbox/{team}/a.toml", "agent/1", "ledger/x.json"):
            assert not can("s3:PutObject", key) and not can("s3:DeleteObjectVersion", key), key
        lists = {**OURS, "s3:prefix": "home.json"}
        assert role_may(role, Request("s3:ListBucket", COPY, context=lists)) and not role_may(role, Request("s3:ListBucket", COPY, context=OURS))


@pytest.mark.parametrize("function", sorted(functions()))
def test_no_function_of_the_first_stack_writes_into_the_copy(function: str) -> None:
    """But for the record itself where it is a restored stack, which may have been made anew from a copy too."""
    for key in SAMPLE_KEYS:
        for action in (*WRITES, "s3:ReplicateObject"):
            allowed = [one for one in statements(function) if may_by(one, Request(action, f"{COPY}/{key}", context=OURS))]
            assert all("IsRestored" in one.only_if and key == "home.json" and action == "s3:PutObject" for one in allowed), (key, action)
    assert may(function, Request("s3:GetObject", f"{COPY}/home.json", context=OURS))
    # A stranger who took the name of a deleted copy is not believed.
    for context in ({}, {"aws:ResourceAccount": "999999999999"}):
        assert not may(function, Request("s3:GetObject", f"{COPY}/home.json", context=context))
    assert not may(function, Request("s3:GetObject", f"{COPY}/jobs/vision/llama/state.json", context=OURS))


def may_by(statement: Any, request: Request) -> bool:
    return decision([statement], request) == "allowed"


def test_a_copy_is_written_by_replication_and_by_nobody() -> None:
    for key in SAMPLE_KEYS:
        for action in WRITES:
            assert decision((ADMINISTRATOR, *COPY_POLICY), Request(action, f"ReplicaBucket.Arn/{key}", context={"aws:SecureTransport": "true"})) == "explicitDeny"
        for action in ("s3:ReplicateObject", "s3:ReplicateDelete", "s3:GetObject"):
            assert decision((ADMINISTRATOR, *COPY_POLICY), Request(action, f"ReplicaBucket.Arn/{key}", context={"aws:SecureTransport": "true"})) == "allowed"
            assert decision((ADMINISTRATOR, *COPY_POLICY), Request(action, f"ReplicaBucket.Arn/{key}", context={"aws:SecureTransport": "false"})) == "explicitDeny"


def test_a_restored_bucket_is_never_a_copy_again() -> None:
    (guard,) = [one for one in STATE_POLICY if one.sid == "NobodyCopiesHereAgain"]
    assert guard.only_if == ("IsRestored",) and not guard.conditions
    for action in ("s3:ReplicateObject", "s3:ReplicateDelete", "s3:ReplicateTags"):
        for key in SAMPLE_KEYS:
            assert decision((ADMINISTRATOR, *STATE_POLICY), Request(action, f"{STATE}/{key}")) == "explicitDeny"


def test_without_the_parameters_nothing_of_it_exists() -> None:
    parameters, conditions = template()["Parameters"], template()["Conditions"]
    assert [parameters[name]["Default"] for name in ("ReplicaBucket", "ReplicaRegion", "RestoreFrom")] == [""] * 3
    assert conditions["HasReplica"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "ReplicaBucket"}, ""]}]}
    assert conditions["IsRestored"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "RestoreFrom"}, ""]}]}
    assert conditions["HasHome"] == {"Fn::Or": [{"Condition": "HasReplica"}, {"Condition": "IsRestored"}]}
    for name, condition in (("ReplicationRole", "HasReplica"), ("ReplicateState", "HasReplica"), ("ReachReplica", "HasReplica"), ("KnowHome", "HasHome"), ("SayHome", "HasHome")):
        assert resources()[name]["Condition"] == condition
    bucket = resources()["StateBucket"]["Properties"]
    assert bucket["BucketName"] == {"Fn::If": ["IsRestored", {"Ref": "RestoreFrom"}, {"Ref": "AWS::NoValue"}]}
    condition, replication, off = bucket["ReplicationConfiguration"]["Fn::If"]
    assert (condition, off) == ("HasReplica", {"Ref": "AWS::NoValue"})
    (rule,) = replication["Rules"]
    assert rule["DeleteMarkerReplication"] == {"Status": "Enabled"} and rule["Filter"] == {"Prefix": ""}
    for function in functions():
        named = [one for one in statements(function) if "ReplicaBucket" in str(one.resources) or "home.json" in str(one.resources)]
        assert named and all({"HasHome", "HasReplica", "IsRestored"} & set(one.only_if) for one in named), function
    # Both or none.
    rules = json.dumps(template()["Rules"])
    assert "ReplicaRegion needs ReplicaBucket" in rules and "ReplicaBucket needs ReplicaRegion" in rules


def test_the_replication_reads_the_state_and_writes_the_copy() -> None:
    role = resources()["ReplicationRole"]["Properties"]
    given = {**role, "Policies": [*role["Policies"], resources()["ReplicateState"]["Properties"]]}
    assert role_may(given, Request("s3:ReplicateObject", f"{COPY}/jobs/x", context=OURS)) and not role_may(given, Request("s3:ReplicateObject", f"{COPY}/jobs/x"))
    assert role_may(given, Request("s3:GetObjectVersionForReplication", f"{STATE}/jobs/x"))
    for action in ("s3:PutObject", "s3:GetObject", "s3:DeleteObject"):
        assert not role_may(given, Request(action, f"{STATE}/jobs/x")) and not role_may(given, Request(action, f"{COPY}/jobs/x", context=OURS))
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "s3.amazonaws.com"} and statements_of_role(given)


def test_the_copy_outlives_its_stack_and_is_private() -> None:
    bucket = REPLICA["ReplicaBucket"]
    assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"
    state = resources()["StateBucket"]["Properties"]
    for name in ("BucketEncryption", "OwnershipControls", "PublicAccessBlockConfiguration", "VersioningConfiguration"):
        assert bucket["Properties"][name] == state[name], name
    assert {one["Type"] for one in REPLICA.values()} == {"AWS::S3::Bucket", "AWS::S3::BucketPolicy"}
