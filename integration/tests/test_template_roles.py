"""What the roles of template.yaml let their functions do, request by request.

The policies are evaluated here, as IAM would: no local AWS evaluates conditions on tags. They are for a bug of a function, so
each table says what a function does, and all that is one tag, one key or one resource beside it must be refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest

from template_actions import REPOSITORY, functions, resources, statements_of_role, template
from template_iam import (
    ACCOUNT,
    ADMINISTRATOR,
    INSTANCE,
    SNAPSHOT,
    VOLUME,
    Request,
    arn_of,
    decision,
    may,
    role_may,
    statements_of,
)

OF = "curfew:snapshot-of"
MARKED = "curfew:marked"
DELETED = "curfew:deleted-at"
JOB = "curfew:job"
BUCKET = "StateBucket.Arn"


PROTECTED, MODE, KEEP = "curfew:protected", "curfew:mode", "curfew:keep-until"
STOPPED, EXPIRES, UNATTACHED = "curfew:stopped", "curfew:expires-at", "curfew:unattached-since"
# What people say: no function ever writes it on what exists.
THEIRS = (PROTECTED, MODE, KEEP)
KEYS = (MARKED, STOPPED, EXPIRES, JOB, "curfew:attempt", UNATTACHED, OF, DELETED, MODE, KEEP, "Team", "Name")
KINDS = (INSTANCE, VOLUME, SNAPSHOT)
REPLY = "reply"
ALL = {"reap-instances", "reap-volumes", "reap-sagemaker", "enforce-budgets", "run-jobs", "send-report", REPLY}
# They change nothing of EC2's, whatever else they are allowed.
READERS = ("enforce-budgets", "send-report", "reap-sagemaker")

# What ends or begins something: on what, and the tags that announce it. Any one of these sets is enough.
ANNOUNCED: list[set[str]] = [{MARKED}, {EXPIRES}, {JOB}]
ACTIONS: dict[str, dict[str, tuple[str, list[set[str]]]]] = {
    "reap-instances": {
        "ec2:StopInstances": (INSTANCE, ANNOUNCED),
        "ec2:TerminateInstances": (INSTANCE, ANNOUNCED),
        "ec2:StartInstances": (INSTANCE, [{STOPPED}]),
    },
    "reap-volumes": {
        "ec2:DeleteVolume": (VOLUME, [{MARKED}]),
        "ec2:DeleteSnapshot": (SNAPSHOT, [{OF, DELETED}]),
    },
    "run-jobs": {"ec2:TerminateInstances": (INSTANCE, [{JOB}])},
    "reap-sagemaker": {},
    "enforce-budgets": {},
    "send-report": {},
    REPLY: {"ec2:StartInstances": (INSTANCE, [{STOPPED}])},
}
EVERY_ACTION = sorted({action for of_function in ACTIONS.values() for action in of_function})

# What each function may write on a resource that exists, by its keys, and which tags have to be there before.
OWN_TAGS: dict[tuple[str, str, str], tuple[set[str], set[str]]] = {
    ("reap-instances", "ec2:CreateTags", INSTANCE): ({MARKED, STOPPED}, set()),
    ("reap-instances", "ec2:DeleteTags", INSTANCE): ({MARKED, STOPPED}, set()),
    ("reap-volumes", "ec2:CreateTags", VOLUME): ({MARKED, UNATTACHED}, set()),
    ("reap-volumes", "ec2:DeleteTags", VOLUME): ({MARKED, UNATTACHED}, set()),
    ("reap-volumes", "ec2:CreateTags", SNAPSHOT): ({DELETED}, {OF}),
    # People's words, in their name.
    (REPLY, "ec2:CreateTags", INSTANCE): ({KEEP, PROTECTED}, set()),
    (REPLY, "ec2:CreateTags", VOLUME): ({KEEP, PROTECTED}, set()),
}


def pairs(keys: Iterable[str]) -> list[tuple[str, ...]]:
    """None of them, each, and each two."""
    keys = tuple(keys)
    return [(), *((key,) for key in keys), *combinations(keys, 2)]


@pytest.mark.parametrize("function", sorted(ALL))
def test_nothing_ends_that_was_not_announced(function: str) -> None:
    for action, kind, on in product(EVERY_ACTION, KINDS, pairs(KEYS)):
        resource, announced = ACTIONS[function].get(action, ("", []))
        expect = kind == resource and any(tags <= set(on) for tags in announced)
        assert may(function, Request(action, kind, tags=on)) == expect, (action, kind, on)
        assert not may(function, Request(action, kind, tags=on), enforcing=False)
        for spelling in (PROTECTED, "Curfew:Protected"):
            protected = Request(action, kind, tags=(*on, spelling))
            assert not may(function, protected)
            assert not expect or not may(function, protected, besides=(ADMINISTRATOR,))


@pytest.mark.parametrize("function", sorted(ALL))
def test_tags_are_written_by_their_exact_keys(function: str) -> None:
    """DeleteTags without any key would wipe all of them."""
    for action, kind, keys in product(("ec2:CreateTags", "ec2:DeleteTags"), KINDS, pairs(KEYS)):
        own, needed = OWN_TAGS.get((function, action, kind), (set(), set()))
        for on in ((), (OF,), (MARKED, "Team")):
            writing = Request(action, kind, tags=on, tag_keys=keys)
            expect = bool(keys) and set(keys) <= own and needed <= set(on)
            assert may(function, writing) == expect, (action, kind, keys, on)
            assert not may(function, writing, enforcing=False)
            assert not may(function, Request(action, kind, tags=(*on, PROTECTED), tag_keys=keys))
        theirs = set(keys) - {KEEP, PROTECTED} if function == REPLY else set(keys) & set(THEIRS)
        if theirs and function not in READERS:
            assert not may(function, Request(action, kind, tag_keys=keys), besides=(ADMINISTRATOR,)), keys


def test_links_keep_and_protect_and_take_nothing_back() -> None:
    for kind in (INSTANCE, VOLUME):
        assert may(REPLY, Request("ec2:CreateTags", kind, tag_keys=(PROTECTED,)))
        assert not may(REPLY, Request("ec2:DeleteTags", kind, tag_keys=(PROTECTED,)), besides=(ADMINISTRATOR,))
    for kind, _ in SAGEMAKER_ACTIONS.values():
        at = f"{SAGEMAKER}:{kind}"
        for keys in pairs((PROTECTED, *KEYS)):
            assert may(REPLY, Request("sagemaker:AddTags", at, tag_keys=keys)) == (bool(keys) and set(keys) <= {KEEP, PROTECTED}), keys
            assert not may(REPLY, Request("sagemaker:AddTags", at, tag_keys=keys), enforcing=False)
            assert not may(REPLY, Request("sagemaker:DeleteTags", at, tag_keys=keys), besides=(ADMINISTRATOR,))
        assert not may(REPLY, Request("sagemaker:AddTags", at, tags=(PROTECTED,), tag_keys=(KEEP,)))


SAGEMAKER = f"arn:aws:sagemaker:eu-west-1:{ACCOUNT}"
SAGEMAKER_ACTIONS = {
    "sagemaker:StopNotebookInstance": ("notebook-instance/research", {MARKED}),
    "sagemaker:StartNotebookInstance": ("notebook-instance/research", {STOPPED}),
    "sagemaker:DeleteApp": ("app/d-abc/lab/jupyterlab/default", {MARKED}),
    "sagemaker:DeleteEndpoint": ("endpoint/llm", {MARKED}),
    "sagemaker:UpdateInferenceComponentRuntimeConfig": ("inference-component/llama", {MARKED}),
    "sagemaker:StopTrainingJob": ("training-job/bert", {MARKED}),
    "sagemaker:StopProcessingJob": ("processing-job/bert", {MARKED}),
    "sagemaker:StopHyperParameterTuningJob": ("hyper-parameter-tuning-job/bert", {MARKED}),
}


@pytest.mark.parametrize("function", sorted(ALL))
def test_nothing_of_sagemaker_ends_that_was_not_announced(function: str) -> None:
    for action, (kind, announced) in SAGEMAKER_ACTIONS.items():
        for on in pairs(KEYS):
            request = Request(action, f"{SAGEMAKER}:{kind}", tags=on)
            starts = (function, action) == (REPLY, "sagemaker:StartNotebookInstance")
            expect = (function == "reap-sagemaker" or starts) and announced <= set(on)
            assert may(function, request) == expect, (action, on)
            assert not may(function, request, enforcing=False)
            protected = Request(action, f"{SAGEMAKER}:{kind}", tags=(*on, PROTECTED))
            assert not may(function, protected)
            assert not expect or not may(function, protected, besides=(ADMINISTRATOR,))
    for action in ("sagemaker:DeleteEndpointConfig", "sagemaker:DeleteModel", "sagemaker:DeleteInferenceComponent", "sagemaker:DeleteSpace", "sagemaker:DeleteNotebookInstance"):
        kept = Request(action, f"{SAGEMAKER}:x/y", tags=(MARKED,))
        assert not may(function, kept)
        assert function != "reap-sagemaker" or not may(function, kept, besides=(ADMINISTRATOR,)), action


def test_tags_of_sagemaker_are_written_by_their_exact_keys() -> None:
    for action, keys in product(("sagemaker:AddTags", "sagemaker:DeleteTags"), pairs(KEYS)):
        for kind, _ in SAGEMAKER_ACTIONS.values():
            writing = Request(action, f"{SAGEMAKER}:{kind}", tag_keys=keys)
            assert may("reap-sagemaker", writing) == (bool(keys) and set(keys) <= {MARKED, STOPPED}), (action, keys)
            assert not may("reap-sagemaker", writing, enforcing=False)
            assert not may("reap-sagemaker", Request(action, f"{SAGEMAKER}:{kind}", tags=(PROTECTED,), tag_keys=keys))
            if set(keys) & set(THEIRS):
                assert not may("reap-sagemaker", writing, besides=(ADMINISTRATOR,)), keys
        for kind in ("space/d-abc/lab", "model/llm", "endpoint-config/llm"):
            assert not may("reap-sagemaker", Request(action, f"{SAGEMAKER}:{kind}", tag_keys=(MARKED,))), kind


def test_what_is_denied_stays_so_whatever_else_is_allowed() -> None:
    """By a role that somebody has given everything: what is no job's, what Curfew did not snapshot, and whatever budgets could change."""
    denied = [
        ("run-jobs", Request("ec2:TerminateInstances", INSTANCE, tags=(MARKED, EXPIRES))),
        *(
            ("run-jobs", Request("ec2:CreateTags", at, tag_keys=(JOB, key), create_action="RunInstances"))
            for at, key in product((INSTANCE, VOLUME), (PROTECTED, KEEP))
        ),
        ("reap-volumes", Request("ec2:DeleteSnapshot", SNAPSHOT, tags=(DELETED, "Name"))),
        *((one, Request(action, kind, tags=KEYS)) for one, action, kind in product(READERS, EVERY_ACTION, KINDS)),
        *((one, Request(action, INSTANCE, tag_keys=(MARKED,))) for one in READERS for action in ("ec2:CreateTags", "ec2:DeleteTags")),
        *((one, Request("ec2:RunInstances", INSTANCE)) for one in READERS),
        *((one, Request("ec2:CreateSnapshot", VOLUME, tags=(MARKED,))) for one in READERS),
    ]
    for function, request in denied:
        for enforcing in (True, False):
            assert not may(function, request, besides=(ADMINISTRATOR,), enforcing=enforcing), (function, request)


