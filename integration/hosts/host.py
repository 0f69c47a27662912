"""One machine: its disk, its console, and what can happen to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_aws.client import CERTIFICATE
from moved_clock import MovedClock

from . import cloud_init, disk, isolation
from .disk import INSIDE
from .inside import processes
from .metadata import Metadata
from .relay import Loop, Relay
from .wires import Router, Wire

ROLE = "curfew-job"
_DARK_SECONDS = 60.0  # for processes that were killed to be gone
_BEGINS_SECONDS = 60.0  # for init to have its network

@dataclass(frozen=True)
class Process:
    pid: int  # as it is seen from outside
    words: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Where machines are put, and how."""

    folder: Path  # of all disks
    disk: Path  # where each machine sees its own
    sockets: Path  # a short path: unix(7) takes 107 bytes
    endpoint: str  # of the local AWS
    hurry: int
    clock: MovedClock | None
    isolation: str
    loop: Loop
    router: Router | None  # between them

    @property
    def port(self) -> int:
        port = urllib.parse.urlsplit(self.endpoint).port
        assert port is not None, f"{self.endpoint} names no port"
        return port

    def now(self) -> float:
        """Seconds since 1970 by the clock of the machines."""
        return time.time() + (self.clock.moved_by_seconds if self.clock else 0)


