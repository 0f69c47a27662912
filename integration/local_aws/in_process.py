"""The calls of a test in the process of its local AWS: to the proxy itself, because HTTP took half of their CPU time.

While there is a rule they go by HTTP like all others: a fault may close the connection.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from .http_message import call_wsgi


class _Body(io.BytesIO):
    """What botocore reads of an answer, as of urllib3's."""

    def stream(self, amount: int = 1024, **_: Any) -> Iterator[bytes]:
        while some := self.read(amount):
            yield some


def sender(proxy: Any) -> Callable[..., AWSResponse | None]:
    """A handler of botocore's event `before-send`; None lets botocore send the request."""

    def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        if proxy.rules.listed():
            return None
        response = call_wsgi(proxy, _environ(request))
        return AWSResponse(request.url, response.status, dict(response.headers), _Body(response.body))

    return answer


def _environ(request: AWSPreparedRequest) -> dict[str, Any]:
    """The request as WSGI has it (PEP 3333)."""
    url = urlsplit(request.url)
    body = request.body if request.body is not None else b""
    body = body.read() if hasattr(body, "read") else body
    body = body.encode() if isinstance(body, str) else bytes(body)
    headers = {name.lower(): value if isinstance(value, str) else value.decode() for name, value in request.headers.items()}
    named = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    return {
        **named,
        "HTTP_HOST": url.netloc,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(url.path).decode("latin-1"),
        "QUERY_STRING": url.query,
        "RAW_URI": f"{url.path}?{url.query}" if url.query else url.path,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": str(url.hostname),
        "SERVER_PORT": str(url.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
    }
