"""`make prices` (data/update_prices.py) on a local Price List, and what it refuses. It was never run against AWS."""

from __future__ import annotations

import shutil
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from local_aws import LocalAws

DATA = Path(__file__).resolve().parents[2] / "data"
sys.path.insert(0, str(DATA))

import update_prices  # noqa: E402
from update_prices import Answer  # noqa: E402

TODAY = "2026-12-01"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA, tmp_path / "data", ignore=shutil.ignore_patterns("__pycache__")))


def rows(data: Path, name: str = "on_demand_prices.csv") -> list[str]:
    return (data / name).read_text().splitlines()


def run(aws: LocalAws, data: Path, accepts_changes: bool = True) -> int:
    return update_prices.run(data, aws.client("pricing"), TODAY, accepts_changes)


def test_the_tables_are_sorted_and_name_their_day(aws: LocalAws, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    aws.set_listed_price("g5.xlarge", "1.1", "us-east-1")
    before = rows(data)
    assert run(aws, data) == 0
    after = rows(data)
    assert after[0] == before[0] and after[1:] == sorted(after[1:])
    assert "us-east-1,g5.xlarge,1.1,price-list" in after and "us-east-1,p4d.24xlarge,21.957642,price-list" in after
    # Neither what is no accelerated type, nor what the list does not have in a region that answered.
    assert not any(row.startswith(("us-east-1,c7i", "us-east-1,m7i", "us-east-1,g5.2xlarge")) for row in after)
    # Regions without an answer keep their rows.
    assert [row for row in after if row.startswith("eu-west-1,")] == [row for row in before if row.startswith("eu-west-1,")]
    sources = rows(data, "price_sources.csv")
    assert f"price-list,AWS Price List: on demand; Linux; shared hardware,{TODAY}" in sources and sources[1:] == sorted(sources[1:])
    assert "us-east-1,gib,gp3,0.08,price-list-ebs" in rows(data, "ebs_prices.csv")
    shown = capsys.readouterr().out
    assert "us-east-1 g5.xlarge: 1.006 becomes 1.1\n" in shown and "us-east-1 g5.2xlarge is gone\n" in shown


def test_the_price_list_is_asked_by_family(aws: LocalAws, data: Path) -> None:
    run(aws, data)
    regions = sum(1 for row in rows(data, "regions.csv")[1:] if not row.startswith(update_prices.LEFT_OUT))
    assert aws.counts()["pricing:GetProducts"] == 6 * regions


def test_nothing_is_written_where_a_price_is_absurd(aws: LocalAws, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    aws.set_listed_price("p5.48xlarge", "5.504", "us-east-1")
    before = {path.name: path.read_text() for path in data.glob("*.csv")}
    assert run(aws, data, accepts_changes=False) == 1
    assert {path.name: path.read_text() for path in data.glob("*.csv")} == before
    refused = capsys.readouterr().err
    assert "problem: us-east-1 p5.48xlarge: 55.04 becomes 5.504; pass --accept-changes" in refused
    assert "prices are gone; pass --accept-changes" in refused and refused.endswith("Nothing was written.\n")
    assert run(aws, data) == 0 and "us-east-1,p5.48xlarge,5.504,price-list" in rows(data)


def checked(prices: dict[str, str], old: dict[str, str]) -> list[str]:
    keyed = lambda of: {("us-east-1", name): Decimal(usd) for name, usd in of.items()}  # noqa: E731
    answer = Answer(prices=keyed(prices), regions={"us-east-1"})
    update_prices.check(answer, keyed(old), update_prices.USD_PER_HOUR, accepts_changes=False)
    return answer.problems


@pytest.mark.parametrize(
    ("prices", "old", "problem"),
    [
        ({"a": "1"}, {"a": "1"}, None),
        ({"a": "1.4"}, {"a": "1"}, None),
        ({"a": "1.6"}, {"a": "1"}, "1 becomes 1.6"),
        ({"a": "0.6"}, {"a": "1"}, "1 becomes 0.6"),
        ({"a": "0"}, {}, "0 USD is no usual price"),
        ({"a": "1001"}, {}, "1001 USD is no usual price"),
        ({"a": "1"}, {"a": "1", "b": "1"}, "1 of 2 prices are gone"),
    ],
)
def test_a_price_is_compared_with_the_old_one(prices: dict[str, str], old: dict[str, str], problem: str | None) -> None:
    found = checked(prices, old)
    assert (not found) if problem is None else (len(found) == 1 and problem in found[0])


def product(unit_prices: dict[str, str], **changes: str) -> dict[str, object]:
    attributes = {**update_prices.PLAIN, "instanceType": "g5.xlarge", "regionCode": "us-east-1", "locationType": "AWS Region"}
    dimension = {"unit": "Hrs", "beginRange": "0", "pricePerUnit": unit_prices}
    return {"product": {"attributes": attributes | changes}, "terms": {"OnDemand": {"a": {"priceDimensions": {"b": dimension}}}}}


def read(*products: dict[str, object], region: str = "us-east-1") -> Answer:
    answer = Answer()
    update_prices.read_instances(iter(products), region, answer)
    return answer


def test_a_price_has_the_currency_of_its_partition() -> None:
    usd, cny = product({"USD": "1.006"}), product({"CNY": "9.1"})
    assert read(usd).prices == {("us-east-1", "g5.xlarge"): Decimal("1.006")}
    assert read(cny).problems == ["us-east-1 g5.xlarge: a price in CNY, not in USD"]
    in_china = product({"CNY": "9.1"}, regionCode="cn-north-1")
    assert read(in_china, region="cn-north-1").prices == {("cn-north-1", "g5.xlarge"): Decimal("9.1")}


def test_a_type_has_one_price_in_a_region() -> None:
    one, other = product({"USD": "1"}), product({"USD": "2"})
    assert read(one, one).problems == [] and read(one, other).problems == ["us-east-1 g5.xlarge: 1 and 2"]
    for attribute, value in [("operatingSystem", "Windows"), ("locationType", "AWS Local Zone"), ("regionCode", "us-east-2")]:
        assert read(product({"USD": "2"}, **{attribute: value})).prices == {}


def test_rows_that_stay_keep_their_day(data: Path) -> None:
    sources = update_prices.Sources(data / "price_sources.csv")
    answer = Answer(prices={("us-east-2", "g5.xlarge"): Decimal("1.006")}, regions={"us-east-2"})
    table = update_prices.TABLES[0]
    renewed = table.renew(data, answer, sources, accepts_changes=True)
    assert "us-east-1,g5.xlarge,1.006,price-list-2026-09-24" in renewed and "us-east-2,g5.xlarge,1.006,price-list" in renewed
    named = sources.renewed([table], renewed, TODAY)
    days = {row.split(",")[0]: row.split(",")[2] for row in named}
    assert (days["price-list"], days["price-list-2026-09-24"]) == (TODAY, "2026-09-24")
