"""Jobs on several machines that run one command together: real machines, the real agent on each, and the real `run-jobs`.

    with GangWorld(aws, tmp_path, packaged) as world:
        gang = world.submit(nodes=2, pause_after=13)
        gang.keeps(12)                              # all nodes have uploaded that step
        world.control.interrupt(gang.hosts()[1])
        gang.succeeds()                             # in another attempt, and the result is that of an undisturbed run

A training waits after the step `pause_after` until the test lets it go on, so that nothing hangs on how fast a machine is.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import gang_training
from hosts import Control, Host, Hosts
from hosts.host import wait_for
from hosts.isolation import NAMESPACES
from jobs import Job, JobAccount
from local_aws import LocalAws
from moved_clock import MovedClock
from reaping import BUCKET, now

HURRY = 40  # each wait of the agents is so many times shorter
STEPS, EVERY = 24, 4
TIMEOUT_SECONDS = 120.0  # for what takes a second on a machine that has time
LONG_NOTICE_SECONDS = 60.0  # takes no longer than the machine, which shuts down once all is kept

SPEC = """
command = {command}
owner = "ada@example.com"
[gpu]
nodes = {nodes}
types = ["g5.xlarge"]
[limits]
max_runtime = "8h"
[machine]
user = {user}
{machine}
[checkpoint]
dir = {checkpoints}
every = "1m"
"""


def gang_spec(nodes: int = 2, types: str = "g5.xlarge", more: str = "") -> str:
    """Of a job whose machines need no agent."""
    return f"""
