"""A run makes the fewest calls that its work can be done in, and at most 5 % more.

The fewest follow from what stands in the account and from what was done, by the limits that AWS documents and by two rules
of our own: each step reads its one resource again and writes to that one alone (a batch with one bad id would shield the
others), and metrics of instances are asked for in two rounds (AWS bills them by the metric, not by the call). Marks name
their resource, so no two tags have an equal value that one call could write.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from math import ceil

import moved_clock
import pytest
from local_aws.client import REGION
from reaping import EUROPE, REGIONS, Account, Run, ago, rfc3339
from reaping_budgets import BudgetAccount
from reaping_volumes import VolumeAccount

RESOURCES_A_PAGE = 1000  # EC2 API reference, DescribeInstances, DescribeSnapshots
VOLUMES_A_PAGE = 500  # DescribeVolumes
TYPES_A_CALL = 100  # DescribeInstanceTypes
FILTER_VALUES = 200  # EC2 user guide, "Filter resources"
SERIES_A_PAGE = 500  # CloudWatch API reference, ListMetrics
METRICS_A_CALL = 500  # GetMetricData

# Of the second look and of the write, by kind of resource and action. A volume goes where its snapshot was read again as
# well, and a snapshot where its volume was looked for.
CALLS_OF_A_STEP = {
    "i": {
        "mark": ["ec2:DescribeInstances", "ec2:CreateTags"],
        "unmark": ["ec2:DescribeInstances", "ec2:DeleteTags"],
        "notify": [],
        "stop": ["ec2:DescribeInstances", "ec2:CreateTags", "ec2:StopInstances", "ec2:DeleteTags"],
        "terminate": ["ec2:DescribeInstances", "ec2:TerminateInstances"],
        "start": ["ec2:DescribeInstances", "ec2:StartInstances"],
    },
    "vol": {
        "mark": ["ec2:DescribeVolumes", "ec2:CreateTags"],
        "unmark": ["ec2:DescribeVolumes", "ec2:DeleteTags"],
        "notify": [],
        "snapshot": ["ec2:DescribeVolumes", "ec2:CreateSnapshot"],
        "delete": ["ec2:DescribeVolumes", "ec2:DescribeSnapshots", "ec2:DeleteVolume", "ec2:CreateTags"],
    },
    "snap": {
        "mark": ["ec2:DescribeSnapshots", "ec2:DescribeVolumes", "ec2:CreateTags"],
        "delete": ["ec2:DescribeSnapshots", "ec2:DescribeVolumes", "ec2:DeleteSnapshot"],
    },
}
ENDS = ("stop", "terminate", "delete")

# How far above the fewest a run may be.
MORE_MAX = 1.05


class Fewest:
    """Counts what a run of an account with two regions cannot do without."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter(
            {"s3:GetObject": 2 + len(REGIONS), "sns:ListSubscriptionsByTopic": 1, "ec2:DescribeRegions": 1}
        )

    def look(self, *, instances: int, types: int, spot: int = 0) -> Fewest:
        """At one region's instances."""
        self.calls["ec2:DescribeInstances"] += max(1, ceil(instances / RESOURCES_A_PAGE))
        self.calls["ec2:DescribeInstanceTypes"] += ceil(types / TYPES_A_CALL)
        self.calls["ec2:DescribeSpotInstanceRequests"] += ceil(spot / FILTER_VALUES)
        self.calls["s3:GetObject"] += 1 if instances else 0
        return self

    def ask(self, *, first: int, further: int, listed: int) -> Fewest:
        """In one region: metrics of both rounds, and the series that there are."""
        self.calls["cloudwatch:GetMetricData"] += ceil(first / METRICS_A_CALL) + ceil(further / METRICS_A_CALL)
        self.calls["cloudwatch:ListMetrics"] += ceil(listed / SERIES_A_PAGE)
        self.calls["s3:PutObject"] += 1 if first else 0
        return self

    def look_at_storage(self, *, volumes: int, snapshots: int = 0, instances: int = 0, sources: int = 0) -> Fewest:
        """At one region's volumes and Curfew's snapshots; at its instances where a volume is attached; and at the snapshots
        that may say whose an unattached volume is."""
        self.calls["ec2:DescribeVolumes"] += max(1, ceil(volumes / VOLUMES_A_PAGE))
        self.calls["ec2:DescribeSnapshots"] += max(1, ceil(snapshots / RESOURCES_A_PAGE)) + ceil(sources / FILTER_VALUES)
        self.calls["ec2:DescribeInstances"] += ceil(instances / RESOURCES_A_PAGE)
        return self

    def ask_of_volumes(self, asked: int) -> Fewest:
        """In one region: of volumes of any age, whose periods are as long as the oldest needs them."""
        self.calls["cloudwatch:GetMetricData"] += ceil(asked / METRICS_A_CALL)
        return self

    def ask_of_jobs(self, jobs: int) -> Fewest:
        self.calls["s3:GetObject"] += jobs
        return self

    def act(self, run: Run) -> Fewest:
        """What the run's own steps take, one message for each team that was told, its records, and what it remembers."""
        for step in run.steps:
            of_kind = CALLS_OF_A_STEP[step["resource"].partition("-")[0]]
            self.calls.update(of_kind[step["action"]] if step["outcome"] == "done" else [])
        ends = any(step["action"] in ENDS for step in run.steps)
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
    actions = run.counts.keys() | fewest.calls.keys()
    both = {action: (run.counts[action], fewest.calls[action]) for action in actions}
    differ = {action: counts for action, counts in both.items() if counts[0] != counts[1]}
    print(f"{made} calls, {needed} at least")
    assert needed <= made <= needed * MORE_MAX, f"{made} calls, {needed} would do; made and needed: {differ}"


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


