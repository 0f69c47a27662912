"""A training that comes out the same however often it is interrupted: its state after step n follows from that after step n - 1.

Run by the agent as its command: `python3 training.py --steps 40 --every 5 --result FILE --trail FILE`. It resumes from the
checkpoint that CURFEW_RESUME_FROM names, and writes each step into the trail, so that a test can count what was done twice.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path


def advanced(state: str, step: int) -> str:
    return hashlib.sha256(f"{state} {step}".encode()).hexdigest()


def undisturbed(steps: int) -> str:
    """What has to come out."""
    state = "begin"
    for step in range(1, steps + 1):
        state = advanced(state, step)
    return state


def save(directory: Path, step: int, state: str, padding: int, marked: bool) -> None:
    temporary, final = directory / f"tmp-step-{step}", directory / f"step-{step}"
    temporary.mkdir()
    (temporary / "state.json").write_text(json.dumps({"step": step, "state": state}))
    (temporary / "weights").mkdir()
    (temporary / "weights" / "padding.bin").write_bytes(state.encode() * (padding // 64))
    if marked:
        (temporary / "_SUCCESS").touch()
    temporary.rename(final)


def must_pause(after: Path | None, step: int) -> bool:
    """An empty file is one that is just being written."""
    return after is not None and after.exists() and step >= int(after.read_text() or 0)


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, required=True)
    arguments.add_argument("--every", type=int, default=5)
    arguments.add_argument("--step-seconds", type=float, default=0.05)
    arguments.add_argument("--padding", type=int, default=6400)
    arguments.add_argument("--unmarked", action="store_true")
    arguments.add_argument("--deaf", action="store_true", help="ignores the signal")
    arguments.add_argument("--result", type=Path, required=True)
    arguments.add_argument("--trail", type=Path, required=True)
    arguments.add_argument("--pause-after", type=Path, help="a file with the step after which to wait; without the file it does not")
    given = arguments.parse_args()

    told = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN if given.deaf else lambda *_: told.append(True))
    directory = Path(os.environ["CURFEW_CHECKPOINT_DIR"])
    step, state = 0, "begin"
    if resumed := os.environ.get("CURFEW_RESUME_FROM"):
        read = json.loads((Path(resumed) / "state.json").read_text())
        step, state = read["step"], read["state"]
        assert step == int(os.environ["CURFEW_RESUME_STEP"])
    saved = step
    while step < given.steps:
        while not told and must_pause(given.pause_after, step):
            time.sleep(given.step_seconds)
        if not told:
            step, state = step + 1, advanced(state, step + 1)
            with given.trail.open("a") as trail:
                trail.write(f"{os.environ['CURFEW_ATTEMPT']} {step}\n")
            time.sleep(given.step_seconds)
        last = told or step == given.steps
        if step != saved and (step % given.every == 0 or last):
            save(directory, step, state, given.padding, not given.unmarked)
            saved = step
            print("saved", step)
        if told:
            return 143
    given.result.write_text(state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
