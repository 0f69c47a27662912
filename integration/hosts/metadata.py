"""EC2's instance metadata of one machine, version 2 alone, at whatever socket it is given.

Source: "Use the Instance Metadata Service to access instance metadata", "Retrieve security credentials from instance metadata" and "Spot
Instance interruption notices" (Amazon EC2 User Guide).
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from local_aws.client import ACCOUNT

INTERRUPTION = "/latest/meta-data/spot/instance-action"
TERMINATION_TIME = "/latest/meta-data/spot/termination-time"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
ROLES = "/latest/meta-data/iam/security-credentials/"
_TOKEN_SECONDS_MAX = 21600
_CREDENTIALS_LAST = timedelta(hours=6)


class Metadata:
    """What a machine is told of itself. `says` holds what was added to it; `asked`, which paths were asked for, in order."""

    def __init__(
        self, machine: dict[str, Any] | None, listening: socket.socket, role: str | None, clock: Callable[[], float] = time.time
    ) -> None:
        self.role, self.says, self.asked = role, _of(machine) if machine else {}, list[str]()
        self.answers = threading.Event()  # cleared: nothing comes back any more
        self.answers.set()
        self._clock = clock
        self._tokens: dict[str, float] = {}
        self._server = _Server(self, listening)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.answers.set()  # releases the waiting thread

    def warn(self, seconds: float) -> None:
        """EC2 takes the machine back in so many seconds."""
        at = _rfc3339(self._now() + timedelta(seconds=seconds))
        self.says[INTERRUPTION] = json.dumps({"action": "terminate", "time": at})
        self.says[TERMINATION_TIME] = at

    def recommend(self) -> None:
        """An interruption has become likelier."""
        self.says[REBALANCE] = json.dumps({"noticeTime": _rfc3339(self._now())})

    def token(self, seconds: str | None) -> str | None:
        """`None` where the request is none."""
        if seconds is None or not seconds.isdigit() or not 1 <= int(seconds) <= _TOKEN_SECONDS_MAX:
            return None
        token = secrets.token_urlsafe(32)
        self._tokens[token] = time.monotonic() + int(seconds)
        return token

    def answer(self, path: str, token: str | None) -> tuple[int, str]:
        self.asked.append(path)
        if token is None or self._tokens.get(token, 0) < time.monotonic():
            return 401, ""
        if self.role is not None and path in (ROLES, ROLES.rstrip("/")):
            return 200, self.role
        if self.role is not None and path == ROLES + self.role:
            return 200, self._credentials()
        said = self.says.get(path)
        return (404, "") if said is None else (200, said)

    def _credentials(self) -> str:
        said = {
            "Code": "Success",
            "LastUpdated": _rfc3339(self._now()),
            "Type": "AWS-HMAC",
            "AccessKeyId": "ASIATESTING000000000",
            "SecretAccessKey": "testing",
            "Token": "testing/of+the+machine==",
            "Expiration": _rfc3339(self._now() + _CREDENTIALS_LAST),
        }
        # As EC2 lays it out, for who reads it by lines.
        return json.dumps(said, indent=2, separators=(",", " : "))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), timezone.utc)


def _of(machine: dict[str, Any]) -> dict[str, str]:
    instance, region, zone = machine["id"], machine["region"], machine["zone"]
    document = {"accountId": ACCOUNT, "availabilityZone": zone, "instanceId": instance, "instanceType": machine["type"], "region": region}
    return {
        "/latest/meta-data/ami-launch-index": str(machine["launch_index"]),
        "/latest/meta-data/instance-id": instance,
        "/latest/meta-data/instance-type": machine["type"],
        "/latest/meta-data/instance-life-cycle": machine["lifecycle"],
        "/latest/meta-data/local-ipv4": machine["address"],
        "/latest/meta-data/placement/region": region,
        "/latest/meta-data/placement/availability-zone": zone,
        "/latest/dynamic/instance-identity/document": json.dumps(document, indent=2),
    }


def _rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, metadata: Metadata, listening: socket.socket) -> None:
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.metadata = listening, metadata

    def handle_error(self, *_: object) -> None:
        """A machine without power gets no answer."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_PUT(self) -> None:
        self.server.metadata.answers.wait()
        if self.path != "/latest/api/token":
            return self._answer(404, "")
        if "X-Forwarded-For" in self.headers:
            return self._answer(403, "")
        seconds = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        token = self.server.metadata.token(seconds)
        self._answer(400 if token is None else 200, token or "", ("X-aws-ec2-metadata-token-ttl-seconds", seconds or "0"))

    def do_GET(self) -> None:
        self.server.metadata.answers.wait()
        self._answer(*self.server.metadata.answer(self.path, self.headers.get("X-aws-ec2-metadata-token")))

    def _answer(self, status: int, text: str, *headers: tuple[str, str]) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (*headers, ("Content-Type", "text/plain"), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""
