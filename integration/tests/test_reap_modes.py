"""Who is enforced and who is only observed, that observing writes nothing, and how much a run may end."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from command import curfew
from local_aws import LocalAws, sns_corrections
from local_aws.client import REGION
from pending_plans import due
from reaping import EUROPE, Account, Run, ago, rfc3339


def full_house(account: Account) -> dict[str, str]:
    """One case of everything that a run could act on, each due in this very run."""
    account.configure(lifetime={"action": "stop"}, limits={"actions_max": 100})
    past = rfc3339(ago(minutes=5))
    house = {
        "idle": account.idle(account.gpu()),
        "untagged": account.untagged("inf2.xlarge", EUROPE),
        "lifetime": account.gpu(launched=ago(days=9), tags={"curfew:idle-after": "off"}),
        "expired": account.remember_labels(account.gpu(tags={"curfew:expires-at": past})),
        "job": account.remember_labels(account.of_job(account.gpu(tags={"curfew:expires-at": past, "curfew:job": "vision/a-0123abcd"}))),
        "mended": account.busy(account.gpu()),
        "copied": account.idle(account.gpu()),
    }
    for rule, region in (("idle", REGION), ("untagged", EUROPE), ("lifetime", REGION)):
        account.was_announced(house[rule], f"{rule}=stop@{past}", region)
    account.was_announced(house["mended"], f"idle=stop@{past}")
    account.tag(house["copied"], marked=f"idle=stop@{past}")  # by somebody else
    return house


def test_observe_mode_only_notifies_and_enforce_mode_acts(account: Account) -> None:
    house = full_house(account)
    regions = {gpu: EUROPE if name == "untagged" else REGION for name, gpu in house.items()}
    account.restart(CURFEW_MODE="observe")
    before = {gpu: account.aws.tags(gpu, region) for gpu, region in regions.items()}
    runs = [account.tick() for _ in range(3)]
    for run in runs:
        assert run.response["mode"] == "observe"
        assert {step["outcome"] for step in run.steps} <= {"observed"}
        assert run.ec2_writes == []
    acting = {"idle": "stop", "untagged": "stop", "lifetime": "stop", "expired": "stop", "job": "terminate"}
    assert {name: runs[0].step(house[name])["action"] for name in acting} == acting
    told = "".join(one["message"] for one in runs[0].messages)
    assert all(house[name] in told for name in acting)
    assert "Observe mode" in told and "would be stopped now" in told
    assert {one["attributes"]["severity"] for one in runs[0].messages} == {"info"}
    assert [house["copied"] in one["message"] for one in runs[1].messages] == [True], "its own deadline came now"
    assert runs[2].is_quiet
    for gpu, region in regions.items():
        assert account.state(gpu, region) == "running" and account.aws.tags(gpu, region) == before[gpu]

    account.restart()
    run = account.tick()
    assert {name: run.said(gpu) for name, gpu in house.items()} == {
        **{name: ("mark", name, "done") for name in ("idle", "untagged", "lifetime")},  # announced anew
        "expired": ("stop", "expired", "done"),
        "job": ("terminate", "expired", "done"),
        "mended": ("unmark", "idle", "done"),
        "copied": ("mark", "idle", "done"),
    }


@pytest.mark.parametrize("subscription", ["unconfirmed", "denied"])
def test_without_a_confirmed_subscription_nothing_is_ended(aws: LocalAws, subscription: str) -> None:
    with Account(aws, heard=False) as account:
        house = full_house(account)
        aws.client("sns").subscribe(TopicArn=account.topic_arn, Protocol="email", Endpoint="ada@example.com")
        if subscription == "denied":
            aws.confirm_subscription("ada@example.com")
            aws.fault("sns:ListSubscriptionsByTopic", "access_denied", times=None)
        run = account.tick()
        assert run.response["mode"] == "enforce" and len(run.steps) >= len(house) - 1
        assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "sns:ListSubscriptionsByTopic")]
        assert not {"StopInstances", "TerminateInstances"} & {write[0] for write in run.ec2_writes}
        if subscription == "denied":  # then what is told may be marked, and nothing is ended
            assert "grant sns:ListSubscriptionsByTopic" in run.gaps[0]["error"]
            ends = [step for step in run.steps if step["action"] in ("stop", "terminate")]
            assert {step["outcome"] for step in ends} == {"not-reached"}
            assert all("subscriptions could not be read" in step["error"] for step in ends)
            account.aws.clear_faults()
        else:
            assert {step["outcome"] for step in run.steps} == {"observed"} and run.ec2_writes == []
            assert "no confirmed subscription" in run.gaps[0]["error"]
            aws.confirm_subscription("ada@example.com")
        after = account.tick()
        assert after.gaps == []
        assert after.said(house["expired"]) == ("stop", "expired", "done")


# The readers


def filter_by(account: Account, policy: dict[str, Any] | None, scope: str = "MessageAttributes") -> None:
    """The filter policy of the account's only subscription."""
    sns = account.aws.client("sns")
    [subscription] = sns.list_subscriptions_by_topic(TopicArn=account.topic_arn)["Subscriptions"]
    attributes = {"FilterPolicy": json.dumps(policy or {}), "FilterPolicyScope": scope}
    for name, value in attributes.items():
        sns.set_subscription_attributes(SubscriptionArn=subscription["SubscriptionArn"], AttributeName=name, AttributeValue=value)


