"""A run makes the fewest calls that its work can be done in, and at most 5 % more.

The fewest follow from what stands in the account and from what was done, by the limits that AWS documents and by two rules
of our own: each step reads its one instance again and writes to that one alone (a batch with one bad id would shield the
others), and metrics are asked for in two rounds (AWS bills them by the metric, not by the call). Marks name their
instance, so no two tags have an equal value that one call could write.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil

import pytest
from local_aws.client import REGION
from reaping import EUROPE, REGIONS, Account, Run, ago, rfc3339

INSTANCES_A_PAGE = 1000  # EC2 API reference, DescribeInstances
TYPES_A_CALL = 100  # DescribeInstanceTypes
SPOT_REQUESTS_A_CALL = 200  # EC2 user guide, "Filter resources": values of a filter
SERIES_A_PAGE = 500  # CloudWatch API reference, ListMetrics
METRICS_A_CALL = 500  # GetMetricData

# Of the second look and of the write, by action.
CALLS_OF_A_STEP = {
    "mark": ["ec2:DescribeInstances", "ec2:CreateTags"],
    "unmark": ["ec2:DescribeInstances", "ec2:DeleteTags"],
    "notify": [],
    "stop": ["ec2:DescribeInstances", "ec2:CreateTags", "ec2:StopInstances", "ec2:DeleteTags"],
    "terminate": ["ec2:DescribeInstances", "ec2:TerminateInstances"],
    "start": ["ec2:DescribeInstances", "ec2:StartInstances"],
}

# How far above the fewest a run may be.
MORE_MAX = 1.05


class Fewest:
    """Counts what a run of an account with two regions cannot do without."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter(
            {"s3:GetObject": 1 + len(REGIONS), "sns:ListSubscriptionsByTopic": 1, "ec2:DescribeRegions": 1}
        )

    def look(self, *, instances: int, types: int, spot: int = 0) -> Fewest:
        """At one region."""
        self.calls["ec2:DescribeInstances"] += max(1, ceil(instances / INSTANCES_A_PAGE))
        self.calls["ec2:DescribeInstanceTypes"] += ceil(types / TYPES_A_CALL)
        self.calls["ec2:DescribeSpotInstanceRequests"] += ceil(spot / SPOT_REQUESTS_A_CALL)
        self.calls["s3:GetObject"] += 1 if instances else 0
        return self

    def ask(self, *, first: int, further: int, listed: int) -> Fewest:
        """In one region: metrics of both rounds, and the series that there are."""
        self.calls["cloudwatch:GetMetricData"] += ceil(first / METRICS_A_CALL) + ceil(further / METRICS_A_CALL)
        self.calls["cloudwatch:ListMetrics"] += ceil(listed / SERIES_A_PAGE)
        self.calls["s3:PutObject"] += 1 if first else 0
        return self

    def act(self, run: Run) -> Fewest:
        """What the run's own steps take, one message for each team that was told, its records, and what it remembers."""
        for step in run.steps:
            self.calls.update(CALLS_OF_A_STEP[step["action"]] if step["outcome"] == "done" else [])
        ends = any(step["action"] in ("stop", "terminate") for step in run.steps)
        self.calls["s3:PutObject"] += 2 if ends else 1
        self.calls["sns:Publish"] += len({one["attributes"]["team"] for one in run.messages})
        return self

    def remember(self, regions: int) -> Fewest:
        self.calls["s3:PutObject"] += regions
        return self


def check(run: Run, fewest: Fewest) -> None:
    assert run.gaps == []
    # A message too many is read by people, so there are none to spare.
    assert run.counts["sns:Publish"] == fewest.calls["sns:Publish"], f"a team got two messages: {run.messages}"
    made, needed = sum(run.counts.values()), sum(fewest.calls.values())
    over = {action: (count, fewest.calls[action]) for action, count in run.counts.items() if count > fewest.calls[action]}
    print(f"{made} calls, {needed} at least")
    assert needed <= made <= needed * MORE_MAX, f"{made} calls, {needed} would do; made and needed: {over}"


def seeded(account: Account) -> None:
    """Every rule and every action in one region, and a smaller fleet in another."""
    account.configure(lifetime={"action": "stop"})
    past = rfc3339(ago(minutes=5))
    for _ in range(6):
        account.idle(account.gpu())  # marked
    for _ in range(4):
        gpu = account.idle(account.gpu())
        account.tag(gpu, marked=f"{gpu} idle=stop@{past}")  # stopped
    for _ in range(3):
        account.busy(account.gpu("g5.12xlarge"), gpus=4)
    mended = account.busy(account.gpu())
    account.tag(mended, marked=f"{mended} idle=stop@{past}")  # unmarked
    asleep = account.gpu(tags={"curfew:hours": "Mon-Sun 00:00-24:00 UTC", "curfew:stopped": f"hours {past}"})
    account.aws.set_instance(asleep, state="stopped")  # started
    account.idle(account.gpu(spot_instance_request="one-time"))  # told
    for _ in range(2):
        account.gpu("trn1.32xlarge", launched=ago(days=9), tags={"curfew:idle-after": "off"})  # marked for its age
    for _ in range(5):
        account.busy(account.gpu(region=EUROPE), EUROPE)


def test_a_run_that_has_everything_to_do(account: Account) -> None:
    seeded(account)
    run = account.tick()
    actions = Counter(step["action"] for step in run.steps if step["outcome"] == "done")
    assert actions == {"mark": 8, "stop": 4, "unmark": 1, "start": 1, "notify": 1}
    fewest = Fewest().look(instances=18, types=3, spot=1).look(instances=5, types=1)
    fewest.ask(first=15, further=6 * 11, listed=12 + 13).ask(first=5, further=0, listed=0)
    check(run, fewest.act(run).remember(regions=1))


def test_a_run_that_has_nothing_to_do(account: Account) -> None:
    for _ in range(20):
        account.busy(account.gpu())
    account.tick()
    run = account.tick()
    assert run.is_quiet and run.response["seen"] == 20
    fewest = Fewest().look(instances=20, types=1).look(instances=0, types=0)
    check(run, fewest.act(run))


def test_an_empty_account(account: Account) -> None:
    run = account.tick()
    check(run, Fewest().look(instances=0, types=0).look(instances=0, types=0).act(run))


def test_a_check_that_can_fail(account: Account) -> None:
    """One call too many in twenty is seen."""
    run = account.tick()
    fewest = Fewest().look(instances=0, types=0).act(run)
    try:
        check(run, fewest)
    except AssertionError as error:
        assert "ec2:DescribeInstances" in str(error)
    else:
        raise AssertionError("a look at a second region went unnoticed")


def test_a_team_that_is_told_twice_is_seen(account: Account) -> None:
    account.idle(account.gpu())
    run = account.tick()
    published = [call for call in run.calls if call["action"] == "sns:Publish"]
    assert len(published) == len(run.messages) == 1
    twice = replace(run, calls=[*run.calls, *published], messages=run.messages * 2)
    fewest = Fewest().look(instances=1, types=1).look(instances=0, types=0)
    fewest.ask(first=3, further=0, listed=3).act(twice).remember(regions=1)
    with pytest.raises(AssertionError, match="a team got two messages"):
        check(twice, fewest)


def test_what_every_run_reads_and_writes_is_what_the_bill_counts(account: Account) -> None:
    """shared/domain/tests/bill.rs: three objects read, one written, in a run that has nothing to do in one region."""
    account.configure(regions=[REGION])
    account.busy(account.gpu())
    account.tick()
    counts = account.tick().counts
    assert (counts["s3:GetObject"], counts["s3:PutObject"]) == (3, 1)
