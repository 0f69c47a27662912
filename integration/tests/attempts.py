"""The real agent on the local AWS: a job in the bucket, machines for its attempts, and what they leave behind.

job = Job(aws, tmp_path)                        # in tests: the fixture `job`
with job.machine(1) as machine:
    machine.ends()
assert job.exit(1)["reason"] == "succeeded"
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import training
from fake_metadata import Metadata
from local_aws import LocalAws
from local_aws.client import CREDENTIALS, MACHINE_KEY
from moved_clock import MovedClock
from reaping import binary

AGENT = binary("agent")
BUCKET = "curfew-state"
# An agent ends what an earlier start left of the same attempt, so each process of tests has a job of its own.
NAME = f"vision/llama-{os.getpid():08x}"
HURRY = 20  # every wait of the agent so many times shorter
TIMEOUT_SECONDS = 60  # for its end, which comes long before where a warning or a limit of the job demands it
UNTIL_SECONDS = 120


class Job:
    """One job in the bucket, whose checkpoint directory lies on each machine at the same path, as it does on real ones."""

    def __init__(self, aws: LocalAws, scratch: Path) -> None:
        self.aws, self.scratch, self.s3 = aws, scratch, aws.client("s3")
        self.s3.create_bucket(Bucket=BUCKET)
        self.result, self.trail = scratch / "result", scratch / "trail"
        self.checkpoints = scratch / "checkpoints"

    # What is asked for

    def spec(self, command: str, *, user: str = "root", checkpoint: bool = True, keep: int = 3, more: str = "") -> None:
        text = f"name = \"llama\"\ncommand = {json.dumps(command)}\n{more}\n"
        if checkpoint:
            text += f"[checkpoint]\ndir = {json.dumps(str(self.checkpoints))}\nevery = \"1m\"\nkeep = {keep}\n"
        text += f"[machine]\nuser = {json.dumps(user)}\n" if "[machine]" not in more else ""
        text += "[gpu]\ncount = 1\n[limits]\nmax_runtime = \"8h\"\n"
        self.put(f"jobs/{NAME}/spec.toml", text)
        # Of what the reconciler writes, all that an agent reads.
        self.put(f"jobs/{NAME}/state.json", json.dumps({"schema": 1, "job": NAME, "terms": {"checkpoint": {"keep": keep} if checkpoint else None}}))

    def training(self, steps: int, *options: str, **spec: Any) -> None:
        """The command is the training, which has to come out as `self.expected`."""
        words = [sys.executable, training.__file__, "--steps", str(steps), "--result", str(self.result), "--trail", str(self.trail)]
        self.spec(shlex.join([*words, *options]), **spec)
        self.expected = training.undisturbed(steps)

    def training_that_waits(self, steps: int, *options: str, after: int = 5, **spec: Any) -> None:
        """The same, but after that step it waits until the test lets it go on (`keep_each`)."""
        self.pause_after = self.scratch / "pause-after"
        self.pause_after.write_text(str(after))
        self.training(steps, *options, "--pause-after", str(self.pause_after), **spec)

    def keep_each(self, machine: Machine, *steps: int) -> None:
        """Lets it go on from each of these steps, at which it waits, once the checkpoint is kept; from the last one to the end."""
        for step, following in zip(steps, [*steps[1:], 10**9]):
            machine.until(lambda: self.kept() == step)
            self.pause_after.write_text(str(following))

    # What is in the bucket

    def put(self, key: str, body: str | bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body.encode() if isinstance(body, str) else body)

    def get(self, key: str) -> bytes | None:
        return self.aws.object(BUCKET, key)

    def document(self, name: str) -> dict[str, Any] | None:
        body = self.get(f"attempts/{NAME}/{name}")
        return None if body is None else json.loads(body)

    def head(self) -> dict[str, Any]:
        return self.document("head.json") or {}

    def kept(self) -> int | None:
        """The step that head names."""
        return (self.head().get("checkpoint") or {}).get("step")

    def exit(self, attempt: int) -> dict[str, Any] | None:
        return self.document(f"{attempt}/exit.json")

    def heartbeat(self, attempt: int) -> dict[str, Any] | None:
        return self.document(f"{attempt}/heartbeat.json")

    def log(self, attempt: int) -> str:
        return (self.get(f"attempts/{NAME}/{attempt}/log") or b"").decode()

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def manifests(self) -> list[tuple[int, int]]:
        """Attempt and step of each whole checkpoint, once for each time that the attempt has kept the step."""
        keys = [key.split("/") for key in self.keys(f"checkpoints/{NAME}/") if key.endswith("/manifest.json")]
        return sorted((int(key[3]), int(key[4].partition(".")[0])) for key in keys)

    def newest(self, path: str) -> bytes | None:
        """A file of the checkpoint that head names."""
        if not (named := self.head().get("checkpoint")):
            return None
        again = f".{named['rewrite']}" if "rewrite" in named else ""
        return self.get(f"checkpoints/{NAME}/{named['attempt']}/{named['step']}{again}/files/{path}")

    def steps(self) -> list[tuple[int, int]]:
        """Attempt and number of each step that was done, in order."""
        lines = self.trail.read_text().splitlines() if self.trail.exists() else []
        return [(int(attempt), int(step)) for attempt, step in map(str.split, lines)]

    def machine(self, attempt: int, **given: Any) -> Machine:
        return Machine(self, attempt, **given)


class Machine:
    """A machine of one attempt: its metadata, an empty disk for checkpoints, and the agent; dark once that has said so."""

    def __init__(
        self,
        job: Job,
        attempt: int,
        *,
        ends_in: float = 3600,
        hurry: int = HURRY,
        disk: bool = True,
        launch: str = "0a",
        role: bool = False,  # its credentials come from its metadata
        clock: MovedClock | None = None,
        umask: int = 0o022,
        stdout: int | None = None,  # in place of a file that `said` reads
        knows: bool = True,  # who it is; or else once `knows_now` is called
        again: Machine | None = None,  # the same machine, which restarts
        more: Sequence[object] = (),  # further arguments of the agent
        bucket: dict[str, Any] | None = None,  # its state bucket, in place of the job's
        replica: dict[str, str] | None = None,  # the copy of that
    ) -> None:
        self.job, self.attempt, self.hurry, self.disk, self.launch = job, attempt, hurry, disk, launch
        self.role, self.clock, self.umask, self.stdout, self.knows, self.more = role, clock, umask, stdout, knows, more
        self.buckets = {**(bucket or {"bucket": BUCKET, "region": "us-east-1"}), **({"replica": replica} if replica else {})}
        self.ends_at = datetime.now(timezone.utc) + timedelta(seconds=ends_in)
        self.folder = again.folder if again else job.scratch / f"machine-{attempt}-{time.monotonic_ns()}"
        self.folder.mkdir(exist_ok=True)
        self.dark, self.output = self.folder / "dark", self.folder / "output"
        self.metadata = Metadata()

    def __enter__(self) -> Machine:
        if self.disk and self.job.checkpoints.exists():
            self.job.checkpoints.rename(self.folder / "disk-of-the-machine-before")
        identity = {
            "schema": 1,
            **self.buckets,
            "job": NAME,
            "attempt": self.attempt,
            "launch": self.launch,
            "ends_at": self.ends_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "agent_sha256": "0" * 64,
        }
        self.identity, path = json.dumps(identity), self.folder / "identity.json"
        if self.knows:
            path.write_text(self.identity)
        else:
            os.mkfifo(path)
        self.metadata.__enter__()
        environment = {
            **os.environ,
            **self.job.aws.environment(),
            "AWS_ACCESS_KEY_ID": MACHINE_KEY,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata.endpoint,
            "AWS_EC2_METADATA_DISABLED": "false",
            **(self.clock.environment() if self.clock else {}),
        }
        if self.role:
            # As on a real machine, they come from its metadata and nowhere else.
            environment = {name: value for name, value in environment.items() if name not in CREDENTIALS}
        shutdown = f"touch {shlex.quote(str(self.dark))}"
        words = [AGENT, "--identity", path, "--shutdown-command", shutdown, "--hurry", str(self.hurry), *map(str, self.more)]
        with self.output.open("wb") as output:
            stdout = output.fileno() if self.stdout is None else self.stdout
            self.process = subprocess.Popen(words, env=environment, stdout=stdout, stderr=subprocess.STDOUT, umask=self.umask)
        return self

    def __exit__(self, *_: object) -> None:
        self.pull_the_plug()
        self.metadata.__exit__()

    def knows_now(self) -> None:
        (self.folder / "identity.json").write_text(self.identity)

    def hears(self, number: signal.Signals) -> bool:
        """Whether the agent does something of its own at that signal (proc_pid_status(5), SigCgt)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
        return bool(int(caught, 16) >> (number - 1) & 1)

    def pull_the_plug(self) -> None:
        """Nothing of it runs any more, all at once: each stands still before its children are looked for, lest it starts one meanwhile."""
        if self.process.poll() is not None:
            return  # and what it left behind is no child of its any more
        everything: list[int] = []
        while begun := [each for each in (self.process.pid, *_descendants(self.process.pid)) if each not in everything]:
            for process in begun:
                _stand_still(process)
            everything += begun
        for process in everything:
            _signal(process, signal.SIGKILL)
        self.process.wait()

    def ends(self, seconds: float = TIMEOUT_SECONDS) -> str:
        """Waits until the agent has ended and the machine is dark; gives what it wrote."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the agent still runs:\n{self.said()}") from None
        assert code == 0, self.said()
        assert self.dark.exists(), self.said()
        return self.said()

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def until(self, holds: Callable[[], Any], seconds: float = UNTIL_SECONDS) -> Any:
        """Waits until something holds, while the agent runs."""
        begun = time.monotonic()
        while True:
            # In this order, for it may be the last that the agent does.
            has_ended = self.process.poll() is not None
            if found := holds():
                return found
            assert not has_ended, f"the agent has ended:\n{self.said()}"
            waited = time.monotonic() - begun
            assert waited < seconds, f"it never held:\n{self.said()}"
            time.sleep(min(0.05 + waited / 20, 0.2))


# So much notice is enough to upload all on a busy machine, and takes no longer: the machine shuts down once all is kept.
NOTICE_SECONDS = 60


def is_taken_back(machine: Machine) -> None:
    """AWS warns it, and it ends."""
    machine.metadata.warn(NOTICE_SECONDS)
    machine.ends()


def _signal(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def _stand_still(process: int) -> None:
    """Returns once it has stopped, or has ended (proc_pid_stat(5), state)."""
    _signal(process, signal.SIGSTOP)
    while True:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state in "TtZX":
            return
        time.sleep(0.001)


def _descendants(of: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = list(children.get(of, []))
    for process in found:
        found.extend(children.get(process, []))
    return found


def disk_of(scratch: Path, size: str) -> Iterator[Path]:
    """A disk of that size, such as `8m`, for a fixture."""
    disk = scratch / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def head(attempt: int, checkpoint: tuple[int, int] | None = None, result: dict[str, Any] | None = None, launch: str = "0a", kept: Sequence[tuple[int, int]] = ()) -> str:
    """A fence that names an attempt, and attempt and step of a checkpoint and of those that are kept beside it."""
    named, *others = [each and {"attempt": each[0], "step": each[1]} for each in (checkpoint, *kept)]
    return json.dumps({"schema": 1, "attempt": attempt, "launch": launch, "checkpoint": named, "kept": others, "result": result})
