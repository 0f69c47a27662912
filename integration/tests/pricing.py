"""Live prices as `prices/current.json` has them."""

from __future__ import annotations

import json

from local_aws.client import REGION
from reaping import Account, now, rfc3339


def know_prices(
    account: Account, usd_per_hour: dict[str, float], region: str = REGION, spot: dict[str, dict[str, float]] | None = None
) -> None:
    """What the Price List has just said of these types on demand, and the history of Spot prices by type and zone."""
    at = rfc3339(now())
    listed = {name: {"usd_micros_per_hour": round(usd * 1e6), "as_of": at, "from": at} for name, usd in usd_per_hour.items()}
    zones = {
        name: {"as_of": at, "zones": {zone: {"2026-01-01T00:00:00Z": round(usd * 1e6)} for zone, usd in by_zone.items()}}
        for name, by_zone in (spot or {}).items()
    }
    document = {"schema": 1, "on_demand": {region: listed}, "spot": {region: zones} if zones else {}, "storage": {}}
    account.put("prices/current.json", json.dumps(document).encode())
