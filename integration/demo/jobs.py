"""The second half: a team drops a job into its inbox, its machines come and go, and it ends for certain.

`run-jobs` is the real function. No machine boots on the local AWS, so no agent runs on one: the demo writes in its place what it
would write to the bucket, and says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from botocore.exceptions import ClientError

from . import command, show
from .fleet import EAST_1, rfc3339
from .run import BUDGETS, JOBS, REPOSITORY, Broken, Reaper, Run, reaper
from .screen import heading, line, paint, paragraph
from .seed import BUCKET, CONFIG_KEY, Account

TEAM, NAME = "nlp", "reward-model"
LEFT_USD = 100  # of the budget that the team is given
FULL, CHEAPEST, NEXT = "us-east-1b", "us-east-1d", "us-east-1a"  # zones, the cheapest first; in the first there is no capacity
_SPOT = {"g6.xlarge": {FULL: 0.2907, CHEAPEST: 0.3114}, "g5.xlarge": {NEXT: 0.4021, "us-east-1c": 0.4388}}
_SILENT = timedelta(minutes=11)
STEPS = 1200, 3400  # of the newest checkpoint when the first machine goes, and the second
CALLS_MAX = 6  # from an interruption to the request to launch
_PROFILE = "curfew-job"

SPEC = """\
owner = "grace@example.com"
command = "python train.py"

[gpu]
types = ["g5.xlarge", "g6.xlarge"]

[limits]
max_runtime = "8h"                 # all attempts together

[checkpoint]                       # without this section each attempt begins at zero
every = "15m"
"""
WRONG = """\
comand = "python train.py"
[gpu]
count = 0
types = ["quick"]
[limits]
max_runtime = "5m"
"""
MISTAKES = {"owner", "command", "comand", "gpu.count", "gpu.types[0]", "limits.max_runtime"}
_BUDGET = """
[teams.{team}]
monthly_budget_usd = {usd:.2f}
over_budget = "hold"               # no further jobs
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
    """The life of the job, and what was answered to the document that is none."""

    job: str = ""
    submitted: str = ""  # what `curfew submit` said
    rejected: dict[str, Any] = field(default_factory=dict)  # the answer
    refusing: list[Run] = field(default_factory=list)
    stages: dict[str, Stage] = field(default_factory=dict)
    overview: str = ""  # what `curfew jobs JOB` said at the end
    beats: list[Run] = field(default_factory=list)

    @property
    def runs(self) -> list[Run]:
        """Those of run-jobs, in order."""
        launched, *later = self.stages.values()
        return [launched.run, *self.refusing, *(stage.run for stage in later)]


def play(account: Account) -> Lived:
    lived = Lived()
    heading(f"A GPU job of {TEAM}: launched on Spot, interrupted, launched again, and over")
    paragraph(
        "No machine boots on the local AWS, so the agent that would run on it does not run here. The demo writes in its place what "
        "it would write to the bucket: a heartbeat, a checkpoint, a result. All else is the real function run-jobs."
    )
    with reaper(account, "enforce", BUDGETS) as beats, _jobs(account) as jobs:
        _prepare(account)
        lived.beats.append(_give(account, beats))
        line()
        paragraph(f"Grace writes {NAME}.toml, and submits it:")
        line()
        for one in filter(None, SPEC.splitlines()):
            line(f"  {one}")
        _submit(lived, account, jobs)
        _reject(lived, account, jobs)
        _warn(lived, account, jobs)
        _fall_silent(lived, account, jobs)
        _end(lived, account, jobs)
        _let_a_second_pass()
        lived.beats.append(beats.run())
        _stage(lived, account, "over", jobs.run(_event("scheduled-rule")))
        left = lived.stages["over"]
        line()
        paragraph(
            "The next beat gives back what was reserved and not spent. The next minute's sweep finds nothing to do, and asks EC2 "
            f"nothing. Reserved for jobs: ${_reserved_usd(lived.beats[-1]):,.2f}. Machines of jobs: {len(left.machines)}. Jobs that "
            f"are not over: {len(left.active)}."
        )
    return lived


@contextmanager
def _jobs(account: Account) -> Iterator[Reaper]:
    """With files for the machines to fetch, which none of them does."""
    with TemporaryDirectory() as package:
        for architecture in ("x86_64", "arm64"):
            (Path(package) / f"agent-{architecture}").write_bytes(b"#!/bin/sh\nexit 1\n")
        with reaper(account, "enforce", JOBS, LAMBDA_TASK_ROOT=package) as jobs:
            yield jobs


