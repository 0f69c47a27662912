"""The judgement of every fault itself: what it must find in a story that was doctored."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import plot_of_budgets
import plot_of_instances
import plot_of_jobs
import plot_of_volumes
import pytest
from every_fault import Call, Case, Plot, Story, calls_of, faultless_story, repeats
from judgement import violations
from local_aws.client import REGION
from one_of_each import NOTICES
from reaping import EUROPE

INSTANCES, VOLUMES, BUDGETS = plot_of_instances.PLOT, plot_of_volumes.PLOT, plot_of_budgets.PLOT
JOBS = plot_of_jobs.PLOT
NOTICES_HERE = f"{NOTICES}reap-instances/{REGION}.json"


def check(plot: Plot, case: Case, doctor: Callable[[Story], None], finding: str) -> None:
    faultless = faultless_story(plot)
    assert case.call in calls_of(plot, faultless)
    doctored = deepcopy(faultless)
    _strike(doctored, case.call, fault=case.fault, attempts=1 + repeats(case.call, case.fault))
    assert violations(plot, case, doctored, faultless) == []
    doctor(doctored)
    found = violations(plot, case, doctored, faultless)
    assert any(finding in one for one in found), found


def _strike(told: Story, struck: Call, **what: Any) -> None:
    of_it = (struck.region, struck.action, struck.on)
    calls = told["runs"][struck.run]["calls"]
    next(call for call in calls if (call["region"], call["action"], call["on"]) == of_it).update(what)


# Of instances


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
    told["runs"][-1]["remembers"] = True


def _forgotten(told: Story) -> None:
    told["remembered"][NOTICES_HERE.removeprefix(NOTICES)]["told"].pop("mistyped")


def _died(told: Story) -> None:
    told["runs"][0]["error"] = "Sandbox.Timedout: Task timed out after 270.00 seconds"


def _late_gap(told: Story) -> None:
    told["runs"][2]["gaps"] = ["us-east-1, ec2:DescribeInstances"]


def _another_call(told: Story) -> None:
    _strike(told, LOOK.call, fault=None, attempts=1)
    _strike(told, Call(0, REGION, "ec2:DescribeRegions", "", 0), fault="throttle", attempts=2)


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
LOOK = Case(Call(0, REGION, "ec2:DescribeInstances", "", 0), "throttle", lasting=False)

# What must be found although an exemption covers the case.
CONFIG_LOST = Case(Call(0, REGION, "s3:GetObject", "config/", 0), "not_found", lasting=False)
MESSAGE_UNHEARD = Case(Call(0, REGION, "sns:Publish", "", 0), "empty", lasting=False)
MARK_NOT_REMOVED = Case(Call(0, REGION, "ec2:DeleteTags", "after its hours", 0), "access_denied", lasting=False)
MEMORY_LOST = Case(Call(0, REGION, "s3:GetObject", NOTICES_HERE, 0), "not_found", lasting=False)
PLAN_LOST = Case(Call(0, REGION, "s3:PutObject", "plans/", 0), "access_denied", lasting=False)
SPOT_LATE = Case(Call(0, REGION, "ec2:DescribeSpotInstanceRequests", "", 0), "slow", lasting=False)
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
def test_the_judgement_finds(doctor: Callable[[Story], None]) -> None:
    check(INSTANCES, LOOK, doctor, DOCTORED[doctor])


@pytest.mark.parametrize("case, doctor, finding", DOCTORED_OF_EXEMPT)
def test_the_judgement_finds_in_spite_of_an_exemption(case: Case, doctor: Callable[[Story], None], finding: str) -> None:
    check(INSTANCES, case, doctor, finding)


# Of volumes


def _deleted_without_a_snapshot(told: Story) -> None:
    told["runs"][1]["world"].pop("snapshot of due")


def _deleted_with_half_a_snapshot(told: Story) -> None:
    told["runs"][1]["world"]["snapshot of due"]["state"] = "pending"


def _deleted_in_the_run_of_its_snapshot(told: Story) -> None:
    told["runs"][0]["world"].pop("due")


def _protected_one_deleted(told: Story) -> None:
    for run in told["runs"]:
        run["world"].pop("protected")


def _kept_one_written_on(told: Story) -> None:
    for run in told["runs"]:
        run["world"]["kept"]["tags"].pop("curfew:marked")


def _snapshot_ended_with_its_volume(told: Story) -> None:
    for run in told["runs"]:
        run["world"].pop("snapshot of protected")


def _snapshot_ended_too_soon(told: Story) -> None:
    for run in told["runs"][2:]:
        run["world"].pop("snapshot of safe", None)


def _two_snapshots(told: Story) -> None:
    for run in told["runs"]:
        run["world"]["another snapshot of due"] = told["runs"][0]["world"]["snapshot of due"]


def _undated(told: Story) -> None:
    told["runs"][-1]["world"]["snapshot of behind an AMI"]["tags"].pop("curfew:deleted-at")


def _not_unmarked(told: Story) -> None:
    told["runs"][-1]["world"]["attached again"]["tags"]["curfew:marked"] = "orphaned=delete"


def _deletion_unheard(told: Story) -> None:
    told["runs"][0]["told"].remove(["safe", "deleted, kept as snapshot of safe"])


def _deletion_heard_with_another_snapshot(told: Story) -> None:
    _deletion_unheard(told)
    told["runs"][0]["told"].append(["safe", "deleted, kept as snapshot of due"])


def _deletion_unrecorded(told: Story) -> None:
    told["recorded"]["safe"].clear()


DOCTORED_VOLUMES: dict[Callable[[Story], None], str] = {
    _deleted_without_a_snapshot: "due is deleted, and there is no whole snapshot of it",
    _deleted_with_half_a_snapshot: "due is deleted, and there is no whole snapshot of it",
    _deleted_in_the_run_of_its_snapshot: "due is absent, which it is not in a faultless story",
    _protected_one_deleted: "protected is None, and was",
    _kept_one_written_on: "kept is",
    _snapshot_ended_with_its_volume: "snapshot of protected is deleted, and its volume was there",
    _snapshot_ended_too_soon: "snapshot of safe is deleted before its time",
    _two_snapshots: "another snapshot of due ended as",
    _undated: "snapshot of behind an AMI is",
    _not_unmarked: "attached again ended as",
    _deletion_unheard: "not told: {('safe', 'deleted, kept as snapshot of safe'): 1}",
    _deletion_heard_with_another_snapshot: "told more than once, or wrongly",
    _deletion_unrecorded: "safe is absent, and no record says so",
}
LOOK_IN_EUROPE = Case(Call(0, EUROPE, "ec2:DescribeVolumes", "", 0), "throttle", lasting=False)


@pytest.mark.parametrize("doctor", DOCTORED_VOLUMES)
def test_the_judgement_of_volumes_finds(doctor: Callable[[Story], None]) -> None:
    check(VOLUMES, LOOK_IN_EUROPE, doctor, DOCTORED_VOLUMES[doctor])


# Of budgets


def _kept(told: Story, run: int, holder: str, **facts: Any) -> None:
    told["runs"][run]["kept"][holder].update(facts)


def _money_lost(told: Story) -> None:
    _kept(told, 1, "vision", spent_usd=told["runs"][0]["kept"]["vision"]["spent_usd"])


def _money_counted_twice(told: Story) -> None:
    _kept(told, 0, "vision", spent_usd=2 * told["runs"][0]["kept"]["vision"]["spent_usd"])


def _reservation_lost(told: Story) -> None:
    _kept(told, 0, "nlp", reservations={})


def _wrongly_stopped(told: Story) -> None:
    _kept(told, 0, "nlp", verdict="stop")


def _stays_stopped_wrongly(told: Story) -> None:
    _kept(told, 1, "nlp", verdict="stop")


def _an_instance_was_stopped(told: Story) -> None:
    told["runs"][2]["writes"] = [["StopInstances", "dear"]]


def _share_unheard(told: Story) -> None:
    told["runs"][0]["told"].remove(["vision", "80 %"])


def _share_heard_twice(told: Story) -> None:
    told["runs"][3]["told"].append(["vision", "100 %"])


DOCTORED_BUDGETS: dict[Callable[[Story], None], str] = {
    _money_lost: "run 2: vision is not what it should be: {'spent_usd'",
    _money_counted_twice: "run 1: vision has spent",
    _reservation_lost: "run 1: nlp has reserved {}",
    _wrongly_stopped: "run 1: nlp is judged stop, and not ok",
    _stays_stopped_wrongly: "run 2: nlp is not what it should be: {'verdict'",
    _an_instance_was_stopped: "run 3: [['StopInstances', 'dear']] was written",
    _share_unheard: "not told: {('vision', '80 %'): 1}",
    _share_heard_twice: "told more than once, or wrongly: {('vision', '100 %'): 1}",
}


@pytest.mark.parametrize("doctor", DOCTORED_BUDGETS)
def test_the_judgement_of_budgets_finds(doctor: Callable[[Story], None]) -> None:
    check(BUDGETS, LOOK, doctor, DOCTORED_BUDGETS[doctor])


# Of jobs


def _of_jobs(told: Story, run: int, name: str, **facts: Any) -> None:
    """What its state says, from that run on."""
    for seen in told["runs"][run:]:
        seen["kept"]["jobs"][name].update(facts)


def _machines(told: Story, run: int, name: str) -> list[Story]:
    return [one for one in told["runs"][run]["kept"]["machines"] if one["job"] == name]


def _two_machines(told: Story) -> None:
    for one in _machines(told, 3, "silent"):
        one["state"] = "running"


def _warned_one_lives_on(told: Story) -> None:
    _machines(told, 3, "ends")[0]["state"] = "running"


def _no_machine(told: Story) -> None:
    for run in range(4, 9):
        _machines(told, run, "silent")[1]["state"] = "terminated"


def _machine_nobody_knows(told: Story) -> None:
    kept = told["runs"][8]["kept"]
    kept["machines"].append({**_machines(told, 8, "ends")[0], "id": "i-of-nobody", "state": "running"})


def _another_end(told: Story) -> None:
    _machines(told, 3, "silent")[1]["expires_at"] = "2031-01-01T00:00:00Z"


def _without_tags(told: Story) -> None:
    _machines(told, 8, "ends")[0]["wrong"].append("its tags are not what they must be: {'Team': None}")


def _job_forgotten(told: Story) -> None:
    for run in told["runs"][1:]:
        run["kept"]["jobs"]["silent"] = None


def _off_the_index(told: Story) -> None:
    told["runs"][3]["kept"]["active"].remove("silent")


def _on_the_index_for_ever(told: Story) -> None:
    told["runs"][8]["kept"]["active"].append("ends")


def _document_unanswered(told: Story) -> None:
    told["runs"][1]["kept"]["answers"]["wrong"] = "nothing"


def _mistake_accepted(told: Story) -> None:
    told["runs"][3]["kept"]["answers"]["wrong"] = "accepted and rejected"


def _money_kept(told: Story) -> None:
    del told["runs"][5]["kept"]["reserved"]["team"]["ends"]["ended"]


def _on_no_money(told: Story) -> None:
    del told["runs"][3]["kept"]["reserved"]["account"]["silent"]


def _too_little_money(told: Story) -> None:
    told["runs"][1]["kept"]["reserved"]["team"]["silent"]["usd"] = 0.5


def _relaunch_unheard(told: Story) -> None:
    told["runs"][3]["kept"]["heard"].remove(["silent", "runs 2"])


def _end_heard_twice(told: Story) -> None:
    told["runs"][6]["kept"]["heard"].append(["ends", "ended: succeeded"])


def _rejection_unheard(told: Story) -> None:
    told["runs"][1]["told"].remove(["wrong", "rejected"])


def _failed_for_no_reason(told: Story) -> None:
    _of_jobs(told, 5, "ends", result="failed")
    told["runs"][5]["kept"]["heard"].append(["ends", "ended: failed"])


def _never_closed(told: Story) -> None:
    _of_jobs(told, 6, "cancelled", closed=False)


def _still_speaks(told: Story) -> None:
    told["runs"][8]["kept"]["heard"].append(["silent", "held"])


DOCTORED_JOBS: dict[Callable[[Story], None], str] = {
    _two_machines: "run 4: silent has 2 machines",
    _warned_one_lives_on: "run 4: ends has 2 machines",
    _no_machine: "run 6: silent is running on",
    _machine_nobody_knows: "run 9: ends is ended on None, and there are",
    _another_end: "run 4: silent has a machine that expires at 2031-01-01T00:00:00Z, and not at",
    _without_tags: "ends, attempt 1: its tags are not what they must be",
    _job_forgotten: "run 2: silent is forgotten",
    _off_the_index: "run 4: silent is not on the index",
    _on_the_index_for_ever: "run 9: ends is still on the index",
    _document_unanswered: "run 2: the document wrong is answered by nothing",
    _mistake_accepted: "run 4: the document wrong is answered by accepted and rejected",
    _money_kept: "run 6: ends is closed, and still has",
    _on_no_money: "run 4: silent runs on no money of the account",
    _too_little_money: "run 2: silent has reserved",
    _relaunch_unheard: "run 4: silent is runs 2, and nobody was told",
    _end_heard_twice: "ends: ended: succeeded was told 2 times",
    _rejection_unheard: "not told: {('wrong', 'rejected'): 1}",
    _failed_for_no_reason: "ends came to",
    _never_closed: "cancelled is not closed",
    _still_speaks: "the last run is not quiet",
}
LOOK_FOR_SUBNETS = Case(Call(0, REGION, "ec2:DescribeSubnets", "", 0), "throttle", lasting=False)

# What must be found although the fault explains something like it.
REFUSED = Case(Call(0, REGION, "ec2:RunInstances", "", 0), "access_denied", lasting=False)
UNHEARD = Case(Call(0, REGION, "sns:Publish", "", 0), "lost_answer", lasting=False)


def _two_failed_of_one_refusal(told: Story) -> None:
    _failed_for_no_reason(told)
    _of_jobs(told, 6, "cancelled", result="failed")


def _refused_and_never_closed(told: Story) -> None:
    _failed_for_no_reason(told)
    _of_jobs(told, 8, "ends", closed=False)


def _heard_four_times(told: Story) -> None:
    told["runs"][0]["kept"]["heard"] += [["ends", "runs 1"]] * 3


DOCTORED_JOBS_OF_EXEMPT: list[tuple[Case, Callable[[Story], None], str]] = [
    (REFUSED, _two_failed_of_one_refusal, "one refusal failed 2 jobs"),
    (REFUSED, _refused_and_never_closed, "ends is not closed"),
    (UNHEARD, _heard_four_times, "ends: runs 1 was told 4 times"),
]


@pytest.mark.parametrize("doctor", DOCTORED_JOBS)
def test_the_judgement_of_jobs_finds(doctor: Callable[[Story], None]) -> None:
    check(JOBS, LOOK_FOR_SUBNETS, doctor, DOCTORED_JOBS[doctor])


@pytest.mark.parametrize("case, doctor, finding", DOCTORED_JOBS_OF_EXEMPT)
def test_the_judgement_of_jobs_finds_in_spite_of_an_exemption(
    case: Case, doctor: Callable[[Story], None], finding: str
) -> None:
    check(JOBS, case, doctor, finding)
