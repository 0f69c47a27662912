"""Months turn, nights are lost, instances live twice: what the ledger and the budgets make of it, by a clock of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import moved_clock
import pytest

from reaping import Account, moment, rfc3339
from reaping_budgets import HOURLY, BudgetAccount

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")

# When March ends; in Berlin it has an hour less, for summer time begins.
ENDS = {
    "UTC": datetime(2031, 4, 1, tzinfo=timezone.utc),
    "Europe/Berlin": datetime(2031, 3, 31, 22, tzinfo=timezone.utc),
}
MARCH, APRIL = "2031-03", "2031-04"
NOON = datetime(2031, 1, 17, 12, tzinfo=timezone.utc)
JOB = "vision/llama-0123abcd"


@pytest.fixture(params=ENDS)
def zone(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def end(zone: str, money: BudgetAccount) -> datetime:
    money.budgets(account={"time_zone": zone})
    return ENDS[zone]


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def cost(of: timedelta, instance_type: str = "g5.xlarge") -> float:
    """To three seconds: on a busy machine a run begins that much after the moment that it is given."""
    hourly = HOURLY[instance_type]
    return pytest.approx(hourly * of.total_seconds() / 3600, abs=hourly * 3 / 3600)


def launch(money: BudgetAccount, at: datetime, instance_type: str = "g5.xlarge", **tags: str) -> str:
    """One whose volume costs nothing, for it has none."""
    gpu = money.launch(at, instance_type, tags=tags)
    money.detach(gpu)
    return gpu


def spent(money: BudgetAccount, of: str) -> tuple[float, float]:
    """What is known, and by how much more it may be."""
    document = money.document("vision", of)
    return document["spent_usd"], document["uncertain_usd"]


# A month turns


def test_each_month_has_its_part_to_the_second(money: BudgetAccount, end: datetime) -> None:
    gpu = launch(money, end - hours(30))
    money.tick_at(end - minutes(10))
    assert spent(money, MARCH) == (cost(hours(30) - minutes(10)), 0) and f"budgets/vision/{APRIL}.json" not in money.keys()
    for late in (5, 20):
        run = money.tick_at(end + minutes(late))
        assert run.gaps == [] and spent(money, APRIL) == (cost(minutes(late)), 0)
        assert money.document("vision", APRIL)["month"] == APRIL
        # March is closed: it ran until its end, and every later beat says the same.
        [march] = money.ledger(of=MARCH)["runs"]
        assert (march["instance"], march["launched_at"]) == (gpu, rfc3339(end - hours(30)))
        assert march["seen"] >= rfc3339(end)
        assert money.ledger(of=MARCH)["to"] == rfc3339(end) == money.ledger(of=APRIL)["from"]


def test_what_ends_around_midnight_is_clipped(money: BudgetAccount, end: datetime) -> None:
    before, after = launch(money, end - hours(3)), launch(money, end - hours(2))
    money.tick_at(end - minutes(10))
    money.ended(before, end - minutes(4))
    money.ended(after, end + minutes(3))
    money.tick_at(end + minutes(5))
    assert spent(money, APRIL) == (cost(minutes(3)), 0)
    ended = {run["instance"]: run for run in money.ledger(of=MARCH)["runs"]}
    assert ended[before]["terminated"] == rfc3339(end - minutes(4))
    assert ended[after]["terminated"] == rfc3339(end + minutes(3))


def test_a_share_speaks_anew_in_the_next_month(money: BudgetAccount, zone: str, end: datetime) -> None:
    launch(money, end - hours(30))
    money.budgets(account={"time_zone": zone}, vision={"monthly_budget_usd": 35})
    run = money.tick_at(end - minutes(10))
    assert run.step("vision")["because"]["threshold_percent"] == 80 and "for 2031-03 (85 %)" in run.message("vision")
    for late in (minutes(5), hours(14)):  # 40 %
        run = money.tick_at(end + late)
        assert (run.steps, run.messages) == ([], [])
    run = money.tick_at(end + hours(28.5))
    assert run.step("vision")["because"]["month"] == APRIL and "for 2031-04 (81 %)" in run.message("vision")
    assert money.tick_at(end + hours(28.75)).messages == []


def test_what_is_reserved_goes_on_in_the_next_month(money: BudgetAccount, zone: str, end: datetime) -> None:
    gpu = launch(money, end - hours(2), **{"curfew:job": JOB})
    money.budgets(account={"time_zone": zone}, vision={"monthly_budget_usd": 100})
    money.tick_at(end - minutes(30))
    key = f"budgets/vision/{MARCH}.json"
    reserved = {"usd": 40.0, "since": rfc3339(end - hours(2)), "until": rfc3339(end + hours(8)), "instances": [gpu]}
    over = {**reserved, "until": rfc3339(end - minutes(1))}
    money.write(key, {**money.read(key), "reservations": {JOB: reserved, "vision/done-0123abcd": over}})
    money.tick_at(end - minutes(15))
    for late in (5, 20):
        money.tick_at(end + minutes(late))
        april = money.document("vision", APRIL)
        # What it cost in March is no longer reserved in April, and what it costs now less and less.
        assert set(april["reservations"]) == {JOB}
        assert april["reservations"][JOB]["usd"] == pytest.approx(40 - HOURLY["g5.xlarge"] * 2, abs=2e-6)
        assert april["reserved_usd"] == pytest.approx(40 - HOURLY["g5.xlarge"] * (2 + late / 60), abs=2e-6)
        assert april["remaining_usd"] == pytest.approx(100 - april["spent_usd"] - april["reserved_usd"], abs=2e-6)


@pytest.fixture
def reaper(money: BudgetAccount) -> Iterator[Account]:
    """The instance reaper of the same account, by a clock of its own."""
    reaper = Account.__new__(Account)
    reaper.__dict__.update(money.__dict__)
    with reaper:
        yield reaper


def test_a_new_month_calls_off_what_the_last_one_announced(
    money: BudgetAccount, reaper: Account, zone: str, end: datetime
) -> None:
    gpu = launch(money, end - hours(30))
    vision = {"monthly_budget_usd": 30, "over_budget": "stop"}
    money.budgets(account={"time_zone": zone, "over_budget_grace": "10m"}, vision=vision)
    money.tick_at(end - minutes(5))
    assert money.document("vision", MARCH)["verdict"] == "stop"
    assert reaper.tick_at(end - minutes(4)).said(gpu) == ("mark", "over-budget", "done")
    # It would be stopped at six past. Before the first beat of April nobody knows where April stands.
    run = reaper.tick_at(end + minutes(1))
    assert run.ec2_writes == [] and reaper.mark(gpu)
    money.tick_at(end + minutes(5))
    assert money.document("vision", APRIL)["verdict"] == "ok"
    assert reaper.tick_at(end + minutes(7)).said(gpu) == ("unmark", "over-budget", "done")
    assert reaper.state(gpu) == "running" and reaper.mark(gpu) is None


def test_without_a_beat_in_the_new_month_nothing_is_ended(
    money: BudgetAccount, reaper: Account, zone: str, end: datetime
) -> None:
    gpu = launch(money, end - hours(30))
    vision = {"monthly_budget_usd": 30, "over_budget": "stop"}
    money.budgets(account={"time_zone": zone, "over_budget_grace": "10m"}, vision=vision)
    money.tick_at(end - minutes(5))
    reaper.tick_at(end - minutes(4))
    for late in (7, 40):
        assert reaper.tick_at(end + minutes(late)).ec2_writes == []
    assert reaper.state(gpu) == "running"


def test_in_its_first_days_the_forecast_looks_back(money: BudgetAccount, end: datetime) -> None:
    """A week ago a dear one ran for three days: it counts in the mean, though nothing of it was spent this month."""
    begin = end + hours(6) - timedelta(days=7)
    launch(money, begin)
    dear = launch(money, begin, "g5.12xlarge")
    money.tick_at(begin)
    money.tick_at(begin + timedelta(days=3) - minutes(5))
    money.ended(dear, begin + timedelta(days=3))
    money.tick_at(begin + timedelta(days=3) + minutes(10))
    money.tick_at(end + hours(6))
    document = money.document("vision", APRIL)
    assert (document["spent_usd"], document["uncertain_usd"]) == (cost(hours(6)), 0)
    mean = HOURLY["g5.xlarge"] + HOURLY["g5.12xlarge"] * 3 / 7
    left = timedelta(days=30) - hours(6)
    assert document["forecast_usd"] == pytest.approx(document["spent_usd"] + mean * left.total_seconds() / 3600, rel=1e-4)
    assert f"the mean of the 7d since {rfc3339(begin)}" in document["forecast_method"]


# Nobody looked


def test_what_ran_through_a_lost_night_is_counted_and_nothing_else(money: BudgetAccount) -> None:
    """What is still there in the morning has run all night; of what is gone, nobody knows when it was stopped."""
    stayed, gone = launch(money, NOON - hours(5)), launch(money, NOON - hours(5), "g5.12xlarge")
    money.budgets(vision={"monthly_budget_usd": 60, "over_budget": "stop"})
    money.tick_at(NOON)
    money.ended(gone, NOON + hours(7))
    money.tick_at(NOON + hours(9))
    known = HOURLY["g5.xlarge"] * 14 + HOURLY["g5.12xlarge"] * 5
    assert spent(money, f"{NOON:%Y-%m}") == (pytest.approx(known, abs=1e-6), cost(hours(7), "g5.12xlarge"))
    # By what is known it is 70 %; with what may be, more than all. Nothing is judged by what may be.
    assert money.document("vision", f"{NOON:%Y-%m}")["verdict"] == "ok"
    assert {run["instance"] for run in money.ledger(of=f"{NOON:%Y-%m}")["runs"]} == {stayed, gone}


def test_while_a_region_is_not_seen_its_money_is_said_to_be_unknown(money: BudgetAccount) -> None:
    launch(money, NOON - hours(5))
    money.tick_at(NOON)
    money.aws.fault("ec2:DescribeInstances", "access_denied", region="us-east-1", times=None)
    run = money.tick_at(NOON + hours(3))
    assert [gap["call"] for gap in run.gaps] == ["ec2:DescribeInstances"]
    document = money.document("vision", f"{NOON:%Y-%m}")
    assert (document["spent_usd"], document["uncertain_usd"]) == (cost(hours(5)), cost(hours(3)))
    assert moment(document["blind_since"]) == NOON
    money.aws.clear_faults()
    money.tick_at(NOON + hours(3.25))
    assert spent(money, f"{NOON:%Y-%m}") == (cost(hours(8.25)), 0)
    assert "blind_since" not in money.document("vision", f"{NOON:%Y-%m}")


# It lives twice


def test_a_stop_and_a_start_are_two_runs(money: BudgetAccount) -> None:
    gpu = launch(money, NOON - hours(5))
    money.tick_at(NOON)
    money.ended(gpu, NOON + minutes(10), "stopped")
    money.tick_at(NOON + minutes(15))
    assert spent(money, f"{NOON:%Y-%m}") == (cost(hours(5) + minutes(10)), 0)
    _start(money, gpu, NOON + minutes(40))
    money.tick_at(NOON + minutes(45))
    assert spent(money, f"{NOON:%Y-%m}") == (cost(hours(5) + minutes(15)), 0)
    assert len(money.ledger(of=f"{NOON:%Y-%m}")["runs"]) == 2


def test_a_stop_that_nobody_saw_is_uncertain(money: BudgetAccount) -> None:
    """Once it is started again, EC2 no longer says when it was stopped."""
    gpu = launch(money, NOON - hours(5))
    money.tick_at(NOON)
    _start(money, gpu, NOON + minutes(20))
    money.tick_at(NOON + minutes(30))
    assert spent(money, f"{NOON:%Y-%m}") == (cost(hours(5) + minutes(10)), cost(minutes(20)))


def _start(money: BudgetAccount, gpu: str, at: datetime) -> None:
    fields: dict[str, Any] = {"state": "running", "state_transition_reason": "", "launch_time": at}
    money.aws.set_instance(gpu, **fields)
