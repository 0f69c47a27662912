"""Links of announcements as their readers use them: the real function `reply`, behind what stands in for its address.

with Links(account) as links:
    path = links.path(account.tick())
    assert links.get(path).status == 200
    assert links.post(path, "keep-day").status == 200
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from reaping import REPOSITORY, Account, Run, binary
from runtime_api import Function
from template_actions import granted_actions

ADDRESS = "https://links.example/"
READER = "203.0.113.7"
_EVENT = json.loads((REPOSITORY / "events/reply/url-get.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    page: str

    @property
    def choices(self) -> list[str]:
        """Those that the page offers, by their buttons."""
        return re.findall(r'<button id="([a-z0-9-]+)">', self.page)


def document_of(path: str) -> str:
    """The key of a link's document."""
    return f"replies/{hashlib.sha256(path.removeprefix('/r/').encode()).hexdigest()}.json"


class Links:
    def __init__(self, account: Account, **over: str | None) -> None:
        self.account = account
        account.restart(CURFEW_REPLY_URL=ADDRESS)
        self._function = Function(binary("reply"), env=account.environment(**over))
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> Links:
        self._function.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._function.__exit__(None, None, None)

    def paths(self, run: Run) -> list[str]:
        """Of all links in the messages of a run."""
        text = "\n".join(message["message"] for message in run.messages)
        return re.findall(rf"^Keep it.* by one click: {re.escape(ADDRESS.rstrip('/'))}(/r/[0-9a-f]{{64}})$", text, re.MULTILINE)

    def path(self, run: Run) -> str:
        [path] = self.paths(run)
        return path

    def document(self, path: str) -> dict[str, Any]:
        return self.account.read(document_of(path))

    def invoke(self, event: Any) -> Any:
        """The function's answer. A failed invocation is an assertion: Lambda would show its own page."""
        with self._one_at_a_time:
            return self._function.invoke(event).response

    def request(self, method: str, path: str, **over: Any) -> Answer:
        http = {**_EVENT["requestContext"]["http"], "method": method, "path": path, "sourceIp": READER}
        event = {**_EVENT, "rawPath": path, "requestContext": {**_EVENT["requestContext"], "http": http}, **over}
        answer = self.invoke(event)
        return Answer(answer["statusCode"], answer["headers"], answer["body"])

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, choice: str) -> Answer:
        return self.request("POST", f"{path}/{choice}")

    def press(self, path: str, choice: str) -> str:
        """What the chat shows for a button."""
        return self.invoke({"reply": path.removeprefix("/r/"), "choice": choice})["message"]

    def check_role(self) -> None:
        """The role allows the calls since the last look."""
        assert {call["action"] for call in self.account.aws.calls()} <= granted_actions("reply")
        self.account.aws.clear_calls()

    def writes(self) -> Counter:
        """The calls since the last look that change anything."""
        changing = ("Create", "Delete", "Put", "Start", "Stop", "Terminate", "Add", "Update")
        actions = [call["action"] for call in self.account.aws.calls()]
        self.account.aws.clear_calls()
        return Counter(action for action in actions if action.partition(":")[2].startswith(changing))

    def serve(self) -> ThreadingHTTPServer:
        """A local address, for a browser. Whoever asked for it shuts it down."""
        links = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                answer = links.request(self.command, self.path, body=self.rfile.read(length).decode())
                body = answer.page.encode()
                self.send_response(answer.status)
                for name, value in {**answer.headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_HEAD = _answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server
