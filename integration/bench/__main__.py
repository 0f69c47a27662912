"""`python -m bench`: measures the release binary. `python -m bench peer`: Cloud Custodian beside it.

Prints Markdown, and writes it to target/bench.md or target/bench-peer.md; with --record also to docs/measurements.md.
A missed target is said, and fails only with --check, because figures depend on the machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import measure, peer, report
from .measure import REPOSITORY, Runs
from .served import serving

_DOCS = REPOSITORY / "docs" / "measurements.md"
_BINARY = REPOSITORY / "target" / "release" / "reap-instances"


def main() -> int:
    asked = _asked()
    if not asked.binary.is_file():
        print(f"{asked.binary} is not there: cargo build --release --locked --package reap-instances", file=sys.stderr)
        return 2
    text, found = _peer(asked) if asked.what == "peer" else _reaper(asked)
    name = "bench-peer" if asked.what == "peer" else "bench"
    path = REPOSITORY / "target" / f"{name}.md"
    path.write_text(text)
    print(text)
    if asked.record:
        _DOCS.write_text(report.recorded(_DOCS.read_text(), f"make {name}", text))
    missed = sum(not one.is_met for one in found)
    print(f"{len(found) - missed} targets met, {missed} MISSED. Written to {path.relative_to(REPOSITORY)}")
    return 1 if missed and asked.check else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("what", nargs="?", choices=["reaper", "peer"], default="reaper")
    parser.add_argument("--instances", help="fleets, comma-separated (1000,10000,50000; the peer: 1000,10000)")
    parser.add_argument("--repeats", type=int, help="of each run (5; the peer's: 3)")
    parser.add_argument("--starts", type=int, default=20, help="of the process, to its first poll (20)")
    parser.add_argument("--binary", type=Path, default=_BINARY)
    parser.add_argument("--record", action="store_true", help="put the figures into docs/measurements.md")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    asked = parser.parse_args()
    is_peer = asked.what == "peer"
    fleets = asked.instances or ("1000,10000" if is_peer else "1000,10000,50000")
    asked.instances = [int(one) for one in fleets.split(",")]
    asked.repeats = asked.repeats or (3 if is_peer else 5)
    return asked


def _reaper(asked: argparse.Namespace) -> tuple[str, list[report.Verdict]]:
    where = report.machine()
    first: list[Runs] = []
    second: list[Runs] = []
    rendered: dict[int, int] = {}
    wall, cpu = measure.starts(asked.binary, asked.starts)
    for count in asked.instances:
        with serving(count) as served:
            _progress(f"{count:,} instances, {asked.repeats} times two runs")
            rendered[count] = served.rendered_bytes
            one_first, one_second = measure.scans(served, asked.binary, asked.repeats)
            first.append(one_first)
            second.append(one_second)
    found = report.verdicts(first, second, wall)
    parts = {
        "Where, and what": where + "\n" + report.fleets(rendered) + f"\nMedians of {asked.repeats} (least–most).\n",
        "The first run: nothing is known, everybody is asked about": report.runs_table(first),
        "The second run: what is known is not asked again": report.runs_table(second),
        "AWS calls": report.calls_table(first, second),
        "Start": report.starts_table(wall, cpu, asked.binary.stat().st_size),
        "Targets": report.verdicts_table(found),
    }
    return _document(parts), found


def _peer(asked: argparse.Namespace) -> tuple[str, list[report.Verdict]]:
    where = report.machine()
    compared = []
    for count in asked.instances:
        with serving(count) as served:
            _progress(f"{count:,} instances, {asked.repeats} times Cloud Custodian and the reaper")
            compared.append(peer.compare(served, asked.binary, asked.repeats))
    found = peer.verdicts(compared)
    parts = {
        "Where, and what": where + f"\n{peer.version()}. Medians of {asked.repeats} (least–most).\n",
        "The same fleet": peer.comparison(compared),
        "AWS calls": peer.calls_table(compared),
        "Start": peer.starts_table(asked.starts),
        "Targets": report.verdicts_table(found),
    }
    return _document(parts), found


def _document(parts: dict[str, str]) -> str:
    return "\n".join(f"### {title}\n\n{text}" for title, text in parts.items())


def _progress(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
