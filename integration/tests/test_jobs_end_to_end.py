"""A job that is interrupted five times at random moments ends as if nothing had happened. What that means is `Life.check`, in
end_to_end_jobs.py. A job whose command fails is retried on another machine.

Two seeds in `make test`; `make end-to-end-all` lives LIVES random ones, and `make end-to-end-all SEED=7` one of them again.
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import moved_clock
from end_to_end_jobs import INTERRUPTIONS, KINDS, Life, World, check_fence, check_kept, check_steps, losses
from local_aws import LocalAws
from machine_without_control_plane import MachineWithoutControlPlane
from reaping import now

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")

SEEDS = (1, 29)  # together they lose machines in each way, early and late
_AT_ONCE = 3


def live(world: World, seed: int) -> str | None:
    """What went wrong, for people."""
    life = Life(world, seed)
    try:
        life.live()
        life.check()
    except Exception:
        return f"{traceback.format_exc()}\n{life.told()}\nlive it again by `make end-to-end-all SEED={seed}`"
    return None


def live_all(aws: LocalAws, scratch: Path, seeds: tuple[int, ...]) -> None:
    with World(aws, scratch) as world, ThreadPoolExecutor(_AT_ONCE) as at_once:
        wrong = [words for words in at_once.map(lambda seed: live(world, seed), seeds) if words]
        assert wrong == [], "\n".join(wrong)
        world.check()


def test_the_seeds_cover_every_kind_of_loss() -> None:
    tried = [loss for seed in SEEDS for loss in losses(seed)]
    assert {(loss.kind, loss.steps is None) for loss in tried} == {(kind, early) for kind in KINDS for early in (True, False)}
    assert all(len(losses(seed)) == INTERRUPTIONS for seed in SEEDS)
    assert {loss.has_time for loss in tried if loss.kind == "warning" and loss.steps is not None} == {True, False}


def head(attempt: int, step: int | None, of: int = 1, launch: str = "a", succeeded: bool | None = None) -> dict[str, Any]:
    checkpoint = None if step is None else {"attempt": of, "step": step}
    return {"attempt": attempt, "launch": launch, "checkpoint": checkpoint, "result": succeeded and {"succeeded": succeeded}}


LIVED = [head(1, None), head(1, 5), head(2, 5), head(2, 10, of=2), head(2, 10, of=2, succeeded=True)]
STEPS = [*((1, step) for step in range(1, 8)), *((2, step) for step in range(6, 11))]


@pytest.mark.parametrize(
    ("check", "wrong", "words"),
    [
        (check_fence, [*LIVED[:3], head(1, 10), *LIVED[4:]], "the fence went back"),
        (check_fence, [LIVED[0], head(1, 5, launch="b"), *LIVED[2:]], "two machines of attempt 1"),
        (check_fence, [*LIVED[:3], head(2, 4, of=2), *LIVED[4:]], "an older checkpoint"),
        (lambda steps: check_steps(LIVED, steps), [*STEPS[:7], *((2, step) for step in range(8, 11))], "resumes at 8, and not at 6"),
        (lambda steps: check_steps(LIVED, steps), [*STEPS[:8], (1, 8), *STEPS[8:]], "two attempts worked"),
        (lambda owed: check_kept(LIVED, owed), {1: 7}, "attempt 1 could keep step 7, and attempt 2 resumes after 5"),
    ],
)
def test_a_wrong_history_is_found(check: Callable[[Any], None], wrong: Any, words: str) -> None:
    check_fence(LIVED), check_steps(LIVED, STEPS), check_kept(LIVED, {1: 5})
    with pytest.raises(AssertionError, match=words):
        check(wrong)


def test_five_interruptions_change_no_result(aws: LocalAws, tmp_path: Path) -> None:
    live_all(aws, tmp_path, SEEDS)


def test_a_failed_command_is_retried_from_its_checkpoint(machine: MachineWithoutControlPlane) -> None:
    jobs, fails = machine.jobs, "{ echo 7 > $CURFEW_CHECKPOINT_DIR/step=7.pt; exit 3; }"
    work = f"touch {machine.result}; test $CURFEW_ATTEMPT:$CURFEW_RESUME_STEP = 2:7 || {fails}"
    job = jobs.running(text=f"retries = 1\n{machine.spec(work)}")
    machine.knows(job)
    first = machine.begin()
    machine.has_ended()
    message = jobs.tick().message("vision")
    assert job.state == "retrying" and job.document["retries"] == {"used": 1, "attempt": 1}
    said = ("attempt 1: the command has failed with exit code 3; ", "; retry 1 of 1 at ", "step 7 or later")
    assert [words for words in said if words not in message] == [], message
    assert jobs.tick().messages == [] and jobs.ever_launched() == [first.id], "it is not due"
    jobs.tick_at(now() + timedelta(minutes=2))
    assert (job.state, job.attempt) == ("running", 2)
    second = machine.hosts.wait_for(job.machine)
    second.wait_until_dark()
    machine.until(lambda: jobs.state(second.id) == "terminated")
    head = machine.head()
    assert (head["attempt"], head["result"]["succeeded"]) == (2, True), second.console()
    jobs.tick()
    assert (job.phase["result"], jobs.ever_launched()) == ("succeeded", [first.id, second.id])


@pytest.mark.skipif("LIVES" not in os.environ, reason="make end-to-end-all")
def test_random_interruptions_change_no_result(aws: LocalAws, tmp_path: Path) -> None:
    seed = os.environ.get("SEED")
    count = int(os.environ["LIVES"])
    begin = random.SystemRandom().randrange(10**9)
    # A new account now and then, for this one remembers every version of everything.
    for first in range(0, 1 if seed else count, 2 * _AT_ONCE):
        seeds = (int(seed),) if seed else tuple(begin + number for number in range(first, min(first + 2 * _AT_ONCE, count)))
        print(f"seeds {seeds[0]} to {seeds[-1]}", flush=True)
        aws.reset()
        live_all(aws, tmp_path / str(first), seeds)
