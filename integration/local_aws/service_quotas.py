"""Service Quotas of EC2, which moto does not know: those that a test sets, and AWS's default for all others.

Source: "ListServiceQuotas" (Service Quotas API Reference): pages of 100 at most; quotas of vCPUs say by which metric they are counted ("AWS usage
metrics", Amazon CloudWatch User Guide). Its default of a new account is 0 vCPUs of GPU
families, and 5 of standard ones.
"""

from __future__ import annotations

import json
from typing import Any

from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response

_PAGE_MAX = 100
# By their code: the name, and the class of the usage metric.
_GPU_FAMILIES = {
    "L-DB2E81BA": ("Running On-Demand G and VT instances", "G/OnDemand"),
    "L-3819A6DF": ("All G and VT Spot Instance Requests", "G/Spot"),
    "L-417A185B": ("Running On-Demand P instances", "P/OnDemand"),
    "L-7212CCBC": ("All P4, P3 and P2 Spot Instance Requests", "P/Spot"),
    "L-2C3B7624": ("Running On-Demand Trn instances", "Trn/OnDemand"),
    "L-C4BD4855": ("All P5 Spot Instance Requests", "P5/Spot"),
    "L-6B0D517C": ("All Trn Spot Instance Requests", "Trn/Spot"),
    "L-1945791B": ("Running On-Demand Inf instances", "Inf/OnDemand"),
    "L-B5D1601B": ("All Inf Spot Instance Requests", "Inf/Spot"),
    "L-6E869C2A": ("Running On-Demand DL instances", "DL/OnDemand"),
    "L-85EED4F7": ("All DL Spot Instance Requests", "DL/Spot"),
}
# EC2 has many more, of no interest here: so many that there is a second page.
_OTHERS: dict[str, tuple[str, str | None]] = {f"L-{place:08X}": (f"Another quota {place}", None) for place in range(120)}


class Quotas:
    def __init__(self) -> None:
        self._values: dict[tuple[str, str], float] = {}

    def put(self, code: str, region: str, value: float) -> None:
        self._values[region, code] = value

    def clear(self) -> None:
        self._values.clear()

    def answer(self, call: AwsCall, request: Request) -> Response:
        asked = json.loads(request.body or b"{}")
        if call.operation != "ListServiceQuotas" or asked.get("ServiceCode") != "ec2":
            return error_response(call, 400, "NoSuchResourceException", "The specified resource does not exist.")
        quotas = [self._quota(call.region, code, name, metric) for code, (name, metric) in (_OTHERS | _GPU_FAMILIES).items()]
        first = int(asked.get("NextToken") or 0)
        past = first + min(int(asked.get("MaxResults") or _PAGE_MAX), _PAGE_MAX)
        answer: dict[str, Any] = {"Quotas": quotas[first:past]}
        if past < len(quotas):
            answer["NextToken"] = str(past)
        return Response(200, [("Content-Type", "application/x-amz-json-1.1")], json.dumps(answer).encode())

    def _quota(self, region: str, code: str, name: str, usage_class: str | None) -> dict[str, Any]:
        value = self._values.get((region, code), 0.0 if code in _GPU_FAMILIES else 5.0)
        quota = {"ServiceCode": "ec2", "QuotaCode": code, "QuotaName": name, "Value": value, "Unit": "None"}
        if usage_class is not None:
            quota["UsageMetric"] = {
                "MetricNamespace": "AWS/Usage",
                "MetricName": "ResourceCount",
                "MetricDimensions": {"Service": "EC2", "Type": "Resource", "Resource": "vCPU", "Class": usage_class},
                "MetricStatisticRecommendation": "Maximum",
            }
        return quota
