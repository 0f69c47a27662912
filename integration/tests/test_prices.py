"""What things cost, as it is said: by live prices, each while it counts; else by the dated tables, named as such."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from command import Said, curfew
from local_aws.client import REGION
from pricing import KEY, know_prices, listed, spot
from pricing import storage as listed_storage
from reaping import BUCKET, EUROPE, Account, ago, now
from reaping_volumes import VolumeAccount

TABLE = "$1.01/h ($734 a month; table of 2026-09-24)"


def told(account: Account, gpu: str) -> tuple[Any, str]:
    """What a run's response says that ending it saves, and the message of its team."""
    run = account.tick()
    assert run.gaps == []
    return run.step(gpu)["saves_usd_per_hour"], run.message()


def test_without_live_prices_the_table_is_named(account: Account) -> None:
    saves, message = told(account, account.idle(account.gpu()))
    assert saves == 1.006 and TABLE in message


def test_a_live_price_wins_over_the_table(account: Account) -> None:
    know_prices(account, {"g5.xlarge": listed(2.0)})
    saves, message = told(account, account.idle(account.gpu()))
    assert saves == 2.0 and "It costs $2.00/h ($1,460 a month)." in message and "table of" not in message


@pytest.mark.parametrize("fault", ["throttle", "access_denied", "error500", "reset", "empty"])
def test_a_document_that_cannot_be_read_is_as_none(account: Account, fault: str) -> None:
    know_prices(account, {"g5.xlarge": listed(2.0)})
    account.aws.fault("s3:GetObject", fault, match=KEY, times=None)
    saves, message = told(account, account.idle(account.gpu()))
    assert saves == 1.006 and TABLE in message


def on_spot(account: Account) -> tuple[str, str]:
    """An idle Spot instance, and its zone."""
    gpu = account.idle(account.gpu(spot_instance_request="one-time"))
    return gpu, account.aws.instance(gpu)["Placement"]["AvailabilityZone"]


def test_spot_costs_what_its_zone_does(account: Account) -> None:
    gpu, zone = on_spot(account)
    at = ago(minutes=20)
    know_prices(account, spot={"g5.xlarge": spot({zone: 0.4, f"{REGION}f": 0.1}, at)})
    saves, message = told(account, gpu)
    assert saves == 0.4 and f"$0.40/h ($292 a month; Spot price of {at:%Y-%m-%d %H:%M} UTC)" in message


def test_volumes_of_any_region_have_their_live_price(storage: VolumeAccount) -> None:
    know_prices(storage, storage=listed_storage(gp3=0.0952), region=EUROPE)
    here, there = storage.orphan(size=500), storage.orphan(size=500, region=EUROPE)
    run = storage.tick()
    assert [run.step(one)["evidence"]["usd_per_month"] for one in (here, there)] == [40.0, 47.6]
    assert "$40.00 a month (table of 2026-09-30)" in run.message() and "$47.60 a month. " in run.message()


# The command


def said(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), *arguments, "--bucket", BUCKET)


def test_the_command_says_the_same(account: Account) -> None:
    gpu = account.idle(account.gpu())
    explained = said(account, "explain", gpu)
    assert TABLE in explained.out
    know_prices(account, {"g5.xlarge": listed(2.0)})
    explained = said(account, "explain", gpu)
    assert "$2.00/h ($1,460 a month)" in explained.out and "table of" not in explained.out
    [finding] = said(account, "scan", "--json", "--quiet").json()["findings"]
    assert (finding["usd_per_hour"], finding["price_source"]) == (2.0, f"Price List of {now():%Y-%m-%d}")
    shown = said(account, "scan", "--quiet").out
    assert "1,460.00" in shown and "1,460.00*" not in shown and "table of" not in shown


def test_what_is_stale_has_a_star_in_the_table_of_a_scan(account: Account) -> None:
    at = now() - timedelta(days=3)
    know_prices(account, {"g5.xlarge": listed(2.0, at)})
    account.idle(account.gpu())
    shown = said(account, "scan", "--quiet").out.splitlines()
    assert shown[1].split()[0] == "1,460.00*" and shown[-1] == f"* Price List of {at:%Y-%m-%d}; the sums contain it."
