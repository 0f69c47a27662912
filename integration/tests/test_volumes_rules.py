"""From first sight to deletion: written down, announced, snapshotted, deleted once the snapshot is whole, and what prevents it."""

from __future__ import annotations

from datetime import timedelta

from local_aws.client import REGION
from reaping import BUCKET, EUROPE, TAGGED, Run, ago, moment, now, rfc3339
from reaping_volumes import VolumeAccount, soon


def paragraph(run: Run, resource_id: str, team: str = "vision") -> str:
    [found] = [one for one in run.message(team).split("\n\n") if one.startswith(f"{resource_id} (")]
    return found


def assert_announced(storage: VolumeAccount, volume: str, action: str = "snapshot-and-delete") -> Run:
    """Marked exactly so, told, and there still."""
    run = storage.tick()
    deadline = run.step(volume)["evidence"]["deadline"]
    assert run.said(volume) == ("mark", "orphaned", "done")
    assert storage.mark(volume) == f"{volume} orphaned={action}@{deadline}"
    assert deadline in paragraph(run, volume) and run.ec2_writes == [("CreateTags", volume)]
    return run


# The whole way


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
    assert storage.mark(far, EUROPE) == f"{far} orphaned=snapshot-and-delete@{evidence['deadline']}"
    announced = f"It will be snapshotted and deleted at {evidence['deadline']}"
    for part in ('500 GiB gp3 "data", owner ada, eu-central-1', evidence["unattached_since"], announced, f"curfew keep {far} 7d"):
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

    storage.tag(volume, unattached_since=rfc3339(ago(days=20)))
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
    storage.configure(volumes={"keep_snapshots": "0s"})
    run = storage.tick()
    for gone, region in regions.items():
        [snapshot] = [step["resource"] for step in run.steps if step["region"] == region]
        assert run.said(snapshot) == ("delete", "expired", "done") and run.step(snapshot)["team"] == "vision"
        assert not storage.snapshots(gone, region)


def test_a_snapshot_takes_as_many_runs_as_it_takes_and_one_that_fails_deletes_nothing(storage: VolumeAccount) -> None:
    large, unlucky = storage.marked(size=16_384), storage.marked()
    storage.aws.client("ec2").create_snapshot(VolumeId=large)  # somebody's backup, which ends when they want it to end
    storage.aws.hold_snapshots()
    run = storage.tick()
    assert {run.said(volume) for volume in (large, unlucky)} == {("snapshot", "orphaned", "done")}
    run = storage.tick()
    assert (run.steps, run.skipped) == ([], {"snapshot-pending": 2, "volume-exists": 2}) and run.is_quiet
    snapshot = storage.snapshot(unlucky)
    storage.aws.complete_snapshots()
    storage.aws.set_snapshot(snapshot, state="error")
    run = storage.tick()
    assert run.said(large) == ("delete", "orphaned", "done") and storage.exists(unlucky)
    assert snapshot in paragraph(run, unlucky) and {write[1] for write in run.ec2_writes} & {unlucky, snapshot} == set()
    assert storage.tick().is_quiet


def test_what_is_configured_now_counts_and_a_snapshot_that_is_there_already(storage: VolumeAccount) -> None:
    """Where something harsher was announced; and where an earlier run has begun one, whose mark was taken back since."""
    harsher, volume = storage.marked("delete"), storage.orphan()
    snapshot = storage.snapshot_of(volume, started=ago(days=3))
    run = storage.tick()
    assert (run.said(harsher)[0], run.said(volume)[0]) == ("snapshot", "mark")
    run = storage.tick()
    assert {run.said(one) for one in (harsher, volume)} == {("delete", "orphaned", "done")}
    assert storage.snapshots(volume) == [snapshot] and len(storage.snapshots(harsher)) == 1


def test_deleted_without_a_snapshot_where_the_account_says_so(storage: VolumeAccount) -> None:
    storage.configure(volumes={"action": "delete"})
    volume = storage.orphan()
    run = assert_announced(storage, volume, "delete")
    assert run.message().splitlines()[0].startswith(f"Data lost by these actions: {volume}")
    run = storage.tick()
    assert run.said(volume) == ("delete", "orphaned", "done") and run.ec2_writes == [("DeleteVolume", volume)]
    assert storage.snapshots(volume) == [] and "aws ec2 create-volume" not in run.message()


