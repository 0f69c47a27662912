"""What docs/command.md says that each command needs, and what the sample policies for people allow, to compare recorded calls with."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from reaping import BUCKET, REPOSITORY
from sample_policies import FINANCE, TEAM_LEAD, TEAM_MEMBER, policy
from template_iam import Request, decision


@cache
def rows() -> dict[str, str]:
    """By command, what docs/command.md says that it needs."""
    page = (REPOSITORY / "docs/command.md").read_text().partition("## Permissions")[2]
    found = re.findall(r"^\| (`.*?) \| (.*) \|$", page, re.MULTILINE)
    return {name: row for names, row in found for name in re.findall(r"`([a-z -]+)`", names)}


def named(command: str, pattern: str) -> set[str]:
    """What its row names so, and the rows of the commands whose needs it has as well. `apply` needs what its function needs."""
    row = rows()[command]
    others = [other for other in re.findall(r"of `([a-z -]+)`", row) if other in rows() and other != command]
    return set(re.findall(pattern, row)).union(*(named(other, pattern) for other in others))


def permissions(command: str) -> set[str]:
    return named(command, r"`([a-z0-9-]+:\w+)`")


def objects(command: str) -> set[str]:
    """The prefixes and the objects of the state bucket."""
    return {one.replace("<team>", "*") for one in named(command, r"`([a-z]+/[^`]*)`")}


def is_in_row(call: dict[str, Any], known: set[str]) -> bool:
    """A read is of a prefix or an object that the row names, a write of an object."""
    is_write = "s3:PutObject" in call["permissions"]
    if not is_write and "s3:GetObject" not in call["permissions"]:
        return True
    patterns = [f"{one}*" if one.endswith("/") and not is_write else one for one in known]
    keys = [one.removeprefix(f"{BUCKET}/") for one in call["resources"] if one.startswith(f"{BUCKET}/")]
    return all(any(fnmatchcase(key, pattern) for pattern in patterns) for key in keys)


_MEMBERS_DO = {"box up", "box ls", "box extend", "box down", "box rm", "schedule add", "schedule ls", "schedule rm", "submit", "run", "rerun", "jobs", "logs", "cancel", "keep", "release", "gpus"}
# By sample policies, the commands that they are for. A team lead has the policy of the members as well.
PEOPLE: dict[tuple[Path, ...], set[str]] = {
    (TEAM_MEMBER,): _MEMBERS_DO,
    (TEAM_MEMBER, TEAM_LEAD): {*_MEMBERS_DO, "budget", "explain", "plans", "report", "scan", "undo", "watch"},
    (FINANCE,): {"budget", "gpus", "plans", "recommend", "report", "scan"},
}


def refused(command: str, calls: list[dict[str, Any]]) -> list[tuple[str, list[str], list[str]]]:
    """The calls of a command that a sample policy which is for it does not allow, each with that policy."""
    return [
        (policies[-1].name, call["permissions"], call["resources"])
        for policies, commands in PEOPLE.items()
        if command in commands
        for call in calls
        if not _may(policies, call)
    ]


def _may(policies: tuple[Path, ...], call: dict[str, Any]) -> bool:
    """By its action and, of S3, the object. Conditions on tags are evaluated in test_sample_policies.py."""
    allowed = tuple(statement for path in policies for statement in policy(path, BUCKET))
    for action in call["permissions"]:
        if not action.startswith("s3:"):
            if not any(action in one.actions for one in allowed):
                return False
            continue
        bucket, _, key = "".join(call["resources"]).partition("/")
        at, context = f"arn:aws:s3:::{bucket}/{key}", {}
        if action == "s3:ListBucket":
            at, context = f"arn:aws:s3:::{bucket}", {"s3:prefix": key} if key else {}
        if decision(allowed, Request(action, at, context=context)) != "allowed":
            return False
    return True
