"""`make playground`, as somebody uses it: commands typed into its shell, and nothing left when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from test_demo import INTEGRATION, members

SECONDS_MAX = 900  # a minute where nothing else runs

TYPED = """
exec 2>&1
curfew scan --quiet
advance 1h
mail
until curfew plans --json > plans.json; RUN=$(python3 -c 'import json; print(next(one["run"] for one in json.load(open("plans.json"))["plans"] if one["waiting"]))' 2>/dev/null); do sleep 0.5; done
curfew apply $RUN --yes && echo "applied"
curfew budget vision
curfew submit train.toml --team nlp
until curfew logs train | grep saved; do sleep 0.5; done
interrupt
until curfew jobs train --json | grep -q '"attempt": 2'; do sleep 0.5; done
echo "launched again"
curfew cancel train --yes
curfew box up --gpu a10g --team nlp --owner grace --yes my-box
curfew box ls
curfew box down --yes nlp/my-box
advance soon
"""


def playground(typed: str, tmp_path: Path) -> tuple[int, str]:
    """How it ended, and what it said. Nothing of it is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "playground"],
        env={**os.environ, "PYTHONPATH": str(INTEGRATION), "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(typed, timeout=SECONDS_MAX)
        assert members(process.pid) == [], said
        assert [*tmp_path.iterdir(), *Path("/tmp").glob(f"playground-{process.pid}-*")] == [], said
        return process.returncode, said
    finally:
        for one in members(process.pid):
            with suppress(ProcessLookupError):
                os.kill(int(one.split()[0]), signal.SIGKILL)


def test_the_commands_of_the_playground_work(tmp_path: Path) -> None:
    code, said = playground(TYPED, tmp_path)
    assert code == 0, said
    for shown in ("llama-ft", "reap-instances 1", "To vision: Curfew", "applied", "$20,000.00", "saved ", "launched again", "ready: ssh my-box", "its home stays"):
        assert shown in said, f"{shown!r} is missing in:\n{said}"
    assert "Say how long" in said and "gone: nothing of it runs" in said, said
    assert [line for line in said.splitlines() if "failed" in line] == []
