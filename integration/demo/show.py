"""What happened, for a person: runs as `curfew plans` shows them, and messages as SNS delivered them."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timezone
from typing import Any

from . import command
from .fleet import REGIONS
from .run import Run
from .screen import heading, line, paint, paragraph
from .seed import Account

_HOURS_PER_MONTH = 730
_METRIC_USD = 0.01 / 1000  # "Amazon CloudWatch pricing": GetMetricData, for each metric


def account(account: Account) -> None:
    storage = account.storage
    attached = sum(disk.on is not None for disk in storage.disks.values())
    paragraph(
        f"{len(account.machines)} accelerated instances and {len(account.cpu_machines)} others in {len(REGIONS)} regions, of the teams vision "
        "and nlp (enforce), research (observe), and of no team. "
        f"{len(storage.disks) + storage.roots} EBS volumes: {storage.roots} roots, {attached} more that are attached, and "
        f"{len(storage.disks) - attached} that are not; {storage.safeties} snapshots of volumes that Curfew deleted."
    )


def run(run: Run, account: Account) -> None:
    command.curfew(account, "plans", run.record["run"])


def acted(run: Run) -> dict[str, int]:
    """The steps of a run by kind, except those that were only observed."""
    return Counter(_kind(step) for step in run.record["steps"] if step["outcome"] != "observed")


def _kind(step: dict[str, Any]) -> str:
    if step["outcome"] == "not-reached":
        return "held"
    if step["action"] == "delete" and step["evidence"]["rule"] == "expired":
        return "expire"
    is_first_sight = step["evidence"]["rule"] == "orphaned" and "deadline" not in step["evidence"]
    return "date" if step["action"] == "mark" and is_first_sight else step["action"]


def savings(steps: list[dict[str, Any]]) -> str:
    """Volumes by the month, instances by the hour."""
    is_of_volumes = any(step["evidence"]["rule"] == "orphaned" for step in steps)
    amounts = [step["evidence"].get("usd_per_month") if is_of_volumes else step["saves_usd_per_hour"] for step in steps]
    known = [usd for usd in amounts if usd is not None]
    rest = f"; {len(amounts) - len(known)} more of unknown price" if len(known) < len(amounts) else ""
    if amounts and not known:
        return "an unknown sum"
    if is_of_volumes:
        return f"${sum(known):,.2f} a month{rest}"
    return f"${sum(known):,.2f} an hour, ${sum(known) * _HOURS_PER_MONTH:,.0f} a month{rest}"


def subjects(run: Run) -> None:
    line()
    for message in run.messages:
        line(paint("mail  ", "dim") + message["subject"])


def messages(run: Run) -> None:
    if not run.messages:
        line()
        line("No message was sent: there is nothing new.")
    for number, one in enumerate(run.messages):
        message(one, whole=number == 0)


def message(told: dict[str, Any], whole: bool = True) -> None:
    """One message. If not whole, without its last paragraph, which names the run as that of the run's first message does."""
    line()
    line(paint(f"mail to {told['attributes']['team']}: ", "dim") + paint(told["subject"], "bold"))
    parts = told["message"].split("\n\n")
    if not whole and parts[-1].startswith("Run "):
        parts.pop()
    for part in "\n\n".join(parts).splitlines():
        paragraph(part, "  | ")


def trail(functions: list[list[Run]], copies: str) -> None:
    """Where the audit records are, and how many AWS calls each run took."""
    heading("The audit trail, and the AWS calls of the functions")
    for runs in functions:
        first, *more = [run for run in runs if run.audit_key]
        line(f"  {first.audit_key}  {len(first.audit_text):,} bytes, and {len(more)} more")
    for runs in functions:
        by_run = ", ".join(str(sum(one.calls.values())) for one in runs)
        metrics = sum(one.metrics_asked for one in runs)
        cost = f" Metrics: {metrics} (${metrics * _METRIC_USD:.4f} at CloudWatch's price)." if metrics else ""
        line(f"  {runs[0].response['function']}: {by_run} calls.{cost}")
    line()
    line(f"The bucket ends with the local AWS. Copies of it and of every message: {copies}")


def now() -> datetime:
    return datetime.now(timezone.utc)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00"))
