"""Whole lives of jobs: real machines, the real agent on them, the real functions, and a world that takes machines away at random.

    with World(aws, tmp_path) as world:
        life = Life(world, seed=7)
        life.live()                             # until the job is over; several lives may be lived at once
        life.check()

All that is random comes from the seed: how a machine is lost, and when. Machines are not, nor is the order in which a world of several
lives happens, so that a seed says what was tried, and not to the millisecond how it came.
"""

from __future__ import annotations

import json
import random
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import training
from hosts import Control, Host, Hosts, package
from jobs import Job, JobAccount
from local_aws import LocalAws
from reaping import BUCKET, now
from reaping_budgets import month

INTERRUPTIONS = 5
HURRY = 40
_STEPS_BETWEEN_MAX = 24
STEPS = 2 * INTERRUPTIONS * _STEPS_BETWEEN_MAX  # for it goes on while a checkpoint is uploaded
EVERY = 5
_STEP_SECONDS = 0.03
_EARLY_SECONDS_MAX = 3.0  # into the boot, the wait for the previous attempt, the restore, and the first steps
_NOTICE_SECONDS = 1.0, 9.0  # instead of two minutes; the agent keeps the last five of them for itself
_SHORT_NOTICE_SECONDS = 5.0  # from here on it shall be enough to keep all, on a slow machine as well:
_LONG_NOTICE_SECONDS = 60.0  # which takes no longer, for the machine shuts down once all is kept
_TIMEOUT_SECONDS = 240.0  # for what takes some on a machine that is busy
_WITHOUT_HEARTBEAT = timedelta(minutes=11)
_BUDGET_USD = 1000
KINDS = ("warning", "plug", "silence")

SPEC = """
command = {command}
owner = "ada@example.com"
[gpu]
types = ["g5.xlarge"]
[limits]
max_runtime = "8h"
[machine]
user = {user}
outputs = [{result}]
[checkpoint]
dir = {checkpoints}
every = "1m"
"""


class World:
    """An account in which jobs live, with machines, a control plane of three functions, and a bucket that forgets no version."""

    def __init__(self, aws: LocalAws, scratch: Path, hurry: int = HURRY) -> None:
        self.aws, self.scratch, self.hurry = aws, scratch, hurry

    def __enter__(self) -> World:
        with ExitStack() as stack:
            self.account = stack.enter_context(JobAccount(self.aws))
            # An attempt that is lost before its first checkpoint makes no progress, and five of them may come in a row.
            team = {"monthly_budget_usd": _BUDGET_USD, "over_budget": "hold"}
            self.account.configure(jobs={"no_progress_attempts_max": 2 * INTERRUPTIONS}, teams={"vision": team})
            self.s3 = self.aws.client("s3")
            self.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
            environment = self.account.environment(LAMBDA_TASK_ROOT=str(package(self.scratch / "package")))
            self.hosts = stack.enter_context(Hosts(self.aws, self.scratch / "hosts", self.hurry))
            every = {"run-jobs": 1.0, "enforce-budgets": 3.0, "reap-instances": 3.0}
            self.control = stack.enter_context(Control(self.aws, environment, every, every, at_once=2))
            self._all = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._all.__exit__(*error)

    def until(self, what: Callable[[], Any], said: Callable[[], str]) -> Any:
        limit = time.monotonic() + _TIMEOUT_SECONDS
        while not (found := what()):
            if time.monotonic() > limit:
                raise AssertionError(said())
            time.sleep(0.1)
        return found

    def reservations(self) -> dict[str, Any]:
        """What is held of the team's budget, by job."""
        return self.account.read(f"budgets/vision/{month()}.json").get("reservations", {})

    def documents(self, key: str) -> list[dict[str, Any]]:
        """Every version that there was of a document, the oldest first."""
        listed = self.s3.list_object_versions(Bucket=BUCKET, Prefix=key)
        assert not listed["IsTruncated"], f"{key} has too many versions for a test"
        versions = [one["VersionId"] for one in reversed(listed.get("Versions", [])) if one["Key"] == key]
        return [json.load(self.s3.get_object(Bucket=BUCKET, Key=key, VersionId=one)["Body"]) for one in versions]

    def check(self) -> None:
        """After all lives: nothing runs, nothing is kept, and no money is held."""
        machines = self.aws.machines()
        assert {one["state"] for one in machines} == {"terminated"}, machines
        assert not any(host.is_on for host in self.hosts.all())
        assert self.aws.client("ec2").describe_volumes()["Volumes"] == []
        assert self.account.keys("active/") == []
        failed = [(run.why, run.invocation.error) for run in self.control.runs if run.invocation.error]
        assert failed == [], failed
        # The beat after the end releases the reservation.
        self.control.wake("enforce-budgets")
        self.until(lambda: not self.reservations(), lambda: f"money is still held: {self.reservations()}")


