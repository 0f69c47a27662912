"""Somebody at a terminal, whom the command asks."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Mapping

from command import COMMAND

_SECONDS_MAX = 120


class Terminal:
    """The command with a terminal of its own, and somebody at it."""

    def __init__(self, environment: Mapping[str, str], *arguments: str) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(COMMAND, [str(COMMAND), *arguments], {"TERM": "xterm-256color", **environment})
        self.shown = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + _SECONDS_MAX
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if not self._read():
                break
        assert text in self.shown

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def end(self) -> int:
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        readable, _, _ = select.select([self.terminal], [], [], _SECONDS_MAX)
        try:
            got = os.read(self.terminal, 4096) if readable else b""
        except OSError:  # Linux: the other side is closed
            got = b""
        self.shown += got.decode(errors="replace")
        return bool(got)