def test_a_job_is_named_at_its_launch_alone() -> None:
    assert not may("run-jobs", Request("ec2:CreateTags", INSTANCE, tag_keys=(JOB,), create_action="CreateFleet"))


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


def test_groups_of_jobs_alone_are_made_changed_and_deleted() -> None:
    own = f"arn:aws:ec2:eu-west-1:{ACCOUNT}"
    security, placement, foreign = f"{own}:security-group/sg-0abc", f"{own}:placement-group/curfew-ddp-0123abcd-1", f"{own}:placement-group/mine"
    for kind, at in (("SecurityGroup", security), ("PlacementGroup", placement)):
        for tags in pairs((JOB, PROTECTED, "Team")):
            made = Request(f"ec2:Create{kind}", at, tag_keys=tags)
            assert may("run-jobs", made) == (JOB in tags and PROTECTED not in tags), tags
            tagged = Request("ec2:CreateTags", at, tag_keys=tags, create_action=f"Create{kind}")
            assert may("run-jobs", tagged) == (JOB in tags and PROTECTED not in tags), tags
            assert not may("run-jobs", Request("ec2:CreateTags", at, tag_keys=tags)), tags
            deleted = Request(f"ec2:Delete{kind}", at, tags=tags)
            assert may("run-jobs", deleted) == (JOB in tags and PROTECTED not in tags), tags
            assert not any(may("run-jobs", one, enforcing=False) for one in (made, tagged, deleted))
            assert not any(may(function, one) for function in ALL - {"run-jobs"} for one in (made, tagged, deleted))
    for action in ("AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress", "RevokeSecurityGroupEgress"):
        assert may("run-jobs", Request(f"ec2:{action}", security, tags=(JOB,)))
        assert not may("run-jobs", Request(f"ec2:{action}", security))
    assert not may("run-jobs", Request("ec2:RevokeSecurityGroupIngress", security, tags=(JOB,)))
    assert may("run-jobs", Request("ec2:CreateSecurityGroup", VPC))
    assert may("run-jobs", Request("ec2:RunInstances", placement))
    for request in (Request("ec2:RunInstances", foreign), Request("ec2:CreatePlacementGroup", foreign, tag_keys=(JOB,)), Request("ec2:DeletePlacementGroup", foreign, tags=(JOB,))):
        assert not may("run-jobs", request)


