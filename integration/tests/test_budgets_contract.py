"""What a beat answers and leaves behind: the response, the ledger, the budget documents, the audit record; and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_aws.client import REGION
from reaping import EUROPE, REGIONS, REPOSITORY, ago, moment, now
from reaping_budgets import BudgetAccount, month

FIELDS = ["function", "run", "at", "mode", "regions", "seen", "steps", "spared", "gaps"]
STEP_FIELDS = ["region", "resource", "team", "action", "because", "saves_usd_per_hour", "outcome", "error"]
BECAUSE = ["rule", "month", "of", "budget_usd", "spent_usd", "reserved_usd", "percent", "threshold_percent"]
BECAUSE += ["over_budget", "as_of"]
SPARED = {"within-budget", "without-budget", "budget-unknown", "told"}


def assert_contract(response: dict[str, Any]) -> None:
    """Exactly the fields of the design, in their order; every budget is in it once."""
    assert list(response) == FIELDS
    assert response["function"] == "enforce-budgets"
    assert abs((now() - moment(response["at"])).total_seconds()) < 60
    for step in response["steps"]:
        assert list(step) == STEP_FIELDS
        assert (step["region"], step["action"] in ("notify", "hold")) == (REGION, True)
        assert step["outcome"] in ("done", "observed")
        assert list(step["because"]) == BECAUSE and step["because"]["rule"] == "over-budget"
        assert step["saves_usd_per_hour"] is None
    assert set(response["spared"]) <= SPARED
    assert response["seen"] == len(response["steps"]) + sum(response["spared"].values())


def test_a_beat_answers_what_the_contract_says(money: BudgetAccount) -> None:
    gpu = money.gpu(launched=ago(hours=5))
    money.budget(90, gpu)
    run = money.tick()
    assert_contract(run.response)
    # vision, and the account, for which no budget is set.
    assert (run.response["regions"], run.response["seen"], run.gaps) == (REGIONS, 2, [])
    assert run.said("vision") == ("notify", "over-budget", "done")
    because = run.step("vision")["because"]
    assert (because["of"], because["percent"], because["threshold_percent"]) == ("team", 90, 80)
    assert run.spared == {"without-budget": 1} and run.ec2_writes == []


def test_the_audit_record_tells_the_same_as_the_response(money: BudgetAccount) -> None:
    money.budget(90, money.gpu())
    run = money.tick()
    record = money.audit(run)
    assert record.pop("schema") == 1
    assert record.pop("spared") == {"without-budget": ["account"]}
    for step in record["steps"]:
        assert step.pop("what") == "budget"
    assert record == {name: value for name, value in run.response.items() if name != "spared"}


def test_an_empty_account_is_no_error_and_no_news(money: BudgetAccount) -> None:
    run = money.tick()
    assert_contract(run.response)
    assert (run.steps, run.spared, run.gaps) == ([], {"without-budget": 1}, [])
    assert run.is_quiet
    assert money.document()["spent_usd"] == 0


def test_what_is_left_behind(money: BudgetAccount) -> None:
    money.gpu()
    money.untagged(region=EUROPE)
    money.budgets(**{"ml/ops": {"monthly_budget_usd": 5}})
    money.tick()
    documents = [key for key in money.keys() if key.endswith(".json") and not key.startswith("plans/")]
    assert set(documents) == {
        *(f"ledger/{month()}/{region}.json" for region in REGIONS),
        f"budgets/{month()}.json",
        f"budgets/vision/{month()}.json",
        f"budgets/ml%2Fops/{month()}.json",
        f"budgets/untagged/{month()}.json",
        "prices/current.json",
    }
    assert {money.read(key)["schema"] for key in documents} == {1}


def test_what_runs_costs_by_the_second(money: BudgetAccount) -> None:
    gpu, dear = money.gpu(launched=ago(hours=5)), money.gpu("g5.48xlarge", launched=ago(hours=50))
    money.tick()
    document = money.document("vision")
    at = moment(document["as_of"])
    spent = {one["resource"]: one["usd"] for one in document["top"]}
    assert spent[gpu] == pytest.approx(money.spent_on(gpu, at), abs=2e-4)
    assert spent[dear] == pytest.approx(money.spent_on(dear, at), abs=5e-3)
    assert list(spent)[0] == dear
    assert document["usd_per_hour"] == pytest.approx(1.006 + 16.288, abs=0.01)
    assert money.document()["teams"] == {"vision": document["spent_usd"]} and money.document()["top"] == document["top"]


def test_an_unknown_price_is_listed_and_counts_nothing(money: BudgetAccount) -> None:
    """Neither the list nor the table knows such a type."""
    strange = money.gpu("g5.2xlarge", launched=ago(hours=5))
    money.budgets(vision={"monthly_budget_usd": 1, "over_budget": "stop"})
    run = money.tick()
    document = money.document("vision")
    assert (run.steps, document["verdict"]) == ([], "ok") and document["spent_usd"] < 0.01
    [unpriced] = [one for one in document["unpriced"] if one["resource"] == strange]
    assert 0 < unpriced["seconds"] < 5 * 3600 + 60


EVENTS = sorted((REPOSITORY / "events" / "enforce-budgets").glob("*.json"))


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_its_schedules_and_aws_budgets_wake_it(money: BudgetAccount, path: Any) -> None:
    money.budget(90, money.gpu())
    run = money.tick(path.read_bytes())
    assert run.said("vision") == ("notify", "over-budget", "done")


def test_what_aws_budgets_says_is_never_a_figure(money: BudgetAccount) -> None:
    money.gpu()
    money.budgets(vision={"monthly_budget_usd": 100_000})
    event = json.loads((REPOSITORY / "events" / "enforce-budgets" / "sns-budget-notification.json").read_text())
    event["Records"][0]["Sns"]["Message"] = "vision has spent $100,000,000 of $1. Stop everything."
    run = money.tick(event)
    assert (run.steps, run.messages) == ([], [])
    assert money.document("vision")["spent_usd"] < 1000


@pytest.mark.parametrize("event", [b"{}", b"[]", b'{"Records": []}', b'{"Records": [{"eventSource": "aws:s3"}]}'])
def test_an_event_that_is_none_of_its_own_does_nothing(money: BudgetAccount, event: bytes) -> None:
    money.gpu()
    run = money.tick(event)
    assert "Scheduled Event or a notification by SNS" in run.error and run.calls == []


def test_no_reaper_is_woken_by_aws_budgets(account: Any) -> None:
    event = (REPOSITORY / "events" / "enforce-budgets" / "sns-budget-notification.json").read_bytes()
    run = account.tick(event)
    assert "woken by Scheduled Event, and got a notification by SNS" in run.error and run.calls == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[account]\nmonthly_budget_usd = -1", "monthly_budget_usd"),
        ('[account]\ntime_zone = "Berlin"', "time_zone"),
        ('[teams.vision]\nover_budget = "explode"', "over_budget"),
        ("[teams.vision]\nnotify_at_percent = 80", "notify_at_percent"),
    ],
)
def test_a_wrong_configuration_acts_on_nothing(money: BudgetAccount, text: str, told: str) -> None:
    money.gpu()
    money.write_config(text)
    run = money.tick()
    assert told in run.error and "line 2" in run.error
    assert not any(key.startswith(("ledger/", "budgets/")) for key in money.keys())
    assert run.error in run.message("untagged") and money.tick().messages == []


@pytest.mark.parametrize("variable", ["CURFEW_BUCKET", "CURFEW_TOPIC_ARN"])
def test_a_wrong_environment_fails_at_the_start_with_a_sentence(money: BudgetAccount, variable: str) -> None:
    money.restart(**{variable: None})
    assert variable in money.tick().error
