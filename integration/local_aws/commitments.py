"""Savings Plans and Reserved Instances as tests put them: moto has neither.

Source: "DescribeSavingsPlans" (Savings Plans API Reference) and "DescribeReservedInstances" (EC2 API Reference). Plans are of the whole account.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.responses.reserved_instances import ReservedInstances

from . import put_resources
from .aws_call import AwsCall
from .errors import error_response
from .http_message import Request, Response

_KIND = "reserved_instances"


def apply() -> None:
    ReservedInstances.describe_reserved_instances = _describe_reserved_instances


def put_reserved(backend: EC2Backend, reservation_id: str, fields: dict[str, Any]) -> None:
    """Active ones, with EC2's names for their fields."""
    active = {
        "ReservedInstancesId": reservation_id,
        "InstanceCount": 1,
        "ProductDescription": "Linux/UNIX",
        "InstanceTenancy": "default",
        "Scope": "Region",
        "State": "active",
        "Start": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "End": datetime(2099, 1, 1, tzinfo=timezone.utc),
        "Duration": 94_608_000,
    }
    put_resources.put(backend, _KIND, reservation_id, active | fields)


def _describe_reserved_instances(response: ReservedInstances) -> ActionResult:
    return ActionResult({"ReservedInstances": put_resources.in_states(response, _KIND)})


class SavingsPlans:
    def __init__(self) -> None:
        self._plans: dict[str, dict[str, Any]] = {}

    def put(self, plan_id: str, fields: dict[str, Any]) -> None:
        plan = {"savingsPlanId": plan_id, "savingsPlanType": "Compute", "currency": "USD", "state": "active"}
        times = {"start": "2026-01-01T00:00:00.000Z", "end": "2099-01-01T00:00:00.000Z"}
        self._plans[plan_id] = plan | times | fields

    def clear(self) -> None:
        self._plans.clear()

    def answer(self, call: AwsCall, request: Request) -> Response:
        if call.operation != "DescribeSavingsPlans":
            return error_response(call, 400, "ValidationException", "The local AWS has DescribeSavingsPlans alone.")
        states = json.loads(request.body or b"{}").get("states")
        plans = [plan for plan in self._plans.values() if states is None or plan["state"] in states]
        return Response(200, [("Content-Type", "application/json")], json.dumps({"savingsPlans": plans}).encode())