OTHERS = "999999999999"
VPC, OTHER_VPC = (f"arn:aws:ec2:eu-west-1:{ACCOUNT}:vpc/vpc-0{digit}" for digit in "12")


@pytest.mark.parametrize("kind", ["subnet", "security-group"])
def test_machines_are_launched_into_no_network_beside_those_that_the_stack_names(kind: str) -> None:
    for vpc, expect in ((VPC, True), (OTHER_VPC, False)):
        into = Request("ec2:RunInstances", f"arn:aws:ec2:eu-west-1:{ACCOUNT}:{kind}/x-0abc", context={"ec2:Vpc": vpc})
        assert may("run-jobs", into)
        assert may("run-jobs", into, parameters={"JobVpcArns": [VPC]}) == expect


@pytest.mark.parametrize(("owner", "public", "expect"), [(ACCOUNT, False, True), (OTHERS, False, False), (OTHERS, True, True), ("amazon", True, True)])
def test_machines_boot_no_private_image_of_an_account_that_the_stack_does_not_name(owner: str, public: bool, expect: bool) -> None:
    context: dict[str, str | list[str]] = {"ec2:Owner": owner, "ec2:Public": str(public).lower()}
    boots = Request("ec2:RunInstances", "arn:aws:ec2:eu-west-1::image/ami-0abc", context=context)
    assert may("run-jobs", boots)
    assert may("run-jobs", boots, parameters={"JobImageOwners": [ACCOUNT]}) == expect


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
        (":parameter/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64", True),
        (":parameter/aws/service/ami-amazon-linux-latest/amzn2-ami-hvm-x86_64-gp2", False),
        (f"{ACCOUNT}:parameter/vision/token", False),
    ],
)
def test_only_parameters_that_name_images_are_asked_for(parameter: str, expect: bool) -> None:
    assert may("run-jobs", Request("ssm:GetParameter", f"arn:aws:ssm:eu-west-1:{parameter}")) == expect


