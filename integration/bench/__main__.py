"""`python -m bench`: measures the release binaries. `python -m bench peer`: Cloud Custodian beside that of instances.
`python -m bench scan`: the command `curfew scan`. `python -m bench agent`: the agent beside `aws s3 cp`.

Prints Markdown, and writes it to target/bench-FUNCTION.md, bench-peer.md, bench-scan.md or bench-agent.md there; with --record also to
docs/measurements.md. A missed target is said, and fails only with --check, because figures depend on the machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import agent, measure, peer, report, scan
from .measure import REPOSITORY, Runs
from .served import serving
from .subjects import INSTANCES, SUBJECTS, Subject

_DOCS = REPOSITORY / "docs" / "measurements.md"
_BINARIES = REPOSITORY / "target" / "release"


def main() -> int:
    asked = _asked()
    absent = [name for name in asked.names if not _binary(asked, name).is_file()]
    if absent:
        packages = " ".join(f"--package {'cli' if name == 'curfew' else name}" for name in absent)
        print(f"{_binary(asked, absent[0])} is not there: cargo build --release --locked {packages}", file=sys.stderr)
        return 2
    if asked.what != "functions":
        measured = {"peer": _peer, "scan": _scan, "agent": _agent}[asked.what]
        return _told(asked, f"make bench-{asked.what}", *measured(asked))
    return max([_told(asked, f"make bench: {one.function}", *_function(asked, one)) for one in asked.subjects])


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("what", nargs="?", choices=["functions", "peer", "scan", "agent"], default="functions")
    parser.add_argument("--function", choices=SUBJECTS, help="this one only")
    of_each = "1000,10000,50000; peer: 1000,10000; scan: 10000"
    parser.add_argument("--counts", help=f"instances or volumes, comma-separated ({of_each})")
    parser.add_argument("--repeats", type=int, help="of each run (5; the peer's: 3)")
    parser.add_argument("--seconds", type=float, default=90, help="that the agent is watched while it is idle (90)")
    parser.add_argument("--starts", type=int, default=20, help="of the process, to its first poll (20)")
    parser.add_argument("--binary", type=Path, help="another one of --function")
    parser.add_argument("--record", action="store_true", help="put the figures into docs/measurements.md")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    asked = parser.parse_args()
    is_peer = asked.what == "peer"
    if is_peer and asked.function not in (None, INSTANCES.function):
        parser.error(f"Cloud Custodian is measured beside {INSTANCES.function}")
    if asked.binary and not (asked.function or is_peer or asked.what in ("scan", "agent")):
        parser.error("--binary wants --function")
    asked.subjects = [SUBJECTS[asked.function]] if asked.function else [INSTANCES] if is_peer else [*SUBJECTS.values()]
    asked.names = {"scan": ["curfew"], "agent": ["agent"]}.get(asked.what) or [one.function for one in asked.subjects]
    counts = asked.counts or {"peer": "1000,10000", "scan": "10000"}.get(asked.what, "1000,10000,50000")
    asked.counts = [int(one) for one in counts.split(",")]
    asked.repeats = asked.repeats or (3 if is_peer else 5)
    return asked


def _binary(asked: argparse.Namespace, name: str) -> Path:
    return asked.binary or _BINARIES / name


def _told(asked: argparse.Namespace, place: str, text: str, found: list[report.Verdict]) -> int:
    """`place` is where the page has these figures."""
    path = REPOSITORY / "target" / f"{place.removeprefix('make ').replace(': ', '-')}.md"
    path.write_text(text)
    print(text)
    if asked.record:
        _DOCS.write_text(report.recorded(_DOCS.read_text(), place, text))
    missed = sum(not one.is_met for one in found)
    met = len(found) - missed
    print(f"{met} targets met, {missed} MISSED. Written to {path.relative_to(REPOSITORY)}\n", flush=True)
    return 1 if missed and asked.check else 0


def _function(asked: argparse.Namespace, subject: Subject) -> tuple[str, list[report.Verdict]]:
    where, binary = report.machine(), _binary(asked, subject.function)
    first: list[Runs] = []
    second: list[Runs] = []
    rendered: dict[int, int] = {}
    wall, cpu = measure.starts(binary, asked.starts)
    for count in asked.counts:
        with serving(subject.function, count) as served:
            _progress(f"{count:,} {subject.noun}s, {asked.repeats} times two runs")
            rendered[count] = served.rendered_bytes
            one_first, one_second = measure.scans(served, binary, asked.repeats)
            first.append(one_first)
            second.append(one_second)
    found = report.verdicts(subject, first, second, wall)
    described = report.described(subject, rendered)
    parts = {
        "Where, and what": f"{where}\n{described}\nMedians of {asked.repeats} (least–most).\n",
        subject.titles[0]: report.runs_table(subject, first),
        subject.titles[1]: report.runs_table(subject, second),
        "AWS calls": report.calls_table(first, second),
        "Start": report.starts_table(wall, cpu, binary.stat().st_size),
        "Targets": report.verdicts_table(found),
    }
    return _document(parts), found


def _peer(asked: argparse.Namespace) -> tuple[str, list[report.Verdict]]:
    where = report.machine()
    compared = []
    for count in asked.counts:
        with serving(INSTANCES.function, count) as served:
            _progress(f"{count:,} instances, {asked.repeats} times Cloud Custodian and the reaper")
            compared.append(peer.compare(served, _binary(asked, INSTANCES.function), asked.repeats))
    found = peer.verdicts(compared)
    parts = {
        "Where, and what": where + f"\n{peer.version()}. Medians of {asked.repeats} (least–most).\n",
        "The same fleet": peer.comparison(compared),
        "AWS calls": peer.calls_table(compared),
        "Start": peer.starts_table(asked.starts),
        "Targets": report.verdicts_table(found),
    }
    return _document(parts), found


def _scan(asked: argparse.Namespace) -> tuple[str, list[report.Verdict]]:
    where, binary = report.machine(), _binary(asked, "curfew")
    runs = []
    for count in asked.counts:
        with serving("scan", count) as served:
            _progress(f"{count:,} instances, {asked.repeats} scans")
            runs.append(scan.scans(served, binary, asked.repeats))
    found = scan.verdicts(runs)
    parts = {
        "Where, and what": f"{where}\n{scan.described(binary)}\n"
        f"Medians of {asked.repeats} (least–most).\n",
        "A scan": scan.runs_table(runs),
        "AWS calls": scan.calls_table(runs),
        "Targets": report.verdicts_table(found),
    }
    return _document(parts), found


def _agent(asked: argparse.Namespace) -> tuple[str, list[report.Verdict]]:
    where, binary = report.machine(), _binary(asked, "agent")
    _progress(f"{agent.FULL}: {asked.repeats} times each, and {2 * asked.seconds:.0f} s idle")
    measured = agent.measure(binary, agent.FULL, asked.repeats, asked.seconds)
    found = agent.verdicts(measured)
    parts = {
        "Where, and what": f"{where}\n{agent.described(measured, binary, asked.repeats)}",
        "Transfers": agent.transfers_table(measured),
        "Idle": agent.idle_table(measured),
        "Targets": report.verdicts_table(found),
    }
    return _document(parts), found


def _document(parts: dict[str, str]) -> str:
    return "\n".join(f"### {title}\n\n{text}" for title, text in parts.items())


def _progress(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
