"""What people read: what, whose, how much, until when, how to keep it, and how to get it back. Tell, then mark."""

from __future__ import annotations

import pytest

from local_aws.client import REGION
from reaping import EUROPE, Run, ago, moment
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
    because = run.step(volume)["because"]
    said = paragraph(run, volume)
    for part in (
        '500 GiB gp3 "data", owner ada, us-east-1',
        because["unattached_since"],
        "$40.00 a month",
        f"It will be snapshotted and deleted at {because['deadline']}",
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


def test_a_snapshot_that_begins_is_told_once(storage: VolumeAccount) -> None:
    volume = storage.marked()
    storage.aws.hold_snapshots()
    run = storage.tick()
    assert "A snapshot of it was begun" in paragraph(run, volume) and run.severities() == {"vision": "info"}
    assert all(storage.tick().is_quiet for _ in range(2))


def test_a_deletion_without_a_snapshot_is_announced_as_what_it_is(storage: VolumeAccount) -> None:
    storage.configure(volumes={"action": "delete", "grace": "3d"})
    volume = storage.orphan(size=500)
    run = storage.tick()
    assert volume in run.message().splitlines()[0] and "500 GiB" in run.message().splitlines()[0]
    assert f"It will be deleted at {run.step(volume)['because']['deadline']}" in paragraph(run, volume)


def test_one_message_a_team(storage: VolumeAccount) -> None:
    ours = [storage.orphan(), storage.orphan(region=EUROPE), storage.marked()]
    theirs = storage.orphan(tags={"Team": "nlp", "Owner": "grace"})
    nobodys = storage.untagged_volume(unattached_since=ago(days=20))
    run = storage.tick()
    assert run.severities().keys() == {"vision", "nlp", "untagged"} and len(run.messages) == 3
    assert all(one in run.message() for one in ours[:2]) and theirs not in run.message()
    assert theirs in run.message("nlp") and nobodys in run.message("untagged")


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_what_does_not_change_is_told_and_written_once(storage: VolumeAccount, mode: str) -> None:
    storage.configure(volumes={"grace": "3d"})
    storage.restart(CURFEW_MODE=mode)
    storage.volume()
    storage.orphan()
    storage.untagged_volume(region=EUROPE, unattached_since=ago(days=20))
    storage.orphan(tags={"curfew:keep-until": "never"})
    storage.orphan(tags={"ebs.csi.aws.com/cluster": "true"})
    storage.attached(storage.stopped_host(ago(days=20)))
    storage.left_behind(ago(days=2))
    storage.tick()
    storage.tick()
    runs = [storage.tick() for _ in range(3)]
    assert [run.is_quiet for run in runs] == [True] * 3, [run.messages for run in runs]
    storage.restart(CURFEW_MODE=mode)
    assert storage.tick().is_quiet, "a new process repeats nothing"


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


def test_with_0s_what_nobody_heard_is_not_marked_either(storage: VolumeAccount) -> None:
    storage.configure(volumes={"orphaned_after": "0s"})
    volume = storage.volume()
    storage.aws.fault("sns:Publish", "access_denied", times=None)
    assert storage.tick().said(volume) == ("mark", "orphaned", "not-reached")
    assert storage.mark(volume) is None


def test_a_deletion_that_could_not_be_told_is_told_by_the_next_run(storage: VolumeAccount) -> None:
    """With its undo, which nobody could guess."""
    volume = storage.marked()
    snapshot = storage.snapshot_of(volume)
    storage.aws.fault("sns:Publish", "access_denied", times=None)
    run = storage.tick()
    assert run.said(volume) == ("delete", "orphaned", "done") and run.messages == []
    storage.aws.clear_faults()
    after = storage.tick()
    assert f"--snapshot-id {snapshot}" in paragraph(after, volume)
    assert storage.tick().messages == []


def test_without_an_audit_record_nothing_is_deleted(storage: VolumeAccount) -> None:
    volume, snapshot = storage.marked(), storage.left_behind(ago(days=40))
    storage.snapshot_of(volume)
    storage.aws.fault("s3:PutObject", "access_denied", match="plans/", times=None)
    run = storage.tick()
    for one in (volume, snapshot):
        assert run.step(one)["outcome"] == "not-reached" and "audit record" in run.step(one)["error"]
    assert storage.exists(volume) and storage.snapshot_exists(snapshot)


@pytest.mark.parametrize("body", [b"{", b'{"schema": 99}'])
def test_a_region_whose_notices_cannot_be_read_is_not_judged(storage: VolumeAccount, body: bytes) -> None:
    here, there = storage.marked(), storage.marked(region=EUROPE)
    expired = storage.left_behind(ago(days=40))
    storage.put(storage.notices(), body)
    run = storage.tick()
    assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "s3:GetObject")]
    assert {step["resource"] for step in run.steps} == {there}
    assert storage.snapshots(here) == [] and storage.snapshot_exists(expired)


def test_losing_the_notices_repeats_messages_and_ends_nothing_early(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "3d"})
    volume = storage.orphan()
    storage.tick()
    for key in storage.keys("notices/"):
        storage.aws.client("s3").delete_object(Bucket="curfew-state", Key=key)
    run = storage.tick()
    assert run.ec2_writes == [] and run.spared == {"marked": 1} and storage.exists(volume)


def test_names_that_nobody_foresaw(storage: VolumeAccount) -> None:
    tags = {"Team": "Team ñ 🚀 " + "x" * 200, "Owner": "<script>", "Name": "a\nb\tc"}
    volume = storage.orphan(tags=tags)
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done")
    assert run.messages[0]["attributes"]["team"] == tags["Team"].strip()
    subject = run.messages[0]["subject"]
    assert subject.isascii() and len(subject) < 100 and "\n" not in subject


def test_hundreds_of_deletions_are_told_with_their_undo(storage: VolumeAccount) -> None:
    """SNS takes 256 KB a message: the undo of what was deleted must not be what is left out."""
    storage.configure(limits={"actions_max": 1000})
    big = {f"key-{number}": "v" * 200 for number in range(40)}
    volumes = [storage.marked(tags=big) for _ in range(60)]
    snapshots = {volume: storage.snapshot_of(volume) for volume in volumes}
    run = storage.tick()
    assert {run.said(volume) for volume in volumes} == {("delete", "orphaned", "done")}
    messages = [one["message"] for one in run.messages]
    assert all(len(message.encode()) < 256 * 1024 for message in messages)
    for _ in range(5):
        messages += [one["message"] for one in storage.tick().messages]
    told = "\n\n".join(messages)
    assert all(volume in told for volume in volumes)
    without_undo = [volume for volume in volumes if f"--snapshot-id {snapshots[volume]}" not in told]
    assert without_undo == []
