"""The stand-in for the Price List answers as AWS documents, and has the prices that come with Curfew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
from local_aws.client import LocalAws, LocalAwsError
from local_aws.price_list import CASES

DATED = Path(__file__).parents[2] / "shared/domain/src/price/dated.rs"


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


def test_a_type_has_other_products_besides(aws: LocalAws) -> None:
    of_type = products(aws, instanceType="g5.xlarge", regionCode="us-east-1")
    systems = {product["product"]["attributes"]["operatingSystem"] for product in of_type}
    assert len(of_type) == 8 and systems == {"Linux", "Windows", "RHEL"}


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_price(aws: LocalAws, case: str) -> None:
    aws.set_listed_price("g5.xlarge", case=case)
    if case == "broken":
        with pytest.raises(json.JSONDecodeError):
            products(aws, **plain("g5.xlarge"))
        return
    found = [dimensions(product) for product in products(aws, **plain("g5.xlarge"))]
    expected = {"none": [], "two": [1, 1], "tiered": [2], "not-usd": [1], "free": [1], "capacity-block": []}[case]
    assert [len(one) for one in found] == expected
    aws.set_listed_price("g5.xlarge", usd="1.5")
    [[dimension]] = [dimensions(product) for product in products(aws, **plain("g5.xlarge"))]
    assert dimension["pricePerUnit"] == {"USD": "1.5000000000"}
    aws.reset()
    assert len(products(aws, **plain("g5.xlarge"))) == 1


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


def test_it_answers_in_three_regions_and_knows_no_other_case(aws: LocalAws) -> None:
    for region in ("us-east-1", "eu-central-1", "ap-south-1"):
        assert len(products(aws, region, **plain("g5.xlarge"))) == 1
    with pytest.raises(botocore.exceptions.ClientError, match="no Price List in eu-west-1"):
        products(aws, "eu-west-1", **plain("g5.xlarge"))
    with pytest.raises(LocalAwsError, match="a case of"):
        aws.set_listed_price("g5.xlarge", case="cheap")
