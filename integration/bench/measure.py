"""Measures the real binary: what a run takes, and how soon a process is ready."""

from __future__ import annotations

import math
import socket
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime_api import Function
from template_actions import fixed_environment

from .fleet import BUCKET, TOPIC_ARN
from .served import Served
from .subjects import STEPS_ANSWERED_MAX, SUBJECTS, Judged, Subject

REPOSITORY = Path(__file__).resolve().parents[2]
_EVENTS = REPOSITORY / "events"
_PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Spread:
    """Of one figure that was measured several times."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __format__(self, spec: str) -> str:
        least, most = format(min(self.values), spec), format(max(self.values), spec)
        return format(self.median, spec) + (f" ({least}–{most})" if least != most else "")


@dataclass(frozen=True)
class Usage:
    """What one run took."""

    cpu_seconds: float  # user and system, of all threads
    wall_seconds: float
    peak_mib: float
    calls: dict[str, int]
    metrics_asked: int
    wrong: tuple[str, ...]  # how the answer differs from what the account holds
    calls_fewest: int | None = None  # in which it could have been made, where that is known


@dataclass(frozen=True)
class Runs:
    """One kind of run on one account, repeated."""

    count: int  # of instances, or of volumes
    runs: tuple[Usage, ...]

    def spread(self, of: Callable[[Usage], float]) -> Spread:
        return Spread(tuple(of(run) for run in self.runs))

    @property
    def cpu_seconds(self) -> Spread:
        return self.spread(lambda run: run.cpu_seconds)

    @property
    def wall_seconds(self) -> Spread:
        return self.spread(lambda run: run.wall_seconds)

    @property
    def peak_mib(self) -> Spread:
        return self.spread(lambda run: run.peak_mib)

    @property
    def calls(self) -> dict[str, int]:
        """Of the run that made most; one that retries is seen here."""
        return self._most_calls.calls

    @property
    def calls_fewest(self) -> int | None:
        return self._most_calls.calls_fewest

    @property
    def _most_calls(self) -> Usage:
        return max(self.runs, key=lambda run: sum(run.calls.values()))

    @property
    def wrong(self) -> list[str]:
        return sorted({wrong for run in self.runs for wrong in run.wrong})


def function_on(served: Served, binary: Path) -> Function:
    env = {
        **fixed_environment(),
        "AWS_ENDPOINT_URL": served.address,
        "CURFEW_BUCKET": BUCKET,
        "CURFEW_TOPIC_ARN": TOPIC_ARN,
        "CURFEW_MODE": "enforce",
    }
    return Function(binary, env)


def first_and_second_run(served: Served, binary: Path) -> tuple[Usage, Usage]:
    """In one new process: with an empty bucket, so that nothing is known; then, as the schedule does, once more."""
    served.forget()
    with function_on(served, binary) as function:
        function.wait_until_ready()
        return _run(served, function, is_first=True), _run(served, function, is_first=False)


def _run(served: Served, function: Function, is_first: bool) -> Usage:
    subject = SUBJECTS[served.function]
    event = (_EVENTS / subject.function / "scheduled-rule.json").read_bytes()
    before, pid = served.told(), function.process_id
    # proc_pid_clear_refs(5): 5 sets the peak to what is held now.
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    cpu_before = cpu_seconds_of(pid)
    invocation = function.invoke(event, patience_s=_PATIENCE_SECONDS)
    cpu_seconds = cpu_seconds_of(pid) - cpu_before
    peak_mib = _peak_mib(pid)
    after = served.told()
    asked = after["metrics_asked"] - before["metrics_asked"]
    wrong = _differences(subject.judged(served.count, is_first), invocation.response, asked) + after["refused"]
    return Usage(
        cpu_seconds,
        invocation.seconds,
        peak_mib,
        _since(before, after, "calls"),
        asked,
        tuple(wrong),
        _fewest(subject, served.count, is_first, asked, _since(before, after, "published")),
    )


def _since(before: dict[str, Any], after: dict[str, Any], what: str) -> dict[str, int]:
    return dict(Counter(after[what]) - Counter(before[what]))


def _fewest(subject: Subject, count: int, is_first: bool, asked: int, published: dict[str, int]) -> int | None:
    return subject.fewest(count, is_first, asked, published).total() if subject.fewest else None


def _differences(judged: Judged, response: dict[str, Any], asked: int) -> list[str]:
    """A fast run that judges wrongly is no measurement."""
    steps = {step: min(count, STEPS_ANSWERED_MAX) for step, count in judged.steps.items() if count}
    answered = Counter((one["action"], one["evidence"]["rule"], one["outcome"]) for one in response["steps"])
    pairs = {
        "seen": (response["seen"], judged.seen),
        "skipped": (response["skipped"], {evidence: count for evidence, count in judged.skipped.items() if count}),
        "steps": (dict(answered), steps),
        "gaps": ([f"{gap['call']}: {gap['error']}" for gap in response["gaps"]], []),
    }
    wrong = [f"{what} {told}, not {meant}" for what, (told, meant) in pairs.items() if told != meant]
    if judged.metrics_asked_max is not None and asked > judged.metrics_asked_max:
        wrong.append(f"{asked} metrics asked, more than {judged.metrics_asked_max}")
    return wrong


def cpu_seconds_of(pid: int) -> float:
    """By the process's own clock, which counts nanoseconds and threads that have ended (clock_getcpuclockid(3));
    /proc/PID/stat counts hundredths of a second."""
    return time.clock_gettime(~pid << 3 | 2)


def _peak_mib(pid: int) -> float:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def first_poll_seconds(binary: Path) -> tuple[float, float]:
    """From the start of a process to its first poll of the Runtime API, and the CPU that it took until then."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        own = {**fixed_environment(), "CURFEW_BUCKET": BUCKET, "CURFEW_TOPIC_ARN": TOPIC_ARN}
        env = Function(binary, own).environment(address)
        began = time.monotonic()
        process = subprocess.Popen(
            [str(binary)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            connection, _ = listener.accept()
            with connection:
                polled = connection.recv(4096)
                seconds = time.monotonic() - began
                cpu_seconds = cpu_seconds_of(process.pid)
            assert polled.startswith(b"GET /2018-06-01/runtime/invocation/next"), polled
        finally:
            process.kill()
            process.wait()
    return seconds, cpu_seconds


def starts(binary: Path, count: int) -> tuple[Spread, Spread]:
    """The first start reads the binary from disk, which no later one does: it is not counted."""
    measured = [first_poll_seconds(binary) for _ in range(count + 1)][1:]
    return Spread(tuple(wall for wall, _ in measured)), Spread(tuple(cpu for _, cpu in measured))


def scans(served: Served, binary: Path, repeats: int) -> tuple[Runs, Runs]:
    pairs = [first_and_second_run(served, binary) for _ in range(repeats)]
    first, second = zip(*pairs)
    return Runs(served.count, first), Runs(served.count, second)


def growth(smaller: Runs, larger: Runs) -> float:
    """How CPU per instance, or volume, grows: 1.0 is linear."""
    ratio = larger.cpu_seconds.median / smaller.cpu_seconds.median
    return ratio / (larger.count / smaller.count) if smaller.count else math.nan
