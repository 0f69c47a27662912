"""Every rule, from the announcement to the end: told, marked, looked at again, stopped or terminated."""

from __future__ import annotations

from typing import Any

import pytest

from local_aws.client import REGION
from reaping import EUROPE, Account, Run, ago, moment, now, rfc3339


def mark_of(gpu: str, run: Run, rule: str, ending: str) -> str:
    return f"{gpu} {rule}={ending}@{run.step(gpu)['evidence']['deadline']}"


def assert_announced(account: Account, gpu: str, rule: str, ending: str, region: str = REGION) -> Run:
    """The first run: marked exactly so, told, and running on."""
    run = account.tick()
    assert run.said(gpu) == ("mark", rule, "done")
    assert account.mark(gpu, region) == mark_of(gpu, run, rule, ending)
    assert account.state(gpu, region) == "running"
    told = next(one["message"] for one in run.messages if gpu in one["message"])
    past = {"stop": "stopped", "terminate": "terminated"}[ending]
    assert f"It will be {past} at {run.step(gpu)['evidence']['deadline']}" in told
    assert run.ec2_writes == [("CreateTags", gpu)]
    return run


def assert_ended(account: Account, gpu: str, rule: str, ending: str, region: str = REGION) -> Run:
    """The next run past the deadline: ended once, told, and the mark replaced by what stopped it."""
    run = account.tick()
    assert run.said(gpu) == (ending, rule, "done")
    assert [one["attributes"]["severity"] for one in run.messages if gpu in one["message"]] == ["action"]
    assert account.state(gpu, region) == {"stop": "stopped", "terminate": "terminated"}[ending]
    if ending == "stop":
        tags = account.aws.tags(gpu, region)
        assert "curfew:marked" not in tags
        by, at = tags["curfew:stopped"].split(" ")
        assert by == rule and abs((now() - moment(at)).total_seconds()) < 60
    call = {"stop": "StopInstances", "terminate": "TerminateInstances"}[ending]
    assert [write for write in run.ec2_writes if write[0] == call] == [(call, gpu)]
    return run


def assert_told_only(account: Account, gpu: str, rule: str, why: str) -> Run:
    """Told once, in the words of `only_told`; not touched then, nor in the next run."""
    run = account.tick()
    assert run.said(gpu) == ("notify", rule, "done")
    assert run.step(gpu)["evidence"]["notify_only"] == why
    assert any(gpu in one["message"] for one in run.messages)
    again = account.tick()
    assert again.is_quiet and again.skipped == {"told": 1}
    assert run.ec2_writes == []
    return run


@pytest.mark.parametrize("ending", ["stop", "terminate"])
def test_idle(account: Account, ending: str) -> None:
    account.configure(idle={"action": ending})
    gpu = account.idle(account.gpu())
    evidence = assert_announced(account, gpu, "idle", ending).step(gpu)["evidence"]
    assert (evidence["devices"], evidence["gpu_max_percent"], evidence["reserved"]) == (1, 0.0, False)
    assert evidence["coverage_percent"] == 100
    assert (moment(evidence["to"]) - moment(evidence["from"])).total_seconds() == 900
    assert 10 * 60 <= (now() - moment(evidence["to"])).total_seconds() < 16 * 60
    assert_ended(account, gpu, "idle", ending)


def test_metrics_of_another_namespace_and_name(account: Account) -> None:
    names = {
        "namespace": "ML",
        "utilization": "gpu_busy",
        "memory_used_mib": "",
        "device_dimension": "gpu",
        "instance_dimension": "instance",
    }
    account.configure(metrics={"nvidia": names})
    gpu = account.idle(account.gpu())
    assert account.tick().skipped == {"usage-unknown": 1}
    own = {"instance": gpu, "gpu": "0"}
    account.aws.put_metrics("ML", "gpu_busy", own, [0.0] * 24, ago(hours=2))
    account.aws.client("s3").delete_object(Bucket="curfew-state", Key=f"activity/{REGION}.json")
    assert_announced(account, gpu, "idle", "stop")


