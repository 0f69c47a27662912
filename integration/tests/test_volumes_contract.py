"""What a run answers and leaves behind: the response, the audit record, the bucket; and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from local_aws.client import REGION
from reaping import EUROPE, REGIONS, REPOSITORY, ago, moment, now
from reaping_volumes import VolumeAccount

FIELDS = ["function", "run", "at", "mode", "regions", "seen", "steps", "spared", "gaps"]
STEP_FIELDS = ["region", "resource", "team", "action", "because", "saves_usd_per_hour", "outcome", "error"]
ACTIONS = {"mark", "unmark", "notify", "snapshot", "delete"}
OUTCOMES = {"done", "observed", "already-gone", "changed", "not-reached", "failed"}
SPARED = {
    *("protected", "kept", "unreadable", "attached", "not-available", "kubernetes", "foreign-owned", "multi-attach"),
    *("live-job", "young", "marked", "told", "observed", "usage-unknown", "snapshot-pending", "compliant"),
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
        assert step["because"]["rule"] == ("orphaned" if step["resource"].startswith("vol-") else "expired")
        price = step["saves_usd_per_hour"]
        assert price is None or (isinstance(price, (int, float)) and price >= 0)
        assert step["error"] is None or isinstance(step["error"], str)
    assert set(response["spared"]) <= SPARED
    assert response["seen"] + snapshots == len(response["steps"]) + sum(response["spared"].values())
    for gap in response["gaps"]:
        assert list(gap) == ["region", "call", "error"]


def test_a_run_answers_what_the_contract_says(storage: VolumeAccount) -> None:
    orphan = storage.orphan()
    due = storage.marked(region=EUROPE)
    storage.attached()
    storage.volume(tags={"curfew:protected": ""})
    expired, restorable = storage.left_behind(ago(days=40)), storage.left_behind(ago(days=2))
    run = storage.tick()
    response = run.response
    assert_contract(response, snapshots=2)
    assert response["run"] == run.invocation.request_id
    assert (response["mode"], response["regions"], response["seen"]) == ("enforce", REGIONS, 4)
    assert response["spared"] == {"attached": 1, "protected": 1, "restorable": 1}
    assert response["gaps"] == []
    assert run.said(orphan) == ("mark", "orphaned", "done")
    assert run.said(due) == ("snapshot", "orphaned", "done")
    assert run.said(expired) == ("delete", "expired", "done")
    assert run.step(due)["region"] == EUROPE and storage.snapshot_exists(restorable)


def test_the_audit_record_tells_the_same_as_the_response(storage: VolumeAccount) -> None:
    storage.orphan()
    protected = storage.volume(tags={"curfew:protected": "yes"})
    storage.left_behind(ago(days=40))
    for _ in range(3):
        run = storage.tick()
        record = storage.audit(run)
        assert record.pop("schema") == 1
        assert record.pop("spared")["protected"] == [protected]
        for step in record["steps"]:
            assert step.pop("what") and step.pop("name", "-")
        assert record == {name: value for name, value in run.response.items() if name != "spared"}


def test_an_empty_account_is_no_error_and_no_news(storage: VolumeAccount) -> None:
    run = storage.tick()
    assert_contract(run.response)
    assert (run.response["seen"], run.steps, run.spared, run.gaps) == (0, [], {}, [])
    assert run.is_quiet


def test_documents_carry_their_schema_and_are_this_functions_own(storage: VolumeAccount) -> None:
    storage.untagged_volume()
    storage.orphan()
    storage.orphan(tags={"curfew:mode": "observe"})
    storage.tick()
    documents = [key for key in storage.keys() if key.endswith(".json")]
    assert {key.split("/")[0] for key in documents} == {"notices", "plans"}
    assert all("/reap-volumes/" in key for key in documents)
    assert {storage.read(key)["schema"] for key in documents} == {1}


@pytest.mark.parametrize("name", ["scheduled-rule", "scheduled-scheduler"])
def test_both_kinds_of_schedule_wake_it(storage: VolumeAccount, name: str) -> None:
    volume = storage.orphan()
    event = (REPOSITORY / "events" / "reap-volumes" / f"{name}.json").read_bytes()
    assert storage.tick(event).said(volume) == ("mark", "orphaned", "done")


def test_the_response_holds_a_thousand_steps_and_the_record_all(storage: VolumeAccount) -> None:
    storage.configure(volumes={"action": "notify", "orphaned_after": "0s"}, untagged={"mode": "observe"})
    volume = storage.untagged_volume(size=1)
    storage.aws.change(copy={"resource": volume, "region": REGION, "count": 1004})
    run = storage.tick()
    assert len(run.steps) == 1000
    assert run.response["seen"] == 1005
    assert len(storage.audit(run)["steps"]) == 1005


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[volumes]\norphaned_after = "soon"', "orphaned_after"),
        ('[volumes]\naction = "stop"', "action"),
        ("[volumes]\ncolour = 1", "colour"),
    ],
)
def test_a_wrong_configuration_acts_on_nothing(storage: VolumeAccount, text: str, told: str) -> None:
    volume = storage.marked()
    storage.write_config(text)
    run = storage.tick()
    assert told in run.error and run.ec2_writes == [] and storage.exists(volume)


@pytest.mark.parametrize("variable", ["CURFEW_BUCKET", "CURFEW_TOPIC_ARN"])
def test_a_wrong_environment_fails_at_the_start_with_a_sentence(storage: VolumeAccount, variable: str) -> None:
    storage.restart(**{variable: None})
    run = storage.tick()
    assert variable in run.error


@pytest.mark.parametrize("event", [b"{}", b"[]", b'{"source": "aws.ec2", "detail-type": "x", "detail": {}}'])
def test_an_event_that_is_none_of_its_own_does_nothing(storage: VolumeAccount, event: bytes) -> None:
    volume = storage.marked()
    run = storage.tick(event)
    assert run.ec2_writes == [] and storage.exists(volume)


def test_both_reapers_share_a_bucket(storage: VolumeAccount) -> None:
    """Each has its own memory."""
    from reaping import Account

    instances = Account.__new__(Account)
    instances.__dict__.update(storage.__dict__)
    with instances:
        storage.orphan(tags={"curfew:mode": "observe"})
        gpu = instances.idle(instances.gpu(tags={"curfew:mode": "observe"}))
        instances.tick()
        run = storage.tick()
        assert gpu not in {step["resource"] for step in run.steps}
        again = instances.tick()
        assert again.response["seen"] == 1