def _prepare(account: Account) -> None:
    """Prices, where there is no capacity, and the profile that the template would have made."""
    for what, zones in _SPOT.items():
        account.aws.set_spot_price(what, zones, since=show.now() - timedelta(minutes=5))
    account.aws.set_capacity(0, "g6.xlarge", zone=FULL, lifecycle="spot")
    account.aws.client("iam").create_instance_profile(InstanceProfileName=_PROFILE)


def _give(account: Account, beats: Reaper) -> Run:
    key = f"budgets/{TEAM}/{show.now():%Y-%m}.json"
    spent = json.loads(_read(account, key))["spent_usd"]
    section = f"[teams.{TEAM}]\n"
    given = _BUDGET.lstrip().format(team=TEAM, usd=spent + LEFT_USD)
    text = _read(account, CONFIG_KEY).decode().replace(section, given, 1)
    _write(account, CONFIG_KEY, text)
    line()
    paragraph(
        f"{TEAM} has spent ${spent:,.2f} this month, and is given a budget: what a job can cost at most has to fit into what is left."
    )
    line()
    for one in given.splitlines():
        line(f"  {one}")
    return beats.run()


def _submit(lived: Lived, account: Account, jobs: Reaper) -> None:
    lived.submitted = command.curfew_with(account, {f"{NAME}.toml": SPEC}, "submit", f"{NAME}.toml", "--team", TEAM)
    key = f"inbox/{TEAM}/{NAME}.toml"
    line()
    run = jobs.run(_created(key))
    lived.job = json.loads(_read(account, key.replace(".toml", ".accepted.json")))["job"]
    stage = _stage(lived, account, "launched", run)
    _show(run, "S3 tells of the object. run-jobs accepts it, reserves the money, and launches")
    placed, tried = stage.placed, [call for call in run.asked if call["action"] == "ec2:RunInstances"]
    line(f"  g6.xlarge  {FULL}  ${_SPOT['g6.xlarge'][FULL]:.2f}/h  no capacity ({tried[0]['status']}): the next pool is tried at once")
    line(
        paint(
            f"  {placed['type']}  {placed['zone']}  ${placed['rate']:.2f}/h  {placed['instance']}, ends for certain by "
            f"{show.moment(placed['ends_at']):%H:%M} UTC",
            "bold",
        )
    )
    reserved = stage.reserved or {}
    line(f"  reserved on the budget of {TEAM}: ${reserved.get('usd', 0):.2f}")
    _messages(run)


def _reject(lived: Lived, account: Account, jobs: Reaper) -> None:
    line()
    paragraph(f"Emmy puts a document into the inbox of research without asking `curfew submit`. Of it {len(MISTAKES)} things are wrong.")
    line()
    key = "inbox/research/quick.toml"
    _write(account, key, WRONG)
    lived.refusing.append(jobs.run(_created(key)))
    lived.rejected = json.loads(_read(account, key.replace(".toml", ".rejected.json")))
    _show(lived.refusing[0], "run-jobs answers with every mistake at once")
    for mistake in lived.rejected["mistakes"]:
        where = f"line {mistake['line']}" if mistake["line"] else "lacks"
        paragraph(f"{where}, {mistake['key']}: {mistake['problem']}", "  ")


def _warn(lived: Lived, account: Account, jobs: Reaper) -> None:
    first = lived.stages["launched"].placed["instance"]
    _beat(lived, account, 1)
    _checkpoint(lived, account, 1, STEPS[0])
    account.aws.set_capacity(10, "g6.xlarge", zone=FULL, lifecycle="spot")
    line()
    paragraph(
        f"(In place of the agent: a heartbeat, and the checkpoint of step {STEPS[0]}.) The minute's sweep reads it. Then AWS "
        f"warns: {first} goes in two minutes. In {FULL} there is capacity again."
    )
    line()
    _stage(lived, account, "seen", jobs.run(_event("scheduled-rule")))
    run = jobs.run(_of_instance("ec2-spot-interruption-warning", first))
    stage = _stage(lived, account, "warned", run)
    until = calls_to_launch(run)
    took = until[-1]["at"] - until[0]["at"]
    _show(run, "The warning wakes run-jobs, which launches the next one at once")
    paragraph(
        f"From the event to the accepted launch: {len(until)} AWS calls ({CALLS_MAX} are the most), {took * 1000:.0f} ms from the "
        "first of them to the last:",
        "  ",
    )
    paragraph(", ".join(call["action"] for call in until), "    ", "dim")
    placed = stage.placed
    line(f"  {placed['type']}  {placed['zone']}  ${placed['rate']:.2f}/h  {placed['instance']}, attempt {placed['attempt']}")
    _messages(run)
    account.aws.interrupt(first)


