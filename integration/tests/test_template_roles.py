"""What the roles of template.yaml let their functions do, request by request.

test_template.py reads what the policies say; here they are evaluated, as IAM would. A bug of a function is what they are
for: so each case is something that a function does, or that it must never do whatever its code says.
"""

from __future__ import annotations

import json
from typing import Any, Callable

import pytest

from template_actions import REPOSITORY, resources, statements_of_role, template
from template_iam import ACCOUNT, ADMINISTRATOR, INSTANCE, SNAPSHOT, VOLUME, Request, arn_of, may, role_may

OF = "curfew:snapshot-of"
MARKED = "curfew:marked"
DELETED = "curfew:deleted-at"
JOB = "curfew:job"
BUCKET = "StateBucket.Arn"


def tagging(resource: str, *keys: str, on: tuple[str, ...] = (), action: str = "ec2:CreateTags") -> Request:
    return Request(action, resource, tags=on, tag_keys=keys)


def untagging(resource: str, *keys: str, on: tuple[str, ...] = ()) -> Request:
    return tagging(resource, *keys, on=on, action="ec2:DeleteTags")


# What each function does to what carries these tags.
DONE = {
    "run-jobs": [Request("ec2:TerminateInstances", INSTANCE, tags=(JOB, "curfew:mode", "curfew:expires-at"))],
    "reap-instances": [
        tagging(INSTANCE, MARKED, on=("Team",)),
        untagging(INSTANCE, MARKED, on=(MARKED,)),
        tagging(INSTANCE, MARKED, "curfew:stopped"),
        Request("ec2:StopInstances", INSTANCE, tags=(MARKED, "curfew:mode")),
        Request("ec2:TerminateInstances", INSTANCE, tags=("curfew:expires-at",)),
        Request("ec2:TerminateInstances", INSTANCE, tags=("curfew:job",)),
        Request("ec2:StartInstances", INSTANCE, tags=("curfew:stopped",)),
    ],
    "reap-volumes": [
        tagging(VOLUME, "curfew:unattached-since"),
        tagging(VOLUME, MARKED, on=("curfew:unattached-since", "Team")),
        tagging(VOLUME, MARKED, "curfew:unattached-since"),
        untagging(VOLUME, MARKED, "curfew:unattached-since", on=(MARKED, "curfew:unattached-since")),
        Request("ec2:DeleteVolume", VOLUME, tags=(MARKED, "curfew:mode")),
        tagging(SNAPSHOT, DELETED, on=(OF, "curfew:mode")),
        Request("ec2:DeleteSnapshot", SNAPSHOT, tags=(OF, DELETED, "curfew:mode")),
    ],
}

# What each must never do. Each is one tag away from what it does.
NEVER_DONE = {
    "run-jobs": [
        Request("ec2:TerminateInstances", INSTANCE),
        # Others announce it, or it says so itself: that is for the reaper.
        Request("ec2:TerminateInstances", INSTANCE, tags=(MARKED, "curfew:expires-at", "curfew:attempt")),
        Request("ec2:StopInstances", INSTANCE, tags=(JOB,)),
        Request("ec2:StartInstances", INSTANCE, tags=(JOB,)),
        Request("ec2:DeleteVolume", VOLUME, tags=(JOB,)),
        # What exists does not become a job's, and what is a job's does not cease to be.
        tagging(INSTANCE, JOB),
        tagging(INSTANCE, JOB, on=(JOB,)),
        tagging(VOLUME, JOB),
        untagging(INSTANCE, JOB, on=(JOB,)),
        Request("ec2:CreateTags", INSTANCE, tag_keys=(JOB,), create_action="CreateFleet"),
    ],
    "reap-instances": [
        Request("ec2:StopInstances", INSTANCE),
        Request("ec2:TerminateInstances", INSTANCE, tags=("Team", "curfew:mode")),
        Request("ec2:StartInstances", INSTANCE, tags=(MARKED,)),
        Request("ec2:DeleteVolume", VOLUME, tags=(MARKED,)),
        tagging(VOLUME, MARKED),
        tagging(INSTANCE, MARKED, "Team"),
        tagging(INSTANCE, "curfew:expires-at"),
        untagging(INSTANCE, on=(MARKED,)),
        tagging(INSTANCE),
    ],
    "reap-volumes": [
        Request("ec2:DeleteVolume", VOLUME),
        Request("ec2:DeleteVolume", VOLUME, tags=("curfew:unattached-since", "Team")),
        Request("ec2:StopInstances", INSTANCE, tags=(MARKED,)),
        Request("ec2:DeleteSnapshot", SNAPSHOT),
        Request("ec2:DeleteSnapshot", SNAPSHOT, tags=(OF,)),
        Request("ec2:DeleteSnapshot", SNAPSHOT, tags=(DELETED, "Name")),
        # Nobody else's snapshot becomes one of its own, nor gets a date.
        tagging(SNAPSHOT, OF),
        tagging(SNAPSHOT, DELETED),
        tagging(SNAPSHOT, OF, DELETED),
        tagging(SNAPSHOT, DELETED, "Name", on=(OF,)),
        untagging(SNAPSHOT, DELETED, on=(OF, DELETED)),
        untagging(SNAPSHOT, on=(OF, DELETED)),
        tagging(INSTANCE, MARKED),
        tagging(VOLUME, MARKED, "Name"),
        untagging(VOLUME, on=(MARKED,)),
        untagging(VOLUME, "Team", on=(MARKED, "Team")),
    ],
}

