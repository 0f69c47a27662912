"""The package of `run-jobs`, with the agent that was built for this machine in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def package(folder: Path, agent: Path = REPOSITORY / "target" / "debug" / "agent") -> Path:
    """Makes one: `LAMBDA_TASK_ROOT` of the function. Machines fetch the agent, so it is there without what only debuggers read. Under both
    names lies the same: whatever the type of an instance, it runs here."""
    folder.mkdir(parents=True, exist_ok=True)
    first, second = folder / "agent-x86_64", folder / "agent-arm64"
    if shutil.which("strip"):
        subprocess.run(["strip", "-o", first, agent], check=True)
    else:
        shutil.copyfile(agent, first)
    shutil.copyfile(first, second)
    return folder
