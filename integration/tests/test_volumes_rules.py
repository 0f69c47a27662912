"""Each action on volumes, from the first sight of an orphan to the deletion of its snapshot. Which rule decides when is tested by
shared/execution/tests/lives/volumes/, and every reason to skip one by test_every_fault.py."""

from __future__ import annotations

from command import curfew
from earlier_runs import snapshot_description
from local_aws.client import REGION
from reaping import EUROPE, TAGGED, Run, ago, moment, now, rfc3339
from reaping_volumes import VolumeAccount

IDLE = "fs-00000001"  # a file system


def paragraph(run: Run, resource_id: str, team: str = "vision") -> str:
    [found] = [one for one in run.message(team).split("\n\n") if one.startswith(f"{resource_id} (")]
    return found


def test_seen_announced_snapshotted_and_deleted(storage: VolumeAccount) -> None:
    """In two regions at once. Whose it is, is known from the instance that it was last attached to."""
    storage.configure(volumes={"keep_snapshots": "30d"})
    far = storage.orphan(region=EUROPE, size=500, tags={"Name": "data"})
    volume = storage.untagged_volume()
    host = storage.attach(volume, storage.host(tags=TAGGED))
    storage.attached(storage.host(), multi_attach_enabled=True)
    regions = {volume: REGION, far: EUROPE}

    run = storage.tick()
    assert run.skipped == {"attached": 2} and run.severities() == {"vision": "warning"}
    evidence = run.step(far)["evidence"]
    assert evidence.keys() == {"rule", "unattached_since", "size_gib", "volume_type", "usd_per_month", "deadline"}
    assert (evidence["size_gib"], evidence["volume_type"]) == (500, "gp3")
    assert evidence["unattached_since"] == storage.aws.tags(far, EUROPE)["curfew:unattached-since"]
    assert storage.mark(far, EUROPE) == f"orphaned=snapshot-and-delete@{evidence['deadline']}"
    announced = f"It will be snapshotted and deleted at {evidence['deadline']}"
    for part in ('500 GiB gp3 "data", owner "ada", eu-central-1', evidence["unattached_since"], announced, f"curfew keep {far} 7d"):
        assert part in paragraph(run, far), part

    storage.aws.client("ec2").terminate_instances(InstanceIds=[host])
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done") and not any(volume in one["message"] for one in run.messages)
    since = storage.aws.tags(volume)["curfew:unattached-since"]
    assert storage.mark(volume) is None and abs((now() - moment(since)).total_seconds()) < 60
    assert run.said(far) == ("snapshot", "orphaned", "done") and ("CreateSnapshot", far) in run.ec2_writes
    restore = f"{EUROPE}a,gp3,500,3000,125"
    expected = {**TAGGED, "Name": "data", "curfew:snapshot-of": far, "curfew:restore": restore}
    assert storage.aws.tags(storage.snapshot(far, EUROPE), EUROPE) == expected

    storage.remember(volume, since=rfc3339(ago(days=20)))
    run = storage.tick()
    assert run.said(far) == ("delete", "orphaned", "done") and not storage.exists(far, EUROPE)
    assert run.said(volume) == ("mark", "orphaned", "done") and run.step(volume)["team"] == "vision"
    assert run.step(volume)["evidence"]["last_attached_to"] == host and host in paragraph(run, volume)
    said, snapshot = paragraph(run, far), storage.snapshot(far, EUROPE)
    assert "It was deleted" in said and f"--snapshot-id {snapshot}" in said
    until = moment(said.partition("Undo until ")[2].partition(": ")[0])
    deleted_at = moment(storage.aws.tags(snapshot, EUROPE)["curfew:deleted-at"])
    assert (until - deleted_at).days == 30 and abs((now() - deleted_at).total_seconds()) < 60

    for action in ("snapshot", "delete"):
        run = storage.tick()
        assert (run.said(volume), run.step(volume)["team"]) == ((action, "orphaned", "done"), "vision")
    after = storage.tick()
    assert (after.messages, after.ec2_writes) == ([], [])
    assert (after.steps, after.skipped) == ([], {"restorable": 2, "attached": 1})
    for gone, region in regions.items():
        storage.expire(storage.snapshot(gone, region), region)
    run = storage.tick()
    for gone, region in regions.items():
        [snapshot] = [step["resource"] for step in run.steps if step["region"] == region]
        assert run.said(snapshot) == ("delete", "expired", "done") and run.step(snapshot)["team"] == "vision"
        assert not storage.snapshots(gone, region)


