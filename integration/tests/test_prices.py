"""What things cost, as it is said: by live prices, each while it counts; else by the dated tables, named as such."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from command import Said, curfew
from local_aws.client import REGION
from pricing import KEY, know_prices, listed, spot, storage
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
    assert saves == 2.0 and "$2.00/h ($1,460 a month). " in message and "table of" not in message


def test_an_old_one_is_named_and_a_very_old_one_does_not_count(account: Account) -> None:
    four_days_ago = ago(days=4)
    know_prices(account, {"g5.xlarge": listed(2.0, four_days_ago)})
    saves, message = told(account, account.idle(account.gpu()))
    assert saves == 2.0 and f"$2.00/h ($1,460 a month; Price List of {four_days_ago:%Y-%m-%d})" in message
    know_prices(account, {"g6.xlarge": listed(2.0, ago(days=8))})
    saves, message = told(account, account.idle(account.gpu("g6.xlarge")))
    assert saves == 0.8048 and "; table of 2026-09-24)" in message


def test_where_the_list_does_not_say_one_price_none_is_known(account: Account) -> None:
    know_prices(account, {"g5.xlarge": listed(None)})
    saves, message = told(account, account.idle(account.gpu()))
    assert saves is None and "price unknown" in message


def test_what_only_the_list_knows_is_known(account: Account) -> None:
    know_prices(account, {"g5.xlarge": listed(1.25)}, region=EUROPE)
    saves, message = told(account, account.idle(account.gpu(region=EUROPE), EUROPE))
    assert saves == 1.25 and "$1.25/h ($912 a month)" in message


@pytest.mark.parametrize(
    "document", [b"", b"{", b"[]", b'{"schema": 7}', b'{"schema": 1, "on_demand": 3}', b"\xff\xfe", b'{"schema": 1}']
)
def test_a_document_that_says_nothing_is_as_none(account: Account, document: bytes) -> None:
    account.put(KEY, document)
    saves, message = told(account, account.idle(account.gpu()))
    assert saves == 1.006 and TABLE in message


@pytest.mark.parametrize("fault", ["throttle", "access_denied", "error500", "reset", "empty"])
def test_a_document_that_cannot_be_read_is_as_none(account: Account, fault: str) -> None:
    know_prices(account, {"g5.xlarge": listed(2.0)})
    account.aws.fault("s3:GetObject", fault, match=KEY, times=None)
    saves, message = told(account, account.idle(account.gpu()))
    assert saves == 1.006 and TABLE in message


def test_prices_that_pass_are_read_all_the_same(account: Account) -> None:
    know_prices(account, {"g5.xlarge": listed(2.0)})
    account.aws.fault("s3:GetObject", "throttle", match=KEY)
    assert told(account, account.idle(account.gpu()))[0] == 2.0


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


def test_spot_of_another_zone_or_of_earlier_is_not_known(account: Account) -> None:
    gpu, zone = on_spot(account)
    know_prices(account, {"g5.xlarge": listed(2.0)}, {"g5.xlarge": spot({f"{REGION}f": 0.1})})
    saves, message = told(account, gpu)
    assert saves is None and "price unknown" in message
    know_prices(account, spot={"g5.xlarge": spot({zone: 0.4}, ago(minutes=61))})
    again, _ = on_spot(account)
    assert told(account, again)[0] is None


def test_what_the_account_pays_less_is_taken_off_on_demand_alone(account: Account) -> None:
    account.configure(prices={"discount_percent": {"g5": 12.5}})
    gpu, zone = on_spot(account)
    know_prices(account, {"g5.xlarge": listed(2.0)}, {"g5.xlarge": spot({zone: 0.4})})
    listed_one, other = account.idle(account.gpu()), account.idle(account.gpu("g6.xlarge"))
    run = account.tick()
    saves = {step["resource"]: step["saves_usd_per_hour"] for step in run.steps}
    assert saves == {listed_one: 1.75, other: 0.8048, gpu: 0.4}


def test_a_discount_holds_for_the_table_too(account: Account) -> None:
    account.configure(prices={"discount_percent": {"g5": 50}})
    assert told(account, account.idle(account.gpu()))[0] == 0.503


def test_volumes_of_any_region_have_their_live_price(volumes: VolumeAccount) -> None:
    know_prices(volumes, storage=storage(gp3=0.0952), region=EUROPE)
    here, there = volumes.orphan(size=500), volumes.orphan(size=500, region=EUROPE)
    run = volumes.tick()
    assert [run.step(one)["because"]["usd_per_month"] for one in (here, there)] == [40.0, 47.6]
    assert "$40.00 a month (table of 2026-09-30)" in run.message() and "$47.60 a month. " in run.message()


@pytest.fixture(name="volumes")
def _volumes(storage: VolumeAccount) -> VolumeAccount:
    return storage


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
