"""A live price wins over the dated table, in messages as in the command. shared/billing/src/price/ tests which price counts when."""

from __future__ import annotations

from command import Said, curfew
from local_aws.client import REGION
from pricing import know_prices
from reaping import BUCKET, Account

TABLE = "$1.01/h ($734 a month; table of 2026-09-24)"


def test_a_live_price_wins_over_the_table(account: Account) -> None:
    know_prices(account, {"g5.xlarge": 2.0})
    gpu = account.idle(account.gpu())
    run = account.tick()
    assert run.gaps == [] and run.step(gpu)["saves_usd_per_hour"] == 2.0
    assert "It costs $2.00/h ($1,460 a month)." in run.message() and "table of" not in run.message()


def said(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), *arguments, "--bucket", BUCKET)


def test_the_command_says_the_same(account: Account) -> None:
    gpu = account.idle(account.gpu())
    explained = said(account, "explain", gpu)
    assert TABLE in explained.out
    know_prices(account, {"g5.xlarge": 2.0})
    day = account.read("prices/current.json")["on_demand"][REGION]["g5.xlarge"]["as_of"][:10]
    explained = said(account, "explain", gpu)
    assert "$2.00/h ($1,460 a month)" in explained.out and "table of" not in explained.out
    [finding] = said(account, "scan", "--json", "--quiet").json()["findings"]
    assert (finding["usd_per_hour"], finding["price_source"]) == (2.0, f"Price List of {day}")
    shown = said(account, "scan", "--quiet").out
    assert "1,460.00" in shown and "1,460.00*" not in shown and "table of" not in shown
