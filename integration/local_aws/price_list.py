"""The Price List, which moto does not have: GetProducts of EC2 and SageMaker, as AWS words it.

Source: "GetProducts" (AWS Price List Service API Reference) and "Reading the service price list file" (AWS Billing User
Guide). The prices are those of the AWS Price List of 2026-09-24 (instances) and 2026-09-30 (volumes), checked by hand. Each
type has, as in AWS, more products than the one that is asked for: other systems, hardware and reservations at other prices. What SageMaker costs is made up, a little above EC2, and differs by component.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response

# Where it answers, for the whole world.
REGIONS = ("us-east-1", "eu-central-1", "ap-south-1")

_PAGE_MAX = 100
_LOCATIONS = {
    "us-east-1": "US East (N. Virginia)",
    "us-east-2": "US East (Ohio)",
    "eu-central-1": "EU (Frankfurt)",
}
_PREFIXES = {"us-east-1": "", "us-east-2": "USE2-", "eu-central-1": "EUC1-"}

# Type, vCPUs, memory, GPUs; USD per hour by region.
_INSTANCES: list[tuple[str, str, str, str, dict[str, str]]] = [
    ("g4dn.xlarge", "4", "16 GiB", "1", {"us-east-1": "0.5260000000"}),
    ("g4dn.12xlarge", "48", "192 GiB", "4", {"us-east-1": "3.9120000000"}),
    ("g5.xlarge", "4", "16 GiB", "1", {"us-east-1": "1.0060000000"}),
    ("g5.12xlarge", "48", "192 GiB", "4", {"us-east-1": "5.6720000000"}),
    ("g5.48xlarge", "192", "768 GiB", "8", {"us-east-1": "16.2880000000"}),
    ("g6.xlarge", "4", "16 GiB", "1", {"us-east-1": "0.8048000000"}),
    ("g6.12xlarge", "48", "192 GiB", "4", {"us-east-1": "4.6016000000"}),
    ("g6.48xlarge", "192", "768 GiB", "8", {"us-east-1": "13.3504000000"}),
    ("g6e.xlarge", "4", "32 GiB", "1", {"us-east-1": "1.8610000000"}),
    ("g6e.12xlarge", "48", "384 GiB", "4", {"us-east-1": "10.4926400000"}),
    ("g6e.48xlarge", "192", "1536 GiB", "8", {"us-east-1": "30.1311800000"}),
    ("p4d.24xlarge", "96", "1152 GiB", "8", {"us-east-1": "21.9576420000"}),
    ("p4de.24xlarge", "96", "1152 GiB", "8", {"us-east-1": "27.4470500000"}),
    ("p5.48xlarge", "192", "2048 GiB", "8", {"us-east-1": "55.0400000000"}),
    ("p5en.48xlarge", "192", "2048 GiB", "8", {"us-east-1": "63.2960000000"}),
    ("p6-b200.48xlarge", "192", "2048 GiB", "8", {"us-east-2": "113.9328000000"}),
    ("g7e.24xlarge", "96", "1024 GiB", "4", {"us-east-2": "16.5721600000"}),
    ("c7i.xlarge", "4", "8 GiB", "NA", {"us-east-1": "0.1785000000"}),
    ("m7i.xlarge", "4", "16 GiB", "NA", {"us-east-1": "0.2016000000"}),
    ("m7i.4xlarge", "16", "64 GiB", "NA", {"us-east-1": "0.8064000000"}),
    ("inf2.xlarge", "4", "16 GiB", "NA", {"us-east-1": "0.7582000000"}),
    ("trn1.32xlarge", "128", "512 GiB", "NA", {"us-east-1": "21.5000000000"}),
]

# instanceFamily by the letters of a type. All others are "GPU instance".
_FAMILIES = {
    "trn": "Machine Learning ASIC Instances",
    "inf": "Machine Learning ASIC Instances",
    "c": "Compute optimized",
    "m": "General purpose",
}

# Family, volumeApiName, end of the usage type, unit, USD in us-east-1.
_STORAGE: list[tuple[str, str, str, str, str]] = [
    ("Storage", "gp3", "EBS:VolumeUsage.gp3", "GB-Mo", "0.0800000000"),
    ("Storage", "gp2", "EBS:VolumeUsage.gp2", "GB-Mo", "0.1000000000"),
    ("Storage", "io1", "EBS:VolumeUsage.piops", "GB-Mo", "0.1250000000"),
    ("Storage", "io2", "EBS:VolumeUsage.io2", "GB-month", "0.1250000000"),
    ("Storage", "st1", "EBS:VolumeUsage.st1", "GB-Mo", "0.0450000000"),
    ("Storage", "sc1", "EBS:VolumeUsage.sc1", "GB-Mo", "0.0150000000"),
    ("Storage", "standard", "EBS:VolumeUsage", "GB-Mo", "0.0500000000"),
    ("System Operation", "gp3", "EBS:VolumeP-IOPS.gp3", "IOPS-Mo", "0.0050000000"),
    ("System Operation", "io1", "EBS:VolumeP-IOPS.piops", "IOPS-Mo", "0.0650000000"),
    ("System Operation", "io2", "EBS:VolumeP-IOPS.io2", "IOPS-Mo", "0.0650000000"),
    ("System Operation", "io2", "EBS:VolumeP-IOPS.io2.tier2", "IOPS-Mo", "0.0455000000"),
    ("System Operation", "io2", "EBS:VolumeP-IOPS.io2.tier3", "IOPS-Mo", "0.0318500000"),
    ("System Operation", "standard", "EBS:VolumeIOUsage", "IOs", "0.0000000500"),
    ("Provisioned Throughput", "gp3", "EBS:VolumeP-Throughput.gp3", "GiBps-mo", "40.9600000000"),
]


# Component, its usage type before the type, USD per hour of ml.g5.xlarge in us-east-1.
_SAGEMAKER: list[tuple[str, str, str]] = [
    ("Hosting", "Host:", "1.4080000000"),
    ("AsyncInf", "AsyncInf:", "1.4080000000"),
    ("Training", "Train:", "1.4180000000"),
    ("Processing", "Processing:", "1.4280000000"),
    ("Notebook", "Notebk:", "1.4380000000"),
    ("studio-jupyterlab", "Studio:JupyterLab-", "1.4480000000"),
    ("studio-codeeditor", "Studio:CodeEditor-", "1.4480000000"),
    ("Studio-Notebook", "Studio:KernelGateway-", "1.4480000000"),
]


class PriceList:
    """The tables above, until a test says otherwise."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], str] = {}

    def put(self, instance_type: str, region: str, usd: str) -> None:
        self._said[region, instance_type] = f"{float(usd):.10f}"

    def clear(self) -> None:
        self._said.clear()

    def answer(self, call: AwsCall, request: Request) -> Response:
        asked = json.loads(request.body or b"{}")
        if call.region not in REGIONS:
            return error_response(call, 400, "UnrecognizedClientException", f"no Price List in {call.region}")
        products = {"AmazonEC2": self._products, "AmazonSageMaker": _of_sagemaker}.get(asked.get("ServiceCode", ""))
        if call.operation != "GetProducts" or products is None:
            return error_response(call, 400, "NotFoundException", "The specified resource can't be found.")
        filters = asked.get("Filters", [])
        if any(one["Type"] != "TERM_MATCH" for one in filters):
            return error_response(call, 400, "InvalidParameterException", "this stand-in knows TERM_MATCH alone")
        found = [product for product in products() if _matches(product, filters)]
        first = int(asked.get("NextToken") or 0)
        past = first + min(int(asked.get("MaxResults") or _PAGE_MAX), _PAGE_MAX)
        answer: dict[str, Any] = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(product) for product in found[first:past]]}
        if past < len(found):
            answer["NextToken"] = str(past)
        return Response(200, [("Content-Type", "application/x-amz-json-1.1")], json.dumps(answer).encode())

    def _products(self) -> Iterator[dict[str, Any]]:
        known = {(region, name): usd for name, *_, prices in _INSTANCES for region, usd in prices.items()}
        for (region, name), usd in (known | self._said).items():
            yield from _of_instance(region, name, usd)
        for family, name, usage, unit, usd in _STORAGE:
            attributes = _place("us-east-1") | {"volumeApiName": name, "usagetype": usage, "servicecode": "AmazonEC2"}
            yield _product(family, attributes, [_dimension(unit, usd, f"${usd} per {unit} - {usage}")])


