"""A spent budget that stops: the beat says so, and the instance reaper marks, waits, looks again, and acts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from reaping import Account
from reaping_budgets import BudgetAccount, month


@pytest.fixture
def reaper(money: BudgetAccount) -> Iterator[Account]:
    """The instance reaper of the same account."""
    reaper = Account.__new__(Account)
    reaper.__dict__.update(money.__dict__)
    with reaper:
        yield reaper


def overspent(money: BudgetAccount, percent: float = 120, **team: Any) -> str:
    gpu = money.gpu()
    money.budget(percent, gpu, over_budget="stop", **team)
    money.tick()
    return gpu


def test_it_is_marked_and_then_stopped(money: BudgetAccount, reaper: Account) -> None:
    gpu = overspent(money)
    first = reaper.tick()
    assert first.said(gpu) == ("mark", "over-budget", "done")
    evidence = first.step(gpu)["evidence"]
    assert (evidence["of"], evidence["over_budget"], evidence["month"]) == ("team", "stop", month())
    # What the beat said comes first.
    assert gpu in first.messages[-1]["message"] and "budget" in first.messages[-1]["message"]
    assert reaper.state(gpu) == "running"
    assert reaper.tick().said(gpu) == ("stop", "over-budget", "done")
    assert reaper.state(gpu) == "stopped"
    assert reaper.aws.tags(gpu)["curfew:stopped"].startswith("over-budget ")


def test_a_raised_budget_takes_the_mark_back(money: BudgetAccount, reaper: Account) -> None:
    gpu = overspent(money)
    reaper.tick()
    assert reaper.mark(gpu)
    money.budget(50, gpu, over_budget="stop")
    money.tick()
    assert reaper.tick().said(gpu) == ("unmark", "over-budget", "done")
    assert reaper.mark(gpu) is None and reaper.state(gpu) == "running"


@pytest.mark.parametrize("what", ["old", "of another month"])
def test_where_nobody_can_say_nothing_is_ended_and_nothing_taken_back(
    money: BudgetAccount, reaper: Account, what: str
) -> None:
    gpu = overspent(money)
    reaper.tick()
    mark, key = reaper.mark(gpu), f"budgets/vision/{month()}.json"
    match what:
        case "old":
            money.age(timedelta(hours=2))
        case "of another month":
            money.write(key, {**money.read(key), "month": "2020-01"})
    run = reaper.tick()
    assert run.ec2_writes == [] and reaper.state(gpu) == "running" and reaper.mark(gpu) == mark
    told = [gap["call"] for gap in run.gaps]
    assert told == (["s3:GetObject"] if what == "of another month" else [])
