"""Runs the proxy on a loopback port, inside this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from blocking_server import BlockingServer
from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import ThreadedWSGIServer

from .client import LocalAws
from .proxy import Proxy

# Read by moto while it is being used. Its hundreds of public AMIs cost most of the start time, and bring 1,301
# foreign snapshots that OwnerIds=self would list; without them every AMI id is accepted.
os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")


class _QuietHandler(MotoRequestHandler):
    # Headers and body are two small writes: with Nagle's algorithm each answer would wait for a delayed ACK.
    disable_nagle_algorithm = True

    def log(self, type: str, message: str, *args: Any) -> None:
        if type == "error":
            super().log(type, message, *args)

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        """Without this the handler would wait for a next request on a connection that a fault has closed."""
        self.close_connection = True


class _Server(BlockingServer, ThreadedWSGIServer):
    pass


@contextmanager
def running(port: int = 0, regions: Iterable[str] = ()) -> Iterator[LocalAws]:
    """A local AWS for the time of the `with` block; port 0 takes a free one.

    Moto's state is global: two at once in one process would be one account with two doors.
    """
    with serving(Proxy(regions), port) as aws:
        yield aws
        check_calls(aws)


class InvalidCalls(AssertionError):
    """Requests that AWS would refuse, or answers that it cannot give."""


def check_calls(aws: LocalAws) -> None:
    if violations := aws.violations():
        raise InvalidCalls("AWS's own models forbid these calls:\n  " + "\n  ".join(violations))


@contextmanager
def serving(proxy: Proxy, port: int = 0) -> Iterator[LocalAws]:
    """The same for a proxy that is there already, which outlives the `with` block."""
    server = _Server("127.0.0.1", port, proxy, _QuietHandler)
    server.daemon_threads = True
    server.block_on_close = False  # a call held up by a `slow` rule must not hold up the end
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    aws = LocalAws(f"http://127.0.0.1:{server.server_port}", proxy)
    try:
        yield aws
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
