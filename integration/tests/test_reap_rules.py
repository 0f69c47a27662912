"""Every rule, from the announcement to the end: told, marked, looked at again, stopped or terminated."""

from __future__ import annotations

from typing import Any

import pytest

from local_aws.client import REGION
from reaping import EUROPE, Account, Run, ago, moment, now, rfc3339


def mark_of(gpu: str, run: Run, rule: str, ending: str) -> str:
    return f"{gpu} {rule}={ending}@{run.step(gpu)['because']['deadline']}"


def assert_announced(account: Account, gpu: str, rule: str, ending: str, region: str = REGION) -> Run:
    """The first run: marked exactly so, told, and running on."""
    run = account.tick()
    assert run.said(gpu) == ("mark", rule, "done")
    assert account.mark(gpu, region) == mark_of(gpu, run, rule, ending)
    assert account.state(gpu, region) == "running"
    told = next(one["message"] for one in run.messages if gpu in one["message"])
    past = {"stop": "stopped", "terminate": "terminated"}[ending]
    assert f"It will be {past} at {run.step(gpu)['because']['deadline']}" in told
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
    assert run.step(gpu)["because"]["only_told"] == why
    assert any(gpu in one["message"] for one in run.messages)
    again = account.tick()
    assert again.is_quiet and again.spared == {"told": 1}
    assert run.ec2_writes == []
    return run


@pytest.mark.parametrize("ending", ["stop", "terminate"])
def test_idle(account: Account, ending: str) -> None:
    account.configure(idle={"action": ending})
    gpu = account.idle(account.gpu())
    because = assert_announced(account, gpu, "idle", ending).step(gpu)["because"]
    assert (because["devices"], because["gpu_max_percent"], because["reserved"]) == (1, 0.0, False)
    assert because["coverage_percent"] == 100
    assert (moment(because["to"]) - moment(because["from"])).total_seconds() == 900
    assert 10 * 60 <= (now() - moment(because["to"])).total_seconds() < 16 * 60
    assert_ended(account, gpu, "idle", ending)


@pytest.mark.parametrize("window", ["0s", "5m", "15m", "1h"])
def test_idle_over_any_window(account: Account, window: str) -> None:
    account.configure(idle={"window": window})
    gpu = account.idle(account.gpu())
    account.tick()
    assert_ended(account, gpu, "idle", "stop")


def test_idle_by_the_words_of_its_tags(account: Account) -> None:
    account.configure(idle={"window": "30d", "action": "notify", "local_disk": "keep"})
    tags = {"curfew:idle-after": "5m", "curfew:on-idle": "terminate", "curfew:local-disk": "expendable"}
    gpu = account.idle(account.gpu(tags=tags))
    assert_announced(account, gpu, "idle", "terminate")
    assert_ended(account, gpu, "idle", "terminate")


def test_idle_needs_every_gpu(account: Account) -> None:
    """g5.12xlarge has four."""
    three = account.idle(account.gpu("g5.12xlarge"), gpus=3)
    four = account.idle(account.gpu("g5.12xlarge"), gpus=4)
    run = account.tick()
    assert run.said(four) == ("mark", "idle", "done")
    assert run.spared == {"usage-unknown": 1}
    assert f"{three} (" in run.message() and "3 of its 4 accelerators report" in run.message()


@pytest.mark.parametrize(
    ("metric", "value"), [("CPUUtilization", 50.0), ("NetworkIn", 3e8), ("NetworkOut", 3e8), ("EBSWriteBytes", 3e8)]
)
def test_any_sign_of_work_is_work(account: Account, metric: str, value: float) -> None:
    gpu = account.idle(account.gpu())
    account.reports(gpu, metric, [value])
    run = account.tick()
    assert (run.steps, run.spared) == ([], {"busy": 1})


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
    assert account.tick().spared == {"usage-unknown": 1}
    own = {"instance": gpu, "gpu": "0"}
    account.aws.put_metrics("ML", "gpu_busy", own, [0.0] * 24, ago(hours=2))
    account.aws.client("s3").delete_object(Bucket="curfew-state", Key=f"activity/{REGION}.json")
    assert_announced(account, gpu, "idle", "stop")


def test_trainium_with_a_metric_configured(account: Account) -> None:
    names = {"namespace": "Neuron", "utilization": "core", "memory_used_mib": "", "device_dimension": "core"}
    account.configure(metrics={"neuron": {**names, "instance_dimension": "InstanceId", "host_dimension": ""}})
    gpu = account.gpu("inf2.xlarge")
    for metric, value in (("CPUUtilization", 0.2), ("NetworkIn", 100.0), ("NetworkOut", 100.0)):
        account.reports(gpu, metric, [value] * 24)
    account.aws.put_metrics("Neuron", "core", {"InstanceId": gpu, "core": "0"}, [0.0] * 24, ago(hours=2))
    assert_announced(account, gpu, "idle", "stop")


