"""What runs under SageMaker in the ledger, in budgets and at a price. shared/billing/tests/ledger/sagemaker.rs counts it second by second."""

from __future__ import annotations

from datetime import timedelta

import pytest

from command import curfew
from reaping import BUCKET, ago, now, within_a_month
from studio_budgets import StudioBudgets

# USD per hour of ml.g5.xlarge by component: local_aws/price_list.py.
HOSTING, TRAINING, NOTEBOOK, JUPYTERLAB = 1.408, 1.418, 1.438, 1.448


def test_sagemaker_counts_for_its_team_by_component(studio_money: StudioBudgets) -> None:
    endpoint, app, notebook, job = studio_money.endpoint("llm"), studio_money.app(), studio_money.notebook(), studio_money.job("bert")
    studio_money.aws.put_sagemaker("training-job", "bert", {"TrainingStartTime": ago(hours=2).timestamp()}, {})
    at = within_a_month()
    spot = studio_money.trained("gpt", billable_s=600, at=at)
    run = studio_money.tick_at(at)
    assert run.gaps == []
    prices = {endpoint: HOSTING, app: JUPYTERLAB, notebook: NOTEBOOK, job: TRAINING, spot: TRAINING}
    rows = {resource: studio_money.row(resource) for resource in prices}
    assert {resource: row["usd_per_hour"] for resource, row in rows.items()} == prices
    assert {row["team"] for row in rows.values()} == {"vision"}
    # Not the three hours that it took.
    assert (rows[spot]["lifecycle"], rows[spot]["ended"]) == ("managed-spot", True)
    assert rows[spot]["usd"] == pytest.approx(TRAINING * 600 / 3600, abs=2e-6)
    spent = studio_money.document("vision")
    assert spent["spent_usd"] == pytest.approx(sum(row["usd"] for row in rows.values()), abs=1e-5)
    assert (spent["unpriced"], spent["uncertain_usd"]) == ([], 0)
    shown = curfew(studio_money.environment(), "budget", "vision", "--bucket", BUCKET).out
    assert endpoint in shown and "ml.g5.xlarge" in shown, shown
    studio_money.budget(85)
    assert "endpoint/llm" in studio_money.tick().message()


def test_a_refusal_of_sagemaker_ends_no_run_and_hides_no_instance(studio_money: StudioBudgets) -> None:
    endpoint, gpu = studio_money.endpoint("llm"), studio_money.gpu(launched=ago(hours=2))
    studio_money.tick()
    before = studio_money.ledger()["sagemaker_beats"]
    studio_money.aws.fault("sagemaker:ListEndpoints", "access_denied", times=None)
    run = studio_money.tick()
    assert {gap["call"] for gap in run.gaps} == {"sagemaker:ListEndpoints"}
    ledger = studio_money.ledger()
    assert ledger["sagemaker_beats"] == before
    rows = [run for run in ledger["runs"] if (run.get("sagemaker") or run.get("instance")) in (endpoint, gpu)]
    assert [row["ended"] for row in rows] == [False, False]
    studio_money.aws.clear_faults()
    studio_money.aws.client("sagemaker").delete_endpoint(EndpointName="llm")
    # A ledger counts in seconds: what one beat saw and the next one did not has ended only if they are of different ones.
    studio_money.tick_at(now() + timedelta(minutes=15))
    assert studio_money.row(endpoint)["ended"]


def test_messages_and_the_scan_say_what_sagemaker_costs(studio_money: StudioBudgets) -> None:
    app = studio_money.app()
    scanned = curfew(studio_money.environment(), "scan", "--sagemaker", "--json", "--quiet", "--bucket", BUCKET).json()
    assert [one["usd_per_hour"] for one in scanned["findings"] if one["resource"] == app] == [JUPYTERLAB]
    studio_money.tick()
    studio_money.reap()
    run = studio_money.tick()
    assert run.step(app)["saves_usd_per_hour"] == JUPYTERLAB
    assert "It costs $1.45/h" in run.message() and "price unknown" not in run.message()


def test_a_spent_budget_ends_what_runs_and_no_endpoint_that_serves(studio_money: StudioBudgets) -> None:
    job, lab, app = studio_money.job("bert"), studio_money.notebook(), studio_money.app(used=ago(minutes=5))
    studio_money.aws.put_sagemaker("training-job", "bert", {"TrainingStartTime": ago(hours=2).timestamp()}, {})
    llm = studio_money.asked(studio_money.unused(studio_money.endpoint("llm")), ago(hours=1))
    studio_money.tick()
    spent = studio_money.document("vision")["spent_usd"]
    team = {"monthly_budget_usd": spent / 2, "over_budget": "stop"}
    studio_money.configure(sagemaker={"mode": "enforce", "endpoint_action": "delete"}, teams={"vision": team})
    assert "what runs is stopped" in studio_money.tick().message()
    studio_money.reap()
    run = studio_money.tick()
    assert {run.said(one) for one in (job, lab, app)} == {("mark", "over-budget", "done")}, run.response
    assert run.said(llm) == ("notify", "over-budget", "done") and run.step(llm)["evidence"]["notify_only"] == "busy"
    assert "of its budget of" in curfew(studio_money.environment(), "explain", lab, "--bucket", BUCKET).out
    run = studio_money.tick()
    assert [run.said(one)[0] for one in (job, lab, app)] == ["stop", "stop", "delete"], run.response
    assert studio_money.endpoints() == {"llm": "InService"}
    calls = {call["action"] for call in run.calls}
    assert {"sagemaker:StopTrainingJob", "sagemaker:StopNotebookInstance", "sagemaker:DeleteApp"} <= calls
