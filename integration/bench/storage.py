"""The volumes that are measured: their instances, the unused ones, and safety snapshots of earlier ones.

The same number gives the same volumes every time, but for their times, which count from now. Shares are exact where 20
divides the number. Nothing here makes a run write to EC2: teams enforce and `action` is `notify`, so that the owners of
orphaned volumes are notified, and the log and the labels have when unattached ones were first seen so.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any

from earlier_runs import log_of, record_of_safety, rfc3339

from .fleet import CONFIG as _TEAMS_ENFORCE
from .fleet import TEAMS, Machine, fleet

CONFIG = f'{_TEAMS_ENFORCE}[volumes]\naction = "notify"\n'

ATTACHED = "attached"
YOUNG = "young"  # unattached for less than `orphaned_after`
ORPHANED = "orphaned"  # unattached for longer, and without a sign of use since
SHARES = {ATTACHED: 80, YOUNG: 10, ORPHANED: 10}

VOLUMES_AN_INSTANCE = 4
STOPPED_EVERY = 25  # instances; of every other of these the volumes are a finding
BARE_EVERY = 10  # volumes; as launches leave them that tag instances only
_DAYS_UNATTACHED = {YOUNG: (0, 13), ORPHANED: (15, 40)}
_DAY = 86_400
_SOURCES = 40
_EXPIRING_PERCENT = 5  # safety snapshots, of volumes that are gone, to volumes
_UNSEEN = timedelta(minutes=30)  # between the last sample of use and the run that first saw the volume unattached


@dataclass(frozen=True)
class Disk:
    """What a volume can be made as."""

    type: str
    size_gib: int
    iops: int | None
    throughput: int | None


# With their share of the volumes in percent.
_DISKS = {
    Disk("gp3", 100, 3000, 125): 40,
    Disk("gp3", 500, 3000, 250): 25,
    Disk("gp3", 2000, 16000, 1000): 15,
    Disk("gp2", 200, 600, None): 10,
    Disk("io2", 1000, 20000, None): 5,
    Disk("st1", 4000, None, None): 5,
}


@dataclass(frozen=True)
class Volume:
    number: int
    id: str
    usage: str
    disk: Disk
    zone: str
    created: datetime
    source: str | None
    tags: dict[str, str]
    device: str = ""
    attached_to: Machine | None = None
    since: datetime | None = None

    @property
    def used_until(self) -> datetime | None:
        """When CloudWatch got its last sample; None where it still gets some."""
        return self.since and self.since - _UNSEEN


@dataclass(frozen=True)
class Snapshot:
    id: str
    volume_id: str
    size_gib: int
    started: datetime
    tags: dict[str, str]


@dataclass(frozen=True)
class Storage:
    volumes: list[Volume]
    machines: list[Machine]
    own: list[Snapshot]
    sources: list[Snapshot]


@cache
def storage(count: int) -> Storage:
    chance = random.Random(count)
    now = datetime.now(timezone.utc).replace(microsecond=0)
    machines = _machines(count * SHARES[ATTACHED] // 100 // VOLUMES_AN_INSTANCE, now)
    sources = [_source(number, chance, now) for number in range(_SOURCES)]
    disks = chance.choices(list(_DISKS), list(_DISKS.values()), k=count)
    seats = [(machine, *disk) for machine in machines for disk in machine.disks]
    usages = [ATTACHED] * len(seats) + [YOUNG] * (count * SHARES[YOUNG] // 100)
    usages += [ORPHANED] * (count - len(usages))
    volumes = []
    for number, (usage, disk) in enumerate(zip(usages, disks)):
        is_bare = number % BARE_EVERY == 0
        tags = {} if is_bare else _tags(number)
        source = sources[number // BARE_EVERY % _SOURCES].id if is_bare else None
        if usage == ATTACHED:
            volumes.append(_attached(number, disk, *seats[number], source, tags))
        else:
            volumes.append(_unattached(number, usage, disk, source, tags, chance, now))
    own = [_own(number, disks[number], chance, now) for number in range(count * _EXPIRING_PERCENT // 100)]
    chance.shuffle(volumes)
    return Storage(volumes, machines, own, sources)


def _machines(count: int, now: datetime) -> list[Machine]:
    machines = []
    for machine in fleet(count):
        machine = replace(machine, volumes=VOLUMES_AN_INSTANCE)
        if machine.number % STOPPED_EVERY == 0:
            days = 25 if machine.number // STOPPED_EVERY % 2 == 0 else 3
            stopped = now - timedelta(days=days)
            machine = replace(machine, stopped=stopped, launched=stopped - timedelta(days=2))
        machines.append(machine)
    return machines


def _attached(
    number: int, disk: Disk, machine: Machine, device: str, id: str, source: str | None, tags: dict[str, str]
) -> Volume:
    return Volume(number, id, ATTACHED, disk, machine.zone, machine.launched, source, tags, device, machine)


def _unattached(
    number: int,
    usage: str,
    disk: Disk,
    source: str | None,
    tags: dict[str, str],
    chance: random.Random,
    now: datetime,
) -> Volume:
    least, most = _DAYS_UNATTACHED[usage]
    since = now - timedelta(seconds=chance.randrange(least * _DAY, most * _DAY) + 3600)
    created = since - timedelta(seconds=chance.randrange(_DAY, 300 * _DAY))
    tags = {**tags, "curfew:unattached-since": rfc3339(since)}
    return Volume(number, _id("vol", chance), usage, disk, "abcd"[number % 4], created, source, tags, since=since)


def _tags(number: int) -> dict[str, str]:
    team = TEAMS[number % len(TEAMS)]
    return {
        "Name": f"{team}-scratch-{number}",
        "Team": team,
        "Owner": f"person{number % 200}@example.com",
        "Project": f"project-{number % 37}",
        "CostCenter": f"{4000 + number % 60}",
    }


def _source(number: int, chance: random.Random, now: datetime) -> Snapshot:
    """Of an image that a team made, from which its volumes come."""
    tags = {**_tags(number), "Name": f"image-{number}"}
    return Snapshot(_id("snap", chance), _id("vol", chance), 100, now - timedelta(days=400), tags)


def _own(number: int, disk: Disk, chance: random.Random, now: datetime) -> Snapshot:
    """Of a volume that was deleted less than `keep_snapshots` ago."""
    deleted = now - timedelta(seconds=chance.randrange(3600, 29 * _DAY))
    volume_id = _id("vol", chance)
    size = (disk.type, disk.size_gib, disk.iops or "", disk.throughput or "")
    tags = {
        **_tags(number),
        "curfew:snapshot-of": volume_id,
        "curfew:restore": ",".join(map(str, ("us-east-1a", *size))),
        "curfew:deleted-at": rfc3339(deleted),
    }
    return Snapshot(_id("snap", chance), volume_id, disk.size_gib, deleted - timedelta(hours=2), tags)


def remembered(seen: Storage) -> dict[str, Any]:
    """What earlier runs remember of it: first sights, and what they made and announced."""
    records: dict[str, Any] = {}
    for volume in seen.volumes:
        if volume.since:
            records[volume.id] = {"since": rfc3339(volume.since)}
    for own in seen.own:
        deleted_at = datetime.fromisoformat(own.tags["curfew:deleted-at"])
        records[own.id] = record_of_safety(own.volume_id, own.started, deleted_at)
    return log_of(records)


def _id(kind: str, chance: random.Random) -> str:
    return f"{kind}-{chance.getrandbits(68):017x}"
