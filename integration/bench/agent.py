"""The agent measured: uploads and restores of a checkpoint beside `aws s3 cp --recursive`, and what it takes while a job runs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import agent_checkpoint, agent_idle, report
from .agent_checkpoint import Checkpoint
from .agent_idle import Idle
from .agent_transfers import AWS, Machine, Moved
from .byte_server import serving
from .measure import Spread
from .report import Verdict

UPLOAD, RESTORE = "upload", "restore"
AGENT, PEER = "agent", "aws s3 cp"

# 256 and 20 MB.
PEAK_MIB_MAX = 244
IDLE_MIB_BELOW = 19
IDLE_PERCENT_BELOW = 0.1

# Source, bucket and what is restored, all of which lie in memory, and some.
_TIMES = 3
_SPARE_BYTES = 2**30


@dataclass(frozen=True)
class Measured:
    checkpoint: Checkpoint
    moved: dict[tuple[str, str], list[Moved]]  # by what, and by whom
    idle: Idle  # beside a command that only sleeps
    afterwards: Idle  # the same, when the checkpoint has been uploaded

    def spread(self, what: str, who: str, of: Callable[[Moved], float]) -> Spread:
        return Spread(tuple(of(one) for one in self.moved[what, who]))

    def cpu_per_gb(self, what: str, who: str) -> Spread:
        return self.spread(what, who, lambda one: one.used.cpu_seconds / self.checkpoint.bytes * 1e9)

    def wall_seconds(self, what: str, who: str) -> Spread:
        return self.spread(what, who, lambda one: one.used.wall_seconds)

    def peak_mib(self, what: str, who: str) -> Spread:
        return self.spread(what, who, lambda one: one.used.peak_mib)

    @property
    def wrong(self) -> list[str]:
        return sorted({f"{what} by {who}: {text}" for (what, who), runs in self.moved.items() for one in runs for text in one.wrong})


def measure(binary: Path, checkpoint: Checkpoint, repeats: int, idle_seconds: float) -> Measured:
    with _disk(checkpoint) as disk, serving() as server:
        machine = Machine(server, binary, checkpoint, disk)
        moved: dict[tuple[str, str], list[Moved]] = {}
        for _ in range(repeats):
            # In turn, so that a machine that becomes slower does so for both. Each restores what it uploaded.
            for key, move in (
                ((UPLOAD, PEER), machine.aws_uploads),
                ((RESTORE, PEER), machine.aws_restores),
                ((UPLOAD, AGENT), machine.agent_uploads),
                ((RESTORE, AGENT), machine.agent_restores),
            ):
                moved.setdefault(key, []).append(move())
        idle = agent_idle.measure(machine, "sleep 1000", idle_seconds)
        afterwards = agent_idle.measure(machine, f"{machine.putting}; sleep 1000", idle_seconds, uploads=True)
    return Measured(checkpoint, moved, idle, afterwards)


@contextmanager
def _disk(checkpoint: Checkpoint) -> Iterator[Path]:
    """In memory: what a disk takes would be in everybody's figures."""
    memory = Path("/dev/shm")
    wanted, there = _TIMES * checkpoint.bytes + _SPARE_BYTES, _available_bytes()
    if there < wanted:
        raise SystemExit(f"{wanted / 2**30:.0f} GiB of memory are needed, and {there / 2**30:.0f} are free")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None, prefix="curfew-bench-") as folder:
        yield Path(folder)


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def version() -> str:
    """The other one's."""
    told = subprocess.run([AWS, "--version"], capture_output=True, text=True, check=True).stdout
    return " ".join(word for word in told.split() if word.startswith(("aws-cli/", "Python/", "botocore/")))


def transfers_table(measured: Measured) -> str:
    rows = []
    for what in (UPLOAD, RESTORE):
        for who in (AGENT, PEER):
            runs = measured.moved[what, who]
            calls = f"{max(sum(one.calls.values()) for one in runs):,}"
            cpu, wall, peak = (of(what, who) for of in (measured.cpu_per_gb, measured.wall_seconds, measured.peak_mib))
            rows.append((f"{what}, {who}", f"{cpu:.2f}", f"{wall:.2f}", f"{peak:.0f}", calls))
        ratios = [_ratio(measured, of, what) for of in (measured.cpu_per_gb, measured.wall_seconds, measured.peak_mib)]
        rows.append((f"{what}, {PEER} to {AGENT}", *(f"x {ratio:.2f}" for ratio in ratios), ""))
    return report.table(["", "CPU s per GB", "wall s", "peak MiB", "requests"], rows)


def idle_table(measured: Measured) -> str:
    rows = [
        (name, f"{one.resident_mib:.1f}", f"{one.cpu_percent:.3f}", f"{one.seconds:.0f}", f"{one.looks:,}")
        for name, one in (("nothing was uploaded yet", measured.idle), ("the checkpoint has been uploaded", measured.afterwards))
    ]
    return report.table(["", "resident MiB", "CPU %", "of s", "looks at the metadata"], rows)


def verdicts(measured: Measured) -> list[Verdict]:
    found = [Verdict("all that is uploaded and restored is as it was", "; ".join(measured.wrong) or "it is", not measured.wrong)]
    for what in (UPLOAD, RESTORE):
        for name, of in (("CPU per GB", measured.cpu_per_gb), ("wall", measured.wall_seconds)):
            ratio = _ratio(measured, of, what)
            found.append(Verdict(f"{what}: {name} at most that of {PEER}", f"{1 / ratio:.2f} of it", ratio >= 1))
        peak = measured.peak_mib(what, AGENT)
        found.append(Verdict(f"{what}: peak memory at most 256 MB", f"{peak:.0f} MiB", max(peak.values) <= PEAK_MIB_MAX))
    for name, idle in (("idle", measured.idle), ("idle after an upload", measured.afterwards)):
        found.append(Verdict(f"{name}: resident below 20 MB", f"{idle.resident_mib:.1f} MiB", idle.resident_mib < IDLE_MIB_BELOW))
        target = f"{name}: CPU below {IDLE_PERCENT_BELOW} %"
        found.append(Verdict(target, f"{idle.cpu_percent:.3f} %", idle.cpu_percent < IDLE_PERCENT_BELOW))
    return found


def _ratio(measured: Measured, of: Callable[[str, str], Spread], what: str) -> float:
    return of(what, PEER).median / of(what, AGENT).median


def described(measured: Measured, binary: Path, repeats: int) -> str:
    size = binary.stat().st_size / 2**20
    return (
        f"The agent has {size:.1f} MiB; {version()}. The checkpoint: {measured.checkpoint}, "
        f"{measured.checkpoint.bytes / 2**30:.2f} GiB together. Medians of {repeats} (least–most).\n"
    )


FULL = agent_checkpoint.FULL
