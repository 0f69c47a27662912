"""Every fault at every call that a run makes, one at a time: the run ends in order, nothing wrong is done, nobody is told
twice or not at all, and clean runs complete the work.

`make every-fault` tries all cases, and `make test` those that `every_fault.some` takes. That the judgement finds what is
wrong is tested in test_fault_oracle.py.
"""

from __future__ import annotations

import time
from collections import Counter

import pytest
import scenario_budgets
import scenario_instances
import scenario_jobs
import scenario_sagemaker
import scenario_volumes
from every_fault import Plot, Story, calls_of, cases, faultless_story, one_of_alike, some, stories
from fault_oracle import violations
from template_actions import OF_BOXES, OF_GANGS, called_actions

_ALL = (scenario_instances.PLOT, scenario_volumes.PLOT, scenario_sagemaker.PLOT, scenario_budgets.PLOT, scenario_jobs.PLOT)
PLOTS = {plot.function: plot for plot in _ALL}


# Each plot is left out by itself where nothing of it has changed (`unchanged.py`).
@pytest.fixture(params=[pytest.param(function, marks=pytest.mark.xdist_group(function)) for function in PLOTS])
def plot(request: pytest.FixtureRequest) -> Plot:
    return PLOTS[request.param]


def _check_story_of_instances(faultless: Story) -> None:
    plot = scenario_instances.PLOT
    assert {call.action for call in calls_of(plot, faultless)} == called_actions(plot.function)
    assert _actions(faultless) == {"mark", "unmark", "notify", "stop", "terminate", "start"}
    assert [run["error"] or run["gaps"] or run["failed_steps"] for run in faultless["runs"]] == [[]] * plot.runs
    assert [bool(run["told"]) for run in faultless["runs"]] == [True, True] + [False] * (plot.runs - 2)
    assert faultless["runs"][-1]["writes"] == [] and not faultless["runs"][-1]["remembers"]


def _check_story_of_volumes(faultless: Story) -> None:
    plot = scenario_volumes.PLOT
    # Types are described of unused capacity reservations, of which this story has none.
    assert {call.action for call in calls_of(plot, faultless)} == called_actions(plot.function) - {"ec2:DescribeInstanceTypes"}
    assert {call.region for call in calls_of(plot, faultless)} == set(plot.regions)
    assert _actions(faultless) == {"mark", "unmark", "snapshot", "delete"}
    assert [run["error"] or run["gaps"] for run in faultless["runs"]] == [[]] * plot.runs
    behind_an_ami = [["snapshot of behind an AMI", "failed to delete"]]
    # Only a person can lift that, so that it is tried once a day.
    assert [run["failed_steps"] for run in faultless["runs"]] == [behind_an_ami] + [[]] * (plot.runs - 1)
    assert [bool(run["told"]) for run in faultless["runs"]] == [True, True, True, False, False, True, False, False]
    assert faultless["runs"][-1]["writes"] == []
    assert list(plot.wrongs(faultless)) == []
    left = set(faultless["runs"][-1]["world"])
    assert left == {"first seen", "attached again", "used", *scenario_volumes.SKIPPED}


def _check_story_of_sagemaker(faultless: Story) -> None:
    plot = scenario_sagemaker.PLOT
    others = {f"sagemaker:{verb}{kind}Job" for verb in ("Describe", "Stop") for kind in ("Processing", "HyperParameterTuning")}
    assert {call.action for call in calls_of(plot, faultless)} == called_actions(plot.function) - others
    assert _actions(faultless) == {"mark", "unmark", "notify", "stop", "delete", "start"}
    assert [run["error"] or run["gaps"] or run["failed_steps"] for run in faultless["runs"]] == [[]] * plot.runs
    assert [bool(run["told"]) for run in faultless["runs"]] == [True, True] + [False] * (plot.runs - 2)
    assert faultless["runs"][-1]["writes"] == [] and not faultless["runs"][-1]["remembers"]
    states = {name: one["state"] for name, one in faultless["runs"][-1]["world"].items()}
    assert states.items() >= {"idle app": "Deleted", "expired": "Stopped", "over": "Stopped", "idle copies": "Stopped", "asleep": "InService"}.items()
    assert "idle" not in states and {states[name] for name in scenario_sagemaker.SKIPPED} == {"InService"}


def _check_story_of_budgets(faultless: Story) -> None:
    plot = scenario_budgets.PLOT
    # Calls have names of their own beside the action that IAM grants for them. Nothing runs under SageMaker, so its lists are all that is asked.
    calls = {one for one in called_actions(plot.function) if not one.startswith(("sagemaker:Describe", "sagemaker:ListTags", "tag:"))}
    assert {call.action for call in calls_of(plot, faultless)} == calls - {"s3:ListBucket"} | {"s3:ListObjectsV2"}
    assert _actions(faultless) == {"notify", "hold"}
    assert [run["error"] or run["gaps"] or run["failed_steps"] for run in faultless["runs"]] == [[]] * plot.runs
    told = [sorted(map(tuple, run["told"])) for run in faultless["runs"]]
    assert told == [[("vision", "80 %")], [], [("account", "50 %"), ("vision", "100 %")], [], []]
    assert list(plot.wrongs(faultless)) == []
    assert [run["kept"]["vision"]["verdict"] for run in faultless["runs"]] == ["ok", "ok", "stop", "stop", "stop"]
    assert _error_usd(faultless["runs"][2]["kept"]) == pytest.approx(0, abs=2e-6)


