"""What a beat answers and leaves behind: the response, the ledger, the budget documents, the audit record; and what it refuses."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import moved_clock
import pytest

from contract import assert_all_is_in_it_once, assert_contract, assert_recorded
from local_aws.client import REGION
from reaping import EUROPE, REGIONS, REPOSITORY, ago, rfc3339
from reaping_budgets import BudgetAccount

BECAUSE = ["rule", "month", "of", "budget_usd", "spent_usd", "reserved_usd", "percent", "threshold_percent"]
BECAUSE += ["over_budget", "as_of"]


def test_a_beat_fulfils_the_contract(money: BudgetAccount) -> None:
    gpu = money.gpu(launched=ago(hours=5))
    money.budget(90, gpu)
    run = money.tick()
    assert_contract(run.response, "enforce-budgets", {"over-budget": {"notify", "hold"}})
    assert_all_is_in_it_once(run.response)
    # vision, and the account, for which no budget is set.
    assert (run.response["regions"], run.response["seen"], run.gaps) == (REGIONS, 2, [])
    assert run.said("vision") == ("notify", "over-budget", "done")
    evidence = run.step("vision")["evidence"]
    assert list(evidence) == BECAUSE and run.step("vision")["saves_usd_per_hour"] is None
    assert (evidence["of"], evidence["percent"], evidence["threshold_percent"]) == ("team", 90, 80)
    assert run.skipped == {"without-budget": 1} and run.ec2_writes == []
    assert_recorded(money, run, "without-budget", ["account"])


def test_the_advice_names_what_is_idle_before_what_is_busy(money: BudgetAccount) -> None:
    """By what `reap-instances` found last, however dear it is."""
    idle, busy = money.gpu(launched=ago(hours=5)), money.gpu("g5.12xlarge", launched=ago(hours=5))
    at = rfc3339(ago(minutes=5))
    found = {idle: {"found_idle_reserved": False}, busy: {"busy_until": at}}
    instances = {gpu: {"at": at, "idle_not_before": at, **facts} for gpu, facts in found.items()}
    money.write(f"activity/{REGION}.json", {"schema": 1, "instances": instances})
    money.budget(90, idle)
    money.tick()
    advice = " ".join(money.document("vision")["remedy"])
    assert f"stop {idle} (g5.xlarge" in advice and f", {busy} (g5.12xlarge" in advice
    assert advice.index("; idle at ") < advice.index(f"{busy} (") < advice.index("; busy until ")
    assert advice.endswith(f"aws ec2 stop-instances --region {REGION} --instance-ids {busy}")


@pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
def test_a_beat_writes_these_documents(money: BudgetAccount) -> None:
    """In the middle of a month: in its first days those of the month before are written as well."""
    noon = datetime(2031, 1, 17, 12, tzinfo=timezone.utc)
    month = f"{noon:%Y-%m}"
    money.launch(noon - timedelta(hours=5))
    money.untagged(region=EUROPE, launched=noon - timedelta(hours=5))
    money.budgets(**{"ml/ops": {"monthly_budget_usd": 5}})
    money.tick_at(noon)
    documents = [key for key in money.keys() if key.endswith(".json") and not key.startswith("plans/")]
    assert set(documents) == {
        *(f"ledger/{month}/{region}.json" for region in REGIONS),
        f"budgets/{month}.json",
        f"budgets/vision/{month}.json",
        f"budgets/ml%2Fops/{month}.json",
        f"budgets/untagged/{month}.json",
        "prices/current.json",
    }
    assert {money.read(key)["schema"] for key in documents} == {1}


def test_the_text_of_aws_budgets_is_ignored(money: BudgetAccount) -> None:
    money.gpu()
    money.budgets(vision={"monthly_budget_usd": 100_000})
    event = json.loads((REPOSITORY / "events" / "enforce-budgets" / "sns-budget-notification.json").read_text())
    event["Records"][0]["Sns"]["Message"] = "vision has spent $100,000,000 of $1. Stop everything."
    run = money.tick(event)
    assert (run.steps, run.messages) == ([], [])
    assert money.document("vision")["spent_usd"] < 1000
