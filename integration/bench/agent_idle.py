"""What the agent takes while the command of its job runs and there is nothing to do but to watch."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .agent_checkpoint import remove
from .agent_transfers import Machine, agent_command, environment
from .measure import cpu_seconds_of, status_mib

_PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Idle:
    seconds: float
    cpu_percent: float  # of one core
    resident_mib: float  # at the end
    looks: int  # at the instance metadata, in that time


def measure(machine: Machine, command: str, seconds: float, *, uploads: bool = False) -> Idle:
    """`seconds` of the agent at its real pace, once it beats its heart for a running command; with `uploads`, once head.json names what that
    wrote. A minute or more has all in it that comes regularly."""
    machine.server.forget()
    remove(machine.checkpoints)
    with agent_command(machine.server, machine.binary, command, machine.checkpoints, hurry=1) as words:
        process = subprocess.Popen(
            list(map(str, words)), env=environment(machine.server, machine.disk), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _until(lambda: _children(process.pid))
            if uploads:
                _until(lambda: '"step"' in machine.server.get(machine.head).decode())
            else:
                time.sleep(min(2, seconds))  # that is still its start
            return _watched(machine, process.pid, seconds)
        finally:
            left = _children(process.pid)
            process.kill()
            process.wait()
            for child in left:  # the command leads a group of its own
                with suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)


def _watched(machine: Machine, pid: int, seconds: float) -> Idle:
    looks, began, cpu = _looks(machine), time.monotonic(), cpu_seconds_of(pid)
    time.sleep(seconds)
    took, used = time.monotonic() - began, cpu_seconds_of(pid) - cpu
    return Idle(took, 100 * used / took, status_mib(pid, "VmRSS"), _looks(machine) - looks)


def _looks(machine: Machine) -> int:
    return machine.server.told()["calls"].get("metadata", 0)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the agent has not come so far in {_PATIENCE_SECONDS} s")
        time.sleep(0.1)
