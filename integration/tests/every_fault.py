"""Every fault at every call: which there are, how one is tried, and what a run that met it must be judged by.

The calls are those that a faultless story makes, so that a new call is met by all faults by itself. A story is `RUNS`
runs over an account with one of each; in one of the first `STRUCK_RUNS` one call meets one fault, and all others are clean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from local_aws import LocalAws, faults
from one_of_each import ENDED, OBSERVED, ON_SPOT, OneOfEach
from reaping import Run

STRUCK_RUNS = 3  # two with work, and the one that remembers that it is done
RUNS = STRUCK_RUNS + 4  # three make up for what the fault cost, and in the last there is nothing left to do
DEADLINE_SECONDS = 270  # the function's timeout in template.yaml
# The SDK gives up an attempt after 30 s and a call after 100 s (shared/cloud/src/aws.rs).
STRUCK_RUN_SECONDS_MAX = 120
_SLOW_SECONDS = 2.0
_HANG_SECONDS = 600.0

# What the SDK repeats: "lasting" is each attempt of the call. All else is final at once, and lasts as it is.
IN_TROUBLE = ("throttle", "error500", "insufficient_capacity", "reset")
UNHEARD = ("lost_answer", "cut_off")
REPEATED = (*IN_TROUBLE, *UNHEARD)
REFUSED = ("access_denied", "scp_denied", "not_found", "unknown")
DAMAGED = ("garbled", "empty")
FAULTS = (*REPEATED, *REFUSED, *DAMAGED, "slow")
assert {*FAULTS, "custom"} == {*faults.FAULTS, "unknown"}, "the local AWS has faults that no case tries"


@dataclass(frozen=True)
class Call:
    """One call of the faultless story."""

    run: int
    action: str
    on: str  # the name of an instance, a folder of the bucket, or nothing
    nth: int  # of those that a rule with this action and this match would mean

    def __str__(self) -> str:
        return f"run {self.run + 1}, {self.action} {self.on or '-'} #{self.nth + 1}"


@dataclass(frozen=True)
class Case:
    """One call and one fault; `lasting` strikes each of the SDK's attempts at it."""

    call: Call
    fault: str
    lasting: bool

    def __str__(self) -> str:
        return f"{self.call}: {self.fault}{', lasting' if self.lasting else ''}"

    @property
    def passes(self) -> bool:
        """Whether the call succeeds in the end: its answer comes late, or upon the SDK's next attempt."""
        return self.fault == "slow" or (repeats(self.call, self.fault) and not self.lasting)

    def rule(self, one_of_each: OneOfEach) -> dict[str, Any]:
        match = one_of_each.ids.get(self.call.on, self.call.on) or None
        rule = {"action": self.call.action, "match": match, "skip": self.call.nth, "every_attempt": self.lasting}
        if self.fault == "unknown":
            return {**rule, "fault": "custom", "code": "InvalidMood", "message": "The mood is invalid."}
        if self.fault in ("slow", "hang"):
            return {**rule, "fault": "slow", "seconds": _SLOW_SECONDS if self.fault == "slow" else _HANG_SECONDS}
        return {**rule, "fault": self.fault}


def cases(calls: list[Call]) -> list[Case]:
    """All of them; those that hang, for as long as the SDK waits, only for the first call of each action."""
    first = {call.action: call for call in reversed(calls)}
    hang = [Case(call, "hang", lasting=True) for call in first.values()]
    once = [Case(call, fault, lasting=False) for call in calls for fault in FAULTS]
    lasting = [Case(call, fault, lasting=True) for call in calls for fault in REPEATED if repeats(call, fault)]
    return [*hang, *once, *lasting]


