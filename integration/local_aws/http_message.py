"""One HTTP request and one HTTP answer as plain values, so that the rest of the package never touches WSGI."""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import dataclass, field
from functools import cached_property
from http.client import responses as reason_phrases
from socket import socket
from typing import Any, Callable
from urllib.parse import parse_qsl, unquote_plus

_ACCESS_KEY = re.compile(r"Credential=(?P<id>[^/]+)/")


@dataclass
class Request:
    """A request whose body has been read whole: a fault, a record and moto all look at the same bytes."""

    method: str
    path: str
    query: str
    headers: dict[str, str]  # lower-case names
    body: bytes
    environ: dict[str, Any] = field(repr=False, default_factory=dict)

    @classmethod
    def from_environ(cls, environ: dict[str, Any]) -> Request:
        headers = {
            name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")
        }
        headers["content-type"] = environ.get("CONTENT_TYPE", "")
        body = _read_body(environ)
        if headers.get("content-encoding") == "gzip" and environ["REQUEST_METHOD"] != "PUT":
            # The SDKs compress large PutMetricData calls; an S3 object (PUT) stays as it came.
            body = gzip.decompress(body)
            environ.pop("HTTP_CONTENT_ENCODING")
        # WSGI hands the path over as latin-1 (PEP 3333).
        path = environ.get("PATH_INFO", "/").encode("latin-1").decode("utf-8", "replace")
        return cls(environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""), headers, body, environ)

    @cached_property
    def query_parameters(self) -> dict[str, str]:
        return dict(parse_qsl(self.query, keep_blank_values=True))

    @cached_property
    def form(self) -> dict[str, str]:
        """The parameters of a query-protocol call (`Action=DescribeInstances&Filter.1.Name=...`)."""
        return dict(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))

    @property
    def invocation(self) -> str | None:
        """What the SDK's attempts at one call have in common: each of them carries the same id."""
        return self.headers.get("amz-sdk-invocation-id")

    @property
    def access_key(self) -> str | None:
        """Of the credentials that its header was signed with."""
        found = _ACCESS_KEY.search(self.headers.get("authorization", ""))
        return found["id"] if found else None

    def mentions(self, text: str) -> bool:
        """Whether the path, the query or the body contains this text, form-encoded or not."""
        body = self.body.decode("utf-8", "replace")
        return any(text in place for place in (self.path, self.query, unquote_plus(self.query), body, unquote_plus(body)))

    def as_environ(self, **changes: Any) -> dict[str, Any]:
        """The environ to hand on, with the body put back; `changes` override single entries."""
        body = changes.pop("body", self.body)
        environ = dict(self.environ)
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        environ.pop("wsgi.input_terminated", None)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        environ.update(changes)
        return environ


@dataclass
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def send(self, start_response: Callable[..., Any]) -> list[bytes]:
        start_response(self._status_line(), self._framed_headers())
        return [self.body]

    def send_raw(self, connection: socket, body: bytes) -> None:
        """Past WSGI, which would frame it anew: headers that promise the whole body, and this much of it; of an answer
        that has no body half of the headers."""
        lines = [f"HTTP/1.1 {self._status_line()}", *(f"{name}: {value}" for name, value in self._framed_headers())]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        connection.sendall(head + body if self.body else head[: len(head) // 2])

    def with_body(self, body: bytes) -> Response:
        """The same answer with another body, and its length."""
        headers = [(name, value) for name, value in self.headers if name.lower() != "content-length"]
        return Response(self.status, headers, body)

    def _status_line(self) -> str:
        return f"{self.status} {reason_phrases.get(self.status, 'Unknown')}"

    def _framed_headers(self) -> list[tuple[str, str]]:
        headers = [(name, value) for name, value in self.headers if name.lower() != "transfer-encoding"]
        if not any(name.lower() == "content-length" for name, _ in headers):
            headers.append(("Content-Length", str(len(self.body))))
        return headers


def call_wsgi(app: Callable[..., Any], environ: dict[str, Any]) -> Response:
    """Calls a WSGI application in-process and gathers its whole answer."""
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> None:
        started[:] = [int(status.split(" ", 1)[0]), headers]

    answer = app(environ, start_response)
    try:
        body = b"".join(answer)
    finally:
        if hasattr(answer, "close"):
            answer.close()
    return Response(started[0], started[1], body)


def _read_body(environ: dict[str, Any]) -> bytes:
    if environ.get("wsgi.input_terminated"):  # chunked transfer
        return environ["wsgi.input"].read()
    length = int(environ.get("CONTENT_LENGTH") or 0)
    return environ["wsgi.input"].read(length) if length else b""
