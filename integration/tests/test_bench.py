"""The benchmarks run and judge: small accounts, the debug binaries."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import botocore.session
import pytest

from bench import ebs_xml, ec2_xml, measure, report
from bench.fleet import REGION, fleet
from bench.served import serving
from bench.storage import storage
from bench.subjects import ENDPOINTS, SCAN, SUBJECTS, Subject
from bench.xml_pages import listing
from command import COMMAND
from reaping import BINARY, REPOSITORY

SMALL = 300
_NAMESPACE = "{http://ec2.amazonaws.com/doc/2016-11-15/}"


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_a_run_judges_its_account_right(subject: Subject) -> None:
    binary = COMMAND if subject is SCAN else BINARY.with_name(subject.function)
    with serving(subject.function, SMALL) as served:
        runs = measure.one_of_each_kind(served, binary)
    assert len(runs) == len(subject.kinds)
    for one in runs:
        assert one.wrong == () and one.calls_fewest in (None, sum(one.calls.values()))
        assert 0 < one.cpu_seconds < 60 and 0 < one.wall_seconds and 1 < one.peak_mib < 1000
    asks_as_much = subject in (SCAN, ENDPOINTS)  # a scan is one run, and endpoints are asked about in each
    assert runs[0].metrics_asked > (0 if asks_as_much else runs[1].metrics_asked)


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


@pytest.mark.parametrize("place", ["make bench: reap-instances", "make bench: reap-volumes", "make bench-scan", "make bench-peer"])
def test_the_page_has_a_place_for_the_figures(place: str) -> None:
    page = (REPOSITORY / "docs" / "measurements.md").read_text()
    assert f"<!-- {place} -->\n\none figure\n\n<!-- end of {place} -->" in report.recorded(page, place, "one figure\n")
