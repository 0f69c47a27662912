"""`make demo` is the acceptance test of the functions: it ends as its story says, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hosts.inside import processes

INTEGRATION = Path(__file__).resolve().parents[1]


@contextmanager
def demo(*words: str, **environment: str) -> Iterator[subprocess.Popen]:
    """The demo, in a session of its own: whatever it starts can be found by that, and is gone after the test."""
    process = subprocess.Popen(
        [sys.executable, *(words or ("-m", "demo"))],
        env={**os.environ, "PYTHONPATH": str(INTEGRATION), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for one in members(process.pid):
            with suppress(ProcessLookupError):
                os.kill(int(one.split()[0]), signal.SIGKILL)
        process.wait()


def members(session: int) -> list[str]:
    """The processes of a session that still live."""
    listed = subprocess.run(["ps", "-e", "-o", "sess=,stat=,pid=,args="], capture_output=True, text=True, check=True)
    rows = [row.split(None, 3) for row in listed.stdout.splitlines()]
    return [" ".join(row[2:]) for row in rows if row[0] == str(session) and not row[1].startswith("Z")]


@pytest.fixture(scope="module")
def told() -> str:
    """What it says, of one that is played to its end; nothing of it is left."""
    with demo() as running:
        told, _ = running.communicate(timeout=600)
        assert running.returncode == 0, told
        assert members(running.pid) == []
    return told


def test_the_demo_ends_as_its_story_says(told: str) -> None:
    for line in (
        "Machines, volumes, budgets and jobs ended as expected.",
        "vision was notified at 80 % and at 100 % of its budget, and is held.",
        "$ curfew budget vision",
        "$ curfew submit reward-model.toml --team nlp",
        "A machine boots, ",
        "attempt 1  its exit record: interrupted: EC2 takes the machine back",
        "byte for byte that of an uninterrupted training.",
        "From the event to the accepted launch: 6 AWS calls (the limit is 6), ",
        "Reserved for jobs: $0.00.",
        "The job reward-model lost two machines, and succeeded on the third, as if nothing had happened.",
        "ready: ssh notebook",
        "The box notebook came up in another zone, with its home as it was.",
        "run-jobs/",
        "1 kubernetes, 1 multi-attach, 1 protected, 1 restorable, 1 unreadable",
        "plans/",
        "reap-volumes/",
        "aws ec2 create-volume",
        "$ curfew undo vol-",
    ):
        assert line in told
    assert "\033[" not in told, "colour is for terminals"
    # Commands can be copied: their words are not broken, and the tags of a volume are one.
    whole = ("ResourceType", "curfew apply", "mail ")  # a subject is no sentence that wraps
    assert max(len(line) for line in told.splitlines() if not any(word in line for word in whole)) <= 100
    assert len(told.splitlines()) <= 1040, "somebody is to read it"


def test_the_readme_and_the_page_of_the_demo_match_its_output(told: str) -> None:
    for shown in scan_of_the_readme():
        assert without_ids(shown) in {without_ids(line) for line in told.splitlines()}, f"the README shows {shown!r}"
    transcript, said = transcript_of_the_page(), {without_figures(line) for line in told.splitlines()}
    changed = [shown for shown in transcript if without_figures(shown) not in said]
    # Moments differ from run to run, and so does where a sentence is wrapped.
    assert len(changed) <= len(transcript) / 10, "docs/demo.md shows what the demo does not say:\n" + "\n".join(changed)


def scan_of_the_readme() -> list[str]:
    """What the front page shows of `curfew scan`."""
    shown = (INTEGRATION.parent / "README.md").read_text().split("```text\n")[1].split("```")[0].splitlines()
    assert shown[0].startswith("$ curfew scan") and len(shown) <= 16
    return [line for line in shown if line != "[…]"]


def transcript_of_the_page() -> list[str]:
    page = (INTEGRATION.parent / "docs/demo.md").read_text().split("```text\n")[1].split("```")[0]
    return [line for line in page.splitlines() if line.strip(" |") not in ("", "[…]")]


def without_ids(line: str) -> str:
    return re.sub(r"\b(i|vol|snap)-[0-9a-f]{17}\b", "ID", line)


def without_figures(line: str) -> str:
    digits = r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{8,16}\b|[0-9][0-9,.]*"
    return " ".join(re.sub(digits, "#", without_ids(line)).split())


# What comes before the job takes a while, and its machines run in sessions of their own.
ONLY_THE_JOB = """
import sys
from demo import __main__ as demo, jobs
from demo.run import BUDGETS, reaper

def only_the_job(sockets):
    with demo._account() as account:
        with reaper(account, "enforce", BUDGETS) as beats:
            beats.run()
        jobs.play(account, sockets)

demo._demo = only_the_job
sys.exit(demo.main())
"""


def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the group at once, but no machine."""
    with demo("-c", ONLY_THE_JOB, TMPDIR=str(tmp_path)) as running:
        wait_for("attempt 1  the agent runs", running)
        assert machines_of(tmp_path) != []
        os.killpg(running.pid, signal.SIGINT)
        told, _ = running.communicate(timeout=120)
        assert running.returncode == 128 + signal.SIGINT, told
        assert told.endswith("\nInterrupted; nothing of it runs any more.\n")
        assert members(running.pid) == [] and left_of(running.pid, tmp_path) == []


def machines_of(scratch: Path) -> list[int]:
    """The processes of machines whose disks lie there."""
    root = f"CURFEW_ROOT={scratch}/".encode()
    return [pid for pid in processes.running() if any(one.startswith(root) for one in processes.environment(pid))]


def left_of(pid: int, scratch: Path) -> list[Any]:
    """What a demo has left behind: processes of its machines, and files."""
    return [*machines_of(scratch), *scratch.iterdir(), *Path("/tmp").glob(f"demo-{pid}-*")]


def wait_for(text: str, running: subprocess.Popen) -> None:
    deadline = time.monotonic() + 300
    while text not in (line := running.stdout.readline()):
        assert line and time.monotonic() < deadline, f"the demo ended, or hung, before {text!r}"
