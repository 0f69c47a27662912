"""Compares what happened to volumes and their snapshots with the story."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from .fleet import EAST_1
from .run import Run
from .seed import Account
from .seed_storage import Storage
from .show_volumes import is_first_sight, paragraph_of
from .storage import ABSENT, RESTORED
from .story import Played
from .verdict import in_words

WRITES = {"ec2:CreateTags", "ec2:DeleteTags", "ec2:CreateSnapshot", "ec2:DeleteVolume", "ec2:DeleteSnapshot"}

# Which teams hear something in each run.
HEARD: list[set[str]] = [
    {"vision", "nlp", "research"},
    {"vision", "nlp", "research"},
    {"vision", "nlp"},
    {"vision", "nlp"},
    set(),
]

# What may be remembered on a volume that is left alone: nothing, but since when it is unattached.
_SINCE = "curfew:unattached-since"
_OF_CURFEW = {"curfew:marked", _SINCE, "curfew:snapshot-of", "curfew:restore", "curfew:deleted-at"}


def differences(played: Played, account: Account) -> list[str]:
    """Every way in which what happened is not the story. Empty: all is well."""
    return [
        *_other_fates(played.volumes, account.storage),
        *_other_messages(played.volumes),
        *_other_findings(played.volumes, account.storage),
        *_other_writes(played.volumes),
        *_other_volumes(account),
        *_other_snapshots(account),
        *_other_restored(played),
    ]


def _fates(run: Run, storage: Storage) -> dict[str, str]:
    """What became of every volume and snapshot, by name; of the roots, of those alone that were not just attached."""
    spared = {one: reason for reason, ids in run.record["spared"].items() for one in ids}
    steps = {step["resource"]: _in_words(step) for step in run.record["steps"]}
    both = spared.keys() & steps.keys()
    found = {**spared, **steps, **{one: "both acted on and spared" for one in both}}
    cast = {**storage.disks, **storage.safeties}
    known = {one.name: found.pop(resource, ABSENT) for resource, one in cast.items()}
    others = {one: fate for one, fate in found.items() if one not in storage.roots or fate != "attached"}
    return {**known, **{f"{one}, which is not in the cast": fate for one, fate in others.items()}}


def _in_words(step: dict[str, Any]) -> str:
    return "first seen" if is_first_sight(step) and step["outcome"] == "done" else in_words(step)


def _other_fates(runs: list[Run], storage: Storage) -> Iterator[str]:
    cast = [*storage.disks.values(), *storage.safeties.values()]
    for number, run in enumerate(runs):
        found = _fates(run, storage)
        meant = {one.name: one.fate[number] for one in cast}
        for name in sorted(found.keys() | meant.keys()):
            if found.get(name, ABSENT) not in meant.get(name, ABSENT).split(" or "):
                yield f"volumes, run {number + 1}: {name} was to be `{meant.get(name)}`, and is `{found.get(name)}`"
        for gap in run.record["gaps"]:
            yield f"volumes, run {number + 1} could not see {gap}"


def _other_messages(runs: list[Run]) -> Iterator[str]:
    for number, (run, meant) in enumerate(zip(runs, HEARD)):
        teams = [message["attributes"]["team"] for message in run.messages]
        if sorted(teams) != sorted(meant):
            yield f"volumes, run {number + 1}: messages were to go to {sorted(meant)}, and went to {sorted(teams)}"
        told = "\n".join(message["message"] for message in run.messages)
        for step in run.record["steps"]:
            if _is_told(step) and step["resource"] not in told:
                yield f"volumes, run {number + 1}: nobody was told of the {step['action']} of {step['resource']}"
    for message in runs[0].messages:
        if "Observe mode" not in message["message"]:
            yield f"the rehearsal's message to {message['attributes']['team']} does not say that it only says"


def _is_told(step: dict[str, Any]) -> bool:
    announced = step["action"] == "mark" and not is_first_sight(step)
    return step["outcome"] == "done" and (announced or step["action"] == "delete")


def _other_findings(runs: list[Run], storage: Storage) -> Iterator[str]:
    """Told once, which the rehearsal does."""
    for volume_id, disk in storage.disks.items():
        if disk.told is None:
            continue
        found = [paragraph_of(run, volume_id) for run in runs]
        if disk.told not in (found[0] or "") or any(found[1:]):
            yield f"of {disk.name} it was to be told once that `{disk.told}`, and was told: {found}"


def _other_writes(runs: list[Run]) -> Iterator[str]:
    for action in sorted(WRITES & runs[0].calls.keys()):
        yield f"the rehearsal of volumes called {action}"
    for action in sorted(WRITES & runs[-1].calls.keys()):
        yield f"the last run of volumes had nothing to do, and called {action}"
    for number, run in enumerate(runs):
        done = [(step["action"], step["because"]["rule"]) for step in run.record["steps"] if step["outcome"] == "done"]
        for what, call in (
            (("snapshot", "orphaned"), "ec2:CreateSnapshot"),
            (("delete", "orphaned"), "ec2:DeleteVolume"),
            (("delete", "expired"), "ec2:DeleteSnapshot"),
        ):
            if done.count(what) != run.calls[call]:
                yield f"volumes, run {number + 1}: {done.count(what)} steps took {run.calls[call]} calls of {call}"


def _other_volumes(account: Account) -> Iterator[str]:
    """The account itself, whatever Curfew says about it."""
    storage = account.storage
    for volume_id, disk in storage.disks.items():
        exists = _exists(account, volume_id, disk.region)
        if exists != (disk.fate[-1] != ABSENT):
            yield f"{disk.name} was {'not ' if exists else ''}to be there at the end"
            continue
        seeded = {tag["Key"]: tag["Value"] for tag in storage.before.get(volume_id, {}).get("Tags", [])}
        tags = account.aws.tags(volume_id, disk.region) if exists else {}
        if disk.fate == (disk.fate[0],) * 5 and tags != seeded:
            yield f"{disk.name} was to be left alone, and its tags are {tags}"
        if disk.fate[-1] in ("attached", "restorable") and _OF_CURFEW & tags.keys():
            yield f"{disk.name} is in use, and its tags say otherwise: {tags}"
        if disk.fate[-1] == "young" and (_SINCE not in tags or "curfew:marked" in tags):
            yield f"{disk.name} was to be remembered as unattached, and no more: {tags}"


def _exists(account: Account, volume_id: str, region: str) -> bool:
    try:
        account.aws.volume(volume_id, region)
    except ClientError:
        return False
    return True


def _other_snapshots(account: Account) -> Iterator[str]:
    for snapshot_id, safety in account.storage.safeties.items():
        region = next((disk.region for disk in account.storage.disks.values() if disk.name == safety.of), EAST_1)
        filters = [{"Name": "snapshot-id", "Values": [snapshot_id]}]
        found = account.aws.client("ec2", region).describe_snapshots(Filters=filters)["Snapshots"]
        if bool(found) != (safety.fate[-1] != ABSENT):
            yield f"the {safety.name} was {'not ' if found else ''}to be there at the end"
        if found and "curfew:deleted-at" not in {tag["Key"] for tag in found[0]["Tags"]}:
            yield f"the {safety.name} does not say since when its volume is gone"


def _other_restored(played: Played) -> Iterator[str]:
    for key, (old, new) in played.differences.items():
        yield f"{RESTORED} came back otherwise: {key} was {old}, and is {new}"
