"""The judgement of every fault itself: what it must find in a story that was doctored. Without this, test_every_fault.py could pass
because its judge sees nothing."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import scenario_budgets
import scenario_instances
import scenario_jobs
import scenario_volumes
from every_fault import Call, Case, Plot, Story, calls_of, faultless_story, repeats
from fault_oracle import violations
from local_aws.client import REGION
from reaping import EUROPE
from scenario_account import NOTICES

Edit = Callable[[Story], Any]
INSTANCES, VOLUMES = scenario_instances.PLOT, scenario_volumes.PLOT
BUDGETS, JOBS = scenario_budgets.PLOT, scenario_jobs.PLOT
NOTICES_HERE = f"{NOTICES}reap-instances/{REGION}.json"
LAST = -1


def _case(action: str, on: str = "", fault: str = "throttle", region: str = REGION) -> Case:
    return Case(Call(0, region, action, on, 0), fault, lasting=False)


def _resolve(story: Story, path: tuple) -> Any:
    for key in path:
        story = story[key]
    return story


# Edits of a story. `told(0, …)` is about what run 1 told, `world(0, …)` about what existed after it, `kept(0, …)` about documents.


def put(value: Any, *path: Any) -> Edit:
    return lambda story: _resolve(story, path[:-1]).__setitem__(path[-1], value)


def drop(*path: Any) -> Edit:
    return lambda story: _resolve(story, path[:-1]).pop(path[-1])


def add(value: Any, *path: Any) -> Edit:
    return lambda story: _resolve(story, path).append(value)


def take(value: Any, *path: Any) -> Edit:
    return lambda story: _resolve(story, path).remove(value)


def each(edit: Callable[..., Edit], runs: range) -> Edit:
    return lambda story: [edit(run)(story) for run in runs if run < len(story["runs"])]


def told(run: int) -> tuple:
    return ("runs", run, "told")


def world(run: int, *path: str) -> tuple:
    return ("runs", run, "world", *path)


def kept(run: int, *path: Any) -> tuple:
    return ("runs", run, "kept", *path)


def strike(story: Story, struck: Call, **what: Any) -> None:
    about = (struck.region, struck.action, struck.on)
    calls = story["runs"][struck.run]["calls"]
    next(call for call in calls if (call["region"], call["action"], call["on"]) == about).update(what)


def _strike_another(story: Story) -> None:
    strike(story, LOOK.call, fault=None, attempts=1)
    strike(story, Call(0, REGION, "ec2:DescribeRegions", "", 0), fault="throttle", attempts=2)


def _job(run: int, name: str, **facts: Any) -> Edit:
    """What a job's state says, from that run on."""
    return lambda story: [one["kept"]["jobs"][name].update(facts) for one in story["runs"][run:]]


def _machine(run: int, name: str, number: int, **facts: Any) -> Edit:
    return lambda story: [one for one in story["runs"][run]["kept"]["machines"] if one["job"] == name][number].update(facts)


def _stray_machine(story: Story) -> None:
    machines = story["runs"][8]["kept"]["machines"]
    machines.append({**next(one for one in machines if one["job"] == "ends"), "id": "i-stray", "state": "running"})


EVERY = range(100)
MARKED = {"curfew:marked": "idle=stop"}
ANNOUNCED = ["idle", "announced"]
LOOK = _case("ec2:DescribeInstances")
OF_INSTANCES: list[tuple[Case, str, list[Edit]]] = [
    (LOOK, "not told", [take(ANNOUNCED, *told(0))]),
    (LOOK, "told more than once", [add(["idle", "stopped"], *told(4))]),
    (LOOK, "told more than once", [add(["busy", "announced"], *told(1))]),
    (LOOK, "busy is stopped, which it is not in a faultless story", [put("stopped", *world(1, "busy", "state"))]),
    (LOOK, "idle is stopped, which it is not in a faultless story", [put("stopped", *world(0, "idle", "state"))]),
    (LOOK, "old ended as", [each(lambda run: put("running", *world(run, "old", "state")), EVERY)]),
    (LOOK, "no record says so", [put(["mark"], "recorded", "idle to terminate")]),
    (LOOK, "busy is marked, and was not notified", [put(MARKED, *world(0, "busy", "tags"))]),
    (LOOK, "the last run is not quiet", [put(True, "runs", LAST, "remembers")]),
    (LOOK, "is remembered, not", [drop("remembered", NOTICES_HERE.removeprefix(NOTICES), "told", "mistyped")]),
    (LOOK, "did not end in order", [put("Sandbox.Timedout: Task timed out after 270.00 seconds", "runs", 0, "error")]),
    (LOOK, "did not end in order", [put("NothingSeen: no region could be read", "runs", 0, "error")]),
    (LOOK, "run 3 was clean", [put(["us-east-1, ec2:DescribeInstances"], "runs", 2, "gaps")]),
    (LOOK, "another call was struck", [_strike_another]),
    (LOOK, "idle is marked, and was not notified", [take(ANNOUNCED, *told(0)), add(["idle", "failed to mark"], *told(0))]),
    # What must be found although an exemption covers the case.
    (_case("s3:GetObject", "config/", "not_found"), "not told: {('idle', 'announced'): 1}", [take(ANNOUNCED, *told(0))]),
    (_case("s3:GetObject", "config/", "not_found"), "or wrongly: {('busy', 'would be announced'): 1}", [
        add(["idle", "would be announced"], *told(0)), add(["busy", "would be announced"], *told(1))]),
    (_case("sns:Publish", fault="empty"), "or wrongly: {('idle', 'announced'): 1}", [add(ANNOUNCED, *told(1))] * 2),
    (_case("sns:Publish", fault="empty"), "told more than once", [add(["idle", "stopped"], *told(4))]),
    (_case("s3:GetObject", NOTICES_HERE, "not_found"), "or wrongly: {('idle', 'announced'): 1}", [add(ANNOUNCED, *told(1))] * 2),
    (_case("ec2:DeleteTags", "after its hours", "access_denied"), "idle ended as", [put("idle=stop", *world(LAST, "idle", "tags", "curfew:marked"))]),
    (_case("s3:PutObject", "plans/", "access_denied"), "did not end in order", [put("NothingSeen: none", "runs", 0, "error")]),
    (_case("ec2:DescribeSpotInstanceRequests", fault="slow"), "told more than once", [add(["idle to terminate", "notified"], *told(0))]),
]  # fmt: skip

