"""IMDSv2, as a machine sees it: a token, and what EC2 tells the machine of its own end."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

INTERRUPTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
_TOKEN = "a-token"


class Metadata:
    """Listens on a port of its own; `with Metadata() as metadata`."""

    def __init__(self) -> None:
        self.says: dict[str, str] = {}
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    def __enter__(self) -> Metadata:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def warn(self, seconds: float) -> None:
        """The machine is taken back in so many seconds."""
        ends = datetime.now(timezone.utc) + timedelta(seconds=seconds)
        self.says[INTERRUPTION] = json.dumps({"action": "terminate", "time": ends.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})

    def recommend(self) -> None:
        """It may be soon."""
        self.says[REBALANCE] = json.dumps({"noticeTime": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")})


def _handler(metadata: Metadata) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            wanted = self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
            self._answer(200 if wanted else 400, _TOKEN if wanted else "")

        def do_GET(self) -> None:
            metadata.asked.append(self.path)
            if self.headers.get("X-aws-ec2-metadata-token") != _TOKEN:
                return self._answer(401, "")
            said = metadata.says.get(self.path)
            self._answer(404 if said is None else 200, said or "")

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler
