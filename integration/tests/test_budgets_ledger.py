"""What becomes of money when beats are lost, repeated or come twice at once, and of what ends between two of them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import moved_clock
import pytest

from local_aws.client import REGION
from pricing import know_prices, listed
from reaping import BUCKET, EUROPE, ago, let_a_second_pass, moment
from reaping_budgets import HOURLY, BudgetAccount, month


def spent_on(money: BudgetAccount, gpu: str) -> float:
    found = [one["usd"] for one in money.document("vision")["top"] if one["resource"] == gpu]
    return found[0] if found else 0.0


def cost(seconds: float, of: str = "g5.xlarge") -> float:
    return HOURLY[of] * seconds / 3600


def test_what_ends_between_two_beats_is_billed_until_its_end(money: BudgetAccount) -> None:
    gpu = money.gpu(launched=ago(hours=3))
    launched = money.aws.instance(gpu)["LaunchTime"]
    money.tick()
    ended = ago(minutes=7).replace(microsecond=0)
    money.ended(gpu, ended)
    # What was seen running later than its end has run until then.
    money.tick()
    running = moment(money.document("vision")["as_of"])
    assert spent_on(money, gpu) == pytest.approx(cost((ended - launched).total_seconds()), abs=cost(8 * 60))
    assert spent_on(money, gpu) <= cost((running - launched).total_seconds())


def test_two_beats_at_once_lose_nothing(money: BudgetAccount) -> None:
    """Another beat writes the ledger between this one's look and its write: both are in it."""
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


def test_a_ledger_that_cannot_be_read_renews_no_budget(money: BudgetAccount) -> None:
    """It would say too little. It is told, and nothing is overwritten."""
    money.budget(120, money.gpu(), over_budget="stop")
    money.tick()
    before, key = money.document("vision"), f"ledger/{month()}/{REGION}.json"
    money.put(key, b"{")
    run = money.tick()
    assert money.document("vision") == before
    assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "s3:GetObject")]
    assert "cannot be understood" in run.message("untagged")
    # It is held as it was, and nobody is told again.
    assert run.said("vision") == ("hold", "over-budget", "done") and money.tick().messages == []
    assert money.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"{"


def test_a_budget_that_cannot_be_read_is_not_overwritten(money: BudgetAccount) -> None:
    gpu = money.gpu()
    money.budget(120, gpu)
    key = f"budgets/vision/{month()}.json"
    money.put(key, b'{"schema": 9}')
    run = money.tick()
    assert [gap["call"] for gap in run.gaps] == ["s3:GetObject"] and "has schema 9" in run.message("untagged")
    assert money.read(key) == {"schema": 9}
    # Nothing is known of it, so nothing is said.
    assert run.steps == [] and money.document()["spent_usd"] > 0


def test_what_a_region_cost_stays_spent_where_it_is_looked_at_no_longer(money: BudgetAccount) -> None:
    """Taken out of the configuration in the middle of the month: no money comes back, and nobody is let go."""
    money.gpu(region=EUROPE, launched=ago(hours=5))
    know_prices(money, {"g5.xlarge": listed(1.25)}, region=EUROPE)
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


def test_without_the_list_of_ledgers_no_budget_is_renewed(money: BudgetAccount) -> None:
    """One that is not looked at any more may be missing. What was seen is taken down all the same."""
    gpu = money.gpu()
    money.tick()
    before, of = money.document("vision"), money.ledger()
    let_a_second_pass()
    money.aws.fault("s3:ListObjectsV2", "access_denied", match=f"prefix=ledger%2F{month()}%2F", times=None)
    run = money.tick()
    assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "s3:ListBucket")]
    assert money.document("vision") == before
    assert len(money.ledger()["beats"]) > len(of["beats"]) and gpu in json.dumps(money.ledger())


@pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
def test_cost_explorer_is_asked_once_a_day_whether_it_answers_or_not(money: BudgetAccount) -> None:
    """Each question costs a cent."""
    noon = datetime(2031, 1, 17, 12, tzinfo=timezone.utc)
    money.launch(noon - timedelta(hours=5))
    money.budgets(account={"cost_explorer": True})
    money.tick_at(noon - timedelta(days=9))
    # Whoever loses the swap has asked all the same.
    late = {"status": 412, "code": "PreconditionFailed", "message": "too late"}
    money.aws.fault("s3:PutObject", "custom", match=f"budgets/{month(noon)}.json", **late)
    money.aws.fault("ce:GetCostAndUsage", "access_denied", times=None)
    run = money.tick_at(noon)
    assert [gap["call"] for gap in run.gaps] == ["ce:GetCostAndUsage"]
    assert money.document(of=month(noon))["unanswered"]["error"] == run.gaps[0]["error"]
    again = money.tick_at(noon + timedelta(minutes=15))
    assert (again.gaps, again.counts["ce:GetCostAndUsage"]) == ([], 0)