def test_what_every_run_reads_and_writes_is_what_the_bill_counts(account: Account) -> None:
    """shared/operator/tests/bill.rs: four objects read, one written, in a run that has nothing to do in one region."""
    account.configure(regions=[REGION])
    account.busy(account.gpu())
    account.tick()
    counts = account.tick().counts
    assert (counts["s3:GetObject"], counts["s3:PutObject"]) == (4, 1)


# Volumes


def test_a_run_that_has_everything_to_do_with_volumes(storage: VolumeAccount) -> None:
    source = storage.left_behind()  # dated; and the source of volumes without tags
    for _ in range(4):
        storage.volume()  # first seen
        storage.orphan()  # announced
        storage.marked()  # photographed
        storage.snapshot_of(storage.marked())  # deleted
        storage.left_behind(ago(days=40))  # ended
        storage.marked(tags={"curfew:job": "vision/llama-0123abcd"})  # of one live job
        storage.untagged_volume(snapshot_id=source)  # first seen
    storage.put("active/vision/llama-0123abcd", b"{}")
    for since in (ago(days=20), ago(days=70)):  # asked about together
        storage.orphan(region=EUROPE, unattached_since=since, create_time=ago(days=90))  # announced
    storage.attach(storage.marked())  # unmarked
    run = storage.tick()
    done = Counter((step["evidence"]["rule"], step["action"]) for step in run.steps if step["outcome"] == "done")
    assert done == {
        ("orphaned", "mark"): 14,
        ("orphaned", "snapshot"): 4,
        ("orphaned", "delete"): 4,
        ("orphaned", "unmark"): 1,
        ("expired", "delete"): 4,
        ("expired", "mark"): 1,
    }
    assert run.skipped == {"live-job": 4, "volume-exists": 4}
    fewest = Fewest().look_at_storage(volumes=25, snapshots=9, instances=1, sources=1).look_at_storage(volumes=2)
    fewest.ask_of_jobs(1).ask_of_volumes(12).ask_of_volumes(2)
    check(run, fewest.act(run))


def test_a_run_that_has_nothing_to_do_with_volumes(storage: VolumeAccount) -> None:
    """What was announced is asked about in every run, and what is young is not."""
    storage.configure(volumes={"grace": "3d"})
    host = storage.host(EUROPE)
    for _ in range(20):
        storage.volume(unattached_since=ago(days=3))
        storage.attached(host, region=EUROPE)
    for _ in range(3):
        storage.orphan()
    storage.tick()
    run = storage.tick()
    assert run.is_quiet and run.skipped == {"young": 20, "attached": 20, "marked": 3}
    fewest = Fewest().look_at_storage(volumes=23).look_at_storage(volumes=20, instances=1).ask_of_volumes(3)
    check(run, fewest.act(run))


def test_an_account_without_volumes(storage: VolumeAccount) -> None:
    run = storage.tick()
    check(run, Fewest().look_at_storage(volumes=0).look_at_storage(volumes=0).act(run))


def test_a_look_at_instances_where_nothing_is_attached_is_one_too_many(storage: VolumeAccount) -> None:
    storage.host()
    storage.volume(unattached_since=ago(days=3))
    run = storage.tick()
    assert run.counts["ec2:DescribeInstances"] == 0
    looks = [{"action": "ec2:DescribeInstances", "resources": []}]
    fewest = Fewest().look_at_storage(volumes=1).look_at_storage(volumes=0).act(run)
    check(run, fewest)
    with pytest.raises(AssertionError, match="ec2:DescribeInstances"):
        check(replace(run, calls=[*run.calls, *looks]), fewest)


# Budgets

on_a_day = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
FIRST = datetime(2031, 1, 1, 6, tzinfo=timezone.utc)
LOOKS_BACK = timedelta(days=7)  # of the forecast
CARRIED_OVER = timedelta(days=1)  # of reservations
STORAGE_PRODUCTS = 3  # that the Price List has apart: by GiB, by IOPS, by throughput


