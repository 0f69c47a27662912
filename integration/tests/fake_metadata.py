"""IMDSv2, as a machine sees it: a token, what EC2 tells the machine of its own end, and the credentials of its role."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

INTERRUPTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
ROLES = "/latest/meta-data/iam/security-credentials/"
_ROLE = "curfew-job"


class Metadata:
    """Listens on a port of its own; `with Metadata() as metadata`."""

    def __init__(self) -> None:
        self.says: dict[str, str] = {}
        self.asked: list[str] = []
        self.status = 0  # answered to everything, where it is not 0
        self._tokens, self._goes_on = 1, threading.Event()
        self._goes_on.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    def __enter__(self) -> Metadata:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._goes_on.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def warn(self, seconds: float) -> None:
        """The machine is taken back in so many seconds."""
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
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()
        self.status = 0

    def forget_tokens(self) -> None:
        """None that was given out is good any more."""
        self._tokens += 1

    def token(self) -> str:
        return f"token-{self._tokens}"

    def recommend(self) -> None:
        """It may be soon."""
        self.says[REBALANCE] = json.dumps({"noticeTime": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")})


def _handler(metadata: Metadata) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            wanted = self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
            self._answer(200 if wanted else 400, metadata.token() if wanted else "")

        def do_GET(self) -> None:
            metadata.asked.append(self.path)
            if self.headers.get("X-aws-ec2-metadata-token") != metadata.token():
                return self._answer(401, "")
            said = metadata.says.get(self.path)
            self._answer(404 if said is None else 200, said or "")

        def _answer(self, status: int, text: str) -> None:
            metadata._goes_on.wait()
            status, text = (metadata.status, "") if metadata.status else (status, text)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler
