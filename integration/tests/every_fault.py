"""Every fault at every call: which there are, how one is tried, and what is seen of it. What it must be judged by is in
fault_oracle.py.

The calls are those that a faultless story makes, so that a new call is met by all faults by itself. A story is some runs
of one function over an account with one of each; in one of the first, one call meets one fault, and all others are
clean. What differs from function to function is its plot: scenario_instances.py, scenario_volumes.py.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from forked_trials import trials
from local_aws import LocalAws, faults
from reaping import EC2_LOOKS, Run
from reaping_sagemaker import WRITES as SAGEMAKER_WRITES
from scenario_account import NOTICES, OneOfEach

# The SDK gives up an attempt after 30 s and a call after 100 s (shared/cloud/src/aws.rs); two such calls one after the other would take longer.
STRUCK_RUN_SECONDS_MAX = 180
_SLOW_SECONDS = 2.0
_HANG_SECONDS = 600.0

# More than cores: most of the time the SDK waits before it tries again. Beside each other functions have fewer each.
_AT_ONCE = 24 // max(2, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
_OF_ONE_SEED = 50  # what instances report grows old within ten minutes
_TRIAL_SECONDS_MAX = 600

Story = dict[str, Any]  # everything that can be judged of its runs, as JSON

# What the SDK repeats: "lasting" is each attempt of the call. All else is final at once, and lasts as it is.
IN_TROUBLE = ("throttle", "error500", "insufficient_capacity", "reset")
CARRIED_OUT = ("lost_answer", "cut_off")
REPEATED = (*IN_TROUBLE, *CARRIED_OUT)
# CreateSnapshot has no token by which a repeat is known (EC2 API reference, "Ensuring idempotency").
NOT_REPEATED = ("ec2:CreateSnapshot",)
ANSWERS = (("ec2:RunInstances", "insufficient_capacity"),)  # where a pool has nothing, the next one is asked
REFUSED = ("access_denied", "scp_denied", "not_found", "unknown")
DAMAGED = ("garbled", "empty")
FAULTS = (*REPEATED, *REFUSED, *DAMAGED, "slow")
assert {*FAULTS, "custom"} == {*faults.FAULTS, "unknown"}, "the local AWS has faults that no case tries"


@dataclass(frozen=True)
class Call:
    """One call of the faultless story."""

    run: int
    region: str
    action: str
    on: str  # the name of a resource, an object or a folder of the bucket, or nothing
    nth: int  # of those that a rule with this action, region and match would mean
    has_bytes: bool = field(default=False, compare=False)  # whether it is an object's, and the object is there
    in_trouble: bool = field(default=False, compare=False)  # whether EC2 answers as if it were, which is repeated if it says no more

    def __str__(self) -> str:
        return f"run {self.run + 1}, {self.region}, {self.action} {self.on or '-'} #{self.nth + 1}"

    @property
    def is_look(self) -> bool:
        """Whether it is known to change no resource."""
        return self.action in EC2_LOOKS or not self.action.startswith("ec2:") and self.action not in SAGEMAKER_WRITES


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
        # A folder is a part of an object's path, and of a list the prefix.
        is_of_objects = self.call.on.endswith("/") and self.call.action != "s3:ListObjectsV2"
        on = f"/{self.call.on}" if is_of_objects else self.call.on
        match = one_of_each.ids.get(self.call.on, on) or None
        rule = {"action": self.call.action, "region": self.call.region, "match": match, "skip": self.call.nth}
        rule["every_attempt"] = self.lasting
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


def some(calls: list[Call], of_a_look: int | None, hangs: bool = True) -> list[Case]:
    """Of each call two cases: its error is final, by turns because it is refused or because its trouble lasts; and its answer is
    lost or damaged. Of every fifth call two more, of those that pass; and one that hangs of each service. The kinds of refusal, trouble
    and so on take turns from call to call. `of_a_look`: of a call that changes nothing only so many of these cases, by
    turns. Without `hangs` none hangs."""
    trouble, unread = [(fault, True) for fault in IN_TROUBLE], [(fault, False) for fault in (*CARRIED_OUT, *DAMAGED)]
    final = [case for pair in zip([(fault, False) for fault in REFUSED], trouble, strict=True) for case in pair]
    trouble_passes, unread = [(fault, False) for fault in IN_TROUBLE], [*unread, ("lost_answer", True)]
    first = {call.action.partition(":")[0]: call for call in reversed(calls)}
    chosen = [Case(call, "hang", lasting=True) for call in first.values() if hangs]
    for place, call in enumerate(calls):
        wanted = [final[place % len(final)], unread[place % len(unread)]]
        if place % 5 == 0:
            wanted += [trouble_passes[place // 5 % len(trouble)], ("slow", False)]
        if call.is_look:
            turn = (place + place // 5) % len(wanted)
            wanted = [*wanted[turn:], *wanted[:turn]][:of_a_look]
        chosen += [Case(call, fault, lasting) for fault, lasting in wanted]
    return chosen


def one_of_alike(plot: Plot, calls: list[Call]) -> list[Call]:
    """One of those that are alike: by turns the first, the second and so on."""
    alike: dict[Any, list[Call]] = {}
    for call in calls:
        alike.setdefault(plot.alike(call), []).append(call)
    return [group[place % len(group)] for place, group in enumerate(alike.values())]


def repeats(call: Call, fault: str) -> bool:
    """Whether the SDK tries again. An object's bytes come after its answer: for these it does not. That there is no such
    object is an answer without bytes."""
    is_final = call.action in NOT_REPEATED or (call.action, fault) in ANSWERS or (fault == "cut_off" and call.has_bytes)
    return fault in REPEATED and not is_final


@dataclass(frozen=True)
class Exemption:
    """Something that a fault may do although no fault should, and why that is so."""

    action: str
    on: str
    faults: tuple[str, ...]
    allows: str  # repeats: things told again; silence: the run fails, and people hear nothing; ...
    why: str
    passing: bool = False  # also of a fault that passes
    besides: tuple[tuple[str, str], ...] = ()  # what may be told besides
    untold: tuple[tuple[str, str], ...] = ()  # what may stay untold
    more: tuple[str, ...] = ()  # what may be there besides

    def covers(self, case: Case) -> bool:
        in_folder = self.on.endswith("/") and case.call.on.startswith(self.on)
        here = self.action == case.call.action and (self.on == case.call.on or in_folder)
        return here and case.fault in self.faults and (self.passing or not case.passes)


EVERY = (*FAULTS, "hang")
ONLY_LOG_UNREAD = Exemption(
    "s3:GetObject",
    NOTICES,
    tuple(fault for fault in EVERY if fault != "not_found"),
    "silence",
    "without the memory of its only region a run cannot tell a fault just once a day; it fails, which raises the alarm",
)
# Of every function.
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
        NOTICES,
        tuple(fault for fault in EVERY if fault != "lost_answer"),
        "repeats",
        "what was told could not be written down, so the next run does not know of it",
    ),
    Exemption(
        "s3:GetObject", NOTICES, ("not_found",), "repeats", "an object that is gone was lost: messages are repeated"
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
# What a run can do nothing without: it fails, which raises the alarm.
FAILS = {
    ("s3:GetObject", "config/"): "ConfigLoadError: ",  # nobody knows what is wanted
    ("ec2:DescribeRegions", ""): "NothingSeen: ",  # nobody knows where to look
}


def same_object_or_run(call: Call) -> tuple[object, ...]:
    """S3 answers alike for one object in each run, and a list of another service in each run; what changes a resource is alike for each
    resource of a run. Named, for plots go from process to process."""
    if call.action.startswith("s3:"):
        return call.action, call.on
    return call.action, None if call.is_look and call.action != "sns:Publish" else call.run


@dataclass(frozen=True, eq=False)
class Plot:
    """What differs from function to function: the account, how many runs, and what they must be judged by."""

    function: str
    seed: Callable[[LocalAws], OneOfEach]
    regions: tuple[str, ...]
    deadline_seconds: float  # the function's timeout in template.yaml
    struck_runs: int  # in which calls meet faults
    runs: int  # enough to make up for what a fault cost, and in the last there is nothing left to do
    asked_again: int  # the run up to which what was told is told once more where it was forgotten
    ended: tuple[str, ...]  # the states of what is ended
    ends: tuple[str, ...]  # the actions that lead there
    exemptions: tuple[Exemption, ...]
    fails: dict[tuple[str, str], str]
    wrongs: Callable[[Story], Iterator[str]]  # what must never be, of this function
    of_a_look: int | None = None  # how many cases of a call that changes nothing are tried if not all; none: as of others
    hangs: bool = True  # whether calls that hang are tried where not all is
    alike: Callable[[Call], Any] = same_object_or_run  # of calls for which it answers the same, the first is tried where not all are
    stays: tuple[str, str, str] | None = None  # a call, the state of its resource, and the tag that may stay on it then
    unannounced: str | None = None  # a mark with these words is written before anybody was told


@cache
def faultless_story(plot: Plot) -> Story:
    return stories(plot, [None])[None]


def stories(plot: Plot, subjects: list[Case | None]) -> dict[Case | None, Story]:
    """What is seen of a story for each case, and of the faultless one for none."""
    told: dict[Case | None, Story] = {}
    for start in range(0, len(subjects), _OF_ONE_SEED):
        some_of_them = subjects[start : start + _OF_ONE_SEED]
        seen = trials(plot.seed, partial(story, plot), some_of_them, _AT_ONCE, _TRIAL_SECONDS_MAX, plot.regions)
        told.update(seen)
    return told


# A story, and what is seen of it


def story(plot: Plot, aws: LocalAws, one_of_each: OneOfEach, case: Case | None) -> Story:
    account = one_of_each.account
    account.aws = aws
    runs, seeded = [], one_of_each.world()
    world = seeded
    try:
        for number in range(plot.runs):
            one_of_each.before(number)
            if case is not None and number == case.call.run:
                rule = case.rule(one_of_each)
                aws.fault(rule.pop("action"), rule.pop("fault"), **rule)
            run = one_of_each.run(number, deadline_s=plot.deadline_seconds, timeout_s=STRUCK_RUN_SECONDS_MAX)
            aws.clear_faults()
            if case is not None and case.fault == "scp_denied" and number == case.call.run:
                one_of_each.let_refusals_lapse()
            world = one_of_each.world() if one_of_each.writes(run) else world
            runs.append({**_facts(one_of_each, run), "world": world})
    finally:
        account.stop()
    return {"before": seeded, "runs": runs, "recorded": one_of_each.recorded(), "remembered": one_of_each.remembered()}


def _facts(one_of_each: OneOfEach, run: Run) -> dict[str, Any]:
    failed = run.invocation.error
    return {
        "error": failed and f"{failed['errorType']}: {failed['errorMessage']}",
        "seconds": run.invocation.seconds,
        "failed_steps": [] if failed else one_of_each.failed_steps(run),
        "gaps": [] if failed else sorted({f"{gap['region']}, {gap['call']}" for gap in run.gaps}),
        "told": one_of_each.told(run.messages),
        "writes": sorted([write[0], one_of_each.names.get(write[1], "")] for write in one_of_each.writes(run)),
        "remembers": any("/notices/" in call["resources"][0] for call in run.calls if call["action"] == "s3:PutObject"),
        "calls": _calls(one_of_each, run),
        "kept": one_of_each.kept(),
    }


def _calls(one_of_each: OneOfEach, run: Run) -> list[dict[str, Any]]:
    """Each call once, however often the SDK repeated it."""
    calls: dict[str, dict[str, Any]] = {}
    of_rule: Counter = Counter()
    for attempt in run.calls:
        if attempt["invocation"] in calls:
            calls[attempt["invocation"]]["attempts"] += 1
            continue
        region, action, on = attempt["region"], attempt["action"], _on(one_of_each, attempt)
        nth = of_rule[region, action, on]
        for known in {on, ""}:
            of_rule[region, action, known] += 1
        call = {"region": region, "action": action, "on": on, "nth": nth, "fault": attempt["fault"], "attempts": 1}
        call["has_bytes"] = action == "s3:GetObject" and attempt["status"] == 200
        call["in_trouble"] = (attempt["status"] or 0) >= 500
        calls[attempt["invocation"]] = call
    return list(calls.values())


def _on(one_of_each: OneOfEach, attempt: dict[str, Any]) -> str:
    named = attempt["resources"][0] if attempt["resources"] else ""
    if not attempt["action"].startswith("s3:"):
        return one_of_each.names.get(named, "")
    return one_of_each.named_object(named.partition("/")[2])


def calls_of(plot: Plot, faultless: Story) -> list[Call]:
    return [
        Call(number, call["region"], call["action"], call["on"], call["nth"], call["has_bytes"], call["in_trouble"])
        for number, run in enumerate(faultless["runs"][: plot.struck_runs])
        for call in run["calls"]
    ]
