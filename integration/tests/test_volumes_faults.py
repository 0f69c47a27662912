"""Calls that fail, and what people and other controllers do between a look and an action: no deletion without a completed snapshot.
Every fault at every call is tried by test_every_fault.py."""

from __future__ import annotations

from typing import Any

from local_aws.client import REGION
from reaping import EUROPE, TAGGED, ago
from reaping_volumes import VolumeAccount

LOOK = "ec2:DescribeVolumes"
# A region for each call that fails, so that one run meets them all.
DENIED = {
    "us-east-2": LOOK,
    "us-west-1": "ec2:DescribeSnapshots",
    "us-west-2": "ec2:DescribeInstances",
    "eu-west-1": "cloudwatch:GetMetricData",
}


def due(storage: VolumeAccount, **volume: Any) -> str:
    """Announced and snapshotted: the next run deletes it."""
    volume_id = storage.marked(**volume)
    storage.snapshot_of(volume_id, region=volume.get("region", REGION))
    return volume_id


def on(resource: str, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "region": REGION, **more}


def test_what_cannot_be_seen_deletes_nothing_there_and_all_else_is_done(storage: VolumeAccount) -> None:
    storage.configure(regions=[EUROPE, *DENIED])
    volumes = {region: due(storage, region=region) for region in (EUROPE, *DENIED)}
    expired = {region: storage.left_behind(ago(days=40), region) for region in DENIED}
    for region, call in DENIED.items():
        storage.attached(region=region)
        storage.aws.fault(call, "access_denied", region=region, times=None)
    run = storage.tick()
    assert run.said(volumes[EUROPE]) == ("delete", "orphaned", "done")
    assert {gap["region"]: gap["call"] for gap in run.gaps} == DENIED
    for gap in run.gaps:
        assert f"grant {gap['call']}" in gap["error"] and gap["call"] in run.message("untagged")
    again = storage.tick()
    assert again.messages == [], "a lasting gap is told once a day"
    storage.aws.clear_faults()
    assert all(storage.exists(volumes[region], region) for region in DENIED)
    ended = {region for region in DENIED if not storage.snapshot_exists(expired[region], region)}
    assert ended == {"eu-west-1"}, "where only the use is unknown, snapshots end"
    run = storage.tick()
    assert {run.said(volumes[region]) for region in DENIED} == {("delete", "orphaned", "done")}
    assert all(len(storage.snapshots(volumes[region], region)) == 1 for region in DENIED), "none was begun meanwhile"


def test_a_write_that_fails_names_the_reason_and_stops_nothing_else(storage: VolumeAccount) -> None:
    actions = {"ec2:CreateSnapshot": storage.marked, "ec2:DeleteVolume": lambda: due(storage)}
    actions["ec2:DeleteSnapshot"] = lambda: storage.left_behind(ago(days=40))
    denied, done = ({action: make() for action, make in actions.items()} for _ in range(2))
    unread, throttled = due(storage), storage.marked()
    for action, resource in denied.items():
        storage.aws.fault(action, "access_denied", match=resource, times=None)
    storage.aws.fault("ec2:DescribeSnapshots", "access_denied", match=storage.snapshot(unread))
    storage.aws.fault("ec2:CreateSnapshot", "throttle", match=throttled)
    run = storage.tick()
    for action, resource in denied.items():
        assert run.step(resource)["outcome"] == "failed" and f"grant {action}" in run.step(resource)["error"]
        assert f"could not {run.step(resource)['action']}" in run.message()
    assert {run.step(resource)["outcome"] for resource in done.values()} == {"done"}
    assert run.said(unread) == ("delete", "orphaned", "failed") and storage.exists(unread), "it could not be looked at again"
    assert run.said(throttled) == ("snapshot", "orphaned", "failed"), "CreateSnapshot is tried once a run"
    assert storage.snapshots(throttled) == [] and run.severities()["vision"] == "error"
    again = storage.tick()
    assert {again.step(one)["outcome"] for one in denied.values()} == {"failed"}
    assert not any(one in told["message"] for one in denied.values() for told in again.messages), "told once a day"
    storage.aws.clear_faults()
    run = storage.tick()
    assert {run.step(one)["outcome"] for one in denied.values()} == {"done"}


