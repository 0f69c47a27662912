"""Runs something that starts many processes, and leaves none of them behind."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hosts.inside import processes

from .run import Broken
from .screen import line, paint

_AWAITED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
_GONE_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.01
_PR_SET_CHILD_SUBREAPER = 36


def supervise(name: str, play: Callable[[Path], int], has_terminal: bool = False) -> int:
    """Runs `play` in a child, with a short folder for its sockets, and here only waits: no signal can come at a moment at which it is
    lost, or at which a process that was just started is not known yet. The child runs in a process group of its own, which Ctrl-C does
    not reach, and reads nothing; or, if it `has_terminal`, it stays in the foreground of the terminal and reads from it."""
    if sys.platform != "linux":
        line(f"The {name} needs Linux: it boots machines as processes.")
        return 1
    signal.signal(signal.SIGCHLD, lambda *_: None)  # what is ignored, as this is at first, need not be waited for
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    # Whatever loses its parent, be it in a session of its own, becomes a child of this process (PR_SET_CHILD_SUBREAPER(2const)).
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Of sockets the paths have to be short.
    scratch, sockets = tempfile.mkdtemp(), tempfile.mkdtemp(prefix=f"{name}-{os.getpid()}-", dir="/tmp")
    player = os.fork()
    if player == 0:
        return _run_child(play, scratch, Path(sockets), has_terminal)
    if not has_terminal:
        _to_its_group(player)
    try:
        return _wait_for(player)
    finally:
        _end_all()
        for folder in (scratch, sockets):
            shutil.rmtree(folder, ignore_errors=True)


def _wait_for(player: int) -> int:
    while True:
        ended, status = os.waitpid(player, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        number = signal.sigwait(_AWAITED)
        if number != signal.SIGCHLD:
            _end_all()
            with suppress(OSError):  # the terminal is gone, too
                os.write(sys.stdout.fileno(), b"\nInterrupted; nothing of it runs any more.\n")
            return 128 + number


def _run_child(play: Callable[[Path], int], scratch: str, sockets: Path, has_terminal: bool) -> int:
    if has_terminal:
        # Ctrl-C reaches this process too. The parent ends it; a handler is not inherited by programs that it starts.
        signal.signal(signal.SIGINT, lambda *_: None)
    else:
        _to_its_group(0)
        # It is not in the foreground of the terminal: what it writes is shown all the same, and it reads nothing.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    tempfile.tempdir = os.environ["TMPDIR"] = scratch
    try:
        return play(sockets)
    except BrokenPipeError:
        # `python -m demo | head` closes the pipe. The rest of the output is dropped at the exit, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Broken as broken:
        line(paint(f"\nFAILED: {broken}", "bold", "red"))
        return 1


def _to_its_group(player: int) -> None:
    """Both sides do it, in any order."""
    with suppress(OSError):  # it is done, or the player has ended
        os.setpgid(player, player)


def _end_all() -> None:
    """Nothing that descends from here is left when this is over: the player, its functions, and the machines of the job."""
    until = time.monotonic() + _GONE_SECONDS_MAX
    while time.monotonic() < until:
        for pid in processes.descendants({os.getpid()}):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_POLL_SECONDS)
