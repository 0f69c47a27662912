"""The control API: `POST /_local/<name>` calls that method of the back door, with a JSON object of its arguments."""

from __future__ import annotations

import json
from typing import Any

from .admin_api import BackDoor
from .http_message import Response

PREFIX = "/_local/"
RELEASE = "release"


def answer(back_door: BackDoor, name: str, body: bytes) -> Response:
    method = getattr(back_door, name, None)
    if method is None or name.startswith("_"):
        return _json(404, {"error": f"no {PREFIX}{name}"})
    try:
        return _json(200, method(**json.loads(body or b"{}")))
    except (ValueError, KeyError, TypeError) as error:
        return _json(400, {"error": f"{type(error).__name__}: {error}"})


def _json(status: int, value: Any) -> Response:
    return Response(status, [("Content-Type", "application/json")], json.dumps(value).encode())
