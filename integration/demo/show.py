"""What happened, in words and tables for a person."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from datetime import datetime, timezone
from itertools import chain
from typing import Any

from .fleet import OWNERS, REGIONS
from .run import VOLUMES, Run
from .screen import fit, hanging, heading, line, paint, paragraph, subheading
from .seed import Account

_HOURS_PER_MONTH = 730
_ANNOUNCED = ("yellow", "announced: its owner was notified, and a tag has the deadline")
_GROUPS = {
    "terminate": ("red", "terminated"),
    "stop": ("red", "stopped"),
    "held": ("yellow", "held: above the limits, so none was stopped, and they await approval"),
    "start": ("green", "started"),
    "mark": _ANNOUNCED,
    "unmark": ("green", "taken back, or out of date: the tag is removed"),
    "notify": ("cyan", "notify only, and why"),
}
_GROUPS_OF_VOLUMES = {
    "delete": ("red", "deleted: its snapshot is complete"),
    "expire": ("red", "expired safety snapshots: deleted"),
    "snapshot": ("yellow", "past the deadline: a snapshot begins; once that is complete, the volume is deleted"),
    "mark": _ANNOUNCED,
    "unmark": ("green", "in use again: the tags are removed"),
    "date": ("cyan", "first seen unattached: a tag remembers it, without a notification"),
}
_NOTIFY_ONLY = {
    "reserved": "GPU memory is held",
    "local-disk": "its NVMe data would be lost",
    "busy": "but it is busy",
    "cannot-be-stopped": "one-time Spot cannot stop",
    "persistent-spot": "Spot would launch it again",
    "saves-nothing": "its capacity is reserved",
    "configured": "configured so",
}
_METRIC_USD = 0.01 / 1000  # "Amazon CloudWatch pricing": GetMetricData, by metric asked for


def account(account: Account) -> None:
    """How many machines of which family, by region; teams; volumes."""
    families = sorted({_family(machine.type) for machine in account.machines.values()})
    counts: dict[str, Counter] = defaultdict(Counter)
    for machine in account.machines.values():
        counts[machine.region][_family(machine.type)] += 1
    cpu = Counter(machine.region for machine in account.cpu_machines.values())
    head = "".join(f"  {family}" for family in families)
    line(paint(f"{'':13}{head}  GPU  CPU", "bold"))
    for region in REGIONS:
        cells = "".join(str(counts[region][family] or ".").rjust(len(family) + 2) for family in families)
        line(f"{region:13}{cells}{sum(counts[region].values()):5}{cpu[region]:5}")
    line()
    line(f"{'team':9}{'mode':9}{'machines':>9}   who hears of it")
    teams = Counter(machine.team for machine in account.machines.values())
    for team, owner in OWNERS.items():
        mode = "observe" if team == "research" else "enforce"
        line(f"{team:9}{mode:9}{teams[team]:9}   {owner}")
    line(f"{'(none)':9}{'enforce':9}{teams[None]:9}   platform@example.com, who hears of everything")
    storage = account.storage
    attached = sum(disk.on is not None for disk in storage.disks.values())
    line()
    paragraph(
        f"And {len(storage.disks) + len(storage.roots)} EBS volumes: {len(storage.roots)} roots, {attached} more that are attached, "
        f"and {len(storage.disks) - attached} that are not; {len(storage.safeties)} snapshots of volumes that Curfew deleted."
    )


def run(run: Run, account: Account, names: bool) -> None:
    """One run: what it saw, did and skipped, by name or only how many, and what that saves."""
    record = run.record
    groups, seen, others = _GROUPS, "accelerated instances", f" The {len(account.cpu_machines)} others are none of its business."
    if record["function"] == VOLUMES:
        groups, seen, others = _GROUPS_OF_VOLUMES, "volumes", ""
        line()
        subheading(VOLUMES)
    line(f"Saw {record['seen']} {seen} in {len(record['regions'])} regions in {run.seconds:.1f} s.{others}")
    for group, (colour, meaning) in groups.items():
        _steps([step for step in record["steps"] if _group(step) == group], group, colour, meaning, account)
    _left_alone(record, account if names else None)
    _saved(record["steps"])


def acted(run: Run) -> dict[str, int]:
    """How many steps of each group there were, but for those that were only observed."""
    return Counter(_group(step) for step in run.record["steps"] if step["outcome"] != "observed")


def findings(run: Run) -> None:
    """Of what is left alone, the paragraphs that its owners get."""
    skipped = [one for ids in run.record["skipped"].values() for one in ids]
    line()
    line("In them, about skipped volumes:")
    for text in filter(None, (paragraph_of(run, one) for one in skipped)):
        paragraph(text, "  | ")


def paragraph_of(run: Run, resource_id: str) -> str | None:
    """What its messages say of one volume or snapshot."""
    every = (one for message in run.messages for one in message["message"].split("\n\n"))
    return next((one for one in every if one.startswith(f"{resource_id} (")), None)


def is_first_sight(step: dict[str, Any]) -> bool:
    """A `mark` of a volume without a deadline announces nothing: it writes down since when."""
    return step["action"] == "mark" and step["evidence"]["rule"] == "orphaned" and "deadline" not in step["evidence"]


def _group(step: dict[str, Any]) -> str:
    if step["outcome"] == "not-reached":
        return "held"
    if step["action"] == "delete" and step["evidence"]["rule"] == "expired":
        return "expire"
    return "date" if is_first_sight(step) else step["action"]


def _steps(steps: list[dict[str, Any]], group: str, colour: str, meaning: str, account: Account) -> None:
    would = [step for step in steps if step["outcome"] == "observed"]
    done = [step for step in steps if step["outcome"] != "observed"]
    for some, title in ((done, meaning), (would, f"would {group}: observe mode, so nothing was written")):
        if not some:
            continue
        line()
        line(paint(f"{group} ({len(some)})", "bold", colour) + paint(f"  {title}", "dim"))
        for step in sorted(some, key=lambda one: (-(_usd(one) or 0), account.name_of(one["resource"]) or "")):
            _step(step, account)


def _step(step: dict[str, Any], account: Account) -> None:
    resource, usd = step["resource"], _usd(step)
    per = "mo" if step["evidence"]["rule"] == "orphaned" else "h"
    is_priced = step["action"] not in ("start", "unmark") and _group(step) != "expire"
    price = "" if not is_priced else "price ?" if usd is None else f"${usd:,.2f}/{per}"
    machine, disk = account.machines.get(resource), account.storage.disks.get(resource)
    kind = machine.type if machine else f"{disk.type} {disk.gib} GiB" if disk else "snapshot"
    name = (account.name_of(resource) or resource).removeprefix("snapshot of ")
    row = f"  {fit(name, 15)}{fit(kind, 17)}{fit(step['region'], 13)}{fit(step['team'] or '-', 9)}"
    line(f"{row}{fit(_because(step, account), 33)}{price:>10}".rstrip())
    if step["error"] and step["outcome"] != "not-reached":
        paragraph(step["error"], "    ", "red")


def _because(step: dict[str, Any], account: Account) -> str:
    """The evidence in a few words."""
    why = step["evidence"]
    rule, now = why["rule"], datetime.now(timezone.utc)
    if why.get("resolved"):
        return f"{rule}: no longer violated"
    if is_first_sight(step):
        return "its two weeks begin now"
    if why.get("not_queried_again"):
        return f"{rule}: announced before"
    if notify_only := _NOTIFY_ONLY.get(why.get("notify_only", "")):
        return f"{rule}; {notify_only}"
    if rule == "idle":
        return f"idle: {why['devices']} GPU at {why['gpu_max_percent']:.0f} %, {why['cpu_max_vcpus']:.1f} vCPUs"
    if rule == "untagged":
        return f"lacks {', '.join(why['missing'])}"
    if rule == "expired" and "deleted_at" in why:
        return f"its volume went {(now - moment(why['deleted_at'])).days} days ago"
    if rule == "expired":
        return f"expired at {moment(why['expires_at']):%H:%M} UTC"
    if rule == "hours":
        return f"{why['hours'].removeprefix('Mon-Sun ')}, now {now:%H:%M}"
    if rule == "lifetime":
        return f"runs for {(now - moment(why['launched_at'])).days} days, {why['max_seconds'] // 86400} at most"
    if rule == "orphaned":
        days, host = (now - moment(why["unattached_since"])).days, why.get("last_attached_to")
        return f"{days} days, last on {account.storage.hosts.get(host, host)}" if host else f"unattached for {days} days"
    return rule


def _left_alone(record: dict[str, Any], account: Account | None) -> None:
    """By reason, the most first; on few lines where nobody is named."""
    skipped = sorted(record["skipped"].items(), key=lambda item: (-len(item[1]), item[0]))
    total = sum(len(ids) for _, ids in skipped)
    if not total:
        return
    line()
    title = f"skipped ({total})"
    if account is None:
        paragraph(f"{title}: " + ", ".join(f"{len(ids)} {reason}" for reason, ids in skipped))
        return
    line(paint(title, "bold"))
    for reason, ids in skipped:
        names = sorted(filter(None, map(account.name_of, ids)))
        roots = [f"{len(ids) - len(names)} roots"] if len(ids) > len(names) else []
        hanging(f"{len(ids):4}  {reason:15}", ", ".join(names + roots))


def _saved(steps: list[dict[str, Any]]) -> None:
    of_volumes = [step for step in steps if step["evidence"]["rule"] == "orphaned"]
    ends = [step for step in of_volumes or steps if step["action"] in ("stop", "terminate", "delete", "snapshot", "mark")]
    done = [step for step in ends if step["outcome"] == "done" and step["action"] in ("stop", "terminate", "delete")]
    waiting = [step for step in ends if step not in done and not is_first_sight(step)]
    if done or waiting:
        line()
    if done:
        label = "saved by these deletions:   " if of_volumes else "saved by these actions:     "
        line(paint(label + savings(done), "bold", "green"))
    if waiting:
        line(f"announced or observed:       {savings(waiting)}")


def savings(steps: list[dict[str, Any]]) -> str:
    known = [usd for usd in map(_usd, steps) if usd is not None]
    unknown = len(steps) - len(known)
    rest = f"; {unknown} more of unknown price" if unknown else ""
    if any(step["evidence"]["rule"] == "orphaned" for step in steps):
        return f"${sum(known):,.2f} a month{rest}"
    return f"${sum(known):,.2f} an hour, ${sum(known) * _HOURS_PER_MONTH:,.0f} a month{rest}"


def _usd(step: dict[str, Any]) -> float | None:
    """What it saves: of a volume in a month, of a machine in an hour."""
    return step["evidence"].get("usd_per_month") if step["evidence"]["rule"] == "orphaned" else step.get("saves_usd_per_hour")


def subjects(run: Run) -> None:
    line()
    for message in run.messages:
        line(paint("mail  ", "dim") + message["subject"])


def messages(run: Run) -> None:
    """What SNS delivered, word for word."""
    if not run.messages:
        line()
        line("Nobody was written to: there is nothing new.")
        return
    for number, one in enumerate(run.messages):
        message(one, whole=number == 0)


def message(told: dict[str, Any], whole: bool = True) -> None:
    """One of them; not whole, it is without its last paragraph, which names the run, as that of the run's first one does."""
    line()
    line(paint(f"mail to {told['attributes']['team']}: ", "dim") + paint(told["subject"], "bold"))
    parts = told["message"].split("\n\n")
    if not whole and parts[-1].startswith("Run "):
        parts.pop()
    for part in "\n\n".join(parts).splitlines():
        paragraph(part, "  | ")


