"""The real command `curfew`, run against the local AWS.

    said = curfew(account.environment(), "keep", gpu, "3d")
    assert said.code == 0 and said.json()["kept"]

`said.out` is what a pipe would get, `said.err` what only a person sees.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from json_schema import check_document
from reaping import binary

COMMAND = binary("curfew")
_SECONDS_MAX = 300


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The whole of stdout, which is one document."""
        return json.loads(self.out)

    def fine(self) -> Said:
        assert self.code == 0, self
        return self


def curfew(environment: Mapping[str, str], *arguments: str, stdin: str = "") -> Said:
    """Nothing of this process's own environment reaches it, so that no developer's profile does. A document in JSON fits its schema."""
    ended = subprocess.run(
        [COMMAND, *arguments], env=dict(environment), input=stdin, capture_output=True, text=True, timeout=_SECONDS_MAX
    )
    if "--json" in arguments and ended.stdout.startswith("{"):
        check_document(arguments, ended.stdout)
    return Said(ended.returncode, ended.stdout, ended.stderr)


def interrupted(environment: Mapping[str, str], *arguments: str, after: str) -> Said:
    """The command, which gets Ctrl-C once it has said that on stderr."""
    command = subprocess.Popen([COMMAND, *arguments], env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with command as running:
        assert running.stdout is not None and running.stderr is not None
        said = b""
        while after.encode() not in said:
            some = os.read(running.stderr.fileno(), 4096)
            assert some, said
            said += some
        running.send_signal(signal.SIGINT)
        out = running.stdout.read().decode()
        return Said(running.wait(timeout=60), out, said.decode())