def test_a_team_is_only_observed_where_nobody_receives_its_warnings(account: Account) -> None:
    of_nlp, of_vision = (account.idle(account.gpu(tags={"Team": team, "Owner": "ada"})) for team in ("nlp", "vision"))
    filter_by(account, {"team": ["vision"], "severity": ["warning"]})
    first, second = account.tick(), account.tick()
    assert (first.said(of_nlp), first.said(of_vision)) == (("mark", "idle", "observed"), ("mark", "idle", "done"))
    assert second.said(of_vision) == ("stop", "idle", "done") and account.state(of_nlp) == "running"
    [gap] = first.gaps
    assert gap["call"] == "sns:GetSubscriptionAttributes" and "team nlp, so Curfew only observes" in gap["error"]
    [explained] = curfew(account.environment(), "explain", of_nlp, "--json").json()["explained"]
    assert (explained["ceiling"], explained["mode"]) == ("enforce", "observe")
    assert any("filters out messages of severity warning about team nlp" in note for note in explained["notes"]), explained["notes"]

    filter_by(account, {"team": ["vision", "nlp"]})
    assert account.tick().said(of_nlp) == ("mark", "idle", "done"), "it is announced, now that somebody reads it"
    assert account.tick().said(of_nlp) == ("stop", "idle", "done")


def test_a_policy_for_the_body_lets_no_announcement_through(account: Account) -> None:
    gpu = account.idle(account.gpu())
    filter_by(account, {"team": [{"exists": False}]}, scope="MessageBody")
    assert account.tick().said(gpu) == ("mark", "idle", "observed")
    account.tick()
    assert account.state(gpu) == "running" and "curfew:marked" not in account.aws.tags(gpu)


def test_a_suspended_subscription_takes_back_nothing_that_it_got(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    announced = account.idle(account.gpu())
    account.tick()
    client = account.aws.client("sns")
    with monkeypatch.context() as within_a_second:
        within_a_second.setattr(sns_corrections, "monotonic", lambda: 0.0)
        for number in range(12):
            client.publish(TopicArn=account.topic_arn, Message=f"flood {number}")
    [subscription] = client.list_subscriptions_by_topic(TopicArn=account.topic_arn)["Subscriptions"]
    assert subscription["SubscriptionArn"] == "PendingConfirmation"
    late = account.idle(account.gpu())
    run = account.tick()
    assert (run.said(announced), run.said(late)) == (("stop", "idle", "done"), ("mark", "idle", "observed"))
    assert "carries out what it announced" in run.gaps[0]["error"]
    account.tick()
    assert account.state(late) == "running"


def test_filters_that_cannot_be_read_stop_nothing(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.tick()
    account.aws.fault("sns:GetSubscriptionAttributes", "access_denied", times=None)
    run = account.tick()
    assert run.said(gpu) == ("stop", "idle", "not-reached") and account.state(gpu) == "running"
    assert "grant sns:GetSubscriptionAttributes" in run.gaps[0]["error"]
    account.aws.clear_faults()
    assert account.tick().said(gpu) == ("stop", "idle", "done")


# The limits


def outcomes(run: Run) -> Counter[str]:
    return Counter(f"{step['action']} {step['outcome']}" for step in run.steps)


def test_a_run_without_time_acts_on_nothing_and_answers(account: Account) -> None:
    """From 20 s before its deadline on, a run starts no step: telling and recording come after them."""
    gpus = due(account, 3)
    expired = account.remember_labels(account.gpu(tags={"curfew:expires-at": rfc3339(ago(minutes=5))}))
    account.aws.fault("cloudwatch:GetMetricData", "slow", seconds=1.5)
    run = account.tick(deadline_s=21)
    assert outcomes(run) in ({"stop not-reached": 4}, {"stop not-reached": 1}), run.response
    assert run.step(expired)["outcome"] == "not-reached"
    assert run.ec2_writes == [] and {account.state(gpu) for gpu in (*gpus, expired)} == {"running"}
    assert outcomes(account.tick()) == {"stop done": 4}


def test_a_hanging_region_is_a_gap(account: Account) -> None:
    """The region that does not answer is a gap; what is due elsewhere is done, told and recorded in time."""
    due(account, 1)
    far = due(account, 1, EUROPE)
    account.aws.fault("ec2:DescribeInstances", "slow", seconds=30, region=REGION, times=None)
    run = account.tick(deadline_s=32)
    assert run.said(far[0]) == ("stop", "idle", "done")
    assert [gap["region"] for gap in run.gaps] == [REGION] and run.messages
