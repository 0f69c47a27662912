"""The benchmark measures what it says: small fleets, the debug binary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

import boto3
import botocore.session
import pytest
import yaml
from botocore.config import Config
from botocore.exceptions import ClientError

from bench import ebs_xml, ec2_xml, measure, peer, report
from bench.fleet import COMPUTES, IDLES, REGION, WORKS, fleet
from bench.measure import Runs, Spread, Usage
from bench.served import Served, serving
from bench.storage import storage
from bench.subjects import INSTANCES, SUBJECTS, VOLUMES, Subject
from bench.xml_pages import PAGE_SIZE_MAX, listing
from reaping import BINARY, REPOSITORY, ago, now

SMALL = 60
_NAMESPACE = "{http://ec2.amazonaws.com/doc/2016-11-15/}"


@pytest.fixture(scope="module")
def small() -> Iterator[Served]:
    with serving(INSTANCES.function, SMALL) as served:
        yield served


def client(served: Served, service: str) -> Any:
    config = Config(retries={"total_max_attempts": 1})
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    return boto3.client(service, region_name=REGION, endpoint_url=served.address, config=config, **keys)


def usage(
    cpu_seconds: float = 0.5, peak_mib: float = 40, wrong: tuple[str, ...] = (), fewest: int | None = None
) -> Usage:
    return Usage(cpu_seconds, 1.0, peak_mib, {"ec2:DescribeInstances": 105}, 0, wrong, fewest)


def missed(first: list[Runs], poll_seconds: float = 0.004, subject: Subject = INSTANCES) -> list[str]:
    found = report.verdicts(subject, first, [], Spread((poll_seconds,)))
    assert found, "nothing was judged"
    return [one.target for one in found if not one.is_met]


def test_the_reaper_sees_the_fleet_for_what_it_is(small: Served) -> None:
    """Every instance is seen and judged as it was made, in the calls that this takes and no others."""
    first, second = measure.first_and_second_run(small, BINARY)
    assert first.wrong == () and second.wrong == ()
    every_run = {
        "ec2:DescribeInstances": 1,
        "ec2:DescribeInstanceTypes": 1,
        "s3:GetObject": 4,
        "s3:PutObject": 1,
        "sns:ListSubscriptionsByTopic": 1,
    }
    asking = {"cloudwatch:GetMetricData": 2, "cloudwatch:ListMetrics": 1, "s3:PutObject": 3, "sns:Publish": 3}
    assert first.calls == {**every_run, **asking}
    assert second.calls == every_run
    assert first.metrics_asked > SMALL and second.metrics_asked == 0
    for one in (first, second):
        assert 0 < one.cpu_seconds < 60 and 0 < one.wall_seconds < 60 and 1 < one.peak_mib < 1000


def test_an_answer_that_differs_is_no_measurement(small: Served) -> None:
    """The account of one fleet, compared with another."""
    other = replace(small, count=SMALL + 20)
    first, _ = measure.first_and_second_run(other, BINARY)
    assert any(f"seen {SMALL}, not {SMALL + 20}" in wrong for wrong in first.wrong)


def test_what_is_not_prepared_is_refused_and_noticed(small: Served) -> None:
    small.forget()
    with pytest.raises(ClientError):
        client(small, "ec2").describe_volumes()
    assert "ec2:DescribeVolumes" in small.told()["refused"][0]
    assert small.told()["calls"] == {"ec2:DescribeVolumes": 1}
    small.forget()
    assert small.told()["calls"] == {} and small.told()["refused"] == []


def test_pages_bring_each_instance_once() -> None:
    count = PAGE_SIZE_MAX + 1
    machines = {machine.id: machine for machine in fleet(count)}
    with serving(INSTANCES.function, count) as served:
        pages = list(client(served, "ec2").get_paginator("describe_instances").paginate(MaxResults=PAGE_SIZE_MAX))
    assert [len(page["Reservations"]) for page in pages] == [PAGE_SIZE_MAX, 1]
    seen = [one for page in pages for reservation in page["Reservations"] for one in reservation["Instances"]]
    assert sorted(one["InstanceId"] for one in seen) == sorted(machines)
    for one in seen:
        machine = machines[one["InstanceId"]]
        assert one["InstanceType"] == machine.type.name and one["PrivateDnsName"] == machine.host
        assert abs(one["LaunchTime"] - machine.launched) < timedelta(minutes=1)  # both count from their own now
        assert one["State"] == {"Code": 16, "Name": "running"}
        assert len(one["Tags"]) == 8 and {"Key": "Team", "Value": machine.team} in one["Tags"]
        assert len(one["NetworkInterfaces"]) == machine.type.interfaces and len(one["BlockDeviceMappings"]) == 2


@pytest.mark.parametrize(
    ("operation", "page"),
    [
        ("DescribeInstances", ec2_xml.instances([*fleet(20), *storage(20).machines], "page-1")),
        ("DescribeVolumes", listing("DescribeVolumes", "volumeSet", map(ebs_xml.volume, storage(40).volumes), "next")),
        ("DescribeSnapshots", listing("DescribeSnapshots", "snapshotSet", map(ebs_xml.snapshot, storage(40).own))),
        ("DescribeInstanceTypes", ec2_xml.instance_types()),
        ("DescribeRegions", ec2_xml.regions([REGION])),
    ],
)
def test_pages_have_no_element_that_ec2_does_not_send(operation: str, page: bytes) -> None:
    """By AWS's model of its answers, which calls each element by its name on the wire."""

    def check(element: ElementTree.Element, shape: Any) -> None:
        if shape.type_name == "list":
            assert {child.tag for child in element} <= {f"{_NAMESPACE}item"}
            for child in element:
                check(child, shape.member)
        elif shape.type_name == "structure":
            known = {member.serialization.get("name", name): member for name, member in shape.members.items()}
            for child in element:
                check(child, known[child.tag.removeprefix(_NAMESPACE)])
        else:
            assert len(element) == 0

    model = botocore.session.get_session().get_service_model("ec2")
    answer = ElementTree.fromstring(page)
    assert answer[0].tag == f"{_NAMESPACE}requestId"
    answer.remove(answer[0])
    check(answer, model.operation_model(operation).output_shape)


