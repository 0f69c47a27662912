"""Every way to be spared: nothing is written on EC2, and who should hear of it hears of it once."""

from __future__ import annotations

from typing import Any

import pytest

from reaping import KEPT, Account, Run, ago, rfc3339

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
        assert (run.steps, run.skipped) == ([], {reason: 1})
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


@pytest.mark.parametrize("until", KEPT)
def test_kept(account: Account, until: str) -> None:
    gpu = doomed(account, tags={"curfew:keep-until": KEPT[until]()})
    assert assert_spared(account, gpu, "kept").messages == []


UNREADABLE = [  # one of a value, of a moment before its launch, of a key; all of them are tested in model::vocabulary
    ("curfew:idle-after", "soon"),
    ("curfew:expires-at", "2020-01-01T00:00:00Z"),
    ("curfew:protectd", ""),
]


def test_unreadable(account: Account) -> None:
    gpus = {(key, value): doomed(account, tags={key: value}) for key, value in UNREADABLE}
    first, second = account.tick(), account.tick()
    for run in (first, second):
        assert (run.steps, run.skipped, run.ec2_writes) == ([], {"unreadable": len(gpus)}, [])
    assert second.is_quiet
    assert first.severities() == {"vision": "warning"}
    paragraphs = first.message().split("\n\n")
    for (key, value), gpu in gpus.items():
        said = [one for one in paragraphs if one.startswith(gpu)]
        assert len(said) == 1 and f"{key}={value} cannot be read" in said[0]


# Keys that begin with `aws:` cannot be set by a caller: those come by the back door.
FOREIGN = [  # all of them are tested in model::foreign
    "aws:autoscaling:groupName",
    "eks:cluster-name",
    "spacelift",
]


def test_foreign_owned(account: Account) -> None:
    gpus = {key: doomed(account) for key in FOREIGN}
    account.configure(managed={"tag_keys": ["spacelift"]}, lifetime={"action": "terminate"})
    for key, gpu in gpus.items():
        account.aws.change(tag={"resource": gpu, "region": "us-east-1", "tags": {key: "its-controller"}})
    first, second = account.tick(), account.tick()
    for run in (first, second):
        assert (run.steps, run.skipped, run.ec2_writes) == ([], {"foreign-owned": len(gpus)}, [])
    assert second.is_quiet
    assert first.severities() == {"vision": "info"}
    for gpu in gpus.values():
        assert account.mark(gpu) is not None, "not even that is touched"
        assert f"{gpu} (" in first.message()


OF_JOB = {"curfew:job": "vision/a-0123abcd", "curfew:attempt": "1", "curfew:mode": "enforce"}


def test_the_machine_of_a_live_job_is_not_judged(account: Account) -> None:
    gpu = account.of_job(account.idle(account.gpu(launched=ago(days=9), tags=OF_JOB)))
    account.configure(lifetime={"action": "stop"})
    run = account.tick()
    assert (run.steps, run.skipped) == ([], {"live-job": 1}) and run.is_quiet
    assert run.counts["cloudwatch:GetMetricData"] == 0, "nothing would follow from the answer"
    assert account.state(gpu) == "running"


def test_of_a_job_that_cannot_be_read_nobody_can_say(account: Account) -> None:
    account.configure(untagged={"mode": "enforce", "grace": "0s"})
    account.idle(account.gpu(tags=OF_JOB))
    account.put("jobs/vision/a-0123abcd/state.json", b"half a docu")
    for _ in range(2):
        run = account.tick()
        assert (run.steps, run.skipped) == ([], {"job-unknown": 1})
        assert any(gap["call"] == "s3:GetObject" for gap in run.response["gaps"])


@pytest.mark.parametrize("known", [True, False], ids=["of another machine", "of no job"])
def test_a_stranger_is_told_with_its_price_and_judged_as_untagged(account: Account, known: bool) -> None:
    if known:
        account.of_job("i-0123456789abcdef0")
    account.configure(untagged={"mode": "enforce", "grace": "1h"}, idle={"grace": "2h"})
    gpu = account.idle(account.gpu(tags=OF_JOB))
    first = account.tick()
    step = first.step(gpu)
    assert (step["action"], step["evidence"]["rule"], step["outcome"]) == ("mark", "untagged", "done")
    assert (step["evidence"]["missing"], step["evidence"]["disowned_by"]) == ([], "vision/a-0123abcd")
    told = first.message()
    assert "vision/a-0123abcd" in told and "copied" in told and "$1.01/h" in told
    assert "untagged=stop@" in (account.mark(gpu) or "")
    assert account.tick().is_quiet, "it is told once"


def test_without_metrics_nobody_can_say(account: Account) -> None:
    gpu = account.gpu()
    first = account.tick()
    assert (first.steps, first.skipped) == ([], {"usage-unknown": 1})
    assert first.severities() == {"vision": "info"}
    told = first.message()
    assert gpu in told and "uninstrumented" in told and "$1.01/h" in told and "install" in told
    assert account.tick().is_quiet
