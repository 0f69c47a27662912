"""The cast: every machine of the account, and what it does.

Each accelerated machine is one case that Curfew must get right: every rule once, and every reason to skip one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from earlier_runs import rfc3339

EAST_1, EAST_2, FRANKFURT = "us-east-1", "us-east-2", "eu-central-1"
REGIONS = (EAST_1, EAST_2, FRANKFURT)

OWNERS = {"vision": "ada@example.com", "nlp": "grace@example.com", "research": "emmy@example.com"}


@dataclass(frozen=True)
class Machine:
    """One accelerated instance."""

    name: str
    region: str
    type: str
    team: str | None
    does: str  # idle, busy, reserved (idle, but GPU memory is held), silent (nothing reports its GPUs)
    tags: dict[str, str] = field(default_factory=dict)
    launched: timedelta = timedelta(days=2)
    fields: dict[str, Any] = field(default_factory=dict)  # for the local AWS's back door

    @property
    def all_tags(self) -> dict[str, str]:
        owned = {"Name": self.name, "Team": self.team, "Owner": OWNERS[self.team]} if self.team else {}
        return {**owned, **self.tags}


def cast(now: datetime) -> list[Machine]:
    """Every accelerated machine."""
    expired = rfc3339(now - timedelta(hours=2))
    evening = now - timedelta(minutes=3)
    morning = now - timedelta(minutes=10)
    soon = now + timedelta(minutes=20)
    stopped_last_night = f"hours {rfc3339(now - timedelta(hours=12))}"

    return [
        # The rules
        Machine("sweep-lr", EAST_1, "g5.12xlarge", "vision", "idle"),
        Machine("bench-l4", FRANKFURT, "g6.xlarge", "vision", "idle"),
        Machine(
            "scratch-spot", FRANKFURT, "g6.2xlarge", "vision", "idle",
            {"curfew:on-idle": "terminate"}, fields={"spot_instance_request": "one-time"},
        ),
        Machine("no-name-1", EAST_1, "g4dn.12xlarge", None, "silent"),
        Machine("distil", EAST_1, "trn1.32xlarge", "nlp", "silent", launched=timedelta(days=11)),
        Machine("demo-booth", EAST_1, "g4dn.xlarge", "vision", "busy", {"curfew:expires-at": expired}),
        Machine(
            "label-ui", EAST_1, "g6.xlarge", "nlp", "busy",
            {"curfew:hours": hours(evening - timedelta(hours=10), evening)},
        ),
        Machine(
            "dev-grace", EAST_1, "g5.xlarge", "nlp", "idle",
            {"curfew:hours": hours(morning, morning + timedelta(hours=10)), "curfew:stopped": stopped_last_night},
            fields={"state": "stopped"},
        ),
        Machine(
            "studio", FRANKFURT, "g6.8xlarge", "vision", "busy",
            {"curfew:hours": hours(soon - timedelta(hours=10), soon)},
        ),
        # Announced, and then somebody does something about it
        Machine("finetune-llava", EAST_1, "g6.12xlarge", "vision", "idle"),
        Machine("llama-ft", EAST_1, "p5.48xlarge", "nlp", "idle", {"curfew:local-disk": "expendable"}),
        # Notify only
        Machine("notebook-ada", EAST_1, "g5.xlarge", "vision", "reserved"),
        Machine("rag-index", EAST_1, "g6e.12xlarge", "nlp", "idle"),
        Machine("no-name-2", EAST_1, "g5.48xlarge", None, "busy"),
        Machine("spot-batch", EAST_2, "g5.4xlarge", "vision", "idle", fields={"spot_instance_request": "one-time"}),
        Machine(
            "spot-keeper", EAST_2, "g4dn.4xlarge", "vision", "idle",
            fields={"spot_instance_request": "persistent"},
        ),
        Machine(
            "prepaid", FRANKFURT, "g5.24xlarge", "vision", "idle",
            fields={"capacity_reservation_id": "cr-0123456789abcdef0"},
        ),
        # Only observed: by the team's mode, and by the machine's own tag
        Machine("world-model", EAST_2, "p6-b200.48xlarge", "research", "idle"),
        Machine("render-farm", EAST_2, "g7e.24xlarge", "vision", "idle", {"curfew:mode": "observe"}),
        # Skipped
        Machine("train-detr", EAST_1, "p4d.24xlarge", "vision", "busy"),
        Machine("pretrain-2", EAST_1, "p4de.24xlarge", "nlp", "idle", launched=timedelta(minutes=12)),
        Machine(
            "eval-nightly", EAST_1, "g6.48xlarge", "nlp", "idle",
            {"curfew:keep-until": rfc3339(now + timedelta(days=3))[:10]},
        ),
        Machine("tokenizer", EAST_1, "g6e.xlarge", "nlp", "idle", {"curfew:idle-after": "soon"}),
        Machine("embed-serve", EAST_1, "inf2.xlarge", "vision", "silent"),
        Machine("legacy-train", FRANKFURT, "g4dn.12xlarge", "nlp", "silent"),
        Machine("ci-gpu", FRANKFURT, "g6f.xlarge", "research", "idle", {"curfew:idle-after": "off"}),
        Machine(
            "eks-node", EAST_2, "p5en.48xlarge", "research", "idle",
            {"kubernetes.io/cluster/ml": "owned", "eks:cluster-name": "ml"},
        ),
        Machine("asg-serve", EAST_2, "g5.2xlarge", "vision", "idle", {"aws:autoscaling:groupName": "serve-blue"}),
        Machine("karpenter-7", EAST_2, "g6.4xlarge", "nlp", "busy", {"karpenter.sh/nodepool": "gpu"}),
        Machine("stack-gpu", EAST_2, "g5.xlarge", "nlp", "idle", {"spacelift:stack": "gpu-lab"}),
    ]  # fmt: skip


@dataclass(frozen=True)
class CpuMachine:
    """One instance without an accelerator: nothing of it but its volumes is any business of Curfew's."""

    region: str
    type: str
    name: str
    team: str = "platform"
    stopped: timedelta | None = None  # for how long


CPU_MACHINES = [
    CpuMachine(EAST_1, "t3.medium", "vpn"),
    CpuMachine(EAST_1, "m7i.large", "ci-runner"),
    CpuMachine(EAST_1, "m7i.4xlarge", "airflow"),
    CpuMachine(EAST_1, "r7i.2xlarge", "feature-store"),
    CpuMachine(EAST_1, "c7i.8xlarge", "preprocess"),
    CpuMachine(EAST_1, "r7i.4xlarge", "ray-worker", "nlp"),
    CpuMachine(EAST_1, "m7i.xlarge", "annotate", "vision", timedelta(days=40)),
    CpuMachine(EAST_2, "c7i.2xlarge", "ray-head"),
    CpuMachine(EAST_2, "m7i.xlarge", "grafana"),
    CpuMachine(FRANKFURT, "t3.medium", "vpn"),
    CpuMachine(FRANKFURT, "c7i.large", "web"),
    CpuMachine(FRANKFURT, "r7i.large", "postgres"),
]


def hours(start: datetime, end: datetime) -> str:
    return f"Mon-Sun {start:%H:%M}-{end:%H:%M} UTC"
