"""The last part: a person works on a machine, and goes home. The home of the machine stays, and comes up in another zone the next day."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hosts import Control, Disks, Hosts, why_no_boxes

from . import command, jobs
from .fleet import EAST_1
from .run import BINARIES, Broken, environment, expect
from .screen import heading, line, paragraph
from .seed import BUCKET, Account

TEAM, NAME, TYPE, OWNER = jobs.TEAM, "notebook", "g5.xlarge", "grace@example.com"
FULL_NAME = f"{TEAM}/{NAME}"
_HURRY = 40
_TIMEOUT_SECONDS = 60.0
_NOTES = "ideas of Monday\n"
_UP = ("box", "up", "--gpu", "a10g", "--for", "2h", "--home", "20gb", "--owner", OWNER, "--yes", FULL_NAME)
_AGAIN = ("box", "up", "--owner", OWNER, "--yes", FULL_NAME)


@dataclass(frozen=True)
class _Room:
    """What the person and her machines have."""

    account: Account
    disks: Disks
    control: Control
    person: dict[str, str]

    def types(self, *arguments: str) -> str:
        return command.curfew(self.account, *arguments, **self.person)

    def homes(self) -> list[dict[str, Any]]:
        found = self.account.aws.client("ec2", EAST_1).describe_volumes(Filters=[{"Name": "tag:curfew:box", "Values": [FULL_NAME]}])
        return found["Volumes"]

    def notes(self, home: dict[str, Any]) -> Path:
        return self.disks.folder / home["VolumeId"] / "home/notes"

    def is_down(self) -> bool:
        body = self.account.aws.client("s3").get_object(Bucket=BUCKET, Key=f"boxes/{FULL_NAME}.json")["Body"]
        return "holder" not in json.load(body)

    def until(self, awaited: str, is_so: Callable[[], Any]) -> None:
        until = time.monotonic() + _TIMEOUT_SECONDS
        while not is_so():
            if time.monotonic() > until:
                raise Broken(f"{awaited} was to come: {[run.invocation.response for run in self.control.runs[-1:]]}")
            time.sleep(0.05)


def play(account: Account, sockets: Path) -> bool:
    """False where no machine can be shown that mounts a home."""
    heading(f"A box of {TEAM}: a machine to work on, and a home that outlives it")
    if why := why_no_boxes():
        line()
        paragraph(f"It is left out: {why}.")
        return False
    with _room(account, sockets) as room:
        line()
        paragraph("Grace wants a machine with an A10G for two hours. One line brings it up, and run-jobs attaches a disk of its own to it:")
        room.types(*_UP)
        [first] = room.homes()
        room.notes(first).write_text(_NOTES)
        line()
        paragraph(f"She writes a file, and goes home. {first['AvailabilityZone']} will have no {TYPE} tomorrow.")
        room.types("box", "down", "--yes", FULL_NAME)
        room.until("the end of the machine", room.is_down)
        room.types("box", "ls")
        account.aws.set_capacity(0, TYPE, zone=first["AvailabilityZone"])
        line()
        paragraph("The next day the same name is enough. There is capacity in another zone only: the home is made anew there, from its snapshot.")
        room.types(*_AGAIN)
        room.until("the end of the first volume", lambda: len(room.homes()) == 1)
        [second] = room.homes()
        expect("whether the home has moved", True, second["AvailabilityZone"] != first["AvailabilityZone"])
        expect("what is in the home", _NOTES, room.notes(second).read_text())
        line()
        paragraph(f"Her file is there, in {second['AvailabilityZone']}, and the host key is the one that ssh knows. When she needs it no more:")
        room.types("box", "down", "--yes", FULL_NAME)
        room.until("the end of the machine", room.is_down)
        room.types("box", "rm", "--everything", "--yes", FULL_NAME)
        expect("what is left of the box", ([], []), (room.homes(), jobs.machines_of_jobs(account)))
    return True


@contextmanager
def _room(account: Account, sockets: Path) -> Iterator[_Room]:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        scratch = Path(folder)
        (scratch / "grace").mkdir()
        settings = environment(account, "enforce", **jobs.own_environment(scratch))
        hosts = Hosts(account.aws, scratch / "machines", _HURRY, sockets=sockets)
        disks = hosts.have_disks(scratch / "disks")
        try:
            stack.enter_context(hosts)
            control = stack.enter_context(Control(account.aws, settings, every=0.5, at_once=2, binaries=BINARIES))
            yield _Room(account, disks, control, {"HOME": str(scratch / "grace"), "PATH": "/usr/bin:/bin"})
        except AssertionError as error:  # a machine that does not boot, or that leaves something behind
            raise Broken(str(error)) from None
