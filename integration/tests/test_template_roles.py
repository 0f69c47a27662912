"""What the roles of template.yaml let their functions do, request by request.

test_template.py reads what the policies say; here they are evaluated, as IAM would. A bug of a function is what they are
for: so each case is something that a function does, or that it must never do whatever its code says.
"""

from __future__ import annotations

import pytest

from template_iam import ADMINISTRATOR, INSTANCE, SNAPSHOT, VOLUME, Request, may

OF = "curfew:snapshot-of"
MARKED = "curfew:marked"
DELETED = "curfew:deleted-at"
BUCKET = "StateBucket.Arn"


def tagging(resource: str, *keys: str, on: tuple[str, ...] = (), action: str = "ec2:CreateTags") -> Request:
    return Request(action, resource, tags=on, tag_keys=keys)


def untagging(resource: str, *keys: str, on: tuple[str, ...] = ()) -> Request:
    return tagging(resource, *keys, on=on, action="ec2:DeleteTags")


# What each function does to what carries these tags.
DONE = {
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


ALL = {"reap-instances", "reap-volumes", "enforce-budgets"}


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
        assert sees("active/vision/llama") == (function == "reap-volumes")
        assert not writes("active/vision/llama")
        # Where budgets stand is said by one, and read by the one that stops instances by it.
        assert sees("budgets/vision/2026-11.json") == (function != "reap-volumes")
        assert sees("ledger/2026-11/eu-west-1.json") == (function == "enforce-budgets")
        for key in ("budgets/vision/2026-11.json", "ledger/2026-11/eu-west-1.json", "prices/current.json"):
            assert writes(key) == (function == "enforce-budgets")
        assert sees("prices/current.json")