def some(calls: list[Call]) -> list[Case]:
    """Of each call three cases: it is refused, it is in trouble that lasts, it is carried out unheard or its answer
    damaged; of every fifth call two more, of those that pass; and one that hangs of each service. In which way it is
    refused and so on goes round, from call to call."""
    trouble, unheard = [(fault, True) for fault in IN_TROUBLE], [(fault, False) for fault in (*UNHEARD, *DAMAGED)]
    trouble_passes, unheard = [(fault, False) for fault in IN_TROUBLE], [*unheard, ("lost_answer", True)]
    first = {call.action.partition(":")[0]: call for call in reversed(calls)}
    chosen = [Case(call, "hang", lasting=True) for call in first.values()]
    for place, call in enumerate(calls):
        wanted = [(REFUSED[place % len(REFUSED)], False), trouble[place % len(trouble)], unheard[place % len(unheard)]]
        if place % 5 == 0:
            wanted += [trouble_passes[place // 5 % len(trouble)], ("slow", False)]
        chosen += [Case(call, fault, lasting) for fault, lasting in wanted]
    return chosen


def repeats(call: Call, fault: str) -> bool:
    """Whether the SDK tries again. An object's bytes come after its answer: for these it does not. In the first run there
    are no objects yet but the configuration, and that there is none is an answer without bytes."""
    has_bytes = call.action == "s3:GetObject" and (call.on == "config/" or call.run > 0)
    return fault in REPEATED and not (fault == "cut_off" and has_bytes)


@dataclass(frozen=True)
class Exemption:
    """Something that a fault may do although no fault should, and why that is so."""

    action: str
    on: str
    faults: tuple[str, ...]
    allows: str  # repeats: things told again; silence: the run fails, and people hear nothing; ...
    why: str
    passing: bool = False  # also of a fault that passes

    def covers(self, case: Case) -> bool:
        here = (self.action, self.on) == (case.call.action, case.call.on)
        return here and case.fault in self.faults and (self.passing or not case.passes)


_EVERY = (*FAULTS, "hang")
EXEMPTIONS = (
    Exemption(
        "sns:Publish",
        "",
        ("lost_answer", "cut_off", "empty"),
        "repeats",
        "SNS took the message, and nobody knows: it is sent again, for it is better heard twice than not at all",
        passing=True,
    ),
    Exemption(
        "s3:PutObject",
        "notices/",
        tuple(fault for fault in _EVERY if fault != "lost_answer"),
        "repeats",
        "what was told could not be written down, so the next run does not know of it",
    ),
    Exemption(
        "s3:GetObject", "notices/", ("not_found",), "repeats", "an object that is gone was lost: messages are repeated"
    ),
    Exemption(
        "s3:GetObject",
        "notices/",
        tuple(fault for fault in _EVERY if fault != "not_found"),
        "silence",
        "without the memory of its only region a run cannot tell a fault just once a day; it fails, which raises the alarm",
    ),
    Exemption(
        "ec2:DescribeSpotInstanceRequests",
        "",
        _EVERY,
        "Spot told",
        "that a Spot request could not be read, and so nothing is done, is told of each instance besides",
    ),
    Exemption(
        "s3:GetObject",
        "config/",
        ("not_found",),
        "other telling",
        "without a configuration everything is observed by the defaults, and that is what people hear; what these do not"
        " announce is void, and announced once more when the configuration is back",
    ),
)
# Of the instance whose mark could not be removed after its stop. Once it runs again the mark is of an earlier life, and goes.
MARK_STAYS = "ec2:DeleteTags"

# Of what its owner let expire: it is stopped unannounced, and marked just before, as the role stops nothing unmarked.
OWN_WISH = " expired=stop@"

# What a run can do nothing without, in an account with one region: it fails, which raises the alarm.
FAILS = {
    ("s3:GetObject", "config/"): "ConfigFault: ",  # nobody knows what is wanted
    ("s3:GetObject", "notices/"): "NothingSeen: ",  # nobody knows what people were told
    ("ec2:DescribeRegions", ""): "NothingSeen: ",  # nobody knows where to look
    ("ec2:DescribeInstances", ""): "NothingSeen: ",  # nothing is there to judge
    ("ec2:DescribeInstanceTypes", ""): "NothingSeen: ",  # nobody knows what has a GPU
}


def _allowed(case: Case) -> set[str]:
    return {exemption.allows for exemption in EXEMPTIONS if exemption.covers(case)}


# A story, and what is seen of it


def story(aws: LocalAws, one_of_each: OneOfEach, case: Case | None) -> dict[str, Any]:
    """Everything that can be judged of `RUNS` runs, as JSON."""
    account = one_of_each.account
    account.aws = aws
    runs, seeded = [], one_of_each.world()
    world = seeded
    try:
        for number in range(RUNS):
            if number >= STRUCK_RUNS:
                one_of_each.a_window_passes()
            if case is not None and number == case.call.run:
                rule = case.rule(one_of_each)
                aws.fault(rule.pop("action"), rule.pop("fault"), **rule)
            run = account.tick(deadline_s=DEADLINE_SECONDS, patience_s=STRUCK_RUN_SECONDS_MAX)
            aws.clear_faults()
            world = one_of_each.world() if run.ec2_writes else world
            runs.append({**_facts(one_of_each, run), "world": world})
    finally:
        account.stop()
    return {"before": seeded, "runs": runs, "recorded": one_of_each.recorded(), "remembered": one_of_each.remembered()}


def _facts(one_of_each: OneOfEach, run: Run) -> dict[str, Any]:
    failed = run.invocation.error
    return {
        "error": failed and f"{failed['errorType']}: {failed['errorMessage']}",
        "seconds": run.invocation.seconds,
        "failed_steps": [] if failed else _failed_steps(one_of_each, run),
        "gaps": [] if failed else sorted({f"{gap['region']}, {gap['call']}" for gap in run.gaps}),
        "told": one_of_each.told(run.messages),
        "quiet": run.is_quiet,
        "calls": _calls(one_of_each, run),
    }


def _failed_steps(one_of_each: OneOfEach, run: Run) -> list[tuple[str, str]]:
    """What is observed would not have been done: of that nobody hears."""
    failed = [(one_of_each.names[step["resource"]], step["action"]) for step in run.steps if step["outcome"] == "failed"]
    return [(name, f"failed to {action}") for name, action in failed if name != OBSERVED]


def _calls(one_of_each: OneOfEach, run: Run) -> list[dict[str, Any]]:
    """Each call once, however often the SDK repeated it."""
    calls: dict[str, dict[str, Any]] = {}
    of_rule: Counter = Counter()
    for attempt in run.calls:
        if attempt["invocation"] in calls:
            calls[attempt["invocation"]]["attempts"] += 1
            continue
        action, on = attempt["action"], _on(one_of_each, attempt)
        nth = of_rule[action, on]
        for known in {on, ""}:
            of_rule[action, known] += 1
        call = {"action": action, "on": on, "nth": nth, "fault": attempt["fault"], "attempts": 1}
        calls[attempt["invocation"]] = call
    return list(calls.values())


def _on(one_of_each: OneOfEach, attempt: dict[str, Any]) -> str:
    named = attempt["resources"][0] if attempt["resources"] else ""
    if attempt["action"].startswith("s3:"):
        return named.split("/")[1] + "/"
    return one_of_each.names.get(named, "")


def calls_of(faultless: dict[str, Any]) -> list[Call]:
    return [
        Call(number, call["action"], call["on"], call["nth"])
        for number, run in enumerate(faultless["runs"][:STRUCK_RUNS])
        for call in run["calls"]
    ]


# The judgement


def violations(case: Case, seen: dict[str, Any], faultless: dict[str, Any]) -> list[str]:
    """Every way in which a story with a fault is worse than it may be."""
    return [
        *_struck(case, seen),
        *_in_order(case, seen),
        *_nothing_wrong(seen, faultless),
        *_completed(case, seen, faultless),
        *_told_once(case, seen, faultless),
    ]


def _struck(case: Case, seen: dict[str, Any]) -> Iterator[str]:
    struck = [(n, call) for n, run in enumerate(seen["runs"]) for call in run["calls"] if call["fault"]]
    if [(n, call["action"], call["on"]) for n, call in struck] != [(case.call.run, case.call.action, case.call.on)]:
        yield f"another call was struck, or none: {struck}"
        return
    attempts = struck[0][1]["attempts"]
    if case.fault != "hang" and (attempts > 1) != repeats(case.call, case.fault):
        yield f"the SDK made {attempts} attempts: it does not repeat what it did"


def _in_order(case: Case, seen: dict[str, Any]) -> Iterator[str]:
    """A response, or an error where nothing could be achieved; the next run finds the function as it was."""
    for number, run in enumerate(seen["runs"]):
        if number != case.call.run and (run["error"] or run["gaps"] or run["failed_steps"]):
            yield f"run {number + 1} was clean, and has {run['error']}, {run['gaps']}, {run['failed_steps']}"
    run = seen["runs"][case.call.run]
    fails = FAILS.get((case.call.action, case.call.on))
    if run["error"] and (case.passes or fails is None or not run["error"].startswith(fails)):
        yield f"the run did not end in order: {run['error']}"
    if run["seconds"] > STRUCK_RUN_SECONDS_MAX:
        yield f"the run took {run['seconds']:.0f} s"


def _nothing_wrong(seen: dict[str, Any], faultless: dict[str, Any]) -> Iterator[str]:
    """What happened is a part of what would have happened, and no earlier; nothing is marked before its
    announcement was heard, and nothing is ended without a record."""
    may_be = {name: {one["state"]} for name, one in faultless["before"].items()}
    heard = {name for name, one in seen["before"].items() if "curfew:marked" in one["tags"]}
    for number, (run, model) in enumerate(zip(seen["runs"], faultless["runs"])):
        heard |= {name for name, thing in run["told"] if thing == "announced"}
        for name, one in run["world"].items():
            may_be[name].add(model["world"][name]["state"])
            if one["state"] not in may_be[name]:
                yield f"run {number + 1}: {name} is {one['state']}, which it is not in a faultless story"
            ended = one["state"] in ENDED and seen["before"][name]["state"] not in ENDED
            if ended and not {"stop", "terminate"} & set(seen["recorded"][name]):
                yield f"run {number + 1}: {name} is {one['state']}, and no record says so"
            mark = one["tags"].get("curfew:marked")
            if mark is not None and name not in heard and OWN_WISH not in mark:
                yield f"run {number + 1}: {name} is marked, and nobody was told"


def _completed(case: Case, seen: dict[str, Any], faultless: dict[str, Any]) -> Iterator[str]:
    last, model = seen["runs"][-1], faultless["runs"][-1]
    for name, one in last["world"].items():
        tags = dict(one["tags"])
        if (case.call.action, case.call.on, one["state"]) == (MARK_STAYS, name, "stopped"):
            tags.pop("curfew:marked", None)
        if {**one, "tags": tags} != model["world"][name]:
            yield f"{name} ended as {one}, not as {model['world'][name]}"
    if not last["quiet"]:
        yield f"the last run is not quiet: it told {last['told']}"
    if seen["remembered"] != faultless["remembered"] and "other telling" not in _allowed(case):
        yield f"{seen['remembered']} is remembered, not {faultless['remembered']}"


def _told_once(case: Case, seen: dict[str, Any], faultless: dict[str, Any]) -> Iterator[str]:
    """Each thing of the faultless story exactly once, whatever run tells it; and the fault itself once."""
    expected, told = _things(faultless["runs"]), _things(seen["runs"])
    struck = seen["runs"][case.call.run]
    faults = Counter(tuple(step) for step in struck["failed_steps"])
    faults.update(("", gap) for gap in struck["gaps"])
    if struck["error"]:
        faults.update({thing for thing in told if thing[0] == ""} or {("", "why the run failed")})
    allowed = _allowed(case)
    missing, more = expected + faults - told, told - expected - faults
    if "silence" in allowed and struck["error"]:
        missing.pop(("", "why the run failed"), None)
    if "repeats" in allowed:
        more -= _repeated(case, seen, expected)
    if "Spot told" in allowed:
        more -= Counter({(name, "notified"): 1 for name in ON_SPOT})
    if "other telling" in allowed:
        more -= _things([struck])
        again = _repeated(case, seen, expected)
        more -= Counter({thing: 1 for thing in again if thing[1] in ("announced", "would be announced")})
    if missing:
        yield f"not told: {dict(missing)}"
    if more:
        yield f"told more than once, or wrongly: {dict(more)}"


def _repeated(case: Case, seen: dict[str, Any], expected: Counter) -> Counter:
    """What may be told again: each thing once, by the next run; or, as it rests on metrics, by the first that asks for them
    again. SNS takes each attempt at a message of which no answer is heard."""
    struck = next(call for call in seen["runs"][case.call.run]["calls"] if call["fault"])
    times = struck["attempts"] if case.lasting and case.call.action == "sns:Publish" else 1
    last = max(case.call.run + 1, STRUCK_RUNS)
    late = _things(seen["runs"][last + 1 :])
    return Counter({thing: times for thing in expected if thing not in late})


def _things(runs: list[dict[str, Any]]) -> Counter:
    return Counter(tuple(thing) for run in runs for thing in run["told"])
