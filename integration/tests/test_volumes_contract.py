"""What a run answers and leaves behind: the response, the audit record, the bucket; and what it refuses."""

from __future__ import annotations

from contract import assert_all_is_in_it_once, assert_contract, assert_recorded
from reaping import EUROPE, REGIONS, ago
from reaping_volumes import VolumeAccount

RULES = {"orphaned": {"mark", "unmark", "notify", "snapshot", "delete"}, "expired": {"mark", "delete"}}


def test_a_run_answers_and_records_what_the_contract_says(storage: VolumeAccount) -> None:
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


def test_a_wrong_configuration_acts_on_nothing(storage: VolumeAccount) -> None:
    volume = storage.marked()
    storage.write_config('[volumes]\naction = "stop"')
    run = storage.tick()
    assert "action" in run.error and run.ec2_writes == [] and storage.exists(volume)
