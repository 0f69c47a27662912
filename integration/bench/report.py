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


def described(subject: Subject, rendered: dict[int, int]) -> str:
    """`rendered` is the bytes of all pages, by their number of instances or volumes."""
    count, size = max(rendered.items())
    return subject.described(size / count / 1024) + "\n"


def runs_table(subject: Subject, runs: list[Runs]) -> str:
    head = [f"{subject.noun}s", "CPU s", f"CPU µs per {subject.noun}", "growth", "wall s", "peak MiB", "AWS calls"]
    head.append("metrics asked")
    rows = []
    for number, one in enumerate(runs):
        rows.append(
            [
                f"{one.count:,}",
                f"{one.cpu_seconds:.3f}",
                f"{one.cpu_seconds.median / one.count * 1e6:.0f}",
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
        {f"{name}, {one.count:,}": one for name, runs in (("first", first), ("second", second)) for one in runs}
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


def verdicts(subject: Subject, first: list[Runs], second: list[Runs], wall: Spread) -> list[Verdict]:
    found = [one for name, runs in (("first", first), ("second", second)) for one in _of_runs(subject, name, runs)]
    poll_ms = wall.median * 1000
    measured = f"{poll_ms:.2f} ms (worst {max(wall.values) * 1000:.2f})"
    target = f"start to first poll: {FIRST_POLL_MS_MAX} ms by the median"
    return [*found, Verdict(target, measured, poll_ms <= FIRST_POLL_MS_MAX)]


def _of_runs(subject: Subject, name: str, runs: list[Runs]) -> Iterator[Verdict]:
    for one in runs:
        at = f"{name} run at {one.count:,}"
        yield from _of_limits(at, subject.limits.get(one.count, Limits()), one)
        if one.calls_fewest is not None:
            made, most = sum(one.calls.values()), int(one.calls_fewest * CALLS_MORE_MAX)
            target = f"{at}: at most {CALLS_MORE_MAX - 1:.0%} more calls than the fewest possible"
            yield Verdict(target, f"{made:,} of {one.calls_fewest:,}", made <= most)
        target = f"{at}: every {subject.noun} judged right"
        yield Verdict(target, "; ".join(one.wrong) or "all are", not one.wrong)
    for smaller, larger in zip(runs, runs[1:]):
        grows = growth(smaller, larger)
        span = f"{smaller.count:,} to {larger.count:,}"
        target = f"{name} run, {span}: CPU per {subject.noun} at most x {GROWTH_MAX}"
        is_right = not (smaller.wrong or larger.wrong)  # what gives up early grows less
        measured = f"x {grows:.2f}" + ("" if is_right else ", of runs that judged wrong")
        yield Verdict(target, measured, is_right and grows <= GROWTH_MAX)


def _of_limits(at: str, limits: Limits, runs: Runs) -> Iterator[Verdict]:
    peak, cpu = runs.peak_mib, runs.cpu_seconds
    if limits.peak_mib_below is not None:
        is_met = max(peak.values) < limits.peak_mib_below
        yield Verdict(f"{at}: peak memory below {limits.peak_mib_below} MiB", f"{peak:.1f} MiB", is_met)
    if limits.cpu_seconds_max is not None:
        is_met = cpu.median <= limits.cpu_seconds_max
        yield Verdict(f"{at}: CPU at most {limits.cpu_seconds_max} s", f"{cpu:.2f} s", is_met)


def verdicts_table(found: list[Verdict]) -> str:
    return table(["target", "measured", ""], (one.row for one in found))


def recorded(page: str, place: str, text: str) -> str:
    """The page, with these figures between the marks of their place."""
    begin, end = f"<!-- {place} -->\n", f"<!-- end of {place} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no place for the figures of {place}: {begin.strip()} and {end}")
    return f"{before}{begin}\n{text}\n{end}{after}"
