"""The machines of a local AWS: each new instance with user data is booted, and both share their state."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_aws import LocalAws
from moved_clock import MovedClock

from . import isolation
from .disk import INSIDE
from .disks import BOX_TOOLS, Disks
from .host import Host, Place, wait_for
from .inside import processes
from .relay import Loop
from .wires import Router

_LOOK_SECONDS = 0.05
# EC2 user guide, "Terminate Amazon EC2 instances": one that does not shut down within a few minutes is shut down hard.
_FORCED_AFTER_SECONDS = 240
_ENDING = ("shutting-down", "stopping", "terminated", "stopped")


@dataclass
class _Known:
    """What the watch did about a machine."""

    host: Host
    pressed_at: float | None = None  # monotonic: EC2 was asked to end it
    was_told: bool = False  # EC2 knows that it has switched itself off


class Hosts:
    """Watches every region that the local AWS has instances in, from `with` on."""

    def __init__(
        self,
        aws: LocalAws,
        folder: Path,
        hurry: int = 20,
        clock: MovedClock | None = None,
        kind: str | None = None,
        sockets: Path = Path("/tmp"),
        are_wired: bool = False,
    ) -> None:
        """`hurry` makes the waits of systemd, cloud-init and the agent so many times shorter; `clock` is that of all machines; `kind` is how
        they are kept apart, if not in the best way that there is (see `isolation`); `sockets` is where a folder of them is made. `are_wired`: they
        reach each other by their private addresses. Ask `why_no_wires` first."""
        best, why = isolation.best(sys.executable, str(INSIDE))
        self.isolation = kind or best
        self.why_not_better = why
        self.aws, self.folder, self.hurry = aws, Path(folder), hurry
        self.user = isolation.user(self.isolation)
        self.have_network = True  # of machines that boot for the first time from now on
        self.boots: Callable[[dict[str, Any]], bool] = lambda machine: True  # whether a new machine boots, as of `LocalAws.machines`
        self.more_tools: tuple[str, ...] = ()  # which those find beside the usual commands
        self.disks: Disks | None = None  # of boxes, from `have_disks` on
        self._clock, self._sockets_in, self._are_wired = clock, sockets, are_wired
        self._machines: dict[str, _Known] = {}
        self._slow: set[str] = set()  # regions where what is ended waits for its machine
        self._over = threading.Event()
        self._failure: str | None = None

    @property
    def disk(self) -> Path:
        """Where each machine sees its own disk. Without namespaces no two of them are on at once."""
        return self.folder / "disk"

    def have_disks(self, folder: Path) -> Disks:
        """Machines that boot from now on can have the homes of boxes. Ask `why_no_boxes` first."""
        self.more_tools = (*self.more_tools, *BOX_TOOLS)
        self.disks = Disks(self.aws, folder)
        return self.disks

    def __enter__(self) -> Hosts:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.isolation == isolation.NAMESPACES:
            self.disk.mkdir(exist_ok=True)
        self._sockets = Path(tempfile.mkdtemp(prefix="hosts-", dir=self._sockets_in))
        self._loop, self._router = Loop(), Router() if self._are_wired else None
        self._place = Place(
            self.folder, self.disk, self._sockets, self.aws.endpoint, self.hurry, self._clock, self.isolation, self._loop, self._router
        )
        self._watch = threading.Thread(target=self._watch_all, daemon=True)
        self._watch.start()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._over.set()
        self._watch.join()
        # In reverse order, each independent of the others.
        with ExitStack() as ends:
            ends.callback(shutil.rmtree, self._sockets)
            ends.callback(self._loop.close)
            if self._router is not None:
                ends.callback(self._router.close)
            for region in self._slow:
                ends.callback(self.aws.hold_ends, region, False)
            for host in self.all():
                ends.callback(host.pull_the_plug)
        left = [pid for pid in processes.running() if self._is_ours(pid)]
        if kind is None:
            assert left == [], f"of machines that are off these still run: {left}"
            assert self._failure is None, self._failure

    def all(self) -> list[Host]:
        return [known.host for known in list(self._machines.values())]

    def find(self, instance_id: str, seconds: float = 120) -> Host:
        """It, as soon as it is there, be it before it has booted."""
        wait_for(lambda: self._failure or instance_id in self._machines, seconds, lambda: f"{instance_id} never appeared")
        assert self._failure is None, self._failure
        return self._machines[instance_id].host

    def wait_for(self, instance_id: str, seconds: float = 120) -> Host:
        """It, once it has booted."""
        host = self.find(instance_id, seconds)
        wait_for(lambda: host.booted.is_set() or host.ended_by, seconds, lambda: f"{instance_id} has not booted:\n{host.console()}")
        return host

    # The watch

    def _watch_all(self) -> None:
        try:
            while not self._over.wait(_LOOK_SECONDS):
                for machine in self.aws.machines():
                    self._look_at(machine)
                if self.disks is not None:
                    self.disks.look({instance: known.host.root for instance, known in self._machines.items()})
        except Exception:  # re-raised in the thread that waits for a machine
            self._failure = traceback.format_exc()

    def _look_at(self, machine: dict[str, Any]) -> None:
        instance, region, state = machine["id"], machine["region"], machine["state"]
        if region not in self._slow:
            self._slow.add(region)
            self.aws.hold_ends(region)
        known = self._machines.get(instance)
        if known is None and machine["has_user_data"] and state in ("pending", "running") and self.boots(machine):
            self._boot(machine)
        elif known is None:
            if state in ("shutting-down", "stopping"):
                self.aws.gone(instance, region)
        elif known.host.is_on:
            if state in _ENDING:
                self._end(known)
        elif state in ("shutting-down", "stopping"):
            self.aws.gone(instance, region)
        elif state in ("pending", "running"):
            self._look_at_dark(known)

    def _look_at_dark(self, known: _Known) -> None:
        """A machine that is off, which EC2 believes to run."""
        host = known.host
        if known.was_told or known.pressed_at is not None:
            # It has been stopped since, so that somebody has started it again.
            if self._has_room():
                known.was_told, known.pressed_at = False, None
                host.switch_on()
        elif host.ended_by == "poweroff":
            known.was_told = True
            self.aws.shut_down(host.id, region=host.region)

    def _boot(self, machine: dict[str, Any]) -> None:
        if not self._has_room():
            return
        host = Host(self._place, machine, self.aws.booted_with(machine["id"], machine["region"]), self.have_network, self.more_tools)
        if self.disks is not None:
            self.disks.furnish(host.root)
        host.switch_on()
        self._machines[host.id] = _Known(host)

    def _has_room(self) -> bool:
        """Without namespaces they share a path."""
        return self.isolation == isolation.NAMESPACES or not any(host.is_on for host in self.all())

    def _end(self, known: _Known) -> None:
        """EC2 was asked to end it."""
        if known.pressed_at is None:
            known.pressed_at = time.monotonic()
            known.host.press_power_button()
        elif time.monotonic() > known.pressed_at + _FORCED_AFTER_SECONDS / self.hurry:
            known.host.pull_the_plug()

    def _is_ours(self, pid: int) -> bool:
        return any(one.startswith(f"CURFEW_HOST={self._sockets.name}/".encode()) for one in processes.environment(pid))
