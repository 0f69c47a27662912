"""A sweep: one document, many jobs, a bound of how many at once, one message at the end. shared/jobs tests what each member is.

`MEMBERS=1000 pytest integration/tests/test_jobs_sweep.py -k calls -s` prints what each run took (docs/measurements.md).
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import moved_clock
import pytest

from command import curfew
from hosts.host import wait_for
from jobs import LISTS_AT_MINUTE, SPEC, Job, JobAccount
from reaping import BUCKET, ago, now

MEMBERS = int(os.environ.get("MEMBERS", "24"))
RANKINGS_MAX = 120  # of one run, as in shared/execution/src/jobs/work.rs

SWEEP = f"{SPEC}\n[sweep]\nlr = [1e-4, 3e-4]\nseed = \"1..2\"\nmax_parallel = 2\n"


def members(jobs: JobAccount, name: str = "tune") -> list[Job]:
    """In the order of their numbers."""
    pages = jobs.aws.client("s3").get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"jobs/vision/{name}-")
    keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
    ids = {"/".join(key.split("/")[1:3]) for key in keys}
    return [Job(jobs, id) for id in sorted(ids) if re.search(r"-\d{4}-[0-9a-f]{8}$", id)]


def states(jobs: JobAccount) -> list[str]:
    phases = [member.phase for member in members(jobs)]
    return [phase.get("result", phase["state"]) for phase in phases]


def minutes(jobs: JobAccount, count: int = 2) -> list[str]:
    """So many runs: the messages of all. An ended machine is gone in one, and its job off the index in the next."""
    jobs.written_long_ago()
    return [message["message"] for _ in range(count) for message in jobs.tick().messages]


def test_members_begin_in_order_and_no_more_at_once_than_allowed(jobs: JobAccount) -> None:
    key = jobs.submit("tune", SWEEP)
    run = jobs.told_of(key)
    answer = jobs.answer(key)
    assert answer and (answer["is"], answer["members"]) == ("accepted", 4)
    sweep = answer["job"]
    [message] = run.messages
    assert "the sweep was accepted, and its 4 jobs begin, at most 2 of them unfinished at once" in message["message"]
    order = [call["action"] for call in run.calls if call["action"] == "sns:Publish" or call["resources"][0].endswith(".accepted.json")]
    assert order[-2:] == ["sns:Publish", "s3:PutObject"], "the answer says that the message was sent"
    spec = jobs.aws.client("s3").get_object(Bucket=BUCKET, Key=f"jobs/{members(jobs)[2].id}/spec.toml")["Body"].read().decode()
    assert spec == f"member = 3\n{SWEEP}"
    assert members(jobs)[2].document["sweep"]["parameters"] == [["lr", "3e-4"], ["seed", "1"]]

    assert minutes(jobs) == [], "what each job does is no message of its own"
    assert states(jobs) == ["running", "running", "submitted", "submitted"]
    heading, row = curfew(jobs.environment(), "jobs").fine().out.splitlines()
    assert re.fullmatch(rf"{sweep} +2 waiting, 2 running +- .*a sweep; its jobs: curfew jobs {sweep.split('/')[1]}", row), (heading, row)
    listed = curfew(jobs.environment(), "jobs", "tune").fine().out
    assert "4 jobs, at most 2 unfinished at once: 2 waiting, 2 running" in listed and "lr=3e-4, seed=2" in listed
    assert json.loads(curfew(jobs.environment(), "jobs", sweep, "--json").fine().out)["summary"]["states"] == {"running": 2, "waiting": 2}
    refused = curfew(jobs.environment(), "logs", "tune")
    assert refused.code == 2 and f"such as {members(jobs)[0].id}" in refused.err

    refused = curfew(jobs.environment(), "rerun", "tune", "--from-checkpoint")
    assert refused.code == 2 and f"{sweep} is a sweep" in refused.err and f"such as {members(jobs)[0].id}" in refused.err

    first, second, third, fourth = members(jobs)
    first.ends(succeeded=False, code=3, why="the command has failed with exit code 3")
    second.beats()
    minutes(jobs)
    assert states(jobs) == ["failed", "running", "running", "submitted"]
    second.ends()
    third.beats()
    minutes(jobs)
    assert states(jobs) == ["failed", "succeeded", "running", "running"]
    third.ends()
    fourth.ends()
    [said] = minutes(jobs, 3)
    assert "all 4 jobs of the sweep are over: 3 succeeded, 1 failed." in said
    assert "The first failure was member 1 (lr=1e-4, seed=1): the command has failed with exit code 3" in said
    assert jobs.keys("active/") == [] and minutes(jobs) == []
    assert curfew(jobs.environment(), "jobs", "tune").code == 1
    again = curfew(jobs.environment(), "rerun", third.id, "--dry-run", "--json").json()
    assert again["sweep"] is None and not again["mistakes"], "a member by itself is one job"


def test_a_sweep_that_was_begun_in_part_is_continued(jobs: JobAccount) -> None:
    key = jobs.submit("tune", SWEEP)
    jobs.told_of(key)
    before = {member.id: member.document for member in members(jobs)}
    s3 = jobs.aws.client("s3")
    lost = [each for each in jobs.keys("") if "tune-0003" in each or "tune-0004" in each or "/-tune" in each or each.endswith(".accepted.json")]
    assert len(lost) == 2 * 3 + 1 + 1
    for each in lost:
        s3.delete_object(Bucket=BUCKET, Key=each)
    assert len(members(jobs)) == 2
    jobs.tick()
    assert [member.id for member in members(jobs)] == list(before)
    answer = jobs.answer(key)
    assert answer and answer["members"] == 4
    assert [member.document["submitted_at"] for member in members(jobs)] == [document["submitted_at"] for document in before.values()]


def begun_long_ago(jobs: JobAccount) -> None:
    [entry] = [key for key in jobs.keys("active/") if "/-" in key]
    jobs.aws.set_object(BUCKET, entry, ago(hours=1))


def test_an_answer_that_cannot_be_written_is_no_message_each_minute(jobs: JobAccount) -> None:
    key = jobs.submit("tune", SWEEP)
    jobs.aws.fault("s3:PutObject", "access_denied", match=".accepted.json", times=None)
    assert len(jobs.told_of(key).messages) == 1
    begun_long_ago(jobs)
    assert sum("the sweep was accepted" in message for message in minutes(jobs, 4)) == 1


@pytest.mark.parametrize("is_log_read", [True, False])
def test_a_message_that_was_refused_is_sent_later(jobs: JobAccount, is_log_read: bool) -> None:
    jobs.tick()
    key = jobs.submit("tune", SWEEP)
    jobs.aws.fault("sns:Publish", "access_denied", times=None)
    if not is_log_read:
        jobs.aws.fault("s3:GetObject", "error500", match="notices/", times=None)
    jobs.told_of(key)
    jobs.aws.clear_faults()
    begun_long_ago(jobs)
    assert sum("the sweep was accepted" in message for message in minutes(jobs, 3)) == 1
    assert jobs.answer(key)


def test_a_document_that_replaces_that_of_a_sweep_is_answered(jobs: JobAccount) -> None:
    """While the team of the first is told of it, and without an event."""
    key = jobs.submit("tune", SWEEP)
    jobs.aws.fault("sns:Publish", "slow", seconds=60)
    telling = threading.Thread(target=lambda: jobs.told_of(key))
    telling.start()
    wait_for(jobs.aws.struck, 60, lambda: str(jobs.aws.calls()))
    jobs.submit("tune", SPEC)
    jobs.aws.set_object(BUCKET, key, ago(minutes=1))
    jobs.aws.release("sns:Publish")
    telling.join()
    minutes(jobs)
    answer = jobs.answer(key)
    assert answer and answer["is"] == "accepted" and "members" not in answer


@pytest.mark.usefixtures("unlisted")
def test_a_sweep_is_read_once_for_all_that_come_after_it(jobs: JobAccount) -> None:
    key = jobs.submit("tune", SWEEP.replace("max_parallel = 2\n", ""))
    jobs.told_of(key)
    minutes(jobs)
    for member in members(jobs):
        member.beats()
        member.ends()
    minutes(jobs, 3)
    sweep = (jobs.answer(key) or {})["job"].split("/")[1]
    for name in ("one", "two", "three"):
        jobs.submit(name, f'after = ["{sweep}"]\n{SPEC}')
    run = jobs.tick()
    states = [place for call in run.calls if call["action"] == "s3:GetObject" for place in call["resources"] if re.search(r"/tune-\d{4}-.*/state.json", place)]
    assert len(states) == 4 and all((jobs.answer(f"inbox/vision/{name}.toml") or {}).get("job") for name in ("one", "two", "three"))


def test_a_run_that_was_cut_off_before_its_answer_tells_again(jobs: JobAccount) -> None:
    key = jobs.submit("tune", SWEEP)
    jobs.told_of(key)
    accepted = jobs.answer(key)
    assert accepted
    jobs.aws.client("s3").delete_object(Bucket=BUCKET, Key=key.replace(".toml", ".accepted.json"))
    jobs.written_long_ago()
    assert jobs.tick(timeout_s=300).messages == [] and jobs.answer(key) is None, "the other run may still be about to tell"
    begun_long_ago(jobs)
    [message] = minutes(jobs)
    assert "the sweep was accepted" in message
    answer = jobs.answer(key)
    assert answer and (answer["job"], answer["members"]) == (accepted["job"], 4) and minutes(jobs) == []


@pytest.mark.usefixtures("unlisted")
@pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
def test_a_lost_entry_is_made_anew_once_all_jobs_have_begun(jobs: JobAccount) -> None:
    key = jobs.submit("tune", SWEEP)
    jobs.told_of(key)
    minutes(jobs)
    answer = jobs.answer(key)
    assert answer
    entry = "active/vision/-" + answer["job"].split("/")[1]
    first, _, third, fourth = members(jobs)
    state = {**jobs.read(f"jobs/{fourth.id}/state.json")}
    for each in (entry, f"active/{fourth.id}", f"jobs/{fourth.id}/state.json"):
        jobs.aws.client("s3").delete_object(Bucket=BUCKET, Key=each)
    first.ends()
    minutes(jobs, 3)
    assert not first.is_active and third.state == "submitted", "without the entry nobody knows that the first is over"
    at = (now() + timedelta(hours=1)).replace(minute=LISTS_AT_MINUTE, second=58)
    jobs.aws.fault("s3:GetObject", "slow", match="state.json", seconds=3)
    jobs.tick_at(at, stands=False)
    assert entry not in jobs.keys("active/"), "the fourth may still be about to begin"
    jobs.put(f"jobs/{fourth.id}/state.json", json.dumps(state).encode())
    jobs.tick_at(at + timedelta(minutes=1))
    assert entry not in jobs.keys("active/")
    jobs.tick_at(at + timedelta(hours=1))
    assert entry in jobs.keys("active/") and fourth.is_active
    assert third.state == "running" and fourth.state == "submitted"


def test_a_cancelled_sweep_ends_whole(jobs: JobAccount) -> None:
    jobs.told_of(jobs.submit("tune", SWEEP))
    minutes(jobs)
    said = curfew(jobs.environment(), "cancel", "tune", "--yes").fine()
    assert "4 jobs cancelled" in said.out
    again = curfew(jobs.environment(USER="eve"), "cancel", "tune", "--yes", "--json").fine().json()
    assert (again["outcome"], again["cancelled"]) == ("unchanged", 0)
    [message] = minutes(jobs, 3)
    assert "4 cancelled" in message and set(states(jobs)) == {"cancelled"} and jobs.machines() == []
    assert "all its jobs are over or cancelled (unchanged)" in curfew(jobs.environment(), "cancel", "tune", "--yes").fine().out


def test_submit_shows_how_many_jobs_it_is_and_what_they_cost(jobs: JobAccount, tmp_path: Path) -> None:
    file = tmp_path / "tune.toml"
    file.write_text(SWEEP)
    said: Any = curfew(jobs.environment(), "submit", str(file), "--team", "vision", "--dry-run", "--json").fine().json()
    one = said["estimate"]["worst_case"]["usd"]
    assert (said["sweep"]["members"], said["sweep"]["worst_case_usd"]) == (4, 4 * one)
    out = curfew(jobs.environment(), "submit", str(file), "--team", "vision", "--dry-run").fine().out
    assert "A sweep of 4 jobs, at most 2 unfinished at once: from lr=1e-4, seed=1 to lr=3e-4, seed=2" in out
    file.write_text(SWEEP.replace("1..2", "2..1"))
    wrong = curfew(jobs.environment(), "submit", str(file), "--team", "vision")
    assert wrong.code == 1 and "tune.toml:12: key `sweep.seed`" in wrong.out and jobs.keys("inbox/") == []


@pytest.mark.usefixtures("unlisted")
def test_members_take_the_calls_of_as_many_jobs(jobs: JobAccount) -> None:
    key = jobs.submit("tune", f"{SPEC}\n[sweep]\nseed = \"1..{MEMBERS}\"\nmax_parallel = {MEMBERS // 2}\n")
    run = jobs.told_of(key, timeout_s=300)
    print(f"begun: {run.invocation.seconds:.1f} s, {sum(run.counts.values())} calls")
    # Of each member its document, its state and its entry on the index, as of a job; of the sweep these, and the answer.
    assert run.counts["s3:PutObject"] == 3 * MEMBERS + 4 and run.counts["s3:GetObject"] <= 6
    jobs.written_long_ago()
    launched = 0
    while launched < MEMBERS // 2:
        run = jobs.tick(timeout_s=300)
        launched += run.counts["ec2:RunInstances"]
        print(f"{run.invocation.seconds:.1f} s, {sum(run.counts.values())} calls, {run.counts['ec2:RunInstances']} launches")
        assert run.gaps == [] and run.counts["ec2:RunInstances"] <= RANKINGS_MAX
    for member in members(jobs)[:launched]:
        member.beats()
    run = jobs.tick(timeout_s=300)
    print(f"{run.invocation.seconds:.1f} s, {sum(run.counts.values())} calls")
    waiting = MEMBERS - launched
    assert Counter(states(jobs)) == {"running": launched, "submitted": waiting}
    # A job that runs takes five reads, and one that waits two; a sweep that waits for its turn takes one list for all its members.
    assert run.counts == {
        "ec2:DescribeInstances": run.counts["ec2:DescribeInstances"],
        "s3:GetObject": 2 + 5 * launched + 2 * waiting,
        "s3:ListObjectsV2": 2 + -(-(MEMBERS + 1) // 1_000),  # the inbox, the members, and the index by pages
        "sns:ListSubscriptionsByTopic": 1,
    }