# What must not be done even by a role that somebody has given everything.
NEVER_EVEN_SO = {
    "run-jobs": [
        Request("ec2:TerminateInstances", INSTANCE),
        Request("ec2:TerminateInstances", INSTANCE, tags=(MARKED, "curfew:expires-at")),
        *(
            Request("ec2:CreateTags", at, tag_keys=(JOB, key), create_action="RunInstances")
            for at in (INSTANCE, VOLUME)
            for key in ("curfew:protected", "curfew:keep-until")
        ),
        *(tagging(INSTANCE, key, on=(JOB,)) for key in ("curfew:protected", "curfew:mode", "curfew:keep-until")),
        untagging(INSTANCE, "curfew:mode", on=(JOB,)),
    ],
    "reap-instances": [tagging(INSTANCE, key) for key in ("curfew:protected", "curfew:mode", "curfew:keep-until")]
    + [untagging(INSTANCE, "curfew:protected", MARKED)],
    # It changes nothing: whatever a reaper does.
    "enforce-budgets": [
        *DONE["reap-instances"],
        *DONE["reap-volumes"],
        Request("ec2:RunInstances", INSTANCE),
        Request("ec2:CreateSnapshot", VOLUME, tags=(MARKED,)),
    ],
    "reap-volumes": [
        tagging(at, key)
        for at in (VOLUME, SNAPSHOT)
        for key in ("curfew:protected", "curfew:mode", "curfew:keep-until")
    ]
    + [
        untagging(VOLUME, "curfew:mode", MARKED),
        Request("ec2:DeleteSnapshot", SNAPSHOT),
        Request("ec2:DeleteSnapshot", SNAPSHOT, tags=(DELETED, "Name")),
    ],
}


def cases(of: dict[str, list[Request]]) -> list[tuple[str, Request]]:
    return [(function, request) for function, requests in of.items() for request in requests]


@pytest.mark.parametrize(("function", "request_"), cases(DONE))
def test_a_function_may_do_what_it_does(function: str, request_: Request) -> None:
    assert may(function, request_)
    assert not may(function, request_, enforcing=False)


@pytest.mark.parametrize(("function", "request_"), cases(NEVER_DONE))
def test_a_function_may_do_nothing_else(function: str, request_: Request) -> None:
    assert not may(function, request_)


@pytest.mark.parametrize("spelling", ["curfew:protected", "Curfew:Protected"])
@pytest.mark.parametrize(("function", "request_"), cases(DONE))
def test_what_is_protected_is_not_touched(function: str, request_: Request, spelling: str) -> None:
    protected = Request(
        request_.action, request_.resource, tags=(*request_.tags, spelling), tag_keys=request_.tag_keys
    )
    assert not may(function, protected)
    assert not may(function, protected, besides=(ADMINISTRATOR,))


