"""Resources that tests put, of kinds that moto lacks. The store lives in moto's backend, so that moto's reset empties it."""

from __future__ import annotations

from typing import Any

from moto.core.responses import BaseResponse
from moto.ec2.models import EC2Backend


def put(backend: EC2Backend, kind: str, resource_id: str, fields: dict[str, Any]) -> None:
    resources: dict[str, dict[str, Any]] = backend.__dict__.setdefault(kind, {})
    resources[resource_id] = fields


def in_states(response: BaseResponse, kind: str) -> list[dict[str, Any]]:
    """Those of the states that the request filters by; every one without a filter. No other filter is here."""
    filters = response._filters_from_querystring()
    if filters.keys() - {"state"}:
        raise NotImplementedError(f"filters {sorted(filters)}")
    known = response.ec2_backend.__dict__.get(kind, {}).values()
    return [one for one in known if "state" not in filters or one["State"] in filters["state"]]
