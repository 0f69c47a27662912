"""Months turn, nights are lost, instances live twice: what the ledger and the budgets make of it, by a clock of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import moved_clock
import pytest

from reaping import Account, moment, rfc3339
from reaping_budgets import HOURLY, BudgetAccount

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")

# When March ends in Berlin; it has an hour less, for summer time begins.
ZONE, END = "Europe/Berlin", datetime(2031, 3, 31, 22, tzinfo=timezone.utc)
MARCH, APRIL = "2031-03", "2031-04"
NOON = datetime(2031, 1, 17, 12, tzinfo=timezone.utc)
JOB = "vision/llama-0123abcd"


@pytest.fixture
def end(money: BudgetAccount) -> datetime:
    money.budgets(account={"time_zone": ZONE})
    return END


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def cost(of: timedelta, instance_type: str = "g5.xlarge") -> float:
    return pytest.approx(HOURLY[instance_type] * (of / hours(1)), abs=2e-6)


def as_of(money: BudgetAccount, of: str) -> datetime:
    """When the beat looked, which is later than it was asked to, by as much as the machine is busy."""
    return moment(money.document("vision", of)["as_of"])


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
    assert spent(money, MARCH) == (cost(as_of(money, MARCH) - end + hours(30)), 0)
    assert f"budgets/vision/{APRIL}.json" not in money.keys()
    for late in (5, 20):
        run = money.tick_at(end + minutes(late))
        assert run.gaps == [] and spent(money, APRIL) == (cost(as_of(money, APRIL) - end), 0)
        assert money.document("vision", APRIL)["month"] == APRIL
        # March is closed: it ran until its end, and every later beat says the same.
        [march] = money.ledger(of=MARCH)["runs"]
        assert (march["instance"], march["launched_at"]) == (gpu, rfc3339(end - hours(30)))
        assert march["seen"] >= rfc3339(end)
        assert money.ledger(of=MARCH)["to"] == rfc3339(end) == money.ledger(of=APRIL)["from"]


def test_what_is_reserved_goes_on_in_the_next_month(money: BudgetAccount, end: datetime) -> None:
    gpu = launch(money, end - hours(2), **{"curfew:job": JOB})
    money.budgets(account={"time_zone": ZONE}, vision={"monthly_budget_usd": 100})
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
        cost_by_now = HOURLY["g5.xlarge"] * (2 + (as_of(money, APRIL) - end) / hours(1))
        assert april["reserved_usd"] == pytest.approx(40 - cost_by_now, abs=2e-6)
        assert april["remaining_usd"] == pytest.approx(100 - april["spent_usd"] - april["reserved_usd"], abs=2e-6)


@pytest.fixture
def reaper(money: BudgetAccount) -> Iterator[Account]:
    """The instance reaper of the same account, by a clock of its own."""
    reaper = Account.__new__(Account)
    reaper.__dict__.update(money.__dict__)
    with reaper:
        yield reaper


def test_a_new_month_calls_off_what_the_last_one_announced(money: BudgetAccount, reaper: Account, end: datetime) -> None:
    gpu = launch(money, end - hours(30))
    vision = {"monthly_budget_usd": 30, "over_budget": "stop"}
    money.budgets(account={"time_zone": ZONE, "over_budget_grace": "10m"}, vision=vision)
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


# Nobody looked


def test_what_ran_through_a_lost_night_is_counted_and_nothing_else(money: BudgetAccount) -> None:
    """What is still there in the morning has run all night; of what is gone, nobody knows when it was stopped."""
    stayed, gone = launch(money, NOON - hours(5)), launch(money, NOON - hours(5), "g5.12xlarge")
    money.budgets(vision={"monthly_budget_usd": 60, "over_budget": "stop"})
    money.tick_at(NOON)
    seen = as_of(money, f"{NOON:%Y-%m}")
    money.ended(gone, NOON + hours(7))
    money.tick_at(NOON + hours(9))
    ran = [as_of(money, f"{NOON:%Y-%m}") - NOON + hours(5), seen - NOON + hours(5)]
    known = HOURLY["g5.xlarge"] * (ran[0] / hours(1)) + HOURLY["g5.12xlarge"] * (ran[1] / hours(1))
    expected = pytest.approx(known, abs=2e-6), cost(NOON + hours(7) - seen, "g5.12xlarge")
    assert spent(money, f"{NOON:%Y-%m}") == expected
    # By what is known it is 70 %; with what may be, more than all. Nothing is judged by what may be.
    assert money.document("vision", f"{NOON:%Y-%m}")["verdict"] == "ok"
    assert {run["instance"] for run in money.ledger(of=f"{NOON:%Y-%m}")["runs"]} == {stayed, gone}
