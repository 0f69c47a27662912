"""What happened, in words and tables for a person."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime, timezone
from itertools import chain
from typing import Any

from .fleet import OWNERS, REGIONS, Machine
from .run import Run
from .screen import fit, hanging, heading, line, paint, paragraph
from .seed import Account

_HOURS_PER_MONTH = 730
_GROUPS = {
    "terminate": ("red", "terminated"),
    "stop": ("red", "stopped"),
    "held": ("yellow", "held: above the limits, so none of them was ended, and a person is asked"),
    "start": ("green", "started"),
    "mark": ("yellow", "announced: its owner was told, and a tag remembers the deadline"),
    "unmark": ("green", "called off, or out of date: the tag is taken away"),
    "notify": ("cyan", "only told, and why"),
}
_ONLY_TOLD = {
    "reserved": "GPU memory is held",
    "local-disk": "its NVMe data would be lost",
    "busy": "but it is at work",
    "cannot-be-stopped": "one-time Spot cannot stop",
    "persistent-spot": "Spot would launch it again",
    "saves-nothing": "its capacity is reserved",
    "configured": "configured so",
}
_METRIC_USD = 0.01 / 1000  # "Amazon CloudWatch pricing": GetMetricData, by metric asked for


def fleet(account: Account) -> None:
    """How many machines of which family, by region."""
    families = sorted({_family(machine.type) for machine in account.machines.values()})
    counts: dict[str, Counter] = defaultdict(Counter)
    for machine in account.machines.values():
        counts[machine.region][_family(machine.type)] += 1
    cpu = Counter(machine.region for machine in account.cpu_machines.values())
    widths = [len(family) + 2 for family in families]
    head = "".join(family.rjust(width) for family, width in zip(families, widths))
    line(paint(f"{'':13}{head}  GPU  CPU", "bold"))
    for region in REGIONS:
        cells = "".join(str(counts[region][family] or ".").rjust(width) for family, width in zip(families, widths))
        line(f"{region:13}{cells}{sum(counts[region].values()):5}{cpu[region]:5}")
    line()
    line(f"{'team':9}{'mode':9}{'machines':>9}   who hears of it")
    teams = Counter(machine.team for machine in account.machines.values())
    for team, owner in OWNERS.items():
        mode = "observe" if team == "research" else "enforce"
        line(f"{team:9}{mode:9}{teams[team]:9}   {owner}")
    line(f"{'(none)':9}{'enforce':9}{teams[None]:9}   platform@example.com, who hears of everything")


def run(run: Run, account: Account, names: bool) -> None:
    """One run: what it saw, did and left alone, by name or only how many, and what that saves."""
    record = run.record
    line(
        f"Saw {record['seen']} accelerated instances in {len(record['regions'])} regions in {run.seconds:.1f} s. "
        f"The {len(account.cpu_machines)} others are none of its business."
    )
    for group, (colour, meaning) in _GROUPS.items():
        steps = [step for step in record["steps"] if _group(step) == group]
        if steps:
            _steps(steps, group, colour, meaning, account)
    left_alone(record, lambda ids: _names(ids, account) if names else "")
    _savings(record)


def _group(step: dict[str, Any]) -> str:
    return "held" if step["outcome"] == "not-reached" else step["action"]


def _steps(steps: list[dict[str, Any]], group: str, colour: str, meaning: str, account: Account) -> None:
    would = [step for step in steps if step["outcome"] == "observed"]
    done = [step for step in steps if step["outcome"] != "observed"]
    for some, title in ((done, meaning), (would, f"would {group}: observe mode, so nothing was written")):
        if not some:
            continue
        line()
        line(paint(f"{group} ({len(some)})", "bold", colour) + paint(f"  {title}", "dim"))
        for step in sorted(some, key=lambda one: _dearest_first(one, account)):
            _step(step, account.machines[step["resource"]])


def _dearest_first(step: dict[str, Any], account: Account) -> tuple[float, str]:
    return -(step["saves_usd_per_hour"] or 0), account.machines[step["resource"]].name


def _step(step: dict[str, Any], machine: Machine) -> None:
    price = step["saves_usd_per_hour"]
    shown = "" if step["action"] in ("start", "unmark") else "price ?" if price is None else f"${price:.2f}/h"
    why = because(step["because"])
    row = (
        f"  {fit(machine.name, 15)}{fit(machine.type, 17)}{fit(machine.region, 13)}"
        f"{fit(machine.team or '-', 9)}{fit(why, 34)}{shown:>9}"
    )
    line(row.rstrip())
    if step["error"] and step["outcome"] != "not-reached":
        paragraph(step["error"], "    ", "red")


def because(why: dict[str, Any]) -> str:
    """The evidence in a few words."""
    only_told = _ONLY_TOLD.get(why.get("only_told", ""))
    rule = why["rule"]
    if why.get("mended") is not None:
        return f"{rule}: no longer so" if why["mended"] else f"{rule}, as announced"
    if only_told:
        return f"{rule}; {only_told}"
    if rule == "idle":
        return f"idle: {why['devices']} GPU at {why['gpu_max_percent']:.0f} %, {why['cpu_max_vcpus']:.1f} vCPUs"
    if rule == "untagged":
        return f"lacks {', '.join(why['missing'])}"
    if rule == "expired":
        return f"expired at {_clock(why['expires_at'])}"
    if rule == "hours":
        return f"{why['hours'].removeprefix('Mon-Sun ')}, now {datetime.now(timezone.utc):%H:%M}"
    if rule == "lifetime":
        days = (datetime.now(timezone.utc) - moment(why["launched_at"])).days
        return f"runs for {days} days, {why['max_seconds'] // 86400} at most"
    return rule


def left_alone(record: dict[str, Any], named: Callable[[list[str]], str]) -> None:
    """By reason, the most first; on few lines where nobody is named."""
    spared = sorted(record["spared"].items(), key=lambda item: (-len(item[1]), item[0]))
    total = sum(len(ids) for _, ids in spared)
    if not total:
        return
    line()
    title = f"left alone ({total})"
    if not any(named(ids) for _, ids in spared):
        paragraph(f"{title}: " + ", ".join(f"{len(ids)} {reason}" for reason, ids in spared))
        return
    line(paint(title, "bold"))
    for reason, ids in spared:
        hanging(f"{len(ids):4}  {reason:15}", named(ids))


def _names(ids: list[str], account: Account) -> str:
    return ", ".join(sorted(account.machines[one].name for one in ids if one in account.machines))


def _savings(record: dict[str, Any]) -> None:
    ends = [step for step in record["steps"] if step["action"] in ("stop", "terminate")]
    done = [step for step in ends if step["outcome"] == "done"]
    waiting = [step for step in record["steps"] if step["action"] == "mark"] + [s for s in ends if s not in done]
    if done or waiting:
        line()
    if done:
        line(paint(f"saved by what was ended:    {savings(done)}", "bold", "green"))
    if waiting:
        line(f"waiting, or only observed:  {savings(waiting)}")


def savings(steps: list[dict[str, Any]]) -> str:
    known = [step["saves_usd_per_hour"] for step in steps if step["saves_usd_per_hour"] is not None]
    unknown = len(steps) - len(known)
    rest = f"; {unknown} more of unknown price" if unknown else ""
    return f"${sum(known):,.2f} an hour, ${sum(known) * _HOURS_PER_MONTH:,.0f} a month{rest}"


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
    total: Counter = Counter()
    for one in chain(*functions):
        total.update(one.calls)
    heading("AWS calls of the functions")
    cells = [f"{count} {action}" for action, count in sorted(total.items(), key=lambda item: (-item[1], item[0]))]
    paragraph(", ".join(cells))
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


def _clock(text: str) -> str:
    return f"{moment(text):%H:%M} UTC"
