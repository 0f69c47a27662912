"""Live prices as `prices/current.json` has them, for accounts that are reaped."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from local_aws.client import REGION
from reaping import Account, now, rfc3339

KEY = "prices/current.json"


def listed(usd: float | None, as_of: datetime | None = None) -> dict[str, Any]:
    """What the Price List said of a type; nothing: not one price."""
    at = rfc3339(as_of or now())
    return {"usd_micros_per_hour": None if usd is None else round(usd * 1e6), "as_of": at, "from": at}


def spot(by_zone: dict[str, float], as_of: datetime | None = None) -> dict[str, Any]:
    """What the history of Spot prices said of a type."""
    zones = {zone: {"2026-01-01T00:00:00Z": round(usd * 1e6)} for zone, usd in by_zone.items()}
    return {"as_of": rfc3339(as_of or now()), "zones": zones}


def storage(as_of: datetime | None = None, **gib_month: float) -> dict[str, Any]:
    """What the Price List said of each GiB and month, by type of volume."""
    at = rfc3339(as_of or now())
    return {"gib_month": {name: round(usd * 1e6) for name, usd in gib_month.items()}, "as_of": at, "from": at}


def know_prices(
    account: Account,
    on_demand: dict[str, Any] | None = None,
    spot: dict[str, Any] | None = None,
    storage: dict[str, Any] | None = None,
    region: str = REGION,
) -> None:
    document: dict[str, Any] = {"schema": 1}
    for name, prices in (("on_demand", on_demand), ("spot", spot), ("storage", storage)):
        document[name] = {} if prices is None else {region: prices}
    account.put(KEY, json.dumps(document).encode())
