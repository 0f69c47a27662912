"""Cloud Custodian on the same answers: `custodian run --dryrun` of the policy beside this file.

What the two do alike, and what Cloud Custodian cannot express, is said in docs/measurements.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import measure, process
from .fleet import IDLES, REGION, fleet
from .measure import REPOSITORY, Runs, Spread, Usage
from .report import Verdict, table, table_of_calls
from .served import Served

CPU_RATIO_MIN = 30
TARGET_COUNT = 10_000

POLICY = Path(__file__).with_name("custodian.yml")
_POLICY_NAME = "idle-gpus"
_BIN = REPOSITORY / "target" / "venv-peer" / "bin"


def version() -> str:
    freeze = subprocess.run([_BIN / "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    wanted = ("c7n==", "boto3==", "botocore==")
    return "Cloud Custodian: " + ", ".join(line for line in freeze.split() if line.startswith(wanted))


def scans(served: Served, repeats: int) -> Runs:
    return Runs(served.count, tuple(_scan(served) for _ in range(repeats)))


def _scan(served: Served) -> Usage:
    served.forget()
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["run", "--dryrun", "--output-dir", folder, "--region", REGION, "--cache-period", "0", POLICY]
        used, said = _run([_BIN / "custodian", *arguments], served.address, folder)
        found = Path(folder, _POLICY_NAME, "resources.json")
        resources = json.loads(found.read_text()) if found.is_file() else []
    told = served.told()
    meant = {machine.id for machine in fleet(served.count) if machine.usage == IDLES}
    wrong = list(told["refused"])
    if used.code != 0 or {one["InstanceId"] for one in resources} != meant:
        wrong.append(f"exit status {used.code}, {len(resources)} of {len(meant)} idle instances found: {said[-500:]}")
    return Usage(used.cpu_seconds, used.wall_seconds, used.peak_mib, told["calls"], told["metrics_asked"], tuple(wrong))


def _run(command: list[str | Path], address: str, folder: str) -> tuple[process.Used, str]:
    """What it took, and what it said."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": folder,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": address,
    }
    with tempfile.TemporaryFile() as log:
        used = process.run(command, environment, log, log)
        log.seek(0)
        return used, log.read().decode("utf-8", "replace")


@dataclass(frozen=True)
class Compared:
    """On one fleet. Every run of Cloud Custodian is a first one: it remembers nothing."""

    first: Runs
    second: Runs
    theirs: Runs

    @property
    def cpu_ratio(self) -> float:
        return _ratio(self.first.cpu_seconds, self.theirs.cpu_seconds)

    @property
    def by_name(self) -> dict[str, Runs]:
        ours = {"reap-instances, first": self.first, "reap-instances, second": self.second}
        return {**ours, "Cloud Custodian": self.theirs}


def compare(served: Served, binary: Path, repeats: int) -> Compared:
    return Compared(*measure.scans(served, binary, repeats), scans(served, repeats))


def comparison(compared: list[Compared]) -> str:
    rows = []
    for one in compared:
        for name, runs in one.by_name.items():
            figures = [f"{runs.cpu_seconds:.2f}", f"{runs.wall_seconds:.2f}", f"{runs.peak_mib:.1f}"]
            rows.append([f"{runs.count:,}: {name}", *figures, f"{_calls(runs):,}"])
        for name, runs in (("first", one.first), ("second", one.second)):
            ratios = [
                _ratio(runs.cpu_seconds, one.theirs.cpu_seconds),
                _ratio(runs.wall_seconds, one.theirs.wall_seconds),
                _ratio(runs.peak_mib, one.theirs.peak_mib),
                _calls(one.theirs) / _calls(runs),
            ]
            title = f"{runs.count:,}: Cloud Custodian to the {name} run"
            rows.append([title, *(f"x {ratio:.1f}" for ratio in ratios)])
    return table(["", "CPU s", "wall s", "peak MiB", "AWS calls"], rows)


def calls_table(compared: list[Compared]) -> str:
    return table_of_calls(
        {f"{name}, {runs.count:,}": runs for one in compared for name, runs in one.by_name.items()}
    )


def starts_table(count: int) -> str:
    """What a function in Python pays before its first line, and what Cloud Custodian does."""
    commands = {
        "python -c 'import boto3'": [_BIN / "python", "-c", "import boto3"],
        "custodian version": [_BIN / "custodian", "version"],
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands.items():
            used = [_run(command, "http://127.0.0.1:9", folder)[0] for _ in range(count + 1)][1:]  # the first reads the disk
            wall, cpu = Spread(tuple(one.wall_seconds for one in used)), Spread(tuple(one.cpu_seconds for one in used))
            rows.append([f"`{name}`", f"{wall.median * 1000:.0f}", f"{cpu.median * 1000:.0f}"])
    return table([f"medians of {count}", "wall ms", "CPU ms"], rows)


def verdicts(compared: list[Compared]) -> list[Verdict]:
    """The target is of the first run, which does what Cloud Custodian does."""
    found = []
    for one in compared:
        count = one.first.count
        if count == TARGET_COUNT:
            target = f"{count:,}: the first run takes at least {CPU_RATIO_MIN} times less CPU"
            found.append(Verdict(target, f"x {one.cpu_ratio:.1f}", one.cpu_ratio >= CPU_RATIO_MIN))
        wrong = one.first.wrong + one.second.wrong + one.theirs.wrong
        target = f"{count:,}: both find exactly the idle ones"
        found.append(Verdict(target, "; ".join(wrong) or "they do", not wrong))
    return found


def _calls(runs: Runs) -> int:
    return sum(runs.calls.values())


def _ratio(ours: Spread, theirs: Spread) -> float:
    return theirs.median / ours.median
