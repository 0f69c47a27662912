"""What a run answers and leaves behind: the response, the audit record, the bucket; and what it refuses."""

from __future__ import annotations

from typing import Any

from reaping import EUROPE, REGIONS, ago, moment, now
from reaping_volumes import VolumeAccount

FIELDS = ["function", "run", "at", "mode", "regions", "seen", "steps", "skipped", "gaps"]
STEP_FIELDS = ["region", "resource", "team", "action", "evidence", "saves_usd_per_hour", "outcome", "error"]
ACTIONS = {"mark", "unmark", "notify", "snapshot", "delete"}
OUTCOMES = {"done", "observed", "already-gone", "changed", "not-reached", "failed"}
SPARED = {
    *("protected", "kept", "unreadable", "attached", "not-available", "kubernetes", "foreign-owned", "multi-attach"),
    *("live-job", "young", "marked", "told", "usage-unknown", "snapshot-pending", "compliant"),
    *("volume-exists", "restorable", "busy"),
}


def assert_contract(response: dict[str, Any], snapshots: int = 0) -> None:
    """Exactly the fields of the design, in their order, with their types; everything seen is in it once. `snapshots` is
    how many of Curfew's there are, which are not counted as seen."""
    assert list(response) == FIELDS
    assert response["function"] == "reap-volumes"
    assert isinstance(response["run"], str) and response["run"]
    assert abs((now() - moment(response["at"])).total_seconds()) < 60
    assert response["mode"] in ("observe", "enforce")
    for step in response["steps"]:
        assert list(step) == STEP_FIELDS
        assert step["region"] in response["regions"]
        assert step["action"] in ACTIONS and step["outcome"] in OUTCOMES
        assert step["evidence"]["rule"] == ("orphaned" if step["resource"].startswith("vol-") else "expired")
        price = step["saves_usd_per_hour"]
        assert price is None or (isinstance(price, (int, float)) and price >= 0)
        assert step["error"] is None or isinstance(step["error"], str)
    assert set(response["skipped"]) <= SPARED
    assert response["seen"] + snapshots == len(response["steps"]) + sum(response["skipped"].values())
    for gap in response["gaps"]:
        assert list(gap) == ["region", "call", "error"]


def test_a_run_answers_and_records_what_the_contract_says(storage: VolumeAccount) -> None:
    orphan = storage.orphan()
    due = storage.marked(region=EUROPE)
    storage.attached()
    protected = storage.volume(tags={"curfew:protected": ""})
    expired, restorable = storage.left_behind(ago(days=40)), storage.left_behind(ago(days=2))
    run = storage.tick()
    response = run.response
    assert_contract(response, snapshots=2)
    assert response["run"] == run.invocation.request_id
    assert (response["mode"], response["regions"], response["seen"]) == ("enforce", REGIONS, 4)
    assert response["skipped"] == {"attached": 1, "protected": 1, "restorable": 1}
    assert response["gaps"] == []
    assert run.said(orphan) == ("mark", "orphaned", "done")
    assert run.said(due) == ("snapshot", "orphaned", "done")
    assert run.said(expired) == ("delete", "expired", "done")
    assert run.step(due)["region"] == EUROPE and storage.snapshot_exists(restorable)
    record = storage.audit(run)
    assert record.pop("schema") == 1 and record.pop("skipped")["protected"] == [protected]
    for step in record["steps"]:
        assert step.pop("what") and step.pop("name", "-")
    assert record == {name: value for name, value in response.items() if name != "skipped"}


def test_a_wrong_configuration_acts_on_nothing(storage: VolumeAccount) -> None:
    volume = storage.marked()
    storage.write_config('[volumes]\naction = "stop"')
    run = storage.tick()
    assert "action" in run.error and run.ec2_writes == [] and storage.exists(volume)
