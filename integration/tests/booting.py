"""A machine that boots with user data: a directory for its disk, a clock that only `sleep` moves, and no command but those put there.

    with Machine(tmp_path) as machine:
        machine.clock = END - 600
        machine.run("boothook")
        assert machine.calls("systemctl") == [...]

Nothing of the machine that the tests run on is found by the scripts: their PATH is the directory `tools`. What powers a machine off is
always a stand-in.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from hosts import cloud_init

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("base64", "cat", "chmod", "cp", "cut", "mkdir", "mv", "rm", "sed", "sha256sum")
SLEEP = shutil.which("sleep")
SHELLS = ["dash", "bash"]  # as the systems of the world have them as /bin/sh

# Tells what it was called with, and when by the machine's clock.
RECORDER = """#!/bin/sh
at=$(cat "$CURFEW_ROOT/clock")
line="$at ${0##*/}"
for of in "$@"; do line="$line $(printf %s "$of" | base64 -w 0)"; done
echo "$line" >>"$CURFEW_ROOT/calls"
"""
DATE = '#!/bin/sh\n[ "$*" = +%s ] && cat "$CURFEW_ROOT/clock"\n'
# A machine that is off runs nothing.
SLEEPING = (
    RECORDER
    + f"""{SLEEP} 0.05
while [ -e "$CURFEW_ROOT/frozen" ]; do {SLEEP} 0.05; done
[ -e "$CURFEW_ROOT/off" ] && kill -9 $PPID
if [ -s "$CURFEW_ROOT/clock-set" ]; then mv "$CURFEW_ROOT/clock-set" "$CURFEW_ROOT/clock"; exit 0; fi
echo $((at + $1)) >"$CURFEW_ROOT/clock.new" && mv "$CURFEW_ROOT/clock.new" "$CURFEW_ROOT/clock"
"""
)
POWERS_OFF = RECORDER + '[ "$1" = poweroff ] && echo >"$CURFEW_ROOT/off"\nexit 0\n'
# As PID 1 does: a unit without a timer is run, one with a timer is kept.
SYSTEMD_RUN = (
    RECORDER
    + """for of in "$@"; do case $of in --on-calendar=*) exit 0 ;; esac; done
while [ "${1#-}" != "$1" ]; do shift; done
"$@" </dev/null >/dev/null 2>&1 &
"""
)


@dataclass(frozen=True)
class Call:
    """One call of a stand-in."""

    at: int
    name: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.name, *self.arguments))


def parts(user_data: bytes) -> dict[str, bytes]:
    """The parts by their type, as cloud-init takes them apart."""
    return {kind: content for kind, _, content in cloud_init.parts(user_data)}


def identity_with(agent: bytes) -> dict:
    """Who a machine is that runs this agent."""
    return {
        "schema": 1,
        "bucket": "curfew-state",
        "region": "eu-west-1",
        "job": "vision/llama-ft-0123abcd",
        "attempt": 3,
        "launch": "0a1b2c3d4e5f",
        "ends_at": "2026-11-22T18:30:05Z",
        "agent_sha256": hashlib.sha256(agent).hexdigest(),
    }


def user_data(identity: dict) -> bytes:
    """The user data for that identity, by the example that `make unit` and `make integration` build."""
    made = ROOT / "target" / "debug" / "examples" / "user_data"
    return subprocess.run([made], input=json.dumps(identity).encode(), check=True, capture_output=True).stdout


def machine_with(shell_name: str, root: Path, told: bytes) -> Machine:
    """One whose `/bin/sh` is that one; the test is skipped where there is none."""
    if (shell := shutil.which(shell_name)) is None:
        pytest.skip(f"no {shell_name} here")
    return Machine(root, shell, told)


class Machine:
    """See the module."""

    def __init__(self, root: Path, shell: str, told: bytes) -> None:
        self.root, self.shell = root, shell
        self.tools = root / "tools"
        for directory in ("tools", "run/systemd/system", "proc/sys/kernel", "dev"):
            (root / directory).mkdir(parents=True)
        for name in TOOLS:
            (self.tools / name).symlink_to(shutil.which(name))
        for name, script in (("date", DATE), ("sleep", SLEEPING), ("systemctl", POWERS_OFF), ("systemd-run", SYSTEMD_RUN)):
            self.tool(name, script)
        for name in ("shutdown", "poweroff"):
            self.tool(name, RECORDER)
        found = parts(told)
        assert list(found) == ["text/cloud-boothook", "text/x-shellscript"]
        for name, content in zip(("boothook", "setup"), found.values(), strict=True):
            (root / name).write_bytes(content)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.pull_the_plug()

    def tool(self, name: str, script: str | None) -> None:
        """Puts a command there, or takes it away."""
        path = self.tools / name
        path.unlink(missing_ok=True)
        if script is not None:
            path.write_text(script)
            path.chmod(0o755)

    @property
    def clock(self) -> int:
        """Seconds since 1970, as the machine sees it."""
        return int((self.root / "clock").read_text())

    @clock.setter
    def clock(self, seconds: int) -> None:
        (self.root / "clock").write_text(f"{seconds}\n")

    def freeze(self) -> None:
        """From now on no sleep ends."""
        (self.root / "frozen").touch()

    def unfreeze(self) -> None:
        """From now on they do."""
        (self.root / "frozen").unlink()

    def run(self, script: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        """Runs one and waits, as cloud-init does, until no process holds its output any more."""
        of_machine = {"PATH": str(self.tools), "CURFEW_ROOT": str(self.root)}
        return subprocess.run(
            [self.shell, str(self.root / script), *arguments],
            env=of_machine | (env or {}),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def calls(self, *names: str) -> list[Call]:
        """What was called so far, of these stand-ins."""
        path = self.root / "calls"
        found = []
        for line in path.read_text().splitlines() if path.exists() else []:
            at, name, *arguments = line.split(" ")
            if name in names:
                found.append(Call(int(at), name, tuple(base64.b64decode(of).decode() for of in arguments)))
        return found

    def said(self, *names: str) -> list[str]:
        """The same as texts."""
        return [str(call) for call in self.calls(*names)]

    def wait_for(self, what: str, *names: str) -> Call:
        """The first such call, which a process in the background makes."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for call in self.calls(*names):
                if str(call).startswith(what):
                    return call
            time.sleep(0.02)
        raise AssertionError(f"no {what!r} within a minute: {self.said(*names)}")

    def file(self, path: str) -> str:
        """What a file of it holds; nothing where there is none."""
        found = self.root / path
        return found.read_text() if found.exists() else ""

    def processes(self) -> list[int]:
        """Those that still run."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"CURFEW_ROOT={self.root}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return [pid for pid in found if pid != os.getpid()]

    def wait_until_nothing_runs(self) -> None:
        """Until all that was begun in the background has ended."""
        until = time.monotonic() + 60
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.02)
        assert left == [], [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]

    def pull_the_plug(self) -> None:
        """Whatever runs on it ends, as at a reboot."""
        for _ in range(3):
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