def test_attached_again_both_tags_go(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "3d"})
    volume = storage.orphan(create_time=ago(hours=1), snapshot_id="snap-0123456789abcdef0")
    # Restored from a backup of another volume, with its tags: what was announced for that one binds nobody.
    storage.tag(volume, marked=f"vol-0123456789abcdef0 orphaned=delete@{rfc3339(ago(days=1))}")
    run = assert_announced(storage, volume)
    assert timedelta(days=2, hours=23) < moment(run.step(volume)["evidence"]["deadline"]) - now() <= soon(days=3) - now()
    storage.attach(volume)
    run = storage.tick()
    assert run.said(volume) == ("unmark", "orphaned", "done") and run.ec2_writes == [("DeleteTags", volume)]
    assert storage.aws.tags(volume) == TAGGED and "is called off" in paragraph(run, volume)
    again = storage.tick()
    assert again.is_quiet and again.skipped == {"attached": 1}


def test_used_since_it_was_seen_unattached(storage: VolumeAccount) -> None:
    """EBS reports a volume's idle time only while it hangs on a running instance; after 15 days not by the minute any more."""
    volume, due = storage.orphan(), storage.marked()
    storage.used_at(volume, ago(days=19))
    assert storage.tick().said(due)[0] == "snapshot" and storage.mark(volume) is None
    storage.used_at(due, ago(minutes=30))
    assert storage.tick().said(due) == ("unmark", "orphaned", "done")
    assert storage.exists(due) and storage.mark(due) is None


def test_limits_hold_deletions(storage: VolumeAccount) -> None:
    """Above the limit none is deleted, and that is told; snapshots and marks are not counted."""
    storage.configure(limits={"actions_max": 1})
    volumes = [storage.marked() for _ in range(2)]
    run = storage.tick()
    assert {run.said(volume) for volume in volumes} == {("snapshot", "orphaned", "done")}
    run = storage.tick()
    assert {run.said(volume) for volume in volumes} == {("delete", "orphaned", "not-reached")}
    assert "actions_max = 1" in run.step(volumes[0])["error"] and run.ec2_writes == []
    assert run.severities() == {"vision": "error"}
    assert storage.tick().messages == []
    storage.configure(limits={"actions_max": 2})
    run = storage.tick()
    assert {run.said(volume) for volume in volumes} == {("delete", "orphaned", "done")}


# What prevents it


def test_what_is_skipped_is_not_touched_and_told_at_most_once(storage: VolumeAccount) -> None:
    """Each is announced, past its deadline, with its snapshot whole."""

    def due() -> str:
        volume = storage.marked()
        storage.snapshot_of(volume)
        return volume

    of: dict[str, tuple[str, str]] = {}
    unreadable = [("curfew:unattached-since", "yesterday"), ("Curfew:Protected", "")]
    job = ("curfew:job", "vision/train-0123abcd")
    for key, value in [("curfew:protected", "false"), *unreadable, job]:
        of[due()] = (key, value)
    for volume, (key, value) in of.items():
        storage.aws.tag(volume, {key: value})
    storage.put("active/vision/train-0123abcd", b"")
    since = ago(days=20)
    host = storage.stopped_host(since)
    attached, ended = storage.attached(host, size=500), due()
    first, second = storage.tick(), storage.tick()
    assert first.said(ended) == ("delete", "orphaned", "done"), "without a reason it is deleted"
    expected = {"protected": 1, "unreadable": 2, "live-job": 1, "attached": 1}
    for run, more in ((first, {"volume-exists": len(of) + 1}), (second, {"volume-exists": len(of), "restorable": 1})):
        assert run.skipped == {**expected, **more}
        assert {step["resource"] for step in run.steps} <= {ended}
    assert second.is_quiet and all(storage.exists(volume) and storage.mark(volume) for volume in of)
    for volume, (key, value) in of.items():
        if (key, value) in unreadable:
            assert f"{key}={value} cannot be read" in paragraph(first, volume)
        else:
            assert volume not in first.message()
    for part in (host, f"{since:%Y-%m-%dT%H:%M:%S}Z", "14d", "$40.00 a month"):
        assert part in paragraph(first, attached), part
    storage.aws.fault("s3:GetObject", "access_denied", match="active/")
    run = storage.tick()
    assert run.skipped["live-job"] == 1 and [gap["call"] for gap in run.gaps] == ["s3:GetObject"], "nobody can say that it is over"
    storage.aws.client("s3").delete_object(Bucket=BUCKET, Key="active/vision/train-0123abcd")
    [of_job] = [volume for volume, tag in of.items() if tag == job]
    assert storage.tick().said(of_job) == ("delete", "orphaned", "done")
