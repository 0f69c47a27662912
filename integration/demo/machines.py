"""The machines of the job: their events while they train, and the totals afterwards."""

from __future__ import annotations

import json
import runpy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from hosts import Host, Hosts
from hosts.isolation import NAMESPACES

from .fleet import EAST_1
from .run import REPOSITORY, Broken, expect
from .screen import Ticker, hanging, line, paint, paragraph
from .seed import BUCKET, Account

TRAINING = REPOSITORY / "integration" / "training.py"
STEPS, EVERY = 100, 10  # of the training; a checkpoint every so many of them
_STEP_SECONDS = 0.07
# The training waits between two checkpoints until its machine is taken away, however slow everything else is.
PAUSE_AFTER, PAUSES = "pause-after", (27, 48)
_TIMEOUT_SECONDS = 180.0  # for each wait of the story
_LOOK_SECONDS = 0.1
_BAR = 40  # columns


@dataclass(frozen=True)
class Attempt:
    """One attempt, when it is over."""

    number: int
    instance: str
    ended_by: str | None  # `poweroff` where its machine has switched itself off, or `plug`
    took_over: int  # the step that head.json named when this attempt took the fence
    kept: int  # the newest that counted when it had ended
    steps: list[int]  # that it did, in order
    exited: dict[str, Any] | None  # its exit record

    @property
    def last(self) -> int:
        return self.steps[-1] if self.steps else self.took_over


@dataclass(frozen=True)
class Trained:
    """What came of all of them."""

    attempts: list[Attempt]
    trail: list[tuple[int, int]]  # attempt and number of each step, in the order in which they were done
    fence: list[int]  # whose number head.json had, version by version
    result: str  # the output of the job
    undisturbed: str  # what has to come out
    processes: int  # that are left of all machines
    volumes: list[str]  # that are left of them

    def done_twice(self, attempt: Attempt) -> int:
        """Of the steps before it, those that it does again."""
        return max((one.last for one in self.attempts if one.number < attempt.number), default=0) - attempt.took_over


