"""`python -m playground`: the account of the demo on a local AWS, Curfew deployed in it, and a shell.

The functions are woken on the schedules of template.yaml by a clock that everything in the playground shares: the local AWS, the
functions, the machines of jobs and the shell. It runs SPEED times as fast as the real one, and `advance` moves it ahead.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from demo import jobs, machines
from demo.fleet import OWNERS, REGIONS
from demo.run import BINARIES, REPOSITORY, Broken, environment
from demo.screen import Progress, line
from demo.seed import BUCKET, CONFIG, CONFIG_KEY, Account, report_metrics, seed
from demo.supervisor import supervise
from hosts import Control, Hosts, why_no_boxes
from local_aws import LocalAws
from moved_clock import MovedClock
from template_actions import logical_ids, resources

FOLDER = REPOSITORY / "target" / "playground"
HURRY = 60  # agents, whose heartbeat is due every minute, keep up with `advance`
STEPS = 1000  # of the training of train.toml: a minute
_SETTLED_SECONDS = 60.0  # at most, for machines to boot and to report
_PERIOD = timedelta(minutes=5)  # of the metrics, and the longest step of the clock
_UNITS = {"m": 60, "h": 3600, "d": 86400}
_LONGEST = 86400
_SPEED_MAX = 120  # agents keep up
# A command of the shell: it asks this process, and imports nothing that takes long.
_COMMAND = """\
import os, sys
from multiprocessing.connection import Client
with Client(os.environ["PLAYGROUND"]) as connection:
    connection.send(sys.argv[1:])
    try:
        while (said := connection.recv()) is not None:
            if said:
                print(said, flush=True)
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)
"""

WELCOME = """
It is {now:%A %H:%M} UTC. Curfew runs in enforce mode, and the teams vision and nlp have opted in. Try:

  curfew scan                           find waste in every region
  mail                                  read the messages of the first run to owners
  curfew explain {idle}    explain how each rule judges llama-ft, which is idle
  advance 1h                            let an hour pass: what was announced is due
  curfew plans                          find a run that waits for you: more is due than [limits] allows
  curfew apply RUN                      carry it out
  curfew budget vision                  see what a team has spent, and on what
  curfew watch                          watch all of it, and what happens next
  curfew submit train.toml --team nlp   train on Spot; then: curfew jobs train, curfew logs train
  interrupt                             AWS takes the machine of the job away
{box}
`aws` works too. {end} ends it all. Another terminal joins by: source {env}
"""

BOX = """\
  curfew box up --gpu a10g --team nlp my-box   a machine to work on; then: curfew box ls