@pytest.mark.parametrize(("function", "request_"), cases(NEVER_EVEN_SO))
def test_what_is_denied_stays_so_whatever_else_is_allowed(function: str, request_: Request) -> None:
    assert not may(function, request_, besides=(ADMINISTRATOR,))
    assert not may(function, request_, besides=(ADMINISTRATOR,), enforcing=False)


def may_snapshot(volume_tags: list[str], snapshot_tags: list[str], *, enforcing: bool = True) -> bool:
    """CreateSnapshot with tags is three questions: about the volume, the new snapshot, and the tags.

    Whether tags that a new resource is to have count as tags on it, the IAM user guide leaves to the service ("AWS global
    condition context keys", aws:ResourceTag): the answer must not depend on it.
    """
    answers = {
        may("reap-volumes", Request("ec2:CreateSnapshot", VOLUME, volume_tags, snapshot_tags), enforcing=enforcing)
        and may("reap-volumes", Request("ec2:CreateSnapshot", SNAPSHOT, on_it, snapshot_tags), enforcing=enforcing)
        and may(
            "reap-volumes",
            Request("ec2:CreateTags", SNAPSHOT, on_it, snapshot_tags, "CreateSnapshot"),
            enforcing=enforcing,
        )
        for on_it in ([], snapshot_tags)
    }
    assert len(answers) == 1
    return answers.pop()


def test_a_safety_snapshot_is_made_of_what_is_marked_and_takes_its_tags_along() -> None:
    tags = ["Name", "Team", "curfew:mode", "curfew:keep-until", "curfew:job"]
    own = [OF, "curfew:restore"]
    assert may_snapshot([*tags, MARKED], [*tags, *own])
    assert not may_snapshot([*tags, MARKED], [*tags, *own], enforcing=False)
    assert not may_snapshot(tags, [*tags, *own])
    assert not may_snapshot([*tags, MARKED], [*tags, "curfew:restore"])
    assert not may_snapshot([MARKED, "curfew:protected"], own)
    assert not may_snapshot([MARKED], [*own, "curfew:protected"])
    # Not born as one that may end.
    assert not may_snapshot([MARKED], [*own, DELETED])


LAUNCHED = (JOB, "curfew:attempt", "curfew:expires-at", "curfew:mode", "Team", "Name")
IMDSV2 = {"ec2:MetadataHttpTokens": "required"}


def may_launch(
    tags: tuple[str, ...] = LAUNCHED,
    instance: dict[str, str | list[str]] = IMDSV2,
    *,
    encrypted: bool = True,
    enforcing: bool = True,
) -> bool:
    """RunInstances with tags is a question about each thing that it makes or uses, and about the tags of those that get some.

    As of a snapshot, the answer must not depend on whether tags that something is to have count as tags on it.
    """
    ec2 = "arn:aws:ec2:eu-west-1"
    used = [f"{ec2}::image/ami-0abc", f"{ec2}:{ACCOUNT}:network-interface/eni-0abc"]
    # Those of another account, too.
    used += [f"{ec2}:{owner}:{kind}/x-0abc" for kind in ("subnet", "security-group") for owner in (ACCOUNT, "999999999999")]
    of_volume: dict[str, str | list[str]] = {"ec2:Encrypted": str(encrypted).lower()}
    answers = {
        all(
            may("run-jobs", request, enforcing=enforcing)
            for request in (
                *(Request("ec2:RunInstances", one) for one in used),
                Request("ec2:RunInstances", INSTANCE, on_it, tags, context=instance),
                Request("ec2:RunInstances", VOLUME, on_it, tags, context=of_volume),
                *(Request("ec2:CreateTags", one, on_it, tags, "RunInstances") for one in (INSTANCE, VOLUME)),
            )
        )
        for on_it in ((), tags)
    }
    assert len(answers) == 1
    return answers.pop()


def test_a_machine_is_launched_that_says_whose_it_is_and_when_it_ends() -> None:
    assert may_launch()
    assert not may_launch(enforcing=False)
    for lacking in (JOB, "curfew:attempt", "curfew:expires-at"):
        assert not may_launch(tuple(tag for tag in LAUNCHED if tag != lacking)), lacking
    for too_much in ("curfew:protected", "curfew:keep-until"):
        assert not may_launch((*LAUNCHED, too_much)), too_much
    assert not may_launch(encrypted=False)
    for answered in ({}, {"ec2:MetadataHttpTokens": "optional"}):
        assert not may_launch(instance=answered)