@dataclass
class Loss:
    """How a machine is to be lost, and when: so many steps further than the job has come, or so many seconds after its launch."""

    kind: str
    steps: int | None
    seconds: float
    notice: float

    @property
    def has_time(self) -> bool:
        """Whether the work up to then can be uploaded."""
        return self.kind == "warning" and self.notice == _LONG_NOTICE_SECONDS


def losses(seed: int) -> list[Loss]:
    chance = random.Random(seed)
    found = []
    for _ in range(INTERRUPTIONS):
        kind, is_early = chance.choice(KINDS), chance.random() < 0.3
        steps = None if is_early else chance.randint(1, _STEPS_BETWEEN_MAX)
        seconds = chance.uniform(0, _EARLY_SECONDS_MAX if is_early else 2 * _STEP_SECONDS)
        notice = chance.uniform(*_NOTICE_SECONDS)
        found.append(Loss(kind, steps, seconds, notice if notice < _SHORT_NOTICE_SECONDS else _LONG_NOTICE_SECONDS))
    return found


class Life:
    """One job and its losses."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed, self.losses = world, seed, losses(seed)
        self.name = f"life-{seed}"
        self.trail = world.scratch / f"{self.name}.trail"
        self.result = world.hosts.disk / "result"
        self.may_end = world.scratch / f"{self.name}.may-end"  # else a training that is fast would be over before all has befallen it
        self.lost: list[str] = []  # machines, in order
        self.owed: dict[int, int] = {}  # by attempt the step that it has to have kept
        self.reserved = 0.0

    def spec(self) -> str:
        words = [sys.executable, training.__file__, "--steps", str(STEPS), "--every", str(EVERY), "--step-seconds", str(_STEP_SECONDS)]
        words += ["--result", str(self.result), "--trail", str(self.trail)]
        wait = f"until [ -e {shlex.quote(str(self.may_end))} ]; do sleep 0.1; done"
        return SPEC.format(
            command=json.dumps(f"{shlex.join(words)} && {wait}"),
            user=json.dumps(self.world.hosts.user),
            result=json.dumps(str(self.result)),
            checkpoints=json.dumps(str(self.world.hosts.disk / "var/curfew/checkpoints")),
        )

    def live(self) -> None:
        account = self.world.account
        key = account.submit(self.name, self.spec())
        answer = self._until(lambda: account.answer(key))
        assert answer["is"] == "accepted", answer
        self.job = Job(account, answer["job"])
        for loss in self.losses:
            self._lose(self._next(), loss)
        self.may_end.touch()
        self._until(lambda: self.job.state == "ended" and self.job.phase["closed"])
        # EC2 knows that its last machine is off.
        self._until(lambda: not account.machines(job=self.job.id))

    def _next(self) -> Host:
        """The machine that replaces the last one that was lost."""

        def running() -> str | None:
            phase = self.job.phase
            instance = phase.get("instance") if phase["state"] == "running" else None
            assert phase["state"] != "ended", f"it has ended before its time: {phase}"
            return None if instance in self.lost else instance

        host = self.world.hosts.find(self._until(running))
        self.reserved = max(self.reserved, self.world.reservations().get(self.job.id, {}).get("usd", 0))
        return host

    def _lose(self, host: Host, loss: Loss) -> None:
        if loss.steps is not None:
            aim = min(max((step for _, step in self.steps()), default=0) + loss.steps, STEPS)
            self._until(lambda: any(step >= aim for _, step in self.steps()))
            if loss.kind != "warning":
                # Wherever a random moment falls, so much was kept before it; an agent that keeps nothing never comes to it.
                least = aim - EVERY + 1
                self._until(lambda: self._kept() >= least)
                self.owed[self.job.attempt] = least
        attempt, beat = self.job.attempt, f"attempts/{self.job.id}/{self.job.attempt}/heartbeat.json"
        if loss.kind == "silence":
            # Without any heartbeat a quarter of an hour would have to pass.
            self._until(lambda: beat in self.world.account.keys(beat))
        time.sleep(loss.seconds)
        self.lost.append(host.id)
        control = self.world.control
        if loss.kind == "warning":
            control.interrupt(host, loss.notice)
            if loss.has_time:
                self.owed[attempt] = max((step for of, step in self.steps() if of == attempt), default=0)
        else:
            control.pull_the_plug(host, silent=loss.kind == "silence")
        if loss.kind == "silence":
            assert attempt == self.job.attempt
            self.world.aws.set_object(BUCKET, beat, now() - _WITHOUT_HEARTBEAT)

    def _kept(self) -> int:
        """The step that counts."""
        return kept(self.world.account.read(f"attempts/{self.job.id}/head.json"))

    # Results

    def steps(self) -> list[tuple[int, int]]:
        """Attempt and number of each step, in the order in which they were done."""
        lines = self.trail.read_text().splitlines() if self.trail.exists() else []
        return [(int(attempt), int(step)) for attempt, step in map(str.split, lines) if step]

    def check(self) -> None:
        self._check_result()
        heads = self.world.documents(f"attempts/{self.job.id}/head.json")
        check_fence(heads)
        check_steps(heads, self.steps())
        check_kept(heads, self.owed)
        assert heads[-1]["attempt"] == self.job.attempt
        assert self.reserved > 0, "no money was reserved while it ran"
        assert self.job.attempt == len(self.lost) + 1 == INTERRUPTIONS + 1

    def _check_result(self) -> None:
        assert self.job.phase["result"] == "succeeded", self.job.phase
        key = f"outputs/{self.job.id}/{self.job.attempt}{self.result}"
        result = self.world.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        assert result.decode() == training.undisturbed(STEPS)

    def _until(self, what: Callable[[], Any]) -> Any:
        return self.world.until(what, self.told)

    def told(self) -> str:
        """All that there is to see, of a life that went wrong."""
        job = getattr(self, "job", None)
        # Where an agent began it has said whose it is.
        own = [host for host in self.world.hosts.all() if job is None or job.id in host.console() or "of the job" not in host.console()]
        consoles = "\n".join(
            f"--- {host.id}{' (lost)' if host.id in self.lost else ''}\n{host.console()}\n{[' '.join(one.words) for one in host.processes()]}"
            for host in own
        )
        runs = "\n".join(
            f"{run.function} ({run.why}): {run.invocation.error or run.invocation.response['steps'] or run.invocation.response['gaps']}"
            for run in self.world.control.runs
            if run.invocation.error or run.invocation.response["steps"] or run.invocation.response["gaps"]
        )
        state = job.document if job is not None else "never accepted"
        return f"seed {self.seed}: {self.losses}\n{consoles}\n{runs}\n{state}"


def check_fence(heads: list[dict[str, Any]]) -> None:
    """In all versions of head.json an attempt without the fence writes nothing, and taking the fence changes nothing else."""
    launches: dict[int, str] = {}
    before: dict[str, Any] = {"attempt": 0, "checkpoint": None}
    for head in heads:
        attempt, named, step = head["attempt"], head["checkpoint"], kept(before)
        assert attempt >= before["attempt"], f"the fence went back: {before}, then {head}"
        assert launches.setdefault(attempt, head["launch"]) == head["launch"], f"two machines of attempt {attempt} had the fence"
        assert not before.get("result"), f"after the result came {head}"
        if attempt > before["attempt"]:
            assert named == before["checkpoint"], f"what counts has changed with the attempt: {before}, then {head}"
        elif named != before["checkpoint"]:
            assert named["attempt"] == attempt and named["step"] > step, f"an older checkpoint counts: {before}, then {head}"
        before = head
    assert before["result"]["succeeded"], before


def kept(head: dict[str, Any]) -> int:
    """The step that counts, 0 where none does yet."""
    return (head["checkpoint"] or {"step": 0})["step"]


def check_kept(heads: list[dict[str, Any]], owed: dict[int, int]) -> None:
    """Each attempt resumes after the last step that the previous one had time to upload."""
    for attempt, step in owed.items():
        taken = next(head for head in heads if head["attempt"] > attempt)
        assert kept(taken) >= step, f"attempt {attempt} could keep step {step}, and attempt {taken['attempt']} resumes after {kept(taken)}"


def check_steps(heads: list[dict[str, Any]], steps: list[tuple[int, int]]) -> None:
    """Each attempt resumes after the newest checkpoint that counted, and no two work at once."""
    attempts = [attempt for attempt, _ in steps]
    assert attempts == sorted(attempts), "two attempts worked at one time"
    for attempt in sorted(set(attempts)):
        own = [step for of, step in steps if of == attempt]
        taken = next(head for head in heads if head["attempt"] == attempt)
        first = kept(taken) + 1
        assert own == list(range(first, first + len(own))), f"attempt {attempt} resumes at {own[0]}, and not at {first}"
