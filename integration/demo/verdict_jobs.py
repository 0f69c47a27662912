"""Compares the life of the job with the story."""

from __future__ import annotations

from collections.abc import Iterator

from .jobs import CALLS_MAX, CHEAPEST, FULL, MISTAKES, NAME, STEPS, TEAM, Lived, Stage, calls_to_launch

_WORST = "It can cost $8.05: 8h at $1.01/h at most, which is reserved before it begins"
_WORST_USD = 8.05
# After each run: the job's state, attempt and step, what was done in it, and whether its team heard.
_STORY = {
    "launched": ("running", 1, None, ["launch"], True),
    "seen": ("running", 1, STEPS[0], [], False),
    "warned": ("running", 2, STEPS[0], ["notify", "launch"], True),
    "silent": ("running", 3, STEPS[1], ["terminate", "notify", "launch"], True),
    "succeeded": ("ended", 3, STEPS[1], ["notify"], True),
    "over": ("ended", 3, STEPS[1], [], False),
}


def differences(lived: Lived) -> Iterator[str]:
    """Every way in which it was not as in the story."""
    for name, stage in lived.stages.items():
        yield from _otherwise(name, stage)
    yield from _placed_otherwise(lived)
    yield from _replaced_otherwise(lived)
    yield from _left_over(lived)
    found = {mistake["key"] for mistake in lived.rejected.get("mistakes", [])}
    if found != MISTAKES:
        yield f"the mistakes were to be in {sorted(MISTAKES)}, and are in {sorted(found)}"
    if [one["attributes"]["team"] for run in lived.refusing for one in run.messages] != ["research"]:
        yield "research was to hear of its mistakes"


def _otherwise(name: str, stage: Stage) -> Iterator[str]:
    state, attempt, step, actions, is_told = _STORY[name]
    found = stage.phase["state"], stage.state["attempt"], stage.state["progress"]["step"]
    if found != (state, attempt, step):
        yield f"{name}: the job was to be {state}, at attempt {attempt} and step {step}, and is {found}"
    done = [one["action"] for one in stage.run.response["steps"] if one["outcome"] == "done"]
    if done != actions or len(done) != len(stage.run.response["steps"]):
        yield f"{name}: {actions} was to be done, and is {stage.run.response['steps']}"
    told = [message["attributes"]["team"] for message in stage.run.messages]
    if told != [TEAM] * is_told:
        yield f"{name}: messages went to {told}"
    if gaps := stage.run.response["gaps"]:
        yield f"{name}: could not see {gaps}"


def _placed_otherwise(lived: Lived) -> Iterator[str]:
    if _WORST not in lived.submitted:
        yield f"the command was to say {_WORST!r}, and says: {lived.submitted}"
    launched = lived.stages["launched"]
    tried = [call["status"] == 200 for call in launched.run.asked if call["action"] == "ec2:RunInstances"]
    if tried != [False, True]:
        yield f"one launch was to be refused, and the next accepted: {tried}"
    if launched.phase.get("zone") != CHEAPEST:
        yield f"it was to be launched in {CHEAPEST}, the cheapest zone after {FULL}, and is {launched.phase}"
    reserved = (launched.reserved or {}).get("usd", 0)
    if abs(reserved - _WORST_USD) > 0.01:
        yield f"${_WORST_USD} was to be reserved on the budget of {TEAM}, and it is ${reserved}"


def _replaced_otherwise(lived: Lived) -> Iterator[str]:
    first, second, third = (lived.stages[one].phase.get("instance") for one in ("launched", "warned", "silent"))
    for name, meant in (("launched", [first]), ("seen", [first]), ("warned", [first, second]), ("silent", [third])):
        if lived.stages[name].machines != meant:
            yield f"{name}: the machines of jobs were to be {meant}, and are {lived.stages[name].machines}"
    if len({first, second, third}) != 3:
        yield f"three machines were to follow each other: {first}, {second}, {third}"
    calls = len(calls_to_launch(lived.stages["warned"].run))
    if calls > CALLS_MAX:
        yield f"from the warning to the launch {calls} calls were made, and {CALLS_MAX} are the most"
    asked = [call["action"] for call in lived.stages["silent"].run.asked]
    changes = [action for action in asked if action in ("ec2:TerminateInstances", "ec2:RunInstances")]
    if changes != ["ec2:TerminateInstances", "ec2:RunInstances"]:
        yield "the silent machine was to be terminated before another one was launched"


def _left_over(lived: Lived) -> Iterator[str]:
    succeeded, over = lived.stages["succeeded"], lived.stages["over"]
    if succeeded.phase.get("result") != "succeeded" or not over.phase.get("closed"):
        yield f"it was to succeed and be closed, and is {over.phase}"
    if "ended" not in (succeeded.reserved or {}):
        yield f"its reservation was to be ended, and is {succeeded.reserved}"
    if over.reserved is not None:
        yield f"what was reserved was to be given back, and is {over.reserved}"
    if over.machines or over.active or succeeded.active:
        yield f"nothing was to be left, and there is {over.machines} {succeeded.active} {over.active}"
    if asked := {action for action in over.run.calls if action.startswith("ec2:")}:
        yield f"a sweep without jobs was to ask EC2 nothing, and asked {asked}"
    if f"/{NAME}-" not in lived.job or f"{lived.job}: succeeded" not in lived.overview:
        yield f"the command was to say that {lived.job} succeeded, and says: {lived.overview}"
