"""The cast of the volume reaper: every volume that matters.

The machines' root volumes come on top: they are attached, and that is all there is to say of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from earlier_runs import rfc3339

from .fleet import EAST_1, EAST_2, FRANKFURT, OWNERS


@dataclass(frozen=True)
class Disk:
    """One volume."""

    name: str
    region: str
    type: str
    gib: int
    team: str | None
    tags: dict[str, str] = field(default_factory=dict)
    unattached: timedelta | None = None  # for how long, as an earlier run of Curfew wrote it down
    on: str | None = None  # the name of the machine that it is attached to
    used: timedelta | None = None  # it was attached for an hour, so long ago
    asked: dict[str, Any] = field(default_factory=dict)  # besides, of CreateVolume
    fields: dict[str, Any] = field(default_factory=dict)  # for the local AWS's back door

    def all_tags(self, now: datetime) -> dict[str, str]:
        owned = {"Name": self.name, "Team": self.team, "Owner": OWNERS[self.team]} if self.team else {}
        since = {"curfew:unattached-since": rfc3339(now - self.unattached)} if self.unattached else {}
        return {**owned, **since, **self.tags}


# Snapshots of volumes that earlier runs deleted, and how long ago.
SAFETIES = {"pilot-data": timedelta(days=31), "raw-audio": timedelta(days=12)}
# One that comes back.
RESTORED = "imagenet-copy"
# One that says nothing of its own, and hangs on a machine that does.
NAMELESS = "ray-scratch"
# One that somebody attaches again.
ATTACHED_AGAIN = "checkpoints"

_LONG = timedelta(days=20)


def disks(now: datetime) -> list[Disk]:
    """Every volume that matters."""
    return [
        # Unused
        Disk(
            RESTORED, EAST_1, "gp3", 2000, "vision", {"Project": "benchmarks-2025"},
            unattached=_LONG, asked={"Iops": 6000, "Throughput": 250},
        ),
        Disk("old-embeddings", FRANKFURT, "st1", 500, "nlp", unattached=timedelta(days=34)),
        # Somebody does, after all
        Disk(ATTACHED_AGAIN, EAST_1, "gp3", 1000, "vision", unattached=_LONG),
        Disk(NAMELESS, EAST_1, "gp3", 800, None, on="ray-worker"),
        Disk("nightly-index", EAST_1, "gp3", 300, "nlp", unattached=_LONG, used=timedelta(hours=9)),
        # Only observed, by its team's mode
        Disk("world-cache", EAST_1, "io2", 200, "research", unattached=_LONG, asked={"Iops": 4000}),
        # Skipped
        Disk("eval-tmp", EAST_1, "gp3", 100, "vision"),
        Disk("features", EAST_1, "gp3", 500, "nlp", on="feature-store"),
        Disk("labels-2024", EAST_1, "gp2", 400, "vision", on="annotate"),
        Disk(
            "pvc-5f2c", EAST_2, "gp3", 50, "nlp",
            {"kubernetes.io/created-for/pvc/name": "data-qdrant-0", "ebs.csi.aws.com/cluster": "true"}, _LONG,
        ),
        Disk("golden-set", EAST_1, "gp3", 250, "vision", {"curfew:protected": ""}, _LONG),
        Disk(
            "thesis", EAST_1, "gp3", 120, "research",
            {"curfew:keep-until": rfc3339(now + timedelta(days=60))[:10]}, _LONG,
        ),
        Disk("crawl", EAST_1, "sc1", 4000, "nlp", {"curfew:keep-untill": "2099-01-01"}, _LONG),
        Disk(
            "shared-cache", EAST_1, "io2", 100, "vision", {}, _LONG,
            asked={"Iops": 3000}, fields={"multi_attach_enabled": True},
        ),
    ]  # fmt: skip