@pytest.mark.parametrize(
    ("role", "service", "expect"),
    [
        ("curfew/curfew-job", "ec2.amazonaws.com", True),
        ("curfew/curfew-job-vision", "ec2.amazonaws.com", True),
        ("curfew-job-vision", "ec2.amazonaws.com", False),
        ("curfew2/curfew-job-vision", "ec2.amazonaws.com", False),
        ("curfew/curfew-job", "lambda.amazonaws.com", False),
        ("Administrator", "ec2.amazonaws.com", False),
        ("curfew-RunJobsRole-1ABC", "ec2.amazonaws.com", False),
    ],
)
def test_machines_get_roles_that_are_made_for_them(role: str, service: str, expect: bool) -> None:
    passing = Request("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/{role}", context={"iam:PassedToService": service})
    assert may("run-jobs", passing) == expect
    assert not may("run-jobs", passing, enforcing=False)


@pytest.mark.parametrize(
    ("role", "service", "expect"),
    [
        ("spot.amazonaws.com/AWSServiceRoleForEC2Spot", "spot.amazonaws.com", True),
        ("spot.amazonaws.com/AWSServiceRoleForEC2Spot", "autoscaling.amazonaws.com", False),
        ("spot.amazonaws.com/AWSServiceRoleForEC2Spot_x", "spot.amazonaws.com", False),
        ("autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling", "autoscaling.amazonaws.com", False),
    ],
)
def test_one_service_linked_role_may_be_created(role: str, service: str, expect: bool) -> None:
    at = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{role}"
    creating = Request("iam:CreateServiceLinkedRole", at, context={"iam:AWSServiceName": service})
    assert may("run-jobs", creating) == expect
    for function in ALL:
        assert not may(function, creating, enforcing=False)
        assert function == "run-jobs" or not may(function, creating)


@pytest.mark.parametrize(
    ("parameter", "expect"),
    [
        (":parameter/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id", True),
        (f"{ACCOUNT}:parameter/aws/service/deeplearning/x", False),
        (f"{ACCOUNT}:parameter/curfew/images/x86_64", True),
        (f"{ACCOUNT}:parameter/curfew/secret", False),
        ("999999999999:parameter/curfew/images/x86_64", False),
        (":parameter/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64", False),
        (f"{ACCOUNT}:parameter/vision/token", False),
    ],
)
def test_only_parameters_that_name_images_are_asked_for(parameter: str, expect: bool) -> None:
    assert may("run-jobs", Request("ssm:GetParameter", f"arn:aws:ssm:eu-west-1:{parameter}")) == expect


# Each key of the state bucket: who reads, who writes and who deletes it of the function, a machine of any team, one of vision.
LIVES = "vision/llama-0123abcd"
OF_JOBS: list[tuple[str, str, str, str]] = [
    # key, the function, the common role, the role of team vision
    ("inbox/vision/llama.toml", "r", "", ""),
    ("inbox/vision/llama.accepted.json", "rwd", "", ""),
    ("inbox/vision/llama.rejected.json", "rwd", "", ""),
    (f"jobs/{LIVES}/spec.toml", "rw", "r", "r"),
    (f"jobs/{LIVES}/state.json", "rw", "r", "r"),
    (f"jobs/{LIVES}/cancel.json", "r", "r", "r"),
    (f"attempts/{LIVES}/head.json", "r", "rw", "rw"),
    (f"attempts/{LIVES}/1/heartbeat.json", "r", "rw", "rw"),
    (f"attempts/{LIVES}/1/log", "r", "rw", "rw"),
    # What a machine leaves behind may be called as it likes.
    (f"outputs/{LIVES}/1/results/state.json", "", "rw", "rw"),
    ("outputs/nlp/bert-0123abcd/1/results/a.pt", "", "rw", ""),
    (f"checkpoints/{LIVES}/1/100/manifest.json", "", "rwv", "rwv"),
    (f"active/{LIVES}", "rwd", "", ""),
    ("agent/0123abcd", "rw", "r", "r"),
    ("budgets/vision/2026-11.json", "rw", "", ""),
    ("config/curfew.toml", "r", "", ""),
    ("prices/current.json", "rw", "", ""),
    ("ledger/2026-11/eu-west-1.json", "", "", ""),
    ("plans/2026-09-01/run-jobs/run.json", "w", "", ""),
    ("attempts/nlp/bert-0123abcd/head.json", "r", "rw", ""),
    ("attempts/vision-2/bert-0123abcd/head.json", "r", "rw", ""),
    ("checkpoints/nlp/bert-0123abcd/1/100/manifest.json", "", "rwv", ""),
]
TEAM_ROLE = template(REPOSITORY / "deploy" / "team-role.yaml")["Resources"]["JobRole"]["Properties"]


