"""A server of `socketserver` that sleeps until there is something to do. That of Python looks twenty times a second, or however often it is told,
whether it is to end: 2 ms of each second of every server."""

from __future__ import annotations

import socket
from contextlib import suppress
from socketserver import TCPServer


class BlockingServer(TCPServer):
    """Comes before the server's own class among the bases."""

    def serve_forever(self, poll_interval: float | None = None) -> None:
        super().serve_forever(poll_interval=None)

    def shutdown(self) -> None:
        self._BaseServer__shutdown_request = True
        # It has ended already where nothing listens.
        with suppress(OSError), socket.create_connection(self.server_address[:2]):
            pass
        super().shutdown()
