"""Where a run would end too much, or has no time left."""

from __future__ import annotations

import pytest

from local_aws.client import REGION
from reaping import EUROPE, Account, Run, ago, rfc3339


def due(account: Account, count: int, region: str = REGION) -> list[str]:
    """So many idle instances that the next run would stop."""
    gpus = []
    for _ in range(count):
        gpu = account.idle(account.gpu(region=region), region)
        account.tag(gpu, region, marked=f"{gpu} idle=stop@{rfc3339(ago(minutes=5))}")
        gpus.append(gpu)
    return gpus


def outcomes(run: Run) -> dict[str, int]:
    counts: dict[str, int] = {}
    for step in run.steps:
        name = f"{step['action']} {step['outcome']}"
        counts[name] = counts.get(name, 0) + 1
    return counts


def test_above_ten_none_is(account: Account) -> None:
    """In all regions together; told once, and asked for a person."""
    gpus = due(account, 6)
    far = due(account, 5, EUROPE)
    run = account.tick()
    assert outcomes(run) == {"stop not-reached": 11}
    assert {step["error"] for step in run.steps} == {run.steps[0]["error"]}
    assert "11 of 11" in run.steps[0]["error"] and "actions_max = 10" in run.steps[0]["error"]
    assert run.ec2_writes == []
    assert run.severities() == {"vision": "error"}
    assert all(gpu in run.message() for gpu in gpus + far)
    again = account.tick()
    assert outcomes(again) == {"stop not-reached": 11} and again.messages == []
    assert {account.state(gpu) for gpu in gpus} | {account.state(gpu, EUROPE) for gpu in far} == {"running"}
    account.configure(limits={"actions_max": 11})
    assert outcomes(account.tick()) == {"stop done": 11}


@pytest.mark.parametrize("seconds", [5, 15, 21])
def test_without_time_left_nothing_is_ended_and_yet_it_answers(account: Account, seconds: int) -> None:
    """From 20 s before its deadline on, a run starts no step: telling and recording come after them."""
    gpus = due(account, 3)
    expired = account.gpu(tags={"curfew:expires-at": rfc3339(ago(minutes=5))})
    account.aws.fault("cloudwatch:GetMetricData", "slow", seconds=1.5)
    run = account.tick(deadline_s=seconds)
    assert outcomes(run) in ({"stop not-reached": 4}, {"stop not-reached": 1}), run.response
    assert run.step(expired)["outcome"] == "not-reached"
    assert run.ec2_writes == []
    assert run.invocation.seconds < seconds
    assert {account.state(gpu) for gpu in (*gpus, expired)} == {"running"}
    after = account.tick()
    assert outcomes(after) == {"stop done": 4}


def test_a_call_that_hangs_costs_its_own_part_only(account: Account) -> None:
    """The region that does not answer is a gap; what is due elsewhere is done, told and recorded in time."""
    due(account, 1)
    far = due(account, 1, EUROPE)
    account.aws.fault("ec2:DescribeInstances", "slow", seconds=30, region=REGION, times=None)
    run = account.tick(deadline_s=32)
    assert run.said(far[0]) == ("stop", "idle", "done")
    assert [gap["region"] for gap in run.gaps] == [REGION]
    assert run.messages and run.invocation.seconds < 32