@pytest.mark.parametrize("function", sorted(ALL - {REPLY}))
def test_notifications_go_to_the_channels_of_the_stack_alone(function: str) -> None:
    bus = f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus"
    (source,) = re.findall(r'pub const SOURCE: &str = "(.+)";', (REPOSITORY / "shared/notify/src/event.rs").read_text())

    def sends(bus: str, source: str = source) -> bool:
        return may(function, Request("events:PutEvents", bus, context={"events:source": source}), enforcing=False)

    assert sends(f"{bus}/EventBus")
    for other in (f"{bus}/EventBus2", f"{bus}/default", f"arn:aws:events:eu-west-1:{ACCOUNT}:event-bus/EventBus"):
        assert not sends(other), other
    for other in ("aws.ec2", "curfew2", "Curfew", ""):
        assert not sends(f"{bus}/EventBus", other), other
    for topic in ("Topic", "ChatTopic"):
        assert may(function, Request("sns:Publish", topic), enforcing=False)
    assert not may(function, Request("sns:Publish", "BudgetNotifications"))
    assert not may(function, Request("events:PutRule", f"arn:aws:events:us-east-1:{ACCOUNT}:rule/EventBus/x"))


# Each key of the state bucket: who reads it, writes it, deletes it, and deletes a version of it.
LIVES = "vision/llama-0123abcd"
ACCESS: list[tuple[str, ...]] = [
    # key, reap-instances, reap-volumes, reap-sagemaker, enforce-budgets, run-jobs, send-report, reply; the machines of any team, those of vision
    ("config/curfew.toml", "r", "r", "r", "r", "r", "r", "r", "", ""),
    ("config/hub.toml", "rw", "r", "r", "r", "r", "r", "r", "", ""),
    # Only with a copy, or in a restored stack.
    ("home.json", "rw", "r", "r", "r", "r", "r", "r", "r", "r"),
    ("notices/reap-instances/eu-west-1.json", "rw", "", "", "", "r", "", "r", "", ""),
    ("notices/reap-volumes/eu-west-1.json", "", "rw", "", "", "", "", "", "", ""),
    ("notices/reap-sagemaker/eu-west-1.json", "", "", "rw", "", "", "", "r", "", ""),
    ("notices/enforce-budgets/eu-west-1.json", "", "", "", "rw", "", "", "", "", ""),
    ("notices/run-jobs/eu-west-1.json", "", "", "", "", "rw", "", "", "", ""),
    # Only with AccountMetrics=yes.
    ("plans/2026-09-01/reap-instances/run.json", "w", "", "", "r", "", "r", "", "", ""),
    ("plans/2026-09-01/reap-volumes/run.json", "", "w", "", "", "", "r", "", "", ""),
    ("plans/2026-09-01/reap-sagemaker/run.json", "", "", "w", "", "", "r", "", "", ""),
    ("plans/2026-09-01/enforce-budgets/run.json", "", "", "", "w", "", "r", "", "", ""),
    ("plans/2026-09-01/run-jobs/run.json", "", "", "", "", "w", "r", "", "", ""),
    ("plans/2026-09-01/send-report/run.json", "", "", "", "", "", "rw", "", "", ""),
    ("notices/send-report/eu-west-1.json", "", "", "", "", "", "rw", "", "", ""),
    ("reports/2026-11-21/report.html", "", "", "", "", "", "rw", "", "", ""),
    ("exports/2026-11/curfew-focus.csv", "", "", "", "", "", "w", "", "", ""),
    ("activity/eu-west-1.json", "rw", "", "", "r", "", "", "", "", ""),
    ("replies/0123abcd.json", "w", "w", "w", "", "w", "", "rw", "", ""),
    ("budgets/2026-11.json", "r", "", "r", "rw", "rw", "r", "", "", ""),
    ("budgets/vision/2026-11.json", "r", "", "r", "rw", "rw", "r", "", "", ""),
    ("ledger/2026-11/eu-west-1.json", "", "", "", "rw", "", "r", "", "", ""),
    ("prices/current.json", "r", "r", "r", "rw", "rw", "r", "", "", ""),
    ("agent/0123abcd", "", "", "", "", "rw", "", "", "r", "r"),
    ("inbox/vision/llama.toml", "", "", "", "", "r", "", "", "", ""),
    ("inbox/vision/llama.accepted.json", "", "", "", "", "rwd", "", "", "", ""),
    ("inbox/vision/llama.rejected.json", "", "", "", "", "rwd", "", "", "", ""),
    ("triggers/vision/ingest.toml", "", "", "", "", "r", "", "", "", ""),
    ("triggers/vision/ingest.state.json", "", "", "", "", "rw", "", "", "", ""),
    ("triggers/ingest.state.json", "", "", "", "", "r", "", "", "", ""),
    (f"active/{LIVES}", "", "r", "", "", "rwd", "", "", "", ""),
    ("boxes/vision/my-box.json", "", "", "", "", "rwd", "", "", "", ""),
    (f"jobs/{LIVES}/extend.json", "", "", "", "", "r", "r", "w", "r", "r"),
    (f"jobs/{LIVES}/spec.toml", "", "", "", "", "rw", "r", "", "r", "r"),
    (f"jobs/{LIVES}/state.json", "r", "", "", "", "rw", "r", "r", "r", "r"),
    (f"jobs/{LIVES}/cancel.json", "", "", "", "", "r", "r", "", "r", "r"),
    (f"attempts/{LIVES}/head.json", "", "", "", "", "r", "", "", "rw", "rw"),
    (f"attempts/{LIVES}/1/heartbeat.json", "", "", "", "", "r", "r", "", "rw", "rw"),
    (f"attempts/{LIVES}/1/0123456789abcdef/beat/0.json", "", "", "", "", "r", "r", "", "rw", "rw"),
    (f"attempts/{LIVES}/1/0123456789abcdef/exit/0.json", "", "", "", "", "r", "", "", "rw", "rw"),
    (f"attempts/{LIVES}/1/log", "", "", "", "", "r", "", "", "rw", "rw"),
    ("attempts/nlp/bert-0123abcd/head.json", "", "", "", "", "r", "", "", "rw", ""),
    ("attempts/vision-2/bert-0123abcd/head.json", "", "", "", "", "r", "", "", "rw", ""),
    # What a machine leaves behind may be called as it likes.
    (f"outputs/{LIVES}/1/results/state.json", "", "", "", "", "", "", "", "rw", "rw"),
    ("outputs/nlp/bert-0123abcd/1/results/a.pt", "", "", "", "", "", "", "", "rw", ""),
    (f"checkpoints/{LIVES}/1/100/manifest.json", "", "", "", "", "", "", "", "rwv", "rwv"),
    ("checkpoints/nlp/bert-0123abcd/1/100/manifest.json", "", "", "", "", "", "", "", "rwv", ""),
    # People upload what their jobs bring along.
    ("workdirs/vision/0123.tar.zst", "", "", "", "", "", "", "", "r", "r"),
    ("workdirs/nlp/0123.tar.zst", "", "", "", "", "", "", "", "r", ""),
    # What only looks like a machine's own: `*` matches `/` in IAM.
    (f"jobs/{LIVES}/attempts/1/heartbeat.json", "", "", "", "", "r", "r", "", "r", "r"),
    ("jobs/attempts/vision/state.json", "r", "", "", "", "rw", "r", "r", "r", ""),
    (f"/attempts/{LIVES}/head.json", "", "", "", "", "", "", "", "", ""),
]
OF_TEAM = template(REPOSITORY / "deploy" / "team-role.yaml")["Resources"]
TEAM_ROLE = OF_TEAM["JobRole"]["Properties"] | {"Policies": [*OF_TEAM["JobRole"]["Properties"]["Policies"], OF_TEAM["ReachReplica"]["Properties"]]}


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