def test_deleted_without_a_snapshot_where_the_account_says_so(storage: VolumeAccount) -> None:
    storage.configure(volumes={"action": "delete"})
    volume = storage.orphan()
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done") and run.ec2_writes == [("CreateTags", volume)]
    assert storage.mark(volume) == f"orphaned=delete@{run.step(volume)['evidence']['deadline']}"
    first_line = run.message().splitlines()[0]
    assert first_line.startswith("Will lose: ") and "without a snapshot" in first_line and volume in first_line
    run = storage.tick()
    assert run.said(volume) == ("delete", "orphaned", "done") and run.ec2_writes == [("DeleteVolume", volume)]
    assert storage.snapshots(volume) == [] and "aws ec2 create-volume" not in run.message()


def test_snapshots_of_others_are_not_touched(storage: VolumeAccount) -> None:
    """Labels and a description that somebody forged, a copy, and another account's."""
    ec2 = storage.aws.client("ec2")
    gone = storage.volume()
    labels = {"curfew:snapshot-of": gone, "curfew:deleted-at": "2020-01-01T00:00:00Z", "curfew:mode": "enforce"}
    described = {"Description": snapshot_description(gone)}
    plain, forged = (ec2.create_snapshot(VolumeId=gone, **how)["SnapshotId"] for how in ({}, described))
    for snapshot in (plain, forged):
        storage.aws.tag(snapshot, labels)
    own = storage.snapshot_of(gone, deleted_at=ago(days=1))
    copied = ec2.copy_snapshot(SourceRegion=REGION, SourceSnapshotId=own, **described)["SnapshotId"]
    storage.aws.tag(copied, labels)
    foreign = storage.snapshot_of(gone, deleted_at=ago(days=400), owner_id="999999999999")
    storage.aws.delete(gone)
    run = storage.tick()
    assert run.ec2_writes == [] and run.steps == []
    assert all(storage.snapshot_exists(one) for one in (plain, forged, copied, foreign))


def test_an_idle_file_system_is_notified_of_once(storage: VolumeAccount) -> None:
    """Others: read an hour ago, one that reports too seldom, one of yesterday, and one for Windows."""
    owned = {"Tags": [{"Key": "Team", "Value": "vision"}], "CreationTime": ago(days=30).timestamp()}
    hours = 24 * 15
    for name, read, reports in ((IDLE, [0.0], hours), ("fs-00000002", [4096.0], hours), ("fs-00000003", [0.0], 24)):
        storage.aws.put_file_system(name, **owned)
        for metric in ("DataReadBytes", "DataWriteBytes", "MetadataOperations"):
            values = [0.0] * (reports - 3) + read * 3
            storage.aws.put_metrics("AWS/FSx", metric, {"FileSystemId": name}, values, ago(hours=reports), 3600)
    storage.aws.put_file_system("fs-00000004", **{**owned, "CreationTime": ago(days=1).timestamp()})
    storage.aws.put_file_system("fs-00000005", **owned, FileSystemType="WINDOWS")
    run = storage.tick()
    assert run.gaps == [] and run.skipped == {"notified": 1, "busy": 1, "usage-unknown": 1, "young": 1}, run.response
    said = paragraph(run, IDLE)
    assert "1200 GiB FSx for Lustre" in said and "$174.00 a month" in said and "aws fsx delete-file-system" in said, said
    assert not any(f"fs-0000000{number}" in run.message() for number in (2, 3, 4, 5))
    again = storage.tick()
    assert not again.messages and again.skipped == run.skipped

    found = curfew(storage.environment(), "scan", "--json").json()["findings"]
    assert [(one["resource"], one["kinds"], one["usd_per_month"]) for one in found] == [(IDLE, ["idle-file-system"], 174.0)]
    storage.configure(file_systems={"idle_after": "0s"})
    assert "fsx:DescribeFileSystems" not in storage.tick().counts


def test_file_systems_that_may_not_be_listed_are_a_gap_and_are_remembered(storage: VolumeAccount) -> None:
    storage.aws.put_file_system(IDLE, CreationTime=ago(days=30).timestamp(), Tags=[{"Key": "Team", "Value": "vision"}])
    for metric in ("DataReadBytes", "DataWriteBytes", "MetadataOperations"):
        storage.aws.put_metrics("AWS/FSx", metric, {"FileSystemId": IDLE}, [0.0] * 24 * 15, ago(days=15), 3600)
    assert IDLE in storage.tick().message()
    storage.aws.fault("fsx:DescribeFileSystems", "access_denied", times=2)
    assert {gap["call"] for gap in storage.tick().gaps} == {"fsx:DescribeFileSystems"}
    assert IDLE not in "".join(message["message"] for message in storage.tick().messages)