command = "torchrun train.py"
owner = "ada@example.com"
{more}
[gpu]
nodes = {nodes}
types = ["{types}"]
[limits]
max_runtime = "8h"
[checkpoint]
"""


def grant_vcpus(aws: LocalAws) -> None:
    """A new account has none (EC2 user guide, "Amazon EC2 service quotas"), and a gang that they do not allow is not requested."""
    for code in ("L-DB2E81BA", "L-3819A6DF", "L-417A185B", "L-7212CCBC", "L-C4BD4855"):
        aws.set_quota(code, 10_000)


class GangWorld:
    """An account in which jobs on several machines live."""

    def __init__(self, aws: LocalAws, scratch: Path, packaged: Path, hurry: int = HURRY, are_wired: bool = False) -> None:
        """`are_wired`: the machines reach each other by their private addresses."""
        self.aws, self.scratch, self._packaged, self.hurry, self._are_wired = aws, scratch, packaged, hurry, are_wired

    def __enter__(self) -> GangWorld:
        with ExitStack() as stack:
            self.account = stack.enter_context(JobAccount(self.aws))
            grant_vcpus(self.aws)
            environment = self.account.environment(LAMBDA_TASK_ROOT=str(self._packaged))
            self.hosts = stack.enter_context(Hosts(self.aws, self.scratch / "hosts", self.hurry, are_wired=self._are_wired))
            self.clock = MovedClock()
            self.control = stack.enter_context(Control(self.aws, environment, every=1.5, clock=self.clock))
            self._all = stack.pop_all()
        assert self.hosts.isolation == NAMESPACES
        return self

    def __exit__(self, *error: Any) -> None:
        self._all.__exit__(*error)

    def submit(self, nodes: int = 2, steps: int = STEPS, pause_after: int | None = None, more: str = "", outputs: bool = False) -> Gang:
        gang = self.gang(nodes, steps)
        if pause_after is not None:
            gang.pause_after(pause_after)
        words = [sys.executable, gang_training.__file__, str(gang.folder), str(steps), str(EVERY)]
        text = SPEC.format(
            command=json.dumps(f"exec {shlex.join(words)}"),
            nodes=nodes,
            user=json.dumps(self.hosts.user),
            machine=f"outputs = [{json.dumps(str(gang.folder / 'result'))}]" if outputs else "",
            checkpoints=json.dumps(str(self.hosts.disk / "var/curfew/checkpoints")),
        )
        gang.job = self.accept(more + text)
        return gang

    def gang(self, nodes: int, steps: int) -> Gang:
        """One that is not submitted yet, with its folder."""
        gang = Gang(self, nodes, steps, self.scratch / "meet")
        gang.folder.mkdir()
        return gang

    def accept(self, text: str) -> Job:
        key = self.account.submit("gang", text)
        answer = wait_for(lambda: self.account.answer(key), TIMEOUT_SECONDS, lambda: "no answer")
        assert answer["is"] == "accepted", answer
        return Job(self.account, answer["job"])

    def minutes_pass(self, minutes: float) -> None:
        """For the control plane alone: agents measure each wait by itself, and theirs are shorter."""
        self.clock.move_by(self.clock.moved_by_seconds + minutes * 60)

    def launches(self) -> list[tuple[list[int], int]]:
        """MinCount and MaxCount of each launch, and the status of its answer."""
        return [(call["instances_asked"], call["status"]) for call in self.aws.calls("ec2:RunInstances")]


class Gang:
    """One job, by its documents, its machines, and the folder in which its nodes meet."""

    job: Job

    def __init__(self, world: GangWorld, nodes: int, steps: int, folder: Path) -> None:
        self.world, self.nodes, self.steps, self.folder = world, nodes, steps, folder

    # What the test does to the training

    def pause_after(self, step: int) -> None:
        self._put("pause-after", str(step))

    def go_on(self) -> None:
        (self.folder / "pause-after").unlink()

    def hold_save(self, node: int) -> None:
        self._put(f"hold-{node}", "")

    def release_save(self, node: int) -> None:
        (self.folder / f"hold-{node}").unlink()

    def fail(self, node: int, code: int) -> None:
        """It exits with that code after its next step."""
        self._put(f"fail-{node}", str(code))

    def was_silent(self, node: int, minutes: float) -> None:
        """As if S3 had got all documents of a node so long ago, and none since."""
        names = (f"member/{node}.json", f"beat/{node}.json", f"round/0/ready-{node}")
        for key in self.world.account.keys(folder := self.launch_folder()):
            if key.removeprefix(folder) in names:
                self.world.aws.set_object(BUCKET, key, now() - timedelta(minutes=minutes))

    def _put(self, name: str, text: str) -> None:
        """There as a whole at once."""
        part = self.folder / f"{name}.part"
        part.write_text(text)
        part.rename(self.folder / name)

    # What there is

    def hosts(self, attempt: int = 1) -> list[Host]:
        """The machines of an attempt that runs, by node, once all have booted."""
        self.until(lambda: self.job.state == "running" and self.job.attempt == attempt)
        return [self.world.hosts.wait_for(machine) for machine in self.job.machines]

    def launch_folder(self, attempt: int = 1) -> str:
        """Of the one launch that has left documents."""
        folder = f"attempts/{self.job.id}/{attempt}/"
        launches = {key.removeprefix(folder).partition("/")[0] for key in self.world.account.keys(folder)} - {"nodes"}
        assert len(launches) == 1, launches
        return f"{folder}{launches.pop()}/"

    def has(self, name: str, attempt: int = 1) -> bool:
        """Whether a member of the launch has written a document."""
        keys = self.world.account.keys(f"attempts/{self.job.id}/{attempt}/")
        return any(key.split("/", 5)[-1] == name for key in keys)

    def read(self, name: str, attempt: int = 1) -> dict[str, Any]:
        return self.world.account.read(f"{self.launch_folder(attempt)}{name}")

    def head(self) -> dict[str, Any]:
        key = f"attempts/{self.job.id}/head.json"
        return self.world.account.read(key) if key in self.world.account.keys(key) else {}

    def kept(self) -> int:
        """The step that head names."""
        return (self.head().get("checkpoint") or {"step": 0})["step"]

    def parts(self, attempt: int, step: int) -> list[int]:
        """The nodes that have put their manifest of a step."""
        folder = f"checkpoints/{self.job.id}/{attempt}/{step}/"
        return [int(key.split("/")[-2]) for key in self.world.account.keys(folder) if key.endswith("/manifest.json")]

    def log(self, node: int, attempt: int = 1) -> str:
        key = f"attempts/{self.job.id}/{attempt}/nodes/{node}/log"
        return (self.world.aws.object(BUCKET, key) or b"").decode()

    def trail(self, node: int) -> list[tuple[int, int]]:
        """Attempt and number of each step that a node did, in order."""
        path = self.folder / f"trail-{node}"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(attempt), int(step)) for attempt, step in map(str.split, lines)]

    # What has to become of it

    def until(self, holds: Callable[[], Any], seconds: float = TIMEOUT_SECONDS) -> Any:
        return wait_for(holds, seconds, self.told)

    def comes_to(self, step: int) -> None:
        """All nodes have done that step."""
        self.until(lambda: all(self.trail(node)[-1:] and self.trail(node)[-1][1] == step for node in range(self.nodes)))

    def keeps(self, step: int) -> None:
        """The training waits after a later step, and head names this one, of which all have put their parts."""
        self.until(lambda: self.kept() == step)

    def succeeds(self) -> None:
        """Its result is that of an undisturbed run, and nothing of it is left."""
        self.ends("succeeded")
        assert (self.folder / "result").read_text() == gang_training.undisturbed(self.nodes, self.steps), self.told()

    def ends(self, result: str) -> None:
        self.until(lambda: self.job.state == "ended" and self.job.phase["closed"])
        assert self.job.phase["result"] == result, self.told()
        self.until(lambda: not self.world.account.machines(job=self.job.id))
        ec2 = self.world.aws.client("ec2")
        assert ec2.describe_placement_groups()["PlacementGroups"] == []
        assert [one["GroupName"] for one in ec2.describe_security_groups()["SecurityGroups"] if one["GroupName"] != "default"] == []

    def loses_the_rest(self) -> None:
        """The time is over in which nodes that are left could save, once one was lost (next/run.rs, GANG_SAVES_IN)."""
        self.until(lambda: self.job.state == "interrupted")
        self.world.minutes_pass(4)

    def resumed_after(self, step: int, attempt: int = 2) -> None:
        """Each node did every step of each attempt once, and that attempt began after this step."""
        for node in range(self.nodes):
            done = [number for of, number in self.trail(node) if of == attempt]
            assert done == list(range(step + 1, self.steps + 1)), f"node {node}: {self.trail(node)}"

    def told(self) -> str:
        """All that there is to see, of a job that went wrong."""
        consoles = "\n".join(f"--- {host.id}\n{host.console()}" for host in self.world.hosts.all())
        runs = [run for run in self.world.control.runs if run.invocation.error or run.invocation.response["steps"] or run.invocation.response["gaps"]]
        said = "\n".join(f"{run.why}: {run.invocation.error or run.invocation.response}" for run in runs)
        keys = "\n".join(self.world.account.keys("attempts/"))
        return f"{consoles}\n{said}\n{keys}\n{self.head()}\n{json.dumps(self.job.document, indent=1)}"


