"""Moto's services without Flask, which took a fifth of the time of a call: its rules of URLs, its functions, and nothing around them."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from botocore.exceptions import ClientError
from moto.core.request import Request
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as WerkzeugResponse

from .http_message import Response, call_wsgi

_NO_BODY = (204, 304)


class _Request(Request):
    """As Moto's own server hands it over. Moto asks for the URL several times."""

    from_wsgi_server = True

    @cached_property
    def url_root(self) -> str:
        return f"{self.scheme}://{self.host}/"

    @cached_property
    def raw_url(self) -> str:
        return super().raw_url


class MotoServices(DomainDispatcherApplication):
    def __init__(self) -> None:
        super().__init__(create_backend_app)
        # Moto reads its own directory for every request, which took most of the time of one; the host alone decides.
        self.get_backend_for_host = lru_cache(maxsize=None)(super().get_backend_for_host)
        self._urls: dict[str, Any] = {}  # by service

    def answer(self, environ: dict[str, Any]) -> Response:
        app = self.get_application(environ)
        if app.service == "moto_api" or environ["REQUEST_METHOD"] == "HEAD":
            return call_wsgi(app, environ)
        if app.service not in self._urls:
            self._urls[app.service] = app.url_map.bind("localhost")
        request = _Request(environ)
        try:
            endpoint, _ = self._urls[app.service].match(request.path, request.method)
            answered = app.view_functions[endpoint].callback(request, request.raw_url, dict(iter(request.headers)))
        except HTTPException as error:  # also an answer of Moto's functions
            return call_wsgi(error, environ)
        except ClientError as error:
            answered = 400, {}, error.response["Error"]["Message"]
        status, headers, content = answered if len(answered) == 3 else (200, {}, answered)
        content = content.encode() if isinstance(content, str) else content
        if not isinstance(content, bytes) or not isinstance(headers, dict) or not isinstance(status, int) or status in _NO_BODY:
            return call_wsgi(WerkzeugResponse(content, status, headers), environ)
        named = [(name, str(value)) for name, value in headers.items()]
        if not any(name.lower() == "content-type" for name, _ in named):
            named.append(("Content-Type", "text/html; charset=utf-8"))
        return Response(status, named, content)
