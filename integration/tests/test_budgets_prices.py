"""What a beat makes of prices: those that change between two beats count from when they changed, and where nobody says one, the dated
table does, by name."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import moved_clock
import pytest

from local_aws.client import REGION
from reaping import EUROPE
from reaping_budgets import HOURLY, BudgetAccount, month

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")

NOON = datetime(2031, 1, 17, 12, tzinfo=timezone.utc)
MONTH = month(NOON)
TABLE = "table of 2026-09-24"


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


# Spot prices


def spot_price(money: BudgetAccount, price: float, since: datetime, zone: str = "a") -> None:
    money.aws.set_spot_price("g5.xlarge", {f"{EUROPE}{zone}": price}, EUROPE, since=since)


def test_spot_costs_what_its_pool_did_in_each_second(money: BudgetAccount) -> None:
    spot_price(money, 0.4, NOON - hours(9))
    spot_price(money, 9.0, NOON - hours(9), zone="b")
    launch(money, region=EUROPE, spot_instance_request="one-time")
    money.tick_at(NOON)
    assert spent(money) == usd(0.4 * 5)
    spot_price(money, 0.8, NOON + minutes(7))
    money.tick_at(NOON + minutes(15))
    assert spent(money) == usd(0.4 * (5 + 7 / 60) + 0.8 * 8 / 60)
    # Two changes between two beats, and one of another zone.
    spot_price(money, 0.5, NOON + minutes(16))
    spot_price(money, 0.6, NOON + minutes(26))
    spot_price(money, 0.01, NOON + minutes(17), zone="b")
    money.tick_at(NOON + minutes(30))
    until = 0.4 * (5 + 7 / 60) + 0.8 * 9 / 60 + 0.5 * 10 / 60 + 0.6 * 4 / 60
    assert spent(money) == usd(until)
    assert money.document("vision", MONTH)["usd_per_hour"] == 0.6


def test_of_hours_in_which_nobody_looked_the_history_tells(money: BudgetAccount) -> None:
    spot_price(money, 0.4, NOON - hours(9))
    launch(money, region=EUROPE, spot_instance_request="one-time")
    money.tick_at(NOON)
    spot_price(money, 0.2, NOON + hours(1))
    spot_price(money, 0.6, NOON + hours(4))
    money.tick_at(NOON + hours(5))
    assert spent(money) == usd(0.4 * 6 + 0.2 * 3 + 0.6)


def test_what_the_history_was_not_asked_for_is_said_and_not_guessed(money: BudgetAccount) -> None:
    """Of what is first seen, the history of an hour is asked for, which begins with the price that was in force then."""
    spot_price(money, 0.4, NOON - hours(9))
    spot_price(money, 0.8, NOON - hours(3))
    gpu = launch(money, region=EUROPE, spot_instance_request="one-time")
    money.tick_at(NOON)
    document = money.document("vision", MONTH)
    assert document["spent_usd"] == usd(0.8 * 3)
    assert [(one["resource"], one["seconds"]) for one in document["unpriced"]] == [(gpu, 2 * 3600)]


@pytest.mark.parametrize("fault", ["access_denied", "garbled"])
def test_spot_prices_that_were_not_said_are_made_up_for(money: BudgetAccount, fault: str) -> None:
    spot_price(money, 0.4, NOON - hours(9))
    launch(money, region=EUROPE, spot_instance_request="one-time")
    money.tick_at(NOON)
    spot_price(money, 0.8, NOON + minutes(7))
    money.aws.fault("ec2:DescribeSpotPriceHistory", fault, times=None)
    run = money.tick_at(NOON + minutes(15))
    assert {gap["call"] for gap in run.gaps} == {"ec2:DescribeSpotPriceHistory"}
    money.aws.clear_faults()
    money.tick_at(NOON + minutes(30))
    assert spent(money) == usd(0.4 * (5 + 7 / 60) + 0.8 * 23 / 60)


# The Price List


def test_a_listed_price_that_changes_counts_from_the_day_on_which_it_was_first_said(money: BudgetAccount) -> None:
    launch(money)
    money.tick_at(NOON)
    money.aws.set_listed_price("g5.xlarge", usd="2.0")
    # A day long nobody asks again.
    assert "pricing:GetProducts" not in money.tick_at(NOON + hours(23)).counts
    assert spent(money) == usd(HOURLY["g5.xlarge"] * 28)
    assert money.tick_at(NOON + hours(25)).counts["pricing:GetProducts"]
    midnight = 5 + 12
    assert spent(money) == usd(HOURLY["g5.xlarge"] * midnight + 2.0 * 13)


@pytest.mark.parametrize("fault", ["access_denied", "throttle", "error500", "garbled"])
def test_without_the_price_list_the_table_counts_and_is_named(money: BudgetAccount, fault: str) -> None:
    launch(money)
    money.budgets(vision={"monthly_budget_usd": 6})
    money.aws.fault("pricing:GetProducts", fault, times=None)
    run = money.tick_at(NOON)
    assert {gap["call"] for gap in run.gaps} == {"pricing:GetProducts"}
    assert spent(money) == usd(HOURLY["g5.xlarge"] * 5)
    # Why, is told once a day, while every beat asks and says so.
    assert "pricing:GetProducts" in run.message("untagged")
    for late in (minutes(15), hours(20)):
        again = money.tick_at(NOON + late)
        assert {gap["call"] for gap in again.gaps} == {"pricing:GetProducts"}
        assert not any("pricing:GetProducts" in one["message"] for one in again.messages)
    assert "pricing:GetProducts" in money.tick_at(NOON + hours(25)).message("untagged")


def test_a_budget_names_the_table_that_it_rests_on(money: BudgetAccount) -> None:
    launch(money)
    money.budgets(vision={"monthly_budget_usd": 6})
    money.aws.fault("pricing:GetProducts", "access_denied", times=None)
    assert f"some are of the {TABLE}." in money.tick_at(NOON).message("vision")
    assert money.document("vision", MONTH)["tables"] == [TABLE]
    # Once the list answers, it says the price of today, which was that of this morning.
    money.aws.clear_faults()
    money.tick_at(NOON + minutes(15))
    assert "tables" not in money.document("vision", MONTH)


def test_once_the_price_list_answers_its_price_counts(money: BudgetAccount) -> None:
    launch(money)
    money.aws.set_listed_price("g5.xlarge", usd="2.0")
    money.aws.fault("pricing:GetProducts", "access_denied", times=None)
    money.tick_at(NOON)
    assert spent(money) == usd(HOURLY["g5.xlarge"] * 5)
    money.aws.clear_faults()
    money.budgets(vision={"monthly_budget_usd": 12})
    run = money.tick_at(NOON + minutes(15))
    assert run.gaps == [] and money.document("vision", MONTH)["usd_per_hour"] == 2.0
    assert spent(money) == usd(2.0 * 5.25) and TABLE not in run.message("vision")


@pytest.mark.parametrize("case", ["two", "none"])
def test_where_the_list_does_not_say_one_price_nothing_is_counted(money: BudgetAccount, case: str) -> None:
    gpu = launch(money)
    money.aws.set_listed_price("g5.xlarge", case=case)
    money.budgets(vision={"monthly_budget_usd": 1, "over_budget": "stop"})
    run = money.tick_at(NOON)
    document = money.document("vision", MONTH)
    assert (run.steps, document["spent_usd"], document["verdict"]) == ([], 0, "ok")
    assert [(one["resource"], one["seconds"]) for one in document["unpriced"]] == [(gpu, 5 * 3600)]
