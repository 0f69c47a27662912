"""The last act: a team's budget crosses 80 %, and then 100 %, while one watches."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from . import command, show
from .fleet import EAST_1, OWNERS
from .run import BUDGETS, Reaper, Run, reaper
from .screen import heading, line, paint, paragraph
from .seed import BUCKET, CONFIG_KEY, Account

TEAM = "vision"
_SPENT_PERCENT = 83  # of the budget that it is given
_LAUNCHED = ("p5.48xlarge", "vlm-pretrain", timedelta(days=2))


@dataclass
class Spent:
    """What became of the budget, beat by beat."""

    runs: list[Run] = field(default_factory=list)
    launched: str = ""
    overview: str = ""  # what `curfew budget` said at the end
    detail: str = ""  # and of the team


def play(account: Account) -> Spent:
    spent = Spent()
    with reaper(account, "enforce", BUDGETS) as beats:
        heading("The budget of vision: it crosses 80 %, and then 100 %")
        paragraph("Every quarter of an hour enforce-budgets adds up what runs, by the second. Nobody has a budget yet.")
        _beat(spent, beats)
        usd = spent.runs[-1].documents[TEAM]["spent_usd"] * 100 / _SPENT_PERCENT
        line()
        paragraph(
            f"The platform engineer gives vision ${usd:,.2f} for this month, and lets nothing further be launched above it."
        )
        give(account, TEAM, usd)
        _beat(spent, beats)

        what, name, ago = _LAUNCHED
        line()
        paragraph(
            f"Ada launches {name}, a {what}. And nobody waits for two days: the demo sets its launch back by so much. "
            "A notification of AWS Budgets wakes the function before its time; what it says is not read."
        )
        spent.launched = _launch(account, what, name, ago)
        _beat(spent, beats)
        spent.overview = command.curfew(account, "budget")
        spent.detail = command.curfew(account, "budget", TEAM)
        line()
        paragraph("The next beat: vision is held still, and nobody hears of it twice.")
        _beat(spent, beats)
    return spent


def _beat(spent: Spent, beats: Reaper) -> None:
    run = beats.run()
    spent.runs.append(run)
    line()
    paragraph(f"A beat of {run.seconds:.1f} s. {_standing(run)}")
    for step in run.record["steps"]:
        evidence = step["evidence"]
        told = "" if run.messages else ", as was told"
        words = f"{step['resource']} has spent {evidence['percent']} % of its budget, above {evidence['threshold_percent']} %{told}"
        line(paint(step["action"], "bold", "yellow") + f"  {words}")
    for message in run.messages:
        show.message(message, whole=False)


def _standing(run: Run) -> str:
    documents = sorted(run.documents.items(), key=lambda item: -item[1]["spent_usd"])
    spends = [f"{team} ${document['spent_usd']:,.2f}" for team, document in documents]
    return f"Spent this month: {', '.join(spends)}."


def give(account: Account, team: str, usd: float) -> None:
    """Writes the team's budget into the configuration, and shows what was written."""
    s3, section = account.aws.client("s3"), f"[teams.{team}]\n"
    given = f'{section}monthly_budget_usd = {usd:.2f}\nover_budget = "hold"               # no further jobs\n'
    text = s3.get_object(Bucket=BUCKET, Key=CONFIG_KEY)["Body"].read().decode()
    s3.put_object(Bucket=BUCKET, Key=CONFIG_KEY, Body=text.replace(section, given, 1).encode())
    line()
    for one in given.splitlines():
        line(f"  {one}")


def _launch(account: Account, what: str, name: str, ago: timedelta) -> str:
    tags: dict[str, Any] = {"Name": name, "Team": TEAM, "Owner": OWNERS[TEAM]}
    return account.aws.run_instance(what, tags, EAST_1, launch_time=show.now() - ago)