def test_a_fleet_is_the_same_every_time_and_has_its_shares() -> None:
    machines = fleet(1000)
    assert Counter(one.usage for one in machines) == {WORKS: 750, COMPUTES: 150, IDLES: 100}
    assert [(one.id, one.type, one.usage) for one in machines] == [(one.id, one.type, one.usage) for one in fleet(1000)]
    assert len({one.id for one in machines}) == len({one.host for one in machines}) == 1000
    assert sum(one.type.gpus for one in machines) == 2800


def test_the_peers_policy_finds_the_idle_ones(small: Served) -> None:
    """Each metrics filter of the policy, asked as Cloud Custodian asks, says of each kind of machine what it should."""
    policy = yaml.safe_load(peer.POLICY.read_text())["policies"][0]
    filters = [one for one in policy["filters"] if one.get("type") == "metrics"]
    cloudwatch = client(small, "cloudwatch")

    def passes(machine_id: str, one: dict[str, Any]) -> bool:
        answer = cloudwatch.get_metric_statistics(
            Namespace=one.get("namespace", "AWS/EC2"),
            MetricName=one["name"],
            Dimensions=[{"Name": "InstanceId", "Value": machine_id}],
            Statistics=[one["statistics"]],
            StartTime=ago(hours=1),
            EndTime=now(),
            Period=3600,
        )
        return answer["Datapoints"][0][one["statistics"]] < one["value"]

    by_usage = {machine.usage: machine.id for machine in fleet(SMALL)}
    dropped = {
        usage: next((one["name"] for one in filters if not passes(machine_id, one)), None)
        for usage, machine_id in by_usage.items()
    }
    assert dropped == {WORKS: "CPUUtilization", COMPUTES: "nvidia_smi_utilization_gpu", IDLES: None}


def test_a_process_is_measured_to_its_first_poll() -> None:
    wall, cpu = measure.starts(BINARY, 2)
    assert len(wall.values) == 2
    assert all(0 < one < 10 for one in wall.values) and all(0 < one < 10 for one in cpu.values)


def test_targets_that_are_met() -> None:
    assert missed([Runs(1000, (usage(0.06),)), Runs(10_000, (usage(0.6),))]) == []


@pytest.mark.parametrize(
    ("runs", "target"),
    [
        (Runs(10_000, (usage(0.81),)), "CPU at most 0.8 s"),
        (Runs(10_000, (usage(peak_mib=40), usage(peak_mib=64.0))), "peak memory below 64 MiB"),
        (Runs(10_000, (usage(), usage(wrong=("seen 9, not 10",)))), "every instance judged right"),
        (Runs(10_000, (usage(fewest=99),)), "at most 5% more calls than the fewest possible"),
    ],
)
def test_targets_that_are_missed(runs: Runs, target: str) -> None:
    assert [one.partition(": ")[2] for one in missed([runs])] == [target]


def test_each_function_has_its_own_targets() -> None:
    runs = [Runs(10_000, (usage(9.0, peak_mib=70, fewest=100),)), Runs(50_000, (usage(45.0, peak_mib=128.0),))]
    assert missed(runs, subject=VOLUMES) == ["first run at 50,000: peak memory below 128 MiB"]


def test_growth_that_is_not_linear_is_missed() -> None:
    runs = [Runs(1000, (usage(0.05),)), Runs(10_000, (usage(0.7),))]
    assert missed(runs) == ["first run, 1,000 to 10,000: CPU per instance at most x 1.25"]


def test_a_run_that_judges_wrong_proves_no_growth() -> None:
    runs = [Runs(1000, (usage(0.05),)), Runs(50_000, (usage(1.0, wrong=("gaps",)),))]
    assert missed(runs) == [
        "first run at 50,000: every instance judged right",
        "first run, 1,000 to 50,000: CPU per instance at most x 1.25",
    ]


def test_a_late_first_poll_is_missed() -> None:
    assert missed([], poll_seconds=0.0051) == ["start to first poll: 5 ms by the median"]


def test_a_spread_says_its_ends() -> None:
    assert f"{Spread((0.3, 0.1, 0.2)):.1f}" == "0.2 (0.1–0.3)"
    assert f"{Spread((0.2, 0.2)):.1f}" == "0.2"


def test_figures_are_recorded_in_their_own_place() -> None:
    page = (REPOSITORY / "docs" / "measurements.md").read_text()
    for subject in SUBJECTS:
        place = f"make bench: {subject}"
        before, after = page.partition(f"<!-- {place} -->")[0], page.partition(f"<!-- end of {place} -->")[2]
        once = report.recorded(page, place, "one figure\n")
        assert once == f"{before}<!-- {place} -->\n\none figure\n\n<!-- end of {place} -->{after}"
        assert report.recorded(once, place, "one figure\n") == once
    with pytest.raises(ValueError, match="no place for the figures of make tea"):
        report.recorded(page, "make tea", "")


@pytest.mark.parametrize(("theirs", "is_met"), [(15.1, True), (14.9, False)])
def test_the_peer_is_compared_with_a_first_run(theirs: float, is_met: bool) -> None:
    runs = [Runs(10_000, (usage(cpu_seconds),)) for cpu_seconds in (0.5, 0.1, theirs)]
    found = peer.verdicts([peer.Compared(*runs)])
    assert [one.is_met for one in found] == [is_met, True]
