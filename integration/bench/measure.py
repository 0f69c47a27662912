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

from .fleet import BUCKET, COMPUTES, IDLES, TOPIC_ARN, WORKS, fleet
from .served import Served

REPOSITORY = Path(__file__).resolve().parents[2]
_SCHEDULED = (REPOSITORY / "events" / "reap-instances" / "scheduled-rule.json").read_bytes()
_PATIENCE_SECONDS = 600
_STEPS_ANSWERED_MAX = 1000  # of a response; the audit record has all


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
    wrong: tuple[str, ...]  # how the answer differs from what the fleet does


@dataclass(frozen=True)
class Runs:
    """One kind of run on one fleet, repeated."""

    instances: int
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
        return max((run.calls for run in self.runs), key=lambda calls: sum(calls.values()))

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
    """In one new process and an empty bucket: nothing is known, so everybody is asked about; then, as in the runs of
    every five minutes, what is known need not be asked again."""
    served.forget()
    with function_on(served, binary) as function:
        function.wait_until_ready()
        return _run(served, function, is_first=True), _run(served, function, is_first=False)


def _run(served: Served, function: Function, is_first: bool) -> Usage:
    before, pid = served.told(), function.process_id
    # proc_pid_clear_refs(5): 5 sets the peak to what is held now.
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    cpu_before = _cpu_seconds(pid)
    invocation = function.invoke(_SCHEDULED, patience_s=_PATIENCE_SECONDS)
    cpu_seconds = _cpu_seconds(pid) - cpu_before
    peak_mib = _peak_mib(pid)
    after = served.told()
    wrong = _differences(served.instances, invocation.response, is_first) + after["refused"]
    return Usage(
        cpu_seconds,
        invocation.seconds,
        peak_mib,
        dict(Counter(after["calls"]) - Counter(before["calls"])),
        after["metrics_asked"] - before["metrics_asked"],
        tuple(wrong),
    )


def _differences(instances: int, response: dict[str, Any], is_first: bool) -> list[str]:
    """A fast run that judges wrongly is no measurement. Whoever is idle is told of in the first run, and was in the
    second."""
    usages = Counter(machine.usage for machine in fleet(instances))
    spared = {"busy": usages[WORKS] + usages[COMPUTES]}
    if not is_first:
        spared["told"] = usages[IDLES]
    steps = {("notify", "idle", "done"): min(usages[IDLES], _STEPS_ANSWERED_MAX)} if is_first else {}
    answered = Counter((one["action"], one["because"]["rule"], one["outcome"]) for one in response["steps"])
    pairs = {
        "seen": (response["seen"], instances),
        "spared": (response["spared"], {because: count for because, count in spared.items() if count}),
        "steps": (dict(answered), {step: count for step, count in steps.items() if count}),
        "gaps": ([f"{gap['call']}: {gap['error']}" for gap in response["gaps"]], []),
    }
    return [f"{what} {told}, not {meant}" for what, (told, meant) in pairs.items() if told != meant]


def _cpu_seconds(pid: int) -> float:
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
                cpu_seconds = _cpu_seconds(process.pid)
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
    return Runs(served.instances, first), Runs(served.instances, second)


def growth(smaller: Runs, larger: Runs) -> float:
    """How CPU per instance grows: 1.0 is linear."""
    ratio = larger.cpu_seconds.median / smaller.cpu_seconds.median
    return ratio / (larger.instances / smaller.instances) if smaller.instances else math.nan