def common_role(request: Request, besides: tuple[Any, ...] = ()) -> bool:
    return role_may(resources()["JobRole"]["Properties"], request, besides=besides)


def team_role(request: Request, besides: tuple[Any, ...] = ()) -> bool:
    """The names that stand for its parameters are its parameters."""
    as_vision = Request(
        request.action,
        request.resource.replace(BUCKET, "arn:aws:s3:::StateBucket").replace("/vision/", "/Team/"),
        context={key: str(value).replace("/vision/", "/Team/") for key, value in request.context.items()},
    )
    return role_may(TEAM_ROLE, as_vision, besides=besides)


WHO: list[Callable[[Request], bool]] = [lambda request: may("run-jobs", request), common_role, team_role]


@pytest.mark.parametrize(("key", "expect"), [(key, of_each) for key, *of_each in OF_JOBS])
def test_each_writes_its_own_part_of_a_job(key: str, expect: list[str]) -> None:
    actions = {"r": "s3:GetObject", "w": "s3:PutObject", "d": "s3:DeleteObject", "v": "s3:DeleteObjectVersion"}
    for who, letters in zip(WHO, expect, strict=True):
        may_do = {letter for letter, action in actions.items() if who(Request(action, f"{BUCKET}/{key}"))}
        assert may_do == set(letters), (who, key)


@pytest.mark.parametrize("who", [common_role, team_role])
def test_whatever_a_team_gives_its_role_a_machine_does_not_say_where_its_job_stands(who: Any) -> None:
    for key, of_function, of_common, _ in OF_JOBS:
        if "w" in of_function and "w" not in of_common:
            assert not who(Request("s3:PutObject", f"{BUCKET}/{key}"), besides=(ADMINISTRATOR,)), key


# Keys at which something other than a machine writes, or would read, or that only look like a machine's own. `*` matches `/` in IAM.
HOSTILE = [
    "jobs/nlp/attempts/state.json",
    "jobs/vision/attempts/state.json",
    f"jobs/{LIVES}/attempts/1/heartbeat.json",
    f"jobs/{LIVES}/attempts/state.json",
    f"jobs/{LIVES}/head.json",
    f"jobs/{LIVES}/cancel.json",
    f"jobs/{LIVES}/checkpoints/state.json",
    "jobs/attempts/vision/state.json",
    "jobs/x/attempts/../state.json",
    f"active/{LIVES}",
    "active/attempts/x-0123abcd",
    "inbox/vision/llama.toml",
    "inbox/nlp/attempts/llama.toml",
    "inbox/vision/llama.accepted.json",
    "config/curfew.toml",
    "agent/0123abcd",
    "ledger/2026-11/eu-west-1.json",
    "budgets/vision/2026-11.json",
    "budgets/2026-11.json",
    "notices/run-jobs/eu-west-1.json",
    "activity/eu-west-1.json",
    "plans/2026-11-01/run-jobs/attempts/run.json",
    "prices/current.json",
]
# In no folder of Curfew's at all.
ELSEWHERE = ["attempts", f"x/attempts/{LIVES}/head.json", f"/attempts/{LIVES}/head.json"]


@pytest.mark.parametrize("who", [common_role, team_role])
@pytest.mark.parametrize("key", [*HOSTILE, *ELSEWHERE])
def test_no_machine_writes_what_curfew_believes(who: Any, key: str) -> None:
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"):
        assert not who(Request(action, f"{BUCKET}/{key}"))
        assert key in ELSEWHERE or not who(Request(action, f"{BUCKET}/{key}"), besides=(ADMINISTRATOR,))


