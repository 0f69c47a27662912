"""What a beat makes of prices: those that change between two beats count from when they changed, and where nobody says one, the dated
table does, by name."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import moved_clock
import pytest

from local_aws.client import REGION
from reaping import EUROPE, moment
from reaping_budgets import HOURLY, BudgetAccount, month

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")

NOON = datetime(2031, 1, 17, 12, tzinfo=timezone.utc)
MONTH = month(NOON)


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def usd(amount: float) -> float:
    """To the millionth of a dollar, as documents say it."""
    return pytest.approx(amount, abs=2e-6)


def spent(money: BudgetAccount) -> float:
    document = money.document("vision", MONTH)
    assert document["uncertain_usd"] == 0 and document["unpriced"] == []
    return document["spent_usd"]


def launch(money: BudgetAccount, at: datetime = NOON - hours(5), region: str = REGION, **fields: str) -> str:
    gpu = money.launch(at, region=region, **fields)
    money.detach(gpu, region)
    return gpu


def hours_since(money: BudgetAccount, at: datetime) -> float:
    """Until the beat looked, which is later than it was asked to, by as much as the machine is busy."""
    return (moment(money.document("vision", MONTH)["as_of"]) - at) / hours(1)


# Spot prices


def spot_price(money: BudgetAccount, price: float, since: datetime, zone: str = "a") -> None:
    money.aws.set_spot_price("g5.xlarge", {f"{EUROPE}{zone}": price}, EUROPE, since=since)


def test_spot_costs_what_its_pool_did_in_each_second(money: BudgetAccount) -> None:
    spot_price(money, 0.4, NOON - hours(9))
    spot_price(money, 9.0, NOON - hours(9), zone="b")
    launch(money, region=EUROPE, spot_instance_request="one-time")
    money.tick_at(NOON)
    assert spent(money) == usd(0.4 * hours_since(money, NOON - hours(5)))
    spot_price(money, 0.8, NOON + minutes(7))
    money.tick_at(NOON + minutes(15))
    assert spent(money) == usd(0.4 * (5 + 7 / 60) + 0.8 * hours_since(money, NOON + minutes(7)))
    # Two changes between two beats, and one of another zone.
    spot_price(money, 0.5, NOON + minutes(16))
    spot_price(money, 0.6, NOON + minutes(26))
    spot_price(money, 0.01, NOON + minutes(17), zone="b")
    money.tick_at(NOON + minutes(30))
    until = 0.4 * (5 + 7 / 60) + 0.8 * 9 / 60 + 0.5 * 10 / 60
    assert spent(money) == usd(until + 0.6 * hours_since(money, NOON + minutes(26)))
    assert money.document("vision", MONTH)["usd_per_hour"] == 0.6


# The Price List


def test_once_the_price_list_answers_its_price_counts(money: BudgetAccount) -> None:
    launch(money)
    money.budgets(vision={"monthly_budget_usd": 6})
    money.aws.set_listed_price("g5.xlarge", usd="2.0")
    money.aws.fault("pricing:GetProducts", "access_denied", times=None)
    run = money.tick_at(NOON)
    assert {gap["call"] for gap in run.gaps} == {"pricing:GetProducts"} and "pricing:GetProducts" in run.message("untagged")
    begun, hourly = NOON - hours(5), HOURLY["g5.xlarge"]
    assert spent(money) == usd(hourly * hours_since(money, begun)), "by the dated table"
    money.aws.clear_faults()
    money.budgets(vision={"monthly_budget_usd": 12})
    run = money.tick_at(NOON + minutes(15))
    assert run.gaps == [] and money.document("vision", MONTH)["usd_per_hour"] == 2.0
    until = hours_since(money, begun)
    assert spent(money) == usd(hourly * until)
    money.tick_at(NOON + minutes(75))
    assert spent(money) == usd(hourly * until + 2.0 * (hours_since(money, begun) - until)), "from the beat that saw it"
