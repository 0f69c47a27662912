"""Figures as Markdown, and whether they meet their targets."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from .fleet import COMPUTES, IDLES, SHARES, TYPES, WORKS
from .measure import REPOSITORY, Runs, Spread, growth

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
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{date}, {_commit()}{cores} cores of {model}, Linux {kernel}, load {load:.1f} at the start.\n"


def _commit() -> str:
    """Whose figures these are; a page keeps them for longer than the code stays as it is."""
    describe = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    told = subprocess.run(describe, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return f"commit {told.stdout.strip()}, " if told.returncode == 0 else ""


def fleets(rendered: dict[int, int]) -> str:
    """`rendered` is the bytes of all DescribeInstances pages, by the number of instances."""
    gpus = sum(one.gpus * percent for one, percent in TYPES.items()) / 100
    count, size = max(rendered.items())
    works, computes, idles = (f"{SHARES[usage]} %" for usage in (WORKS, COMPUTES, IDLES))
    return (
        f"One region, {gpus:.1f} GPUs an instance ({len(TYPES)} types of 1, 4 and 8), {size / count / 1024:.1f} KiB of "
        f"XML each. {works} work by their CPU, {computes} by their GPUs only, {idles} are idle, and their owners are "
        "only told: nothing is written to EC2.\n"
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
    return table_of_calls(
        {f"{name}, {one.instances:,}": one for name, runs in (("first", first), ("second", second)) for one in runs}
    )


def table_of_calls(columns: dict[str, Runs]) -> str:
    actions = sorted({action for one in columns.values() for action in one.calls})
    rows = ([action, *(f"{one.calls.get(action, 0):,}" for one in columns.values())] for action in actions)
    return table(["call", *columns], rows)


def starts_table(wall: Spread, cpu: Spread, size: int) -> str:
    rows = [
        ["start to first poll, median ms", f"{wall.median * 1000:.2f}"],
        ["start to first poll, worst ms", f"{max(wall.values) * 1000:.2f}"],
        ["CPU until then, median ms", f"{cpu.median * 1000:.2f}"],
        ["binary, MiB", f"{size / 2**20:.2f}"],
    ]
    return table([f"of {len(wall.values)} starts", ""], rows)


def verdicts(first: list[Runs], second: list[Runs], wall: Spread) -> list[Verdict]:
    found = [one for name, runs in (("first", first), ("second", second)) for one in _of_runs(name, runs)]
    poll_ms = wall.median * 1000
    measured = f"{poll_ms:.2f} ms (worst {max(wall.values) * 1000:.2f})"
    target = f"start to first poll: {FIRST_POLL_MS_MAX} ms by the median"
    return [*found, Verdict(target, measured, poll_ms <= FIRST_POLL_MS_MAX)]


def _of_runs(name: str, runs: list[Runs]) -> Iterator[Verdict]:
    for one in runs:
        at = f"{name} run at {one.instances:,}"
        if one.instances == TARGET_INSTANCES:
            peak, cpu = one.peak_mib, one.cpu_seconds
            is_met = max(peak.values) < PEAK_MIB_BELOW
            yield Verdict(f"{at}: peak memory below {PEAK_MIB_BELOW} MiB", f"{peak:.1f} MiB", is_met)
            yield Verdict(f"{at}: CPU at most {CPU_SECONDS_MAX} s", f"{cpu:.2f} s", cpu.median <= CPU_SECONDS_MAX)
        yield Verdict(f"{at}: every instance judged right", "; ".join(one.wrong) or "all are", not one.wrong)
    for smaller, larger in zip(runs, runs[1:]):
        grows = growth(smaller, larger)
        span = f"{smaller.instances:,} to {larger.instances:,}"
        target = f"{name} run, {span}: CPU per instance at most x {GROWTH_MAX}"
        is_right = not (smaller.wrong or larger.wrong)  # what gives up early grows less
        measured = f"x {grows:.2f}" + ("" if is_right else ", of runs that judged wrong")
        yield Verdict(target, measured, is_right and grows <= GROWTH_MAX)


def verdicts_table(found: list[Verdict]) -> str:
    return table(["target", "measured", ""], (one.row for one in found))


def recorded(page: str, command: str, text: str) -> str:
    """The page, with these figures between the marks of this command."""
    begin, end = f"<!-- {command} -->\n", f"<!-- end of {command} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no place for the figures of {command}: {begin.strip()} and {end}")
    return f"{before}{begin}\n{text}\n{end}{after}"
