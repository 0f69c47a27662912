"""The plot: five runs of each reaper, and what people do between them, most of it by the command `curfew`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from earlier_runs import rfc3339

from . import command, show
from .memory import recall, remember
from .run import Reaper, Run, expect, reapers
from .screen import heading, line, paragraph
from .seed import BUCKET, Account, begin_training, config
from .seed_storage import FUNCTION, attach
from .storage import ATTACHED_AGAIN, NAMELESS, RESTORED

_SOON = timedelta(seconds=30)  # deadlines within it are worth waiting for
# By run: the outcomes of machines and volumes, and the notified teams. The last run notifies no one.
_ALL = {"vision", "nlp", "research", "untagged"}
_OWNED = _ALL - {"untagged"}
_ACTED: list[tuple[tuple[dict[str, int], set[str]], tuple[dict[str, int], set[str]]]] = [
    (({}, _ALL), ({}, _OWNED)),
    (({"stop": 1, "start": 1, "mark": 9}, _ALL), ({"mark": 5, "date": 3}, _OWNED)),
    (({"held": 5, "unmark": 2}, _ALL - {"research"}), ({"snapshot": 2, "mark": 1, "unmark": 1, "expire": 1}, {"vision", "nlp"})),
    (({}, set()), ({"delete": 2}, {"vision", "nlp"})),
    (({}, set()), ({}, set())),
]


@dataclass
class Played:
    """Everything that happened."""

    instances: list[Run] = field(default_factory=list)
    volumes: list[Run] = field(default_factory=list)
    applied: dict[str, Any] = field(default_factory=dict)  # the record of what a person carried out


def play(account: Account) -> Played:
    played = Played()
    heading("Before anything is deployed: what costs, and does nothing")
    command.before_deployment(account, config(), "scan", "--quiet", "--config", "curfew.toml")
    with reapers(account, "observe") as rehearsing:
        heading("Run 1: CURFEW_MODE=observe, so Curfew writes nothing")
        _run(played, rehearsing, account, show.subjects)
    heading("Meanwhile")
    paragraph("Grace terminates ray-worker. Its data volume stays, without any tags.")
    _terminate(account, "ray-worker")
    _wait_for_deadlines(played)
    with reapers(account, "enforce") as enforcing:
        heading("Run 2: CURFEW_MODE=enforce. What has expired is stopped now, all else is announced")
        _run(played, enforcing, account, show.messages)

        heading("Meanwhile")
        paragraph("Ada starts training on finetune-llava. Nothing else: Curfew will see it.")
        begin_training(account, "finetune-llava")
        paragraph("Grace wants to keep llama-ft.")
        command.curfew(account, "protect", account.id_of("llama-ft"))
        line()
        paragraph(f"Ada attaches {ATTACHED_AGAIN} to airflow.")
        _attach(account, account.storage.id_of(ATTACHED_AGAIN), "airflow")
        paragraph("The other owners do nothing.")
        paragraph(
            f"Instead of two weeks of waiting, the demo moves the first sight of {NAMELESS} in Curfew's log back by 15 days."
        )
        _let_days_pass(account, NAMELESS, timedelta(days=15))
        _wait_for_deadlines(played)

        heading("Run 3: the deadlines have passed, but these actions exceed the account's limits for one run")
        _run(played, enforcing, account, show.messages)

        heading("Meanwhile")
        paragraph(f"Grace reads that {NAMELESS} was hers, and gives it a week.")
        command.curfew(account, "keep", account.storage.id_of(NAMELESS), "7d")
        line()
        paragraph("The platform engineer reviews the held actions, and approves. Curfew checks each machine again, and acts.")
        held = played.instances[-1].record["run"]
        command.curfew(account, "plans")
        command.curfew(account, "apply", held, "--yes")
        played.applied = _record_of_apply(account, held)
        expect("what was applied", 5, len([one for one in played.applied["steps"] if one["outcome"] == "done"]))

        heading("Run 4: no machine is left to act on; each volume with a complete snapshot is deleted")
        _run(played, enforcing, account, show.messages)

        heading("Meanwhile")
        paragraph(f"Ada misses {RESTORED}, has it made again as it was, and attaches the new volume.")
        _restore(account)

        heading("Run 5: nothing has changed, so nothing is done, and nothing said")
        _run(played, enforcing, account, show.messages)
    return played


def _run(played: Played, reapers: tuple[Reaper, Reaper], account: Account, tell: Callable[[Run], None]) -> None:
    """The machines, then the volumes."""
    number = len(played.instances)
    for reaper, runs, meant in zip(reapers, (played.instances, played.volumes), _ACTED[number], strict=True):
        run = reaper.run()
        runs.append(run)
        show.run(run, account)
        tell(run)
        expect("what became of them, and who heard", meant, (show.acted(run), run.heard))
        expect("what could not be seen", [], run.record["gaps"])
        expect("whether something was written", bool(meant[0]), bool(run.written))


def _record_of_apply(account: Account, plan: str) -> dict[str, Any]:
    listed = account.aws.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="plans/")
    [key] = [one["Key"] for one in listed["Contents"] if f"/apply-{plan}" in one["Key"]]
    return json.load(account.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"])


# As people would by hand: not calls of Curfew's.


def _terminate(account: Account, name: str) -> None:
    instance_id = account.id_of(name)
    machine = account.cpu_machines.pop(instance_id)
    account.aws.client("ec2", machine.region).terminate_instances(InstanceIds=[instance_id])


def _attach(account: Account, volume_id: str, name: str) -> None:
    instance_id = account.id_of(name)
    attach(account.aws, volume_id, instance_id, account.cpu_machines[instance_id].region)


def _let_days_pass(account: Account, name: str, days: timedelta) -> None:
    """The only clock that the volume reaper has of its own."""
    volume_id = account.storage.id_of(name)
    region = account.storage.disks[volume_id].region
    seen = show.moment(recall(account.aws, BUCKET, FUNCTION, region, volume_id)["since"])
    remember(account.aws, BUCKET, FUNCTION, region, {volume_id: {"since": rfc3339(seen - days)}})


def _restore(account: Account) -> None:
    old_id = account.storage.id_of(RESTORED)
    told = command.curfew(account, "undo", old_id, "--yes")
    expect("whether it is there again", 1, told.count("restored as"))
    _attach(account, told.partition("restored as ")[2].split()[0], "preprocess")


def _wait_for_deadlines(played: Played) -> None:
    """Until everything that was announced for soon is due."""
    now = datetime.now(timezone.utc)
    steps = [*played.instances[-1].record["steps"], *played.volumes[-1].record["steps"]]
    told = [step["evidence"].get("deadline") for step in steps if step["action"] == "mark"]
    deadlines = [show.moment(at) for at in told if at]
    soon = [at for at in deadlines if at - now < _SOON]
    if soon:
        time.sleep(max((max(soon) - now).total_seconds(), 0) + 0.05)
