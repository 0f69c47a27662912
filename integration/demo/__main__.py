"""`python -m demo`: plays the story on a local AWS, and fails where it ends otherwise."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_aws import running

from . import show, show_volumes, verdict, verdict_volumes
from .fleet import REGIONS
from .run import REPOSITORY, Broken
from .screen import Progress, heading, line, paint, paragraph
from .seed import Account, seed
from .story import Played, play

_COPIES = REPOSITORY / "target" / "demo"


class _Interrupted(BaseException):
    """A signal: everything that was started is stopped on the way out."""

    def __init__(self, number: int) -> None:
        self.number = number


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return _demo()
    except _Interrupted as interrupted:
        line("\nInterrupted; the local AWS is stopped.")
        return 128 + interrupted.number
    except BrokenPipeError:
        # `python -m demo | head`: whoever has read enough. What is left to be written at the exit goes nowhere either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Broken as broken:
        line(paint(f"\nFAILED: {broken}", "bold", "red"))
        return 1


def _interrupt(number: int, _frame: object) -> None:
    """Only the first counts: a second Ctrl-C must not leave something behind."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    raise _Interrupted(number)


def _demo() -> int:
    began = time.monotonic()
    with _account() as account:
        heading("The account")
        show.fleet(account)
        show_volumes.storage(account)
        played = play(account)
        copies = str(_keep_copies(played).relative_to(REPOSITORY))
        show.audit(played.instances, played.volumes, played.applied, account.id_of("sweep-lr"), copies)
        show.calls(played.instances, played.volumes)
        wrong = [*verdict.differences(played.instances, played.applied, account), *verdict_volumes.differences(played, account)]
    heading("The end")
    records = [*(run.record for run in played.instances), played.applied]
    ended = [step for record in records for step in record["steps"] if _done(step, "stop", "terminate")]
    observed = [step for step in played.instances[1].record["steps"] if step["outcome"] == "observed"]
    deleted = [step for run in played.volumes for step in run.record["steps"] if _done(step, "delete")]
    volumes = [step for step in deleted if step["because"]["rule"] == "orphaned"]
    paragraph(f"{len(ended)} machines were sent home, which saves {show.savings(ended)}.")
    paragraph(f"{len(observed)} more would have been, but are in observe mode: {show.savings(observed)}.")
    paragraph(f"{len(volumes)} volumes were deleted, which saves {show_volumes.savings(volumes)}. One of them is back.")
    paragraph(f"The local AWS is stopped. It took {time.monotonic() - began:.0f} s.")
    for one in wrong:
        line(paint(f"not as in the story: {one}", "red"))
    line(
        paint(f"FAILED: {len(wrong)} differences from the story", "bold", "red")
        if wrong
        else paint("Every machine and every volume met the fate that the story has for it.", "bold", "green")
    )
    return 1 if wrong else 0


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


def _keep_copies(played: Played) -> Path:
    """The bucket goes with the local AWS: what a person may want to read afterwards stays under target/."""
    shutil.rmtree(_COPIES, ignore_errors=True)
    runs = [*enumerate(played.instances, 1), *enumerate(played.volumes, 1)]
    for number, run in runs:
        folder = _COPIES / f"run-{number}" / run.record["function"]
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(run.audit_text)
        for message in run.messages:
            text = f"Subject: {message['subject']}\n\n{message['message']}\n"
            (folder / f"to-{message['attributes']['team']}.txt").write_text(text)
    return _COPIES


if __name__ == "__main__":
    sys.exit(main())