MACHINES = (common_role, team_role)
FUNCTIONS = ("reap-instances", "reap-volumes", "reap-sagemaker", "enforce-budgets", "run-jobs", "send-report", REPLY)
LETTERS = {"r": "s3:GetObject", "w": "s3:PutObject", "d": "s3:DeleteObject", "v": "s3:DeleteObjectVersion"}
BUCKET_POLICY = tuple(statements_of(resources()["StateBucketPolicy"]["Properties"]["PolicyDocument"]))


def function_may(function: str, request: Request, *, enforcing: bool = True) -> bool:
    """With what the policy of the bucket says to its role."""
    role = ".".join(functions()[function]["Properties"]["Role"]["Fn::GetAtt"])
    known = Request(request.action, request.resource, context={**request.context, "aws:PrincipalArn": role})
    return may(function, known, besides=BUCKET_POLICY, enforcing=enforcing)


@pytest.mark.parametrize(("key", "expect"), [(key, of_each) for key, *of_each in ACCESS])
def test_each_reads_and_writes_its_own_part_of_the_bucket(key: str, expect: list[str]) -> None:
    def may_do(who: Callable[[Request], bool]) -> str:
        return "".join(letter for letter, action in LETTERS.items() if who(Request(action, f"{BUCKET}/{key}")))

    for enforcing in (True, False):
        own = [may_do(lambda one: function_may(function, one, enforcing=enforcing)) for function in FUNCTIONS]
        assert own == expect[:7], enforcing
    assert [may_do(who) for who in MACHINES] == expect[7:]
    for who, letters in zip(MACHINES, expect[7:]):
        # What a machine has not uploaded whole, it gives up.
        assert who(Request("s3:AbortMultipartUpload", f"{BUCKET}/{key}")) == ("w" in letters)
        # Whatever a team gives its role, a machine does not say what functions believe.
        if "w" not in expect[7] and not key.startswith("/"):
            for action in ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"):
                assert not who(Request(action, f"{BUCKET}/{key}"), besides=(ADMINISTRATOR,)), (who, action)


