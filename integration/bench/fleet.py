"""The fleet that is measured: so many GPU instances of a few types, and what each of them is doing.

The same number gives the same fleet every time, but for its launches, which count from now. Shares are exact where 20
divides the number. Nothing here makes a run write to EC2: whoever is idle has NVMe scratch that may not be lost
(`local_disk = "keep"`), so its owner is only told.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

REGION = "us-east-1"
# Those that every account has ("Regions and Zones", Amazon EC2 User Guide).
REGIONS = [REGION, "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"]
REGIONS += ["eu-central-1", "eu-west-1", "eu-west-2", "eu-west-3", "eu-north-1"]
REGIONS += ["ap-south-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-southeast-1", "ap-southeast-2"]
AT_HOME_PERCENT = 40  # the others have the same
BUCKET = "curfew-bench"
TOPIC_ARN = f"arn:aws:sns:{REGION}:123456789012:curfew"
TEAMS = ("vision", "nlp", "speech")

CONFIG = f'regions = ["{REGION}"]\n[idle]\nlocal_disk = "keep"\n' + "".join(f'[teams.{team}]\nmode = "enforce"\n' for team in TEAMS)


@dataclass(frozen=True)
class Type:
    """EC2's facts of a type ("Accelerated computing instances", Amazon EC2 instance types)."""

    name: str
    vcpus: int
    memory_gib: int
    gpus: int
    gpu: str
    gpu_memory_mib: int
    disks: int
    disk_gb: int
    interfaces: int  # network interfaces as one launches it: EFA on the largest


# With their share of the fleet in percent.
TYPES = {
    Type("g4dn.xlarge", 4, 16, 1, "T4", 15360, 1, 125, 1): 15,
    Type("g5.xlarge", 4, 16, 1, "A10G", 22888, 1, 250, 1): 25,
    Type("g6.xlarge", 4, 16, 1, "L4", 22888, 1, 250, 1): 20,
    Type("g5.12xlarge", 48, 192, 4, "A10G", 22888, 1, 3800, 1): 15,
    Type("g6.12xlarge", 48, 192, 4, "L4", 22888, 4, 940, 1): 10,
    Type("g5.48xlarge", 192, 768, 8, "A10G", 22888, 2, 3800, 1): 5,
    Type("p4d.24xlarge", 96, 1152, 8, "A100", 40960, 8, 1000, 4): 5,
    Type("p5.48xlarge", 192, 2048, 8, "H100", 81920, 8, 3840, 4): 5,
}

_DEVICES = ("/dev/sda1", "/dev/sdf", "/dev/sdg", "/dev/sdh")

WORKS = "works"  # its CPU shows it
COMPUTES = "computes"  # its GPUs work; CPU and network are quiet
IDLES = "idles"  # nothing at all
SHARES = {WORKS: 75, COMPUTES: 15, IDLES: 10}

# What every sample says, by metric. Curfew's line for CPU is one busy core, so that 0.3 % of 192 vCPUs is below it.
_QUIET = {
    "CPUUtilization": 0.3,
    "NetworkIn": 40_000.0,
    "NetworkOut": 25_000.0,
    "EBSReadBytes": 0.0,
    "EBSWriteBytes": 120_000.0,
    "nvidia_smi_utilization_gpu": 0.0,
    "nvidia_smi_memory_used": 3.0,
}
VALUES = {
    WORKS: {
        "CPUUtilization": 63.2,
        "NetworkIn": 9.1e9,
        "NetworkOut": 2.2e9,
        "EBSReadBytes": 4.0e9,
        "EBSWriteBytes": 1.0e9,
        "nvidia_smi_utilization_gpu": 88.0,
        "nvidia_smi_memory_used": 14_000.0,
    },
    COMPUTES: {**_QUIET, "nvidia_smi_utilization_gpu": 97.0, "nvidia_smi_memory_used": 14_000.0},
    IDLES: _QUIET,
}


@dataclass(frozen=True)
class Machine:
    number: int
    id: str
    type: Type
    usage: str
    team: str
    launched: datetime
    volumes: int = 2
    stopped: datetime | None = None

    @property
    def disks(self) -> list[tuple[str, str]]:
        """Device and volume id of each."""
        return [(device, f"vol-{number:x}{self.id[3:]}") for number, device in enumerate(_DEVICES[: self.volumes])]

    @property
    def zone(self) -> str:
        return "abcd"[self.number % 4]

    @property
    def address(self) -> str:
        return f"10.{self.number >> 16 & 255}.{self.number >> 8 & 255}.{self.number & 255}"

    @property
    def host(self) -> str:
        return f"ip-{self.address.replace('.', '-')}.ec2.internal"


def fleet(count: int) -> list[Machine]:
    """Launched between three hours and six days ago: old enough to be idle, and none violates `[lifetime]`."""
    chance = random.Random(count)
    types = _shared_out(count, TYPES, chance)
    usages = _shared_out(count, SHARES, chance)
    now = datetime.now(timezone.utc).replace(microsecond=0)
    return [
        Machine(
            number,
            f"i-{chance.getrandbits(68):017x}",
            types[number],
            usages[number],
            TEAMS[number % len(TEAMS)],
            now - timedelta(seconds=chance.randrange(3 * 3600, 6 * 24 * 3600)),
        )
        for number in range(count)
    ]


def _shared_out(count: int, percents: dict, chance: random.Random) -> list:
    """One for each machine, in these shares and in no order; the first takes what rounding leaves."""
    dealt = [one for one, percent in percents.items() for _ in range(count * percent // 100)]
    dealt += [next(iter(percents))] * (count - len(dealt))
    chance.shuffle(dealt)
    return dealt
