"""What is measured, three functions and `curfew scan`: what each must answer of its account, in how many calls, and within which limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

from .endpoints import PAGE as ENDPOINTS_PAGE
from .endpoints import UNUSED_EVERY, is_unused
from .fleet import AT_HOME_PERCENT, COMPUTES, IDLES, REGIONS, SHARES, TYPES, WORKS, fleet
from .storage import ATTACHED, BARE_EVERY, ORPHANED, STOPPED_EVERY, VOLUMES_AN_INSTANCE, YOUNG, storage
from .storage import SHARES as VOLUME_SHARES

STEPS_ANSWERED_MAX = 1000  # of a response; the audit record has all
_PAGE = 1000  # EC2 API reference, DescribeVolumes, DescribeInstances, DescribeSnapshots
_FILTER_VALUES = 200  # EC2 user guide, "Filter resources"
_METRICS_A_CALL = 500  # CloudWatch API reference, GetMetricData
_ENDPOINT_METRICS_A_CALL = 347  # a window of 24 hours has 290 periods with what comes after it, and a page 100,800 samples
_MESSAGE_BYTES = 192 * 1024  # of paragraphs; SNS takes 256 KB with all around them (SNS developer guide, "Quotas")


@dataclass(frozen=True)
class Judged:
    """What the answer of a right run says."""

    seen: int
    skipped: dict[str, int]
    steps: dict[tuple[str, str, str], int]  # by action, rule and outcome
    metrics_asked_max: int | None = None


@dataclass(frozen=True)
class Limits:
    """Targets of a run at one size; None is none."""

    peak_mib_below: int | None = None
    cpu_seconds_max: float | None = None


@dataclass(frozen=True)
class Subject:
    function: str
    noun: str
    limits: dict[int, Limits]
    kinds: dict[str, str]  # of runs, by their title
    described: Callable[[float], str]  # by the KiB that one of them has of XML
    judged: Callable[[int, bool], Judged] | None = None  # of a function: by the count, and whether it is the first run
    # The fewest calls that a run can be made in, given the metrics that it asked for and the bytes that it sent to each
    # team; None is not known.
    fewest: Callable[[int, bool, int, dict[str, int]], Counter] | None = None


def _instances_judged(count: int, is_first: bool) -> Judged:
    """Idle instances are notified in the first run, and not again in the second."""
    usages = Counter(machine.usage for machine in fleet(count))
    skipped = {"busy": usages[WORKS] + usages[COMPUTES], "notified": 0 if is_first else usages[IDLES]}
    return Judged(count, skipped, {("notify", "idle", "done"): usages[IDLES] if is_first else 0})


def _instances_described(kib: float) -> str:
    gpus = sum(one.gpus * percent for one, percent in TYPES.items()) / 100
    works, computes, idles = (f"{SHARES[usage]} %" for usage in (WORKS, COMPUTES, IDLES))
    return (
        f"One region, {gpus:.1f} GPUs an instance ({len(TYPES)} types of 1, 4 and 8), {kib:.1f} KiB of XML each. "
        f"{works} work by their CPU, {computes} by their GPUs only, {idles} are idle, and Curfew only notifies their owners: "
        "nothing is written to EC2."
    )


def _volumes_judged(count: int, is_first: bool) -> Judged:
    """Orphaned volumes are notified in the first run, and not again in the second, which queries one in 24: each has
    its hour of the day."""
    seen = storage(count)
    usages = Counter(volume.usage for volume in seen.volumes)
    told = 0 if is_first else usages[ORPHANED]
    skipped = {"attached": usages[ATTACHED], "young": usages[YOUNG], "notified": told, "restorable": len(seen.own)}
    asked_max = usages[ORPHANED] if is_first else max(10, usages[ORPHANED] // 12)
    return Judged(count, skipped, {("notify", "orphaned", "done"): usages[ORPHANED] if is_first else 0}, asked_max)


def _volumes_fewest(count: int, is_first: bool, metrics_asked: int, published: dict[str, int]) -> Counter:
    seen = storage(count)
    sources = {volume.source for volume in seen.volumes if volume.source and volume.usage != ATTACHED}
    calls = {
        "ec2:DescribeVolumes": ceil(count / _PAGE),
        "ec2:DescribeInstances": ceil(len(seen.machines) / _PAGE),
        "ec2:DescribeSnapshots": max(1, ceil(len(seen.own) / _PAGE)) + ceil(len(sources) / _FILTER_VALUES),
        "ec2:DescribeCapacityReservations": 1,
        "fsx:DescribeFileSystems": 1,
        "cloudwatch:GetMetricData": ceil(metrics_asked / _METRICS_A_CALL),
        "s3:GetObject": 3,  # the configuration, prices, and the notification log
        "s3:PutObject": 2 if is_first else 1,  # the audit record, and the notification log
        "sns:ListSubscriptionsByTopic": 1,
        "sns:GetSubscriptionAttributes": 1,
        "sns:Publish": sum(ceil(told / _MESSAGE_BYTES) for told in published.values()),
    }
    return Counter({call: number for call, number in calls.items() if number})


def _volumes_described(kib: float) -> str:
    attached, young, orphaned = (f"{VOLUME_SHARES[usage]} %" for usage in (ATTACHED, YOUNG, ORPHANED))
    return (
        f"One region, {kib:.1f} KiB of XML a volume. {attached} are attached, {VOLUMES_AN_INSTANCE} to an instance, of "
        f"which every {STOPPED_EVERY}th is stopped; {young} are unattached for less than `orphaned_after`; {orphaned} "
        f"are orphaned, and Curfew only notifies their owners: nothing is written to EC2. Every {BARE_EVERY}th volume has no "
        "tags of its own."
    )


def _endpoints_judged(count: int, is_first: bool) -> Judged:
    """Owners of unused endpoints are notified in the first run, and not again in the second, which asks as much."""
    unused = sum(map(is_unused, range(count)))
    skipped = {"busy": count - unused, "notified": 0 if is_first else unused}
    return Judged(count, skipped, {("notify", "idle", "done"): unused if is_first else 0}, count + 2 * unused)


def _endpoints_fewest(count: int, is_first: bool, metrics_asked: int, published: dict[str, int]) -> Counter:
    pages = ceil(count / ENDPOINTS_PAGE)
    calls = {
        "sagemaker:ListEndpoints": pages,
        "tag:GetResources": pages,
        "sagemaker:DescribeEndpoint": count,
        "sagemaker:DescribeEndpointConfig": count,
        "the other lists": 6,
        "application-autoscaling:DescribeScalableTargets": 1,
        "ec2:DescribeInstanceTypes": 1,
        "cloudwatch:GetMetricData": sum(ceil(asked / _ENDPOINT_METRICS_A_CALL) for asked in (count, metrics_asked - count)),
        "s3:GetObject": 3,  # the configuration, prices, and the notification log
        "s3:PutObject": 2 if is_first else 1,  # the audit record, and the notification log
        "sns:ListSubscriptionsByTopic": 1,
        "sns:GetSubscriptionAttributes": 1,
        "sns:Publish": sum(ceil(told / _MESSAGE_BYTES) for told in published.values()),
    }
    return Counter(calls)


def _endpoints_described(kib: float) -> str:
    return (
        f"One region, {kib:.1f} KiB of JSON an endpoint. Nobody asks every {UNUSED_EVERY}th, and Curfew only notifies its owner: nothing is "
        "written to SageMaker."
    )


def scanned(count: int) -> dict[str, Any]:
    """What a right scan says."""
    unattached = sum(volume.usage != ATTACHED for volume in storage(count).volumes)
    idle = sum(machine.usage == IDLES for machine in fleet(count))
    return {
        "exit code": 1,  # it found something
        "regions": sorted(REGIONS),
        "seen": {"instances": count, "volumes": unattached, "unjudged": 0},
        "findings": {"idle": idle, "orphaned": unattached},
        "gaps": [],
    }


def _scan_described(_: float) -> str:
    return (
        f"The instances and, of as many volumes, those attached to nothing lie in {len(REGIONS)} regions, {AT_HOME_PERCENT} % in the "
        "first. Nothing is deployed."
    )


INSTANCES = Subject(
    "reap-instances",
    "instance",
    {10_000: Limits(peak_mib_below=64, cpu_seconds_max=0.8)},
    {
        "The first run: nothing is known, everybody is asked about": "first run",
        "The second run: what is known is not asked again": "second run",
    },
    _instances_described,
    _instances_judged,
)
VOLUMES = Subject(
    "reap-volumes",
    "volume",
    {50_000: Limits(peak_mib_below=128)},
    {
        "The first run: the orphaned ones are asked about and told": "first run",
        "The second run: an hour later, nothing is new": "second run",
    },
    _volumes_described,
    _volumes_judged,
    _volumes_fewest,
)
ENDPOINTS = Subject(
    "reap-sagemaker",
    "endpoint",
    {1_000: Limits(peak_mib_below=64, cpu_seconds_max=1.0)},
    {
        "The first run: the unused ones are told": "first run",
        "The second run: an hour later, nothing is new": "second run",
    },
    _endpoints_described,
    _endpoints_judged,
    _endpoints_fewest,
)
SCAN = Subject("scan", "instance", {10_000: Limits(peak_mib_below=128)}, {"A scan": "scan"}, _scan_described)
SUBJECTS = {one.function: one for one in (INSTANCES, VOLUMES, ENDPOINTS, SCAN)}
