"""Figures as Markdown, and whether they meet their targets."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from .measure import REPOSITORY, Runs, Spread, growth
from .subjects import Limits, Subject

FIRST_POLL_MS_MAX = 5
GROWTH_MAX = 1.25
CALLS_MORE_MAX = 1.05


@dataclass(frozen=True)
class Verdict:
    target: str
    measured: str
    is_met: bool


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """The first column is of texts, the others are of numbers."""
    head = list(head)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def document(parts: dict[str, str], found: list[Verdict]) -> str:
    rows = ((one.target, one.measured, "met" if one.is_met else "**MISSED**") for one in found)
    parts = {**parts, "Targets": table(["target", "measured", ""], rows)}
    return "\n".join(f"### {title}\n\n{text}" for title, text in parts.items())


def machine() -> str:
    """Where it was measured, and how busy that was: CPU seconds of a busy machine are a little too high, wall
    seconds much."""
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "CPU")
    cores, load = os.cpu_count(), os.getloadavg()[0]
    date = datetime.now(timezone.utc).date()
    kernel = ".".join(platform.release().split(".")[:2])
    # Whose figures these are; a page keeps them for longer than the code stays as it is.
    describe = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    told = subprocess.run(describe, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    commit = f"commit {told.stdout.strip()}, " if told.returncode == 0 else ""
    return f"{date}, {commit}{cores} cores of {model}, Linux {kernel}, load {load:.1f} at the start.\n"


def runs_table(noun: str, runs: list[Runs]) -> str:
    head = [f"{noun}s", "CPU s", f"CPU µs per {noun}", "growth", "wall s", "peak MiB", "AWS calls", "metrics asked"]
    rows = []
    for number, one in enumerate(runs):
        cpu = one.spread("cpu_seconds")
        rows.append(
            [
                f"{one.count:,}",
                f"{cpu:.3f}",
                f"{cpu.median / one.count * 1e6:.0f}",
                f"{growth(runs[number - 1], one):.2f}" if number else "",
                f"{one.spread('wall_seconds'):.2f}",
                f"{one.spread('peak_mib'):.1f}",
                f"{one.calls:,}",
                f"{max(run.metrics_asked for run in one.runs):,}",
            ]
        )
    return table(head, rows)


def calls_table(columns: dict[str, Runs]) -> str:
    actions = sorted({action for one in columns.values() for action in one.worst.calls})
    rows = ([action, *(f"{one.worst.calls.get(action, 0):,}" for one in columns.values())] for action in actions)
    return table(["call", *columns], rows)


def starts_table(wall: Spread, cpu: Spread, size: int) -> str:
    rows = [
        ["start to first poll, median ms", f"{wall.median * 1000:.2f}"],
        ["start to first poll, worst ms", f"{max(wall.values) * 1000:.2f}"],
        ["CPU until then, median ms", f"{cpu.median * 1000:.2f}"],
        ["binary, MiB", f"{size / 2**20:.2f}"],
    ]
    return table([f"of {len(wall.values)} starts", ""], rows)


def start_verdict(wall: Spread) -> Verdict:
    poll_ms = wall.median * 1000
    measured = f"{poll_ms:.2f} ms (worst {max(wall.values) * 1000:.2f})"
    return Verdict(f"start to first poll: {FIRST_POLL_MS_MAX} ms by the median", measured, poll_ms <= FIRST_POLL_MS_MAX)


def verdicts(subject: Subject, kind: str, runs: list[Runs]) -> Iterator[Verdict]:
    """Of one kind of run, the smallest account first."""
    for one in runs:
        at = f"{kind} at {one.count:,}"
        yield from _of_limits(at, subject.limits.get(one.count, Limits()), one)
        if (fewest := one.worst.calls_fewest) is not None:
            target = f"{at}: at most {CALLS_MORE_MAX - 1:.0%} more calls than the fewest possible"
            yield Verdict(target, f"{one.calls:,} of {fewest:,}", one.calls <= int(fewest * CALLS_MORE_MAX))
        yield Verdict(f"{at}: every {subject.noun} judged right", "; ".join(one.wrong) or "all are", not one.wrong)
    for smaller, larger in zip(runs, runs[1:]):
        grows = growth(smaller, larger)
        target = f"{kind}, {smaller.count:,} to {larger.count:,}: CPU per {subject.noun} at most x {GROWTH_MAX}"
        is_right = not (smaller.wrong or larger.wrong)  # what gives up early grows less
        measured = f"x {grows:.2f}" + ("" if is_right else ", of runs that judged wrong")
        yield Verdict(target, measured, is_right and grows <= GROWTH_MAX)


def _of_limits(at: str, limits: Limits, runs: Runs) -> Iterator[Verdict]:
    peak, cpu = runs.spread("peak_mib"), runs.spread("cpu_seconds")
    if limits.peak_mib_below is not None:
        is_met = max(peak.values) < limits.peak_mib_below
        yield Verdict(f"{at}: peak memory below {limits.peak_mib_below} MiB", f"{peak:.1f} MiB", is_met)
    if limits.cpu_seconds_max is not None:
        is_met = cpu.median <= limits.cpu_seconds_max
        yield Verdict(f"{at}: CPU at most {limits.cpu_seconds_max} s", f"{cpu:.2f} s", is_met)


def recorded(page: str, place: str, text: str) -> str:
    """The page, with these figures between the marks of their place."""
    begin, end = f"<!-- {place} -->\n", f"<!-- end of {place} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no place for the figures of {place}: {begin.strip()} and {end}")
    return f"{before}{begin}\n{text}\n{end}{after}"