@pytest.mark.parametrize("ending", ["stop", "terminate"])
@pytest.mark.parametrize("tags", [{}, {"Team": "vision"}, {"Team": "vision", "Owner": " "}])
def test_untagged(account: Account, ending: str, tags: dict[str, str]) -> None:
    account.configure(untagged={"action": ending})
    gpu = account.untagged("inf2.xlarge", EUROPE, tags=tags)
    run = assert_announced(account, gpu, "untagged", ending, EUROPE)
    assert run.step(gpu)["evidence"]["missing"] == (["Owner"] if tags else ["Team", "Owner"])
    assert_ended(account, gpu, "untagged", ending, EUROPE)


def test_tagged_in_time_the_mark_goes(account: Account) -> None:
    account.configure(untagged={"grace": "24h"}, idle={"window": "60d"})
    gpu = account.untagged()
    run = assert_announced(account, gpu, "untagged", "stop")
    wait = moment(run.step(gpu)["evidence"]["deadline"]) - now()
    assert 23.9 * 3600 < wait.total_seconds() <= 24 * 3600
    assert account.tick().skipped == {"marked": 1}
    account.aws.change(tag={"resource": gpu, "region": REGION, "tags": {"Team": "nlp", "Owner": "grace"}})
    run = account.tick()
    assert run.said(gpu) == ("unmark", "untagged", "done")
    assert "is called off" in run.message("nlp")
    assert account.mark(gpu) is None
    assert account.tick().is_quiet


@pytest.mark.parametrize("ending", ["stop", "terminate"])
def test_lifetime(account: Account, ending: str) -> None:
    account.configure(lifetime={"action": ending})
    gpu = account.gpu("inf2.xlarge", launched=ago(days=7, minutes=1))
    account.gpu("inf2.xlarge", launched=ago(days=6, hours=23))
    assert_announced(account, gpu, "lifetime", ending)
    assert_ended(account, gpu, "lifetime", ending)


@pytest.mark.parametrize(
    ("tags", "fields", "ending"),
    [
        ({}, {}, "stop"),
        ({"curfew:on-idle": "terminate"}, {}, "terminate"),
        ({"curfew:job": "vision/llama-0123abcd"}, {}, "terminate"),
        ({}, {"spot_instance_request": "one-time"}, "terminate"),
        ({}, {"root_device_type": "instance-store"}, "terminate"),
        ({"curfew:on-idle": "notify"}, {}, "stop"),
    ],
)
def test_expired_ends_in_one_run(account: Account, tags: dict[str, str], fields: dict[str, Any], ending: str) -> None:
    account.configure(mode="observe")  # its owner's word is enough
    gpu = account.gpu(tags={**tags, "curfew:expires-at": rfc3339(ago(seconds=5))}, **fields)
    run = assert_ended(account, gpu, "expired", ending)
    assert [write[0] for write in run.ec2_writes][0] == "CreateTags", "a run that is cut off leaves a trace"
    assert account.tick().is_quiet


def test_started_again_by_hand_the_trace_of_the_stop_goes(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.tick(), account.tick()
    assert account.state(gpu) == "stopped"
    account.aws.client("ec2").start_instances(InstanceIds=[gpu])
    run = account.tick()
    assert run.said(gpu) == ("unmark", "idle", "done")
    assert "curfew:stopped" not in account.aws.tags(gpu)
    assert not run.messages
    assert account.tick().is_quiet


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        ({"spot_instance_request": "one-time"}, "cannot-be-stopped"),
        ({"root_device_type": "instance-store"}, "cannot-be-stopped"),
        ({"spot_instance_request": "persistent"}, "persistent-spot"),
        ({"spot_instance_request": "persistent", "tags": {"curfew:on-idle": "terminate"}}, "persistent-spot"),
        ({"tags": {"curfew:local-disk": "keep"}}, "local-disk"),
        ({"tags": {"curfew:on-idle": "notify"}}, "configured"),
        ({"capacity_reservation_id": "cr-0123456789abcdef0"}, "saves-nothing"),
    ],
)
def test_idle_and_only_told(account: Account, gpu: dict[str, Any], why: str) -> None:
    assert_told_only(account, account.idle(account.gpu(**gpu)), "idle", why)


def test_one_time_spot_is_terminated_where_its_tag_says_so(account: Account) -> None:
    gpu = account.idle(account.gpu(spot_instance_request="one-time", tags={"curfew:on-idle": "terminate"}))
    assert_announced(account, gpu, "idle", "terminate")
    assert_ended(account, gpu, "idle", "terminate")