def _of_instance(region: str, name: str, usd: str) -> Iterator[dict[str, Any]]:
    """The one that is asked for, and what else AWS lists of the same type."""
    words = f"${usd} per On Demand Linux {name} Instance Hour"
    plain = _attributes(region, name)
    yield _product("Compute Instance", plain, [_dimension("Hrs", usd, words)])
    for other, factor in [
        ({"operatingSystem": "Windows", "licenseModel": "No License required"}, 1.4),
        ({"operatingSystem": "RHEL"}, 1.1),
        ({"preInstalledSw": "SQL Std"}, 3.0),
        ({"tenancy": "Dedicated"}, 1.06),
        ({"capacitystatus": "UnusedCapacityReservation"}, 1.0),
        ({"capacitystatus": "AllocatedCapacityReservation"}, 0.0),
        ({"marketoption": "CapacityBlock"}, 0.0),
    ]:
        price = f"{float(usd) * factor:.10f}"
        yield _product("Compute Instance", plain | other, [_dimension("Hrs", price, f"${price} per {other} {name}")])


def _of_sagemaker() -> Iterator[dict[str, Any]]:
    name = "ml.g5.xlarge"
    plain = _place("us-east-1") | {"servicecode": "AmazonSageMaker", "instanceName": name, "operation": "RunInstance"}
    for component, usage, usd in _SAGEMAKER:
        attributes = plain | {"component": component, "instanceType": f"{name}-{component}", "usagetype": f"USE1-{usage}{name}"}
        yield _product("ML Instance", attributes, [_dimension("Hrs", usd, f"${usd} per {component} {name} hour")])
    fee = plain | {"usagetype": f"USE1-TrainingPlanUpfrontFee:{name}"}
    yield _product("ML Instance", fee, [_dimension("Quantity", "0.5000000000", "the upfront fee of a training plan")])