class FewestOfABeat(Fewest):
    """What a beat in the middle of a month cannot do without."""

    def __init__(self, holders: int, since_first: timedelta = LOOKS_BACK, new: int = 0) -> None:
        super().__init__()
        regions = len(REGIONS)
        before = regions if since_first < LOOKS_BACK else 0
        # Whoever has no document of this month may have reservations in the one before.
        carried = holders if since_first < CARRIED_OVER else new
        self.calls = Counter(
            {
                # The configuration, prices, and what was told, which is all with the home region; each region's ledger and each
                # document, for both are written over what is there; those of the month before as long as they still count.
                "s3:GetObject": 3 + regions + holders + before + carried,
                # Each region's ledger, be it empty: that somebody looked is what a gap is told by. Each document, for it says
                # as of when it is; and the audit record.
                "s3:PutObject": regions + holders + 1,
                # Of which regions there is a ledger: what was spent counts, whether or not anybody looks there still.
                "s3:ListObjectsV2": 2 if before else 1,
                "sns:ListSubscriptionsByTopic": 1,
                "ec2:DescribeRegions": 1,
                "ec2:DescribeInstances": regions,
            }
        )

    def priced(self, *, regions: int, types: int = 0, storage: int = 0, spot: int = 0) -> FewestOfABeat:
        """Where something runs: what has a GPU, and the volumes of that; and what is not known yet, or too old, of so many
        types, of storage in so many regions, and of Spot in so many. What was asked is kept."""
        self.calls["ec2:DescribeInstanceTypes"] += regions
        self.calls["ec2:DescribeVolumes"] += regions
        self.calls["pricing:GetProducts"] += types + STORAGE_PRODUCTS * storage
        self.calls["ec2:DescribeSpotPriceHistory"] += spot
        self.calls["s3:PutObject"] += 1 if types or storage or spot else 0
        return self

    def told(self, teams: int) -> FewestOfABeat:
        """A message each, and what is remembered."""
        self.calls["sns:Publish"] += teams
        self.calls["s3:PutObject"] += 1
        return self


def check_beat(run: Run, fewest: FewestOfABeat) -> None:
    """Not one more."""
    assert run.gaps == []
    needed = {action: count for action, count in fewest.calls.items() if count}
    assert dict(run.counts) == needed


def in_use(money: BudgetAccount, begin: datetime) -> None:
    """Two teams, two regions, a dozen instances of two types, one of them on Spot; and a budget that is half spent."""
    money.aws.set_spot_price("g5.xlarge", {f"{EUROPE}a": 0.4}, EUROPE, since=begin - timedelta(days=9))
    for _ in range(10):
        money.launch(begin - timedelta(hours=1))
    money.launch(begin - timedelta(hours=1), "g5.12xlarge", tags={"Team": "nlp"})
    money.launch(begin - timedelta(hours=1), region=EUROPE, tags={"Team": "nlp"}, spot_instance_request="one-time")
    money.budgets(vision={"monthly_budget_usd": 18, "notify_at_percent": [50]}, nlp={"monthly_budget_usd": 1000})


@on_a_day
def test_a_beat_of_an_empty_account(money: BudgetAccount) -> None:
    for quarters in range(2):
        run = money.tick_at(FIRST + LOOKS_BACK + quarters * timedelta(minutes=15))
        check_beat(run, FewestOfABeat(holders=1, new=1 - quarters))


@on_a_day
def test_beats_of_an_account_in_use(money: BudgetAccount) -> None:
    """However many run. On-demand prices are asked for once a day, Spot prices in every beat, of which each pays what it was."""
    begin = FIRST + LOOKS_BACK
    in_use(money, begin)
    first, second = (money.tick_at(begin + quarters * timedelta(minutes=15)) for quarters in range(2))
    assert [first.step("vision")["action"], second.steps] == ["notify", []]
    check_beat(first, FewestOfABeat(holders=3, new=3).priced(regions=2, types=2, storage=2, spot=1).told(teams=1))
    check_beat(second, FewestOfABeat(holders=3).priced(regions=2, spot=1))


@on_a_day
@pytest.mark.parametrize("since_first", [timedelta(hours=6), timedelta(days=3), LOOKS_BACK], ids=str)
def test_beats_in_the_first_days_of_a_month(money: BudgetAccount, since_first: timedelta) -> None:
    """The month before is read for a week, its documents for a day; only its last beats are still written into it."""
    begin = FIRST.replace(hour=0) + since_first
    in_use(money, begin)
    money.tick_at(begin)
    for quarters in (1, 2):
        run = money.tick_at(begin + quarters * timedelta(minutes=15))
        check_beat(run, FewestOfABeat(holders=3, since_first=since_first).priced(regions=2, spot=1))
