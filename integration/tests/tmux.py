"""A real terminal: tmux on its own socket.

with Tmux(environment, columns=80, rows=24) as terminal:
    terminal.type("curfew watch\\n")
    terminal.wait_for("INSTANCES")
    terminal.press("q")
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from command import COMMAND
from hosts.host import wait_for

IS_HERE = shutil.which("tmux") is not None
_SECONDS_MAX = 120


class Tmux:
    """A shell in a terminal. It gets only the path of this process's environment."""

    def __init__(self, environment: Mapping[str, str], columns: int = 80, rows: int = 24) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._socket = str(Path(self._folder.name) / "tmux")
        self._environment = {"PATH": f"{COMMAND.parent}:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "xterm-256color", **environment}
        size = ["-x", str(columns), "-y", str(rows)]
        shell = " ".join(["env", *(shlex.quote(f"{name}={value}") for name, value in environment.items()), "PS1='$ '", "sh"])
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "watch", *size, shell)

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server", check=False)
        self._folder.cleanup()

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text.rstrip("\n"))
        if text.endswith("\n"):
            self.press("Enter")

    def press(self, *keys: str) -> None:
        """By tmux's names: `q`, `Tab`, `PageDown`, `C-c`."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def lines(self) -> list[str]:
        """What is on the screen now."""
        return self._tmux("capture-pane", "-p").splitlines()

    def escapes(self) -> str:
        """The same with the commands that colour it."""
        return self._tmux("capture-pane", "-p", "-e")

    def wait_for(self, *words: str) -> list[str]:
        """Until all of it is on the screen; returns the screen."""

        def found() -> list[str] | None:
            lines = self.lines()
            return lines if all(word in "\n".join(lines) for word in words) else None

        return wait_for(found, _SECONDS_MAX, lambda: "\n".join([str(words), *self.lines()]))

    def wait_without(self, word: str) -> None:
        wait_for(lambda: word not in "\n".join(self.lines()), _SECONDS_MAX, lambda: "\n".join([word, *self.lines()]))

    def is_on_other_screen(self) -> bool:
        return self._tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def has_cursor(self) -> bool:
        return self._tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def process_of(self, name: str) -> int:
        """The child of the shell with that name."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        found = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", shell], capture_output=True, text=True, check=True)
        [pid] = [line.split()[0] for line in found.stdout.splitlines() if line.split()[1] == name]
        return int(pid)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        said = subprocess.run(
            ["tmux", "-S", self._socket, *arguments], env=self._environment, capture_output=True, text=True, timeout=_SECONDS_MAX
        )
        assert said.returncode == 0 or not check, (arguments, said)
        return said.stdout
