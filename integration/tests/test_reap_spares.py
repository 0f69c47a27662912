"""Every way to be spared: nothing is written on EC2, and who should hear of it hears of it once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reaping import KEPT, NO_LONGER_KEPT, Account, Run, ago, now, rfc3339

# Everything that could be held against an instance, so that each spare has something to spare from.
DUE: dict[str, Any] = {"launched": ago(days=30)}


def doomed(account: Account, **gpu: Any) -> str:
    """Idle, too old, and announced for both, past the deadlines: it ends in this run unless something spares it."""
    account.configure(lifetime={"action": "terminate"})
    gpu_id = account.idle(account.gpu(**{**DUE, **gpu}))
    past = rfc3339(ago(minutes=5))
    account.tag(gpu_id, marked=f"{gpu_id} idle=stop@{past} lifetime=terminate@{past}")
    return gpu_id


def assert_spared(account: Account, gpu: str, reason: str) -> Run:
    """Spared for that reason in two runs, of which the second says nothing."""
    first, second = account.tick(), account.tick()
    for run in (first, second):
        assert (run.steps, run.spared) == ([], {reason: 1})
        assert run.ec2_writes == []
    assert account.state(gpu) == "running" and account.mark(gpu) is not None
    assert second.is_quiet
    return first


def test_without_a_spare_it_would_end(account: Account) -> None:
    gpu = doomed(account)
    assert account.tick().step(gpu)["action"] in ("stop", "terminate")


@pytest.mark.parametrize("value", ["", "yes", "false"])
def test_protected(account: Account, value: str) -> None:
    gpu = doomed(account, tags={"curfew:protected": value})
    run = assert_spared(account, gpu, "protected")
    assert run.messages == []
    assert run.counts["cloudwatch:GetMetricData"] == 0


def test_protected_and_expired_without_any_other_tag(account: Account) -> None:
    gpu = account.untagged(tags={"curfew:protected": "", "curfew:expires-at": rfc3339(ago(hours=1))})
    run = account.tick()
    assert run.spared == {"protected": 1} and run.is_quiet
    assert account.aws.tags(gpu).keys() == {"curfew:protected", "curfew:expires-at"}


@pytest.mark.parametrize("until", KEPT)
def test_kept(account: Account, until: str) -> None:
    gpu = doomed(account, tags={"curfew:keep-until": KEPT[until]()})
    assert assert_spared(account, gpu, "kept").messages == []


@pytest.mark.parametrize("until", NO_LONGER_KEPT)
def test_kept_no_longer_it_is_announced_anew(account: Account, until: str) -> None:
    gpu = account.idle(account.gpu(tags={"curfew:keep-until": NO_LONGER_KEPT[until]()}))
    assert account.tick().said(gpu) == ("mark", "idle", "done")


UNREADABLE = [
    ("curfew:idle-after", "soon"),
    ("curfew:idle-after", ""),
    ("curfew:on-idle", "explode"),
    ("curfew:mode", "Enforce"),
    ("curfew:local-disk", "yes"),
    ("curfew:expires-at", "tomorrow"),
    ("curfew:expires-at", "2020-01-01T00:00:00Z"),  # before its launch: copied
    ("curfew:hours", "9 to 5"),
    ("curfew:hours", "Mon-Fri 08:00-20:00 Europe/Atlantis"),
    ("curfew:keep-until", "forever"),
    ("curfew:stopped", "yesterday"),
    ("Curfew:Protected", ""),
    ("curfew:protectd", ""),
    ("CURFEW:MODE", "enforce"),
    ("curfew", "please"),
    ("curfewed", ""),
]


def test_unreadable(account: Account) -> None:
    gpus = {(key, value): doomed(account, tags={key: value}) for key, value in UNREADABLE}
    first, second = account.tick(), account.tick()
    for run in (first, second):
        assert (run.steps, run.spared, run.ec2_writes) == ([], {"unreadable": len(gpus)}, [])
    assert second.is_quiet
    assert first.severities() == {"vision": "warning"}
    paragraphs = first.message().split("\n\n")
    for (key, value), gpu in gpus.items():
        said = [one for one in paragraphs if one.startswith(gpu)]
        assert len(said) == 1 and f"{key}={value} cannot be read" in said[0]


def test_an_unreadable_mark_is_not_carried_out(account: Account) -> None:
    gpu = doomed(account)
    account.tag(gpu, marked="stop it")
    assert_spared(account, gpu, "unreadable")


def test_an_unreadable_tag_spares_even_from_its_expiry(account: Account) -> None:
    gpu = account.gpu(tags={"curfew:expires-at": rfc3339(ago(hours=1)), "curfew:keep-untill": "2999-01-01"})
    run = account.tick()
    assert (run.steps, run.spared) == ([], {"unreadable": 1})
    assert account.state(gpu) == "running"


def test_a_tag_that_was_mended_is_no_longer_a_finding(account: Account) -> None:
    gpu = doomed(account, tags={"curfew:idle-after": "soon"})
    account.tick()
    account.tag(gpu, idle_after="15m")
    assert account.tick().step(gpu)["action"] in ("stop", "terminate")


# Keys that begin with `aws:` cannot be set by a caller: those come by the back door.
FOREIGN = [
    "aws:autoscaling:groupName",
    "aws:ec2:fleet-id",
    "aws:ec2spot:fleet-request-id",
    "eks:cluster-name",
    "eks:nodegroup-name",
    "kubernetes.io/cluster/ml",
    "karpenter.sh/nodepool",
    "aws:ecs:clusterName",
    "aws:elasticmapreduce:job-flow-id",
    "aws:batch:compute-environment",
    "AWSBatchServiceTag",
    "parallelcluster:cluster-name",
    "sagemaker:domain-arn",
    "spacelift",
]


def test_foreign_owned(account: Account) -> None:
    gpus = {key: doomed(account) for key in FOREIGN}
    account.configure(managed={"tag_keys": ["spacelift"]}, lifetime={"action": "terminate"})
    for key, gpu in gpus.items():
        account.aws.change(tag={"resource": gpu, "region": "us-east-1", "tags": {key: "its-controller"}})
    first, second = account.tick(), account.tick()
    for run in (first, second):
        assert (run.steps, run.spared, run.ec2_writes) == ([], {"foreign-owned": len(gpus)}, [])
    assert second.is_quiet
    assert first.severities() == {"vision": "info"}
    for gpu in gpus.values():
        assert account.mark(gpu) is not None, "not even that is touched"
        assert f"{gpu} (" in first.message()


def test_managed_by_an_operator(account: Account) -> None:
    gpu = doomed(account, operator_managed=True)
    assert_spared(account, gpu, "foreign-owned")


def test_in_a_capacity_block(account: Account) -> None:
    gpu = doomed(account, lifecycle="capacity-block")
    assert_spared(account, gpu, "foreign-owned")


def test_foreign_owned_and_well_is_not_even_mentioned(account: Account) -> None:
    account.busy(account.gpu(tags={"eks:cluster-name": "ml"}))
    run = account.tick()
    assert run.spared == {"foreign-owned": 1} and run.is_quiet


def test_foreign_owned_is_not_ended_for_its_own_expiry(account: Account) -> None:
    gpu = account.gpu(tags={"eks:cluster-name": "ml", "curfew:expires-at": rfc3339(ago(hours=1))})
    run = account.tick()
    assert (run.spared, run.ec2_writes) == ({"foreign-owned": 1}, [])
    assert "expired" in run.message() and account.state(gpu) == "running"


def test_a_fleet_is_no_job_whatever_its_instances_say(account: Account) -> None:
    gpu = account.gpu(tags={"curfew:job": "vision/a-1", "curfew:expires-at": rfc3339(ago(minutes=5))})
    account.aws.change(tag={"resource": gpu, "region": "us-east-1", "tags": {"aws:ec2:fleet-id": "fleet-1"}})
    assert account.tick().spared == {"foreign-owned": 1}


OF_JOB = {"curfew:job": "vision/a-1", "curfew:attempt": "1", "curfew:mode": "enforce"}


def test_the_machine_of_a_live_job_is_not_judged(account: Account) -> None:
    gpu = account.of_job(account.idle(account.gpu(launched=ago(days=9), tags=OF_JOB)))
    account.configure(lifetime={"action": "stop"})
    run = account.tick()
    assert (run.steps, run.spared) == ([], {"live-job": 1}) and run.is_quiet
    assert run.counts["cloudwatch:GetMetricData"] == 0, "nothing would follow from the answer"
    assert account.state(gpu) == "running"


def test_a_job_is_looked_up_once_whoever_names_it(account: Account) -> None:
    account.of_job(account.gpu(tags=OF_JOB))
    alone = account.tick().counts["s3:GetObject"]
    for _ in range(3):
        account.gpu(tags=OF_JOB)
    assert account.tick().counts["s3:GetObject"] == alone


def test_of_a_job_that_cannot_be_read_nobody_can_say(account: Account) -> None:
    account.configure(untagged={"mode": "enforce", "grace": "0s"})
    account.idle(account.gpu(tags=OF_JOB))
    account.put("jobs/vision/a-1/state.json", b"half a docu")
    for _ in range(2):
        run = account.tick()
        assert (run.steps, run.spared) == ([], {"job-unknown": 1})
        assert any(gap["call"] == "s3:GetObject" for gap in run.response["gaps"])


@pytest.mark.parametrize("known", [True, False], ids=["of another machine", "of no job"])
def test_a_stranger_is_told_with_its_price_and_judged_as_untagged(account: Account, known: bool) -> None:
    if known:
        account.of_job("i-0123456789abcdef0")
    account.configure(untagged={"mode": "enforce", "grace": "1h"}, idle={"grace": "2h"})
    gpu = account.idle(account.gpu(tags=OF_JOB))
    first = account.tick()
    step = first.step(gpu)
    assert (step["action"], step["because"]["rule"], step["outcome"]) == ("mark", "untagged", "done")
    assert (step["because"]["missing"], step["because"]["disowned_by"]) == ([], "vision/a-1")
    told = first.message()
    assert "vision/a-1" in told and "copied" in told and "$1.01/h" in told
    assert "untagged=stop@" in (account.mark(gpu) or "")
    assert account.tick().is_quiet, "it is told once"


def test_a_stranger_is_ended_by_the_accounts_word_alone(account: Account) -> None:
    """Its own curfew:mode=enforce was copied with the rest."""
    gpu = account.idle(account.gpu(tags=OF_JOB))
    account.configure(untagged={"mode": "observe", "grace": "0s"})
    for _ in range(3):
        assert account.tick().ec2_writes == []
    assert account.state(gpu) == "running"


def test_without_metrics_nobody_can_say(account: Account) -> None:
    gpu = account.gpu()
    first = account.tick()
    assert (first.steps, first.spared) == ([], {"usage-unknown": 1})
    assert first.severities() == {"vision": "info"}
    told = first.message()
    assert gpu in told and "uninstrumented" in told and "$1.01/h" in told and "install" in told
    assert account.tick().is_quiet


@pytest.mark.parametrize("instance_type", ["trn1.32xlarge", "inf2.xlarge"])
def test_trainium_and_inferentia_are_of_unknown_use(account: Account, instance_type: str) -> None:
    gpu = account.idle(account.gpu(instance_type))
    run = account.tick()
    assert run.spared == {"usage-unknown": 1}
    assert gpu in run.message() and "[metrics]" in run.message()


@pytest.mark.parametrize("periods", [1, 2])
def test_too_few_samples_are_unknown(account: Account, periods: int) -> None:
    """Of a window of an hour only the last 5 to 10 minutes' periods, or twice that, reported."""
    account.configure(idle={"window": "1h"})
    gpu = account.gpu()
    device = {"InstanceId": gpu, "index": "0"}
    values = [0.0] * (3 + periods)
    start = now() - timedelta(minutes=5) * len(values)
    account.aws.put_metrics("CWAgent", "nvidia_smi_utilization_gpu", device, values, start)
    for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        account.reports(gpu, metric, [0.1] * 24)
    run = account.tick()
    assert (run.steps, run.spared) == ([], {"usage-unknown": 1})


