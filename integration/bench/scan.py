"""`curfew scan` measured: one process a scan, as a person starts it, over an account in which nothing is deployed."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from . import process, report
from .accounts import AT_HOME_PERCENT, REGIONS
from .fleet import IDLES, REGION, fleet
from .measure import Runs, Usage
from .report import Verdict
from .served import Served
from .storage import ATTACHED, storage

PEAK_MIB_BELOW = 128
_FOUND = 1  # the exit code


def scans(served: Served, binary: Path, repeats: int) -> Runs:
    return Runs(served.count, tuple(scan(served, binary) for _ in range(repeats)))


def scan(served: Served, binary: Path) -> Usage:
    served.forget()
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
    env = {**keys, "AWS_ENDPOINT_URL": served.address, "AWS_REGION": REGION}
    with tempfile.TemporaryDirectory() as folder:
        out, config = (Path(folder) / name for name in ("out", "curfew.toml"))
        config.touch()  # the defaults, so that no deployment is looked for
        with out.open("w") as stdout:
            used = process.run([binary, "scan", "--json", "--quiet", "--config", config], env, stdout)
        document = json.loads(out.read_text())
    told = served.told()
    wrong = tuple([*_differences(served.count, used.code, document), *told["refused"]])
    return Usage(used.cpu_seconds, used.wall_seconds, used.peak_mib, told["calls"], told["metrics_asked"], wrong)


def _differences(count: int, code: int, document: dict[str, Any]) -> list[str]:
    """A fast scan that judges wrongly is no measurement."""
    unattached = sum(volume.usage != ATTACHED for volume in storage(count).volumes)
    idle = sum(machine.usage == IDLES for machine in fleet(count))
    kinds = Counter(kind for finding in document["findings"] for kind in finding["kinds"])
    pairs = {
        "exit code": (code, _FOUND),
        "regions": (document["regions"], sorted(REGIONS)),
        "seen": (document["seen"], {"instances": count, "volumes": unattached, "unjudged": 0}),
        "findings": (dict(kinds), {"idle": idle, "orphaned": unattached}),
        "gaps": ([f"{gap['call']}: {gap['error']}" for gap in document["gaps"]], []),
    }
    return [f"{what} {told}, not {meant}" for what, (told, meant) in pairs.items() if told != meant]


def verdicts(runs: list[Runs]) -> list[Verdict]:
    wrong = [f"{one.count:,}: {text}" for one in runs for text in one.wrong]
    right = Verdict("everything is judged as it was made", "; ".join(wrong) or "it is", not wrong)
    peaks = [
        Verdict(
            f"peak memory of {one.count:,} instances in {len(REGIONS)} regions below {PEAK_MIB_BELOW} MiB",
            f"{max(one.peak_mib.values):.0f} MiB at most",
            max(one.peak_mib.values) < PEAK_MIB_BELOW,
        )
        for one in runs
    ]
    return [right, *peaks]


def described(binary: Path) -> str:
    return (
        f"`{os.path.relpath(binary)}`. The instances and, of as many volumes, those attached to nothing lie in "
        f"{len(REGIONS)} regions, {AT_HOME_PERCENT} % in the first. Nothing is deployed.\n"
    )


def runs_table(runs: list[Runs]) -> str:
    rows = [
        (
            f"{one.count:,}",
            f"{one.cpu_seconds:.2f}",
            f"{one.wall_seconds:.1f}",
            f"{one.peak_mib:.0f}",
            f"{sum(one.calls.values()):,}",
            f"{max(run.metrics_asked for run in one.runs):,}",
        )
        for one in runs
    ]
    return report.table(["instances", "CPU s", "wall s", "peak MiB", "calls", "metrics"], rows)


def calls_table(runs: list[Runs]) -> str:
    return report.table_of_calls({f"{one.count:,}": one for one in runs})
