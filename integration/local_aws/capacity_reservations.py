"""Capacity reservations as tests put them: moto has none.

Source: "DescribeCapacityReservations" and the type "CapacityReservation" (EC2 API Reference). Only the filter by state is here.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.responses.spot_instances import SpotInstances

from . import put_resources

_KIND = "capacity_reservations"


def apply() -> None:
    SpotInstances.describe_capacity_reservations = _describe_capacity_reservations


def put(backend: EC2Backend, reservation_id: str, fields: dict[str, Any]) -> None:
    """An active one, with EC2's names for its fields."""
    active = {
        "CapacityReservationId": reservation_id,
        "OwnerId": backend.account_id,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": f"{backend.region_name}a",
        "Tenancy": "default",
        "TotalInstanceCount": 1,
        "AvailableInstanceCount": 1,
        "State": "active",
        "StartDate": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "EndDateType": "unlimited",
        "InstanceMatchCriteria": "open",
        "ReservationType": "default",
    }
    put_resources.put(backend, _KIND, reservation_id, active | fields)


def _describe_capacity_reservations(response: SpotInstances) -> ActionResult:
    return ActionResult({"CapacityReservations": put_resources.in_states(response, _KIND)})
