"""`python -m demo`: plays the story on a local AWS, and fails where it ends otherwise."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from local_aws import running

from . import box, budgets, jobs, show
from .fleet import REGIONS
from .run import REPOSITORY, Run
from .screen import Progress, heading, line, paint, paragraph
from .seed import Account, seed
from .story import play
from .supervisor import supervise

_COPIES = REPOSITORY / "target" / "demo"

def main() -> int:
    return supervise("demo", lambda sockets: _demo(sockets))


def _demo(sockets: Path) -> int:
    began = time.monotonic()
    with _account() as account:
        heading("The account")
        show.account(account)
        played = play(account)
        spent = budgets.play(account)
        lived = jobs.play(account, sockets)
        worked = box.play(account, sockets)
        functions = [played.instances, played.volumes, [*spent, *lived.beats], lived.runs]
        copies = str(_keep_copies(functions).relative_to(REPOSITORY))
        show.trail(functions, copies)
    heading("The end")
    records = [*(run.record for run in played.instances), played.applied]
    ended = [step for record in records for step in record["steps"] if _done(step, "stop", "terminate")]
    observed = [step for step in played.instances[1].record["steps"] if step["outcome"] == "observed"]
    deleted = [step for run in played.volumes for step in run.record["steps"] if _done(step, "delete")]
    volumes = [step for step in deleted if step["evidence"]["rule"] == "orphaned"]
    paragraph(f"{len(ended)} machines were stopped or terminated, which saves {show.savings(ended)}.")
    paragraph(f"{len(observed)} more are in observe mode: {show.savings(observed)}.")
    paragraph(f"{len(volumes)} volumes were deleted, which saves {show.savings(volumes)}. One of them is back.")
    paragraph(f"{budgets.TEAM} was notified at 80 % and at 100 % of its budget, and is held.")
    paragraph(f"The job {jobs.NAME} lost two machines, and succeeded on the third, as if nothing had happened.")
    if worked:
        paragraph(f"The box {box.NAME} came up in another zone, with its home as it was.")
    paragraph(f"The local AWS is stopped. It took {time.monotonic() - began:.0f} s.")
    line(paint("Machines, volumes, budgets and jobs ended as expected.", "bold", "green"))
    return 0


@contextmanager
def _account() -> Iterator[Account]:
    progress = Progress("Building a believable account on a local AWS")
    with running(regions=REGIONS) as aws:
        began = time.monotonic()
        account = seed(aws, progress)
        progress.done(f"{time.monotonic() - began:.1f} s, at {aws.endpoint}")
        yield account


def _done(step: dict, *actions: str) -> bool:
    return step["action"] in actions and step["outcome"] == "done"


def _keep_copies(functions: list[list[Run]]) -> Path:
    """The bucket goes with the local AWS: what a person may want to read afterwards stays under target/."""
    shutil.rmtree(_COPIES, ignore_errors=True)
    recorded = ([run for run in runs if run.audit_key] for runs in functions)
    for number, run in chain(*(enumerate(runs, 1) for runs in recorded)):
        folder = _COPIES / f"run-{number}" / run.record["function"]
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(run.audit_text)
        for message in run.messages:
            text = f"Subject: {message['subject']}\n\n{message['message']}\n"
            (folder / f"to-{message['attributes']['team']}.txt").write_text(text)
    return _COPIES


if __name__ == "__main__":
    sys.exit(main())