"""


class Playground:
    """The account, what runs in it, and its time."""

    def __init__(self, account: Account, control: Control, hosts: Hosts, clock: MovedClock, speed: int) -> None:
        self.account, self.control, self.hosts, self.clock, self.speed = account, control, hosts, clock, speed
        self._began = self._reported = self.now()
        self._moved_at = self._began
        self._due = {name: self._began + period for name, period in schedules().items()}
        self._mails_read = 0
        self.over = threading.Event()
        self._turn = threading.Lock()  # one thread at a time moves the clock

    def now(self) -> datetime:
        return datetime.now(timezone.utc) + timedelta(seconds=self.clock.moved_by_seconds)

    def keep_time(self) -> None:
        while not self.over.wait(1.0):
            with self._turn:
                self._step(self.speed - 1)

    def advance(self, say: Callable[[str], None], duration: str = "") -> None:
        """advance 1h: let so much time pass"""
        found = re.fullmatch(r"(\d+)([mhd])", duration)
        seconds = int(found[1]) * _UNITS[found[2]] if found else 0
        if not 0 < seconds <= _LONGEST:
            say("Say how long, up to a day: advance 30m, advance 1h, advance 1d.")
            return
        with self._turn:
            runs_before, mails_before = len(self.control.runs), len(self.account.aws.messages())
            until = self.now() + timedelta(seconds=seconds)
            while (left := (until - self.now()).total_seconds()) > 0 and not self.over.is_set():
                self._wait_for_machines()
                self._step(min(left, _PERIOD.total_seconds()))
                self.wait_until(lambda: self.control.is_idle)
                say("")  # fails once Ctrl-C has ended the command: no more time passes then
        counts = Counter(one.function for one in self.control.runs[runs_before:])
        failed = [one for one in self.control.runs[runs_before:] if one.invocation.error is not None]
        say(f"It is {self.now():%A %H:%M} UTC. Runs: {', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}.")
        say(f"New messages: {len(self.account.aws.messages()) - mails_before}. Read them: mail")
        for one in failed:
            say(f"A run of {one.function} failed: {one.invocation.error}")

    def mail(self, say: Callable[[str], None]) -> None:
        """mail: the messages since the last time"""
        messages = self.account.aws.messages()
        for one in messages[self._mails_read :] or [None]:
            say(f"To {one['attributes']['team']}: {one['subject']}\n\n{one['message']}\n" if one else "No new messages.")
        self._mails_read = len(messages)

    def interrupt(self, say: Callable[[str], None], instance: str = "") -> None:
        """interrupt [ID]: AWS takes the machine of a job away, with a warning of two minutes"""
        running = [host for host in self.hosts.all() if host.is_on and host.booted.is_set() and instance in ("", host.id)]
        if not running:
            say("No machine of a job is running. Submit one: curfew submit train.toml --team nlp")
            return
        self.control.interrupt(running[-1], notice=jobs.WARNING_SECONDS)
        say(f"AWS has taken {running[-1].id} back. The job is launched again: curfew jobs train")

    # Time

    def _step(self, seconds: float) -> None:
        """Moves the clock ahead by so much more, reports metrics, and wakes the functions that are due."""
        if seconds > 0:
            with self.control.between_runs():  # a jump would take a run past its deadline
                self.clock.move_by(self.clock.moved_by_seconds + seconds)
            self._moved_at = self.now()
        now = self.now()
        self.account.aws.clear_calls()
        if periods := (now - self._reported) // _PERIOD:
            self._report(now, periods)
            self._reported += periods * _PERIOD
        for name, period in schedules().items():
            if self._due[name] <= now:
                self.control.wake(name)
                self._due[name] = now + period

    def _report(self, now: datetime, periods: int) -> None:
        running = {one["id"] for one in self.account.aws.machines() if one["state"] == "running"}
        for region in REGIONS:
            own = {
                instance: replace(machine, launched=machine.launched + (now - self._began))
                for instance, machine in self.account.machines.items()
                if machine.region == region and instance in running
            }
            report_metrics(self.account.aws, region, own, self.account.gpu_counts, now, periods)

    def _wait_for_machines(self) -> None:
        """A jump of the clock must not look like silence: each machine of a job sends a heartbeat after the last one first."""

        def all_have_reported() -> bool:
            written = [one["written"] for one in self.account.aws.objects(BUCKET) if one["key"].endswith("/heartbeat.json")]
            fresh = [one for one in written if datetime.fromisoformat(one).replace(tzinfo=timezone.utc) > self._moved_at]
            return len(fresh) >= sum(host.is_on for host in self.hosts.all())

        self.wait_until(all_have_reported)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + _SETTLED_SECONDS
        while not is_so() and time.monotonic() < until:
            time.sleep(0.05)


def schedules() -> dict[str, timedelta]:
    """How often template.yaml wakes each function."""
    found = {}
    for name, logical_id in logical_ids().items():
        events = resources()[logical_id]["Properties"].get("Events", {}).values()
        rates = [one["Properties"]["Schedule"] for one in events if "Schedule" in one["Properties"]]
        if not rates:
            continue  # people wake it
        [rate] = rates
        if isinstance(rate, dict):
            # In an account that is no hub.
            _, _, rate = rate["Fn::If"]
        often = re.fullmatch(r"rate\((\d+) minutes?\)|cron\(\d+/(\d+) \* \* \* \? \*\)", rate)
        rarely = re.fullmatch(r"cron\(\d+ (\*|\d+) \* \* \? \*\)", rate)
        assert often or rarely, rate
        found[name] = timedelta(minutes=int(often[1] or often[2])) if often else timedelta(**{"hours" if rarely[1] == "*" else "days": 1})
    return found


# The shell, and its commands that reach into the playground


def _serve(listener: Listener, playground: Playground) -> None:
    while True:
        threading.Thread(target=_answer, args=(listener.accept(), playground), daemon=True).start()


def _answer(connection: Connection, playground: Playground) -> None:
    with connection, suppress(OSError):  # the client has closed the connection
        name, *arguments = connection.recv()
        try:
            getattr(playground, name)(connection.send, *arguments)
        except TypeError:
            connection.send(f"Usage: {getattr(Playground, name).__doc__}")
        connection.send(None)


def _environment(account: Account, clock: MovedClock, socket: Path) -> dict[str, str]:
    """What a shell has to export; its folder is made."""
    programs, path = FOLDER / "bin", os.pathsep.join([str(FOLDER / "bin"), str(Path(sys.executable).parent)])
    programs.mkdir()
    (programs / "curfew").symlink_to(BINARIES / "curfew")
    for name in ("advance", "mail", "interrupt"):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-c", _COMMAND])} {name} "$@"\n')
        (programs / name).chmod(0o755)
    exported = {
        # What else a shell speaks TLS with has the certificates of the system.
        **{name: value for name, value in account.aws.environment().items() if name != "SSL_CERT_FILE"},
        **clock.environment(),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "CURFEW_BUCKET": BUCKET,
        "CURFEW_TOPIC_ARN": account.topic_arn,
        "HOME": str(FOLDER),  # where `curfew box up` writes what ssh needs
        "PLAYGROUND": str(socket),
        "TZ": "UTC",
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in exported.items()]
    (FOLDER / "env").write_text("\n".join([*lines, f"export PATH={shlex.quote(path)}:$PATH", "unset AWS_PROFILE", ""]))
    (FOLDER / "rc").write_text("PS1='\\nplayground \\A UTC $ '\n")
    inherited = {name: value for name, value in os.environ.items() if name != "AWS_PROFILE"}
    return {**inherited, **exported, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}


@contextmanager
def _local_aws(clock: MovedClock) -> Iterator[LocalAws]:
    """In a process of its own, which has the clock."""
    words = [sys.executable, "-m", "local_aws", "--regions", ",".join(REGIONS)]
    process = subprocess.Popen(words, env={**os.environ, **clock.environment()}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        yield LocalAws(process.stdout.readline().strip())
    finally:
        process.terminate()
        process.wait()


def _play(sockets: Path) -> int:
    speed = os.environ.get("SPEED") or "1"
    if not speed.isdecimal() or not 1 <= int(speed) <= _SPEED_MAX:
        raise Broken(f"SPEED={speed} is no whole number from 1 to {_SPEED_MAX}")
    for name in ("agent", "curfew", *logical_ids()):
        if not (BINARIES / name).exists():
            raise Broken(f"{BINARIES / name} is not built: run `make playground`")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    clock = MovedClock()
    with ExitStack() as stack:
        aws = stack.enter_context(_local_aws(clock))
        progress = Progress("Building an account on a local AWS")
        account = seed(aws, progress)
        progress.done(f"{len(account.machines) + len(account.cpu_machines)} instances and their volumes")
        config = CONFIG.format(grace="45m").replace("[teams.vision]\n", "[teams.vision]\nmonthly_budget_usd = 20000\n")
        aws.client("s3").put_object(Bucket=BUCKET, Key=CONFIG_KEY, Body=config.encode())
        (FOLDER / "curfew.toml").write_text(config)
        jobs.prepare(account)
        for team in OWNERS:
            aws.client("iam").create_instance_profile(InstanceProfileName=f"{jobs.PROFILE}-{team}", Path="/curfew/")
        scratch = sockets / "machines"
        scratch.mkdir()
        shutil.copy(machines.TRAINING, scratch)
        hosts = Hosts(aws, scratch, HURRY, clock=clock, sockets=sockets)
        if has_boxes := why_no_boxes() is None:
            hosts.have_disks(scratch / "disks")
        stack.enter_context(hosts)
        command = machines.command(scratch, hosts.disk, STEPS)
        (FOLDER / "train.toml").write_text(jobs.SPEC.format(command=command, disk=hosts.disk, user=hosts.user))
        settings = environment(account, "enforce", **jobs.own_environment(scratch))
        control = Control(aws, settings, tuple(schedules()), math.inf, clock=clock, binaries=BINARIES)
        playground = Playground(account, stack.enter_context(control), hosts, clock, int(speed))
        progress = Progress("The first run of each function")
        playground.wait_until(lambda: control.is_idle and len(control.runs) >= len(schedules()))
        progress.done("done")
        keeping = threading.Thread(target=playground.keep_time)
        stack.callback(keeping.join)
        stack.callback(playground.over.set)
        keeping.start()
        listener = stack.enter_context(Listener(str(sockets / "commands"), "AF_UNIX"))
        threading.Thread(target=partial(_serve, listener, playground), daemon=True).start()
        exported = _environment(account, clock, sockets / "commands")
        is_terminal = sys.stdin.isatty()
        end = "Ctrl-D" if is_terminal else "The end of its input"
        line(WELCOME.format(now=playground.now(), idle=account.id_of("llama-ft"), box=BOX if has_boxes else "", env=FOLDER / "env", end=end))
        if not is_terminal:
            line((FOLDER / "env").read_text())
        words = ["bash", "--rcfile", str(FOLDER / "rc"), "-i"] if is_terminal else ["bash"]
        code = subprocess.run(words, cwd=FOLDER, env=exported).returncode
    line("The playground is gone: nothing of it runs any more.")
    return 0 if is_terminal else code


if __name__ == "__main__":
    sys.exit(supervise("playground", _play, has_terminal=True))
