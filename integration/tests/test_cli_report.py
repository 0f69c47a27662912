"""`curfew report`: the month as the ledger, the budgets and the audit records of real runs have it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import Said, curfew
from local_aws import LocalAws
from reaping import Account, ago, let_a_second_pass
from reaping_budgets import BudgetAccount, budget_key, month


@pytest.fixture
def both(aws: LocalAws) -> Iterator[tuple[BudgetAccount, Account]]:
    """An account with budgets whose instances are also reaped."""
    with BudgetAccount(aws) as money, Account(aws, heard=False) as reaper:
        yield money, reaper


def report(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), "report", *arguments)


def warnings(said: Said) -> list[str]:
    return [line.removeprefix("warning: ") for line in said.err.splitlines() if line.startswith("warning: ")]


def test_a_stopped_idle_instance_and_an_unknown_one(both: tuple[BudgetAccount, Account], tmp_path: Path) -> None:
    money, reaper = both
    reaper.configure(teams={"vision": {"monthly_budget_usd": 50}})
    idle = reaper.idle(money.launch(ago(hours=5)))
    blind = money.launch(ago(hours=5), tags={"Team": "nlp"})
    money.tick()
    reaper.tick()
    let_a_second_pass()
    reaper.tick()
    assert reaper.state(idle) == "stopped"
    money.tick()
    page = tmp_path / "report.html"
    said = report(money, "--json", "--output", str(page))
    assert said.code == 2 and warnings(said) == ["reap-volumes left no audit record today or yesterday: it does not run"], said
    found = said.json()
    assert (found["schema"], found["month"], found["is_over"], found["mode"]) == (1, month(), False, "enforce")
    teams = {row["team"]: row for row in found["teams"]}
    assert teams["vision"]["spent_usd"] == pytest.approx(money.spent_on(blind), rel=0.05) and teams["vision"]["budget_usd"] == 50
    [saving] = found["savings"]
    assert (saving["resource"], saving["action"], saving["rule"]) == (idle, "stopped", "idle")
    stopped = [step for step in money.read(saving["audit_key"])["steps"] if step["resource"] == idle]
    assert [(step["action"], step["outcome"]) for step in stopped] == [("stop", "done")]
    assert [(row["resource"], row["kind"], row["team"]) for row in found["waste"]] == [(blind, "uninstrumented", "nlp")]
    text = page.read_text()
    assert idle in text and blind in text and text.count("<svg") == 1
    part = report(money, "--team", "nlp", "--output", str(page))
    assert part.out.startswith(f"${found['headline']['spent_usd'] - teams['vision']['spent_usd']:.2f} spent by nlp on GPUs in {month()}")
    assert idle not in page.read_text()


def test_what_cannot_be_read_is_a_gap_beside_the_rest(money: BudgetAccount) -> None:
    money.launch(ago(hours=5))
    money.tick()
    money.put(budget_key("vision"), b"{")
    said = report(money, "--json")
    assert said.code == 2 and [row["team"] for row in said.json()["teams"]] == ["vision"]
    [gap] = [gap for gap in said.json()["gaps"] if "budget" in gap]
    assert gap.startswith("a budget could not be read: s3://") and gap in warnings(said)
    [other] = [json.loads(report(money, "--json", "--month", "2026-01").out)]
    assert other["is_over"] and other["gaps"] == ["2026-01 has no ledger: what ran is unknown; enforce-budgets keeps it"]


def test_the_charges_are_printed_by_resource_team_and_day(money: BudgetAccount, tmp_path: Path) -> None:
    instance = money.launch(ago(hours=5))
    money.tick()
    said = report(money, "--format", "csv")
    assert said.code == 2 and "reap-instances left no audit record" in said.err, said
    rows = list(csv.DictReader(said.out.splitlines()))
    assert {(row["team"], row["region"], row["account"]) for row in rows} == {("vision", "us-east-1", "123456789012")}
    of_instance = [float(row["cost_usd"]) for row in rows if row["resource"] == instance]  # and of its volume
    assert sum(of_instance) == pytest.approx(money.spent_on(instance), rel=0.05)
    page = tmp_path / "charges.csv"
    assert report(money, "--format", "focus", "--output", str(page)).out == ""
    charges = [row for row in csv.DictReader(page.read_text().splitlines()) if row["ResourceId"] == instance]
    assert {(row["x_Team"], row["BillingCurrency"]) for row in charges} == {("vision", "USD")}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--month", "soon"], "`soon` is not a month; write it as 2026-10"),
        (["--month", "2999-01"], "2999-01 has not begun yet"),
        (["--team", "nobody"], "knows no team nobody"),
        (["--output", "/nowhere/report.html"], "/nowhere/report.html could not be written: No such file or directory"),
    ],
)
def test_what_is_wrong(money: BudgetAccount, arguments: list[str], error: str) -> None:
    said = report(money, *arguments)
    assert said.code == 2 and said.out == "" and error in said.err, said