def test_without_time_left_nothing_is_deleted_and_yet_it_answers(storage: VolumeAccount) -> None:
    volume = due(storage)
    storage.aws.fault("cloudwatch:GetMetricData", "slow", seconds=1.5)
    run = storage.tick(deadline_s=21)
    assert run.ec2_writes == [] and all(step["outcome"] == "not-reached" for step in run.steps)
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")


def test_without_an_audit_record_or_a_message_nothing_is_deleted_or_announced(storage: VolumeAccount) -> None:
    volume, snapshot, orphan, new = due(storage), storage.left_behind(ago(days=40)), storage.orphan(), storage.volume()
    for call, match in (("s3:PutObject", "plans/"), ("sns:Publish", None)):
        storage.aws.fault(call, "access_denied", match=match, times=None)
    run = storage.tick()
    for one in (volume, snapshot):
        assert run.step(one)["outcome"] == "not-reached" and "audit record" in run.step(one)["error"]
    assert run.said(orphan) == ("mark", "orphaned", "not-reached")
    assert run.ec2_writes == [("CreateTags", new)], "of its first sight nobody hears"
    storage.aws.clear_faults()
    after = storage.tick()
    assert after.said(orphan) == ("mark", "orphaned", "done") and orphan in after.message()


# Between the look and the action


def test_what_changed_since_the_look_is_left_to_the_next_run(storage: VolumeAccount) -> None:
    host = storage.host()
    protected, announced, attached, unsafe, held, last = storage.marked(), storage.orphan(), *(due(storage) for _ in range(4))

    def meanwhile(volume: str, call: str = LOOK, **change: Any) -> None:
        """Happens before the first such call that names this volume."""
        storage.aws.before(call, change, match=f"VolumeId{'.1' if call == LOOK else ''}={volume}")

    meanwhile(protected, tag={"resource": protected, "tags": {"curfew:protected": ""}})
    meanwhile(announced, attach={"volume": announced, "instance": host})
    meanwhile(attached, attach={"volume": attached, "instance": host})
    meanwhile(unsafe, delete={"resource": (snapshot := storage.snapshot(unsafe))})
    meanwhile(held, "ec2:DeleteVolume", attach={"volume": held, "instance": host})
    run = storage.tick()
    expect = {protected: "snapshot", announced: "mark", attached: "delete", unsafe: "delete", held: "delete"}
    for volume, action in expect.items():
        assert run.said(volume) == (action, "orphaned", "changed") and storage.exists(volume)
        assert volume not in run.message() or action == "mark"
    assert snapshot in run.step(unsafe)["error"] and "VolumeInUse" in run.step(held)["error"]
    assert "curfew:deleted-at" not in storage.aws.tags(storage.snapshot(held))
    assert run.said(last) == ("delete", "orphaned", "done")
    after = storage.tick()
    assert {after.said(volume) for volume in (announced, attached, held)} == {("unmark", "orphaned", "done")}
    assert storage.aws.tags(attached) == TAGGED


def test_no_snapshot_ends_while_its_volume_is_there_after_all(storage: VolumeAccount) -> None:
    """A listing that missed the volume, for EC2 is eventually consistent: it is looked for by its id just before."""
    volume = storage.volume(unlisted=True)
    snapshot = storage.snapshot_of(volume, started=ago(days=50), deleted_at=ago(days=40))
    run = storage.tick()
    assert run.response["seen"] == 0
    assert run.said(snapshot) == ("delete", "expired", "changed")
    assert run.ec2_writes == [] and storage.snapshot_exists(snapshot)
    storage.aws.set_volume(volume, unlisted=False)
    assert storage.tick().skipped["volume-exists"] == 1
