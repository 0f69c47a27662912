"""Notifications about a job besides its state: a machine that could not be terminated, warnings of its agent, and why a machine is gone."""

from __future__ import annotations

import json
from datetime import timedelta

from jobs import SPEC, JobAccount
from local_aws.client import REGION
from reaping import ago, binary, now, rfc3339, scheduled
from runtime_api import Function


def silent(jobs: JobAccount) -> str:
    """The machine of a job without heartbeats."""
    job = jobs.running()
    job.checkpoint(40)
    job.beats(at=ago(minutes=11))
    return job.machine


def test_a_failed_termination_is_notified_once_a_day(jobs: JobAccount) -> None:
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


# What an agent finds out

DAMAGED = {"kind": "damaged", "words": "it resumes from step 10, which attempt 1 kept: the checkpoint of step 15 (torn) is damaged"}


def disk(mib: int) -> dict[str, str]:
    return {"kind": "disk", "words": f"the disk of /data is nearly full ({mib} MiB are left)"}


def test_a_warning_of_the_agent_is_sent_once_and_a_lasting_one_once_a_day(jobs: JobAccount) -> None:
    job = jobs.running()
    job.beats(warnings=[DAMAGED, disk(90)])
    run = jobs.tick()
    assert run.severities() == {"vision": "warning"}
    for words in (DAMAGED["words"], disk(90)["words"]):
        assert f'{job.id} (owner "ada@example.com"): attempt 1 says: {words}.\nIts log: curfew logs {job.id} --attempt 1' in run.message()
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


# Whether its work goes on


def test_a_stall_is_told_with_what_it_costs(jobs: JobAccount) -> None:
    job = jobs.running()
    jobs.aws.set_instance(job.machine, launch_time=ago(hours=2))
    stalled = {"kind": "stalled", "words": "the command has completed no new checkpoint for 31m, since step 7"}
    job.beats(warnings=[stalled], work={"stalled_seconds": 1860})
    message = jobs.tick().message()
    assert f"attempt 1 says: {stalled['words']}. Its machine costs $" in message and " for that time; the job has cost $" in message


def test_the_owner_is_told_once_a_day_that_every_gpu_is_idle(jobs: JobAccount) -> None:
    job = jobs.running()
    phase = job.document["phase"]
    phase["of"]["launched_at"] = rfc3339(ago(hours=3))
    job.rewrite(phase=phase)
    for work in ({}, {"gpu_idle_seconds": 0}, {"gpu_idle_seconds": 3599}):
        job.beats(work=work)
        assert jobs.tick().messages == [], work
    job.beats(work={"gpu_idle_seconds": 3600})
    message = jobs.tick().message()
    assert f"every GPU of {job.machine} (" in message and "has been below 5 % for 1h. Its machine costs $" in message
    assert f"To stop it: curfew cancel {job.id}" in message
    job.beats(work={"gpu_idle_seconds": 4000})
    assert jobs.tick().messages == []
    jobs.put("config/curfew.toml", b'[jobs]\nidle_after = "off"\n')
    tomorrow = now() + timedelta(hours=25)
    job.beats(at=tomorrow, work={"gpu_idle_seconds": 4000})
    assert "below 5 %" not in str(jobs.tick_at(tomorrow).messages)


def test_what_a_limit_of_the_job_ended_is_not_retried(jobs: JobAccount) -> None:
    job = jobs.running(text=f"retries = 2\n{SPEC}")
    result = {"succeeded": False, "code": None, "why": "every GPU was below 5 % for 2h", "at": rfc3339(now()), "is_final": True}
    job.write("head.json", attempt=1, result=result)
    jobs.tick()
    assert (job.state, job.phase["result"]) == ("ended", "failed") and job.phase["why"] == "every GPU was below 5 % for 2h; it is not retried"


# Why a machine is gone


def test_a_machine_that_expired_is_not_called_cancelled(jobs: JobAccount) -> None:
    job = jobs.running()
    machine = job.machine
    launched, expired = ago(minutes=10), rfc3339(ago(minutes=1))
    jobs.aws.set_instance(machine, launch_time=launched)
    jobs.tag(machine, expires_at=expired)
    seen = {"since": rfc3339(launched), "expiry_seen": expired}
    jobs.put("notices/reap-instances/us-east-1.json", json.dumps({"schema": 2, "resources": {machine: seen}}).encode())
    with Function(binary("reap-instances"), env=jobs.environment()) as reaper:
        reaper.invoke(scheduled("reap-instances"))
    told = len(jobs.aws.messages())
    assert jobs.state(machine) == "terminated" and "expired=terminate@" in (jobs.mark(machine) or "")
    run = jobs.tick()
    assert (job.state, job.phase["result"]) == ("ended", "expired") and len(jobs.ever_launched()) == 1
    why = f"{machine} was terminated by Curfew, at the time that its tag curfew:expires-at says"
    assert job.phase["why"].startswith(why) and why in run.messages[-1]["message"] and len(jobs.aws.messages()) == told + 1
