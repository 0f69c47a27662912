"""`python -m bench`: measures the reapers. `python -m bench scan`: the command `curfew scan`. `python -m bench peer`: Cloud Custodian beside
the reaper of instances.

Prints Markdown, and writes it to target/bench-FUNCTION.md, bench-scan.md or bench-peer.md; with --record also to docs/measurements.md. A missed
target fails only with --check, because figures depend on the machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import measure, peer, report
from .measure import REPOSITORY, Runs
from .report import Verdict
from .served import serving
from .subjects import ENDPOINTS, INSTANCES, SCAN, SUBJECTS, VOLUMES, Subject

_DOCS = REPOSITORY / "docs" / "measurements.md"
_BINARIES = REPOSITORY / "target" / "release"
_COUNTS = {"functions": "1000,10000,50000", "scan": "10000", "peer": "1000,10000"}
_FUNCTIONS = [INSTANCES, VOLUMES, ENDPOINTS]


def main() -> int:
    asked = _asked()
    names = ["curfew"] if asked.what == "scan" else [one.function for one in asked.subjects]
    absent = [name for name in names if not _binary(asked, name).is_file()]
    if absent:
        packages = " ".join(f"--package {'cli' if name == 'curfew' else name}" for name in absent)
        print(f"{_binary(asked, absent[0])} is not there: cargo build --release --locked {packages}", file=sys.stderr)
        return 2
    if asked.what == "peer":
        return _told(asked, "make bench-peer", *_peer(asked))
    place = "make bench-scan" if asked.what == "scan" else "make bench: {0}"
    return max([_told(asked, place.format(one.function), *_subject(asked, one)) for one in asked.subjects])


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("what", nargs="?", choices=_COUNTS, default="functions")
    parser.add_argument("--function", choices=[one.function for one in _FUNCTIONS], help="this one only")
    parser.add_argument("--counts", help=f"instances or volumes, comma-separated ({_COUNTS})")
    parser.add_argument("--repeats", type=int, help="of each run (5; beside Cloud Custodian 3)")
    parser.add_argument("--starts", type=int, default=20, help="of the process, to its first poll (20)")
    parser.add_argument("--binary", type=Path, help="another one of --function")
    parser.add_argument("--record", action="store_true", help="put the figures into docs/measurements.md")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    asked = parser.parse_args()
    if asked.binary and asked.what == "functions" and not asked.function:
        parser.error("--binary wants --function")
    subjects = {"functions": _FUNCTIONS, "scan": [SCAN], "peer": [INSTANCES]}[asked.what]
    asked.subjects = [SUBJECTS[asked.function]] if asked.function and asked.what == "functions" else subjects
    asked.counts = [int(one) for one in (asked.counts or _COUNTS[asked.what]).split(",")]
    asked.repeats = asked.repeats or (3 if asked.what == "peer" else 5)
    return asked


def _binary(asked: argparse.Namespace, name: str) -> Path:
    return asked.binary or _BINARIES / name


def _told(asked: argparse.Namespace, place: str, parts: dict[str, str], found: list[Verdict]) -> int:
    """`place` is where the page has these figures."""
    path = REPOSITORY / "target" / f"{place.removeprefix('make ').replace(': ', '-')}.md"
    medians = f"Medians of {asked.repeats} (least–most).\n"
    head = {title: f"{report.machine()}\n{text} {medians}" for title, text in list(parts.items())[:1]}
    text = report.document({**parts, **head}, found)
    path.write_text(text)
    print(text)
    if asked.record:
        _DOCS.write_text(report.recorded(_DOCS.read_text(), place, text))
    missed = sum(not one.is_met for one in found)
    print(f"{len(found) - missed} targets met, {missed} MISSED. Written to {path.relative_to(REPOSITORY)}\n", flush=True)
    return 1 if missed and asked.check else 0


def _subject(asked: argparse.Namespace, subject: Subject) -> tuple[dict[str, str], list[Verdict]]:
    binary = _binary(asked, "curfew" if subject is SCAN else subject.function)
    start = None if subject is SCAN else measure.starts(binary, asked.starts)
    by_kind: dict[str, list[Runs]] = {kind: [] for kind in subject.kinds.values()}
    for count in asked.counts:
        with serving(subject.function, count) as served:
            _progress(f"{count:,} {subject.noun}s, {asked.repeats} times")
            kib = served.rendered_bytes / count / 1024
            for kind, runs in zip(by_kind, measure.repeated(served, binary, asked.repeats)):
                by_kind[kind].append(runs)
    parts = {"Where, and what": subject.described(kib)}
    parts |= {title: report.runs_table(subject.noun, by_kind[kind]) for title, kind in subject.kinds.items()}
    columns = {f"{kind.removesuffix(' run')}, {one.count:,}": one for kind, runs in by_kind.items() for one in runs}
    parts["AWS calls"] = report.calls_table(columns)
    found = [one for kind, runs in by_kind.items() for one in report.verdicts(subject, kind, runs)]
    if start is not None:
        parts["Start"] = report.starts_table(*start, binary.stat().st_size)
        found.append(report.start_verdict(start[0]))
    return parts, found


def _peer(asked: argparse.Namespace) -> tuple[dict[str, str], list[Verdict]]:
    comparisons = []
    for count in asked.counts:
        with serving(INSTANCES.function, count) as served:
            _progress(f"{count:,} instances, {asked.repeats} times the reaper and Cloud Custodian")
            first, second = measure.repeated(served, _binary(asked, INSTANCES.function), asked.repeats)
            custodian = Runs(count, tuple(peer.scan(served) for _ in range(asked.repeats)))
            comparisons.append({peer.FIRST: first, peer.SECOND: second, peer.PEER: custodian})
    columns = {f"{name}, {runs.count:,}": runs for comparison in comparisons for name, runs in comparison.items()}
    parts = {
        "Where, and what": f"{peer.version()}.",
        "The same fleet": peer.comparison_table(comparisons),
        "AWS calls": report.calls_table(columns),
        "Start": peer.starts_table(asked.starts),
    }
    return parts, list(peer.verdicts(comparisons))


def _progress(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
