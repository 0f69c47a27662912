"""Spend through beats at once, the end of a month and a budget that stops. scenario_budgets.py has prices that change and instances that
end between two beats, to the millionth of a dollar."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import moved_clock
import pytest

from local_aws.client import REGION
from pricing import know_prices
from reaping import BUCKET, EUROPE, Account, ago, let_a_second_pass, moment, rfc3339
from reaping_budgets import HOURLY, BudgetAccount, month

moves_the_clock = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
# When March ends in Berlin; it has an hour less, because summer time begins.
END = datetime(2031, 3, 31, 22, tzinfo=timezone.utc)
MARCH, APRIL = "2031-03", "2031-04"


def test_two_beats_at_once_lose_no_run(money: BudgetAccount) -> None:
    """Another beat writes the ledger after this one has read it: the next document has the runs of both."""
    mine, theirs = money.gpu(launched=ago(hours=3)), money.gpu(launched=ago(hours=4))
    money.tick()
    key = f"ledger/{month()}/{REGION}.json"
    whole = money.read(key)
    only_theirs = {**whole, "runs": [run for run in whole["runs"] if run.get("instance") == theirs], "beats": whole["beats"]}
    money.write(key, only_theirs)
    etags = money.aws.client("s3").head_object(Bucket=BUCKET, Key=key)["ETag"]
    money.aws.fault("s3:PutObject", "custom", match=key, status=412, code="PreconditionFailed", message="too late")
    run = money.tick()
    assert run.gaps == []
    assert {one.get("instance") for one in money.ledger()["runs"]} >= {mine, theirs}
    assert money.aws.client("s3").head_object(Bucket=BUCKET, Key=key)["ETag"] != etags
    reads = [call for call in run.calls if call["action"] == "s3:GetObject" and call["resources"] == [f"{BUCKET}/{key}"]]
    assert len(reads) >= 2


def test_a_region_that_is_no_longer_configured_keeps_its_spend(money: BudgetAccount) -> None:
    """Otherwise a change of the configuration would give money back in the middle of a month."""
    money.gpu(region=EUROPE, launched=ago(hours=5))
    know_prices(money, {"g5.xlarge": 1.25}, region=EUROPE)
    money.tick()
    money.budget(120, over_budget="hold")
    money.tick()
    before = money.document("vision")
    let_a_second_pass()
    money.configure(regions=[REGION], teams={"vision": {"monthly_budget_usd": before["budget_usd"], "over_budget": "hold"}})
    run = money.tick()
    after = money.document("vision")
    assert (run.gaps, run.said("vision")) == ([], ("hold", "over-budget", "done"))
    assert after["spent_usd"] == before["spent_usd"] > 0 and moment(after["as_of"]) > moment(before["as_of"])
    assert {call["region"] for call in run.calls if call["action"] == "ec2:DescribeInstances"} == {REGION}


@moves_the_clock
def test_cost_explorer_is_queried_once_a_day(money: BudgetAccount) -> None:
    """Each query costs a cent, also one that fails."""
    noon = datetime(2031, 1, 17, 12, tzinfo=timezone.utc)
    money.launch(noon - timedelta(hours=5))
    money.budgets(account={"cost_explorer": True})
    money.tick_at(noon - timedelta(days=9))
    # A beat that loses the swap has queried it as well.
    late = {"status": 412, "code": "PreconditionFailed", "message": "too late"}
    money.aws.fault("s3:PutObject", "custom", match=f"budgets/{month(noon)}.json", **late)
    money.aws.fault("ce:GetCostAndUsage", "access_denied", times=None)
    run = money.tick_at(noon)
    assert [gap["call"] for gap in run.gaps] == ["ce:GetCostAndUsage"]
    assert money.document(of=month(noon))["unanswered"]["error"] == run.gaps[0]["error"]
    again = money.tick_at(noon + timedelta(minutes=15))
    assert (again.gaps, again.counts["ce:GetCostAndUsage"]) == ([], 0)


def spent_since(money: BudgetAccount, of: str, start: datetime) -> tuple[object, float]:
    """What one g5.xlarge has cost from `start` until the beat looked, and that nothing of it is uncertain."""
    ran = moment(money.document("vision", of)["as_of"]) - start
    return pytest.approx(HOURLY["g5.xlarge"] * (ran / timedelta(hours=1)), abs=2e-6), 0


def spent(money: BudgetAccount, of: str) -> tuple[float, float]:
    document = money.document("vision", of)
    return document["spent_usd"], document["uncertain_usd"]


@moves_the_clock
def test_each_month_has_its_part_to_the_second(money: BudgetAccount) -> None:
    """In the time zone of the account."""
    money.budgets(account={"time_zone": "Europe/Berlin"})
    launched = END - timedelta(hours=30)
    money.detach(gpu := money.launch(launched))
    money.tick_at(END - timedelta(minutes=10))
    assert spent(money, MARCH) == spent_since(money, MARCH, launched)
    assert f"budgets/vision/{APRIL}.json" not in money.keys()
    for late in (5, 20):
        run = money.tick_at(END + timedelta(minutes=late))
        assert run.gaps == [] and spent(money, APRIL) == spent_since(money, APRIL, END)
        assert money.document("vision", APRIL)["month"] == APRIL
        # March is closed: every later beat says the same.
        [march] = money.ledger(of=MARCH)["runs"]
        assert (march["instance"], march["launched_at"]) == (gpu, rfc3339(launched))
        assert march["seen"] >= rfc3339(END)
        assert money.ledger(of=MARCH)["to"] == rfc3339(END) == money.ledger(of=APRIL)["from"]


def test_a_spent_budget_marks_and_then_stops(money: BudgetAccount) -> None:
    gpu = money.gpu()
    money.budget(120, gpu, over_budget="stop")
    money.tick()
    reaper = Account.__new__(Account)  # reaps the same account
    reaper.__dict__.update(money.__dict__, _function=None)
    with reaper:
        first = reaper.tick()
        assert first.said(gpu) == ("mark", "over-budget", "done")
        evidence = first.step(gpu)["evidence"]
        assert (evidence["of"], evidence["over_budget"], evidence["month"]) == ("team", "stop", month())
        assert gpu in first.messages[-1]["message"] and "budget" in first.messages[-1]["message"]
        assert reaper.state(gpu) == "running"
        assert reaper.tick().said(gpu) == ("stop", "over-budget", "done")
    assert reaper.state(gpu) == "stopped"
    assert reaper.aws.tags(gpu)["curfew:stopped"].startswith("over-budget ")
