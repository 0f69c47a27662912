"""Figures as Markdown, and whether they meet their targets."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from .fleet import SHARES, TYPES
from .measure import Runs, Spread, growth

TARGET_INSTANCES = 10_000
PEAK_MIB_BELOW = 64
CPU_SECONDS_MAX = 0.8
FIRST_POLL_MS_MAX = 5
GROWTH_MAX = 1.25


@dataclass(frozen=True)
class Verdict:
    target: str
    measured: str
    is_met: bool

    @property
    def row(self) -> tuple[str, str, str]:
        return self.target, self.measured, "met" if self.is_met else "**MISSED**"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """The first column is of texts, the others are of numbers."""
    head = list(head)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def machine() -> str:
    """Where it was measured, and how busy that was: CPU seconds of a busy machine are a little too high, wall
    seconds much."""
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "CPU")
    cores, load = os.cpu_count(), os.getloadavg()[0]
    date = datetime.now(timezone.utc).date()
    return f"{date}, {cores} cores of {model}, Linux {platform.release()}, load {load:.1f} at the start.\n"


def fleets(rendered: dict[int, int]) -> str:
    """`rendered` is the bytes of all DescribeInstances pages, by the number of instances."""
    gpus = sum(one.gpus * percent for one, percent in TYPES.items()) / 100
    shares = ", ".join(f"{percent} % {usage}" for usage, percent in SHARES.items())
    sizes = {f"{size / count / 1024:.1f}" for count, size in rendered.items()}
    return (
        f"One region, {gpus:.1f} GPUs an instance ({len(TYPES)} types of 1, 4 and 8), "
        f"{' to '.join(sorted(sizes))} KiB of XML each. {shares}, so that nothing is written to EC2.\n"
    )


def runs_table(runs: list[Runs]) -> str:
    head = ["instances", "CPU s", "CPU µs an instance", "growth", "wall s", "peak MiB", "AWS calls", "metrics asked"]
    rows = []
    for number, one in enumerate(runs):
        rows.append(
            [
                f"{one.instances:,}",
                f"{one.cpu_seconds:.3f}",
                f"{one.cpu_seconds.median / one.instances * 1e6:.0f}",
                f"{growth(runs[number - 1], one):.2f}" if number else "",
                f"{one.wall_seconds:.2f}",
                f"{one.peak_mib:.1f}",
                f"{sum(one.calls.values()):,}",
                f"{one.runs[0].metrics_asked:,}",
            ]
        )
    return table(head, rows)


def calls_table(first: list[Runs], second: list[Runs]) -> str:
    columns = [(one, f"{name}, {one.instances:,}") for name, all in (("first", first), ("second", second)) for one in all]
    actions = sorted({action for one, _ in columns for action in one.calls})
    head = ["call", *(title for _, title in columns)]
    return table(head, ([action, *(f"{one.calls.get(action, 0):,}" for one, _ in columns)] for action in actions))


def starts_table(wall: Spread, cpu: Spread, size: int) -> str:
    rows = [
        ["start to first poll, median ms", f"{wall.median * 1000:.2f}"],
        ["start to first poll, worst ms", f"{max(wall.values) * 1000:.2f}"],
        ["CPU until then, median ms", f"{cpu.median * 1000:.2f}"],
        ["binary, MiB", f"{size / 2**20:.2f}"],
    ]
    return table([f"of {len(wall.values)} starts", ""], rows)


def verdicts(first: list[Runs], second: list[Runs], wall: Spread) -> list[Verdict]:
    found = []
    for name, runs in (("first", first), ("second", second)):
        for one in (one for one in runs if one.instances == TARGET_INSTANCES):
            at = f"of a {name} run at {one.instances:,}"
            peak, cpu = one.peak_mib, one.cpu_seconds
            found.append(Verdict(f"peak memory {at}: below {PEAK_MIB_BELOW} MiB", f"{peak:.1f} MiB", _most(peak) < PEAK_MIB_BELOW))
            found.append(Verdict(f"CPU {at}: at most {CPU_SECONDS_MAX} s", f"{cpu:.2f} s", cpu.median <= CPU_SECONDS_MAX))
        for smaller, larger in zip(runs, runs[1:]):
            grows = growth(smaller, larger)
            target = f"CPU per instance of a {name} run, {smaller.instances:,} to {larger.instances:,}: at most x {GROWTH_MAX}"
            found.append(Verdict(target, f"x {grows:.2f}", grows <= GROWTH_MAX))
        for one in runs:
            right = f"every instance of {one.instances:,} judged right by a {name} run"
            found.append(Verdict(right, "; ".join(one.wrong) or "all are", not one.wrong))
    poll = f"{wall.median * 1000:.2f} ms (worst {max(wall.values) * 1000:.2f})"
    found.append(Verdict(f"start to first poll: {FIRST_POLL_MS_MAX} ms, by the median", poll, wall.median * 1000 <= FIRST_POLL_MS_MAX))
    return found


def verdicts_table(found: list[Verdict]) -> str:
    return table(["target", "measured", ""], (one.row for one in found))


def _most(spread: Spread) -> float:
    return max(spread.values)