@pytest.mark.parametrize("role", [resources()["JobRole"]["Properties"], TEAM_ROLE])
def test_what_a_machine_writes_begins_with_a_folder_of_its_own(role: dict[str, Any]) -> None:
    """Each pattern has one `*`, at its end: what comes before it is a prefix, and matches nothing else."""
    allowed = [one for one in statements_of_role(role) if one.effect == "Allow"]
    writing = {"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}
    patterns = [arn_of(at) for one in allowed if writing & set(one.actions) for at in one.resources]
    assert all(pattern.count("*") == 1 and pattern.endswith("/*") and "?" not in pattern for pattern in patterns), patterns
    folders = {pattern.removeprefix(BUCKET).removeprefix("arn:aws:s3:::StateBucket").split("/")[1] for pattern in patterns}
    assert folders == {"attempts", "outputs", "checkpoints"}


ARN = "arn:aws:s3:::StateBucket"


def role_of(team: str) -> dict[str, Any]:
    """team-role.yaml for one team: its parameter Team is filled in."""
    return json.loads(json.dumps(TEAM_ROLE).replace("${Team}", team))


# Each is a prefix of others, or is what a pattern could take it for.
NEIGHBOURS = ["vision", "vision2", "vision-x", "vision%2Fx", "Vision", "isio", "v"]
TEAMS = [(team, other) for team in NEIGHBOURS for other in NEIGHBOURS if team != other]


@pytest.mark.parametrize(("team", "other"), TEAMS)
def test_a_team_reaches_nothing_of_another(team: str, other: str) -> None:
    role = role_of(team)
    for folder, own in (("attempts", "rw"), ("checkpoints", "rwd"), ("outputs", "rw"), ("jobs", "r")):
        for whose, expect in ((team, own), (other, "")):
            key = f"{folder}/{whose}/llama-0123abcd/head.json"
            actions = {"r": "s3:GetObject", "w": "s3:PutObject", "d": "s3:DeleteObjectVersion"}
            may_do = "".join(letter for letter, action in actions.items() if role_may(role, Request(action, f"{ARN}/{key}")))
            assert may_do == expect, key
        for prefix in (f"{folder}/{other}/", f"{folder}/{other}", f"{folder}/", folder, ""):
            assert not role_may(role, listing(prefix)), prefix
            assert not role_may(role, listing(prefix), besides=(ADMINISTRATOR,)), prefix
        for prefix in (f"{folder}/{team}/", f"{folder}/{team}/llama-0123abcd/1/"):
            assert role_may(role, listing(prefix)), prefix


def listing(prefix: str | None, bucket: str = ARN) -> Request:
    return Request("s3:ListBucket", bucket, context={} if prefix is None else {"s3:prefix": prefix})


def test_nothing_is_listed_without_a_prefix() -> None:
    """Not by the common role either, nor by one that somebody has given everything."""
    roles = [(role_of("vision"), ARN, "jobs/vision/"), (resources()["JobRole"]["Properties"], BUCKET, "jobs/vision/")]
    for role, bucket, own in roles:
        assert role_may(role, listing(own, bucket))
        for prefix in (None, "", "j", "config/", "inbox/vision/", "budgets/"):
            for besides in ((), (ADMINISTRATOR,)):
                assert not role_may(role, listing(prefix, bucket), besides=besides), prefix


@pytest.mark.parametrize("who", [common_role, team_role])
def test_a_machine_may_do_nothing_beside_its_part_of_the_bucket(who: Any) -> None:
    assert who(Request("cloudwatch:PutMetricData", "*", context={"cloudwatch:namespace": "Curfew/Jobs"}))
    # What reap-instances reads as evidence.
    assert not who(Request("cloudwatch:PutMetricData", "*", context={"cloudwatch:namespace": "CWAgent"}))
    assert not who(Request("cloudwatch:PutMetricData", "*", context={"cloudwatch:namespace": "AWS/EC2"}))
    # It ends by shutting down, for which it needs nobody.
    for action in ("ec2:TerminateInstances", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole", "sns:Publish"):
        assert not who(Request(action, INSTANCE, tags=(JOB,)))
    secret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:token"
    assert not who(Request("secretsmanager:GetSecretValue", secret))


@pytest.mark.parametrize("who", [common_role, team_role])
def test_a_machine_lists_the_versions_of_checkpoints_alone(who: Any) -> None:
    def lists(**context: str) -> bool:
        return who(Request("s3:ListBucketVersions", BUCKET, context={name.replace("_", ":"): value for name, value in context.items()}))

    assert lists(s3_prefix=f"checkpoints/{LIVES}/1/100/")
    assert lists(s3_prefix="checkpoints/nlp/bert-0123abcd/") == (who is common_role)
    assert not lists(s3_prefix=f"jobs/{LIVES}/") and not lists()


@pytest.mark.parametrize("who", [common_role, team_role])
def test_a_machine_gives_up_what_it_has_not_uploaded_whole(who: Any) -> None:
    for key, _, *of_machines in OF_JOBS:
        letters = of_machines[1 if who is team_role else 0]
        assert who(Request("s3:AbortMultipartUpload", f"{BUCKET}/{key}")) == ("w" in letters), key


@pytest.mark.parametrize(("who", "given"), [(common_role, "JobSecretArns"), (team_role, "SecretArns")])
def test_secrets_are_read_as_the_agent_reads_them(who: Any, given: str) -> None:
    """By Parameter Store: it asks by one name for both, and Secrets Manager besides (agent/src/secrets.rs)."""
    of_parameters = f"arn:aws:ssm:eu-west-1:{ACCOUNT}:parameter/"
    assert who(Request("ssm:GetParameter", f"{of_parameters}aws/reference/secretsmanager/team/hf-token"))
    for action in ("secretsmanager:GetSecretValue", "ssm:GetParameter"):
        assert who(Request(action, given)), "what the parameter of the template names"
    assert not who(Request("ssm:GetParameter", f"{of_parameters}token"))
    role = TEAM_ROLE if who is team_role else resources()["JobRole"]["Properties"]
    conditions = {one.only_if for one in statements_of_role(role) if "ssm:GetParameter" in one.actions}
    assert conditions == {("HasJobSecrets" if given == "JobSecretArns" else "HasSecrets",)}


ALL = {"reap-instances", "reap-volumes", "enforce-budgets", "run-jobs"}


@pytest.mark.parametrize(("function", "other"), [(one, other) for one in sorted(ALL) for other in sorted(ALL - {one})])
def test_a_function_reads_and_writes_its_own_memory_alone(function: str, other: str) -> None:
    for enforcing in (False, True):

        def sees(key: str) -> bool:
            return may(function, Request("s3:GetObject", f"{BUCKET}/{key}"), enforcing=enforcing)

        def writes(key: str) -> bool:
            return may(function, Request("s3:PutObject", f"{BUCKET}/{key}"), enforcing=enforcing)

        assert sees("config/curfew.toml") and not writes("config/curfew.toml")
        assert sees(f"notices/{function}/eu-west-1.json") and writes(f"notices/{function}/eu-west-1.json")
        assert not sees(f"notices/{other}/eu-west-1.json") and not writes(f"notices/{other}/eu-west-1.json")
        record = f"plans/2026-09-01/{function}/run.json"
        assert writes(record) and not sees(record)
        assert not writes(f"plans/2026-09-01/{other}/run.json")
        assert sees("active/vision/llama") == (function in {"reap-volumes", "run-jobs"})
        assert writes("active/vision/llama") == (function == "run-jobs")
        # Which instances are those of jobs.
        assert sees(f"jobs/{LIVES}/state.json") == (function in {"reap-instances", "run-jobs"})
        assert writes(f"jobs/{LIVES}/state.json") == (function == "run-jobs")
        assert not sees(f"jobs/{LIVES}/spec.toml") or function == "run-jobs"
        # Where budgets stand is said by one, and read by the one that stops instances by it.
        assert sees("budgets/vision/2026-11.json") == (function != "reap-volumes")
        assert sees("ledger/2026-11/eu-west-1.json") == (function == "enforce-budgets")
        assert writes("ledger/2026-11/eu-west-1.json") == (function == "enforce-budgets")
        # What jobs have reserved stands there as well; and both ask for prices.
        for key in ("budgets/vision/2026-11.json", "prices/current.json"):
            assert writes(key) == (function in {"enforce-budgets", "run-jobs"})
        assert sees("prices/current.json")