def calls(functions: list[list[Run]]) -> None:
    """AWS calls of all runs, by action."""
    total = sum((one.calls for one in chain(*functions)), Counter())
    heading("AWS calls of the functions")
    paragraph(", ".join(f"{count} {action}" for action, count in sorted(total.items(), key=lambda item: (-item[1], item[0]))))
    line()
    for runs in functions:
        by_run = ", ".join(str(sum(one.calls.values())) for one in runs)
        metrics = sum(one.metrics_asked for one in runs)
        asked = f" Metrics asked for: {metrics} (${metrics * _METRIC_USD:.4f} at CloudWatch's price)." if metrics else ""
        line(f"{runs[0].response['function']}: {by_run}.{asked}")


def audit(functions: list[list[Run]], applied: dict[str, Any], step_of: str, copies: str) -> None:
    """Where the records lie, and one step as it stands there."""
    heading("The audit trail")
    for runs in functions:
        first, *more = [run for run in runs if run.audit_key]
        line(f"  {first.audit_key}  {len(first.audit_text):,} bytes, and {len(more)} more")
    step = next(step for step in applied["steps"] if step["resource"] == step_of)
    line()
    line("One step of what the platform engineer had carried out, read back from the bucket:")
    paragraph(json.dumps(step), "  ", "dim")
    line()
    line(f"The bucket goes with the local AWS. Copies of it and of every message: {copies}")


def now() -> datetime:
    return datetime.now(timezone.utc)


def _family(instance_type: str) -> str:
    return instance_type.partition(".")[0]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00"))
