"""A box on the real agent: its home, its logins, its end. The programs that format and mount disks are stand-ins."""

from __future__ import annotations

import json
import os
import pty
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from attempts import NAME, Job, Machine, head
from local_aws import LocalAws
from reaping import rfc3339

# Every image of Debian has it, and no other test runs programs as it: the end of a box ends all of them.
USER = "games"
HURRY = 60  # a minute is a second
IDLE_MINUTES = 2
IDLE = "idle since "

pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("ssh-keygen") is None or not any(user.pw_name == USER for user in pwd.getpwall()),
    reason="a box needs root, another user, and OpenSSH's client",
)

_STAND_IN = """#!/bin/sh
echo "${{0##*/}} $*" >> {state}/calls
if [ -e {state}/${{0##*/}} ]; then . {state}/${{0##*/}}; fi
"""

_SSHD = """#!{python}
import socket, sys
port = next(int(line.split()[1]) for line in open(sys.argv[-1]) if line.startswith("Port "))
listening, open_ones = socket.create_server(("127.0.0.1", port)), []
while True:
    open_ones.append(listening.accept())
"""


class Box:
    """A job that is a box, and the machine's disk and programs."""

    def __init__(self, aws: LocalAws, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.job, self.state, self.disks, self.directory = Job(aws, scratch), scratch / "state", scratch / "disks", scratch / "mounted"
        tools = scratch / "tools"
        for folder in (self.state, self.disks, tools):
            folder.mkdir()
        for program in ("blkid", "mkfs.ext4", "mount", "umount"):
            (tools / program).write_text(_STAND_IN.format(state=self.state))
        if shutil.which("sshd") is None:
            (tools / "sshd").write_text(_SSHD.format(python=sys.executable))
        for tool in tools.iterdir():
            tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
        self.disk = self.disks / "nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"
        self.disk.write_bytes(bytes(4096))
        self.answers("blkid", "exit 2")
        self.answers("mkfs.ext4", f"echo 'echo ext4' > {self.state}/blkid")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.asks()

    def answers(self, program: str, script: str) -> None:
        (self.state / program).write_text(script + "\n")

    def calls(self, program: str = "") -> list[str]:
        calls = (self.state / "calls").read_text().splitlines() if (self.state / "calls").exists() else []
        return [call for call in calls if program in ("", call.split()[0])]

    def asks(self, gpus: int = 0) -> None:
        key = "ssh-ed25519 " + "A" * 68
        small = "vcpus = 4\nmemory_gib = 8\n" if gpus == 0 else ""
        self.job.put(
            f"jobs/{NAME}/spec.toml",
            f'name = "llama"\nowner = "ada"\nenv = {{ FLAVOUR = "bitter sweet" }}\n[box]\npublic_key = "{key}"\n'
            f'[gpu]\ncount = {gpus}\n[machine]\nuser = "{USER}"\n{small}',
        )
        self.terms = {"public_key": key, "home_gib": 100, "idle_seconds": IDLE_MINUTES * 60, "until": _in(3600)}
        self.set_state()

    def set_state(self, ends_in: float = 3600, is_empty: bool = True) -> None:
        """Its state, as `run-jobs` writes it."""
        home = {"volume": "vol-0123456789abcdef0", "machine": "i-1", "is_empty": is_empty}
        state = {"soft_end": _in(ends_in), "kept_until": _in(0), "home": home}
        self.job.put(f"jobs/{NAME}/state.json", json.dumps({"schema": 1, "job": NAME, "terms": {"box": self.terms}, "box": state}))

    def machine(self, attempt: int = 1) -> Machine:
        more = ["--disks", self.disks, "--box-directory", self.directory, "--ssh-port", self.port]
        return self.job.machine(attempt, hurry=HURRY, more=more)

    def report(self) -> dict[str, Any]:
        return (self.job.heartbeat(1) or {}).get("box") or {}

    def is_ready(self, machine: Machine) -> None:
        machine.until(self.report)


def _in(seconds: float) -> str:
    return rfc3339(datetime.now(timezone.utc) + timedelta(seconds=seconds))


@pytest.fixture
def box(aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    return Box(aws, tmp_path, monkeypatch)


@pytest.fixture
def terminal() -> Iterator[int]:
    """A terminal of the box's user."""
    ours, theirs = pty.openpty()
    os.chown(os.ttyname(theirs), pwd.getpwnam(USER).pw_uid, -1)
    os.write(ours, b"input\n")
    os.read(theirs, 100)
    yield ours
    os.close(ours)
    os.close(theirs)


def shown(terminal: int) -> str:
    text = b""
    while select.select([terminal], [], [], 0)[0]:
        text += os.read(terminal, 4096)
    return text.decode()


def test_a_new_disk_is_formatted_once_and_an_idle_box_ends_its_job(box: Box) -> None:
    home = pwd.getpwnam(USER).pw_dir
    with box.machine() as machine:
        box.is_ready(machine)
        first = box.report()
        assert (first["user"], first["is_unknown"]) == (USER, False) and first["host_key"].startswith("ssh-ed25519 AAAA")
        assert 'SetEnv' in (config := (machine.folder / "sshd_config").read_text()) and '"FLAVOUR=bitter sweet"' in config
        assert (machine.folder / "authorized_keys").read_text() == box.terms["public_key"] + "\n"
        machine.ends()
    result, exit = box.job.head()["result"], box.job.exit(1)
    assert result["succeeded"] and exit["reason"] == "succeeded" and exit["why"].startswith(IDLE) and exit["why"].endswith(" for 2m"), exit
    assert box.calls() == [
        f"blkid -p -o value -s TYPE {box.disk}",
        f"mkfs.ext4 -q {box.disk}",
        f"mount {box.disk} {box.directory}",
        f"mount --bind {box.directory}/home {home}",
        f"umount {home}",
        f"umount {box.directory}",
    ]
    assert (box.directory / "home").stat().st_uid == Path(home).stat().st_uid, "copied with its owner"
    assert (box.directory / "keys").stat().st_mode & 0o777 == 0o700 and box.report()["synced_at"]
    box.job.put(f"attempts/{NAME}/head.json", head(1))
    with box.machine(2) as machine:
        machine.until(lambda: (box.job.heartbeat(2) or {}).get("box"))
        assert box.job.heartbeat(2)["box"]["host_key"] == first["host_key"]
        machine.ends()
    assert len(box.calls("mkfs.ext4")) == 1 and len(box.calls("mount")) == 4


@pytest.mark.parametrize("blkid, first, why", [("exit 8", b"\0", "blkid ended with 8"), ("exit 2", b"data", "are not zero")])
def test_a_disk_that_may_hold_data_is_never_formatted(box: Box, blkid: str, first: bytes, why: str) -> None:
    box.answers("blkid", blkid)
    box.disk.write_bytes(first + bytes(4096))
    with box.machine() as machine:
        machine.ends()
    assert box.job.exit(1)["reason"] == "broken" and why in box.job.exit(1)["why"], box.job.exit(1)
    assert not box.calls("mkfs.ext4") and not box.calls("mount")


def test_a_used_disk_is_mounted_as_it_is_and_belongs_to_one_uid(box: Box) -> None:
    box.set_state(is_empty=False)
    box.directory.mkdir()
    (box.directory / "uid").write_text("1234\n")
    with box.machine() as machine:
        machine.ends()
    exit = box.job.exit(1)
    assert exit["reason"] == "broken" and f"the uid 1234, and the user of this machine has {pwd.getpwnam(USER).pw_uid}" in exit["why"]
    assert not box.calls("blkid") and not box.calls("mkfs.ext4") and box.calls("umount")[-1] == f"umount {box.directory}"


def test_a_connection_keeps_a_box_and_its_terminals_hear_of_its_end(box: Box, terminal: int) -> None:
    with box.machine() as machine:
        box.is_ready(machine)
        with socket.create_connection(("127.0.0.1", box.port)):
            machine.until(lambda: box.report()["why"].startswith("ssh, input "))
            time.sleep(IDLE_MINUTES * 2)
            assert machine.process.poll() is None and not machine.dark.exists()
            shown(terminal)
            assert "warnings" not in box.job.heartbeat(1) or not box.job.heartbeat(1)["warnings"]
        machine.ends()
    text = shown(terminal)
    assert "llama ends at " in text and "Keep it: curfew box extend llama 3h" in text and "llama ends now: idle since " in text, text
    assert box.job.exit(1)["why"].startswith(IDLE) and box.report()["why"].startswith(IDLE)
    assert [warning["kind"] for warning in box.job.heartbeat(1)["warnings"]] == ["box-idle"]


def test_a_box_that_cannot_be_judged_ends_when_its_end_has_come(box: Box) -> None:
    """It has GPUs, and no library tells of them. Its end is moved, later and earlier."""
    box.asks(gpus=1)
    box.set_state(ends_in=4)
    with box.machine() as machine:
        box.is_ready(machine)
        box.set_state()
        machine.until(lambda: box.report()["is_unknown"])
        assert box.report()["why"] == "not judged: the use of the GPUs is not known"
        time.sleep(4)
        assert machine.process.poll() is None and not machine.dark.exists()
        box.set_state(ends_in=0)
        machine.ends()
    exit = box.job.exit(1)
    assert exit["reason"] == "succeeded" and exit["why"].startswith("its end, ") and exit["why"].endswith(" UTC, has come")


def test_a_warning_leaves_people_time_and_unmounts_the_home(box: Box, terminal: int) -> None:
    with box.machine() as machine:
        box.is_ready(machine)
        # The tests themselves may run where it is ignored, as by nohup.
        program = subprocess.Popen(["env", "--default-signal=HUP", "sleep", "600"], user=USER)
        machine.metadata.warn(9)
        machine.until(lambda: box.report().get("synced_at"))
        first = box.report()["synced_at"]
        assert "EC2 takes the machine back" in shown(terminal) and not box.calls("umount") and program.poll() is None
        machine.ends()
    assert program.wait() == -signal.SIGHUP
    exit = box.job.exit(1)
    assert (exit["reason"], box.job.head()["result"]) == ("interrupted", None) and len(box.calls("umount")) == 2
    assert box.report()["synced_at"] > first
