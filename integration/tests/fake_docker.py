"""A stand-in for Docker: records how it is called, and runs the script of a container in a process namespace of its own.

    docker = FakeDocker(tmp_path, monkeypatch)     # first in PATH from here on
    docker.calls("create")                         # the arguments of each

As with Docker, a signal to `docker start --attach` reaches the process group of the container's script, its exit code is that of the script,
and a container that is killed or removed ends with all its processes. The user, the image and the mounts are recorded and not applied.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

_SCRIPT = '''#!{python}
import json, os, signal, subprocess, sys
from pathlib import Path

state = Path({state!r})
words = sys.argv[1:]
given = sys.stdin.read() if "--password-stdin" in words else ""
with (state / "calls").open("a") as calls:
    calls.write(json.dumps({{"words": words, "given": given, "config": os.environ.get("DOCKER_CONFIG")}}) + "\\n")
refusal = state / ("refuse-" + words[0])
if refusal.exists():
    sys.exit(refusal.read_text())
container = state / words[-1]

def end():
    try:
        os.killpg(int((container / "group").read_text()), signal.SIGKILL)
    except (OSError, ValueError):
        pass

if words[0] == "create":
    container = state / words[words.index("--name") + 1]
    container.mkdir()
    steps = next(word for word in words if word.endswith('"target=/run/curfew",readonly'))
    (container / "steps").write_text(steps.split('"source=')[1].split('"')[0])
elif words[0] == "inspect":
    # The init: the child of `unshare`, which itself waits for it.
    group = (container / "group").read_text()
    print(Path(f"/proc/{{group}}/task/{{group}}/children").read_text().split()[0])
elif words[0] == "start":
    # As Tini: passes signals on to the group of its child, reaps whatever ends, and takes all with it.
    init = """
import os, signal, subprocess, sys
from pathlib import Path
# The one mount that the script writes to, in a directory that is empty on no machine.
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
Path("/run/curfew-left").touch()
subprocess.run(["mount", "--bind", Path(sys.argv[1]).with_name("left"), "/run/curfew-left"], check=True)
child = subprocess.Popen(["/bin/sh", sys.argv[1]], process_group=0)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, lambda number, _: os.killpg(child.pid, number))
while True:
    process, status = os.wait()
    if process == child.pid:
        code = os.waitstatus_to_exitcode(status)
        sys.exit(code if code >= 0 else 128 - code)
"""
    step = (container / "steps").read_text() + "/step"
    namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", init, step]
    running = subprocess.Popen(namespace, start_new_session=True)
    (container / "group").write_text(str(running.pid))

    def forward(number, _):
        with (state / "signals").open("a") as signals:
            signals.write(signal.Signals(number).name + "\\n")
        # To the init: the child of `unshare`, which itself waits for it.
        children = Path(f"/proc/{{running.pid}}/task/{{running.pid}}/children").read_text().split()
        for child in children:
            os.kill(int(child), number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, forward)
    code = running.wait()
    sys.exit(code if code >= 0 else 128 - code)
elif words[0] in ("kill", "rm"):
    if not container.is_dir():
        sys.exit("Error: No such container: " + words[-1])
    end()
    if words[0] == "rm":
        for file in container.iterdir():
            file.unlink()
        container.rmdir()
'''


class FakeDocker:
    def __init__(self, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = scratch / "docker"
        tools = scratch / "docker-tools"
        self.state.mkdir()
        tools.mkdir()
        (tools / "docker").write_text(_SCRIPT.format(python=sys.executable, state=str(self.state)))
        (tools / "docker").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")

    def calls(self, command: str = "") -> list[list[str]]:
        """The arguments of each call of that command, or of all."""
        return [one["words"] for one in self._recorded() if command in ("", one["words"][0])]

    def given(self, command: str) -> list[str]:
        """What it read from its standard input."""
        return [one["given"] for one in self._recorded() if one["words"][0] == command]

    def signals(self) -> list[str]:
        file = self.state / "signals"
        return file.read_text().split() if file.exists() else []

    def containers(self) -> list[str]:
        return [one.name for one in self.state.iterdir() if one.is_dir()]

    def refuse(self, command: str, words: str) -> None:
        (self.state / f"refuse-{command}").write_text(words)

    def allow(self, command: str) -> None:
        (self.state / f"refuse-{command}").unlink()

    def _recorded(self) -> list[dict[str, object]]:
        file = self.state / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def is_possible() -> bool:
    """Whether processes may have a namespace of their own."""
    return os.getuid() == 0 and shutil.which("unshare") is not None
