"""Cloud Custodian on the same answers: `custodian run --dryrun` of the policy beside this file.

docs/measurements.md has what the two do alike, and what Cloud Custodian cannot express.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import process
from .fleet import IDLES, REGION, fleet
from .measure import REPOSITORY, Runs, Spread, Usage
from .report import Verdict, table
from .served import Served

POLICY = Path(__file__).with_name("custodian.yml")
FIRST, SECOND, PEER = "reap-instances, first", "reap-instances, second", "Cloud Custodian"

_CPU_RATIO_MIN = 30
_TARGET_COUNT = 10_000
_POLICY_NAME = "idle-gpus"
_BIN = REPOSITORY / "target" / "venv-peer" / "bin"
_FIGURES = ("cpu_seconds", "wall_seconds", "peak_mib")
_OUTPUT_SHOWN = 500

Comparison = dict[str, Runs]  # on one fleet, by name; every run of Cloud Custodian is a first one, since it remembers nothing


def version() -> str:
    freeze = subprocess.run([_BIN / "python", "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    packages = ("c7n==", "boto3==", "botocore==")
    return "Cloud Custodian: " + ", ".join(line for line in freeze.split() if line.startswith(packages))


def scan(served: Served) -> Usage:
    served.forget()
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["run", "--dryrun", "--output-dir", folder, "--region", REGION, "--cache-period", "0", POLICY]
        used, output = _run([_BIN / "python", _BIN / "custodian", *arguments], served.address, folder)
        found = Path(folder, _POLICY_NAME, "resources.json")
        resources = json.loads(found.read_text()) if found.is_file() else []
    told = served.told()
    idle = {machine.id for machine in fleet(served.count) if machine.usage == IDLES}
    wrong = list(told["refused"])
    if used.code != 0 or {one["InstanceId"] for one in resources} != idle:
        wrong.append(f"exit status {used.code}, {len(resources)} of {len(idle)} idle instances found: {output[-_OUTPUT_SHOWN:]}")
    return Usage(used.cpu_seconds, used.wall_seconds, used.peak_mib, told["calls"], told["metrics_asked"], tuple(wrong))


def _run(command: list[str | Path], address: str, home: str) -> tuple[process.Used, str]:
    """Usage of the process, and its output."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": home,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": address,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with tempfile.TemporaryFile() as log:
        used = process.run(command, environment, log, log)
        log.seek(0)
        return used, log.read().decode("utf-8", "replace")


def comparison_table(comparisons: list[Comparison]) -> str:
    rows = []
    for comparison in comparisons:
        for name, runs in comparison.items():
            cpu, wall, peak = map(runs.spread, _FIGURES)
            rows.append([f"{runs.count:,}: {name}", f"{cpu:.2f}", f"{wall:.2f}", f"{peak:.1f}", f"{runs.calls:,}"])
        peer = comparison[PEER]
        for name in (FIRST, SECOND):
            ours = comparison[name]
            ratios = [peer.spread(figure).median / ours.spread(figure).median for figure in _FIGURES]
            title = f"{ours.count:,}: {PEER} to the {name.partition(', ')[2]} run"
            rows.append([title, *(f"x {ratio:.1f}" for ratio in [*ratios, peer.calls / ours.calls])])
    return table(["", "CPU s", "wall s", "peak MiB", "AWS calls"], rows)


def starts_table(count: int) -> str:
    """Time of a function in Python before its first line, and of Cloud Custodian."""
    commands = {
        "python -c 'import boto3'": [_BIN / "python", "-c", "import boto3"],
        "custodian version": [_BIN / "python", _BIN / "custodian", "version"],
    }
    rows = []
    with tempfile.TemporaryDirectory() as home:
        for name, command in commands.items():
            used = [_run(command, "http://127.0.0.1:9", home)[0] for _ in range(count + 1)][1:]  # the first reads the disk
            wall, cpu = Spread(tuple(one.wall_seconds for one in used)), Spread(tuple(one.cpu_seconds for one in used))
            rows.append([f"`{name}`", f"{wall.median * 1000:.0f}", f"{cpu.median * 1000:.0f}"])
    return table([f"medians of {count}", "wall ms", "CPU ms"], rows)


def verdicts(comparisons: list[Comparison]) -> Iterator[Verdict]:
    """The target is about the first run, which does what Cloud Custodian does."""
    for comparison in comparisons:
        peer = comparison[PEER]
        if peer.count == _TARGET_COUNT:
            ratio = peer.spread("cpu_seconds").median / comparison[FIRST].spread("cpu_seconds").median
            target = f"{peer.count:,}: the first run takes at least {_CPU_RATIO_MIN} times less CPU"
            yield Verdict(target, f"x {ratio:.1f}", ratio >= _CPU_RATIO_MIN)
        wrong = [text for runs in comparison.values() for text in runs.wrong]
        yield Verdict(f"{peer.count:,}: both find exactly the idle ones", "; ".join(wrong) or "they do", not wrong)
