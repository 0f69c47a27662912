"""What one process takes, from its start to its end, by the kernel's account of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_TIMEOUT_SECONDS = 600

# The process that starts it is small: what a process held before it became another counts into its peak (getrusage(2)).
_START = """
import json, os, sys, time
began = time.monotonic()
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
wall = time.monotonic() - began
said = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024]
open(sys.argv[1], "w").write(json.dumps(said))
"""


@dataclass(frozen=True)
class Used:
    code: int  # as it exited
    cpu_seconds: float  # user and system, of all threads, and of the children that it waited for
    wall_seconds: float
    peak_mib: float  # of the largest process among them


def run(command: Sequence[str | Path], env: Mapping[str, str], stdout: IO, stderr: IO | None = None) -> Used:
    """`command` is a path and its arguments; `stderr` is ours where it is not given."""
    with tempfile.NamedTemporaryFile("r") as used:
        starter = [sys.executable, "-I", "-S", "-c", _START, used.name, *map(str, command)]
        subprocess.run(starter, env=env, stdout=stdout, stderr=stderr, check=True, timeout=_TIMEOUT_SECONDS)
        return Used(*json.load(used))