def test_series_by_host_name(account: Account) -> None:
    """The CloudWatch agent without `append_dimensions`."""
    gpu = account.idle(account.gpu("g5.12xlarge", private_dns_name="ip-10-1-2-3.ec2.internal"), gpus=0)
    for index in range(4):
        host = {"host": "ip-10-1-2-3", "index": str(index), "name": "A10G", "arch": "Ampere"}
        account.aws.put_metrics("CWAgent", "nvidia_smi_utilization_gpu", host, [0.0] * 24, ago(hours=2))
    assert_announced(account, gpu, "idle", "stop")


@pytest.mark.parametrize("ending", ["stop", "terminate"])
@pytest.mark.parametrize("tags", [{}, {"Team": "vision"}, {"Team": "vision", "Owner": " "}])
def test_untagged(account: Account, ending: str, tags: dict[str, str]) -> None:
    account.configure(untagged={"action": ending})
    gpu = account.untagged("inf2.xlarge", EUROPE, tags=tags)
    run = assert_announced(account, gpu, "untagged", ending, EUROPE)
    assert run.step(gpu)["because"]["missing"] == (["Owner"] if tags else ["Team", "Owner"])
    assert_ended(account, gpu, "untagged", ending, EUROPE)


def test_untagged_by_other_keys(account: Account) -> None:
    account.configure(tags={"team": "team", "owner": "contact", "required": ["team", "cost-centre"]})
    gpu = account.untagged(tags={"team": "nlp", "contact": "grace"})
    run = account.tick()
    assert run.step(gpu)["because"]["missing"] == ["cost-centre"]
    assert run.step(gpu)["team"] == "nlp"
    assert "owner grace" in run.message("nlp")


def test_untagged_has_time_to_settle(account: Account) -> None:
    account.configure(untagged={"settle": "10m"})
    account.untagged(launched=ago(minutes=8))
    old = account.untagged(launched=ago(minutes=12))
    run = account.tick()
    assert run.said(old) == ("mark", "untagged", "done")
    assert run.spared == {"young": 1}


def test_untagged_and_busy_is_told_and_left(account: Account) -> None:
    gpu = account.busy(account.untagged())
    run = account.tick()
    assert run.said(gpu) == ("notify", "untagged", "done")
    assert run.step(gpu)["because"]["only_told"] == "busy"
    assert account.tick().is_quiet


def test_untagged_and_busy_is_ended_where_work_does_not_count(account: Account) -> None:
    account.configure(untagged={"spare_busy": False})
    gpu = account.busy(account.untagged())
    account.tick()
    assert_ended(account, gpu, "untagged", "stop")


def test_tagged_in_time_the_mark_goes(account: Account) -> None:
    account.configure(untagged={"grace": "24h"}, idle={"window": "60d"})
    gpu = account.untagged()
    run = assert_announced(account, gpu, "untagged", "stop")
    wait = moment(run.step(gpu)["because"]["deadline"]) - now()
    assert 23.9 * 3600 < wait.total_seconds() <= 24 * 3600
    assert account.tick().spared == {"marked": 1}
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


def test_lifetime_is_only_told_where_nothing_says_otherwise(account: Account) -> None:
    gpu = account.busy(account.gpu(launched=ago(days=8)))
    assert_told_only(account, gpu, "lifetime", "configured")