LOOK_IN_EUROPE = _case("ec2:DescribeVolumes", region=EUROPE)
DELETED = "deleted, kept as snapshot of safe"
OF_VOLUMES: list[tuple[Case, str, list[Edit]]] = [
    (LOOK_IN_EUROPE, finding, edits)
    for finding, edits in (
        ("due is deleted, and there is no whole snapshot of it", [drop(*world(1, "snapshot of due"))]),
        ("due is deleted, and there is no whole snapshot of it", [put("pending", *world(1, "snapshot of due", "state"))]),
        ("due is absent, which it is not in a faultless story", [drop(*world(0, "due"))]),
        ("protected is None, and was", [each(lambda run: drop(*world(run, "protected")), EVERY)]),
        ("kept is", [each(lambda run: drop(*world(run, "kept", "tags", "curfew:marked")), EVERY)]),
        ("snapshot of protected is deleted, and its volume was there", [each(lambda run: drop(*world(run, "snapshot of protected")), EVERY)]),
        ("snapshot of safe is deleted before its time", [lambda story: [run["world"].pop("snapshot of safe", None) for run in story["runs"][2:]]]),
        ("another snapshot of due ended as", [
            lambda story: [run["world"].update({"another snapshot of due": story["runs"][0]["world"]["snapshot of due"]}) for run in story["runs"]]]),
        ("snapshot of behind an AMI is", [drop(*world(LAST, "snapshot of behind an AMI", "tags", "curfew:deleted-at"))]),
        ("attached again ended as", [put("orphaned=delete", *world(LAST, "attached again", "tags", "curfew:marked"))]),
        ("not told: {('safe', 'deleted, kept as snapshot of safe'): 1}", [take(["safe", DELETED], *told(0))]),
        ("told more than once, or wrongly", [take(["safe", DELETED], *told(0)), add(["safe", "deleted, kept as snapshot of due"], *told(0))]),
        ("safe is absent, and no record says so", [put([], "recorded", "safe")]),
    )
]  # fmt: skip

OF_BUDGETS: list[tuple[Case, str, list[Edit]]] = [
    (LOOK, finding, edits)
    for finding, edits in (
        ("run 2: vision is not what it should be: {'spent_usd'",
         [lambda story: story["runs"][1]["kept"]["vision"].update(spent_usd=story["runs"][0]["kept"]["vision"]["spent_usd"])]),
        ("run 1: vision has spent", [lambda story: story["runs"][0]["kept"]["vision"].update(spent_usd=2 * story["runs"][0]["kept"]["vision"]["spent_usd"])]),
        ("run 1: nlp has reserved {}", [put({}, *kept(0, "nlp", "reservations"))]),
        ("run 1: nlp is judged stop, and not ok", [put("stop", *kept(0, "nlp", "verdict"))]),
        ("run 2: nlp is not what it should be: {'verdict'", [put("stop", *kept(1, "nlp", "verdict"))]),
        ("run 3: [['StopInstances', 'dear']] was written", [put([["StopInstances", "dear"]], "runs", 2, "writes")]),
        ("not told: {('vision', '80 %'): 1}", [take(["vision", "80 %"], *told(0))]),
        ("told more than once, or wrongly: {('vision', '100 %'): 1}", [add(["vision", "100 %"], *told(3))]),
    )
]  # fmt: skip

