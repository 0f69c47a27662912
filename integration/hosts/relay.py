"""Relays between a machine and the local AWS, until its network is cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from typing import Any

_BYTES = 256 * 1024


class Loop:
    """A thread for all relays."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, what: Coroutine[Any, Any, Any]) -> Any:
        """Waits for it."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Relay:
    """From a listening socket, be it of another namespace, to a port of 127.0.0.1."""

    def __init__(self, loop: Loop, listening: socket.socket, port: int) -> None:
        self._loop, self._listening, self._port = loop, listening, port
        self._tasks: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        self._loop.do(self._begin())

    def cut(self) -> None:
        """From now on requests get no answer, and connections stay open."""
        self._loop.do(self._cut())

    def close(self) -> None:
        self._loop.do(self._end())

    async def _begin(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._add(self._accept())

    async def _cut(self) -> None:
        self._open.clear()

    async def _end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()

    def _add(self, what: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._open.wait()
            machine, _ = await loop.sock_accept(self._listening)
            self._add(self._connect(machine))

    async def _connect(self, machine: socket.socket) -> None:
        aws = socket.socket()
        aws.setblocking(False)
        try:
            for one in (machine, aws):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._open.wait()
            await asyncio.get_running_loop().sock_connect(aws, ("127.0.0.1", self._port))
            # Where one way ends badly, the other ends with it, before its sockets are closed.
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(machine, aws))
                both.create_task(self._pump(aws, machine))
        except* OSError:
            pass  # the client is gone, or a fault made the local AWS close the connection
        finally:
            machine.close()
            aws.close()

    async def _pump(self, source: socket.socket, target: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while some := await loop.sock_recv(source, _BYTES):
            await self._open.wait()
            await loop.sock_sendall(target, some)
        await self._open.wait()
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
