"""The first process of a machine: boots it as cloud-init and systemd do, keeps its units, and ends it in order.

It runs where `hosts.host` puts it: as process 1 of namespaces of its own, or beside everybody else's. It is told what it has to know by
one JSON document, speaks with the harness by a socket that it inherits (a message each, JSON), and ends when that is closed.

Spans of time are as many times shorter as the machine is hurried; moments are the machine's clock's.

Source: systemd.service(5), systemd.kill(5), systemd-shutdown(8); "User data formats" and "Boot stages" (cloud-init documentation).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import administration
import network
import processes
from administration import LOOK_SECONDS, WANTS
from services import Service, Timer
from units import Unit

_FINAL_STOP_SECONDS = 90  # systemd-system.conf(5), DefaultTimeoutStopSec
_ENDS_WELL = (0, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM, -signal.SIGPIPE)  # systemd.service(5), SuccessExitStatus
_MS_BIND, _PR_SET_CHILD_SUBREAPER = 4096, 36
_SYSRQ, _MESSAGES = "proc/sysrq-trigger", "dev/kmsg"
_USERS = "etc/passwd"
_FIRST = "proc/1/comm"  # the name of PID 1, of which the kernel keeps 15 letters (proc_pid_comm(5))


@dataclass
class Machine:
    told: dict[str, Any]
    harness: socket.socket
    ended: dict[int, asyncio.Future[int]] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    timers: list[Timer] = field(default_factory=list)
    has_timers: bool = True
    goes_down: bool = False
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def root(self) -> Path:
        return Path(self.told["disk"])

    def say(self, words: str) -> None:
        os.write(1, f"{words}\n".encode())

    def tell(self, **what: Any) -> None:
        self.harness.send(json.dumps(what).encode())

    def hurried(self, seconds: float) -> float:
        return seconds / self.told["hurry"]

    # Processes

    def begin(self, words: list[str], *, boots: bool = False, output: int = 1, **variables: str) -> tuple[int, asyncio.Future[int]]:
        """Begins a process: its id, and its exit code once it has ended, below zero of a signal."""
        own = self.told["environment"]
        path = f"{self.root}/boot-tools:{self.root}/tools" if boots else f"{self.root}/tools"
        with open(os.devnull) as nothing:
            process = subprocess.Popen(
                words, cwd=self.root, env={**own, "PATH": path, **variables}, stdin=nothing, stdout=output, stderr=output, start_new_session=True
            )
        process.returncode = 0  # its end is waited for here
        self.ended[process.pid] = ended = asyncio.get_running_loop().create_future()
        return process.pid, ended

    def take_note(self) -> None:
        """Of each process that has ended, be it one that lost its parent."""
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if future := self.ended.pop(found[0], None):
                    future.set_result(os.waitstatus_to_exitcode(found[1]))

    async def run(self, words: list[str], **how: Any) -> int:
        """Waits, as cloud-init does, until no process holds its output any more."""
        reads, writes = os.pipe()
        try:
            _, ended = self.begin(words, output=writes, **how)
        except OSError as error:
            os.close(reads)
            self.say(f"cloud-init: {words}: {error}")
            return 127
        finally:
            os.close(writes)
        loop, all_read = asyncio.get_running_loop(), asyncio.Event()

        def read() -> None:
            some = os.read(reads, 65536)
            os.write(1, some)
            if not some:
                loop.remove_reader(reads)
                all_read.set()

        loop.add_reader(reads, read)
        await all_read.wait()
        os.close(reads)
        return await ended

    def others(self) -> set[int]:
        """All that run on this machine besides this process."""
        if self.told["isolation"] == "namespaces":
            return set(processes.running()) - {os.getpid()}
        marked = processes.with_variable("CURFEW_HOST", self.told["environment"]["CURFEW_HOST"])
        return (marked | processes.descendants({os.getpid()})) - {os.getpid()}

    # The boot

    async def boot(self) -> None:
        part = self.root / "var/lib/cloud/instance"
        for script in sorted((part / "boothooks").glob("*")):
            await self.run([str(script)], boots=True, CURFEW_HOST_PART="boothook")
            if not self.has_timers:
                self.end_watch()
        self.tasks.add(asyncio.create_task(self.ring()))
        for unit in sorted((self.root / WANTS).glob("*")):
            self.start(unit.name)
        done = part / "sem/config_scripts_user"
        if not done.exists():
            # Only once, even if it fails.
            done.parent.mkdir(parents=True, exist_ok=True)
            done.touch()
            for script in sorted((part / "scripts").glob("*")):
                code = await self.run([str(script)], boots=True)
                if code:
                    self.say(f"cloud-init: {script.name} has failed: {code}")
        for script in sorted((self.root / "var/lib/cloud/scripts/per-boot").glob("*")):
            # What the first boot's script has put there it has also run.
            if self.told["boots"] > 1:
                await self.run([str(script)], boots=True)
        self.say(f"cloud-init: boot {self.told['boots']} is done")
        self.tell(booted=True)

    def end_watch(self) -> None:
        """Of the clock, which the boothook leaves behind."""
        for pid in processes.with_variable("CURFEW_HOST_PART", "boothook") & self.others():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # Units

    def start(self, name: str) -> Service | None:
        unit = Unit.find(name, self.root / "etc/systemd/system")
        if unit is None or self.goes_down:
            return None
        running = self.services.get(name)
        if running is None or running.state in ("inactive", "failed"):
            running = self.services[name] = Service(unit)
            running.task = asyncio.create_task(self.live(running))
        return running

    def start_command(self, service: Service, command: list[str]) -> None:
        """As systemd-run does, of a unit without a file."""
        self.services[service.unit.name] = service
        service.task = asyncio.create_task(self.live(service, command))

    async def live(self, service: Service, command: list[str] | None = None) -> None:
        """From its start to its end, and again where the unit says so."""
        unit = service.unit
        while True:
            service.invocation, service.state = uuid.uuid4().hex, "activating"
            code = await self.run_once(service, command)
            service.main = None
            # Of a unit that has ended nothing is left running.
            self.kill(service, signal.SIGKILL)
            service.state = "inactive" if code in _ENDS_WELL else "failed"
            self.say(f"systemd: {unit.name} has ended: {code}")
            if service.stopping or self.goes_down or code in _ENDS_WELL or unit.last("Service", "Restart") != "on-failure":
                return
            service.state = "activating"
            await asyncio.sleep(self.hurried(unit.seconds("RestartSec", 0.1)))
            if service.stopping or self.goes_down:
                service.state = "inactive"
                return

    async def run_once(self, service: Service, command: list[str] | None) -> int:
        """Its exit code, or that of what comes before it and failed."""
        before = service.unit.commands("ExecStartPre")
        main = command or service.unit.commands("ExecStart")[-1]
        for words in (*before, main):
            is_main = words is main
            try:
                boots = not is_main or command is not None
                service.main, ended = self.begin([self.here(word) for word in words], boots=boots, INVOCATION_ID=service.invocation)
            except OSError as error:
                self.say(f"systemd: {service.unit.name}: {words[0]}: {error}")
                return 203  # systemd.exec(5), EXIT_EXEC
            if is_main:
                service.state = "active"
                self.say(f"systemd: {service.unit.name} has started")
            code = await ended
            if is_main or code or service.stopping:
                return code
        return 0

    def here(self, word: str) -> str:
        """A path of the machine's own disk, where it has such a file."""
        own = self.root / word.lstrip("/")
        return str(own) if word.startswith("/") and own.exists() else word

    def of(self, service: Service) -> set[int]:
        """Its processes, as its control group would list them."""
        if not service.invocation:
            return set()
        marked = processes.with_variable("INVOCATION_ID", service.invocation)
        main = {service.main} & set(processes.running()) if service.main else set()
        return (marked | main | processes.descendants(marked | main)) - {os.getpid()}

    def kill(self, service: Service, how: signal.Signals) -> None:
        for pid in self.of(service):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)

    async def stop(self, service: Service) -> None:
        """systemd.kill(5): `mixed` tells the main process alone, and kills what is left after it."""
        service.stopping = True
        if service.task is None or service.task.done():
            return
        if service.unit.last("Service", "KillMode") == "mixed" and service.main:
            with contextlib.suppress(ProcessLookupError):
                os.kill(service.main, signal.SIGTERM)
        else:
            self.kill(service, signal.SIGTERM)
        limit = self.hurried(service.unit.seconds("TimeoutStopSec", _FINAL_STOP_SECONDS))
        if service.main is None or not (await asyncio.wait({service.task}, timeout=limit))[0]:
            self.kill(service, signal.SIGKILL)
            service.task.cancel()
            service.state = "failed"

    # Timers

    async def ring(self) -> None:
        while True:
            for timer in [timer for timer in self.timers if timer.rings_at <= time.time()]:
                self.timers.remove(timer)
                self.say(f"systemd: the timer of {timer.service.unit.name} {'rings' if self.has_timers else 'is broken'}")
                if self.has_timers:
                    self.start_command(timer.service, timer.command)
            await asyncio.sleep(LOOK_SECONDS)

    # The end

    async def go_down(self) -> None:
        """In order."""
        if self.goes_down:
            return
        self.goes_down = True
        self.say("systemd: poweroff: stops all units")
        ordinary = [service for service in self.services.values() if service.has_default_dependencies]
        await asyncio.gather(*(self.stop(service) for service in ordinary))
        self.say("systemd: ends all other processes")
        (self.root / _FIRST).write_text("systemd-shutdow\n")
        limit = time.monotonic() + self.hurried(_FINAL_STOP_SECONDS)
        for pid in self.others():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        while self.others() and time.monotonic() < limit:
            await asyncio.sleep(LOOK_SECONDS)
        if self.others():
            self.say("systemd: kills what has not heeded its SIGTERM")
        self.go_dark()

    def go_dark(self) -> None:
        """At once."""
        self.say("systemd: poweroff")
        with contextlib.suppress(OSError):
            self.tell(off="poweroff")
        self.kill_others()
        os._exit(0)

    def kill_others(self) -> None:
        while others := self.others():
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.take_note()

    # What is asked

    def asked(self) -> None:
        """By the harness; where that is gone, the machine ends."""
        message = self.harness.recv(65536)
        if not message:
            self.kill_others()
            # The folder goes with the last machine in it.
            with contextlib.suppress(OSError):
                os.unlink(self.told["socket"])
                os.rmdir(Path(self.told["socket"]).parent)
            os._exit(1)
        told = json.loads(message)
        if told["do"] == "power-button":
            self.later(self.go_down())
        elif told["do"] == "break-timer":
            self.has_timers = False
            self.end_watch()

    def told_by_kernel(self, words: bytes) -> None:
        os.write(1, words)

    def sysrq(self, keys: bytes) -> None:
        """Linux kernel, "Magic SysRq key": `o` shuts the machine off, whatever else is stuck."""
        if b"o" in keys:
            self.go_dark()

    def later(self, what: Any) -> None:
        task = asyncio.create_task(what)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def serve_tool(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            words = json.loads(await reader.readline())
            code, said = await administration.called(self, words[0], words[1:])
            writer.write(json.dumps([code, said]).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError):
            pass  # the caller has been killed
        finally:
            writer.close()


def _mount(told: dict[str, Any]) -> None:
    """Each machine sees its own disk at the same place, and its own switch instead of that of the machine that all of this runs on."""
    libc = ctypes.CDLL(None, use_errno=True)
    # A job that names no user runs as the first one, whose home must be on this disk.
    what = [(told["root"], told["disk"]), (f"{told['root']}/{_USERS}", "/etc/passwd")]
    if Path("/proc/sysrq-trigger").exists():
        what.append((f"{told['root']}/{_SYSRQ}", "/proc/sysrq-trigger"))
    if not os.access("/root", os.X_OK):
        # Root here is another user outside, and needs its own home.
        what.append((f"{told['root']}/root", "/root"))
    for source, target in what:
        if libc.mount(source.encode(), target.encode(), None, _MS_BIND, None):
            raise OSError(ctypes.get_errno(), f"{source} cannot be mounted at {target}")


def _prepare(root: Path, disk: str) -> None:
    """The files before the first process. `/run` is empty after each boot."""
    subprocess.run(["/bin/rm", "-rf", root / "run"], check=True)
    for folder in ("run/systemd/system", "proc/sys/kernel", "proc/1", "dev", "etc/systemd/system", "var/log", "tmp", "root"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for pipe in (_MESSAGES, _SYSRQ):
        if not (root / pipe).exists():
            os.mkfifo(root / pipe)
    (root / _FIRST).write_text("systemd\n")
    if not (root / _USERS).exists():
        (root / _USERS).write_text(f"root:x:0:0::{disk}/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")


async def _live(machine: Machine) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, machine.take_note)
    loop.add_reader(machine.harness, machine.asked)
    for pipe, heard in ((_MESSAGES, machine.told_by_kernel), (_SYSRQ, machine.sysrq)):
        # Open for writing as well, so that it never comes to an end.
        opened = os.open(machine.root / pipe, os.O_RDWR | os.O_NONBLOCK)
        loop.add_reader(opened, lambda opened=opened, heard=heard: heard(os.read(opened, 65536)))
    path = Path(machine.told["socket"])
    path.unlink(missing_ok=True)
    async with await asyncio.start_unix_server(machine.serve_tool, path):
        await machine.boot()
        await asyncio.Event().wait()


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    harness = socket.socket(fileno=told["harness"])
    harness.set_inheritable(False)
    console = os.open(told["console"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(console, 1)
    os.dup2(console, 2)
    for unheard in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(unheard, lambda *_: None)  # not SIG_IGN, which all that it begins would inherit
    _prepare(Path(told["root"]), told["disk"])
    if told["isolation"] == "namespaces":
        _mount(told)
        listening = network.listeners(told["port"], told["address"])
        socket.send_fds(harness, [json.dumps({"listens": True}).encode()], [one.fileno() for one in listening])
        for one in listening:
            one.close()
        if told["is_wired"]:
            harness.recv(64)
    else:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.chdir(told["disk"])
    machine = Machine(told, harness, has_timers=told["has_timers"])
    machine.say(f"init: boot {told['boots']} of {told['instance']}, in {told['isolation']}")
    asyncio.run(_live(machine))


if __name__ == "__main__":
    main()
