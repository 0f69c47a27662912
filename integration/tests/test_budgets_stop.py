"""A spent budget that stops: the beat says so, and the instance reaper marks, waits, looks again, and acts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from local_aws.client import REGION
from reaping import BUCKET, Account
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
    because = first.step(gpu)["because"]
    assert (because["of"], because["over_budget"], because["month"]) == ("team", "stop", month())
    # What the beat said comes first.
    assert gpu in first.messages[-1]["message"] and "budget" in first.messages[-1]["message"]
    assert reaper.state(gpu) == "running"
    assert reaper.tick().said(gpu) == ("stop", "over-budget", "done")
    assert reaper.state(gpu) == "stopped"
    assert reaper.aws.tags(gpu)["curfew:stopped"].startswith("over-budget ")


def test_it_waits_for_its_grace(money: BudgetAccount, reaper: Account) -> None:
    gpu = money.gpu()
    usd = money.spent_on(gpu) / 1.2
    team = {"monthly_budget_usd": usd, "over_budget": "stop"}
    money.budgets(account={"over_budget_grace": "1h"}, vision=team)
    money.tick()
    assert reaper.tick().said(gpu) == ("mark", "over-budget", "done")
    again = reaper.tick()
    assert again.spared == {"marked": 1} and again.is_quiet and reaper.state(gpu) == "running"


def test_a_raised_budget_takes_the_mark_back(money: BudgetAccount, reaper: Account) -> None:
    gpu = overspent(money)
    reaper.tick()
    assert reaper.mark(gpu)
    money.budget(50, gpu, over_budget="stop")
    money.tick()
    assert reaper.tick().said(gpu) == ("unmark", "over-budget", "done")
    assert reaper.mark(gpu) is None and reaper.state(gpu) == "running"


@pytest.mark.parametrize(("percent", "team"), [(50, {"over_budget": "stop"}), (120, {"over_budget": "hold"})])
def test_what_is_set_now_counts_before_the_next_beat(
    money: BudgetAccount, reaper: Account, percent: float, team: dict[str, Any]
) -> None:
    gpu = overspent(money)
    reaper.tick()
    assert reaper.mark(gpu)
    money.budget(percent, gpu, **team)
    assert money.document("vision")["verdict"] == "stop"
    assert reaper.tick().said(gpu) == ("unmark", "over-budget", "done")
    assert reaper.mark(gpu) is None and reaper.state(gpu) == "running"


@pytest.mark.parametrize("what", ["old", "absent", "unreadable", "of another month", "refused"])
def test_where_nobody_can_say_nothing_is_ended_and_nothing_taken_back(
    money: BudgetAccount, reaper: Account, what: str
) -> None:
    gpu = overspent(money)
    reaper.tick()
    mark, key = reaper.mark(gpu), f"budgets/vision/{month()}.json"
    match what:
        case "old":
            money.age(timedelta(hours=2))
        case "absent":
            money.aws.client("s3").delete_object(Bucket=BUCKET, Key=key)
        case "unreadable":
            money.put(key, b"{")
        case "of another month":
            money.write(key, {**money.read(key), "month": "2020-01"})
        case "refused":
            money.aws.fault("s3:GetObject", "access_denied", match=key, times=None)
    run = reaper.tick()
    assert run.ec2_writes == [] and reaper.state(gpu) == "running" and reaper.mark(gpu) == mark
    told = [gap["call"] for gap in run.gaps]
    assert told == (["s3:GetObject"] if what in ("unreadable", "refused") else [])


def test_within_its_budget_nothing_ends(money: BudgetAccount, reaper: Account) -> None:
    gpu = overspent(money, percent=90)
    for _ in range(2):
        assert reaper.tick().ec2_writes == []
    assert reaper.state(gpu) == "running"


@pytest.mark.parametrize("action", ["notify", "hold"])
def test_a_budget_that_does_not_stop_ends_nothing_and_is_not_even_read(
    money: BudgetAccount, reaper: Account, action: str
) -> None:
    gpu = money.gpu()
    money.budget(150, gpu, over_budget=action)
    money.tick()
    for _ in range(2):
        run = reaper.tick()
        assert run.ec2_writes == []
        assert not any("/budgets/" in key for call in run.calls for key in call["resources"])


def test_what_has_no_known_price_is_never_the_reason(money: BudgetAccount, reaper: Account) -> None:
    strange = money.gpu("g5.2xlarge")
    money.budgets(vision={"monthly_budget_usd": 1, "over_budget": "stop"})
    money.tick()
    for _ in range(2):
        assert reaper.tick().ec2_writes == []
    assert reaper.state(strange) == "running"


@pytest.mark.parametrize("tags", [{"curfew:protected": ""}, {"curfew:keep-until": "2999-01-01"}])
def test_the_spared_are_spared(money: BudgetAccount, reaper: Account, tags: dict[str, str]) -> None:
    gpu = money.gpu(tags=tags)
    money.budget(150, gpu, over_budget="stop")
    money.tick()
    for _ in range(2):
        assert reaper.tick().ec2_writes == []
    assert reaper.state(gpu) == "running"


def test_an_observing_team_is_only_told(money: BudgetAccount, reaper: Account) -> None:
    gpu = overspent(money, mode="observe")
    for _ in range(2):
        run = reaper.tick()
        assert run.ec2_writes == []
    assert reaper.state(gpu) == "running"


def test_the_account_stops_all_teams(money: BudgetAccount, reaper: Account) -> None:
    mine, theirs = money.gpu(), money.gpu(tags={"Team": "nlp"})
    usd = money.spent_on(mine) * 2 / 1.2
    money.budgets(account={"monthly_budget_usd": usd, "over_budget": "stop"})
    money.tick()
    assert money.document()["verdict"] == "stop"
    for outcome in ("mark", "stop"):
        run = reaper.tick()
        assert {run.said(gpu) for gpu in (mine, theirs)} == {(outcome, "over-budget", "done")}
    assert [call["resources"] for call in run.calls if any("/budgets/" in key for key in call["resources"])] == [
        [f"{BUCKET}/budgets/{month()}.json"]
    ]


def test_the_limits_hold_it_too(money: BudgetAccount, reaper: Account) -> None:
    gpus = [money.gpu() for _ in range(3)]
    usd = money.spent_on(gpus[0])
    team = {"monthly_budget_usd": usd, "over_budget": "stop"}
    money.configure(limits={"actions_max": 2}, teams={"vision": team})
    money.tick()
    reaper.tick()
    run = reaper.tick()
    assert {run.said(gpu) for gpu in gpus} == {("stop", "over-budget", "not-reached")}
    assert {reaper.state(gpu) for gpu in gpus} == {"running"}
    assert REGION in run.response["regions"]


def test_of_another_team_s_document_nothing_follows(money: BudgetAccount, reaper: Account) -> None:
    overspent(money)
    key = f"budgets/vision/{month()}.json"
    money.write(key, {**money.read(key), "team": "nlp"})
    assert reaper.tick().steps == []
