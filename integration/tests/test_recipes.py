"""The recipes of `docs/recipes`, each run under the real agent with a plug that is pulled and a warning, beside the undisturbed run.

`make recipes` and `make recipes-torch` install what they need, and run all whose packages are there; `RECIPES_PYTHON` names their interpreter. That
of `curfew.py` needs none, and is always run. What each run says of lost steps goes to standard output.
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
# Those of several machines are in test_gangs_torch.py.
NAMES = sorted(path.stem for path in RECIPES.glob("*.toml") if "nodes" not in tomllib.loads(path.read_text())["gpu"])
PACKAGES = {
    "accelerate": ["accelerate"],
    "curfew": [],
    "dcp": ["torch"],
    "ddp": ["torch"],
    "deepspeed": ["deepspeed"],
    "fsdp": ["torch"],
    "hugging-face": ["transformers", "accelerate"],
    "hugging-face-jit": ["transformers", "accelerate"],
    "keras": ["keras", "jax"],
    "lightgbm": ["lightgbm"],
    "lightning": ["lightning", "torchdata"],
    "loader": ["torch"],
    "orbax": ["orbax.checkpoint", "jax"],
    "pytorch": ["torch"],
    "ultralytics": ["ultralytics"],
    "xgboost": ["xgboost"],
}
PYTHON = os.environ.get("RECIPES_PYTHON")
HURRY = 60
TIMEOUT_SECONDS = 180


def python_of(name: str) -> str:
    """The interpreter that has what a recipe needs."""
    if not PACKAGES[name]:
        return sys.executable
    if not PYTHON:
        pytest.skip("make recipes runs it")
    find = f"import importlib.util as i, sys; sys.exit(any(i.find_spec(name) is None for name in {PACKAGES[name]}))"
    if subprocess.run([PYTHON, "-c", find], capture_output=True).returncode:
        pytest.skip(f"{PYTHON} has no {' and '.join(PACKAGES[name])}")
    return PYTHON


def run_here(command: str, python: str, result: Path) -> list[str]:
    """The command of a recipe, in the interpreter that has what it needs; its last word is where its result goes."""
    programs = {"python3": python, "torchrun": str(Path(python).with_name("torchrun"))}
    *words, _ = shlex.split(command)
    return [programs.get(word, str(RECIPES / word) if word.endswith(".py") else word) for word in words] + [str(result)]


def steps_of(log: str) -> list[int]:
    return [int(step) for step in re.findall(r"^step (\d+)$", log, re.MULTILINE)]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_comes_to_the_undisturbed_result(job: Job, tmp_path: Path, name: str) -> None:
    document = tomllib.loads((RECIPES / f"{name}.toml").read_text())
    python, undisturbed = python_of(name), tmp_path / "undisturbed"
    environment = {**os.environ, **document.get("env", {}), "CURFEW_CHECKPOINT_DIR": str(tmp_path / "alone")}
    Path(environment["CURFEW_CHECKPOINT_DIR"]).mkdir()
    subprocess.run(run_here(document["command"], python, undisturbed), env=environment, check=True)
    variables = "".join(f"{key} = {value!r}\n" for key, value in {**document.get("env", {}), "PAUSE": "0.2" if PACKAGES[name] else "0.1"}.items())
    job.spec(f"exec {shlex.join(run_here(document['command'], python, job.result))}", more=f"[env]\n{variables}")
    with job.machine(1, hurry=HURRY) as machine:
        machine.until(lambda: job.head().get("checkpoint"), TIMEOUT_SECONDS)
        machine.pull_the_plug()
        before_plug = steps_of(machine.said())
    with job.machine(2, hurry=HURRY) as machine:
        machine.until(lambda: len(steps_of(machine.said())) > 5, TIMEOUT_SECONDS)
        machine.metadata.warn(seconds=120)
        machine.ends(TIMEOUT_SECONDS)
        before_warning = steps_of(machine.said())
    with job.machine(3, hurry=HURRY) as machine:
        machine.ends(TIMEOUT_SECONDS)
        after = steps_of(machine.said())
    assert job.head()["result"]["succeeded"], job.head()
    assert job.result.read_bytes() == undisturbed.read_bytes(), machine.said()
    assert after[0] > 1, "it resumed from a checkpoint"
    print(f"{name}: lost {before_plug[-1] - before_warning[0] + 1} steps at the plug, {before_warning[-1] - after[0] + 1} at the warning")
