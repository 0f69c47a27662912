"""Renews the tables of prices from the AWS Price List: `make prices`.

It asks the Price List Query API ("GetProducts", AWS Price List Service API reference), which needs credentials with `pricing:GetProducts` and
is free: three calls a region for instances, by family, and three for EBS. The bulk offer files need no credentials, but the one of EC2 has some
hundreds of megabytes for each region, of which these tables need a hundred lines.

Nothing is written unless every price is plausible. A region without an answer keeps its rows. China is left out: its Price List is another
one, in CNY, and Curfew counts in USD.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

# "GPU instance" and its siblings: values of the attribute instanceFamily.
FAMILIES = ("GPU instance", "Machine Learning ASIC Instances", "Media Accelerator Instances")
STORAGE_FAMILIES = ("Storage", "System Operation", "Provisioned Throughput")
# As shared/billing/src/price/list.rs asks: Linux by the second, on shared hardware, nothing installed, no reservation.
PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
# The currency of a partition, by the beginning of its regions' names.
CURRENCIES = {"cn-": "CNY", "eusc-": "EUR"}
# Partitions that the Price List of the commercial one does not have.
LEFT_OUT = ("cn-", "eusc-", "us-iso", "eu-isoe-")
# AWS changes a price by some percent, and halved some in June 2025.
FACTOR_MAX = Decimal("1.5")
# A larger part of a table does not vanish.
GONE_MAX_PERCENT = 10
USD_PER_HOUR = (Decimal("0.05"), Decimal(1000))
USD_PER_MONTH = (Decimal("0.001"), Decimal(200))

Key = tuple[str, ...]


@dataclass
class Answer:
    """Prices by region and name, and what cannot be a price."""

    prices: dict[Key, Decimal] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    regions: set[str] = field(default_factory=set)


def currency(region: str) -> str:
    return next((code for beginning, code in CURRENCIES.items() if region.startswith(beginning)), "USD")


def price_of(product: dict[str, Any], units: tuple[str, ...], region: str) -> Decimal:
    """The one price of a product. A product with several prices, prices in steps or another currency is an error."""
    dimensions = [one for term in product["terms"].get("OnDemand", {}).values() for one in term["priceDimensions"].values()]
    if len(dimensions) != 1 or dimensions[0].get("beginRange", "0") != "0":
        raise ValueError(f"{len(dimensions)} prices")
    if dimensions[0]["unit"] not in units:
        raise ValueError(f"a price by {dimensions[0]['unit']}")
    amounts = dimensions[0]["pricePerUnit"]
    if set(amounts) != {currency(region)}:
        raise ValueError(f"a price in {', '.join(sorted(amounts))}, not in {currency(region)}")
    return Decimal(plain(Decimal(amounts[currency(region)])))


def add(answer: Answer, key: Key, product: dict[str, Any], units: tuple[str, ...]) -> None:
    """Adds a price. Two products with different prices give none."""
    try:
        price = price_of(product, units, key[0])
    except (KeyError, ValueError, ArithmeticError) as error:
        answer.problems.append(f"{' '.join(key)}: {error}")
        return
    known = answer.prices.setdefault(key, price)
    if known != price:
        answer.problems.append(f"{' '.join(key)}: {known} and {price}")


def is_of_a_region(attributes: dict[str, str], region: str) -> bool:
    """Neither of a Local Zone nor of a Wavelength Zone."""
    return attributes.get("regionCode") == region and attributes.get("locationType", "AWS Region") == "AWS Region"


def read_instances(products: Iterator[dict[str, Any]], region: str, answer: Answer) -> None:
    for product in products:
        attributes = product["product"]["attributes"]
        if is_of_a_region(attributes, region) and all(attributes.get(name) == value for name, value in PLAIN.items()):
            add(answer, (region, attributes["instanceType"]), product, ("Hrs",))


def read_storage(products: Iterator[dict[str, Any]], region: str, answer: Answer) -> None:
    for product in products:
        attributes = product["product"]["attributes"]
        usage = attributes.get("usagetype", "").partition("EBS:")[2]
        if not usage or not is_of_a_region(attributes, region):
            continue
        if usage.startswith("VolumeUsage") and product["product"].get("productFamily") == STORAGE_FAMILIES[0]:
            add(answer, (region, "gib", attributes["volumeApiName"]), product, ("GB-Mo", "GB-month"))
        elif usage.startswith("VolumeP-IOPS."):
            add(answer, (region, "iops", usage.removeprefix("VolumeP-IOPS.")), product, ("IOPS-Mo",))
        elif usage == "VolumeP-Throughput.gp3":
            add(answer, (region, "gibps", "gp3"), product, ("GiBps-mo",))


def check(answer: Answer, old: dict[Key, Decimal], usual: tuple[Decimal, Decimal], accepts_changes: bool) -> None:
    """Adds what speaks against the new prices: zero, a jump, and a table that shrinks."""
    for key, price in answer.prices.items():
        name = " ".join(key)
        if not usual[0] <= price <= usual[1]:
            answer.problems.append(f"{name}: {price} USD is no usual price")
        before = old.get(key)
        if before is None:
            answer.notes.append(f"{name}: {price} is new")
        elif price != before:
            answer.notes.append(f"{name}: {before} becomes {price}")
            if not before / FACTOR_MAX <= price <= before * FACTOR_MAX and not accepts_changes:
                answer.problems.append(f"{name}: {before} becomes {price}; pass --accept-changes if AWS announced that")
    compared = [key for key in old if key[0] in answer.regions]
    gone = [key for key in compared if key not in answer.prices]
    answer.notes.extend(f"{' '.join(key)} is gone" for key in gone)
    if 100 * len(gone) > GONE_MAX_PERCENT * len(compared) and not accepts_changes:
        answer.problems.append(f"{len(gone)} of {len(compared)} prices are gone; pass --accept-changes if that is so")


def read_table(path: Path, keys: int) -> dict[Key, tuple[Decimal, str]]:
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {tuple(row[:keys]): (Decimal(row[keys]), row[keys + 1]) for row in rows}


def write_table(path: Path, header: str, rows: list[str]) -> None:
    """Writes a file beside it and renames that one."""
    beside = path.with_suffix(".new")
    beside.write_text("\n".join([header, *rows]) + "\n")
    beside.replace(path)


def plain(price: Decimal) -> str:
    return f"{price.normalize():f}"


@dataclass(frozen=True)
class Table:
    """A table of prices, with the source that the Price List is there."""

    name: str
    header: str
    source: str
    usual: tuple[Decimal, Decimal]

    def renew(self, data: Path, answer: Answer, sources: Sources, accepts_changes: bool) -> list[str]:
        """The new rows, sorted. Those of regions without an answer stay, with their source and its day."""
        old = read_table(data / self.name, self.header.count(",") - 1)
        check(answer, {key: price for key, (price, _) in old.items()}, self.usual, accepts_changes)
        kept = {key: row for key, row in old.items() if key[0] not in answer.regions}
        rows = {key: (price, sources.kept(source) if source == self.source else source) for key, (price, source) in kept.items()}
        rows |= {key: (price, self.source) for key, price in answer.prices.items()}
        return [",".join([*key, plain(price), source]) for key, (price, source) in sorted(rows.items())]


class Sources:
    """Document and day of each source."""

    def __init__(self, path: Path) -> None:
        with path.open(newline="") as file:
            self._rows = {row[0]: row[1:] for row in list(csv.reader(file))[1:]}

    def kept(self, source: str) -> str:
        """The name under which rows keep the old day of a source that is renewed."""
        name = f"{source}-{self._rows[source][1]}"
        self._rows[name] = self._rows[source]
        return name

    def renewed(self, tables: list[Table], rows: list[str], today: str) -> list[str]:
        """The sources that a row names."""
        used = {row.rsplit(",", 1)[1] for row in rows}
        days = self._rows | {table.source: [self._rows[table.source][0], today] for table in tables}
        return [",".join([source, *row]) for source, row in sorted(days.items()) if source in used]


TABLES = [
    Table("on_demand_prices.csv", "region,type,usd_per_hour,source_key", "price-list", USD_PER_HOUR),
    Table("ebs_prices.csv", "region,unit,name,usd_per_month,source_key", "price-list-ebs", USD_PER_MONTH),
]


def ask(client: Any, filters: dict[str, str]) -> Iterator[dict[str, Any]]:
    wanted = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()]
    for page in client.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=wanted, FormatVersion="aws_v1"):
        yield from (json.loads(product) for product in page["PriceList"])


def ask_region(client: Any, region: str, instances: Answer, storage: Answer) -> None:
    for family in FAMILIES:
        read_instances(ask(client, {"regionCode": region, "instanceFamily": family, **PLAIN}), region, instances)
    for family in STORAGE_FAMILIES:
        read_storage(ask(client, {"regionCode": region, "productFamily": family}), region, storage)
    for answer in (instances, storage):
        if any(key[0] == region for key in answer.prices):
            answer.regions.add(region)


def run(data: Path, client: Any, today: str, accepts_changes: bool) -> int:
    with (data / "regions.csv").open(newline="") as file:
        regions = [row["region"] for row in csv.DictReader(file)]
    instances, storage = Answer(), Answer()
    for region in regions:
        if not region.startswith(LEFT_OUT):
            ask_region(client, region, instances, storage)
    sources = Sources(data / "price_sources.csv")
    answers = list(zip(TABLES, (instances, storage), strict=True))
    rows = {table.name: table.renew(data, answer, sources, accepts_changes) for table, answer in answers}
    print("\n".join(instances.notes + storage.notes))
    problems = instances.problems + storage.problems
    if not instances.regions:
        problems.append("the Price List has no price of any region")
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    if problems:
        print("Nothing was written.", file=sys.stderr)
        return 1
    renewed = [table for table, answer in answers if answer.regions]
    named = sources.renewed(renewed, [row for of_table in rows.values() for row in of_table], today)
    for table in TABLES:
        write_table(data / table.name, table.header, rows[table.name])
    write_table(data / "price_sources.csv", "key,source,as_of", named)
    print(f"{len(rows['on_demand_prices.csv'])} prices of instances, {len(rows['ebs_prices.csv'])} of EBS, of {today}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent, help="folder of the tables")
    parser.add_argument("--accept-changes", action="store_true", help="take large changes, which are listed all the same")
    options = parser.parse_args()
    import boto3  # The rules above need no SDK.

    client = boto3.client("pricing", region_name=os.environ.get("PRICE_LIST_REGION", "us-east-1"))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return run(options.data, client, today, options.accept_changes)


if __name__ == "__main__":
    sys.exit(main())
