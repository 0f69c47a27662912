"""A job's machine without a control plane: launched by the real `run-jobs` with the real user data, and near its absolute end.

machine = MachineWithoutControlPlane(jobs, folder, package)  # in tests: the fixture `machine`
machine.launch(machine.training(40))                          # the control plane is gone from then on
host = machine.boot()                                         # ten minutes before its end
machine.ends_by_its_timer()
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import training
from hosts import Host, Hosts
from hosts.host import wait_for
from jobs import Job, JobAccount
from moved_clock import MovedClock
from reaping import BUCKET, Run, binary, moment, scheduled
from runtime_api import Function

AGENT = "usr/local/bin/curfew-agent"
STEPS = 40
FOR_EVER = 10**6
BY_ITSELF = "Client.InstanceInitiatedShutdown"  # API reference of EC2, "StateReason"
BY_THE_REAPER = "Client.UserInitiatedShutdown"

_HURRY = 40
_BOOTS_BEFORE = timedelta(minutes=10)
_AGENT_ENDS_BEFORE = timedelta(minutes=5)
_TIMEOUT_SECONDS = 120
_RINGS = "the timer of curfew-end.service rings"


class MachineWithoutControlPlane:
    """One job, its machine, and the clock of both."""

    def __init__(self, jobs: JobAccount, folder: Path, package: Path) -> None:
        self.jobs, self.aws, self.clock = jobs, jobs.aws, MovedClock()
        self.hosts, self._open = Hosts(jobs.aws, folder, _HURRY, self.clock), ExitStack()
        self.result = self.hosts.disk / "result"
        self.user, self.more = self.hosts.user, ""  # of [machine]
        self.environment = jobs.environment(LAMBDA_TASK_ROOT=str(package))
        jobs.restart(LAMBDA_TASK_ROOT=str(package))

    def __enter__(self) -> MachineWithoutControlPlane:
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def training(self, steps: int) -> str:
        """A command: so many steps, with a checkpoint after every fifth."""
        script, trail = Path(training.__file__).resolve(), self.hosts.disk / "trail"
        return f"{sys.executable} {script} --steps {steps} --result {self.result} --trail {trail}"

    def spec(self, command: str) -> str:
        return f"""
            command = "{command}"
            owner = "ada@example.com"
            [gpu]
            types = ["g5.xlarge"]
            [limits]
            max_runtime = "1h"
            [checkpoint]
            dir = "{self.hosts.disk}/checkpoints"
            [machine]
            user = "{self.user}"
            {self.more}
            outputs = ["{self.result}"]
        """

    # What happens

    def launch(self, command: str) -> None:
        """The control plane does, and is gone. Nothing has booted yet."""
        self.knows(self.jobs.running(text=self.spec(command)))
        self.jobs.stop()
        self.aws.clear_calls()

    def knows(self, job: Job) -> None:
        """It is this job's machine."""
        self.job, self.ends_at = job, moment(job.phase["ends_at"])
        self.volumes = self._volumes()
        assert self.volumes, "what is not there cannot be seen to go"

    def boot(self) -> Host:
        self.clock.move_to(self.ends_at - _BOOTS_BEFORE)
        return self.begin()

    def begin(self) -> Host:
        """Machines are booted from now on."""
        self._open.enter_context(self.hosts)
        self.host = self.hosts.wait_for(self.job.machine)
        return self.host

    def train_for_ever(self) -> Host:
        """Launches it, boots it, and waits until it has kept a checkpoint."""
        self.launch(self.training(FOR_EVER))
        host = self.boot()
        self.until(self.step)
        return host

    def lose_agent(self) -> None:
        """It is not in the bucket any more."""
        self.aws.client("s3").delete_object(Bucket=BUCKET, Key=self.agent_key())

    def comes_to(self, then: datetime) -> None:
        """In a second the clock shows it."""
        self.clock.move_to(then - timedelta(seconds=1))

    def reap(self, at: datetime) -> Run:
        """The real reaper, at that moment."""
        with Function(binary("reap-instances"), self.environment, clock=self.clock) as reaper:
            reaper.wait_until_ready()
            self.clock.move_to(at)
            self.aws.clear_calls()
            return Run(reaper.invoke(scheduled("reap-instances")), self.aws.calls(), [])

    # What there is

    @property
    def agent_ends_at(self) -> datetime:
        return self.ends_at - _AGENT_ENDS_BEFORE / self.hosts.hurry

    def agent_key(self) -> str:
        [key] = self.jobs.keys("agent/")
        return key

    def agent(self) -> int:
        """Its process."""
        found = [one.pid for one in self.host.processes() if one.words[0].endswith(AGENT)]
        assert len(found) == 1, self.host.processes()
        return found[0]

    def head(self) -> dict[str, Any]:
        return self._read("head.json") or {}

    def step(self) -> int:
        """The step of the newest checkpoint that counts; 0 without one."""
        return (self.head().get("checkpoint") or {"step": 0})["step"]

    def exit(self) -> dict[str, Any] | None:
        return self._read("1/exit.json")

    def warnings(self) -> list[dict[str, str]]:
        return (self._read("1/heartbeat.json") or {}).get("warnings", [])

    def trail(self) -> list[int]:
        """The steps that the training did, in order."""
        return [int(line.split()[1]) for line in (self.host.root / "trail").read_text().splitlines()]

    def until(self, what: Callable[[], Any]) -> None:
        wait_for(what, _TIMEOUT_SECONDS, lambda: f"it never came to that:\n{self.host.console()}")

    def says(self, words: str, times: int = 1) -> None:
        self.until(lambda: self.host.console().count(words) >= times)

    def has_ended(self, why: str = BY_ITSELF) -> None:
        """It has switched itself off, EC2 has terminated it for this reason, and its volumes are gone with it."""
        self.host.wait_until_dark(_TIMEOUT_SECONDS)
        assert self.host.ended_by == "poweroff" and self.host.processes() == []
        self.until(lambda: self.jobs.state(self.host.id) == "terminated")
        assert self.aws.instance(self.host.id)["StateReason"]["Code"] == why
        assert not self.volumes & self._volumes()
        assert self.aws.counts()["ec2:TerminateInstances"] == (why == BY_THE_REAPER)

    def ends_by_its_timer(self) -> None:
        """It ends at its absolute end, and no other actor ends it before."""
        assert self.host.is_on
        self.comes_to(self.ends_at)
        self.host.wait_until_dark(_TIMEOUT_SECONDS)
        assert datetime.now(timezone.utc) + timedelta(seconds=self.clock.moved_by_seconds) >= self.ends_at
        assert _RINGS in self.host.console() and self.exit() is None
        self.has_ended()

    def _volumes(self) -> set[str]:
        return {one["VolumeId"] for one in self.aws.client("ec2").describe_volumes()["Volumes"]}

    def _read(self, name: str) -> dict[str, Any] | None:
        key = f"attempts/{self.job.id}/{name}"
        return self.jobs.read(key) if key in self.jobs.keys(key) else None