LOOK_FOR_SUBNETS = _case("ec2:DescribeSubnets")
DENIED = _case("ec2:RunInstances", fault="access_denied")
FAILED_FOR_NO_REASON = [_job(5, "ends", result="failed"), add(["ends", "ended: failed"], *kept(5, "heard"))]
OF_JOBS: list[tuple[Case, str, list[Edit]]] = [
    (LOOK_FOR_SUBNETS, "run 4: silent has 2 machines", [_machine(3, "silent", number, state="running") for number in (0, 1)]),
    (LOOK_FOR_SUBNETS, "run 4: ends has 2 machines", [_machine(3, "ends", 0, state="running")]),
    (LOOK_FOR_SUBNETS, "run 6: silent is running on", [each(lambda run: _machine(run, "silent", 1, state="terminated"), range(4, 9))]),
    (LOOK_FOR_SUBNETS, "run 9: ends is ended on None, and there are", [_stray_machine]),
    (LOOK_FOR_SUBNETS, "run 4: silent has a machine that expires at 2031-01-01T00:00:00Z, and not at",
     [_machine(3, "silent", 1, expires_at="2031-01-01T00:00:00Z")]),
    (LOOK_FOR_SUBNETS, "ends, attempt 1: its tags are not what they must be",
     [_machine(LAST, "ends", 0, wrong=["its tags are not what they must be: {'Team': None}"])]),
    (LOOK_FOR_SUBNETS, "run 2: silent is forgotten", [lambda story: [run["kept"]["jobs"].update(silent=None) for run in story["runs"][1:]]]),
    (LOOK_FOR_SUBNETS, "run 4: silent is not on the index", [take("silent", *kept(3, "active"))]),
    (LOOK_FOR_SUBNETS, "run 9: ends is still on the index", [add("ends", *kept(8, "active"))]),
    (LOOK_FOR_SUBNETS, "run 2: the document wrong is answered by nothing", [put("nothing", *kept(1, "answers", "wrong"))]),
    (LOOK_FOR_SUBNETS, "run 4: the document wrong is answered by accepted and rejected", [put("accepted and rejected", *kept(3, "answers", "wrong"))]),
    (LOOK_FOR_SUBNETS, "run 6: ends is closed, and still has", [drop(*kept(5, "reserved", "team", "ends", "ended"))]),
    (LOOK_FOR_SUBNETS, "run 4: silent runs on no money of the account", [drop(*kept(3, "reserved", "account", "silent"))]),
    (LOOK_FOR_SUBNETS, "run 2: silent has reserved", [put(0.5, *kept(1, "reserved", "team", "silent", "usd"))]),
    (LOOK_FOR_SUBNETS, "run 4: silent is runs 2, and was not notified", [take(["silent", "runs 2"], *kept(3, "heard"))]),
    (LOOK_FOR_SUBNETS, "ends: ended: succeeded was told 2 times", [add(["ends", "ended: succeeded"], *kept(6, "heard"))]),
    (LOOK_FOR_SUBNETS, "not told: {('wrong', 'rejected'): 1}", [take(["wrong", "rejected"], *told(1))]),
    (LOOK_FOR_SUBNETS, "ends is {", FAILED_FOR_NO_REASON),
    (LOOK_FOR_SUBNETS, "cancelled is not closed", [_job(6, "cancelled", closed=False)]),
    (LOOK_FOR_SUBNETS, "the last run is not quiet", [add(["silent", "held"], *kept(LAST, "heard"))]),
    # What must be found although the fault explains something like it.
    (DENIED, "one denied launch failed 2 jobs", [*FAILED_FOR_NO_REASON, _job(6, "cancelled", result="failed")]),
    (DENIED, "ends is not closed", [*FAILED_FOR_NO_REASON, _job(8, "ends", closed=False)]),
    (_case("sns:Publish", fault="lost_answer"), "ends: runs 1 was told 4 times", [add(["ends", "runs 1"], *kept(0, "heard"))] * 3),
]  # fmt: skip


@pytest.mark.parametrize(
    "plot, cases", [(INSTANCES, OF_INSTANCES), (VOLUMES, OF_VOLUMES), (BUDGETS, OF_BUDGETS), (JOBS, OF_JOBS)], ids=["instances", "volumes", "budgets", "jobs"]
)
def test_the_judgement_finds_every_planted_defect(plot: Plot, cases: list[tuple[Case, str, list[Edit]]]) -> None:
    faultless = faultless_story(plot)
    for case, finding, edits in cases:
        assert case.call in calls_of(plot, faultless), case
        doctored = deepcopy(faultless)
        strike(doctored, case.call, fault=case.fault, attempts=1 + repeats(case.call, case.fault))
        assert violations(plot, case, doctored, faultless) == [], case
        for edit in edits:
            edit(doctored)
        found = violations(plot, case, doctored, faultless)
        assert any(finding in one for one in found), (finding, found)
