"""The account of volumes that the benchmark serves is what it says: small ones, the debug binary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import cbor2
import pytest
from botocore.exceptions import ClientError

from bench import measure
from bench.refused import Refused
from bench.served import Served, serving
from bench.storage import ATTACHED, ORPHANED, YOUNG, Volume, storage
from bench.subjects import VOLUMES
from bench.volume_metrics import VolumeMetrics
from bench.xml_pages import PAGE_SIZE_MAX
from reaping import REPOSITORY, ago, now
from test_bench import client

BINARY = REPOSITORY / "target" / "debug" / VOLUMES.function
COUNT = PAGE_SIZE_MAX + 300
SNAPSHOT_OF = {"Name": "tag-key", "Values": ["curfew:snapshot-of"]}
_CLOSE = timedelta(minutes=1)  # this process and the endpoint count times from their own now


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(VOLUMES.function, COUNT) as served:
        yield served


@pytest.fixture
def ec2(served: Served) -> Any:
    served.forget()
    return client(served, "ec2")


def tags(one: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in one.get("Tags", [])}


def without_times(of: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in of.items() if key not in ("curfew:unattached-since", "curfew:deleted-at")}


def test_an_account_is_the_same_every_time_and_has_its_shares() -> None:
    seen, again = storage(1000), storage.__wrapped__(1000)
    assert Counter(one.usage for one in seen.volumes) == {ATTACHED: 800, YOUNG: 100, ORPHANED: 100}
    assert len({one.id for one in seen.volumes}) == 1000 and len(seen.machines) == 200 and len(seen.own) == 50
    assert [(one.id, one.disk, one.source) for one in seen.volumes] == [
        (one.id, one.disk, one.source) for one in again.volumes
    ]
    assert sum(machine.stopped is not None for machine in seen.machines) == 8
    for one in seen.volumes:
        assert (one.usage == ATTACHED) == (one.attached_to is not None) == (one.since is None)
        assert one.usage == ATTACHED or (one.since < ago(days=14)) == (one.usage == ORPHANED)


def test_pages_bring_each_volume_once(ec2: Any) -> None:
    pages = list(ec2.get_paginator("describe_volumes").paginate(MaxResults=PAGE_SIZE_MAX))
    assert [len(page["Volumes"]) for page in pages] == [PAGE_SIZE_MAX, COUNT - PAGE_SIZE_MAX]
    meant = {volume.id: volume for volume in storage(COUNT).volumes}
    seen = {one["VolumeId"]: one for page in pages for one in page["Volumes"]}
    assert seen.keys() == meant.keys()
    for one in meant.values():
        check_volume(seen[one.id], one)


def check_volume(seen: dict[str, Any], one: Volume) -> None:
    assert seen["State"] == ("in-use" if one.attached_to else "available")
    assert (seen["VolumeType"], seen["Size"]) == (one.disk.type, one.disk.size_gib)
    assert (seen.get("Iops"), seen.get("Throughput")) == (one.disk.iops, one.disk.throughput)
    assert seen["SnapshotId"] == (one.source or "") and seen["AvailabilityZone"] == f"us-east-1{one.zone}"
    assert abs(seen["CreateTime"] - one.created) < _CLOSE
    assert without_times(tags(seen)) == without_times(one.tags) and tags(seen).keys() == one.tags.keys()
    attached = [(at["InstanceId"], at["VolumeId"], at["State"]) for at in seen["Attachments"]]
    assert attached == ([(one.attached_to.id, one.id, "attached")] if one.attached_to else [])
    assert seen["Encrypted"] and not seen["MultiAttachEnabled"] and not seen["Operator"]["Managed"]


def test_instances_have_the_volumes_that_hang_on_them(ec2: Any) -> None:
    pages = ec2.get_paginator("describe_instances").paginate(MaxResults=PAGE_SIZE_MAX)
    reservations = [reservation for page in pages for reservation in page["Reservations"]]
    instances = {one["InstanceId"]: one for reservation in reservations for one in reservation["Instances"]}
    hang = {
        (instance, disk["DeviceName"], disk["Ebs"]["VolumeId"])
        for instance, one in instances.items()
        for disk in one["BlockDeviceMappings"]
    }
    volumes = storage(COUNT).volumes
    assert hang == {(one.attached_to.id, one.device, one.id) for one in volumes if one.attached_to}
    for machine in storage(COUNT).machines:
        one = instances[machine.id]
        if machine.stopped:
            assert one["State"] == {"Code": 80, "Name": "stopped"}
            assert one["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
            stopped = datetime.strptime(one["StateTransitionReason"], "User initiated (%Y-%m-%d %H:%M:%S GMT)")
            assert abs(stopped.replace(tzinfo=timezone.utc) - machine.stopped) < _CLOSE
        else:
            assert one["State"] == {"Code": 16, "Name": "running"} and one["StateTransitionReason"] == ""


def test_volumes_by_their_ids(ec2: Any) -> None:
    wanted = [one.id for one in storage(COUNT).volumes[:3]]
    assert [one["VolumeId"] for one in ec2.describe_volumes(VolumeIds=wanted)["Volumes"]] == wanted


def test_pages_are_as_large_as_one_asks(served: Served, ec2: Any) -> None:
    pages = list(ec2.get_paginator("describe_volumes").paginate(MaxResults=500))
    assert [len(page["Volumes"]) for page in pages] == [500, 500, COUNT - 1000]
    with pytest.raises(ClientError):
        ec2.describe_volumes(MaxResults=1001)
    assert "1001 results" in served.told()["refused"][0]


def test_safety_snapshots_are_found_by_their_tag(ec2: Any) -> None:
    pages = ec2.get_paginator("describe_snapshots").paginate(OwnerIds=["self"], Filters=[SNAPSHOT_OF], MaxResults=1000)
    seen = {one["SnapshotId"]: one for page in pages for one in page["Snapshots"]}
    own = storage(COUNT).own
    assert seen.keys() == {one.id for one in own}
    for one in own:
        snapshot = seen[one.id]
        assert (snapshot["VolumeId"], snapshot["VolumeSize"]) == (one.volume_id, one.size_gib)
        assert snapshot["State"] == "completed" and abs(snapshot["StartTime"] - one.started) < _CLOSE
        assert without_times(tags(snapshot)) == without_times(one.tags) and "curfew:deleted-at" in tags(snapshot)


def test_source_snapshots_are_found_by_their_ids(ec2: Any) -> None:
    wanted = storage(COUNT).sources[:3]
    ids = [one.id for one in wanted]
    by_id = {"Name": "snapshot-id", "Values": [*ids, "snap-0123456789abcdef0"]}
    found = ec2.describe_snapshots(Filters=[by_id])["Snapshots"]
    assert {one["SnapshotId"]: tags(one) for one in found} == {one.id: one.tags for one in wanted}


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"OwnerIds": ["self"]},
        {"Filters": [SNAPSHOT_OF]},
        {"Filters": [{"Name": "snapshot-id", "Values": [f"snap-{number}" for number in range(201)]}]},
    ],
)
def test_snapshots_that_nobody_should_ask_for_are_refused(served: Served, ec2: Any, asked: dict[str, Any]) -> None:
    with pytest.raises(ClientError):
        ec2.describe_snapshots(**asked)
    assert len(served.told()["refused"]) == 1


def queries(ids: list[str], period: int, metric: str = "VolumeIdleTime") -> list[dict[str, Any]]:
    def stat(id: str) -> dict[str, Any]:
        dimensions = [{"Name": "VolumeId", "Value": id}]
        metric_of = {"Namespace": "AWS/EBS", "MetricName": metric, "Dimensions": dimensions}
        return {"Metric": metric_of, "Period": period, "Stat": "SampleCount"}

    return [{"Id": f"q{number}", "MetricStat": stat(id)} for number, id in enumerate(ids)]


def asked(ids: list[str], days: float, period: int, **more: str) -> list[dict[str, Any]]:
    volumes = VolumeMetrics(storage(COUNT).volumes)
    request = {"StartTime": ago(days=days), "EndTime": now(), "MetricDataQueries": queries(ids, period, **more)}
    return cbor2.loads(volumes.get_metric_data(request))["MetricDataResults"]


def test_a_volume_has_samples_for_as_long_as_it_was_attached() -> None:
    attached, orphaned = (
        next(one for one in storage(COUNT).volumes if one.usage == usage) for usage in (ATTACHED, ORPHANED)
    )
    hourly = asked([attached.id, orphaned.id], days=45, period=3600)
    assert [(one["Id"], one["Label"], one["StatusCode"]) for one in hourly] == [
        ("q0", "VolumeIdleTime", "Complete"),
        ("q1", "VolumeIdleTime", "Complete"),
    ]
    assert all(len(one["Timestamps"]) == len(one["Values"]) > 24 for one in hourly)
    newest_first = [[at.timestamp() for at in one["Timestamps"]] for one in hourly]
    assert newest_first[0][0] > ago(hours=2).timestamp()
    assert orphaned.since.timestamp() - 5400 < newest_first[1][0] < orphaned.since.timestamp()
    since = (now() - orphaned.since).total_seconds() / 86_400
    assert asked([orphaned.id], days=since, period=3600)[0]["Timestamps"] == []


@pytest.mark.parametrize(
    ("count", "days", "period", "why"),
    [
        (501, 0.1, 300, "more than a call may ask for"),
        (500, 20, 3600, "more than a call may ask for"),
        (1, 16, 60, "no multiples of 300"),
        (1, 64, 300, "no multiples of 3600"),
    ],
)
def test_more_than_cloudwatch_answers_is_refused(count: int, days: float, period: int, why: str) -> None:
    ids = [one.id for one in storage(COUNT).volumes[:count]]
    with pytest.raises(Refused, match=why):
        asked(ids, days, period)


def test_a_metric_that_says_nothing_of_use_is_refused() -> None:
    with pytest.raises(Refused, match="there is no series"):
        asked([storage(COUNT).volumes[0].id], 1, 300, metric="VolumeReadOps")


def test_the_volume_reaper_sees_its_account_for_what_it_is() -> None:
    """Every volume is seen and judged as it was made, in the fewest calls."""
    with serving(VOLUMES.function, 300) as served:
        first, second = measure.first_and_second_run(served, BINARY)
    assert first.wrong == () and second.wrong == ()
    assert first.metrics_asked == 30 and second.metrics_asked < 10
    for one in (first, second):
        assert sum(one.calls.values()) == one.calls_fewest
        assert 0 < one.cpu_seconds < 60 and 0 < one.wall_seconds < 60 and 1 < one.peak_mib < 1000


def test_the_fewest_calls_follow_from_the_account() -> None:
    told = {"vision": 200 * 1024, "nlp": 10, "speech": 10}
    assert VOLUMES.fewest(50_000, True, 5000, told) == {
        "ec2:DescribeVolumes": 50,
        "ec2:DescribeInstances": 10,
        "ec2:DescribeSnapshots": 3 + 1,
        "cloudwatch:GetMetricData": 10,
        "s3:GetObject": 3,
        "s3:PutObject": 2,
        "sns:ListSubscriptionsByTopic": 1,
        "sns:Publish": 4,
    }
