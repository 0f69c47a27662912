"""`python -m demo`: plays the story on a local AWS, and fails where it ends otherwise."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from hosts.inside import processes
from local_aws import running

from . import budgets, jobs, show, show_volumes, verdict, verdict_jobs, verdict_volumes
from .fleet import REGIONS
from .run import REPOSITORY, Broken, Run
from .screen import Progress, heading, line, paint, paragraph
from .seed import Account, seed
from .story import play

_COPIES = REPOSITORY / "target" / "demo"

_AWAITED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
_GONE_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.01
_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """Plays in a process group of its own, and here only waits: no signal can come at a moment at which it is lost, or at
    which what was just started is not known yet, and Ctrl-C reaches nothing that would fail of it and be blamed."""
    if sys.platform != "linux":
        line("The demo needs Linux: it boots machines as processes.")
        return 1
    signal.signal(signal.SIGCHLD, lambda *_: None)  # what is ignored, as this is at first, need not be waited for
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    # Whatever loses its parent, be it in a session of its own, becomes a child of this process (PR_SET_CHILD_SUBREAPER(2const)).
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Of sockets the paths have to be short.
    scratch, sockets = tempfile.mkdtemp(), tempfile.mkdtemp(prefix=f"demo-{os.getpid()}-", dir="/tmp")
    player = os.fork()
    if player == 0:
        return _play(scratch, Path(sockets))
    _to_its_group(player)
    try:
        return _wait_for(player)
    finally:
        _end_all()
        for folder in (scratch, sockets):
            shutil.rmtree(folder, ignore_errors=True)


def _wait_for(player: int) -> int:
    while True:
        ended, status = os.waitpid(player, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        number = signal.sigwait(_AWAITED)
        if number != signal.SIGCHLD:
            _end_all()
            with suppress(OSError):  # the terminal is gone, too
                os.write(sys.stdout.fileno(), b"\nInterrupted; nothing of it runs any more.\n")
            return 128 + number


def _play(scratch: str, sockets: Path) -> int:
    _to_its_group(0)
    # It is not in the foreground of the terminal: what it writes is shown all the same, and it reads nothing.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    tempfile.tempdir = os.environ["TMPDIR"] = scratch
    try:
        return _demo(sockets)
    except BrokenPipeError:
        # `python -m demo | head`: whoever has read enough. What is left to be written at the exit goes nowhere either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Broken as broken:
        line(paint(f"\nFAILED: {broken}", "bold", "red"))
        return 1


def _to_its_group(player: int) -> None:
    """Both sides do it, so that it is done whoever comes first."""
    with suppress(OSError):  # it is done, or the player has ended
        os.setpgid(player, player)


def _end_all() -> None:
    """Nothing that descends from here is left when this is over: the player, its functions, and the machines of the job."""
    until = time.monotonic() + _GONE_SECONDS_MAX
    while time.monotonic() < until:
        for pid in processes.descendants({os.getpid()}):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_POLL_SECONDS)


def _demo(sockets: Path) -> int:
    began = time.monotonic()
    with _account() as account:
        heading("The account")
        show.fleet(account)
        show_volumes.storage(account)
        played = play(account)
        spent = budgets.play(account)
        lived = jobs.play(account, sockets)
        functions = [played.instances, played.volumes, [*spent.runs, *lived.beats], lived.runs]
        copies = str(_keep_copies(functions).relative_to(REPOSITORY))
        show.audit(functions, played.applied, account.id_of("sweep-lr"), copies)
        show.calls(functions)
        wrong = [
            *verdict.differences(played.instances, played.applied, account),
            *verdict_volumes.differences(played, account),
            *budgets.differences(spent),
            *verdict_jobs.differences(lived),
        ]
    heading("The end")
    records = [*(run.record for run in played.instances), played.applied]
    ended = [step for record in records for step in record["steps"] if _done(step, "stop", "terminate")]
    observed = [step for step in played.instances[1].record["steps"] if step["outcome"] == "observed"]
    deleted = [step for run in played.volumes for step in run.record["steps"] if _done(step, "delete")]
    volumes = [step for step in deleted if step["because"]["rule"] == "orphaned"]
    paragraph(f"{len(ended)} machines were sent home, which saves {show.savings(ended)}.")
    paragraph(f"{len(observed)} more would have been, but are in observe mode: {show.savings(observed)}.")
    paragraph(f"{len(volumes)} volumes were deleted, which saves {show_volumes.savings(volumes)}. One of them is back.")
    paragraph(f"{budgets.TEAM} heard at 80 % and at 100 % of its budget, and is held.")
    paragraph(f"The job {jobs.NAME} lost two machines, and succeeded on the third, as if nothing had happened.")
    paragraph(f"The local AWS is stopped. It took {time.monotonic() - began:.0f} s.")
    for one in wrong:
        line(paint(f"not as in the story: {one}", "red"))
    line(
        paint(f"FAILED: {len(wrong)} differences from the story", "bold", "red")
        if wrong
        else paint("Every machine, volume, budget and job met the fate that the story has for it.", "bold", "green")
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