class Host:
    """A machine, on or off. `boots` counts how often it was switched on."""

    def __init__(self, place: Place, machine: dict[str, Any], user_data: bytes, has_network: bool = True, more_tools: tuple[str, ...] = ()) -> None:
        self.place, self.machine = place, machine
        self.id, self.region = machine["id"], machine["region"]
        self.isolation = place.isolation
        self.root = place.folder / self.id
        self.boots = 0
        self.booted = threading.Event()  # the scripts of a boot have run
        self.dark = threading.Event()  # nothing runs
        self.dark.set()
        self.ended_by: str | None = None  # `poweroff` where it has switched itself off, `plug`, `crash`; None while it is on
        self.metadata: Metadata | None = None
        self._is_cut = not has_network
        self._has_timers = True
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._relay: Relay | None = None
        self._wire: Wire | None = None
        self.root.mkdir(parents=True)
        self._console = self.root.with_name(f"{self.id}.console")
        self._complaints = self.root.with_name(f"{self.id}.complaints")
        self._marker = f"{place.sockets.name}/{self.id}"
        disk.furnish(self.root, place.disk, self._socket(), place.hurry, self.isolation, more_tools)
        try:
            cloud_init.install(user_data, self.root)
        except ValueError as error:
            self._say(f"cloud-init: {error}")

    # What there is

    @property
    def is_on(self) -> bool:
        return not self.dark.is_set()

    def console(self) -> str:
        """All that was written there so far, over all boots."""
        return self._console.read_text(errors="replace") if self._console.exists() else ""

    def processes(self) -> list[Process]:
        """All that run on it but its init, as they are seen from outside."""
        init = self._init()
        found = []
        for pid in sorted(self._pids() - {init}):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            except OSError:
                continue
            found.append(Process(pid, tuple(words)))
        return found

    # What happens to it

    def switch_on(self) -> None:
        with self._lock:
            assert not self.is_on, f"{self.id} is on"
            self.boots += 1
            self.booted.clear()
            self.ended_by = None
            self._begin()

    def warn(self, seconds: float) -> None:
        """EC2 says to the machine that it takes it back in so many seconds."""
        self._metadata().warn(seconds)

    def pull_the_plug(self) -> None:
        """All of its processes at once, nothing in order. Where it is wired, its peers do not hear of it."""
        with self._lock:
            if self.is_on and self._wire is not None:
                self._wire.cut()
            self._go_dark("plug")

    def cut_network(self) -> None:
        """Neither AWS nor the instance metadata answers any more, nor do its peers. Connections stay open without data; also after a reboot."""
        self._is_cut = True
        if self._wire is not None:
            self._wire.cut()
        self._metadata().answers.clear()
        if self._relay is not None:
            self._relay.cut()

    def freeze(self) -> None:
        """No process of it runs any more, and none has ended: connections stay open. EC2 says that it runs."""
        frozen: set[int] = set()
        with self._lock:
            # Again, for one may have begun another meanwhile.
            while begun := self._pids() - frozen:
                for pid in begun:
                    _signal(pid, signal.SIGSTOP)
                frozen |= begun

    def thaw(self) -> None:
        with self._lock:
            for pid in self._pids():
                _signal(pid, signal.SIGCONT)

    def reboot(self) -> None:
        """Out of order: the plug, and on again with the same disk."""
        with self._lock:
            self._go_dark("plug")
            self.switch_on()

    def break_timer(self) -> None:
        """systemd still accepts timers, but they never fire, and nothing watches the clock; also after a reboot."""
        self._has_timers = False
        self._tell(do="break-timer")

    def press_power_button(self) -> None:
        """As EC2 does to a machine that is stopped or terminated: it ends in order, if it still can."""
        self._tell(do="power-button")

    def wait_until_dark(self, seconds: float = 120) -> None:
        if not self.dark.wait(seconds):
            raise AssertionError(f"{self.id} is still on after {seconds} s:\n{self.console()}")

    # How it is done

    def _begin(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        is_apart = self.isolation == isolation.NAMESPACES
        if not is_apart:
            self.place.disk.unlink(missing_ok=True)
            self.place.disk.symlink_to(self.root)
        # Of namespaces of its own, init says where it listens; else this side listens for it.
        listening = [] if is_apart else [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        python = isolation.words(sys.executable) if is_apart else [sys.executable]
        told = self.root.with_name(f"{self.id}.json")
        told.write_text(json.dumps(self._told(theirs.fileno(), listening)))
        words = [*python, "-IS", "-c", _RUN, str(INSIDE), str(told)]
        # Where it does not get as far as its console: unshare(1) complains here, be it only of a child that was killed.
        with theirs, self._complaints.open("wb") as complaints:
            self._process = subprocess.Popen(
                words,
                env=self._environment(listening),
                stdin=subprocess.DEVNULL,
                stderr=complaints,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._harness = ours
        self.dark.clear()
        if is_apart:
            try:
                listening = self._listening(ours)
                self._connect(ours)
            except BaseException:
                self._kill()
                raise
        metadata = Metadata(self.machine, listening[0], ROLE, self.place.now)
        if self.metadata is not None:
            metadata.says = self.metadata.says  # what EC2 has said, it says after a reboot as well
        self.metadata, self._relay = metadata, Relay(self.place.loop, listening[1], self.place.port)
        if self._is_cut:
            self.cut_network()
        threading.Thread(target=self._listen, args=(ours, self._process), daemon=True).start()

    def _told(self, harness: int, listening: list[socket.socket]) -> dict[str, Any]:
        return {
            "instance": self.id,
            "root": str(self.root),
            "disk": str(self.place.disk),
            "console": str(self._console),
            "socket": str(self._socket()),
            "harness": harness,
            "isolation": self.isolation,
            "port": self.place.port,
            "address": self.machine["address"] if self.machine["launched_together"] > 1 and self.place.router is None else None,
            "is_wired": self.place.router is not None,
            "hurry": self.place.hurry,
            "boots": self.boots,
            "has_timers": self._has_timers,
            "environment": self._environment(listening),
        }

    def _environment(self, listening: list[socket.socket]) -> dict[str, str]:
        """Nothing is inherited: neither a proxy nor anybody's AWS."""
        own = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "CURFEW_ROOT": str(self.place.disk),
            "CURFEW_HOST": self._marker,
            "AWS_ENDPOINT_URL": self.place.endpoint,
            "SSL_CERT_FILE": CERTIFICATE,
            **(self.place.clock.environment() if self.place.clock else {}),
        }
        if listening:
            metadata, aws = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in listening)
            own |= {"AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata, "AWS_ENDPOINT_URL": aws}
        return own

    def _listening(self, harness: socket.socket) -> list[socket.socket]:
        harness.settimeout(_BEGINS_SECONDS)
        try:
            message, descriptors, _, _ = socket.recv_fds(harness, 1024, 2)
        except TimeoutError:
            message = b""
        harness.settimeout(None)
        if not message:
            raise AssertionError(f"{self.id} does not begin:\n{self._complaints.read_text()}{self.console()}")
        return [socket.socket(fileno=descriptor) for descriptor in descriptors]

    def _connect(self, harness: socket.socket) -> None:
        """Init waits for it."""
        init = self._init()
        if self.place.router is not None and init is not None:
            self._wire = self.place.router.connect(init, self.machine["address"])
            harness.send(b"connected")

    def _listen(self, harness: socket.socket, process: subprocess.Popen[bytes]) -> None:
        """Until init has ended."""
        off = None
        while message := _received(harness):
            said = json.loads(message)
            if said.get("booted"):
                self.booted.set()
            off = said.get("off", off)
        process.wait()
        with self._lock:
            if self._process is process and self.is_on:
                self._end(off or "crash")

    def _tell(self, **what: str) -> None:
        with self._lock:
            if self.is_on:
                try:
                    self._harness.send(json.dumps(what).encode())
                except OSError:
                    pass  # it ends just now

    def _go_dark(self, by: str) -> None:
        with self._lock:
            if self.is_on:
                self._kill()
                self._end(by)

    def _end(self, by: str) -> None:
        """After its last process."""
        assert self._process is not None and self.metadata is not None and self._relay is not None
        self._process.wait()
        self._wait_until_nothing_runs()
        self.metadata.close()
        self._relay.close()
        self._harness.close()
        self._socket().unlink(missing_ok=True)
        self.ended_by = by
        self._say(f"harness: {self.id} is off ({by})")
        self.dark.set()

    def _kill(self) -> None:
        """In namespaces, whatever is in them ends with their first process (pid_namespaces(7))."""
        assert self._process is not None
        if self.isolation == isolation.NAMESPACES:
            init = self._init()
            _signal(init if init is not None else self._process.pid, signal.SIGKILL)
            return
        # Stop all of them first, so that none can notice that others are gone.
        for how in (signal.SIGSTOP, signal.SIGKILL):
            for pid in self._pids() | {self._process.pid}:
                _signal(pid, how)

    def _wait_until_nothing_runs(self) -> None:
        until = time.monotonic() + _DARK_SECONDS
        while left := self._pids():
            if time.monotonic() > until:
                raise AssertionError(f"of {self.id} these still run: {left}")
            for pid in left:
                _signal(pid, signal.SIGKILL)
            time.sleep(0.01)

    def _init(self) -> int | None:
        """Its id as it is seen from here."""
        if self._process is None or self._process.returncode is not None:
            return None
        if self.isolation == isolation.PROCESSES:
            return self._process.pid
        # unshare(1) waits for it, and has no other child.
        return next((pid for pid, one in processes.running().items() if one.parent == self._process.pid), None)

    def _pids(self) -> set[int]:
        if self._process is None:
            return set()
        init = self._init()
        marked = processes.with_variable("CURFEW_HOST", self._marker)
        own = {init} if init is not None else set()
        return (marked | own | processes.descendants(own)) - {self._process.pid if self.isolation == isolation.NAMESPACES else None}

    def _metadata(self) -> Metadata:
        assert self.metadata is not None, f"{self.id} was never switched on"
        return self.metadata

    def _socket(self) -> Path:
        return self.place.sockets / self.id

    def _say(self, words: str) -> None:
        with self._console.open("a") as console:
            console.write(f"{words}\n")


# Without the folder of a script in front, `-I` finds none of its neighbours.
_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); import init; init.main()"


def _received(harness: socket.socket) -> bytes:
    try:
        return harness.recv(65536)
    except OSError:
        return b""


def _signal(pid: int, how: signal.Signals) -> None:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        pass


def wait_for(what: Callable[[], Any], seconds: float, otherwise: Callable[[], str]) -> Any:
    """Until it is true; an AssertionError says what else there was."""
    until = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > until:
            raise AssertionError(otherwise())
        time.sleep(0.05)
    return found
