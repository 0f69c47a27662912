"""What lies on the disk of a machine before its first boot."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from . import isolation

INSIDE = Path(__file__).with_name("inside")

# All that a machine has, besides what speaks to init. Nothing of the machine that this runs on is found: not its shutdown, above all.
_TOOLS = (
    "base64 basename cat chmod chown cp curl cut date dd df dirname du env expr false find grep head id kill ln ls mkdir mktemp mv nohup nproc "
    "od printf ps readlink rm rmdir sed seq setsid sh sha256sum sleep sort stat sync tail tee timeout touch tr true truncate uname uniq wc xargs"
).split()
_OF_INIT = ("poweroff", "shutdown", "systemctl", "systemd-run")
_SLEEP = """#!/bin/sh
# Whole seconds, as many times shorter as this machine is hurried.
case $1 in *[!0-9]*) exec {sleep} "$1" ;; esac
ms=$(($1 * 1000 / {hurry}))
exec {sleep} "$((ms / 1000)).$(printf %03d "$((ms % 1000))")"
"""
_DROP_IN = """# What a test adds: where this machine's disk is, and its haste.
[Service]
ExecStart=
ExecStart=/usr/local/bin/curfew-agent --identity {root}/etc/curfew/identity.json --hurry {hurry}{box}{shutdown}
"""
# Where the agent of a box finds its disk, and mounts it.
_BOX = " --disks {root}/dev/disk/by-id --box-directory {root}/var/curfew/box"
# Where the kernel is everybody's, an agent must not come to its last resort.
_ONLY_OWN = " --shutdown-command 'shutdown -h now || poweroff -f'"


def furnish(root: Path, seen_at: Path, init: Path, hurry: int, kind: str, more_tools: tuple[str, ...] = ()) -> None:
    """Puts it there: commands, and what the machine is told of itself. `init` is the socket of its first process."""
    tools, boots = root / "tools", root / "boot-tools"
    for folder in (tools, boots):
        folder.mkdir()
    for name in (*_TOOLS, *more_tools):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    (tools / "python3").symlink_to(sys.executable)
    for name in _OF_INIT:
        _script(tools / name, f'#!/bin/sh\nexec {sys.executable} -IS {INSIDE / "tool.py"} {init} {name} "$@"\n')
    _script(boots / "sleep", _SLEEP.format(hurry=hurry, sleep=shutil.which("sleep")))
    drop_in = root / "etc/systemd/system/curfew-agent.service.d/of-a-test.conf"
    drop_in.parent.mkdir(parents=True)
    shutdown = _ONLY_OWN if kind == isolation.PROCESSES else ""
    drop_in.write_text(_DROP_IN.format(root=seen_at, hurry=hurry, box=_BOX.format(root=seen_at), shutdown=shutdown))


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
