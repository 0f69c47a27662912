"""Spot prices as tests set them. Moto answers 0.00001 USD of the year 2006 for everything.

Source: "DescribeSpotPriceHistory" (EC2 API Reference). A type without a set price has no history: the price is unknown.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.responses.spot_instances import SpotInstances

_PRODUCT = "Linux/UNIX"


def apply() -> None:
    SpotInstances.describe_spot_price_history = _describe_spot_price_history


def set_price(backend: EC2Backend, instance_type: str, zone: str, usd_per_hour: float, since: datetime) -> None:
    """From then on. The store lives in moto's backend, so that moto's reset empties it."""
    prices: list[dict[str, Any]] = backend.__dict__.setdefault("spot_prices", [])
    prices.insert(
        0,
        {
            "InstanceType": instance_type,
            "AvailabilityZone": zone,
            "ProductDescription": _PRODUCT,
            "SpotPrice": f"{usd_per_hour:.6f}",
            "Timestamp": since,
        },
    )
    prices.sort(key=lambda price: price["Timestamp"], reverse=True)


def current(backend: EC2Backend, instance_type: str, zone: str) -> float | None:
    """USD per hour now, where a test has set it."""
    now = datetime.now(timezone.utc)
    for price in backend.__dict__.get("spot_prices", []):
        if (price["InstanceType"], price["AvailabilityZone"]) == (instance_type, zone) and price["Timestamp"] <= now:
            return float(price["SpotPrice"])
    return None


def _describe_spot_price_history(response: SpotInstances) -> ActionResult:
    """Newest first. Of changes before StartTime only the last one, which was in force then, is history."""
    filters = response._filters_from_querystring()
    wanted = {
        "InstanceType": response._get_param("InstanceTypes") or filters.get("instance-type"),
        "AvailabilityZone": filters.get("availability-zone"),
        "ProductDescription": response._get_param("ProductDescriptions") or filters.get("product-description"),
    }
    zone = response._get_param("AvailabilityZone")
    wanted["AvailabilityZone"] = [zone] if zone else wanted["AvailabilityZone"]
    since, until = response._get_param("StartTime"), response._get_param("EndTime")
    history, covered = [], set()
    for price in response.ec2_backend.__dict__.get("spot_prices", []):
        pool = price["InstanceType"], price["AvailabilityZone"]
        if pool in covered or any(values and price[name] not in values for name, values in wanted.items()):
            continue
        if until is not None and price["Timestamp"] > _in_utc(until):
            continue
        history.append(price)
        if since is not None and price["Timestamp"] <= _in_utc(since):
            covered.add(pool)
    return ActionResult({"SpotPriceHistory": history})


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
