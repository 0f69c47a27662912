"""`python -m bench`: measures the release binaries. `python -m bench peer`: Cloud Custodian beside that of instances.
`python -m bench scan`: the command `curfew scan`. `python -m bench agent`: the agent beside `aws s3 cp`.

Prints Markdown, and writes it to target/bench-FUNCTION.md, bench-peer.md, bench-scan.md or bench-agent.md there; with --record also to
docs/measurements.md. A missed target is said, and fails only with --check, because figures depend on the machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import agent, measure, peer, report
from .agent_checkpoint import FULL
from .measure import REPOSITORY, Runs
from .report import Verdict
from .served import serving
from .subjects import INSTANCES, SCAN, SUBJECTS, VOLUMES, Subject

_DOCS = REPOSITORY / "docs" / "measurements.md"
_BINARIES = REPOSITORY / "target" / "release"
_COUNTS = {"functions": "1000,10000,50000", "peer": "1000,10000", "scan": "10000", "agent": "1"}


def main() -> int:
    asked = _asked()
    names = {"scan": ["curfew"], "agent": ["agent"]}.get(asked.what) or [one.function for one in asked.subjects]
    absent = [name for name in names if not _binary(asked, name).is_file()]
    if absent:
        packages = " ".join(f"--package {'cli' if name == 'curfew' else name}" for name in absent)
        print(f"{_binary(asked, absent[0])} is not there: cargo build --release --locked {packages}", file=sys.stderr)
        return 2
    if asked.what in ("peer", "agent"):
        return _told(asked, f"make bench-{asked.what}", *(_peer if asked.what == "peer" else _agent)(asked))
    place = "make bench-scan" if asked.what == "scan" else "make bench: {0}"
    return max([_told(asked, place.format(one.function), *_subject(asked, one)) for one in asked.subjects])


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("what", nargs="?", choices=_COUNTS, default="functions")
    parser.add_argument("--function", choices=[INSTANCES.function, VOLUMES.function], help="this one only")
    parser.add_argument("--counts", help=f"instances or volumes, comma-separated ({_COUNTS})")
    parser.add_argument("--repeats", type=int, help="of each run (5; the peer's: 3)")
    parser.add_argument("--seconds", type=float, default=90, help="that the agent is watched while it is idle (90)")
    parser.add_argument("--starts", type=int, default=20, help="of the process, to its first poll (20)")
    parser.add_argument("--binary", type=Path, help="another one of --function")
    parser.add_argument("--record", action="store_true", help="put the figures into docs/measurements.md")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    asked = parser.parse_args()
    if asked.binary and asked.what == "functions" and not asked.function:
        parser.error("--binary wants --function")
    subjects = {"functions": [INSTANCES, VOLUMES], "peer": [INSTANCES], "scan": [SCAN], "agent": []}[asked.what]
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
    compared = []
    for count in asked.counts:
        with serving(INSTANCES.function, count) as served:
            _progress(f"{count:,} instances, {asked.repeats} times Cloud Custodian and the reaper")
            ours = measure.repeated(served, _binary(asked, INSTANCES.function), asked.repeats)
            theirs = Runs(count, tuple(peer.scan(served) for _ in range(asked.repeats)))
            compared.append({**dict(zip(peer.OURS, ours)), peer.THEIRS: theirs})
    parts = {
        "Where, and what": f"{peer.version()}.",
        "The same fleet": peer.comparison(compared),
        "AWS calls": report.calls_table({f"{name}, {runs.count:,}": runs for one in compared for name, runs in one.items()}),
        "Start": peer.starts_table(asked.starts),
    }
    return parts, list(peer.verdicts(compared))


def _agent(asked: argparse.Namespace) -> tuple[dict[str, str], list[Verdict]]:
    binary = _binary(asked, "agent")
    _progress(f"{FULL}: {asked.repeats} times each, and {2 * asked.seconds:.0f} s idle")
    measured = agent.measure(binary, FULL, asked.repeats, asked.seconds)
    parts = {
        "Where, and what": agent.described(measured, binary),
        "Transfers": agent.transfers_table(measured),
        "Idle": agent.idle_table(measured),
    }
    return parts, list(agent.verdicts(measured))


def _progress(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