# By whom people and machines write: a person by a team's policy or as an administrator, a machine by its role, `curfew apply` as its caller.
WRITTEN_BY_OTHERS = ("config/curfew.toml", "notices/", "plans/", "activity/", "attempts/", "outputs/", "checkpoints/", "workdirs/", "/attempts/")


@pytest.mark.parametrize("key", [*(key for key, *_ in ACCESS), f"jobs/{LIVES}/sweep.json", f"jobs/{LIVES}/followed.json"])
def test_no_person_writes_what_one_function_alone_writes(key: str) -> None:
    """Whatever they are allowed: an administrator would have to change the policy of the bucket first."""
    by_people = key.startswith(WRITTEN_BY_OTHERS) or key.endswith((".toml", "/cancel.json", "/extend.json", "/followed.json", "heartbeat.json"))
    expect = by_people and not key.endswith(("/spec.toml", "config/hub.toml"))
    for who in (f"arn:aws:iam::{ACCOUNT}:role/Administrator", f"arn:aws:iam::{ACCOUNT}:user/ada", "ReapInstancesRole.Arn", "JobRole.Arn"):
        writing = Request("s3:PutObject", f"{BUCKET}/{key}", context={"aws:PrincipalArn": who})
        makes_links = who == "ReapInstancesRole.Arn" and key.startswith(("replies/", "config/hub.toml", "home.json"))
        assert (decision((ADMINISTRATOR, *BUCKET_POLICY), writing) == "allowed") == (expect or makes_links), who


