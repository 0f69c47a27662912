"""What a run asks of AWS, and that the template grants exactly that. How often it asks: test_fewest_calls.py."""

from __future__ import annotations

from reaping import EUROPE, Run, ago
from reaping_volumes import EC2_WRITES, READS, VolumeAccount
from template_actions import granted_actions

# Granted, and not seen here, each for a reason.
NOT_SEEN = {
    "kms:GenerateDataKey",  # an encrypted bucket and topic: the local AWS asks for no key
    "kms:Decrypt",
    "sqs:SendMessage",  # Lambda's: the on-failure destination
    "logs:CreateLogStream",  # Lambda's
    "logs:PutLogEvents",
    "s3:ListBucket",  # without it an absent object looks forbidden; nothing is listed
}


def test_the_role_may_do_what_was_done_and_nothing_else(storage: VolumeAccount) -> None:
    runs = _everything(storage)
    seen = {permission for run in runs for call in run.calls for permission in call["permissions"]}
    assert READS | EC2_WRITES <= seen, "a run of everything left something out"
    granted = granted_actions("reap-volumes")
    assert seen - granted == set(), "the deployed function would be denied"
    assert granted - seen == NOT_SEEN & granted

    # config/, prices/ and active/ are only read; notices/ and plans/ are the function's own.
    touched: dict[str, set[str]] = {"s3:GetObject": set(), "s3:PutObject": set()}
    for call in (call for run in runs for call in run.calls if call["action"] in touched):
        touched[call["action"]] |= {"/".join(key.split("/")[1:3]) for key in call["resources"]}
    assert touched["s3:GetObject"] == {"config/curfew.toml", "prices/current.json", "notices/reap-volumes", "active/vision"}
    days = {key for key in touched["s3:PutObject"] if key.startswith("plans/")}
    assert touched["s3:PutObject"] - days == {"notices/reap-volumes"} and days


def _everything(storage: VolumeAccount) -> list[Run]:
    """Runs that mark, unmark, notify, snapshot, delete, and fail."""
    storage.orphan(tags={"curfew:job": "vision/a-0123abcd"})
    storage.untagged_volume(EUROPE, unattached_since=ago(days=20), snapshot_id="snap-0123456789abcdef0")
    storage.orphan(tags={f"k{number}": "" for number in range(46)})
    storage.attach(storage.marked())
    storage.left_behind(ago(days=40))
    storage.left_behind()
    runs = [storage.tick() for _ in range(3)]
    done = {step["action"] for run in runs for step in run.steps if step["outcome"] == "done"}
    assert done == {"mark", "unmark", "notify", "snapshot", "delete"}
    storage.write_config("mood = 1")
    return [*runs, storage.tick(), storage.tick(b"{}")]
