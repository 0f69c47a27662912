"""The recipes of `docs/recipes`, each run under the real agent with a plug that is pulled and a warning, beside the undisturbed run.

`make recipes` installs what they need, and runs all whose packages are there; `RECIPES_PYTHON` names their interpreter. That of `curfew.py` needs
none, and is always run. What each run says of lost steps goes to standard output.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from attempts import Job

RECIPES = Path(__file__).parents[2] / "docs/recipes"
NAMES = sorted(path.stem for path in RECIPES.glob("*.toml"))
PACKAGES = {"keras": "keras jax", "lightgbm": "lightgbm", "orbax": "orbax.checkpoint jax", "xgboost": "xgboost"}
PYTHON = os.environ.get("RECIPES_PYTHON")
PAUSE = "0.2"
HURRY = 60
PATIENCE = 180


def python_of(name: str, variables: dict[str, str]) -> str:
    """The interpreter that has what a recipe needs."""
    if name == "curfew":
        return sys.executable
    if name not in PACKAGES:
        pytest.skip("its packages take longer to install than the check may")
    if not PYTHON:
        pytest.skip("make recipes runs it")
    modules = ", ".join(PACKAGES[name].split())
    if subprocess.run([PYTHON, "-c", f"import {modules}"], capture_output=True, env={**os.environ, **variables}).returncode:
        pytest.skip(f"it has no {modules}")
    return PYTHON


def steps_of(log: str) -> list[int]:
    return [int(step) for step in re.findall(r"^step (\d+)$", log, re.MULTILINE)]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_comes_to_the_undisturbed_result(job: Job, tmp_path: Path, name: str) -> None:
    document = tomllib.loads((RECIPES / f"{name}.toml").read_text())
    python = python_of(name, document.get("env", {}))
    _, script, _ = shlex.split(document["command"])
    words, undisturbed = [python, str(RECIPES / script)], tmp_path / "undisturbed"
    environment = {**os.environ, **document.get("env", {}), "CURFEW_CHECKPOINT_DIR": str(tmp_path / "alone")}
    Path(environment["CURFEW_CHECKPOINT_DIR"]).mkdir()
    subprocess.run([*words, str(undisturbed)], env=environment, check=True)
    variables = "".join(f"{key} = {value!r}\n" for key, value in {**document.get("env", {}), "PAUSE": PAUSE}.items())
    job.spec(f"exec {shlex.join([*words, str(job.result)])}", more=f"[env]\n{variables}")
    with job.machine(1, hurry=HURRY) as machine:
        machine.until(lambda: job.head().get("checkpoint"), PATIENCE)
        machine.pull_the_plug()
        before_plug = steps_of(machine.said())
    with job.machine(2, hurry=HURRY) as machine:
        machine.until(lambda: len(steps_of(machine.said())) > 5, PATIENCE)
        machine.metadata.warn(seconds=10)
        machine.ends(PATIENCE)
        before_warning = steps_of(machine.said())
    with job.machine(3, hurry=HURRY) as machine:
        machine.ends(PATIENCE)
        after = steps_of(machine.said())
    assert job.head()["result"]["succeeded"], job.head()
    assert job.result.read_bytes() == undisturbed.read_bytes(), machine.said()
    assert after[0] > 1, "it went on from a checkpoint"
    print(f"{name}: lost {before_plug[-1] - before_warning[0] + 1} steps at the plug, {before_warning[-1] - after[0] + 1} at the warning")
