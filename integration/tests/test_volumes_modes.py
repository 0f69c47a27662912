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


def test_enforce_acts_on_all_of_it(storage: VolumeAccount) -> None:
    house = full_house(storage)
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


@pytest.mark.parametrize("mode", ["observe", None])
def test_curfew_mode_observe_writes_nothing_and_tells(storage: VolumeAccount, mode: str | None) -> None:
    """Also where the variable is absent."""
    house = full_house(storage)
    storage.restart(CURFEW_MODE=mode)
    before = {one: storage.aws.tags(one) for one in house.values()}
    runs = [storage.tick() for _ in range(4)]
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
    assert all(storage.exists(house[name]) for name in ("new", "orphan", "due", "safe", "mended"))
    assert storage.snapshot_exists(house["expired"])


def test_nothing_is_enforced_by_default(storage: VolumeAccount) -> None:
    """No configuration at all: everything is only told."""
    storage.aws.client("s3").delete_object(Bucket="curfew-state", Key="config/curfew.toml")
    full_house(storage)
    storage.untagged_volume(unattached_since=ago(days=20))
    run = storage.tick()
    assert run.steps and {step["outcome"] for step in run.steps} == {"observed"}
    assert run.ec2_writes == []


def test_a_team_that_opts_out_after_the_snapshot_keeps_its_volume(storage: VolumeAccount) -> None:
    volume = storage.marked()
    storage.tick()
    storage.tag(volume, mode="observe")
    for _ in range(2):
        assert storage.tick().ec2_writes == []
    assert storage.exists(volume)


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
            assert run.ec2_writes == [] and "nobody listens" in run.gaps[0]["error"]
            storage.subscribe()
        aws.clear_faults()
        after = storage.tick()
        assert after.gaps == [] and after.said(house["expired"]) == ("delete", "expired", "done")
