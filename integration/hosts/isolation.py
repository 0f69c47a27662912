"""How far machines can be kept apart here: in namespaces of their own, or as processes beside everybody else's."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from functools import cache

NAMESPACES, PROCESSES = "namespaces", "processes"

# What init does in its namespaces; without these rights it must not begin.
_TRY = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[2])
import network
libc = ctypes.CDLL(None, use_errno=True)
for source, target in ((sys.argv[1], sys.argv[1]), ("/dev/null", "/proc/sysrq-trigger")):
    if not os.path.exists(target):
        continue
    if libc.mount(source.encode(), target.encode(), None, 4096, None):
        sys.exit(os.strerror(ctypes.get_errno()))
network.listeners(8080)
"""


def words(python: str) -> list[str]:
    """What begins a Python as the first process of namespaces of its own, which all end with it (unshare(1))."""
    users = [] if os.getuid() == 0 else ["--map-root-user"]
    return ["unshare", *users, "--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", python]


@cache
def best(python: str, inside: str) -> tuple[str, str]:
    """The best kind that this machine lets, and why there is none better; empty where there is none."""
    if shutil.which("unshare") is None:
        return PROCESSES, "there is no unshare(1)"
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run([*words(python), "-c", _TRY, folder, inside], capture_output=True, text=True)
    if tried.returncode == 0:
        return NAMESPACES, ""
    said = tried.stderr.strip().splitlines()
    return PROCESSES, f"namespaces are not to be had: {said[-1] if said else f'exit code {tried.returncode}'}"


def user(kind: str) -> str:
    """The user of a machine's command: that of its agent."""
    return "root" if kind == NAMESPACES else pwd.getpwuid(os.getuid()).pw_name
