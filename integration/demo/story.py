"""The plot: five runs of the reaper, and what people do between them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

from . import show
from .run import Run, reaper
from .screen import heading, paragraph
from .seed import Account, begin_training, write_config

_SOON = timedelta(seconds=30)  # deadlines within it are worth waiting for


def play(account: Account) -> list[Run]:
    runs: list[Run] = []
    with reaper(account, "observe") as rehearsing:
        heading("Run 1: a rehearsal. CURFEW_MODE=observe, so nothing is written")
        runs.append(rehearsing.run())
        show.run(runs[-1], account)
        show.subjects(runs[-1])
    _wait_for_deadlines(runs[-1])
    with reaper(account, "enforce") as enforcing:
        heading("Run 2: CURFEW_MODE=enforce. What its owner wrote down ends now, the rest is announced")
        runs.append(enforcing.run())
        show.run(runs[-1], account)
        show.messages(runs[-1])

        heading("Meanwhile")
        paragraph("Ada starts training on finetune-llava. Nothing else: Curfew will see it.")
        begin_training(account, "finetune-llava")
        paragraph("Grace wants to keep llama-ft, and tags it curfew:protected.")
        _protect(account, "llama-ft")
        paragraph("Nobody answers for the others.")
        _wait_for_deadlines(runs[-1])

        heading("Run 3: the deadlines have passed, but that is more than this account allows in one run")
        runs.append(enforcing.run())
        show.run(runs[-1], account)
        show.messages(runs[-1])

        heading("Meanwhile")
        paragraph("The platform engineer reads that, agrees, and sets [limits] actions_max = 10.")
        write_config(account.aws, actions_max=10)

        heading("Run 4: each machine is looked at once more, and ended")
        runs.append(enforcing.run())
        show.run(runs[-1], account)
        show.messages(runs[-1])

        heading("Run 5: nothing has changed, so nothing is done, and nothing said")
        runs.append(enforcing.run())
        show.run(runs[-1], account)
        show.messages(runs[-1])
    return runs


def _protect(account: Account, name: str) -> None:
    """As the owner would by hand: not a call of Curfew's."""
    instance_id = account.id_of(name)
    region = account.machines[instance_id].region
    account.aws.change(tag={"resource": instance_id, "region": region, "tags": {"curfew:protected": ""}})


def _wait_for_deadlines(run: Run) -> None:
    """Until everything that was announced for soon is due."""
    now = datetime.now(timezone.utc)
    told = [step["because"].get("deadline") for step in run.record["steps"] if step["action"] == "mark"]
    deadlines = [datetime.fromisoformat(at.replace("Z", "+00:00")) for at in told if at]
    soon = [at for at in deadlines if at - now < _SOON]
    if soon:
        time.sleep(max((max(soon) - now).total_seconds(), 0) + 0.05)
