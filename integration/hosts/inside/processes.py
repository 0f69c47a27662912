"""What runs, by /proc: proc_pid_stat(5), proc_pid_environ(5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    has_ended: bool  # and was not reaped yet


def running() -> dict[int, Process]:
    """By their ids: all that have not ended."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The name stands in parentheses, and may hold any.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            found[int(entry.name)] = Process(int(entry.name), int(fields[1]), fields[0] in "ZX")
    return found


def with_variable(variable: str, value: str) -> set[int]:
    """Those whose environment says so, or said so when they began."""
    wanted = f"{variable}={value}".encode()
    return {pid for pid in running() if wanted in environment(pid)}


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def descendants(of: set[int]) -> set[int]:
    """All whose parent is one of them, or a descendant."""
    everything, found = running(), set(of)
    while more := {pid for pid, one in everything.items() if one.parent in found} - found:
        found |= more
    return found - of