def test_without_cpu_metrics_the_gpu_alone_does_not_convict(account: Account) -> None:
    gpu = account.gpu()
    device = {"InstanceId": gpu, "index": "0"}
    account.aws.put_metrics("CWAgent", "nvidia_smi_utilization_gpu", device, [0.0] * 24, ago(hours=2))
    assert account.tick().spared == {"usage-unknown": 1}


def test_two_with_one_host_name_are_told_apart_by_nobody(account: Account) -> None:
    """Private DNS names repeat across VPCs."""
    for _ in range(2):
        account.idle(account.gpu(private_dns_name="ip-10-0-0-1.ec2.internal"), gpus=0)
    device = {"host": "ip-10-0-0-1", "index": "0"}
    account.aws.put_metrics("CWAgent", "nvidia_smi_utilization_gpu", device, [0.0] * 24, ago(hours=2))
    run = account.tick()
    assert (run.steps, run.spared) == ([], {"usage-unknown": 2})


def test_busy(account: Account) -> None:
    account.busy(account.gpu())
    run = account.tick()
    assert run.spared == {"busy": 1} and run.is_quiet


def test_young(account: Account) -> None:
    account.idle(account.gpu(launched=ago(minutes=30)))
    run = account.tick()
    assert run.spared == {"young": 1} and run.is_quiet


def test_idle_after_off_is_never_idle(account: Account) -> None:
    account.idle(account.gpu(tags={"curfew:idle-after": "off"}))
    run = account.tick()
    assert run.spared == {"compliant": 1} and run.is_quiet
    assert run.counts["cloudwatch:GetMetricData"] == 0


@pytest.mark.parametrize(
    ("state", "reason"),
    [("pending", "young"), ("stopped", "not-running"), ("stopping", "not-running"), ("shutting-down", "not-running")],
)
def test_what_does_not_run_costs_nothing_and_is_left_alone(account: Account, state: str, reason: str) -> None:
    account.untagged(state=state)
    run = account.tick()
    assert (run.response["seen"], run.spared) == (1, {reason: 1}) and run.is_quiet


def test_fractional_gpus_count_as_their_logical_ones(account: Account) -> None:
    gpu = account.idle(account.gpu("g6f.large"))
    assert account.tick().said(gpu) == ("mark", "idle", "done")
