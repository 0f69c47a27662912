"""Each action on volumes, from the first sight of an orphan to the deletion of its snapshot. Which rule decides when is tested by
shared/execution/tests/lives/volumes/, and every reason to skip one by test_every_fault.py."""

from __future__ import annotations

from earlier_runs import snapshot_description
from local_aws.client import REGION
from reaping import EUROPE, TAGGED, Run, ago, moment, now, rfc3339
from reaping_volumes import VolumeAccount


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