@pytest.mark.parametrize(
    ("tags", "fields", "ending"),
    [
        ({}, {}, "stop"),
        ({"curfew:on-idle": "terminate"}, {}, "terminate"),
        ({"curfew:job": "vision/llama-1"}, {}, "terminate"),
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


def test_expired_comes_before_everything_else(account: Account) -> None:
    gpu = account.busy(account.untagged(tags={"curfew:expires-at": rfc3339(ago(minutes=5)), "curfew:job": "a/b"}))
    account.of_job(gpu, "a/b")
    assert_ended(account, gpu, "expired", "terminate")


def test_not_yet_expired_is_left_alone_however_old(account: Account) -> None:
    account.configure(lifetime={"action": "terminate"})
    tags = {"curfew:expires-at": rfc3339(now().replace(year=now().year + 1)), "curfew:idle-after": "off"}
    account.gpu(launched=ago(days=300), tags=tags)
    run = account.tick()
    assert (run.steps, run.spared) == ([], {"compliant": 1})


def test_each_rule_keeps_its_own_deadline(account: Account) -> None:
    account.configure(idle={"grace": "2h"}, untagged={"grace": "24h"}, lifetime={"grace": "0s", "action": "notify"})
    gpu = account.idle(account.untagged(launched=ago(days=8)))
    run = account.tick()
    assert run.step(gpu)["action"] == "mark"
    entries = dict(entry.split("=") for entry in (account.mark(gpu) or "").split(" ")[1:])
    assert {rule: entry.split("@")[0] for rule, entry in entries.items()} == {"idle": "stop", "untagged": "stop"}
    hours = {rule: (moment(entry.split("@")[1]) - now()).total_seconds() / 3600 for rule, entry in entries.items()}
    assert 1.9 < hours["idle"] <= 2 and 23.9 < hours["untagged"] <= 24
    assert "it lacks the required tags" in run.message("untagged") and "idle from" in run.message("untagged")


def test_work_after_the_announcement_calls_it_off(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.tick()
    account.wakes_up(gpu)
    run = account.tick()
    assert run.said(gpu) == ("unmark", "idle", "done")
    assert account.mark(gpu) is None and account.state(gpu) == "running"
    assert account.tick().is_quiet


def test_metrics_that_fall_silent_neither_end_nor_unmark(account: Account) -> None:
    account.configure(idle={"grace": "0s"})
    gpu = account.idle(account.gpu())
    account.tick()
    account.aws.fault("cloudwatch:GetMetricData", "access_denied", times=None)
    run = account.tick()
    assert run.steps == [] and run.spared == {"marked": 1}
    assert account.mark(gpu) is not None
    account.aws.clear_faults()
    assert_ended(account, gpu, "idle", "stop")


@pytest.mark.parametrize(
    "mark",
    [
        "i-0123456789abcdef0 idle=stop@{past}",  # copied from another
        "{gpu} idle=stop@2020-01-01T00:00:00Z",  # of an earlier life
        "{gpu} untagged=stop@{past}",  # of another rule
    ],
)
def test_a_mark_that_is_not_its_own_is_no_reason(account: Account, mark: str) -> None:
    account.configure(idle={"grace": "1h"})
    gpu = account.idle(account.gpu())
    account.tag(gpu, marked=mark.format(gpu=gpu, past=rfc3339(ago(minutes=5))))
    run = account.tick()
    assert run.said(gpu) == ("mark", "idle", "done")
    assert account.mark(gpu) == mark_of(gpu, run, "idle", "stop")
    assert gpu in run.message()


def test_a_milder_announcement_is_told_anew(account: Account) -> None:
    gpu = account.idle(account.gpu(tags={"curfew:on-idle": "terminate"}))
    account.tag(gpu, marked=f"{gpu} idle=stop@{rfc3339(ago(minutes=5))}")
    assert_announced(account, gpu, "idle", "terminate")
    assert_ended(account, gpu, "idle", "terminate")


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


def test_reserved_is_only_told(account: Account) -> None:
    gpu = account.idle(account.gpu(), memory_mib=18_000)
    run = assert_told_only(account, gpu, "idle", "reserved")
    assert run.step(gpu)["because"]["reserved"] is True
    assert run.step(gpu)["because"]["gpu_memory_held_mib"] == 18_000


def test_a_disk_that_may_go_after_all_is_not_waited_for(account: Account) -> None:
    account.configure(idle={"local_disk": "keep", "window": "1h"})
    gpu = account.idle(account.gpu())
    assert account.tick().step(gpu)["because"]["only_told"] == "local-disk"
    account.tag(gpu, local_disk="expendable")
    assert_announced(account, gpu, "idle", "stop")


def test_a_tag_that_is_lost_is_announced_at_once(account: Account) -> None:
    gpu = account.gpu()
    assert account.tick().spared == {"usage-unknown": 1}
    account.aws.change(untag={"resource": gpu, "region": REGION, "keys": ["Owner"]})
    assert account.tick().said(gpu) == ("mark", "untagged", "done")


def test_a_notify_only_rule_hides_no_acting_one(account: Account) -> None:
    gpu = account.idle(account.gpu(launched=ago(days=8)))
    assert_announced(account, gpu, "idle", "stop")
    assert account.tick().said(gpu) == ("stop", "idle", "done")


def test_one_time_spot_is_terminated_where_its_tag_says_so(account: Account) -> None:
    gpu = account.idle(account.gpu(spot_instance_request="one-time", tags={"curfew:on-idle": "terminate"}))
    assert_announced(account, gpu, "idle", "terminate")
    assert_ended(account, gpu, "idle", "terminate")


def test_an_expired_persistent_spot_is_only_told(account: Account) -> None:
    gpu = account.gpu(spot_instance_request="persistent", tags={"curfew:expires-at": rfc3339(ago(minutes=5))})
    assert_told_only(account, gpu, "expired", "persistent-spot")


def test_local_disk_that_is_kept_holds_for_every_rule_but_expired(account: Account) -> None:
    account.configure(lifetime={"action": "stop"})
    keep = {"curfew:local-disk": "keep", "curfew:idle-after": "off"}
    old = account.gpu(launched=ago(days=8), tags=keep)
    bare = account.untagged(tags=keep)
    expired = account.gpu(tags={**keep, "curfew:expires-at": rfc3339(ago(minutes=1))})
    run = account.tick()
    assert run.step(old)["because"]["only_told"] == "local-disk"
    assert run.step(bare)["because"]["only_told"] == "local-disk"
    assert run.said(expired) == ("stop", "expired", "done")
