"""Submits the job that the environment names, waits for it, and says its id and its cost to the workflow."""

from __future__ import annotations

import os
import signal
import sys

import curfew


def output(name: str, value: object) -> None:
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        file.write(f"{name}={value}\n")


def main() -> int:
    minutes = os.environ.get("TIMEOUT_MINUTES")
    # A workflow that is cancelled sends SIGINT, and SIGTERM a few seconds later.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        job = curfew.submit(os.environ["SPEC"], team=os.environ.get("TEAM") or None, yes=True)
    except curfew.CurfewError as error:
        print(f"::error::{error}")
        return 1
    output("job", job.id)
    print(f"submitted {job.id}", flush=True)
    try:
        status = job.wait(timeout=float(minutes) * 60 if minutes else None, poll=float(os.environ.get("POLL_SECONDS", "30")))
    except curfew.JobFailed as error:
        output("cost-usd-max", error.status.cost_usd_max)
        print(f"::error::{error}")
        return 1
    except (curfew.WaitTimedOut, KeyboardInterrupt) as error:
        job.cancel()
        print(f"::error::{error or 'the workflow was cancelled'}; the job is cancelled, too")
        return 1
    output("cost-usd-max", status.cost_usd_max)
    print(f"{job.id} has {status.state}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
