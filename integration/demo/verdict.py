"""Compares what happened with the story: the demo is an acceptance test as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .run import Run
from .seed import Account

WRITES = {"ec2:CreateTags", "ec2:DeleteTags", "ec2:StopInstances", "ec2:StartInstances", "ec2:TerminateInstances"}

# Which teams hear something in each run. The last one has nothing new to say, and says nothing.
HEARD = [
    {"vision", "nlp", "research", "untagged"},
    {"vision", "nlp", "research", "untagged"},
    {"vision", "nlp", "untagged"},
    set(),
    set(),
]


def fates(run: Run, account: Account) -> dict[str, str]:
    """What became of every machine, by name: `mark idle`, `would stop idle`, `held stop idle`, or why it was spared."""
    spared = {one: reason for reason, ids in run.record["spared"].items() for one in ids}
    steps = {step["resource"]: in_words(step) for step in run.record["steps"]}
    both = spared.keys() & steps.keys()
    found = {**spared, **steps, **{one: "both acted on and spared" for one in both}}
    known = {machine.name: found.pop(one, "gone") for one, machine in account.machines.items()}
    return {**known, **{f"{one}, which is no GPU instance": fate for one, fate in found.items()}}


def in_words(step: dict[str, Any]) -> str:
    because = step["because"]
    outcome = {"done": "", "observed": "would ", "not-reached": "held "}.get(step["outcome"], step["outcome"] + " ")
    only_told = f" {because['only_told']}" if "only_told" in because else ""
    return f"{outcome}{step['action']} {because['rule']}{only_told}"


def differences(runs: list[Run], applied: dict[str, Any], account: Account) -> list[str]:
    """Every way in which what happened is not the story. Empty: all is well."""
    return [
        *_other_fates(runs, account),
        *_otherwise_applied(runs[2].record, applied),
        *_other_messages(runs),
        *_other_writes(runs),
        *_other_account(account),
    ]


def _other_fates(runs: list[Run], account: Account) -> Iterator[str]:
    for number, run in enumerate(runs):
        found = fates(run, account)
        meant = {machine.name: machine.fate[number] for machine in account.machines.values()}
        for name in sorted(found.keys() | meant.keys()):
            if found.get(name) != meant.get(name):
                yield f"run {number + 1}: {name} was to be `{meant.get(name)}`, and is `{found.get(name)}`"
        for gap in run.record["gaps"]:
            yield f"run {number + 1} could not see {gap}"


def _otherwise_applied(reviewed: dict[str, Any], applied: dict[str, Any]) -> Iterator[str]:
    """Exactly what waited is carried out."""
    ends = {(step["resource"], step["action"]) for step in reviewed["steps"] if step["outcome"] == "not-reached"}
    for step in applied["steps"]:
        if step["outcome"] != "done":
            yield f"apply was to {step['action']} {step['resource']}, and it is {step['outcome']}: {step['error']}"
    if (done := {(step["resource"], step["action"]) for step in applied["steps"]}) != ends:
        yield f"apply was to carry out {sorted(ends)}, and did {sorted(done)}"


def _other_messages(runs: list[Run]) -> Iterator[str]:
    for number, (run, meant) in enumerate(zip(runs, HEARD)):
        teams = [message["attributes"]["team"] for message in run.messages]
        if sorted(teams) != sorted(meant):
            yield f"run {number + 1}: messages were to go to {sorted(meant)}, and went to {sorted(teams)}"
        told = "\n".join(message["message"] for message in run.messages)
        ended = [step for step in run.record["steps"] if step["action"] in ("stop", "terminate", "mark")]
        for step in ended:
            if step["outcome"] == "done" and step["resource"] not in told:
                yield f"run {number + 1}: nobody was told of the {step['action']} of {step['resource']}"
    for message in runs[0].messages:
        if "Observe mode" not in message["message"]:
            yield f"the rehearsal's message to {message['attributes']['team']} does not say that it only says"


def _other_writes(runs: list[Run]) -> Iterator[str]:
    for action in sorted(WRITES & runs[0].calls.keys()):
        yield f"the rehearsal called {action}"
    for action in sorted(WRITES & runs[-1].calls.keys()):
        yield f"the last run had nothing to do, and called {action}"
    for number, run in enumerate(runs):
        for action, call in (("stop", "ec2:StopInstances"), ("terminate", "ec2:TerminateInstances")):
            steps = [one for one in run.record["steps"] if one["action"] == action and one["outcome"] == "done"]
            if len(steps) != run.calls[call]:
                yield f"run {number + 1}: {len(steps)} steps `{action}` took {run.calls[call]} calls of {call}"


def _other_account(account: Account) -> Iterator[str]:
    """The account itself, whatever Curfew says about it."""
    aws = account.aws
    for instance_id, machine in account.machines.items():
        instance = aws.instance(instance_id, machine.region)
        meant = {"gone": "terminated", "not-running": "stopped"}.get(machine.fate[-1], "running")
        if instance["State"]["Name"] != meant:
            yield f"{machine.name} was to be {meant}, and is {instance['State']['Name']}"
        tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
        if meant == "stopped" and ("curfew:stopped" not in tags or "curfew:marked" in tags):
            yield f"{machine.name} was stopped, but its tags do not say so: {tags}"
    for instance_id, cpu_machine in account.cpu_machines.items():
        instance = aws.instance(instance_id, cpu_machine.region)
        meant = "stopped" if cpu_machine.stopped else "running"
        if instance["State"]["Name"] != meant or any(tag["Key"].startswith("curfew") for tag in instance["Tags"]):
            yield f"{instance_id} has no GPU, and was touched"
