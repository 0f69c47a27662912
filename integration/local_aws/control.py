"""The control API under `/_local/`: what tests and the demo use beside AWS's own API. All bodies are JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable

from . import back_door
from .faults import Rule
from .http_message import Request, Response

if TYPE_CHECKING:
    from .proxy import Proxy

_SETTERS: dict[str, Callable[[str, str, dict[str, Any]], None]] = {
    "instances": back_door.set_instance,
    "volumes": back_door.set_volume,
    "snapshots": back_door.set_snapshot,
    "spot-prices": back_door.set_spot_price,
}


_ACTS: dict[str, Callable[..., None]] = {
    "interruptions": back_door.interrupt,
    "shutdowns": back_door.shut_down,
    "forgotten": back_door.forget,
    "gone": back_door.gone,
}

RELEASE = "/_local/faults/release"


def answer(proxy: Proxy, request: Request) -> Response:
    _, _, route = request.path.partition("/_local/")
    try:
        body = json.loads(request.body or b"{}")
        result = _routed(proxy, request.method, route, body)
    except (ValueError, KeyError, TypeError) as error:
        return _json(400, {"error": f"{type(error).__name__}: {error}"})
    if result is None:
        return _json(404, {"error": f"no {request.method} {request.path}"})
    return _json(200, result)


def _routed(proxy: Proxy, method: str, route: str, body: dict[str, Any]) -> Any | None:
    plain: dict[tuple[str, str], Callable[[], Any]] = {
        ("GET", "ready"): lambda: {"ready": True},
        ("GET", "calls"): proxy.ledger.listed,
        ("DELETE", "calls"): proxy.ledger.clear,
        ("GET", "faults"): proxy.rules.listed,
        ("POST", "faults"): lambda: proxy.rules.add(Rule(**body)),
        ("DELETE", "faults"): proxy.rules.clear,
        ("POST", "faults/release"): lambda: proxy.rules.release(body["action"]),
        ("GET", "messages"): back_door.messages,
        ("GET", "machines"): back_door.machines,
        ("POST", "user-data"): lambda: {"user_data": back_door.user_data(**body)},
        ("POST", "objects/newest"): lambda: back_door.objects(**body),
        ("POST", "subscriptions/confirm"): lambda: back_door.confirm_subscription(body["endpoint"]),
        ("POST", "snapshots/hold"): lambda: back_door.hold_snapshots(body["region"]),
        ("POST", "snapshots/complete"): lambda: back_door.complete_snapshots(body["region"], body["snapshots"]),
        ("POST", "change"): lambda: back_door.apply(body),
        ("POST", "objects"): lambda: back_door.set_object(**body),
        ("POST", "objects/add"): lambda: back_door.add_objects(**body),
        ("POST", "stacks"): lambda: _put_stack(proxy, **body),
        ("POST", "quotas"): lambda: _put_quota(proxy, **body),
        ("POST", "capacity"): lambda: proxy.launches.set_capacity(**body),
        ("POST", "launches/hide"): lambda: back_door.hide_new_instances(**body),
        ("POST", "ends"): lambda: back_door.end_slowly(**body),
        ("POST", "time"): lambda: back_door.advance(**body),
        ("POST", "price-list"): lambda: proxy.price_list.put(**body),
        ("POST", "reset"): proxy.reset,
    }
    if (method, route) in plain:
        result = plain[method, route]()
        return {"done": True} if result is None else result
    kind, _, resource_id = route.partition("/")
    if method == "POST" and kind in _ACTS and resource_id:
        _ACTS[kind](resource_id, **body)
        return {"done": True}
    if method == "POST" and kind in _SETTERS and resource_id:
        _SETTERS[kind](resource_id, body.pop("region"), body)
        return {"done": True}
    return None


def _put_stack(proxy: Proxy, name: str, region: str, resources: dict[str, Any]) -> None:
    proxy.stacks.put(name, region, resources)
    back_door.create_profiles([made for kind, made in resources.values() if kind == "AWS::IAM::InstanceProfile"])


def _put_quota(proxy: Proxy, code: str, region: str, value: float, enforced: bool = False) -> None:
    proxy.quotas.put(code, region, value)
    if enforced:
        proxy.launches.set_quota(code, region, value)


def _json(status: int, value: Any) -> Response:
    return Response(status, [("Content-Type", "application/json")], json.dumps(value).encode())
