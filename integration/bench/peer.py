"""Cloud Custodian on the same answers: `custodian run --dryrun` of the policy beside this file.

What the two do alike, and what Cloud Custodian cannot express, is said in docs/measurements.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from .fleet import IDLES, REGION, fleet
from .measure import REPOSITORY, Runs, Spread, Usage
from .report import TARGET_INSTANCES, Verdict, table, table_of_calls
from .served import Served

CPU_RATIO_MIN = 30

POLICY = Path(__file__).with_name("custodian.yml")
_POLICY_NAME = "idle-gpus"
_BIN = REPOSITORY / "target" / "venv-peer" / "bin"


def version() -> str:
    freeze = subprocess.run([_BIN / "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    wanted = ("c7n==", "boto3==", "botocore==")
    return "Cloud Custodian: " + ", ".join(line for line in freeze.split() if line.startswith(wanted))


def scans(served: Served, repeats: int) -> Runs:
    return Runs(served.instances, tuple(_scan(served) for _ in range(repeats)))


def _scan(served: Served) -> Usage:
    served.forget()
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["run", "--dryrun", "--output-dir", folder, "--region", REGION, "--cache-period", "0", POLICY]
        status, cpu_seconds, wall_seconds, peak_mib, said = _timed([_BIN / "custodian", *arguments], served, folder)
        found = Path(folder, _POLICY_NAME, "resources.json")
        resources = json.loads(found.read_text()) if found.is_file() else []
    told = served.told()
    meant = {machine.id for machine in fleet(served.instances) if machine.usage == IDLES}
    wrong = list(told["refused"])
    if status != 0 or {one["InstanceId"] for one in resources} != meant:
        wrong.append(f"exit status {status}, {len(resources)} of {len(meant)} idle instances found: {said[-500:]}")
    return Usage(cpu_seconds, wall_seconds, peak_mib, told["calls"], told["metrics_asked"], tuple(wrong))


def _timed(command: list, served: Served | None, folder: str) -> tuple[int, float, float, float, str]:
    """Exit status; CPU, wall and peak memory of the process and of those that it waited for; what it said."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": folder,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": served.address if served else "http://127.0.0.1:9",
    }
    with tempfile.TemporaryFile() as log:
        began = time.monotonic()
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    return process.returncode, used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024, said


def comparison(compared: list[tuple[Runs, Runs]]) -> str:
    rows = []
    for ours, theirs in compared:
        for name, one in (("reap-instances", ours), ("Cloud Custodian", theirs)):
            figures = [f"{one.cpu_seconds:.2f}", f"{one.wall_seconds:.2f}", f"{one.peak_mib:.1f}"]
            rows.append([f"{one.instances:,}: {name}", *figures, f"{sum(one.calls.values()):,}"])
        ratios = [_ratio(ours.cpu_seconds, theirs.cpu_seconds), _ratio(ours.wall_seconds, theirs.wall_seconds)]
        ratios += [_ratio(ours.peak_mib, theirs.peak_mib), sum(theirs.calls.values()) / sum(ours.calls.values())]
        rows.append([f"{ours.instances:,}: ratio", *(f"x {ratio:.1f}" for ratio in ratios)])
    return table(["", "CPU s", "wall s", "peak MiB", "AWS calls"], rows)


def calls_table(compared: list[tuple[Runs, Runs]]) -> str:
    columns = {}
    for ours, theirs in compared:
        columns |= {f"reap-instances, {ours.instances:,}": ours, f"Cloud Custodian, {theirs.instances:,}": theirs}
    return table_of_calls(columns)


def starts_table(count: int) -> str:
    """What a function in Python pays before its first line, and what Cloud Custodian does."""
    commands = {
        "python -c 'import boto3'": [_BIN / "python", "-c", "import boto3"],
        "custodian version": [_BIN / "custodian", "version"],
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands.items():
            measured = [_timed(command, None, folder) for _ in range(count + 1)][1:]  # the first reads the disk
            wall, cpu = Spread(tuple(one[2] for one in measured)), Spread(tuple(one[1] for one in measured))
            rows.append([f"`{name}`", f"{wall.median * 1000:.0f}", f"{cpu.median * 1000:.0f}"])
    return table([f"medians of {count}", "wall ms", "CPU ms"], rows)


def verdicts(compared: list[tuple[Runs, Runs]]) -> list[Verdict]:
    found = []
    for ours, theirs in compared:
        ratio, wrong = _ratio(ours.cpu_seconds, theirs.cpu_seconds), ours.wrong + theirs.wrong
        if ours.instances == TARGET_INSTANCES:
            target = f"{ours.instances:,}: at least {CPU_RATIO_MIN} times less CPU"
            found.append(Verdict(target, f"x {ratio:.1f}", ratio >= CPU_RATIO_MIN))
        target = f"{ours.instances:,}: both find exactly the idle ones"
        found.append(Verdict(target, "; ".join(wrong) or "they do", not wrong))
    return found


def _ratio(ours: Spread, theirs: Spread) -> float:
    return theirs.median / ours.median
