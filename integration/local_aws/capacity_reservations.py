"""Capacity reservations as tests put them: moto has none.

Source: "DescribeCapacityReservations" and the type "CapacityReservation" (EC2 API Reference). Only the filter by state is here.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.responses.spot_instances import SpotInstances


def apply() -> None:
    SpotInstances.describe_capacity_reservations = _describe_capacity_reservations


def put(backend: EC2Backend, reservation_id: str, fields: dict[str, Any]) -> None:
    """An active one, with EC2's names for its fields. The store lives in moto's backend, so that moto's reset empties it."""
    reservations: dict[str, dict[str, Any]] = backend.__dict__.setdefault("capacity_reservations", {})
    reservations[reservation_id] = {
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
        **fields,
    }


def _describe_capacity_reservations(response: SpotInstances) -> ActionResult:
    filters = response._filters_from_querystring()
    if filters.keys() - {"state"}:
        raise NotImplementedError(f"filters {sorted(filters)}")
    known = response.ec2_backend.__dict__.get("capacity_reservations", {}).values()
    found = [one for one in known if "state" not in filters or one["State"] in filters["state"]]
    return ActionResult({"CapacityReservations": found})
