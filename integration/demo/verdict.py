"""Compares what happened with what the story promises: `make demo` is an acceptance test as well."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from .budgets import Spent
from .budgets import TEAM as IN_DEBT
from .jobs import CALLS_MAX, CHEAPEST, MISTAKES, TEAM, Lived, calls_to_launch
from .machines import STEPS, Trained
from .run import Run
from .fleet import ABSENT
from .seed import Account
from .show import is_first_sight, paragraph_of
from .storage import Disk, Safety
from .story import Played

# What was to be, and what is.
Promise = tuple[str, Any, Any]

# Which teams hear something in each of the five runs; the last one has nothing new to say.
_ALL = {"vision", "nlp", "research", "untagged"}
_HEARD_OF_MACHINES = [_ALL, _ALL, {"vision", "nlp", "untagged"}, set(), set()]
_HEARD_OF_VOLUMES = [_ALL - {"untagged"}, _ALL - {"untagged"}, {"vision", "nlp"}, {"vision", "nlp"}, set()]
_BUDGET_STEPS = [[], [("notify", 80)], [("hold", 100)], [("hold", 100)]]
_WORST_USD = 8.05  # of the job
# After each run: the job's state and attempt, what was done in it, and who heard.
_JOB = {
    "launched": ("running", 1, ["launch"], [TEAM]),
    "seen": ("running", 1, [], []),
    "warned": ("running", 2, ["notify", "launch"], [TEAM]),
    "silent": ("running", 3, ["terminate", "notify", "launch"], [TEAM]),
    "succeeded": ("ended", 3, ["notify"], [TEAM]),
    "over": ("ended", 3, [], []),
}
# Of each attempt: how its machine went off, and what its exit record says.
_ENDS = [("poweroff", "interrupted"), ("plug", None), ("poweroff", "succeeded")]


def differences(played: Played, spent: Spent, lived: Lived, account: Account) -> list[str]:
    """Every promise that was not kept."""
    storage = account.storage
    return broken(
        chain(
            _runs("machines", played.instances, account.machines, _HEARD_OF_MACHINES),
            _runs("volumes", played.volumes, {**storage.disks, **storage.safeties}, _HEARD_OF_VOLUMES),
            _people(played, account),
            _account(account),
            _budget(spent),
            _job(lived),
            _training(lived.trained),
        )
    )


def broken(promises: Iterator[Promise]) -> list[str]:
    return [f"{what} was to be {promised}, and is {found}" for what, promised, found in promises if promised != found]


def _runs(what: str, runs: list[Run], cast: dict[str, Any], heard: list[set[str]]) -> Iterator[Promise]:
    for number, (run, teams) in enumerate(zip(runs, heard, strict=True)):
        name = f"{what}, run {number + 1}: "
        fates = {one: reason for reason, ids in run.record["skipped"].items() for one in ids}
        fates.update({step["resource"]: _in_words(step) for step in run.record["steps"]})
        for resource, one in cast.items():
            fate = fates.pop(resource, ABSENT)
            meant = one.fate[number].split(" or ")
            yield name + one.name, meant, meant if fate in meant else fate
        # Root volumes are not in the cast.
        yield name + "what became of others", {}, {one: fate for one, fate in fates.items() if fate != "attached"}
        yield name + "what could not be seen", [], run.record["gaps"]
        yield name + "who heard", teams, {message["attributes"]["team"] for message in run.messages}
        told = "\n".join(message["message"] for message in run.messages)
        acted = [step["resource"] for step in run.record["steps"] if _is_told(step)]
        yield name + "what nobody was told", [], [one for one in acted if one not in told]
        if number in (0, len(runs) - 1):
            yield name + "what was written", set(), _writes(run)
    for message in runs[0].messages:
        yield f"what the rehearsal says to {message['attributes']['team']}", True, "Observe mode" in message["message"]


def _in_words(step: dict[str, Any]) -> str:
    """`mark idle`, `would stop idle`, `held stop idle`."""
    if is_first_sight(step) and step["outcome"] == "done":
        return "first seen"
    evidence = step["evidence"]
    outcome = {"done": "", "observed": "would ", "not-reached": "held "}.get(step["outcome"], step["outcome"] + " ")
    notify_only = f" {evidence['notify_only']}" if "notify_only" in evidence else ""
    return f"{outcome}{step['action']} {evidence['rule']}{notify_only}"


def _is_told(step: dict[str, Any]) -> bool:
    acted = step["action"] in ("stop", "terminate", "delete", "mark") and not is_first_sight(step)
    return acted and step["outcome"] == "done"


def _writes(run: Run) -> set[str]:
    return {action for action in run.calls if action.startswith("ec2:") and "Describe" not in action}


def _people(played: Played, account: Account) -> Iterator[Promise]:
    """What they carry out, find and paste."""
    held = {(step["resource"], "done") for step in played.instances[2].record["steps"] if step["outcome"] == "not-reached"}
    yield "what apply carried out", held, {(step["resource"], step["outcome"]) for step in played.applied["steps"]}
    for volume_id, disk in account.storage.disks.items():
        if disk.told:
            yield f"what is said of {disk.name}", True, disk.told in (paragraph_of(played.volumes[0], volume_id) or "")
    yield "what came back otherwise", {}, played.differences


def _account(account: Account) -> Iterator[Promise]:
    """Whatever Curfew says about it."""
    aws, storage = account.aws, account.storage
    ends = {ABSENT: "terminated", "not-running": "stopped"}
    meant = {one: ends.get(machine.fate[-1], "running") for one, machine in account.machines.items()}
    meant.update({one: "stopped" if machine.stopped else "running" for one, machine in account.cpu_machines.items()})
    states = {one["id"]: one["state"] for one in aws.machines()}
    for instance_id, state in meant.items():
        yield f"the state of {instance_id}", state, states.get(instance_id)
    regions = {machine.region for machine in account.machines.values()}
    clients = [aws.client("ec2", region) for region in regions]
    there = {one["VolumeId"] for client in clients for one in client.describe_volumes()["Volumes"]}
    there |= {one["SnapshotId"] for client in clients for one in client.describe_snapshots(OwnerIds=["self"])["Snapshots"]}
    cast: dict[str, Disk | Safety] = {**storage.disks, **storage.safeties}
    for resource, one in cast.items():
        yield f"whether {one.name} is there at the end", one.fate[-1] != ABSENT, resource in there


def _budget(spent: Spent) -> Iterator[Promise]:
    for number, (run, steps) in enumerate(zip(spent.runs, _BUDGET_STEPS, strict=True), 1):
        done = [(step["action"], step["evidence"]["threshold_percent"]) for step in run.record["steps"] if step["outcome"] == "done"]
        yield f"beat {number}: what was done", steps, done
        heard = [message["attributes"]["team"] for message in run.messages]
        yield f"beat {number}: who heard", [IN_DEBT] if number in (2, 3) else [], heard
        yield f"beat {number}: what was written", set(), _writes(run)
    yield "that what made the most of it is named", True, spent.launched in spent.detail
    for words in (spent.overview, spent.detail):
        yield f"what `curfew budget` says of {IN_DEBT}", True, "over: no new jobs" in words


def _job(lived: Lived) -> Iterator[Promise]:
    for name, meant in _JOB.items():
        stage = lived.stages[name]
        done = [one["action"] for one in stage.run.response["steps"] if one["outcome"] == "done"]
        heard = [message["attributes"]["team"] for message in stage.run.messages]
        yield f"{name}: the job", meant, (stage.phase["state"], stage.state["attempt"], done, heard)
        yield f"{name}: what could not be seen", [], stage.run.response["gaps"]
    launched, warned, silent, succeeded, over = (lived.stages[one] for one in ("launched", "warned", "silent", "succeeded", "over"))
    asked = [call["status"] == 200 for call in launched.run.asked if call["action"] == "ec2:RunInstances"]
    yield "which launches were accepted", [False, True], asked
    yield "where the job was launched", CHEAPEST, launched.phase.get("zone")
    yield "what was reserved", _WORST_USD, round((launched.reserved or {}).get("usd", 0), 2)
    yield f"that {CALLS_MAX} calls suffice from the warning to the launch", True, len(calls_to_launch(warned.run)) <= CALLS_MAX
    changes = [call["action"] for call in silent.run.asked if call["action"] in ("ec2:TerminateInstances", "ec2:RunInstances")]
    yield "the order of a replacement", ["ec2:TerminateInstances", "ec2:RunInstances"], changes
    yield "the result of the job", "succeeded", succeeded.phase.get("result")
    yield "what is left of the job", ([], [], None), (over.machines, over.active, over.reserved)
    yield "what a sweep without jobs asks EC2", set(), {action for action in over.run.calls if action.startswith("ec2:")}
    yield "what `curfew jobs` says", True, f"{lived.job}: succeeded" in lived.overview
    yield "where mistakes were found", MISTAKES, {mistake["key"] for mistake in lived.rejected.get("mistakes", [])}
    yield "who heard of them", ["research"], [one["attributes"]["team"] for run in lived.refusing for one in run.messages]


def _training(trained: Trained | None) -> Iterator[Promise]:
    yield "that the training was counted", True, trained is not None
    if trained is None:
        return
    yield "the result", trained.undisturbed, trained.result
    yield "which steps were done", set(range(1, STEPS + 1)), {step for _, step in trained.trail}
    numbers = [attempt for attempt, _ in trained.trail]
    yield "the order of attempts", sorted(numbers), numbers
    yield "the order of attempts at the fence", sorted(trained.fence), trained.fence
    yield "what is left of the machines", (0, []), (trained.processes, trained.volumes)
    yield "how attempts ended", _ENDS, [(one.ended_by, (one.exited or {}).get("reason")) for one in trained.attempts]
    for before, after in zip(trained.attempts, trained.attempts[1:]):
        yield f"where attempt {after.number} went on", (before.kept, [before.kept + 1]), (after.took_over, after.steps[:1])
        if before.exited is not None:
            yield f"what was done twice after the warning of attempt {before.number}", 0, trained.done_twice(after)