def _fall_silent(lived: Lived, account: Account, jobs: Reaper) -> None:
    attempt = lived.stages["warned"].state["attempt"]
    _checkpoint(lived, account, attempt, STEPS[1])
    _beat(lived, account, attempt, show.now() - _SILENT)
    line()
    paragraph(
        f"(In place of the agent: it restored step {STEPS[0]}, came to {STEPS[1]}, and then its heart stopped. Nobody waits for "
        f"{_SILENT.seconds // 60} minutes: the demo sets the heartbeat back by so much.)"
    )
    line()
    run = jobs.run(_event("scheduled-rule"))
    _stage(lived, account, "silent", run)
    _show(run, "The minute's sweep finds it. Its machine is terminated, seen gone, and only then replaced")
    acted = [step for step in run.response["steps"] if step["action"] != "notify"]
    for number, step in enumerate(acted, 1):
        paragraph(f"{number}. {step['action']} {step['resource']}: {step['because']['why']}", "  ")
    _messages(run)


def _end(lived: Lived, account: Account, jobs: Reaper) -> None:
    stage = lived.stages["silent"]
    attempt = stage.state["attempt"]
    at = rfc3339(show.now())
    checkpoint = {"attempt": attempt, "step": STEPS[1]}
    result = {"succeeded": True, "code": 0, "why": "", "at": at}
    _document(lived, account, "head.json", attempt=attempt, checkpoint=checkpoint, result=result)
    exited = {"attempt": attempt, "at": at, "reason": "succeeded", "code": 0, "why": ""}
    _document(lived, account, f"attempts/{attempt}/exit.json", **exited)
    account.aws.shut_down(stage.placed["instance"], region=EAST_1)
    line()
    paragraph("(In place of the agent: the command succeeds, and the machine shuts itself down.)")
    line()
    run = jobs.run(_of_instance("ec2-instance-state-change", stage.placed["instance"]))
    _stage(lived, account, "succeeded", run)
    _show(run, "EC2 tells of it")
    _messages(run)
    lived.overview = command.curfew(account, "jobs", NAME)


def _let_a_second_pass() -> None:
    """Documents know seconds: what ended within the second of a beat is given back by the beat after it."""
    time.sleep(1 - time.time() % 1)


def calls_to_launch(run: Run) -> list[dict[str, Any]]:
    """Up to the request to launch that was accepted."""
    for number, call in enumerate(run.asked, 1):
        if call["action"] == "ec2:RunInstances" and call["status"] == 200:
            return run.asked[:number]
    raise Broken(f"nothing was launched: {run.response}")


# The agent's part


def _beat(lived: Lived, account: Account, attempt: int, at: Any = None) -> None:
    at, key = at or show.now(), f"attempts/{attempt}/heartbeat.json"
    _document(lived, account, key, at=rfc3339(at), attempt=attempt, doing="running")
    account.aws.set_object(BUCKET, f"jobs/{lived.job}/{key}", at)


def _checkpoint(lived: Lived, account: Account, attempt: int, step: int) -> None:
    _document(lived, account, "head.json", attempt=attempt, checkpoint={"attempt": attempt, "step": step})


def _document(lived: Lived, account: Account, name: str, **fields: Any) -> None:
    _write(account, f"jobs/{lived.job}/{name}", json.dumps({"schema": 1, **fields}))


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


def _stage(lived: Lived, account: Account, name: str, run: Run) -> Stage:
    wanted = [
        {"Name": "tag-key", "Values": ["curfew:job"]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
    ]
    pages = account.aws.client("ec2", EAST_1).describe_instances(Filters=wanted)["Reservations"]
    listed = account.aws.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="active/").get("Contents", [])
    stage = Stage(
        run=run,
        state=json.loads(_read(account, f"jobs/{lived.job}/state.json")),
        machines=[one["InstanceId"] for page in pages for one in page["Instances"]],
        reserved=run.documents[TEAM].get("reservations", {}).get(lived.job),
        active=[one["Key"] for one in listed],
    )
    lived.stages[name] = stage
    return stage


def _reserved_usd(beat: Run) -> float:
    return sum(one["usd"] for one in beat.documents[TEAM].get("reservations", {}).values())


def _read(account: Account, key: str) -> bytes:
    try:
        return account.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()
    except ClientError as error:
        raise Broken(f"{key} was to be there: {error}") from None


def _write(account: Account, key: str, text: str) -> None:
    account.aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=text.encode())


# What is shown


def _show(run: Run, what: str) -> None:
    paragraph(f"{what}: {run.seconds:.1f} s, {sum(run.calls.values())} AWS calls.", "", "bold")


def _messages(run: Run) -> None:
    """Without their first line, which says again what the subject says."""
    for message in run.messages:
        text = message["message"].partition("\n\n")[2]
        show.message({**message, "message": text}, whole=False)


