"""Submits the job that the environment names, waits for it, and says its id and its cost to the workflow."""

from __future__ import annotations

import os
import signal
import sys

import curfew


def output(name: str, value: object) -> None:
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        file.write(f"{name}={value}\n")


def one_line(error: BaseException) -> str:
    """An annotation ends with its line."""
    return " ".join(str(error).split())


def cancel(job: curfew.Job) -> str:
    # The second signal would end this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        job.cancel()
    except curfew.CurfewError as error:
        return f"the job could not be cancelled, and continues: {one_line(error)}; cancel it: curfew cancel {job.id}"
    return "the job is cancelled, too"


def main() -> int:
    minutes = os.environ.get("TIMEOUT_MINUTES")
    # A workflow that is cancelled sends SIGINT, and SIGTERM a few seconds later.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        job = curfew.submit(os.environ["SPEC"], team=os.environ.get("TEAM") or None, yes=True)
    except curfew.SubmissionUnanswered as error:
        output("job", error.job.id)
        print(f"::error::{one_line(error)}")
        return 1
    except curfew.CurfewError as error:
        print(f"::error::{one_line(error)}")
        return 1
    output("job", job.id)
    print(f"submitted {job.id}", flush=True)
    try:
        status = job.wait(timeout=float(minutes) * 60 if minutes else None, poll=float(os.environ.get("POLL_SECONDS", "30")))
    except curfew.JobFailed as error:
        output("cost-usd-max", error.status.cost_usd_max)
        print(f"::error::{one_line(error)}")
        return 1
    except (curfew.CurfewError, KeyboardInterrupt) as error:
        # Nobody looks after the job any more.
        print(f"::error::{one_line(error) or 'the workflow was cancelled'}; {cancel(job)}")
        return 1
    output("cost-usd-max", status.cost_usd_max)
    print(f"{job.id} has {status.state}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
