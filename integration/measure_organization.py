"""Measures a scan of many accounts on the local AWS: `make measure-organization`, or

    PYTHONPATH=integration:integration/tests target/venv/bin/python integration/measure_organization.py --accounts 200

Each account has GPU instances in three of 17 regions and unattached volumes in two. One account in fifty refuses. The local AWS carries out one call
at a time, so the wall time is that of the local AWS, and an upper bound; CPU and peak memory are the kernel's account of the command (`wait4`, `VmHWM`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

REGIONS = (
    *("ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ca-central-1"),
    *("eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2"),
)
TEAMS = ("vision", "nlp", "audio")


def peak_kib(pid: int) -> int:
    """The most resident memory so far, since its exec: that of `wait4` begins with the memory of this process."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def main() -> None:
    from command import COMMAND
    from local_aws import running
    from organization import Organization

    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--accounts", type=int, default=200)
    arguments.add_argument("--command", type=Path, default=COMMAND)
    asked = arguments.parse_args()
    with running(regions=REGIONS) as aws, tempfile.TemporaryDirectory() as folder:
        company = Organization(aws)
        for number in range(asked.accounts - 1):  # the hub is one of them
            member = company.member(f"{number + 1:012d}", f"account-{number}")
            for place, team in enumerate(TEAMS):
                member.gpu(region=REGIONS[(number + place) % len(REGIONS)], tags={"Team": team})
            for place in range(2):
                member.volume(region=REGIONS[(number + place) % len(REGIONS)])
            if number % 50 == 49:
                company.refuse(f"{number + 1:012d}")
        aws.clear_calls()
        out, file = Path(folder) / "out.json", Path(folder) / "accounts.jsonl"
        start = time.monotonic()
        with out.open("wb") as into:
            command = [asked.command, "scan", "--organization", "--json", "--quiet", "--resume", str(file)]
            process = subprocess.Popen(command, env=aws.environment(), stdout=into, stderr=subprocess.DEVNULL)
            peak = 0
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                peak = max(peak, peak_kib(process.pid))
                time.sleep(0.05)
            _, status, used = ended
        wall, calls = time.monotonic() - start, sum(aws.counts().values())
        found = json.loads(out.read_text())
        assert os.waitstatus_to_exitcode(status) == 1 and not found["unanswered"]
        read, refused = len(found["accounts"]), len(found["refused"])
        assert read + refused == asked.accounts and refused == (asked.accounts - 1) // 50
        assert found["total"]["instances"] == len(TEAMS) * (read - 1), found["total"]
        assert not any(one["gaps"] for one in found["accounts"])
        print("| accounts | regions each | refused | calls | wall s | CPU s | peak MiB | result MiB |\n|---:|---:|---:|---:|---:|---:|---:|---:|")
        figures = f"{wall:.0f} | {used.ru_utime + used.ru_stime:.1f} | {peak / 1024:.0f} | {out.stat().st_size / 2**20:.1f}"
        print(f"| {asked.accounts} | {len(REGIONS)} | {refused} | {calls:,} | {figures} |")


if __name__ == "__main__":
    main()
