"""Compares the life of the job with the story."""

from __future__ import annotations

from collections.abc import Iterator

from .jobs import CALLS_MAX, CHEAPEST, FULL, MISTAKES, NAME, TEAM, Lived, Stage, calls_to_launch
from .machines import STEPS, Attempt, Trained

_WORST = "It can cost $8.05: 8h at $1.01/h at most, which is reserved before it begins"
_WORST_USD = 8.05
# After each run: the job's state and attempt, what was done in it, and whether its team heard.
_STORY = {
    "launched": ("running", 1, ["launch"], True),
    "seen": ("running", 1, [], False),
    "warned": ("running", 2, ["notify", "launch"], True),
    "silent": ("running", 3, ["terminate", "notify", "launch"], True),
    "succeeded": ("ended", 3, ["notify"], True),
    "over": ("ended", 3, [], False),
}
_SEEN = ("seen", "silent", "succeeded", "over")  # where the sweep looks how far it is
# Of each attempt: how its machine went off, and what its exit record says.
_ENDS = [("poweroff", "interrupted"), ("plug", None), ("poweroff", "succeeded")]


def differences(lived: Lived) -> Iterator[str]:
    """Every way in which it was not as in the story."""
    for name, stage in lived.stages.items():
        yield from _otherwise(name, stage)
    yield from _placed_otherwise(lived)
    yield from _replaced_otherwise(lived)
    yield from _left_over(lived)
    yield from _trained_otherwise(lived)
    found = {mistake["key"] for mistake in lived.rejected.get("mistakes", [])}
    if found != MISTAKES:
        yield f"the mistakes were to be in {sorted(MISTAKES)}, and are in {sorted(found)}"
    if [one["attributes"]["team"] for run in lived.refusing for one in run.messages] != ["research"]:
        yield "research was to hear of its mistakes"


def _otherwise(name: str, stage: Stage) -> Iterator[str]:
    state, attempt, actions, is_told = _STORY[name]
    found = stage.phase["state"], stage.state["attempt"]
    if found != (state, attempt):
        yield f"{name}: the job was to be {state}, at attempt {attempt}, and is {found}"
    step, (before, after) = stage.state["progress"]["step"] or 0, stage.kept
    if name in _SEEN and not before <= step <= after:
        yield f"{name}: step {before} was kept before it and {after} after it, and the job is said to be at {step}"
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
    # Of the two that there are at the warning the first may be off by now.
    meant = {"launched": [[first]], "seen": [[first]], "warned": [[first, second], [second]], "silent": [[third]]}
    for name, machines in meant.items():
        if lived.stages[name].machines not in machines:
            yield f"{name}: the machines of jobs were to be {machines[0]}, and are {lived.stages[name].machines}"
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


def _trained_otherwise(lived: Lived) -> Iterator[str]:
    trained = lived.trained
    if trained is None:
        yield "nothing was counted of the training"
        return
    if trained.result != trained.undisturbed:
        yield f"{trained.undisturbed} was to come out, and it is {trained.result}"
    if {step for _, step in trained.trail} != set(range(1, STEPS + 1)):
        yield f"each of {STEPS} steps was to be done: {trained.trail}"
    numbers = [attempt for attempt, _ in trained.trail]
    if numbers != sorted(numbers) or trained.fence != sorted(trained.fence):
        yield f"an attempt was to do nothing after the next one had begun: {numbers}, and of the fence {trained.fence}"
    if trained.processes:
        yield f"of the machines {trained.processes} processes are left"
    if trained.volumes:
        yield f"of the machines these volumes are left: {trained.volumes}"
    ends = [(one.ended_by, (one.exited or {}).get("reason")) for one in trained.attempts]
    if ends != _ENDS:
        yield f"the attempts were to end as {_ENDS}, and ended as {ends}"
    for before, after in zip(trained.attempts, trained.attempts[1:]):
        yield from _resumed_otherwise(trained, before, after)
    for one in trained.attempts:
        if one.beat.get("attempt") != one.number:
            yield f"the heart of attempt {one.number} was to beat, and says {one.beat}"


def _resumed_otherwise(trained: Trained, before: Attempt, after: Attempt) -> Iterator[str]:
    """It goes on from the newest checkpoint that counted; of one that was warned, that has all."""
    if after.took_over != before.kept or after.steps[:1] != [before.kept + 1]:
        yield (
            f"attempt {after.number} was to go on from step {before.kept}, which attempt {before.number} kept, and took over "
            f"{after.took_over} and did {after.steps[:1]}"
        )
    again = trained.done_twice(after)
    if before.exited is not None and again:
        yield f"attempt {before.number} was warned, and {again} steps of it were done again"
    if before.kept <= before.took_over:
        yield f"attempt {before.number} was to come further than step {before.took_over}"
