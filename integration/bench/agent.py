"""The agent measured: uploads and restores of a checkpoint beside `aws s3 cp --recursive`, and what it takes while a job runs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import agent_idle, report
from .agent_checkpoint import Checkpoint
from .agent_idle import Idle
from .agent_transfers import AWS, Machine
from .byte_server import serving
from .measure import Runs, Spread, Usage
from .report import Verdict

UPLOAD, RESTORE = "upload", "restore"
AGENT, PEER = "agent", "aws s3 cp"
FIGURES = ("CPU per GB", "wall", "peak memory")
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
    moved: dict[tuple[str, str], Runs]  # by what, and by whom
    idle: dict[str, Idle]  # beside a command that only sleeps, and when the checkpoint has been uploaded

    def spreads(self, what: str, who: str) -> list[Spread]:
        """Of the figures."""
        cpu, wall, peak = map(self.moved[what, who].spread, ("cpu_seconds", "wall_seconds", "peak_mib"))
        return [Spread(tuple(value / self.checkpoint.bytes * 1e9 for value in cpu.values)), wall, peak]

    def ratios(self, what: str) -> list[float]:
        return [theirs.median / ours.median for ours, theirs in zip(self.spreads(what, AGENT), self.spreads(what, PEER))]


def measure(binary: Path, checkpoint: Checkpoint, repeats: int, idle_seconds: float) -> Measured:
    with _disk(checkpoint) as disk, serving() as server:
        machine = Machine(server, binary, checkpoint, disk)
        moves = {
            (UPLOAD, PEER): machine.aws_uploads,
            (RESTORE, PEER): machine.aws_restores,
            (UPLOAD, AGENT): machine.agent_uploads,
            (RESTORE, AGENT): machine.agent_restores,
        }
        moved: dict[tuple[str, str], list[Usage]] = {key: [] for key in moves}
        for _ in range(repeats):
            # In turn, so that a machine that becomes slower does so for both. Each restores what it uploaded.
            for key, move in moves.items():
                moved[key].append(move())
        idle = {
            "nothing was uploaded yet": agent_idle.measure(machine, "sleep 1000", idle_seconds),
            "the checkpoint has been uploaded": agent_idle.measure(
                machine, f"{machine.putting}; sleep 1000", idle_seconds, uploads=True
            ),
        }
    return Measured(checkpoint, {key: Runs(1, tuple(runs)) for key, runs in moved.items()}, idle)


@contextmanager
def _disk(checkpoint: Checkpoint) -> Iterator[Path]:
    """In memory: what a disk takes would be in everybody's figures."""
    memory = Path("/dev/shm")
    lines = Path("/proc/meminfo").read_text().splitlines()
    there = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    wanted = _TIMES * checkpoint.bytes + _SPARE_BYTES
    if there < wanted:
        raise SystemExit(f"{wanted / 2**30:.0f} GiB of memory are needed, and {there / 2**30:.0f} are free")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None, prefix="curfew-bench-") as folder:
        yield Path(folder)


def transfers_table(measured: Measured) -> str:
    rows: list[list[str]] = []
    for what in (UPLOAD, RESTORE):
        for who in (AGENT, PEER):
            cpu, wall, peak = measured.spreads(what, who)
            rows.append([f"{what}, {who}", f"{cpu:.2f}", f"{wall:.2f}", f"{peak:.0f}", f"{measured.moved[what, who].calls:,}"])
        rows.append([f"{what}, {PEER} to {AGENT}", *(f"x {ratio:.2f}" for ratio in measured.ratios(what)), ""])
    return report.table(["", "CPU s per GB", "wall s", "peak MiB", "requests"], rows)


def idle_table(measured: Measured) -> str:
    rows = [
        (name, f"{one.resident_mib:.1f}", f"{one.cpu_percent:.3f}", f"{one.seconds:.0f}", f"{one.looks:,}")
        for name, one in measured.idle.items()
    ]
    return report.table(["", "resident MiB", "CPU %", "of s", "looks at the metadata"], rows)


def verdicts(measured: Measured) -> Iterator[Verdict]:
    wrong = [f"{what} by {who}: {text}" for (what, who), runs in measured.moved.items() for text in runs.wrong]
    yield Verdict("all that is uploaded and restored is as it was", "; ".join(wrong) or "it is", not wrong)
    for what in (UPLOAD, RESTORE):
        for name, ratio in zip(FIGURES[:2], measured.ratios(what)):
            yield Verdict(f"{what}: {name} at most that of {PEER}", f"{1 / ratio:.2f} of it", ratio >= 1)
        peak = measured.moved[what, AGENT].spread("peak_mib")
        yield Verdict(f"{what}: peak memory at most 256 MB", f"{peak:.0f} MiB", max(peak.values) <= PEAK_MIB_MAX)
    for name, idle in zip(("idle", "idle after an upload"), measured.idle.values()):
        yield Verdict(f"{name}: resident below 20 MB", f"{idle.resident_mib:.1f} MiB", idle.resident_mib < IDLE_MIB_BELOW)
        target = f"{name}: CPU below {IDLE_PERCENT_BELOW} %"
        yield Verdict(target, f"{idle.cpu_percent:.3f} %", idle.cpu_percent < IDLE_PERCENT_BELOW)


def described(measured: Measured, binary: Path) -> str:
    told = subprocess.run([AWS, "--version"], capture_output=True, text=True, check=True).stdout
    version = " ".join(word for word in told.split() if word.startswith(("aws-cli/", "Python/", "botocore/")))
    return (
        f"The agent has {binary.stat().st_size / 2**20:.1f} MiB; {version}. The checkpoint: {measured.checkpoint}, "
        f"{measured.checkpoint.bytes / 2**30:.2f} GiB together."
    )
