"""Builds the account: machines and what they report, the state bucket with its configuration, and the topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from earlier_runs import record_of_labels
from local_aws import LocalAws

from .fleet import CPU_MACHINES, EAST_1, OWNERS, REGIONS, CpuMachine, Machine, cast
from .memory import remember
from .seed_storage import Storage, seed_storage

BUCKET = "curfew-state"
CONFIG_KEY = "config/curfew.toml"
PLATFORM_EMAIL = "platform@example.com"

# Shortened, to avoid hours of waiting. The rest is realistic.
CONFIG = """\
regions = []                       # every enabled one

[managed]
tag_keys = ["spacelift:stack"]     # another controller of this company

[untagged]
mode = "enforce"
grace = "{grace}"

[idle]
window = "15m"
grace = "{grace}"
local_disk = "keep"                # for those who have not chosen

[lifetime]
grace = "{grace}"
action = "stop"

[volumes]
grace = "{grace}"

[limits]
actions_max = 3

[teams.vision]
mode = "enforce"
email = "ada@example.com"
local_disk = "expendable"

[teams.nlp]
mode = "enforce"
email = "grace@example.com"

[teams.research]
mode = "observe"                   # not yet
local_disk = "expendable"
"""
GRACE_SECONDS = 2

_PERIOD = timedelta(minutes=5)
_PERIODS = 9  # 45 minutes: the window, and the 10 minutes by which CloudWatch may be late
_BUSY = {"gpu": 96.0, "memory_mib": 21_000.0, "cpu": 55.0, "bytes": 9e8}
_QUIET = {"gpu": 0.0, "memory_mib": 3.0, "cpu": 0.2, "bytes": 40_000.0}
_ACTIVITY = {"busy": _BUSY, "idle": _QUIET, "silent": _QUIET, "reserved": {**_QUIET, "memory_mib": 18_200.0}}


@dataclass(frozen=True)
class Account:
    """What was built."""

    aws: LocalAws
    topic_arn: str
    machines: dict[str, Machine]  # by instance id
    cpu_machines: dict[str, CpuMachine]  # by instance id
    gpu_counts: dict[str, int]  # by type
    storage: Storage

    def id_of(self, name: str) -> str:
        everything = {**self.machines, **self.cpu_machines}
        return next(instance_id for instance_id, machine in everything.items() if machine.name == name)


def seed(aws: LocalAws, progress: Callable[[str], None]) -> Account:
    now = datetime.now(timezone.utc)
    aws.client("s3").create_bucket(Bucket=BUCKET)
    aws.client("s3").put_object(Bucket=BUCKET, Key=CONFIG_KEY, Body=config().encode())
    topic_arn = _topic(aws)
    gpu_counts = _gpu_counts(aws)
    progress("state bucket, configuration, topic")
    machines: dict[str, Machine] = {}
    for machine in cast(now):
        machines[_launch(aws, machine, now)] = machine
        progress(f"{len(machines)} accelerated instances")
    cpu_machines = {_launch_cpu(aws, machine, now): machine for machine in CPU_MACHINES}
    progress(f"{len(machines)} accelerated and {len(cpu_machines)} other instances")
    for region in REGIONS:
        own = {
            instance_id: machine
            for instance_id, machine in machines.items()
            if machine.region == region and machine.fields.get("state") != "stopped"
        }
        report_metrics(aws, region, own, gpu_counts, now)
        progress(f"metrics of {region}")
        known = {one: record_of_labels(now - machine.launched, machine.tags) for one, machine in machines.items() if machine.region == region}
        remember(aws, BUCKET, "reap-instances", region, known)
    storage = seed_storage(aws, BUCKET, {machine.name: one for one, machine in cpu_machines.items()}, now)
    progress(f"{len(storage.disks)} volumes")
    return Account(aws, topic_arn, machines, cpu_machines, gpu_counts, storage)


def config() -> str:
    return CONFIG.format(grace=f"{GRACE_SECONDS}s")


def begin_training(account: Account, name: str) -> None:
    """One fresh sample of every GPU at work."""
    instance_id = account.id_of(name)
    machine = account.machines[instance_id]
    now = datetime.now(timezone.utc) - timedelta(seconds=1)
    gpus = account.gpu_counts[machine.type]
    data = [_datum("nvidia_smi_utilization_gpu", 97.0, now, instance_id, index) for index in range(gpus)]
    account.aws.client("cloudwatch", machine.region).put_metric_data(Namespace="CWAgent", MetricData=data)


def _topic(aws: LocalAws) -> str:
    """Somebody must listen before Curfew ends anything."""
    sns = aws.client("sns", EAST_1)
    arn = sns.create_topic(Name="curfew")["TopicArn"]
    for team, email in OWNERS.items():
        filter_policy = f'{{"team": ["{team}"]}}'
        sns.subscribe(TopicArn=arn, Protocol="email", Endpoint=email, Attributes={"FilterPolicy": filter_policy})
        aws.confirm_subscription(email)
    sns.subscribe(TopicArn=arn, Protocol="email", Endpoint=PLATFORM_EMAIL)
    aws.confirm_subscription(PLATFORM_EMAIL)
    return arn


def _gpu_counts(aws: LocalAws) -> dict[str, int]:
    """GPUs by type, as EC2 tells them; none for what has no NVIDIA GPU."""
    types = sorted({machine.type for machine in cast(datetime.now(timezone.utc))})
    described = aws.client("ec2").describe_instance_types(InstanceTypes=types)["InstanceTypes"]
    return {
        one["InstanceType"]: sum(
            gpu.get("LogicalGpuCount") or gpu["Count"] for gpu in one.get("GpuInfo", {}).get("Gpus", [])
        )
        for one in described
    }


def _launch(aws: LocalAws, machine: Machine, now: datetime) -> str:
    fields = {"launch_time": now - machine.launched, **machine.fields}
    return aws.run_instance(machine.type, machine.all_tags, machine.region, **fields)


def _launch_cpu(aws: LocalAws, machine: CpuMachine, now: datetime) -> str:
    owner = {"Owner": OWNERS[machine.team]} if machine.team in OWNERS else {}
    tags = {"Name": machine.name, "Team": machine.team, **owner}
    if machine.stopped is None:
        return aws.run_instance(machine.type, tags, machine.region)
    reason = f"User initiated ({now - machine.stopped:%Y-%m-%d %H:%M:%S} GMT)"
    return aws.run_instance(machine.type, tags, machine.region, state="stopped", state_transition_reason=reason)


def report_metrics(
    aws: LocalAws,
    region: str,
    machines: dict[str, Machine],
    gpu_counts: dict[str, int],
    now: datetime,
    periods: int = _PERIODS,
) -> None:
    """What EC2 and the CloudWatch agents would have sent, in few large calls: seeding must not outlast the runs."""
    data: dict[str, list[dict[str, Any]]] = defaultdict(list)
    period_seconds = _PERIOD.total_seconds()
    this_period = datetime.fromtimestamp(now.timestamp() // period_seconds * period_seconds, timezone.utc)
    for instance_id, machine in machines.items():
        does = _ACTIVITY[machine.does]
        for back in range(1, periods + 1):
            at = this_period - back * _PERIOD
            if at < now - machine.launched:
                continue
            data["AWS/EC2"].append(_datum("CPUUtilization", does["cpu"], at, instance_id))
            for direction in ("NetworkIn", "NetworkOut"):
                data["AWS/EC2"].append(_datum(direction, does["bytes"], at, instance_id))
            if machine.does == "silent":
                continue
            for index in range(gpu_counts[machine.type]):
                data["CWAgent"].append(_datum("nvidia_smi_utilization_gpu", does["gpu"], at, instance_id, index))
                data["CWAgent"].append(_datum("nvidia_smi_memory_used", does["memory_mib"], at, instance_id, index))
    client = aws.client("cloudwatch", region)
    for namespace, all_data in data.items():
        for first in range(0, len(all_data), 1000):
            client.put_metric_data(Namespace=namespace, MetricData=all_data[first : first + 1000])


def _datum(metric: str, value: float, at: datetime, instance_id: str, index: int | None = None) -> dict[str, Any]:
    dimensions = [{"Name": "InstanceId", "Value": instance_id}]
    if index is not None:
        dimensions.append({"Name": "index", "Value": str(index)})
    return {"MetricName": metric, "Dimensions": dimensions, "Value": value, "Timestamp": at}
