"""Who is enforced and who is only observed; and that observing writes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_aws import LocalAws
from local_aws.client import REGION
from reaping import TAGGED, ago, moment, now
from reaping_volumes import EC2_WRITES, VolumeAccount

OBSERVED, ENFORCED = "observed", "done"


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


def test_observe_goes_the_same_way_by_its_own_memory(storage: VolumeAccount) -> None:
    """First seen, announced, due, each told once; without a tag."""
    storage.configure(volumes={"orphaned_after": "0s"})
    storage.restart(CURFEW_MODE="observe")
    volume = storage.volume()
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "observed")
    assert volume in run.message() and "would" in run.message()
    run = storage.tick()
    assert run.said(volume) == ("snapshot", "orphaned", "observed")
    assert volume in run.message() and "would" in run.message()
    for _ in range(2):
        run = storage.tick()
        assert run.messages == []
    assert storage.aws.tags(volume) == TAGGED and storage.exists(volume) and storage.snapshots(volume) == []


def test_first_sight_in_observe_mode_is_remembered_in_the_bucket(storage: VolumeAccount) -> None:
    storage.configure(mode="observe")
    volume = storage.volume()
    run = storage.tick()
    assert run.messages == [] and run.ec2_writes == []
    first = storage.read(storage.notices())["first_sights"][volume]
    assert abs((now() - moment(first)).total_seconds()) < 60
    storage.tick()
    assert storage.read(storage.notices())["first_sights"][volume] == first


def test_once_enforced_the_first_sight_is_written_down_as_it_was(storage: VolumeAccount) -> None:
    """Nobody who switches Curfew on waits two weeks more."""
    storage.configure(mode="observe")
    volume = storage.volume()
    storage.tick()
    notices = storage.read(storage.notices())
    notices["first_sights"][volume] = "2026-01-01T00:00:00Z"
    storage.put(storage.notices(), json.dumps(notices).encode())
    storage.configure(volumes={"grace": "3d"})
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done")
    assert storage.aws.tags(volume)["curfew:unattached-since"] == "2026-01-01T00:00:00Z"
    assert storage.mark(volume) and volume in run.message(), "announced anew: nobody has been promised anything yet"


def test_what_was_observed_is_announced_anew_before_it_is_enforced(storage: VolumeAccount) -> None:
    storage.configure(mode="observe")
    volume = storage.orphan()
    for _ in range(3):
        assert {step["outcome"] for step in storage.tick().steps} <= {"observed"}
    storage.configure()
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done") and volume in run.message()
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")


@pytest.mark.parametrize(
    ("tags", "config", "expect"),
    [
        # Its own tag, above all.
        ({"curfew:mode": "enforce"}, {"mode": "observe"}, ENFORCED),
        ({"curfew:mode": "observe"}, {"mode": "enforce"}, OBSERVED),
        ({"curfew:mode": "enforce", "Owner": ""}, {"untagged": {"mode": "observe"}}, ENFORCED),
        # Then, where a required tag is missing, what the account says about those.
        ({"Owner": ""}, {"mode": "enforce", "untagged": {"mode": "observe"}}, OBSERVED),
        ({"Owner": ""}, {"mode": "observe", "untagged": {"mode": "enforce"}}, ENFORCED),
        # Then its team's.
        ({}, {"mode": "observe", "teams": {"vision": {"mode": "enforce"}}}, ENFORCED),
        ({}, {"mode": "enforce", "teams": {"vision": {"mode": "observe"}}}, OBSERVED),
        # Then the account's.
        ({}, {"mode": "enforce"}, ENFORCED),
        ({}, {"mode": "observe"}, OBSERVED),
    ],
)
def test_the_effective_mode(storage: VolumeAccount, tags: dict[str, str], config: dict[str, Any], expect: str) -> None:
    storage.configure(**config)
    volume = storage.orphan(tags=tags)
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", expect)
    assert (storage.mark(volume) is not None) == (expect == ENFORCED)
    if expect == OBSERVED:
        assert run.ec2_writes == []


def test_nothing_is_enforced_by_default(storage: VolumeAccount) -> None:
    """No configuration at all: everything is only told."""
    storage.aws.client("s3").delete_object(Bucket="curfew-state", Key="config/curfew.toml")
    full_house(storage)
    storage.untagged_volume(unattached_since=ago(days=20))
    run = storage.tick()
    assert run.steps and {step["outcome"] for step in run.steps} == {"observed"}
    assert run.ec2_writes == []


def test_a_team_that_opts_out_after_the_mark_is_left_alone(storage: VolumeAccount) -> None:
    volume = storage.orphan()
    storage.tick()
    storage.tag(volume, mode="observe")
    for _ in range(3):
        run = storage.tick()
        assert run.ec2_writes == [] and storage.exists(volume) and storage.snapshots(volume) == []


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
