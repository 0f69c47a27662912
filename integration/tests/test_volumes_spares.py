"""Every way for a volume to be spared: nothing is written on EC2, and who should hear of it hears of it once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from local_aws.client import REGION
from reaping import BUCKET, EUROPE, KEPT, NO_LONGER_KEPT, Run, ago, now, rfc3339
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
        assert (run.steps, run.spared, run.ec2_writes) == ([], expected, [])
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


@pytest.mark.parametrize("until", KEPT)
def test_kept(storage: VolumeAccount, until: str) -> None:
    volume = doomed(storage, tags={"curfew:keep-until": KEPT[until]()})
    assert assert_spared(storage, [volume], "kept").messages == []


@pytest.mark.parametrize("until", NO_LONGER_KEPT)
def test_kept_no_longer_it_is_announced_anew(storage: VolumeAccount, until: str) -> None:
    storage.configure(volumes={"grace": "3d"})
    volume = doomed(storage, tags={"curfew:keep-until": NO_LONGER_KEPT[until]()})
    storage.announce(volume, at=ago(days=3))
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done")
    assert storage.tick().spared == {"marked": 1, "volume-exists": 1}


UNREADABLE = [
    ("curfew:mode", "Enforce"),
    ("curfew:keep-until", "forever"),
    ("curfew:unattached-since", "yesterday"),
    ("curfew:marked", "delete it"),
    ("curfew:idle-after", "soon"),
    ("Curfew:Protected", ""),
    ("curfew:protectd", ""),
    ("CURFEW:MODE", "enforce"),
    ("curfew", "please"),
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
    assert (run.steps, run.spared) == ([], {"attached": len(volumes)}) and run.is_quiet
    assert run.response["seen"] == len(volumes)


@pytest.mark.parametrize("state", ["attaching", "detaching", "busy"])
def test_not_quite_attached_is_attached(storage: VolumeAccount, state: str) -> None:
    volume = storage.attached()
    storage.aws.set_volume(volume, attachment_state=state)
    run = storage.tick()
    assert run.spared == {"attached": 1} and run.is_quiet


def test_attached_to_something_of_awss_own(storage: VolumeAccount) -> None:
    storage.volume(
        associated_resource="arn:aws:lambda:us-east-1:123456789012:instance/1", unattached_since=ago(days=20)
    )
    storage.volume(associated_resource="arn:aws:lambda:us-east-1:123456789012:instance/2")
    runs = [storage.tick() for _ in range(2)]
    assert runs[1].spared == {"attached": 2} and runs[1].is_quiet
    assert not any(step["action"] != "unmark" for step in runs[0].steps)


@pytest.mark.parametrize("state", ["creating", "error", "deleting"])
def test_in_another_state(storage: VolumeAccount, state: str) -> None:
    volume = doomed(storage)
    storage.aws.set_volume(volume, state=state)
    assert_spared(storage, [volume], "not-available")


def test_in_use_by_nothing_that_ec2_names(storage: VolumeAccount) -> None:
    """Then it is in use all the same, and what was announced is called off."""
    volume = doomed(storage)
    storage.aws.set_volume(volume, state="in-use")
    assert storage.tick().said(volume) == ("unmark", "orphaned", "done")
    assert storage.tick().spared == {"attached": 1, "volume-exists": 1}


KUBERNETES = [
    {"kubernetes.io/created-for/pvc/name": "data-0"},
    {"ebs.csi.aws.com/cluster": "true"},
    {"kubernetes.io/cluster/ml": "owned"},
    {"CSIVolumeName": "pvc-1"},
]


@pytest.mark.parametrize("tags", KUBERNETES)
def test_of_kubernetes(storage: VolumeAccount, tags: dict[str, str]) -> None:
    """A StatefulSet scaled to zero leaves its volumes unattached."""
    assert_spared(storage, [doomed(storage, tags=tags)], "kubernetes")


def test_of_a_stack_or_another_owner(storage: VolumeAccount) -> None:
    storage.configure(managed={"tag_keys": ["spacelift"]})
    keys = ["aws:cloudformation:stack-name", "spacelift"]
    assert_spared(storage, [doomed(storage, tags={key: "its-controller"}) for key in keys], "foreign-owned")


def test_managed_by_an_operator(storage: VolumeAccount) -> None:
    assert_spared(storage, [doomed(storage, operator_managed="lambda.amazonaws.com")], "foreign-owned")


def test_multi_attach(storage: VolumeAccount) -> None:
    volume = doomed(storage, volume_type="io2", asked={"Iops": 100}, multi_attach_enabled=True)
    assert_spared(storage, [volume], "multi-attach")


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
    assert run.spared["live-job"] == 1
    assert [gap["call"] for gap in run.gaps] == ["s3:GetObject"]


def test_young(storage: VolumeAccount) -> None:
    storage.volume(unattached_since=ago(days=13))
    run = storage.tick()
    assert run.spared == {"young": 1} and run.is_quiet
    assert run.counts["cloudwatch:GetMetricData"] == 0, "nobody asks before it matters"


def test_first_sights_do_not_hide_a_spare(storage: VolumeAccount) -> None:
    """What is spared is not even written down."""
    volumes = [
        storage.volume(tags={"curfew:protected": ""}),
        storage.volume(tags={"curfew:keep-until": "2099-01-01"}),
        storage.volume(tags={"kubernetes.io/created-for/pvc/name": "data-0"}),
        storage.volume(multi_attach_enabled=True),
        storage.volume(state="error"),
    ]
    run = storage.tick()
    assert run.ec2_writes == [] and run.steps == []
    assert not any("curfew:unattached-since" in storage.aws.tags(volume) for volume in volumes)


def test_too_many_tags_to_be_restored(storage: VolumeAccount) -> None:
    """EC2 takes 50: a snapshot that cannot carry all of them could not bring the volume back as it was."""
    volume = storage.orphan(tags={f"k{number}": "" for number in range(46)})
    run = storage.tick()
    assert run.said(volume) == ("notify", "orphaned", "done")
    assert "tags" in run.message() and run.ec2_writes == []
    assert storage.tick().is_quiet
    fitting = storage.orphan(tags={f"k{number}": "" for number in range(45)})
    for action in ("mark", "snapshot", "delete"):
        assert storage.tick().said(fitting) == (action, "orphaned", "done")
    assert len(storage.aws.tags(storage.snapshot(fitting))) == 50