def test_a_function_submits_documents_and_never_replaces_one() -> None:
    for key, expect in (("inbox/vision/x.toml", True), ("triggers/vision/x.toml", False), ("inbox/vision/x.json", False)):
        request = Request("s3:PutObject", f"{BUCKET}/{key}", context={"s3:if-none-match": "*"})
        assert [function_may(function, request) for function in FUNCTIONS] == [expect and function == "run-jobs" for function in FUNCTIONS]


def test_the_configuration_is_read_from_a_bucket_of_the_organization_alone() -> None:
    """By one function, which keeps a copy for all others. The names stand for parameters and variables of IAM."""
    hub, organization = "arn:aws:s3:::HubBucket", {"aws:ResourceOrgID": "${aws:PrincipalOrgID}"}
    own = Request("s3:GetObject", f"{hub}/config/curfew.toml", context=organization)
    looks = Request("s3:ListBucket", hub, context={**organization, "s3:prefix": "config/curfew.toml"})
    for function in FUNCTIONS:
        for enforcing in (True, False):
            for request in (own, looks):
                assert may(function, request, enforcing=enforcing) == (function == "reap-instances"), function
    # The bucket of a stranger who has taken the name.
    for request in (own, looks):
        for of in ({"aws:ResourceOrgID": "o-strangers00"}, {}):
            foreign = {key: value for key, value in request.context.items() if key != "aws:ResourceOrgID"}
            assert not may("reap-instances", replace(request, context={**foreign, **of}))
    for key in ("config/other.toml", f"accounts/{ACCOUNT}/figures/2026-11.json", "exports/x.csv"):
        assert not may("reap-instances", Request("s3:GetObject", f"{hub}/{key}", context=organization)), key
    for prefix in (None, "", "config/", "accounts/"):
        context = organization if prefix is None else {**organization, "s3:prefix": prefix}
        assert not may("reap-instances", Request("s3:ListBucket", hub, context=context)), prefix


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
    for folder, own in (("attempts", "rw"), ("checkpoints", "rwd"), ("outputs", "rw"), ("jobs", "r"), ("workdirs", "r")):
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


