"""Who is enforced and who is only observed; and that observing writes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from local_aws import LocalAws
from local_aws.client import REGION
from reaping import EC2_WRITES, EUROPE, Account, ago, rfc3339


def full_house(account: Account) -> dict[str, str]:
    """One case of everything that a run could act on, each due in this very run."""
    account.configure(lifetime={"action": "stop"}, limits={"actions_max": 100})
    past = rfc3339(ago(minutes=5))
    stopped = account.gpu(tags={"curfew:hours": "Mon-Sun 00:00-24:00 UTC", "curfew:stopped": f"hours {past}"})
    account.aws.set_instance(stopped, state="stopped")
    house = {
        "idle": account.idle(account.gpu()),
        "untagged": account.untagged("inf2.xlarge", EUROPE),
        "lifetime": account.gpu(launched=ago(days=9), tags={"curfew:idle-after": "off"}),
        "expired": account.gpu(tags={"curfew:expires-at": past}),
        "job": account.of_job(account.gpu(tags={"curfew:expires-at": past, "curfew:job": "vision/a-0123abcd"})),
        "mended": account.busy(account.gpu()),
        "copied": account.idle(account.gpu()),
    }
    for rule, region in (("idle", REGION), ("untagged", EUROPE), ("lifetime", REGION)):
        account.tag(house[rule], region, marked=f"{house[rule]} {rule}=stop@{past}")
    account.tag(house["mended"], marked=f"{house['mended']} idle=stop@{past}")
    account.tag(house["copied"], marked=f"i-0123456789abcdef0 idle=stop@{past}")
    return house


def test_enforce_acts_on_all_of_it(account: Account) -> None:
    house = full_house(account)
    run = account.tick()
    assert {name: run.said(gpu) for name, gpu in house.items()} == {
        "idle": ("stop", "idle", "done"),
        "untagged": ("stop", "untagged", "done"),
        "lifetime": ("stop", "lifetime", "done"),
        "expired": ("stop", "expired", "done"),
        "job": ("terminate", "expired", "done"),
        "mended": ("unmark", "idle", "done"),
        "copied": ("mark", "idle", "done"),
    }


@pytest.mark.parametrize("mode", ["observe", None])
def test_curfew_mode_observe_writes_nothing_and_tells(account: Account, mode: str | None) -> None:
    """Also where the variable is absent."""
    house = full_house(account)
    account.restart(CURFEW_MODE=mode)
    before = {gpu: account.aws.tags(gpu, EUROPE if name == "untagged" else REGION) for name, gpu in house.items()}
    runs = [account.tick() for _ in range(3)]
    for run in runs:
        assert run.response["mode"] == "observe"
        assert {step["outcome"] for step in run.steps} <= {"observed"}
        assert run.ec2_writes == [] and not EC2_WRITES & set(run.counts)
    acting = {"idle": "stop", "untagged": "stop", "lifetime": "stop", "expired": "stop", "job": "terminate"}
    assert {name: runs[0].step(house[name])["action"] for name in acting} == acting
    told = "".join(one["message"] for one in runs[0].messages)
    assert all(house[name] in told for name in acting)
    assert "Observe mode" in told and "would be stopped now" in told
    assert {one["attributes"]["severity"] for one in runs[0].messages} == {"info"}
    assert [house["copied"] in one["message"] for one in runs[1].messages] == [True], "its own deadline came now"
    assert runs[2].is_quiet
    for name, gpu in house.items():
        region = EUROPE if name == "untagged" else REGION
        assert account.state(gpu, region) == "running"
        assert account.aws.tags(gpu, region) == before[gpu]


def test_breaking_the_glass_stops_what_was_announced(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.tick()
    account.restart(CURFEW_MODE="observe")
    for _ in range(2):
        assert account.tick().ec2_writes == []
    assert account.state(gpu) == "running"
    account.restart(CURFEW_MODE="enforce")
    assert account.tick().said(gpu) == ("stop", "idle", "done")


OBSERVED, ENFORCED = "observed", "done"


@pytest.mark.parametrize(
    ("tags", "config", "expect"),
    [
        # Its own tag comes first.
        ({"curfew:mode": "enforce"}, {"mode": "observe"}, ENFORCED),
        ({"curfew:mode": "observe"}, {"mode": "enforce"}, OBSERVED),
        ({"curfew:mode": "observe"}, {"teams": {"vision": {"mode": "enforce"}}}, OBSERVED),
        ({"curfew:mode": "enforce", "Owner": ""}, {"mode": "observe", "untagged": {"mode": "observe"}}, ENFORCED),
        # Where a required tag is missing, what the account says about those: for every rule.
        ({"Owner": ""}, {"mode": "enforce", "untagged": {"mode": "observe"}}, OBSERVED),
        ({"Owner": ""}, {"mode": "observe", "untagged": {"mode": "enforce"}}, ENFORCED),
        ({"Owner": ""}, {"untagged": {"mode": "observe"}, "teams": {"vision": {"mode": "enforce"}}}, OBSERVED),
        # Then its team's.
        ({}, {"mode": "observe", "teams": {"vision": {"mode": "enforce"}}}, ENFORCED),
        ({}, {"mode": "enforce", "teams": {"vision": {"mode": "observe"}}}, OBSERVED),
        ({}, {"mode": "observe", "teams": {"nlp": {"mode": "enforce"}}}, OBSERVED),
        ({"Team": "Computer Vision"}, {"mode": "observe", "teams": {"Computer Vision": {"mode": "enforce"}}}, ENFORCED),
        # Then the account's.
        ({}, {"mode": "enforce"}, ENFORCED),
        ({}, {"mode": "observe"}, OBSERVED),
        ({}, {"mode": "observe", "untagged": {"mode": "enforce"}}, OBSERVED),
    ],
)
def test_the_effective_mode(account: Account, tags: dict[str, str], config: dict[str, Any], expect: str) -> None:
    account.configure(**config)
    gpu = account.idle(account.gpu(tags=tags))
    run = account.tick()
    assert run.step(gpu)["action"] == "mark"
    assert run.step(gpu)["outcome"] == expect
    assert (account.mark(gpu) is not None) == (expect == ENFORCED)
    if expect == OBSERVED:
        assert run.ec2_writes == []


def test_nothing_is_enforced_by_default(account: Account) -> None:
    """No configuration at all: everything is only told, but for what owners wrote down themselves."""
    account.aws.client("s3").delete_object(Bucket="curfew-state", Key="config/curfew.toml")
    account.idle(account.gpu(tags={"curfew:local-disk": "expendable"}))
    account.untagged()
    account.gpu(launched=ago(days=9))
    expired = account.gpu(tags={"curfew:expires-at": rfc3339(ago(minutes=5))})
    run = account.tick()
    assert {step["resource"] for step in run.steps if step["outcome"] != "observed"} == {expired}
    assert {write[1] for write in run.ec2_writes} == {expired}


@pytest.mark.parametrize("own", ["observe", None])
def test_an_owners_own_end_is_enforced_unless_its_own_mode_says_otherwise(account: Account, own: str | None) -> None:
    account.configure(mode="observe", untagged={"mode": "observe"}, teams={"vision": {"mode": "observe"}})
    tags = {"curfew:expires-at": rfc3339(ago(minutes=5)), **({"curfew:mode": own} if own else {})}
    gpu = account.gpu(tags=tags)
    bare = account.untagged(tags=tags)
    run = account.tick()
    for one in (gpu, bare):
        assert run.said(one) == ("stop", "expired", OBSERVED if own else ENFORCED)
        assert account.state(one) == ("running" if own else "stopped")


@pytest.mark.parametrize("subscription", ["none", "unconfirmed", "denied"])
def test_enforcing_with_nobody_listening_is_refused(aws: LocalAws, subscription: str) -> None:
    with Account(aws, heard=False) as account:
        house = full_house(account)
        if subscription == "unconfirmed":
            aws.client("sns").subscribe(TopicArn=account.topic_arn, Protocol="email", Endpoint="ada@example.com")
        if subscription == "denied":
            account.subscribe()
            aws.fault("sns:ListSubscriptionsByTopic", "access_denied", times=None)
        run = account.tick()
        assert run.response["mode"] == "enforce"
        assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "sns:ListSubscriptionsByTopic")]
        assert len(run.steps) >= len(house) - 1
        ended = {"StopInstances", "TerminateInstances"}
        assert not ended & {write[0] for write in run.ec2_writes}
        if subscription == "denied":  # then what is told may be marked, and nothing is ended
            assert "grant sns:ListSubscriptionsByTopic" in run.gaps[0]["error"]
            ends = [step for step in run.steps if step["action"] in ("stop", "terminate")]
            assert {step["outcome"] for step in ends} == {"not-reached"}
            assert all("listens" in step["error"] for step in ends)
            account.aws.clear_faults()
        else:
            assert {step["outcome"] for step in run.steps} == {"observed"} and run.ec2_writes == []
            assert "nobody listens" in run.gaps[0]["error"]
            account.subscribe()
        after = account.tick()
        assert after.gaps == []
        assert after.said(house["expired"]) == ("stop", "expired", "done")


def test_an_email_that_was_confirmed_is_somebody(aws: LocalAws) -> None:
    with Account(aws, heard=False) as account:
        aws.client("sns").subscribe(TopicArn=account.topic_arn, Protocol="email", Endpoint="ada@example.com")
        aws.confirm_subscription("ada@example.com")
        gpu = account.idle(account.gpu())
        assert account.tick().said(gpu) == ("mark", "idle", "done")
