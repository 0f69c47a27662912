"""Every way for a volume to be spared: nothing is written on EC2, and who should hear of it hears of it once."""

from __future__ import annotations

from typing import Any

import pytest

from local_aws.client import REGION
from reaping import BUCKET, EUROPE, Run
from reaping_volumes import VolumeAccount


def doomed(storage: VolumeAccount, **volume: Any) -> str:
    """Announced, past its deadline, with its snapshot whole: it is deleted in this run unless something spares it."""
    volume_id = storage.marked(**volume)
    storage.snapshot_of(volume_id, region=volume.get("region", REGION))
    return volume_id


def assert_spared(storage: VolumeAccount, volumes: list[str], reason: str) -> Run:
    """All spared for that reason in two runs, of which the second says nothing. Answers the first."""
    first, second = storage.tick(), storage.tick()
    for run in (first, second):
        expected = {reason: len(volumes), "volume-exists": len(volumes)}
        assert (run.steps, run.skipped, run.ec2_writes) == ([], expected, [])
    assert second.is_quiet
    assert all(storage.exists(volume) and storage.mark(volume) for volume in volumes)
    return first


def test_without_a_spare_it_is_deleted(storage: VolumeAccount) -> None:
    volume = doomed(storage)
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")


@pytest.mark.parametrize("value", ["", "yes", "false"])
def test_protected(storage: VolumeAccount, value: str) -> None:
    run = assert_spared(storage, [doomed(storage, tags={"curfew:protected": value})], "protected")
    assert run.messages == [] and run.counts["cloudwatch:GetMetricData"] == 0


UNREADABLE = [  # all of them are tested in model::vocabulary
    ("curfew:unattached-since", "yesterday"),
    ("curfew:marked", "delete it"),
    ("Curfew:Protected", ""),
]


def test_unreadable(storage: VolumeAccount) -> None:
    volumes = {}
    for key, value in UNREADABLE:
        volume = doomed(storage)
        storage.aws.change(tag={"resource": volume, "region": REGION, "tags": {key: value}})
        volumes[key, value] = volume
    run = assert_spared(storage, list(volumes.values()), "unreadable")
    assert run.severities() == {"vision": "warning"}
    paragraphs = run.message().split("\n\n")
    for (key, value), volume in volumes.items():
        said = [one for one in paragraphs if one.startswith(volume)]
        assert len(said) == 1 and f"{key}={value} cannot be read" in said[0]


def test_attached(storage: VolumeAccount) -> None:
    volumes = [storage.attached(), storage.attached(region=EUROPE), storage.attached(multi_attach_enabled=True)]
    run = storage.tick()
    assert (run.steps, run.skipped) == ([], {"attached": len(volumes)}) and run.is_quiet
    assert run.response["seen"] == len(volumes)


def test_of_a_live_job(storage: VolumeAccount) -> None:
    volume = doomed(storage, tags={"curfew:job": "vision/train-0123abcd", "curfew:attempt": "1"})
    storage.put("active/vision/train-0123abcd", b"")
    assert_spared(storage, [volume], "live-job")
    storage.aws.client("s3").delete_object(Bucket=BUCKET, Key="active/vision/train-0123abcd")
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")


def test_whether_a_job_is_live_cannot_be_read(storage: VolumeAccount) -> None:
    volume = doomed(storage, tags={"curfew:job": "vision/train-0123abcd"})
    storage.aws.fault("s3:GetObject", "access_denied", match="active/", times=None)
    run = storage.tick()
    assert run.ec2_writes == [] and storage.exists(volume)
    assert run.skipped["live-job"] == 1
    assert [gap["call"] for gap in run.gaps] == ["s3:GetObject"]
