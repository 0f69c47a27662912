"""What a run answers, records and changes in each mode."""

from __future__ import annotations

from contract import assert_all_is_in_it_once, assert_contract, assert_recorded
from reaping import EUROPE, REGIONS, ago
from reaping_volumes import VolumeAccount

RULES = {"orphaned": {"mark", "unmark", "notify", "snapshot", "delete"}, "expired": {"mark", "delete"}}


def test_a_run_fulfils_the_contract(storage: VolumeAccount) -> None:
    orphan = storage.orphan()
    due = storage.marked(region=EUROPE)
    storage.attached()
    protected = storage.volume(tags={"curfew:protected": ""})
    expired, restorable = storage.left_behind(ago(days=40)), storage.left_behind(ago(days=2))
    run = storage.tick()
    response = run.response
    assert_contract(response, "reap-volumes", RULES)
    assert_all_is_in_it_once(response, besides=2)  # snapshots
    for step in response["steps"]:
        assert step["evidence"]["rule"] == ("orphaned" if step["resource"].startswith("vol-") else "expired")
    assert response["run"] == run.invocation.request_id
    assert (response["mode"], response["regions"], response["seen"]) == ("enforce", REGIONS, 4)
    assert response["skipped"] == {"attached": 1, "protected": 1, "restorable": 1}
    assert response["gaps"] == []
    assert run.said(orphan) == ("mark", "orphaned", "done")
    assert run.said(due) == ("snapshot", "orphaned", "done")
    assert run.said(expired) == ("delete", "expired", "done")
    assert run.step(due)["region"] == EUROPE and storage.snapshot_exists(restorable)
    assert_recorded(storage, run, "protected", [protected])


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


def test_observe_mode_only_notifies_and_enforce_mode_acts(storage: VolumeAccount) -> None:
    house = full_house(storage)
    storage.restart(CURFEW_MODE="observe")
    before = {one: storage.aws.tags(one) for one in house.values()}
    runs = [storage.tick() for _ in range(3)]
    for run in runs:
        assert run.response["mode"] == "observe"
        assert {step["outcome"] for step in run.steps} <= {"observed"}
        assert run.ec2_writes == []
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
        "due": ("mark", "orphaned", "done"),
        "safe": ("mark", "orphaned", "done"),
        "mended": ("unmark", "orphaned", "done"),
        "expired": ("mark", "expired", "done"),
        "undated": ("mark", "expired", "done"),
    }
    storage.tag(house["due"], mode="observe")
    storage.tick()
    assert storage.exists(house["due"]), "a team may opt out after the snapshot"
