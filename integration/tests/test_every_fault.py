"""Every fault at every call that a run makes, one at a time: the run ends in order, nothing wrong is done, nobody is told
twice or not at all, and clean runs complete the work.

`make every-fault` tries all cases, and `make test` those that `every_fault.some` takes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from every_fault import RUNS, Call, Case, calls_of, cases, repeats, some, story, violations
from forks import trials
from one_of_each import one_of_each
from reaping import EC2_WRITES, READS

AT_ONCE = 12  # more than cores: most of the time the SDK waits before it tries again
OF_ONE_SEED = 100  # what instances report grows old within ten minutes
TRIAL_SECONDS_MAX = 300

Story = dict[str, Any]


def stories(subjects: list[Case | None]) -> dict[Case | None, Story]:
    told: dict[Case | None, Story] = {}
    for start in range(0, len(subjects), OF_ONE_SEED):
        told.update(trials(one_of_each, story, subjects[start : start + OF_ONE_SEED], AT_ONCE, TRIAL_SECONDS_MAX))
    return told


@pytest.fixture(scope="module")
def faultless() -> Story:
    return stories([None])[None]


def test_the_faultless_story_makes_every_call_and_every_step(faultless: Story) -> None:
    """What the cases are made of: a call that is not made here meets no fault."""
    assert {call.action for call in calls_of(faultless)} == READS | EC2_WRITES | {"sns:Publish", "s3:PutObject"}
    assert {action for actions in faultless["recorded"].values() for action in actions} == {
        *("mark", "unmark", "notify", "stop", "terminate", "start")
    }
    assert [run["error"] or run["gaps"] or run["failed_steps"] for run in faultless["runs"]] == [[]] * RUNS
    assert [bool(run["told"]) for run in faultless["runs"]] == [True, True] + [False] * (RUNS - 2)
    assert faultless["runs"][-1]["quiet"]


def test_every_fault_at_every_call(
    faultless: Story, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    calls = calls_of(faultless)
    wanted = cases(calls) if request.config.getoption("--every-fault") == "all" else some(calls)
    seen = stories(list(wanted))
    assert {case.call for case in seen} == set(calls) and len(seen) == len(wanted) == len(set(wanted))
    found = {str(case): violations(case, seen[case], faultless) for case in wanted}
    with capsys.disabled():
        kinds = Counter(f"{case.fault}{', lasting' if case.lasting else ''}" for case in wanted)
        print(f"\n{len(calls)} calls, {len(kinds)} faults, {len(seen)} cases: {time.monotonic() - began:.0f} s")
        print(", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items())))
    wrong = [f"{case}: {one}" for case, violated in found.items() for one in violated]
    assert not wrong, "\n".join([f"{len(wrong)} violations", *wrong])


# The judgement itself: what it must find in a story that was doctored


def _unheard(told: Story) -> None:
    told["runs"][0]["told"].remove(["idle", "announced"])


def _heard_twice(told: Story) -> None:
    told["runs"][4]["told"].append(["idle", "stopped"])


def _heard_wrongly(told: Story) -> None:
    told["runs"][1]["told"].append(["busy", "announced"])


def _ended_wrongly(told: Story) -> None:
    told["runs"][1]["world"]["busy"]["state"] = "stopped"


def _ended_early(told: Story) -> None:
    told["runs"][0]["world"]["idle"]["state"] = "stopped"


def _not_ended(told: Story) -> None:
    for run in told["runs"]:
        run["world"]["old"]["state"] = "running"


def _ended_without_a_record(told: Story) -> None:
    told["recorded"]["idle to terminate"] = ["mark"]


def _marked_in_silence(told: Story) -> None:
    told["runs"][0]["world"]["busy"]["tags"]["curfew:marked"] = "idle=stop"


def _never_quiet(told: Story) -> None:
    told["runs"][-1]["quiet"] = False


def _forgotten(told: Story) -> None:
    told["remembered"]["told"].pop("mistyped")


def _died(told: Story) -> None:
    told["runs"][0]["error"] = "Sandbox.Timedout: Task timed out after 270.00 seconds"


def _late_gap(told: Story) -> None:
    told["runs"][2]["gaps"] = ["us-east-1, ec2:DescribeInstances"]


def _another_call(told: Story) -> None:
    _strike(told, "ec2:DescribeInstances", fault=None, attempts=1)
    _strike(told, "ec2:DescribeRegions", fault="throttle", attempts=2)


def _marked_after_a_failure_was_heard(told: Story) -> None:
    told["runs"][0]["told"].remove(["idle", "announced"])
    told["runs"][0]["told"].append(["idle", "failed to mark"])


def _mark_stays_on_another(told: Story) -> None:
    told["runs"][-1]["world"]["idle"]["tags"]["curfew:marked"] = "idle=stop"


def _heard_in_the_struck_run_and_later(told: Story) -> None:
    told["runs"][0]["told"].append(["idle", "would be announced"])
    told["runs"][1]["told"].append(["busy", "would be announced"])


def _heard_thrice(told: Story) -> None:
    told["runs"][1]["told"] += [["idle", "announced"]] * 2


def _told_of_spot(told: Story) -> None:
    told["runs"][0]["told"].append(["idle to terminate", "notified"])


def _failed_for_nothing(told: Story) -> None:
    told["runs"][0]["error"] = "NothingSeen: no region could be read"


DOCTORED: dict[Callable[[Story], None], str] = {
    _unheard: "not told",
    _heard_twice: "told more than once",
    _heard_wrongly: "told more than once",
    _ended_wrongly: "busy is stopped, which it is not in a faultless story",
    _ended_early: "idle is stopped, which it is not in a faultless story",
    _not_ended: "old ended as",
    _ended_without_a_record: "no record says so",
    _marked_in_silence: "busy is marked, and nobody was told",
    _never_quiet: "the last run is not quiet",
    _forgotten: "is remembered, not",
    _died: "did not end in order",
    _late_gap: "run 3 was clean",
    _another_call: "another call was struck",
    _marked_after_a_failure_was_heard: "idle is marked, and nobody was told",
    _failed_for_nothing: "did not end in order",
}
LOOK = Case(Call(0, "ec2:DescribeInstances", "", 0), "throttle", lasting=False)

# What must be found although an exemption covers the case.
CONFIG_LOST = Case(Call(0, "s3:GetObject", "config/", 0), "not_found", lasting=False)
MESSAGE_UNHEARD = Case(Call(0, "sns:Publish", "", 0), "empty", lasting=False)
MARK_NOT_REMOVED = Case(Call(0, "ec2:DeleteTags", "after its hours", 0), "access_denied", lasting=False)
MEMORY_LOST = Case(Call(0, "s3:GetObject", "notices/", 0), "not_found", lasting=False)
PLAN_LOST = Case(Call(0, "s3:PutObject", "plans/", 0), "access_denied", lasting=False)
SPOT_LATE = Case(Call(0, "ec2:DescribeSpotInstanceRequests", "", 0), "slow", lasting=False)
DOCTORED_OF_EXEMPT: list[tuple[Case, Callable[[Story], None], str]] = [
    (CONFIG_LOST, _unheard, "not told: {('idle', 'announced'): 1}"),
    (CONFIG_LOST, _heard_in_the_struck_run_and_later, "or wrongly: {('busy', 'would be announced'): 1}"),
    (MESSAGE_UNHEARD, _heard_thrice, "or wrongly: {('idle', 'announced'): 1}"),
    (MESSAGE_UNHEARD, _heard_twice, "told more than once"),  # four runs later
    (MEMORY_LOST, _heard_thrice, "or wrongly: {('idle', 'announced'): 1}"),
    (MARK_NOT_REMOVED, _mark_stays_on_another, "idle ended as"),
    (PLAN_LOST, _failed_for_nothing, "did not end in order"),
    (SPOT_LATE, _told_of_spot, "told more than once"),
]


@pytest.mark.parametrize("doctor", DOCTORED)
def test_the_judgement_finds(faultless: Story, doctor: Callable[[Story], None]) -> None:
    _check_that_it_finds(faultless, LOOK, doctor, DOCTORED[doctor])


@pytest.mark.parametrize("case, doctor, finding", DOCTORED_OF_EXEMPT)
def test_the_judgement_finds_in_spite_of_an_exemption(
    faultless: Story, case: Case, doctor: Callable[[Story], None], finding: str
) -> None:
    _check_that_it_finds(faultless, case, doctor, finding)


def _check_that_it_finds(faultless: Story, case: Case, doctor: Callable[[Story], None], finding: str) -> None:
    assert case.call in calls_of(faultless)
    doctored = deepcopy(faultless)
    _strike(doctored, case.call.action, case.call.on, fault=case.fault, attempts=1 + repeats(case.call, case.fault))
    assert violations(case, doctored, faultless) == []
    doctor(doctored)
    assert any(finding in one for one in violations(case, doctored, faultless))


def _strike(told: Story, action: str, on: str = "", **what: Any) -> None:
    calls = told["runs"][0]["calls"]
    next(call for call in calls if (call["action"], call["on"]) == (action, on)).update(what)