class Watch:
    """Looks at what machines and their agents leave behind, and says each thing once."""

    def __init__(self, account: Account, hosts: Hosts, job: str, trail: Path) -> None:
        self._account, self._hosts, self._job, self._trail = account, hosts, job, trail
        self._began = time.monotonic()
        self._said: set[tuple[Any, ...]] = set()
        self._ticker = Ticker()
        self._begins = True
        self.head: dict[str, Any] = {}

    @property
    def kept(self) -> int:
        """The step of the newest checkpoint that counts, as of the last look."""
        return _kept_by(self.head)

    def steps(self) -> list[tuple[int, int]]:
        """Attempt and number of each step, in the order in which they were done."""
        lines = self._trail.read_text().splitlines() if self._trail.exists() else []
        return [(int(attempt), int(step)) for attempt, step in map(str.split, lines)]

    def pauses_after(self, attempt: int, step: int) -> bool:
        """Whether it has done this step, and its checkpoint before it counts."""
        return self.steps()[-1:] == [(attempt, step)] and self.kept == step - step % EVERY

    def number_of(self, host: Host) -> int:
        """Each attempt has one machine, and they come one after the other."""
        return self._hosts.all().index(host) + 1

    def until(self, awaited: str, is_so: Callable[[], Any], continues: bool = False) -> Any:
        """Shows events until the condition holds; below an empty line, unless it continues the last part."""
        self._begins = not continues
        until = time.monotonic() + _TIMEOUT_SECONDS
        while not (found := self._looked() and is_so()):
            if time.monotonic() > until:
                raise Broken(f"{awaited} was to come:\n" + "\n".join(host.console() for host in self._hosts.all()))
            time.sleep(_LOOK_SECONDS)
        self._ticker.clear()
        return found

    def read(self, name: str) -> dict[str, Any] | None:
        """A document of the job, where there is one."""
        try:
            return json.load(self._account.aws.client("s3").get_object(Bucket=BUCKET, Key=f"attempts/{self._job}/{name}")["Body"])
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            return None

    def counted(self) -> Trained:
        """When all is over."""
        trail, heads, hosts = self.steps(), list(self._heads()), self._hosts.all()
        attempts = [self._counted(number, host, trail, heads) for number, host in enumerate(hosts, 1)]
        return Trained(
            attempts=attempts,
            trail=trail,
            fence=[head["attempt"] for head in heads],
            result=self._output(len(hosts)),
            undisturbed=runpy.run_path(str(TRAINING))["undisturbed"](STEPS),
            processes=sum(len(host.processes()) for host in hosts),
            volumes=self.volumes(),
        )

    def volumes(self) -> list[str]:
        """Those of jobs that there are."""
        wanted = [{"Name": "tag-key", "Values": ["curfew:job"]}]
        return [one["VolumeId"] for one in self._account.aws.client("ec2", EAST_1).describe_volumes(Filters=wanted)["Volumes"]]

    def _counted(self, number: int, host: Host, trail: list[tuple[int, int]], heads: list[dict[str, Any]]) -> Attempt:
        own = [_kept_by(head) for head in heads if head["attempt"] == number]
        return Attempt(
            number=number,
            instance=host.id,
            ended_by=host.ended_by,
            took_over=own[0] if own else 0,
            kept=own[-1] if own else 0,
            steps=[step for attempt, step in trail if attempt == number],
            exited=self.read(f"{number}/exit.json"),
        )

    def _heads(self) -> Iterator[dict[str, Any]]:
        """All versions of the fence: the bucket keeps versions, like that of the template."""
        s3, key = self._account.aws.client("s3"), f"attempts/{self._job}/head.json"
        for version in reversed(s3.list_object_versions(Bucket=BUCKET, Prefix=key).get("Versions", [])):
            yield json.load(s3.get_object(Bucket=BUCKET, Key=key, VersionId=version["VersionId"])["Body"])

    def _output(self, attempt: int) -> str:
        s3, prefix = self._account.aws.client("s3"), f"outputs/{self._job}/{attempt}/"
        listed = [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])]
        return s3.get_object(Bucket=BUCKET, Key=listed[0])["Body"].read().decode() if len(listed) == 1 else f"in {listed}"

    # What is shown

    def _looked(self) -> bool:
        self.head = self.read("head.json") or {}
        steps = self.steps()
        for host in self._hosts.all():
            for what, words in self._news(host, self.number_of(host), steps):
                self._say(what, self.number_of(host), words)
        if steps:
            attempt, step = steps[-1]
            bar = ("#" * (step * _BAR // STEPS)).ljust(_BAR, ".")
            self._ticker.show(f"           attempt {attempt}  step {step:3} of {STEPS}  {bar}")
        return True

    def _news(self, host: Host, number: int, steps: list[tuple[int, int]]) -> Iterator[tuple[Any, str]]:
        if host.booted.is_set():
            yield "booted", f"{host.id} has booted: the deadline is armed, the agent fetched and started"
        if own := [step for attempt, step in steps if attempt == number]:
            yield "trains", f"the agent runs the command, which runs step {own[0]}"
        kept = self.head.get("checkpoint") or {}
        if kept.get("attempt") == number:
            yield ("kept", kept["step"]), f"the checkpoint of step {kept['step']} is kept"
        # Finished jobs are not polled.
        if ("beat", number) not in self._said and own and (beat := self.read(f"{number}/heartbeat.json") or {}).get("step"):
            rate = f", {beat['steps_per_hour']:,.0f} steps an hour" if beat["steps_per_hour"] else ""
            yield "beat", f"heartbeat: {beat['doing']}, at step {beat['step']}{rate}"
        if ("exit", number) not in self._said and own and (exited := self.read(f"{number}/exit.json")):
            yield "exit", f"its exit record: {exited['reason']}: {exited['why']}"
        if host.dark.is_set() and host.ended_by:
            how = "has shut itself down" if host.ended_by == "poweroff" else "has lost power"
            yield "dark", f"{host.id} {how}"

    def _say(self, what: Any, number: int, words: str) -> None:
        if (what, number) not in self._said:
            self._said.add((what, number))
            self._ticker.clear()
            if self._begins:
                line()
            self._begins = False
            hanging(f"  {time.monotonic() - self._began:4.1f} s  attempt {number}  ", words)


def kept_apart(hosts: Hosts) -> str:
    """In what the machines run here."""
    if hosts.isolation == NAMESPACES:
        return "in namespaces of its own: its processes, its disk, and a network with nothing in it but AWS"
    return f"as processes beside all others ({hosts.why_not_better})"


def show(trained: Trained) -> None:
    """The attempts in a table, and the repeated work."""
    line(paint("attempt  machine              resumed from  ran until  kept until  repeated  ended", "bold"))
    for one in trained.attempts:
        how = one.exited["reason"] if one.exited else "without an exit record"
        twice = trained.done_twice(one) if one.number > 1 else 0
        line(f"{one.number:7}  {one.instance}  {one.took_over:12}  {one.last:9}  {one.kept:10}  {twice:8}  {how}")
    line()
    again, results = len(trained.trail) - STEPS, trained.result == trained.undisturbed
    paragraph(
        f"{len(trained.trail)} steps ran for {STEPS}: {again} of them twice, because no checkpoint had them at the power loss. "
        f"The result is {trained.result[:16]}…, {'byte for byte' if results else 'NOT'} that of an uninterrupted training. "
        f"Left of the machines: {trained.processes} processes, {len(trained.volumes)} volumes."
    )


def judge(trained: Trained) -> None:
    """Three attempts: the first is warned and saves a last time, the plug of the second is pulled, the third goes to the end."""
    numbers = [attempt for attempt, _ in trained.trail]
    expect("the result", trained.undisturbed, trained.result)
    expect("which steps were done", set(range(1, STEPS + 1)), {step for _, step in trained.trail})
    expect("the order of attempts, in steps and at the fence", (sorted(numbers), sorted(trained.fence)), (numbers, trained.fence))
    expect("what is left of the machines", (0, []), (trained.processes, trained.volumes))
    ends = [(one.ended_by, (one.exited or {}).get("reason")) for one in trained.attempts]
    expect("how attempts ended", [("poweroff", "interrupted"), ("plug", None), ("poweroff", "succeeded")], ends)
    for before, after in zip(trained.attempts, trained.attempts[1:]):
        expect(f"where attempt {after.number} went on", (before.kept, [before.kept + 1]), (after.took_over, after.steps[:1]))
    expect("what was done twice after the warning", 0, trained.done_twice(trained.attempts[1]))


def _kept_by(head: dict[str, Any]) -> int:
    return (head.get("checkpoint") or {}).get("step", 0)


def command(scratch: Path, disk: Path, steps: int = STEPS) -> str:
    """The job's command. The trail is outside of all machines, so that it survives them."""
    return (
        f"cd {scratch}\n"
        f"exec python3 training.py --steps {steps} --every {EVERY} --step-seconds {_STEP_SECONDS} \\\n"
        f"    --result {disk.relative_to(scratch)}/result --trail trail --pause-after {PAUSE_AFTER}"
    )
