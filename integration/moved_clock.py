"""A wall clock for a function's process that a test can set: months turn and nights pass in seconds.

    clock = MovedClock()
    with Function(binary, env, clock=clock) as function:
        clock.move_to(datetime(2031, 1, 31, 23, 55, tzinfo=timezone.utc))
        function.invoke(...)

It is moved_clock.c, preloaded into the process, so it works where ld.so(8) does: on Linux.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from compiled import shared_library

IS_HERE = sys.platform == "linux"

_SOURCE = Path(__file__).with_suffix(".c")
_LIBRARY = Path(__file__).resolve().parents[1] / "target" / "moved-clock" / "libmoved_clock.so"


class MovedClock:
    """It shows the time that it really is until it is moved, and then runs on from there, or stands."""

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="moved-clock-")
        self.moved_by_seconds = 0.0
        self._move(0)

    def move_to(self, moment: datetime) -> None:
        self._move(round(moment.timestamp() * 1e9) - time.time_ns())

    def move_by(self, seconds: float) -> None:
        """From what it really is."""
        self._move(round(seconds * 1e9))

    def stand_at(self, moment: datetime) -> None:
        """Until it is moved again: whatever a busy machine takes for it is of this moment."""
        stands_at = round(moment.timestamp() * 1e9)
        self._move(stands_at - time.time_ns(), stands_at)

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(shared_library(_SOURCE, _LIBRARY)), "MOVED_CLOCK": self._file.name}

    def _move(self, nanoseconds: int, stands_at: int = 0) -> None:
        self.moved_by_seconds = nanoseconds / 1e9
        # One write, so that no reader sees half of it.
        os.pwrite(self._file.fileno(), b"".join(one.to_bytes(8, sys.byteorder, signed=True) for one in (nanoseconds, stands_at)), 0)
