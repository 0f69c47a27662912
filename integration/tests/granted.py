"""That the role of a function allows what its runs did, and nothing else."""

from __future__ import annotations

from reaping import Run
from template_actions import granted_actions

# Granted, and not seen here, each for a reason.
NOT_SEEN = {
    "kms:GenerateDataKey",  # an encrypted bucket and topic: the local AWS asks for no key
    "kms:Decrypt",
    "sqs:SendMessage",  # Lambda's: the on-failure destination
    "logs:CreateLogStream",  # Lambda's
    "logs:PutLogEvents",
}


def assert_role_fits(function: str, runs: list[Run], needed: set[str], not_seen: set[str]) -> None:
    """`needed` is what runs of everything call at least, `not_seen` what is granted besides."""
    seen = {permission for run in runs for call in run.calls for permission in call["permissions"]}
    assert needed <= seen, "a run of everything left something out"
    granted = granted_actions(function)
    assert seen - granted == set(), "the deployed function would be denied"
    assert granted - seen == NOT_SEEN | not_seen, "what is no longer granted: shorten the list"


def objects(runs: list[Run], action: str, depth: int = 2) -> set[str]:
    """The first parts of the keys of all objects that met this action."""
    calls = [call for run in runs for call in run.calls if call["action"] == action]
    return {"/".join(key.split("/")[1 : depth + 1]) for call in calls for key in call["resources"]}
