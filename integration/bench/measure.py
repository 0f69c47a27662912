"""Measures the real binaries: what a run takes, and how soon a process is ready."""

from __future__ import annotations

import json
import math
import socket
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime_api import Function
from template_actions import fixed_environment

from . import process
from .fleet import BUCKET, REGION, TOPIC_ARN
from .served import Served
from .subjects import STEPS_ANSWERED_MAX, SUBJECTS, scanned

REPOSITORY = Path(__file__).resolve().parents[2]
_TIMEOUT_SECONDS = 600


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

    def spread(self, figure: str) -> Spread:
        return Spread(tuple(getattr(run, figure) for run in self.runs))

    @property
    def worst(self) -> Usage:
        """The run with the most calls, which shows retries."""
        return max(self.runs, key=lambda run: sum(run.calls.values()))

    @property
    def calls(self) -> int:
        return sum(self.worst.calls.values())

    @property
    def wrong(self) -> list[str]:
        return sorted({wrong for run in self.runs for wrong in run.wrong})


def repeated(served: Served, binary: Path, repeats: int) -> list[Runs]:
    """Each kind of run that the subject has."""
    measured = [one_of_each_kind(served, binary) for _ in range(repeats)]
    return [Runs(served.count, runs) for runs in zip(*measured)]


def one_of_each_kind(served: Served, binary: Path) -> tuple[Usage, ...]:
    """Of a function the first run, which knows nothing but what its account has in a log; then, as the schedule does, once more in the same
    process. Of the command a scan, as a person starts it."""
    served.forget()
    if served.function == "scan":
        return (_scan(served, binary),)
    with function_on(served, binary) as function:
        function.wait_until_ready()
        return _run(served, function, is_first=True), _run(served, function, is_first=False)


def function_on(served: Served, binary: Path) -> Function:
    own = {"CURFEW_BUCKET": BUCKET, "CURFEW_TOPIC_ARN": TOPIC_ARN, "CURFEW_MODE": "enforce"}
    return Function(binary, {**fixed_environment(), "AWS_ENDPOINT_URL": served.address, **own})


def _run(served: Served, function: Function, is_first: bool) -> Usage:
    subject = SUBJECTS[served.function]
    event = (REPOSITORY / "events" / served.function / "scheduled-rule.json").read_bytes()
    before, pid = served.told(), function.process_id
    # proc_pid_clear_refs(5): 5 sets the peak to what is held now.
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    cpu_before = cpu_seconds_of(pid)
    invocation = function.invoke(event, timeout_s=_TIMEOUT_SECONDS)
    cpu_seconds = cpu_seconds_of(pid) - cpu_before
    peak_mib = status_mib(pid, "VmHWM")
    after = served.told()
    calls, published = (dict(Counter(after[what]) - Counter(before[what])) for what in ("calls", "published"))
    asked = after["metrics_asked"] - before["metrics_asked"]
    response, judged = invocation.response, subject.judged(served.count, is_first)
    answered = Counter((one["action"], one["evidence"]["rule"], one["outcome"]) for one in response["steps"])
    wrong = differences(
        {
            "seen": (response["seen"], judged.seen),
            "skipped": (response["skipped"], {reason: count for reason, count in judged.skipped.items() if count}),
            "steps": (dict(answered), {step: min(count, STEPS_ANSWERED_MAX) for step, count in judged.steps.items() if count}),
            "gaps": ([f"{gap['call']}: {gap['error']}" for gap in response["gaps"]], []),
        },
        after["refused"],
    )
    if judged.metrics_asked_max is not None and asked > judged.metrics_asked_max:
        wrong += (f"{asked} metrics asked, more than {judged.metrics_asked_max}",)
    fewest = subject.fewest(served.count, is_first, asked, published).total() if subject.fewest else None
    return Usage(cpu_seconds, invocation.seconds, peak_mib, calls, asked, wrong, fewest)


def _scan(served: Served, binary: Path) -> Usage:
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
    env = {**keys, "AWS_ENDPOINT_URL": served.address, "AWS_REGION": REGION}
    with tempfile.TemporaryDirectory() as folder:
        out, config = (Path(folder) / name for name in ("out", "curfew.toml"))
        config.touch()  # the defaults, so that no deployment is looked for
        with out.open("w") as stdout:
            used = process.run([binary, "scan", "--json", "--quiet", "--config", config], env, stdout)
        document = json.loads(out.read_text())
    told = served.told()
    kinds = Counter(kind for finding in document["findings"] for kind in finding["kinds"])
    found = {name: document[name] for name in ("regions", "seen", "gaps")} | {"exit code": used.code, "findings": dict(kinds)}
    wrong = differences({name: (found[name], meant) for name, meant in scanned(served.count).items()}, told["refused"])
    return Usage(used.cpu_seconds, used.wall_seconds, used.peak_mib, told["calls"], told["metrics_asked"], wrong)


def differences(pairs: dict[str, tuple[Any, Any]], refused: Iterable[str]) -> tuple[str, ...]:
    """Unexpected notifications: a fast run that judges wrongly is no measurement."""
    return (*(f"{what} {told}, not {meant}" for what, (told, meant) in pairs.items() if told != meant), *refused)


def cpu_seconds_of(pid: int) -> float:
    """By the process's own clock, which counts nanoseconds and threads that have ended (clock_getcpuclockid(3));
    /proc/PID/stat counts hundredths of a second."""
    return time.clock_gettime(~pid << 3 | 2)


def status_mib(pid: int, figure: str) -> float:
    """`VmHWM`, the peak, or `VmRSS` (proc_pid_status(5))."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status[figure].split()[0]) / 1024


def starts(binary: Path, count: int) -> tuple[Spread, Spread]:
    """From the start of a process to its first poll of the Runtime API, and the CPU that it took until then. The first start reads the
    binary from disk, which no later one does: it is not counted."""
    measured = [_first_poll_seconds(binary) for _ in range(count + 1)][1:]
    return Spread(tuple(wall for wall, _ in measured)), Spread(tuple(cpu for _, cpu in measured))


def _first_poll_seconds(binary: Path) -> tuple[float, float]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        own = {**fixed_environment(), "CURFEW_BUCKET": BUCKET, "CURFEW_TOPIC_ARN": TOPIC_ARN}
        env = Function(binary, own).environment(f"127.0.0.1:{listener.getsockname()[1]}")
        nothing = subprocess.DEVNULL
        began = time.monotonic()
        started = subprocess.Popen([str(binary)], env=env, stdin=nothing, stdout=nothing, stderr=nothing)
        try:
            connection, _ = listener.accept()
            with connection:
                polled = connection.recv(4096)
                seconds = time.monotonic() - began
                cpu_seconds = cpu_seconds_of(started.pid)
            assert polled.startswith(b"GET /2018-06-01/runtime/invocation/next"), polled
        finally:
            started.kill()
            started.wait()
    return seconds, cpu_seconds


def growth(smaller: Runs, larger: Runs) -> float:
    """How CPU per instance, or volume, grows: 1.0 is linear."""
    ratio = larger.spread("cpu_seconds").median / smaller.spread("cpu_seconds").median
    return ratio / (larger.count / smaller.count) if smaller.count else math.nan