def _check_story_of_jobs(faultless: Story) -> None:
    plot = scenario_jobs.PLOT
    # Calls have names of their own beside the actions that IAM grants for them; what a launch needs besides are no calls. Quotas are listed only
    # after a launch was refused for one.
    calls = called_actions(plot.function) - {"s3:ListBucket", "ec2:CreateTags", "iam:PassRole", "servicequotas:ListServiceQuotas"} - OF_BOXES - OF_GANGS
    assert {call.action for call in calls_of(plot, faultless)} == calls | {"s3:ListObjectsV2", "s3:HeadObject"}
    assert {"jobs/", "inbox/", "active/"} <= {call.on for call in calls_of(plot, faultless)}
    assert faultless["recorded"] == {
        "ends": ["launch done", "launch done", "notify done", "notify done"],
        "silent": ["launch done", "launch done", "notify done", "terminate done"],
        "cancelled": ["launch done", "notify done", "terminate done"],
    }
    assert [run["error"] or run["gaps"] for run in faultless["runs"]] == [[]] * plot.runs
    assert [run["told"] for run in faultless["runs"]] == [[], [["wrong", "rejected"]], *[[]] * (plot.runs - 2)]
    assert [run["kept"]["heard"] for run in faultless["runs"]] == [
        [["ends", "runs 1"]],
        [["silent", "runs 1"]],
        [["ends", "runs 2"]],
        [["silent", "runs 2"]],
        [["cancelled", "runs 1"]],
        [["ends", "ended: succeeded"]],
        [["cancelled", "ended: was cancelled"]],
        [],
        [],
        [],
    ]
    assert list(plot.wrongs(faultless)) == []
    # Each launch tries the pool without capacity first.
    launches = [call for run in faultless["runs"] for call in run["calls"] if call["action"] == "ec2:RunInstances"]
    assert len(launches) == 2 * len(faultless["runs"][-1]["kept"]["machines"])
    assert {call.run for call in calls_of(plot, faultless) if call.action == "ec2:RunInstances"} == {0, 1, 2, 3, 4}


def _error_usd(kept: Story) -> float:
    """What instances are said to have cost at 13:00, less what they have by their prices, written out."""
    dear, over, again, nobodys = 16.288 * 6, 1.006 * 47 / 60, 1.006 * (24 + 20 / 60), 1.006 * 2
    on_spot = 0.4 * (2 + 17 / 60) + 0.8 * 24 / 60 + 0.5 * 19 / 60
    top = {one["resource"]: one["usd"] for holder in kept.values() for one in holder["top"]}
    said = sum(top[name] for name in ("dear", "over", "again", "nobody's", "on Spot"))
    return said - (dear + over + again + nobodys + on_spot)


def _actions(faultless: Story) -> set[str]:
    return {action for actions in faultless["recorded"].values() for action in actions}


# Each faultless story makes every call and every step: a call that it does not make meets no fault.
STORY_CHECKS = {
    "reap-instances": _check_story_of_instances,
    "reap-volumes": _check_story_of_volumes,
    "reap-sagemaker": _check_story_of_sagemaker,
    "enforce-budgets": _check_story_of_budgets,
    "run-jobs": _check_story_of_jobs,
}


def test_every_fault_at_every_call(plot: Plot, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    faultless = faultless_story(plot)
    STORY_CHECKS[plot.function](faultless)
    began = time.monotonic()
    calls = calls_of(plot, faultless)
    is_all = request.config.getoption("--every-fault") == "all"
    calls = calls if is_all else one_of_alike(plot, calls)
    wanted = cases(calls) if is_all else some(calls, plot.of_a_look, plot.hangs)
    seen = stories(plot, list(wanted))
    assert {case.call for case in seen} == set(calls) and len(seen) == len(wanted) == len(set(wanted))
    found = {str(case): violations(plot, case, seen[case], faultless) for case in wanted}
    with capsys.disabled():
        kinds = Counter(f"{case.fault}{', lasting' if case.lasting else ''}" for case in wanted)
        print(f"\n{plot.function}: {len(calls)} calls, {len(kinds)} faults, {len(seen)} cases: ", end="")
        print(f"{time.monotonic() - began:.0f} s")
        print(", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items())))
    wrong = [f"{case}: {one}" for case, violated in found.items() for one in violated]
    assert not wrong, "\n".join([f"{len(wrong)} violations", *wrong])
