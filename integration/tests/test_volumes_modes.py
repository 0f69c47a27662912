"""Who is enforced and who is only observed; and that observing writes nothing."""

from __future__ import annotations

import pytest

from local_aws import LocalAws
from local_aws.client import REGION
from reaping import ago
from reaping_volumes import EC2_WRITES, VolumeAccount


def full_house(storage: VolumeAccount) -> dict[str, str]:
    """One case of everything that a run could act on, each due in this very run."""
    house = {
        "new": storage.volume(),
        "orphan": storage.orphan(),
        "due": storage.marked(),
        "safe": storage.marked(),
        "mended": storage.marked(),
        "expired": storage.left_behind(ago(days=40)),
        "undated": storage.left_behind(),
    }
    storage.snapshot_of(house["safe"])
    storage.attach(house["mended"])
    return house


def test_observe_mode_writes_nothing_and_tells_and_enforce_mode_acts(storage: VolumeAccount) -> None:
    house = full_house(storage)
    storage.restart(CURFEW_MODE="observe")
    before = {one: storage.aws.tags(one) for one in house.values()}
    runs = [storage.tick() for _ in range(3)]
    for run in runs:
        assert run.response["mode"] == "observe"
        assert {step["outcome"] for step in run.steps} <= {"observed"}
        assert run.ec2_writes == [] and not EC2_WRITES & set(run.counts)
    told = "".join(one["message"] for one in runs[0].messages)
    assert all(house[name] in told for name in ("orphan", "due", "safe", "expired"))
    assert "Observe mode" in told
    assert {one["attributes"]["severity"] for one in runs[0].messages} == {"info"}
    assert runs[-1].messages == []
    assert {one: storage.aws.tags(one) for one in house.values()} == before

    storage.restart()
    run = storage.tick()
    assert {name: run.said(one) for name, one in house.items()} == {
        "new": ("mark", "orphaned", "done"),
        "orphan": ("mark", "orphaned", "done"),
        "due": ("snapshot", "orphaned", "done"),
        "safe": ("delete", "orphaned", "done"),
        "mended": ("unmark", "orphaned", "done"),
        "expired": ("delete", "expired", "done"),
        "undated": ("mark", "expired", "done"),
    }
    storage.tag(house["due"], mode="observe")
    storage.tick()
    assert storage.exists(house["due"]), "a team may opt out after the snapshot"


def test_nothing_is_enforced_by_default(storage: VolumeAccount) -> None:
    """No configuration at all: everything is only told."""
    storage.aws.client("s3").delete_object(Bucket="curfew-state", Key="config/curfew.toml")
    full_house(storage)
    storage.untagged_volume(unattached_since=ago(days=20))
    run = storage.tick()
    assert run.steps and {step["outcome"] for step in run.steps} == {"observed"}
    assert run.ec2_writes == []


@pytest.mark.parametrize("subscription", ["none", "denied"])
def test_enforcing_with_nobody_listening_is_refused(aws: LocalAws, subscription: str) -> None:
    with VolumeAccount(aws, heard=False) as storage:
        house = full_house(storage)
        if subscription == "denied":
            storage.subscribe()
            aws.fault("sns:ListSubscriptionsByTopic", "access_denied", times=None)
        run = storage.tick()
        assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "sns:ListSubscriptionsByTopic")]
        ended = {"DeleteVolume", "DeleteSnapshot"}
        assert not ended & {write[0] for write in run.ec2_writes}
        if subscription == "none":
            assert run.ec2_writes == [] and "no confirmed subscription" in run.gaps[0]["error"]
            storage.subscribe()
        aws.clear_faults()
        after = storage.tick()
        assert after.gaps == [] and after.said(house["expired"]) == ("delete", "expired", "done")
