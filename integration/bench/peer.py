"""Cloud Custodian on the same answers: `custodian run --dryrun` of the policy beside this file.

What the two do alike, and what Cloud Custodian cannot express, is said in docs/measurements.md.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import process
from .fleet import IDLES, REGION, fleet
from .measure import REPOSITORY, Runs, Spread, Usage, python_environment
from .report import Verdict, table
from .served import Served

CPU_RATIO_MIN = 30
TARGET_COUNT = 10_000
POLICY = Path(__file__).with_name("custodian.yml")
OURS, THEIRS = ("reap-instances, first", "reap-instances, second"), "Cloud Custodian"

_POLICY_NAME = "idle-gpus"
_BIN = REPOSITORY / "target" / "venv-peer" / "bin"
_FIGURES = ("cpu_seconds", "wall_seconds", "peak_mib")

Compared = dict[str, Runs]  # on one fleet, by name; every run of Cloud Custodian is a first one: it remembers nothing


def version() -> str:
    freeze = subprocess.run([_BIN / "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    wanted = ("c7n==", "boto3==", "botocore==")
    return "Cloud Custodian: " + ", ".join(line for line in freeze.split() if line.startswith(wanted))


def scan(served: Served) -> Usage:
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
    environment = {**python_environment(address, folder), "AWS_EC2_METADATA_DISABLED": "true"}
    with tempfile.TemporaryFile() as log:
        used = process.run(command, environment, log, log)
        log.seek(0)
        return used, log.read().decode("utf-8", "replace")


def comparison(compared: list[Compared]) -> str:
    rows = []
    for one in compared:
        for name, runs in one.items():
            cpu, wall, peak = map(runs.spread, _FIGURES)
            rows.append([f"{runs.count:,}: {name}", f"{cpu:.2f}", f"{wall:.2f}", f"{peak:.1f}", f"{runs.calls:,}"])
        for name in OURS:
            ratios = [one[THEIRS].spread(figure).median / one[name].spread(figure).median for figure in _FIGURES]
            ratios.append(one[THEIRS].calls / one[name].calls)
            title = f"{one[name].count:,}: {THEIRS} to the {name.partition(', ')[2]} run"
            rows.append([title, *(f"x {ratio:.1f}" for ratio in ratios)])
    return table(["", "CPU s", "wall s", "peak MiB", "AWS calls"], rows)


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


def verdicts(compared: list[Compared]) -> Iterator[Verdict]:
    """The target is of the first run, which does what Cloud Custodian does."""
    for one in compared:
        count = one[THEIRS].count
        if count == TARGET_COUNT:
            ratio = one[THEIRS].spread("cpu_seconds").median / one[OURS[0]].spread("cpu_seconds").median
            target = f"{count:,}: the first run takes at least {CPU_RATIO_MIN} times less CPU"
            yield Verdict(target, f"x {ratio:.1f}", ratio >= CPU_RATIO_MIN)
        wrong = [text for runs in one.values() for text in runs.wrong]
        yield Verdict(f"{count:,}: both find exactly the idle ones", "; ".join(wrong) or "they do", not wrong)
