"""What people hear of a job beside where it stands: that a machine could not be ended, why one is gone, and faults of the run itself."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from jobs import JobAccount
from local_aws.client import REGION
from reaping import ago, binary, now, rfc3339, scheduled
from runtime_api import Function


def silent(jobs: JobAccount) -> str:
    """The machine of a job whose heart has stopped."""
    job = jobs.running()
    job.checkpoint(40)
    job.beats(at=ago(minutes=11))
    return job.machine


def test_the_team_hears_once_a_day_of_a_machine_that_is_not_ended(jobs: JobAccount) -> None:
    machine = silent(jobs)
    jobs.aws.fault("ec2:TerminateInstances", "access_denied", times=None)
    run = jobs.tick()
    assert run.severities() == {"vision": "error", "untagged": "error"}
    by_hand = f"aws ec2 terminate-instances --region {REGION} --instance-ids {machine}"
    assert f"{machine} should be terminated, but was not" in run.message() and by_hand in run.message()
    assert jobs.tick().messages == [], "it is tried again each minute, and told once"
    assert jobs.machines() == [machine]
    run = jobs.tick_at(now() + timedelta(hours=25))
    assert f"{machine} should be terminated, but was not" in run.message()
    jobs.aws.clear_faults()
    jobs.tick()
    assert machine not in jobs.machines()


def test_without_its_notices_a_fault_is_told_once_an_hour(jobs: JobAccount) -> None:
    """Nobody can read what was told before: each minute would be too often."""
    jobs.put(jobs.notices(), b'{"schema": 99}')
    hour = (now() + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    told = [jobs.tick_at(hour + timedelta(minutes=minute)) for minute in range(5, 10)]
    assert all([gap["call"] for gap in run.gaps] == ["s3:GetObject"] for run in told)
    assert [len(run.messages) for run in told] == [0, 0, 1, 0, 0]
    assert "schema 99" in told[2].message("untagged") and told[2].severities() == {"untagged": "error"}


# What an agent finds out

DAMAGED = {"kind": "damaged", "words": "it goes on from step 10, which attempt 1 kept: the checkpoint of step 15 (torn) is damaged"}


def disk(mib: int) -> dict[str, str]:
    return {"kind": "disk", "words": f"the disk of /data is nearly full ({mib} MiB are left)"}


def test_what_an_agent_finds_out_is_told_once_and_what_lasts_once_a_day(jobs: JobAccount) -> None:
    job = jobs.running()
    job.beats(warnings=[DAMAGED, disk(90)])
    run = jobs.tick()
    assert run.severities() == {"vision": "warning"}
    for words in (DAMAGED["words"], disk(90)["words"]):
        assert f"{job.id} (owner ada@example.com): attempt 1 says: {words}. Its log: curfew logs {job.id} --attempt 1" in run.message()
    # Another figure is no other trouble.
    job.beats(warnings=[DAMAGED, disk(80)])
    assert jobs.tick().messages == []
    tomorrow = now() + timedelta(hours=25)
    job.beats(at=tomorrow, warnings=[disk(70)])
    run = jobs.tick_at(tomorrow)
    assert disk(70)["words"] in run.message() and "damaged" not in run.message()
    the_day_after = now() + timedelta(hours=50)
    job.beats(at=the_day_after)
    assert jobs.tick_at(the_day_after).messages == [], "it is mended"


def test_what_sns_does_not_take_is_told_by_the_next_run(jobs: JobAccount) -> None:
    job = jobs.running()
    job.beats(warnings=[DAMAGED])
    jobs.aws.fault("sns:Publish", "access_denied", times=None)
    jobs.tick()
    jobs.aws.clear_faults()
    assert DAMAGED["words"] in jobs.tick().message()
    assert jobs.tick().messages == []


def document(**fields: Any) -> bytes:
    return json.dumps({"schema": 1, "at": rfc3339(now()), "attempt": 1, **fields}).encode()


MIB = 1024 * 1024


@pytest.mark.parametrize("body", [b"{", document(attempt=2, doing="x" * MIB)], ids=["json", "size"])
def test_a_heartbeat_that_cannot_be_believed_is_none_and_its_owner_hears(jobs: JobAccount, body: bytes) -> None:
    job = jobs.running()
    first = job.machine
    key = f"attempts/{job.id}/1/heartbeat.json"
    jobs.put(key, body)
    run = jobs.tick()
    assert (job.attempt, run.gaps, run.severities()) == (1, [], {"vision": "warning"})
    assert "Curfew ignores a document of its machine" in run.message() and key in run.message() and len(run.message()) < 2000
    assert jobs.tick().messages == [], "once a day"
    jobs.tick_at(now() + timedelta(minutes=16))
    assert job.attempt == 2 and first not in jobs.machines()


def test_a_job_whose_machine_writes_16_mib_is_cancelled_all_the_same(jobs: JobAccount) -> None:
    job = jobs.running()
    why = "x" * (16 * MIB - 1000)
    job.write(name := "head.json", attempt=1, at=rfc3339(now()), reason="failed", why=why, result={"succeeded": False, "why": why, "at": rfc3339(now())})
    job.cancel()
    run = jobs.tick()
    assert job.phase["result"] == "cancelled" and len(json.dumps(job.document)) < 20_000
    assert name in run.message() and len(run.message()) < 6000
    jobs.tick()
    assert jobs.machines() == []


# Why a machine is gone


def test_a_machine_that_curfew_ended_by_its_tag_is_no_persons_doing(jobs: JobAccount) -> None:
    job = jobs.running()
    machine = job.machine
    jobs.aws.set_instance(machine, launch_time=ago(minutes=10))
    jobs.tag(machine, expires_at=rfc3339(ago(minutes=1)))
    with Function(binary("reap-instances"), env=jobs.environment()) as reaper:
        reaper.invoke(scheduled("reap-instances"))
    told = len(jobs.aws.messages())
    assert jobs.state(machine) == "terminated" and f"{machine} expired=terminate@" in (jobs.mark(machine) or "")
    run = jobs.tick()
    assert (job.state, job.phase["result"]) == ("ended", "expired") and len(jobs.ever_launched()) == 1
    why = f"{machine} was terminated by Curfew, at the time that its tag curfew:expires-at says"
    assert job.phase["why"].startswith(why) and why in run.messages[-1]["message"] and len(jobs.aws.messages()) == told + 1


def test_a_machine_that_ec2_did_not_bring_up_says_why_and_what_to_do(jobs: JobAccount) -> None:
    job = jobs.running()
    machine, code, words = job.machine, "Client.InternalError", "create grants for the key"
    jobs.aws.set_instance(machine, state="terminated", state_reason=code)
    run = jobs.tick()
    assert (job.attempt, job.state, job.phase["by"]) == (1, "held", "permission") and jobs.machines() == []
    assert run.message().count(code) == 1 and run.message().count(words) == 1, run.message()
    assert machine in job.phase["why"] and words in job.phase["why"]
