"""The instance metadata for an agent without a machine around it: with credentials only when a test gives some, and with all that can go wrong."""

from __future__ import annotations

import json
import socket
from datetime import datetime, timedelta, timezone

from hosts import metadata
from hosts.metadata import INTERRUPTION, ROLES

__all__ = ["INTERRUPTION", "Metadata"]
_ROLE = "curfew-job"


class Metadata(metadata.Metadata):
    """Listens on a port of its own; `with Metadata() as metadata`."""

    def __init__(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
        super().__init__(None, listening, None)

    def __enter__(self) -> Metadata:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def warn(self, seconds: float) -> None:
        """To the fraction of a second: tests give little notice."""
        ends = datetime.now(timezone.utc) + timedelta(seconds=seconds)
        self.says[INTERRUPTION] = json.dumps({"action": "terminate", "time": ends.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})

    def give_credentials(self, seconds: float) -> None:
        """New ones of the machine's role, which are good for so long."""
        now = datetime.now(timezone.utc)
        moments = {name: at.strftime("%Y-%m-%dT%H:%M:%SZ") for name, at in (("LastUpdated", now), ("Expiration", now + timedelta(seconds=seconds)))}
        key = {"AccessKeyId": f"ASIA{len(self.asked)}", "SecretAccessKey": "a-secret", "Token": "a-session"}
        self.says |= {ROLES: _ROLE, ROLES + _ROLE: json.dumps({"Code": "Success", "Type": "AWS-HMAC", **key, **moments})}

    def credentials_asked(self) -> int:
        return self.asked.count(ROLES + _ROLE)

    def hang(self) -> None:
        """Takes requests and answers none."""
        self.answers.clear()

    def go_on(self) -> None:
        self.answers.set()
