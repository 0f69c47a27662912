"""The stand-in for the Price List answers as AWS documents, and has the prices that come with Curfew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from local_aws.client import LocalAws

DATED = Path(__file__).parents[2] / "shared/billing/src/price/dated.rs"


def products(aws: LocalAws, region: str = "us-east-1", **fields: str) -> list[dict[str, Any]]:
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in fields.items()]
    pages = aws.client("pricing", region).get_paginator("get_products").paginate(
        ServiceCode="AmazonEC2", Filters=filters, PaginationConfig={"PageSize": 10}
    )
    return [json.loads(text) for page in pages for text in page["PriceList"]]


def plain(instance_type: str, region: str = "us-east-1") -> dict[str, str]:
    return {
        "instanceType": instance_type,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }


def dimensions(product: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for term in product["terms"]["OnDemand"].values() for one in term["priceDimensions"].values()]


def test_each_type_of_the_table_has_one_product_of_its_price(aws: LocalAws) -> None:
    table = re.findall(r'\("([a-z0-9-]+)", "([a-z0-9.-]+large)", ([0-9_]+)\)', DATED.read_text())
    assert len(table) == 19
    for region, name, usd_micros in table:
        [product] = products(aws, **plain(name, region))
        [dimension] = dimensions(product)
        assert dimension["unit"] == "Hrs"
        assert round(float(dimension["pricePerUnit"]["USD"]) * 1e6) == int(usd_micros.replace("_", "")), name
        assert product["product"]["attributes"]["servicecode"] == "AmazonEC2" and product["product"]["sku"]


def test_storage_has_its_units(aws: LocalAws) -> None:
    of_family = {
        family: {
            product["product"]["attributes"]["usagetype"]: dimensions(product)[0]["unit"]
            for product in products(aws, regionCode="us-east-1", productFamily=family)
        }
        for family in ("Storage", "System Operation", "Provisioned Throughput")
    }
    assert of_family["Provisioned Throughput"] == {"EBS:VolumeP-Throughput.gp3": "GiBps-mo"}
    assert of_family["System Operation"]["EBS:VolumeP-IOPS.io2.tier3"] == "IOPS-Mo"
    assert of_family["Storage"]["EBS:VolumeUsage.gp3"] == "GB-Mo" and len(of_family["Storage"]) == 7