def _place(region: str) -> dict[str, str]:
    return {"regionCode": region, "location": _LOCATIONS.get(region, region), "locationType": "AWS Region"}


def _attributes(region: str, name: str) -> dict[str, str]:
    shape = next((row for row in _INSTANCES if row[0] == name), (name, "4", "16 GiB", "1"))
    return _place(region) | {
        "servicecode": "AmazonEC2",
        "servicename": "Amazon Elastic Compute Cloud",
        "instanceType": name,
        "instancesku": _sku(name, region)[:16],
        "instanceFamily": _FAMILIES.get(re.match("[a-z]*", name)[0], "GPU instance"),
        "currentGeneration": "Yes",
        "vcpu": shape[1],
        "memory": shape[2],
        "gpu": shape[3],
        "storage": "EBS only",
        "operatingSystem": "Linux",
        "licenseModel": "No License required",
        "preInstalledSw": "NA",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "operation": "RunInstances",
        "usagetype": f"{_PREFIXES.get(region, region + '-')}BoxUsage:{name}",
        "availabilityzone": "NA",
        "classicnetworkingsupport": "false",
        "vpcnetworkingsupport": "true",
    }


def _dimension(unit: str, usd: str, words: str) -> dict[str, Any]:
    return {
        "unit": unit,
        "beginRange": "0",
        "endRange": "Inf",
        "description": words,
        "appliesTo": [],
        "pricePerUnit": {"USD": usd},
    }


def _product(family: str, attributes: dict[str, str], dimensions: list[dict[str, Any]]) -> dict[str, Any]:
    sku = _sku(json.dumps(attributes, sort_keys=True))
    offer = f"{sku}.JRTCKXETXF"
    rates = {f"{offer}.{_sku(str(place))[:10]}": dimension for place, dimension in enumerate(dimensions)}
    return {
        "product": {"productFamily": family, "attributes": attributes, "sku": sku},
        "serviceCode": attributes["servicecode"],
        "terms": {
            "OnDemand": {
                offer: {
                    "priceDimensions": {rate: {**dimension, "rateCode": rate} for rate, dimension in rates.items()},
                    "sku": sku,
                    "effectiveDate": "2026-09-01T00:00:00Z",
                    "offerTermCode": "JRTCKXETXF",
                    "termAttributes": {},
                }
            }
        },
        "version": "20260924173000",
        "publicationDate": "2026-09-24T17:30:00Z",
    }


def _sku(*of: str) -> str:
    return hashlib.sha256("/".join(of).encode()).hexdigest()[:16].upper()


def _matches(product: dict[str, Any], filters: list[dict[str, str]]) -> bool:
    """TERM_MATCH: every field has exactly that value, whatever its case."""
    fields = {**product["product"]["attributes"], "productFamily": product["product"]["productFamily"]}
    return all(fields.get(one["Field"], "").lower() == one["Value"].lower() for one in filters)
