"""What people read: what, whose, how much, until when, how to keep it, and how to get it back. Tell, then mark."""

from __future__ import annotations


from reaping import Run, ago, moment
from reaping_volumes import VolumeAccount


def paragraph(run: Run, resource_id: str, team: str = "vision") -> str:
    [found] = [one for one in run.message(team).split("\n\n") if one.startswith(f"{resource_id} (")]
    return found


def test_an_announcement(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "3d"})
    volume = storage.orphan(size=500, tags={"Name": "data"})
    run = storage.tick()
    assert run.severities() == {"vision": "warning"}
    [attributes] = [one["attributes"] for one in run.messages]
    assert attributes == {"team": "vision", "function": "reap-volumes", "severity": "warning"}
    evidence = run.step(volume)["evidence"]
    said = paragraph(run, volume)
    for part in (
        '500 GiB gp3 "data", owner ada, us-east-1',
        evidence["unattached_since"],
        "$40.00 a month",
        f"It will be snapshotted and deleted at {evidence['deadline']}",
        "curfew:keep-until",
        f"--resources {volume}",
    ):
        assert part in said, part


def test_a_deletion(storage: VolumeAccount) -> None:
    volume = storage.marked(size=500)
    snapshot = storage.snapshot_of(volume)
    run = storage.tick()
    assert run.severities() == {"vision": "action"}
    said = paragraph(run, volume)
    assert "It was deleted; that saves $40.00 a month (table of 2026-09-30)." in said
    assert "Undo until " in said and f"--snapshot-id {snapshot}" in said
    until = moment(said.partition("Undo until ")[2].partition(": ")[0])
    deleted_at = moment(storage.aws.tags(snapshot)["curfew:deleted-at"])
    assert abs((until - deleted_at).days) == 30


def test_what_nobody_heard_is_not_marked(storage: VolumeAccount) -> None:
    """And the moment of its first sight is written all the same: nobody hears of that."""
    volume, new = storage.orphan(), storage.volume()
    storage.aws.fault("sns:Publish", "access_denied", times=None)
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "not-reached")
    assert run.said(new) == ("mark", "orphaned", "done")
    assert storage.mark(volume) is None and run.ec2_writes == [("CreateTags", new)]
    storage.aws.clear_faults()
    after = storage.tick()
    assert after.said(volume) == ("mark", "orphaned", "done") and volume in after.message()


def test_without_an_audit_record_nothing_is_deleted(storage: VolumeAccount) -> None:
    volume, snapshot = storage.marked(), storage.left_behind(ago(days=40))
    storage.snapshot_of(volume)
    storage.aws.fault("s3:PutObject", "access_denied", match="plans/", times=None)
    run = storage.tick()
    for one in (volume, snapshot):
        assert run.step(one)["outcome"] == "not-reached" and "audit record" in run.step(one)["error"]
    assert storage.exists(volume) and storage.snapshot_exists(snapshot)


def test_names_that_nobody_foresaw(storage: VolumeAccount) -> None:
    tags = {"Team": "Team ñ 🚀 " + "x" * 200, "Owner": "<script>", "Name": "a\nb\tc"}
    volume = storage.orphan(tags=tags)
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done")
    assert run.messages[0]["attributes"]["team"] == tags["Team"].strip()
    subject = run.messages[0]["subject"]
    assert subject.isascii() and len(subject) < 100 and "\n" not in subject