def test_a_team_reads_its_inputs_and_nothing_beside_them() -> None:
    """The resources of both statements are parameters, which `curfew team create --read` fills in."""
    given = {"ReadObjectArns": ["arn:aws:s3:::data/vision/*"], "ReadBucketArns": ["arn:aws:s3:::data"], "ReadPrefixes": ["vision/*"]}
    text = json.dumps(TEAM_ROLE)
    for name, values in given.items():
        text = text.replace(json.dumps({"Ref": name}), json.dumps(values))
    role = json.loads(text)
    for action, resource, prefix, expect in [
        ("s3:GetObject", "arn:aws:s3:::data/vision/a", None, True),
        ("s3:GetObject", "arn:aws:s3:::data/vision2/a", None, False),
        ("s3:PutObject", "arn:aws:s3:::data/vision/a", None, False),
        ("s3:DeleteObject", "arn:aws:s3:::data/vision/a", None, False),
        ("s3:ListBucket", "arn:aws:s3:::data", "vision/", True),
        ("s3:ListBucket", "arn:aws:s3:::data", "vision", False),
        ("s3:ListBucket", "arn:aws:s3:::data", None, False),
        ("s3:ListBucket", "arn:aws:s3:::other", "vision/", False),
    ]:
        context = {} if prefix is None else {"s3:prefix": prefix}
        assert role_may(role, Request(action, resource, context=context)) == expect, (action, resource, prefix)
    conditions = {one.only_if for one in statements_of_role(role) if one.sid in ("ReadInputs", "ListInputs")}
    assert conditions == {("HasReads",)}


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


@pytest.mark.parametrize("who", MACHINES)
def test_a_machine_may_do_nothing_beside_its_part_of_the_bucket(who: Any) -> None:
    assert who(Request("cloudwatch:PutMetricData", "*", context={"cloudwatch:namespace": "Curfew/Jobs"}))
    # What reap-instances reads as evidence.
    assert not who(Request("cloudwatch:PutMetricData", "*", context={"cloudwatch:namespace": "CWAgent"}))
    assert not who(Request("cloudwatch:PutMetricData", "*", context={"cloudwatch:namespace": "AWS/EC2"}))
    # It ends by shutting down, which needs no permission.
    for action in ("ec2:TerminateInstances", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole", "sns:Publish"):
        assert not who(Request(action, INSTANCE, tags=(JOB,)))
    secret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:token"
    assert not who(Request("secretsmanager:GetSecretValue", secret))


@pytest.mark.parametrize("who", MACHINES)
def test_a_machine_lists_the_versions_of_checkpoints_alone(who: Any) -> None:
    def lists(**context: str) -> bool:
        return who(Request("s3:ListBucketVersions", BUCKET, context={name.replace("_", ":"): value for name, value in context.items()}))

    assert lists(s3_prefix=f"checkpoints/{LIVES}/1/100/")
    assert lists(s3_prefix="checkpoints/nlp/bert-0123abcd/") == (who is common_role)
    assert not lists(s3_prefix=f"jobs/{LIVES}/") and not lists()


@pytest.mark.parametrize("who", MACHINES)
def test_a_machine_may_be_reached_by_session_manager(who: Any) -> None:
    """What the AWS page grants for sessions alone, and only where the account wants shells."""
    channels = [f"ssmmessages:{verb}{kind}Channel" for verb in ("Create", "Open") for kind in ("Control", "Data")]
    for action in ("ssm:UpdateInstanceInformation", *channels):
        assert who(Request(action, "*")), action
    for action in ("ssm:StartSession", "ssm:SendCommand", "ssm:GetParameter", "ssm:GetDocument", "ec2messages:GetMessages", "ssm:PutInventory"):
        assert not who(Request(action, "*")), action
    role = TEAM_ROLE if who is team_role else resources()["JobRole"]["Properties"]
    assert {one.only_if for one in statements_of_role(role) if one.sid == "OpenShells"} == {("HasSsh",)}


@pytest.mark.parametrize(("who", "given"), [(common_role, "JobSecretArns"), (team_role, "SecretArns")])
def test_secrets_are_read_as_the_agent_reads_them(who: Any, given: str) -> None:
    """Each by the service that has it, and no others: the ARNs are the parameter's, of any region, and no part of one is made here."""
    of_parameters = f"arn:aws:ssm:eu-west-1:{ACCOUNT}:parameter/"
    assert not who(Request("ssm:GetParameter", f"{of_parameters}aws/reference/secretsmanager/team/hf-token"))
    for action in ("secretsmanager:GetSecretValue", "ssm:GetParameter"):
        assert who(Request(action, given)), "what the parameter of the template names"
    assert not who(Request("ssm:GetParameter", f"{of_parameters}token"))
    role = TEAM_ROLE if who is team_role else resources()["JobRole"]["Properties"]
    conditions = {one.only_if for one in statements_of_role(role) if "ssm:GetParameter" in one.actions}
    assert conditions == {("HasJobSecrets" if given == "JobSecretArns" else "HasSecrets",)}
