"""`python -m demo`: plays the story on a local AWS, and fails where it ends otherwise."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_aws import running

from . import show
from .fleet import REGIONS
from .run import REPOSITORY, Broken, Run
from .screen import Progress, heading, line, paint, paragraph
from .seed import Account, seed
from .story import play
from .verdict import differences

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
        runs = play(account)
        copies = _keep_copies(runs)
        show.audit(runs, account.id_of("sweep-lr"), str(copies.relative_to(REPOSITORY)))
        show.calls(runs)
        wrong = differences(runs, account)
    heading("The end")
    ended = [step for run in runs for step in run.record["steps"] if _ended(step)]
    observed = [step for step in runs[1].record["steps"] if step["outcome"] == "observed"]
    paragraph(f"{len(ended)} machines were sent home, which saves {show.savings(ended)}.")
    paragraph(f"{len(observed)} more would have been, but are in observe mode: {show.savings(observed)}.")
    paragraph(f"The local AWS is stopped. It took {time.monotonic() - began:.0f} s.")
    for one in wrong:
        line(paint(f"not as in the story: {one}", "red"))
    line(
        paint(f"FAILED: {len(wrong)} differences from the story", "bold", "red")
        if wrong
        else paint("Every machine met the fate that the story has for it.", "bold", "green")
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


def _ended(step: dict) -> bool:
    return step["action"] in ("stop", "terminate") and step["outcome"] == "done"


def _keep_copies(runs: list[Run]) -> Path:
    """The bucket goes with the local AWS: what a person may want to read afterwards stays under target/."""
    shutil.rmtree(_COPIES, ignore_errors=True)
    for number, run in enumerate(runs, 1):
        folder = _COPIES / f"run-{number}"
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(run.audit_text)
        for message in run.messages:
            text = f"Subject: {message['subject']}\n\n{message['message']}\n"
            (folder / f"to-{message['attributes']['team']}.txt").write_text(text)
    return _COPIES


if __name__ == "__main__":
    sys.exit(main())
