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

from every_fault import RUNS, STRUCK_RUNS, Call, Case, calls_of, cases, repeats, some, story, violations
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
}


@pytest.mark.parametrize("doctor", DOCTORED)
def test_the_judgement_finds(faultless: Story, doctor: Callable[[Story], None]) -> None:
    look = Call(0, "ec2:DescribeInstances", "", 0)
    case = Case(look, "throttle", lasting=False)
    assert repeats(look, "throttle") and look.run < STRUCK_RUNS
    doctored = deepcopy(faultless)
    _strike(doctored, look.action, fault="throttle", attempts=2)
    assert violations(case, doctored, faultless) == []
    doctor(doctored)
    assert any(DOCTORED[doctor] in one for one in violations(case, doctored, faultless))


def _strike(told: Story, action: str, **what: Any) -> None:
    next(call for call in told["runs"][0]["calls"] if call["action"] == action).update(what)
