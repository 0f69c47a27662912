"""`make demo` is the acceptance test of the reaper: it ends as its story says, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

INTEGRATION = Path(__file__).resolve().parents[1]
TOLD = {signal.SIGINT: 130, signal.SIGTERM: 143}


@contextmanager
def demo() -> Iterator[subprocess.Popen]:
    """The demo, in a session of its own: whatever it starts can be found by that, and is gone after the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "demo"],
        env={**os.environ, "PYTHONPATH": str(INTEGRATION)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None or members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def members(session: int) -> list[str]:
    """The processes of a session that still live."""
    listed = subprocess.run(["ps", "-e", "-o", "sess=,stat=,pid=,args="], capture_output=True, text=True, check=True)
    rows = [row.split(None, 3) for row in listed.stdout.splitlines()]
    return [" ".join(row[2:]) for row in rows if row[0] == str(session) and not row[1].startswith("Z")]


def test_the_story_ends_as_it_should() -> None:
    with demo() as running:
        told, _ = running.communicate(timeout=120)
        assert running.returncode == 0, told
        assert members(running.pid) == []

    for line in ("Every machine met the fate that the story has for it.", "curfew:keep-until", "plans/"):
        assert line in told
    assert "\033[" not in told, "colour is for terminals"
    assert max(len(line) for line in told.splitlines()) <= 100


@pytest.mark.parametrize("number", TOLD)
def test_interrupted_it_leaves_nothing_behind(number: signal.Signals) -> None:
    """Ctrl-C reaches every process of the group at once; SIGTERM only the one it is sent to."""
    with demo() as running:
        wait_for("== Run 2", running)
        assert len(members(running.pid)) == 2, "the demo and the function"

        if number == signal.SIGINT:
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)

        told, _ = running.communicate(timeout=20)
        assert running.returncode == TOLD[number], told
        assert members(running.pid) == []


def wait_for(text: str, running: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while text not in (line := running.stdout.readline()):
        assert line and time.monotonic() < deadline, f"the demo ended, or hung, before {text!r}"
