"""The sample policies of deploy/policies, request by request: what a member of a team, its lead and finance may do, and which powers of docs/security.md the
policy of the organisation takes from everybody but Curfew and administrators."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import botocore.session
import pytest

from sample_policies import FINANCE, ORGANIZATION, TEAM_LEAD, TEAM_MEMBER, document, policy
from template_actions import REPOSITORY, resources
from template_iam import ACCOUNT, ADMINISTRATOR, INSTANCE, SNAPSHOT, VOLUME, Request, decision
from test_template_roles import ACCESS, FUNCTIONS, LIVES, OWN_TAGS

BUCKET = "arn:aws:s3:::state"
MEMBER, ORGANISATION = policy(TEAM_MEMBER), policy(ORGANIZATION)
LEAD, READER = (*MEMBER, *policy(TEAM_LEAD)), policy(FINANCE)

# What people say, and what Curfew writes for people and for IAM.
SAID = {f"curfew:{key}" for key in ("mode", "idle-after", "on-idle", "local-disk", "expires-at", "hours", "keep-until", "protected")}
LABELS = {f"curfew:{key}" for key in ("marked", "stopped", "unattached-since", "snapshot-of", "restore", "deleted-at", "job", "attempt", "box")}

ADA = f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_ml_1"
ADMIN = f"arn:aws:iam::{ACCOUNT}:role/Administrator"
MACHINE = f"arn:aws:iam::{ACCOUNT}:role/curfew/curfew-job-vision"


def role_of(function: str) -> str:
    """Named by CloudFormation, for the stack, the logical id and by chance."""
    logical_id = "".join(word.capitalize() for word in function.split("-")) + "Role"
    assert resources()[logical_id]["Type"] == "AWS::IAM::Role"
    return f"arn:aws:iam::{ACCOUNT}:role/curfew-{logical_id}-1ABC"


def member_may(action: str, resource: str, **context: str | list[str]) -> bool:
    named = {key.replace("__", ":"): value for key, value in context.items()}
    return decision(MEMBER, Request(action, resource, context=named)) == "allowed"


def is_left_to(who: str, action: str, resource: str, context: dict[str, str | list[str]] | None = None) -> bool:
    """Whether the organisation leaves it to somebody who is allowed everything."""
    asked = Request(action, resource, context={"aws:PrincipalArn": who, **(context or {})})
    return decision((ADMINISTRATOR, *ORGANISATION), asked) == "allowed"


# What IAM calls otherwise than the API does, makes of one call with a version, or asks besides.
NAMES = {
    "ListBucket": "ListObjectsV2",
    "DeleteObjectVersion": "DeleteObject",
    "PutLifecycleConfiguration": "PutBucketLifecycleConfiguration",
    "PassRole": "AddRoleToInstanceProfile",
}
SERVICES = {"servicequotas": "service-quotas"}


@pytest.mark.parametrize(
    ("path", "characters_max"),
    [(TEAM_MEMBER, 6_144), (TEAM_LEAD, 6_144), (FINANCE, 6_144), (ORGANIZATION, 5_120)],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_sample_policy_is_one_that_iam_takes(path: Path, characters_max: int) -> None:
    """Quotas: a managed policy, and a service control policy, blanks not counted."""
    found = document(path)
    assert len(json.dumps(found, separators=(",", ":"))) < characters_max * 0.9
    assert found["Version"] == "2012-10-17" and not re.search(r"[A-Z]{4,}", json.dumps(found).replace("ARN", ""))
    sids = [one["Sid"] for one in found["Statement"]]
    assert len(sids) == len(set(sids)) and all(sid.isalnum() for sid in sids)
    session = botocore.session.get_session()
    for statement in policy(path):
        for action in statement.actions:
            service, _, name = action.partition(":")
            assert NAMES.get(name, name) in session.get_service_model(SERVICES.get(service, service)).operation_names, action
        assert statement.effect == ("Deny" if path == ORGANIZATION else "Allow")


def test_every_tag_is_said_by_people_or_a_label_of_curfews() -> None:
    source = (REPOSITORY / "shared/model/src/curfew_tags.rs").read_text(encoding="utf-8")
    assert SAID | LABELS == set(re.findall(r'^pub const \w+: &str = "(curfew:[a-z-]+)";', source, re.MULTILINE))


WRITTEN_BY_MEMBERS = {
    f"jobs/{LIVES}/cancel.json",
    f"jobs/{LIVES}/extend.json",
    f"jobs/{LIVES}/followed.json",
    "inbox/vision/llama.toml",
    "triggers/vision/ingest.toml",
    "workdirs/vision/0123.tar.zst",
}


@pytest.mark.parametrize("key", [*(key for key, *_ in ACCESS), f"jobs/{LIVES}/followed.json", f"jobs/{LIVES}/sweep.json"])
def test_a_member_writes_nothing_that_governs_jobs(key: str) -> None:
    assert member_may("s3:PutObject", f"{BUCKET}/{key}") == (key in WRITTEN_BY_MEMBERS)
    assert member_may("s3:DeleteObject", f"{BUCKET}/{key}") == (key == "triggers/vision/ingest.toml")
    assert not member_may("s3:DeleteObjectVersion", f"{BUCKET}/{key}")
    for other in ("vision2", "nlp", "isio"):
        of_other = key.replace("/vision/", f"/{other}/")
        for action in ("s3:GetObject", "s3:PutObject") if of_other != key else ():
            assert not member_may(action, f"{BUCKET}/{of_other}"), of_other


def test_a_member_reads_what_its_own_jobs_leave() -> None:
    for key in (f"attempts/{LIVES}/1/log", f"outputs/{LIVES}/1/a.pt", f"checkpoints/{LIVES}/1/100/manifest.json", "inbox/vision/llama.rejected.json"):
        assert member_may("s3:GetObject", f"{BUCKET}/{key}"), key
    for key in ("notices/run-jobs/eu-west-1.json", "plans/2026-09-01/run-jobs/run.json", "budgets/vision/2026-09.json", "agent/0123"):
        assert not member_may("s3:GetObject", f"{BUCKET}/{key}"), key


def test_a_member_tags_what_its_team_has_and_only_by_the_keys_that_people_set() -> None:
    for action, resource, key in product(("ec2:CreateTags", "ec2:DeleteTags"), (INSTANCE, VOLUME, SNAPSHOT), sorted(SAID | LABELS | {"Team", "Owner", "Curfew:Mode"})):
        own: dict[str, str | list[str]] = {"aws__ResourceTag/Team": "vision", "aws__TagKeys": [key]}
        assert member_may(action, resource, **own) == (key in SAID), (action, resource, key)
        assert not member_may(action, resource, **{**own, "aws__ResourceTag/Team": "nlp"})
        assert not member_may(action, resource, aws__TagKeys=[key])
        assert not member_may(action, resource, **{**own, "aws__TagKeys": [key, "curfew:marked"]})
    # It would take all of them.
    assert not member_may("ec2:DeleteTags", INSTANCE, **{"aws__ResourceTag/Team": "vision"})
    for action in ("ec2:StopInstances", "ec2:TerminateInstances", "ec2:StartInstances", "ec2:RunInstances", "ec2:DeleteSnapshot"):
        assert not member_may(action, INSTANCE, **{"aws__ResourceTag/Team": "vision"}), action


def lead_may(action: str, resource: str, context: dict[str, str | list[str]] | None = None) -> bool:
    return decision(LEAD, Request(action, resource, context=context or {})) == "allowed"


@pytest.mark.parametrize("key", [key for key, *_ in ACCESS])
def test_a_team_lead_writes_what_a_member_writes_and_no_more(key: str) -> None:
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"):
        assert lead_may(action, f"{BUCKET}/{key}") == member_may(action, f"{BUCKET}/{key}")


def test_a_team_lead_undoes_what_happened_to_its_team() -> None:
    for team, own in (("vision", True), ("nlp", False)):
        there: dict[str, str | list[str]] = {"aws:ResourceTag/Team": team}
        given: dict[str, str | list[str]] = {"aws:RequestTag/Team": team}
        assert lead_may("ec2:StartInstances", INSTANCE, there) == own
        assert lead_may("ec2:CreateVolume", SNAPSHOT, there) == own and lead_may("ec2:CreateVolume", VOLUME, given) == own
        created: dict[str, str | list[str]] = {**given, "ec2:CreateAction": "CreateVolume", "aws:TagKeys": ["Team", "Name"]}
        assert lead_may("ec2:CreateTags", VOLUME, created) == own
        for action in ("ec2:StopInstances", "ec2:TerminateInstances", "ec2:RunInstances", "ec2:DeleteVolume", "ec2:DeleteSnapshot"):
            assert not lead_may(action, INSTANCE, there), action
    # Without the tags of a new volume it would tag volumes that exist.
    assert not lead_may("ec2:CreateTags", VOLUME, {"aws:RequestTag/Team": "vision", "aws:TagKeys": ["Team"]})


def test_finance_reads_and_changes_nothing() -> None:
    actions = {action for statement in READER for action in statement.actions}
    assert all(re.match(r"[a-z0-9-]+:(Describe|Get|List)[A-Z]", action) for action in actions), actions
    for key, expect in (
        ("ledger/2026-09/eu-west-1.json", True),
        ("budgets/vision/2026-09.json", True),
        ("reports/2026-09-01/report.html", True),
        ("exports/2026-09/curfew-focus.csv", True),
        (f"jobs/{LIVES}/spec.toml", False),
        (f"attempts/{LIVES}/1/log", False),
        (f"outputs/{LIVES}/1/a.pt", False),
        (f"checkpoints/{LIVES}/1/100/model.pt", False),
    ):
        assert (decision(READER, Request("s3:GetObject", f"{BUCKET}/{key}")) == "allowed") == expect, key


ON_SNAPSHOTS = {"curfew:snapshot-of", "curfew:restore", "curfew:deleted-at"}
ENDPOINT = f"arn:aws:sagemaker:eu-west-1:{ACCOUNT}:endpoint/llm"


def test_only_curfew_writes_its_labels() -> None:
    tagging = [("ec2:CreateTags", INSTANCE), ("ec2:DeleteTags", VOLUME), ("ec2:CreateTags", SNAPSHOT), ("ec2:DeleteTags", SNAPSHOT), ("sagemaker:AddTags", ENDPOINT)]
    for (action, resource), key in product(tagging, sorted(LABELS)):
        is_label = (key in ON_SNAPSHOTS) == (resource == SNAPSHOT)
        for spelt in (key, key.title(), key.upper()):
            labelled: dict[str, str | list[str]] = {"aws:TagKeys": ["Name", spelt]}
            for who in (ADA, MACHINE, f"arn:aws:iam::{ACCOUNT}:role/people/curfew-ReapInstancesRole-1"):
                assert is_left_to(who, action, resource, labelled) == (not is_label), (resource, spelt)
            assert all(is_left_to(who, action, resource, labelled) for who in (role_of("reap-volumes"), ADMIN))
    assert all(is_left_to(ADA, "ec2:CreateTags", INSTANCE, {"aws:TagKeys": [key, "Team"]}) for key in SAID)


def test_backups_that_copy_the_tags_of_a_volume_go_on() -> None:
    """Of one that is marked, too: of what is new no label counts."""
    copied: dict[str, str | list[str]] = {"aws:TagKeys": ["Name", "curfew:marked", "curfew:unattached-since", "curfew:job"]}
    for action, resource in (("CreateSnapshot", SNAPSHOT), ("CreateVolume", VOLUME), ("RunInstances", INSTANCE)):
        assert is_left_to(ADA, "ec2:CreateTags", resource, {**copied, "ec2:CreateAction": action}), action


def test_what_functions_write_on_resources_the_organisation_leaves_to_them() -> None:
    for (function, action, resource), (keys, _) in OWN_TAGS.items():
        assert all(is_left_to(role_of(function), action, resource, {"aws:TagKeys": [key]}) for key in keys), function
    for key in ("curfew:snapshot-of", "curfew:restore", "curfew:marked"):
        assert is_left_to(role_of("reap-volumes"), "ec2:CreateTags", SNAPSHOT, {"aws:TagKeys": [key], "ec2:CreateAction": "CreateSnapshot"})
    for key in ("curfew:job", "curfew:attempt"):
        assert is_left_to(role_of("run-jobs"), "ec2:CreateTags", INSTANCE, {"aws:TagKeys": [key], "ec2:CreateAction": "RunInstances"})
    for key in ("curfew:marked", "curfew:stopped"):
        assert is_left_to(role_of("reap-sagemaker"), "sagemaker:AddTags", ENDPOINT, {"aws:TagKeys": [key]})


@pytest.mark.parametrize(("key", "of_functions"), [(key, of_each[:7]) for key, *of_each in ACCESS])
def test_only_curfew_writes_its_memory(key: str, of_functions: list[str]) -> None:
    governs = not key.startswith(("inbox/", "triggers/", "workdirs/", "/attempts")) and not key.endswith(("cancel.json", "extend.json", "jobs/vision/llama-0123abcd/attempts/1/heartbeat.json"))
    for action in ("s3:PutObject", "s3:DeleteObject"):
        by_machine = key.startswith(("attempts/", "outputs/", "checkpoints/"))
        assert is_left_to(ADA, action, f"{BUCKET}/{key}") == (not governs or by_machine and action == "s3:DeleteObject")
        assert is_left_to(ADMIN, action, f"{BUCKET}/{key}")
        assert not by_machine or is_left_to(MACHINE, action, f"{BUCKET}/{key}")
    for function, letters in zip(FUNCTIONS, of_functions, strict=True):
        assert "w" not in letters or is_left_to(role_of(function), "s3:PutObject", f"{BUCKET}/{key}"), function
        assert "d" not in letters or is_left_to(role_of(function), "s3:DeleteObject", f"{BUCKET}/{key}"), function
    assert is_left_to(ADA, "s3:PutObject", f"arn:aws:s3:::other/{key}")


def test_what_a_member_may_the_organisation_leaves_to_it() -> None:
    for key in WRITTEN_BY_MEMBERS:
        assert is_left_to(ADA, "s3:PutObject", f"{BUCKET}/{key}"), key


def test_only_curfew_speaks_for_curfew() -> None:
    topic, queue = f"arn:aws:sns:us-east-1:{ACCOUNT}:curfew-Topic-1ABC", f"arn:aws:sqs:us-east-1:{ACCOUNT}:curfew-FailedEvents-1ABC"
    for action, resource in (("sns:Publish", topic), ("sqs:SendMessage", queue)):
        assert not is_left_to(ADA, action, resource) and not is_left_to(MACHINE, action, resource)
        assert all(is_left_to(who, action, resource) for who in (ADMIN, *map(role_of, FUNCTIONS)))
        assert is_left_to(ADA, action, resource.replace("curfew-", "ours-"))


def test_only_administrators_make_roles_of_curfew() -> None:
    for name in ("curfew-ReapInstancesRole-mine", "curfew/curfew-job-vision"):
        role = f"arn:aws:iam::{ACCOUNT}:role/{name}"
        for action in ("iam:CreateRole", "iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:UpdateAssumeRolePolicy", "iam:PassRole"):
            assert not is_left_to(ADA, action, role) and is_left_to(ADMIN, action, role), action
    assert is_left_to(role_of("run-jobs"), "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/curfew/curfew-job-vision")
    assert is_left_to(ADA, "iam:CreateRole", f"arn:aws:iam::{ACCOUNT}:role/training")


def test_only_administrators_change_the_bucket() -> None:
    for action in ("s3:PutBucketPolicy", "s3:DeleteBucketPolicy", "s3:PutBucketVersioning", "s3:PutLifecycleConfiguration"):
        assert not is_left_to(ADA, action, BUCKET) and is_left_to(ADMIN, action, BUCKET), action
        assert is_left_to(ADA, action, "arn:aws:s3:::other")


def test_only_instances_publish_their_use() -> None:
    from_instance: dict[str, str | list[str]] = {"ec2:SourceInstanceARN": INSTANCE}
    for namespace, expect in (("CWAgent", False), ("Training", True)):
        into: dict[str, str | list[str]] = {"cloudwatch:namespace": namespace}
        assert is_left_to(ADA, "cloudwatch:PutMetricData", "*", into) == expect
        assert is_left_to(MACHINE, "cloudwatch:PutMetricData", "*", {**into, **from_instance})


def test_only_the_pipeline_names_images() -> None:
    parameter = f"arn:aws:ssm:eu-west-1:{ACCOUNT}:parameter"
    assert not is_left_to(ADA, "ssm:PutParameter", f"{parameter}/curfew/images/x86_64")
    assert is_left_to(f"arn:aws:iam::{ACCOUNT}:role/images", "ssm:PutParameter", f"{parameter}/curfew/images/x86_64")
    assert is_left_to(ADA, "ssm:PutParameter", f"{parameter}/vision/token")
