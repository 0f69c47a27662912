"""The last act: a team's budget crosses 80 %, and then 100 %, while one watches."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from . import command, show
from .fleet import EAST_1, OWNERS
from .run import BUDGETS, Reaper, Run, expect, reaper
from .screen import heading, line, paint, paragraph
from .seed import BUCKET, CONFIG_KEY, Account

TEAM = "vision"
_SPENT_PERCENT = 83  # of the budget that it is given
_LAUNCHED = ("p5.48xlarge", "vlm-pretrain", timedelta(days=2))


def play(account: Account) -> list[Run]:
    """The budget, beat by beat."""
    runs: list[Run] = []
    with reaper(account, "enforce", BUDGETS) as beats:
        heading("The budget of vision: it crosses 80 %, and then 100 %")
        paragraph("Every quarter of an hour enforce-budgets adds up what runs, by the second. Nobody has a budget yet.")
        runs.append(_beat(beats, []))
        usd = runs[-1].documents[TEAM]["spent_usd"] * 100 / _SPENT_PERCENT
        line()
        paragraph(
            f"The platform engineer gives vision ${usd:,.2f} for this month, and lets nothing further be launched above it."
        )
        give(account, TEAM, usd)
        runs.append(_beat(beats, [("notify", 80)]))

        what, name, ago = _LAUNCHED
        line()
        paragraph(
            f"Ada launches {name}, a {what}. Instead of two days of waiting, the demo moves its launch back. "
            "A notification of AWS Budgets starts the function early; its text is ignored."
        )
        launched = _launch(account, what, name, ago)
        runs.append(_beat(beats, [("hold", 100)]))
        command.curfew(account, "budget")
        expect(f"what is said of {TEAM}", True, launched in command.curfew(account, "budget", TEAM))
        line()
        paragraph("The next beat: vision is still held, and is not notified twice.")
        runs.append(_beat(beats, [("hold", 100)]))
    return runs


def _beat(beats: Reaper, meant: list[tuple[str, int]]) -> Run:
    run = beats.run()
    line()
    paragraph(f"A beat of {run.seconds:.1f} s. {_standing(run)}")
    for step in run.record["steps"]:
        evidence = step["evidence"]
        repeated = "" if run.messages else ", as notified before"
        words = f"{step['resource']} has spent {evidence['percent']} % of its budget, above {evidence['threshold_percent']} %{repeated}"
        line(paint(step["action"], "bold", "yellow") + f"  {words}")
    for message in run.messages:
        show.message(message, whole=False)
    expect("what was done of budgets", meant, [(step["action"], step["evidence"]["threshold_percent"]) for step in run.done])
    expect("what was written", set(), run.written)
    return run


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
