"""Tell, then mark: what SNS, CreateTags and the bucket refuse, and what that must not lead to."""

from __future__ import annotations

import json

import pytest

from local_aws.client import REGION
from reaping import EUROPE, Account, ago, rfc3339

NOTICES = f"notices/reap-instances/{REGION}.json"


@pytest.mark.parametrize("fault", ["access_denied", "scp_denied"])
def test_what_nobody_heard_is_not_marked(account: Account, fault: str) -> None:
    gpu = account.idle(account.gpu())
    account.aws.fault("sns:Publish", fault, times=None)
    run = account.tick()
    assert run.said(gpu) == ("mark", "idle", "not-reached")
    assert "could not be told" in run.step(gpu)["error"]
    assert run.ec2_writes == [] and account.mark(gpu) is None
    assert [gap["call"] for gap in run.gaps] == ["sns:Publish"]
    account.aws.clear_faults()
    after = account.tick()
    assert after.said(gpu) == ("mark", "idle", "done")
    assert gpu in after.message()


def test_one_team_that_cannot_be_told_holds_up_no_other(account: Account) -> None:
    ours, theirs = account.idle(account.gpu()), account.idle(account.gpu(tags={"Team": "nlp"}))
    account.aws.fault("sns:Publish", "access_denied", match="nlp", times=None)
    run = account.tick()
    assert run.said(ours) == ("mark", "idle", "done")
    assert run.said(theirs) == ("mark", "idle", "not-reached")


def test_without_a_mark_on_the_resource_nothing_is_ended(account: Account) -> None:
    """However long ago the announcement was: the role may stop only what carries it."""
    gpu = account.idle(account.gpu())
    account.aws.fault("ec2:CreateTags", "access_denied", times=None)
    for _ in range(3):
        assert account.tick().said(gpu) == ("mark", "idle", "failed")
    assert account.state(gpu) == "running"


@pytest.mark.parametrize("fault", ["access_denied", "schema"])
def test_a_region_whose_notices_cannot_be_read_is_not_judged(account: Account, fault: str) -> None:
    here, there = account.idle(account.gpu()), account.idle(account.gpu(region=EUROPE), EUROPE)
    account.tick()
    account.tag(here, marked=f"{here} idle=stop@{rfc3339(ago(minutes=5))}")
    if fault == "access_denied":
        account.aws.fault("s3:GetObject", "access_denied", match=NOTICES, times=None)
    else:
        account.put(NOTICES, b'{"schema": 99}')
    for _ in range(2):
        run = account.tick()
        assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "s3:GetObject")]
        assert NOTICES in run.gaps[0]["error"]
        assert here not in {step["resource"] for step in run.steps}
        assert account.state(here) == "running"
    assert account.state(there, EUROPE) == "stopped", "the other region is done"


def test_without_an_audit_record_nothing_is_ended(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.tick()
    other = account.idle(account.gpu())
    expired = account.gpu(tags={"curfew:expires-at": rfc3339(ago(minutes=1))})
    account.aws.fault("s3:PutObject", "access_denied", match="plans/", times=None)
    run = account.tick()
    for one in (gpu, expired):
        assert run.step(one)["outcome"] == "not-reached"
        assert "audit record" in run.step(one)["error"]
        assert account.state(one) == "running"
    assert run.said(other) == ("mark", "idle", "done"), "what ends nothing is done"
    assert "s3:PutObject" in {gap["call"] for gap in run.gaps}
    account.aws.clear_faults()
    run = account.tick()
    assert {run.step(one)["outcome"] for one in (gpu, expired)} == {"done"}


def test_a_record_is_written_before_anything_is_ended(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.tick()
    actions = [call["action"] for call in account.tick().calls]
    assert actions.index("s3:PutObject") < actions.index("ec2:StopInstances")
    assert actions.index("ec2:CreateTags") < actions.index("ec2:StopInstances"), "the trace comes first"
    assert account.state(gpu) == "stopped"


def test_a_message_comes_before_its_mark(account: Account) -> None:
    account.idle(account.gpu())
    actions = [call["action"] for call in account.tick().calls]
    assert actions.index("sns:Publish") < actions.index("ec2:CreateTags")


def test_names_that_nobody_foresaw(account: Account) -> None:
    """A message must not fail by its title, nor by what people call their machines."""
    tags = {"Team": "Team ñ 🚀 " + "x" * 200, "Owner": "<script>", "Name": "a\nb\tc"}
    gpu = account.idle(account.gpu(tags=tags))
    run = account.tick()
    assert run.said(gpu) == ("mark", "idle", "done")
    assert run.messages[0]["attributes"]["team"] == tags["Team"].strip()
    subject = run.messages[0]["subject"]
    assert subject.isascii() and len(subject) < 100 and "\n" not in subject
    json.dumps(run.response)
