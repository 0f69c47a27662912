"""What runs ask of AWS: that the template grants exactly that, and how often, to the call. Of jobs: test_jobs_calls.py.

The numbers are the fewest that the work can be done in, by the limits that AWS documents (1,000 instances and snapshots a page, 500
volumes; 500 metrics a call) and by two rules of our own: each step reads its one resource again and writes to that one alone (a batch with
one bad id would shield the others), and metrics of instances are asked for in two rounds (AWS bills them by the metric).
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone

import moved_clock
import pytest

import studio_budgets
from local_aws.client import REGION
from reaping import EUROPE, Account, Run, ago, rfc3339
from reaping_budgets import BudgetAccount
from reaping_volumes import VolumeAccount
from studio_budgets import StudioBudgets
from template_actions import called_actions

# Which calls


def assert_role_fits(function: str, runs: list[Run]) -> None:
    """Of runs of everything."""
    assert {permission for run in runs for call in run.calls for permission in call["permissions"]} == called_actions(function)


def objects(runs: list[Run], action: str, depth: int = 2) -> set[str]:
    """The first parts of the keys of all objects that met this action, but for the days of audit records."""
    calls = [call for run in runs for call in run.calls if call["action"] == action]
    keys = {"/".join(key.split("/")[1 : depth + 1]) for call in calls for key in call["resources"]}
    return {"plans" if key.startswith("plans/") else key for key in keys}


def and_fails(account: Account, runs: list[Run]) -> list[Run]:
    """Those, and two that fail."""
    account.write_config("mood = 1")
    return [*runs, account.tick(), account.tick(b"{}")]


def done(runs: list[Run]) -> set[str]:
    return {step["action"] for run in runs for step in run.steps if step["outcome"] == "done"}


def test_the_role_of_reap_instances(account: Account) -> None:
    account.configure(lifetime={"action": "stop"})
    past = rfc3339(ago(minutes=5))
    account.idle(account.gpu())
    account.untagged("inf2.xlarge", EUROPE)
    account.gpu(launched=ago(days=9), tags={"curfew:idle-after": "off"})
    account.remember_labels(account.of_job(account.gpu(tags={"curfew:expires-at": past, "curfew:job": "vision/a-0123abcd"})))
    account.idle(account.gpu(spot_instance_request="one-time"))
    account.gpu("trn1.32xlarge")
    mended = account.busy(account.gpu())
    account.was_announced(mended, f"idle=stop@{past}")
    always = {"curfew:hours": "Mon-Sun 00:00-24:00 UTC", "curfew:stopped": f"hours {past}"}
    account.remember_labels(account.gpu(tags=always, state="stopped"))
    runs = [account.tick() for _ in range(3)]
    assert done(runs) == {"mark", "unmark", "notify", "stop", "terminate", "start"}
    runs = and_fails(account, runs)
    assert_role_fits("reap-instances", runs)
    own = {"notices/reap-instances", *(f"activity/{region}.json" for region in (REGION, EUROPE))}
    assert objects(runs, "s3:GetObject") == {"config/curfew.toml", "prices/current.json", "jobs/vision", *own}
    assert objects(runs, "s3:PutObject") == {"plans", *own}


def test_the_role_of_reap_volumes(storage: VolumeAccount) -> None:
    storage.aws.put_capacity_reservation("cr-1", InstanceType="g5.12xlarge")
    storage.orphan(tags={"curfew:job": "vision/a-0123abcd"})
    storage.untagged_volume(EUROPE, unattached_since=ago(days=20), snapshot_id="snap-0123456789abcdef0")
    storage.orphan(tags={f"k{number}": "" for number in range(46)})
    storage.attach(storage.marked())
    storage.left_behind(ago(days=40))
    storage.left_behind()
    runs = [storage.tick() for _ in range(3)]
    assert done(runs) == {"mark", "unmark", "notify", "snapshot", "delete"}
    runs = and_fails(storage, runs)
    assert_role_fits("reap-volumes", runs)
    read = {"config/curfew.toml", "prices/current.json", "notices/reap-volumes", "active/vision"}
    assert objects(runs, "s3:GetObject") == read
    assert objects(runs, "s3:PutObject") == {"plans", "notices/reap-volumes"}


def test_the_role_of_enforce_budgets(studio_money: StudioBudgets) -> None:
    money = studio_money
    money.aws.set_instance(money.gpu("g5.xlarge", EUROPE), EUROPE, lifecycle="spot")
    money.budget(120, money.gpu(), over_budget="hold")
    money.endpoint("llm")
    money.app()
    money.notebook()
    money.job("bert")
    money.processing("clean")
    runs = [money.tick(), money.tick()]
    assert runs[0].said("vision")[0] == "hold" and all(run.ec2_writes == [] for run in runs)
    runs = and_fails(money, runs)
    assert_role_fits("enforce-budgets", runs)
    assert objects(runs, "s3:GetObject", 1) == {"config", "notices", "activity", "ledger", "budgets", "prices"}
    assert objects(runs, "s3:PutObject", 1) == {"plans", "notices", "ledger", "budgets", "prices"}


# How often

ALWAYS = {"sns:ListSubscriptionsByTopic": 1, "sns:GetSubscriptionAttributes": 1, "ec2:DescribeRegions": 1}


def test_a_run_that_has_everything_to_do(account: Account) -> None:
    """Every action in one region, and a smaller fleet in another."""
    account.configure(lifetime={"action": "stop"})
    past = rfc3339(ago(minutes=5))
    for _ in range(6):
        account.idle(account.gpu())  # marked
    for _ in range(4):
        gpu = account.idle(account.gpu())
        account.was_announced(gpu, f"idle=stop@{past}")  # stopped
    for _ in range(3):
        account.busy(account.gpu("g5.12xlarge"), gpus=4)
    mended = account.busy(account.gpu())
    account.was_announced(mended, f"idle=stop@{past}")  # unmarked
    always = {"curfew:hours": "Mon-Sun 00:00-24:00 UTC", "curfew:stopped": f"hours {past}"}
    account.remember_labels(account.gpu(tags=always, state="stopped"))  # started
    account.idle(account.gpu(spot_instance_request="one-time"))  # told
    for _ in range(2):
        account.gpu("trn1.32xlarge", launched=ago(days=9), tags={"curfew:idle-after": "off"})  # marked for its age
    for _ in range(5):
        account.busy(account.gpu(region=EUROPE), EUROPE)
    run = account.tick()
    actions = Counter(step["action"] for step in run.steps if step["outcome"] == "done")
    assert actions == {"mark": 8, "stop": 4, "unmark": 1, "start": 1, "notify": 1} and run.gaps == []
    assert run.counts == {
        **ALWAYS,
        "ec2:DescribeInstances": 2 + 14,  # each region, and each instance before it is written to
        "ec2:DescribeInstanceTypes": 2,
        "ec2:DescribeSpotInstanceRequests": 1,
        "cloudwatch:GetMetricData": 3,  # both rounds at home, and one in Europe
        "cloudwatch:ListMetrics": 2,  # of utilisation and of power
        "ec2:CreateTags": 8 + 4,  # marks, and who stopped it
        "ec2:DeleteTags": 1 + 4,
        "ec2:StopInstances": 4,
        "ec2:StartInstances": 1,
        "s3:GetObject": 2 + 2 * 2,  # configuration and prices; of each region what was told and what worked
        "s3:PutObject": 2 + 1 + 2 + 2,  # the record, ahead and whole; what was told; of each region what works, and what is about to be done
        "sns:Publish": 1,
    }


def test_a_run_that_has_nothing_to_do(account: Account) -> None:
    empty = {**ALWAYS, "ec2:DescribeInstances": 2, "s3:GetObject": 4, "s3:PutObject": 1}
    assert account.tick().counts == empty
    for _ in range(20):
        account.busy(account.gpu())
    account.tick()
    run = account.tick()
    assert run.is_quiet and run.response["seen"] == 20
    assert run.counts == {**empty, "ec2:DescribeInstanceTypes": 1, "s3:GetObject": 5}


def test_a_quiet_run_reads_and_writes_what_the_bill_counts(account: Account) -> None:
    """shared/operator/tests/bill.rs: four objects read, one written, in a run that has nothing to do in one region."""
    account.configure(regions=[REGION])
    account.busy(account.gpu())
    account.tick()
    counts = account.tick().counts
    assert (counts["s3:GetObject"], counts["s3:PutObject"]) == (4, 1)


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
    storage.configure(reservations={"empty_after": "0s"})
    reserved = {"InstanceType": "g5.12xlarge", "TotalInstanceCount": 2, "AvailableInstanceCount": 2}
    storage.aws.put_capacity_reservation("cr-1", **reserved, Tags=[{"Key": "Team", "Value": "vision"}])
    storage.aws.put_capacity_reservation("cr-2", InstanceType="g5.12xlarge", AvailableInstanceCount=0)
    run = storage.tick()
    actions = Counter((step["evidence"]["rule"], step["action"]) for step in run.steps if step["outcome"] == "done")
    of_volumes = {("orphaned", "mark"): 14, ("orphaned", "snapshot"): 4, ("orphaned", "delete"): 4, ("orphaned", "unmark"): 1}
    assert actions == {**of_volumes, ("expired", "delete"): 4, ("expired", "mark"): 1} and run.gaps == []
    assert run.skipped == {"live-job": 4, "volume-exists": 4, "notified": 1}
    assert "cr-1 (2 x g5.12xlarge reserved" in run.message() and "cancel-capacity-reservation" in run.message()
    assert run.counts == {
        **ALWAYS,
        "ec2:DescribeVolumes": 2 + 23 + 5,  # each region, each volume before a step, and that of each snapshot
        "ec2:DescribeSnapshots": 2 + 1 + 4 + 5,  # each region, the sources, before a deletion, each of its own before a step
        "ec2:DescribeInstances": 1,  # where a volume is attached
        "ec2:DescribeCapacityReservations": 2,
        "fsx:DescribeFileSystems": 2,
        "ec2:DescribeInstanceTypes": 1,  # where capacity is unused
        "cloudwatch:GetMetricData": 2,
        "ec2:CreateTags": 14 + 4 + 1,  # marks, and when the volume of a snapshot was deleted
        "ec2:DeleteTags": 1,
        "ec2:CreateSnapshot": 4,
        "ec2:DeleteVolume": 4,
        "ec2:DeleteSnapshot": 4,
        "s3:GetObject": 2 + 2 + 1,  # configuration and prices; what was told of each region; the job
        "s3:PutObject": 1 + 2 + 2,  # the record; of each region what is about to be done, and what was told
        "sns:Publish": 1,
    }


def test_a_run_that_has_nothing_to_do_with_volumes(storage: VolumeAccount) -> None:
    """What was announced is asked about in every run, and what is young is not; instances are looked at where a volume is attached."""
    lists = ("ec2:DescribeVolumes", "ec2:DescribeSnapshots", "ec2:DescribeCapacityReservations", "fsx:DescribeFileSystems")
    empty = {**ALWAYS, **dict.fromkeys(lists, 2), "s3:GetObject": 4, "s3:PutObject": 1}
    host = storage.host(EUROPE)
    storage.volume(unattached_since=ago(days=3))
    assert storage.tick().counts == empty
    storage.configure(volumes={"grace": "3d"})
    for _ in range(19):
        storage.volume(unattached_since=ago(days=3))
        storage.attached(host, region=EUROPE)
    for _ in range(3):
        storage.orphan()
    storage.tick()
    run = storage.tick()
    assert run.is_quiet and run.skipped == {"young": 20, "attached": 19, "marked": 3}
    assert run.counts == {**empty, "ec2:DescribeInstances": 1, "cloudwatch:GetMetricData": 1}


on_a_day = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
FIRST = datetime(2031, 1, 1, tzinfo=timezone.utc)
LOOKS_BACK = timedelta(days=7)  # of the forecast
QUARTER = timedelta(minutes=15)
OF_SAGEMAKER = {call: 2 * count for call, count in studio_budgets.LISTS.items()}  # in two regions


@on_a_day
def test_beats_of_an_empty_account(money: BudgetAccount) -> None:
    """A beat reads and writes the ledger of each region and the document of the account; the first one also that of the month before."""
    counts = [money.tick_at(FIRST + LOOKS_BACK + quarters * QUARTER).counts for quarters in range(2)]
    beat = {**ALWAYS, **OF_SAGEMAKER, "ec2:DescribeInstances": 2, "s3:ListObjectsV2": 1, "s3:PutObject": 2 + 1 + 1}
    assert counts == [{**beat, "s3:GetObject": 7}, {**beat, "s3:GetObject": 6}]


@on_a_day
@pytest.mark.parametrize(
    ("since_first", "read", "listed"), [(timedelta(hours=6), 15, 2), (timedelta(days=3), 12, 2), (LOOKS_BACK, 10, 1)], ids=str
)
def test_beats_of_an_account_in_use(money: BudgetAccount, since_first: timedelta, read: int, listed: int) -> None:
    """Two teams, two regions, a dozen instances of two types, one of them on Spot; however many run. On-demand prices are asked for
    once a day, Spot prices in every beat. The month before is read for a week, its documents for a day; with a budget also the use of the
    instances of each region."""
    begin = FIRST + since_first
    money.aws.set_spot_price("g5.xlarge", {f"{EUROPE}a": 0.4}, EUROPE, since=begin - timedelta(days=9))
    for _ in range(10):
        money.launch(begin - timedelta(hours=1))
    money.launch(begin - timedelta(hours=1), "g5.12xlarge", tags={"Team": "nlp"})
    money.launch(begin - timedelta(hours=1), region=EUROPE, tags={"Team": "nlp"}, spot_instance_request="one-time")
    money.budgets(vision={"monthly_budget_usd": 18, "notify_at_percent": [50]}, nlp={"monthly_budget_usd": 1000})
    first, *others = (money.tick_at(begin + quarters * QUARTER) for quarters in range(3))
    beat = {
        **ALWAYS,
        **OF_SAGEMAKER,
        "ec2:DescribeInstances": 2,
        "ec2:DescribeInstanceTypes": 2,
        "ec2:DescribeVolumes": 2,
        "ec2:DescribeSpotPriceHistory": 1,
        "s3:ListObjectsV2": listed,
        "s3:GetObject": read,
        "s3:PutObject": 2 + 3 + 1 + 1,  # ledgers, documents, prices, the record
    }
    assert [run.counts for run in others] == [beat] * 2 and others[1].steps == []
    if since_first == LOOKS_BACK:
        # Of new documents the month before; two types, and three products of storage in each region; a message, and what was told.
        more = {"s3:GetObject": read + 3, "pricing:GetProducts": 2 + 3 * 2, "s3:PutObject": 8, "sns:Publish": 1}
        assert first.counts == {**beat, **more} and first.step("vision")["action"] == "notify"
