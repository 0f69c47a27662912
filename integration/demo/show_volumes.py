"""What happened to volumes, in words and tables for a person."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from . import show
from .run import Run
from .screen import fit, hanging, line, paint, paragraph, subheading
from .seed import Account
from .seed_storage import Storage

_GROUPS = {
    "delete": ("red", "deleted: its snapshot is whole"),
    "expire": ("red", "safety snapshots whose time is over: deleted"),
    "snapshot": ("yellow", "past the deadline: it is photographed, and goes once that is whole"),
    "mark": ("yellow", "announced: its owner was told, and a tag remembers the deadline"),
    "unmark": ("green", "in use again: the tags are taken away"),
    "date": ("cyan", "seen unattached for the first time: a tag remembers it, nobody is told"),
}
_MONTH_COLUMNS = 12


def storage(account: Account) -> None:
    """How many volumes there are."""
    disks = account.storage.disks.values()
    attached = sum(disk.on is not None for disk in disks)
    earlier = len(account.storage.safeties)
    line()
    paragraph(
        f"And {len(disks) + len(account.storage.roots)} EBS volumes: {len(account.storage.roots)} roots, "
        f"{attached} more that are attached, and {len(disks) - attached} that are not; "
        f"{earlier} snapshots of volumes that Curfew deleted."
    )


def run(run: Run, account: Account, names: bool) -> None:
    """One run: what it saw, did and left alone, by name or only how many, and what a month of it costs."""
    record = run.record
    line()
    subheading("reap-volumes")
    line(f"Saw {record['seen']} volumes in {len(record['regions'])} regions in {run.seconds:.1f} s.")
    for group, (colour, meaning) in _GROUPS.items():
        _steps([step for step in record["steps"] if _group(step) == group], group, colour, meaning, account.storage)
    show.left_alone(record, lambda ids: _names(ids, account.storage) if names else "")
    _savings(record)


def findings(run: Run) -> None:
    """Of what is left alone, the paragraphs that its owners get."""
    spared = [one for ids in run.record["spared"].values() for one in ids]
    told = [text for text in (paragraph_of(run, one) for one in spared) if text]
    line()
    line("In them, of volumes that are left alone:")
    for text in told:
        paragraph(text, "  | ")


def paragraph_of(run: Run, resource_id: str) -> str | None:
    """What its messages say of one volume or snapshot."""
    every = (one for message in run.messages for one in message["message"].split("\n\n"))
    return next((one for one in every if one.startswith(f"{resource_id} (")), None)


def _group(step: dict[str, Any]) -> str:
    if step["action"] == "delete" and step["because"]["rule"] == "expired":
        return "expire"
    return "date" if is_first_sight(step) else step["action"]


def is_first_sight(step: dict[str, Any]) -> bool:
    """A `mark` without a deadline announces nothing: it writes down since when."""
    return step["action"] == "mark" and "deadline" not in step["because"]


def _steps(steps: list[dict[str, Any]], group: str, colour: str, meaning: str, storage: Storage) -> None:
    would = [step for step in steps if step["outcome"] == "observed"]
    done = [step for step in steps if step["outcome"] != "observed"]
    for some, title in ((done, meaning), (would, f"would {group}: observe mode, so nothing was written")):
        if not some:
            continue
        line()
        line(paint(f"{group} ({len(some)})", "bold", colour) + paint(f"  {title}", "dim"))
        for step in sorted(some, key=lambda one: -(usd_per_month(one) or 0)):
            _step(step, storage)


def _step(step: dict[str, Any], storage: Storage) -> None:
    why = step["because"]
    usd = usd_per_month(step)
    priced = why["rule"] == "orphaned" and step["action"] != "unmark"
    shown = "" if not priced else "price ?" if usd is None else f"${usd:,.2f}/mo"
    disk = storage.disks.get(step["resource"])
    kind = f"{disk.type} {disk.gib} GiB" if disk else "snapshot"
    name = storage.name_of(step["resource"]) or step["resource"]
    room = 34 + 9 - _MONTH_COLUMNS
    row = (
        f"  {fit(name.removeprefix('snapshot of '), 15)}{fit(kind, 17)}{fit(step['region'], 13)}"
        f"{fit(step['team'] or '-', 9)}{fit(_because(step, storage), room)}{shown:>{_MONTH_COLUMNS}}"
    )
    line(row.rstrip())
    if step["error"]:
        paragraph(step["error"], "    ", "red")


def _because(step: dict[str, Any], storage: Storage) -> str:
    why = step["because"]
    if why["rule"] == "expired":
        return f"its volume went {_days(why['deleted_at'])} days ago"
    if why.get("mended"):
        return "orphaned: no longer so"
    if is_first_sight(step):
        return "its two weeks begin now"
    days = _days(why["unattached_since"])
    host = why.get("last_attached_to")
    return f"{days} days, last on {storage.hosts.get(host, host)}" if host else f"unattached for {days} days"


def _names(ids: list[str], storage: Storage) -> str:
    names = sorted(filter(None, map(storage.name_of, ids)))
    others = len(ids) - len(names)
    return ", ".join(names + ([f"{others} roots"] if others else []))


def _savings(record: dict[str, Any]) -> None:
    of_volumes = [step for step in record["steps"] if step["because"]["rule"] == "orphaned"]
    done = [step for step in of_volumes if step["action"] == "delete" and step["outcome"] == "done"]
    ends = [step for step in of_volumes if step["action"] != "unmark" and not is_first_sight(step)]
    waiting = [step for step in ends if step not in done]
    if done or waiting:
        line()
    if done:
        line(paint(f"saved by what was deleted:  {savings(done)}", "bold", "green"))
    if waiting:
        line(f"waiting, or only observed:  {savings(waiting)}")


def restored(account: Account, old_id: str, new_id: str, differences: dict[str, tuple[Any, Any]]) -> None:
    """What came back, beside what was deleted."""
    disk = account.storage.disks[old_id]
    volume = account.aws.volume(new_id, disk.region)
    tags = ", ".join(f"{tag['Key']}={tag['Value']}" for tag in volume["Tags"])
    line()
    line(f"  was  {old_id}")
    line(
        f"  is   {new_id}  {volume['VolumeType']}, {volume['Size']} GiB, {volume['Iops']} IOPS, "
        f"{volume['Throughput']} MiB/s, {volume['AvailabilityZone']}"
    )
    hanging("       ", tags)
    hanging("       ", f"from {volume['SnapshotId']}")
    for key, (old, new) in differences.items():
        line(paint(f"  {key} was {old}, and is {new}", "red"))
    if not differences:
        line(paint("  Type, size, IOPS, throughput, zone, encryption and tags are those of the old one.", "green"))


def savings(steps: list[dict[str, Any]]) -> str:
    known = [usd for usd in map(usd_per_month, steps) if usd is not None]
    unknown = len(steps) - len(known)
    rest = f"; {unknown} more of unknown price" if unknown else ""
    return f"${sum(known):,.2f} a month{rest}"


def usd_per_month(step: dict[str, Any]) -> float | None:
    return step["because"].get("usd_per_month")


def _days(text: str) -> int:
    return (datetime.now(timezone.utc) - show.moment(text)).days
