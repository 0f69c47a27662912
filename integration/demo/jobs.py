"""The second half: a team drops a job into its inbox, its machines come and go, and it ends for certain.

All of it is real but AWS: `run-jobs`, the machines that boot with the user data that it gave them, the agent that they fetch, and the
training. The demo is EventBridge, and takes machines away.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from botocore.exceptions import ClientError

from hosts import Host, Hosts, package

from . import budgets, command, machines, show
from .fleet import EAST_1
from .machines import PAUSE_AFTER, PAUSES, STEPS, TRAINING, Watch
from .run import BINARIES, BUDGETS, JOBS, REPOSITORY, Broken, Reaper, Run, expect, reaper
from .screen import heading, line, paint, paragraph
from .seed import BUCKET, Account

TEAM, NAME = "nlp", "reward-model"
LEFT_USD = 100  # of the budget that the team is given
FULL, CHEAPEST, NEXT = "us-east-1b", "us-east-1d", "us-east-1a"  # zones, the cheapest first; in the first there is no capacity
_SPOT = {"g6.xlarge": {FULL: 0.2907, CHEAPEST: 0.3114}, "g5.xlarge": {NEXT: 0.4021, "us-east-1c": 0.4388}}
_WITHOUT_HEARTBEAT = timedelta(minutes=11)
WARNING_SECONDS = 120  # "Spot Instance interruption notices" (EC2 user guide)
CALLS_MAX = 6  # from an interruption to the request to launch
PROFILE = "curfew-job"
_WORST_USD = 8.05  # of the job
# After each run: the job's state and attempt, and what was done in it.
_AFTER = {
    "launched": ("running", 1, ["launch"]),
    "seen": ("running", 1, []),
    "warned": ("running", 2, ["notify", "launch"]),
    "silent": ("running", 3, ["terminate", "notify", "launch"]),
    "succeeded": ("ended", 3, ["notify"]),
    "over": ("ended", 3, []),
}
_HURRY = 20

SPEC = """\
owner = "grace@example.com"
command = '''
{command}
'''
[gpu]
types = ["g5.xlarge", "g6.xlarge"]
[limits]
max_runtime = "8h"                 # all attempts together
[checkpoint]                       # without this section each attempt begins at zero
dir = "{disk}/checkpoints"
every = "15m"
[machine]
user = "{user}"
outputs = ["{disk}/result"]
"""


@dataclass(frozen=True)
class Stage:
    """One run, and what there was after it."""

    run: Run
    state: dict[str, Any]  # the job's state.json
    machines: list[str]  # of jobs, that are not gone; the oldest first
    reserved: dict[str, Any] | None  # for the job, on its team's budget
    active: list[str]  # jobs that are not over

    @property
    def phase(self) -> dict[str, Any]:
        return {"state": self.state["phase"]["state"], **self.state["phase"].get("of", {})}

    @property
    def placed(self) -> dict[str, Any]:
        """Its machine, without which the demo cannot go on."""
        if self.phase["state"] != "running":
            raise Broken(f"the job was to run, and is {self.phase}: {self.run.response}")
        return self.phase


@dataclass
class Lived:
    """The life of the job."""

    job: str = ""
    stages: dict[str, Stage] = field(default_factory=dict)
    beats: list[Run] = field(default_factory=list)

    @property
    def runs(self) -> list[Run]:
        """Those of run-jobs, in order."""
        return [stage.run for stage in self.stages.values()]


@dataclass
class Scene:
    """What the acts need."""

    lived: Lived
    account: Account
    jobs: Reaper
    hosts: Hosts
    scratch: Path
    watch: Watch | None = None

    @property
    def watched(self) -> Watch:
        assert self.watch is not None, "nothing was submitted yet"
        return self.watch

    def host(self, name: str) -> Host:
        """The machine of that stage."""
        return self.hosts.wait_for(self.lived.stages[name].placed["instance"])


def play(account: Account, sockets: Path) -> Lived:
    """The sockets of the machines are made in a folder of `sockets`."""
    lived = Lived()
    heading(f"A GPU job of {TEAM}: launched on Spot, interrupted, launched again, and over")
    with reaper(account, "enforce", BUDGETS) as beats, _scene(lived, account, sockets) as scene:
        prepare(account)
        lived.beats.append(_give(account, beats))
        _submit(scene)
        _warn(scene)
        _stop_heartbeats(scene)
        _end(scene)
        _let_a_second_pass()
        lived.beats.append(beats.run())
        _stage(scene, "over", _event("scheduled-rule"))
        left = lived.stages["over"]
        expect("what is left of the job", ([], [], None), (left.machines, left.active, left.reserved))
        asked_of_ec2 = {action for action in left.run.calls if action.startswith("ec2:")}
        expect("what a sweep without jobs asks EC2", set(), asked_of_ec2)
        line()
        paragraph(
            "The next beat gives back what was reserved and not spent. The next minute's sweep finds nothing to do, and asks EC2 "
            f"nothing. Reserved for jobs: ${_reserved_usd(lived.beats[-1]):,.2f}. Machines of jobs: {len(left.machines)}. Jobs that "
            f"are not over: {len(left.active)}."
        )
    return lived


@contextmanager
def _scene(lived: Lived, account: Account, sockets: Path) -> Iterator[Scene]:
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        shutil.copy(TRAINING, scratch)
        try:
            with (
                reaper(account, "enforce", JOBS, **own_environment(scratch)) as jobs,
                Hosts(account.aws, scratch, _HURRY, sockets=sockets) as hosts,
            ):
                yield Scene(lived, account, jobs, hosts, scratch)
        except AssertionError as error:  # a machine that does not boot, or that leaves something behind
            raise Broken(str(error)) from None


def own_environment(scratch: Path) -> dict[str, str]:
    """What `run-jobs` gets besides; the agent is packaged below `scratch`."""
    agent = BINARIES / "agent"
    if not agent.exists():
        raise Broken(f"{agent} is not built: run `make demo`, or `cargo build --package agent`")
    return {"LAMBDA_TASK_ROOT": str(package(scratch / "package", agent)), "CURFEW_JOB_PROFILE": PROFILE}


def prepare(account: Account) -> None:
    """Prices, where there is no capacity, and what the template would have made: a profile, and versions of what is in the bucket."""
    for what, zones in _SPOT.items():
        account.aws.set_spot_price(what, zones, since=show.now() - timedelta(minutes=5))
    account.aws.set_capacity(0, "g6.xlarge", zone=FULL, lifecycle="spot")
    account.aws.client("iam").create_instance_profile(InstanceProfileName=PROFILE)
    account.aws.client("s3").put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})


def _give(account: Account, beats: Reaper) -> Run:
    spent = json.loads(_read(account, f"budgets/{TEAM}/{show.now():%Y-%m}.json"))["spent_usd"]
    line()
    paragraph(
        f"{TEAM} has spent ${spent:,.2f} this month, and is given a budget: what a job can cost at most has to fit into what is left."
    )
    budgets.give(account, TEAM, spent + LEFT_USD)
    return beats.run()


def _submit(scene: Scene) -> None:
    lived, disk = scene.lived, scene.hosts.disk
    line()
    paragraph(f"Three teams share the account, so the machines of each get a role of their own. The platform engineer makes that of {TEAM}:")
    command.curfew(scene.account, "team", "create", TEAM)
    line()
    paragraph(f"Grace writes {NAME}.toml, and submits it:")
    line()
    _pause_after(scene, PAUSES[0])
    spec = SPEC.format(command=machines.command(scene.scratch, disk), disk=disk, user=scene.hosts.user)
    for one in filter(None, spec.splitlines()):
        line(f"  {one}")
    command.curfew_with(scene.account, {f"{NAME}.toml": spec}, "submit", f"{NAME}.toml", "--team", TEAM)
    key = f"inbox/{TEAM}/{NAME}.toml"
    line()
    run = scene.jobs.run(_created(key))
    lived.job = json.loads(_read(scene.account, key.replace(".toml", ".accepted.json")))["job"]
    scene.watch = Watch(scene.account, scene.hosts, lived.job, scene.scratch / "trail")
    stage = _stage(scene, "launched", run)
    _show(run, "S3's event starts run-jobs, which accepts the job, reserves the money, and launches")
    placed, tried = stage.placed, [call for call in run.asked if call["action"] == "ec2:RunInstances"]
    line(f"  g6.xlarge  {FULL}  ${_SPOT['g6.xlarge'][FULL]:.2f}/h  no capacity ({tried[0]['status']}): run-jobs tries the next pool at once")
    line(
        paint(
            f"  {placed['type']}  {placed['zone']}  ${placed['rate']:.2f}/h  {placed['instance']}, ends by "
            f"{show.moment(placed['ends_at']):%H:%M} UTC",
            "bold",
        )
    )
    expect("which launches were accepted", [False, True], [call["status"] == 200 for call in tried])
    expect("where the job was launched", CHEAPEST, placed["zone"])
    reserved = round((stage.reserved or {}).get("usd", 0), 2)
    expect("what was reserved", _WORST_USD, reserved)
    line(f"  reserved on the budget of {TEAM}: ${reserved:.2f}")
    _messages(run)
    line()
    paragraph(
        f"A machine boots, {machines.kept_apart(scene.hosts)}. It runs the user data of run-jobs and the agent "
        f"that was built here, with waits {_HURRY} times as short. The result of the training is deterministic: "
        f"each of its {STEPS} steps depends on the previous one."
    )
    scene.watched.until("the first checkpoint", lambda: scene.watched.kept)


def _warn(scene: Scene) -> None:
    first, watch = scene.host("launched"), scene.watched
    watch.until("a step of the first machine after a checkpoint", lambda: watch.pauses_after(1, PAUSES[0]))
    scene.account.aws.set_capacity(10, "g6.xlarge", zone=FULL, lifecycle="spot")
    line()
    seen = _stage(scene, "seen", _event("scheduled-rule"))
    paragraph(
        f"The sweep of the minute sees that step {seen.state['progress']['step']} is kept. Then AWS warns, on the machine and on the "
        f"bus: {first.id} will be reclaimed in two minutes. {FULL} has capacity again."
    )
    line()
    first.warn(WARNING_SECONDS)
    stage = _stage(scene, "warned", _of_instance("ec2-spot-interruption-warning", first.id))
    run = stage.run
    until = calls_to_launch(run)
    expect(f"that {CALLS_MAX} calls suffice from the warning to the launch", True, len(until) <= CALLS_MAX)
    took = until[-1]["at"] - until[0]["at"]
    _show(run, "The warning starts run-jobs, which launches the next machine at once")
    paragraph(f"From the event to the accepted launch: {len(until)} AWS calls (the limit is {CALLS_MAX}), {took * 1000:.0f} ms.", "  ")
    placed = stage.placed
    line(f"  {placed['type']}  {placed['zone']}  ${placed['rate']:.2f}/h  {placed['instance']}, attempt {placed['attempt']}")
    _messages(run)
    line()
    paragraph("The agent on the old machine lets the training save a last time. The new machine waits for that, and resumes from there:")
    watch.until(f"the end of {first.id}", first.dark.is_set)


def _stop_heartbeats(scene: Scene) -> None:
    watch, account = scene.watched, scene.account
    second = scene.host("warned")
    _pause_after(scene, PAUSES[1])
    watch.until("a step of the second machine after a checkpoint", lambda: watch.pauses_after(2, PAUSES[1]))
    second.pull_the_plug()
    watch.until(f"the end of {second.id}", second.dark.is_set, continues=True)
    _pause_after(scene, STEPS)
    heartbeat = f"attempts/{scene.lived.job}/2/heartbeat.json"
    account.aws.set_object(BUCKET, heartbeat, show.now() - _WITHOUT_HEARTBEAT)
    account.aws.hold_ends(EAST_1, False)  # a machine that is off has nothing to end
    line()
    paragraph(
        "The demo cuts its power, and EC2 still reports it as running, like a machine that hangs. (Instead of "
        f"{_WITHOUT_HEARTBEAT.seconds // 60} minutes of waiting, the demo moves the time of its last heartbeat back.)"
    )
    line()
    run = _stage(scene, "silent", _event("scheduled-rule")).run
    _show(run, "The sweep of the minute finds it. run-jobs terminates the machine, sees it gone, and only then replaces it")
    acted = [step for step in run.response["steps"] if step["action"] != "notify"]
    expect("the order of a replacement", ["terminate", "launch"], [step["action"] for step in acted])
    for number, step in enumerate(acted, 1):
        paragraph(f"{number}. {step['action']} {step['resource']}: {step['evidence']['why']}", "  ")
    _messages(run)


def _end(scene: Scene) -> None:
    lived, watch = scene.lived, scene.watched
    third = scene.host("silent")
    watch.until(f"the end of {third.id}", third.dark.is_set)
    says = scene.account.aws.instance
    watch.until(f"what EC2 says of {third.id}", lambda: says(third.id)["State"]["Name"] == "terminated", continues=True)
    line()
    succeeded = _stage(scene, "succeeded", _of_instance("ec2-instance-state-change", third.id))
    _show(succeeded.run, "EC2's event starts run-jobs")
    _messages(succeeded.run)
    expect("what `curfew jobs` says", True, f"{lived.job}: succeeded" in command.curfew(scene.account, "jobs", NAME))
    trained = watch.counted()
    line()
    paragraph("The three attempts:")
    line()
    machines.show(trained)
    machines.judge(trained)


def _pause_after(scene: Scene, step: int) -> None:
    (scene.scratch / PAUSE_AFTER).write_text(str(step))


def _let_a_second_pass() -> None:
    """Documents know seconds: what ended within the second of a beat is given back by the beat after it."""
    time.sleep(1 - time.time() % 1)


def calls_to_launch(run: Run) -> list[dict[str, Any]]:
    """Up to the request to launch that was accepted."""
    for number, call in enumerate(run.asked, 1):
        if call["action"] == "ec2:RunInstances" and call["status"] == 200:
            return run.asked[:number]
    raise Broken(f"nothing was launched: {run.response}")


# What AWS tells


def _event(name: str) -> dict[str, Any]:
    return json.loads((REPOSITORY / "events" / JOBS / f"{name}.json").read_text())


def _created(key: str) -> dict[str, Any]:
    event = _event("s3-object-created-inbox")
    event["detail"]["bucket"]["name"], event["detail"]["object"]["key"] = BUCKET, key
    return event


def _of_instance(name: str, instance_id: str) -> dict[str, Any]:
    event = _event(name)
    event["region"], event["detail"]["instance-id"] = EAST_1, instance_id
    return event


# What there is


def _stage(scene: Scene, name: str, what: Run | dict[str, Any]) -> Stage:
    """After a run, or after that of an event."""
    lived, account = scene.lived, scene.account
    run = what if isinstance(what, Run) else scene.jobs.run(what)
    listed = account.aws.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="active/").get("Contents", [])
    stage = Stage(
        run=run,
        state=json.loads(_read(account, f"jobs/{lived.job}/state.json")),
        machines=machines_of_jobs(account),
        reserved=run.documents[TEAM].get("reservations", {}).get(lived.job),
        active=[one["Key"] for one in listed],
    )
    lived.stages[name] = stage
    found = (stage.phase["state"], stage.state["attempt"], [step["action"] for step in run.done])
    expect(f"the job, once it is {name},", _AFTER[name], found)
    expect("who heard of the job", {TEAM} if found[2] else set(), run.heard)
    expect("what could not be seen of it", [], run.response["gaps"])
    return stage


def machines_of_jobs(account: Account) -> list[str]:
    """Those that are not gone; the oldest first."""
    wanted = [
        {"Name": "tag-key", "Values": ["curfew:job"]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
    ]
    pages = account.aws.client("ec2", EAST_1).describe_instances(Filters=wanted)["Reservations"]
    return [one["InstanceId"] for page in pages for one in page["Instances"]]


def _reserved_usd(beat: Run) -> float:
    return sum(one["usd"] for one in beat.documents[TEAM].get("reservations", {}).values())


def _read(account: Account, key: str) -> bytes:
    try:
        return account.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()
    except ClientError as error:
        raise Broken(f"{key} was to be there: {error}") from None


# What is shown


def _show(run: Run, what: str) -> None:
    paragraph(f"{what}: {run.seconds:.1f} s, {sum(run.calls.values())} AWS calls.", "", "bold")


def _messages(run: Run) -> None:
    """Without their first lines: the paragraphs say all of it."""
    for message in run.messages:
        text = message["message"].partition("\n\n")[2]
        show.message({**message, "message": text}, whole=False)
