"""What every function answers and records (docs/runs.md)."""

from __future__ import annotations

from typing import Any

from reaping import Account, Run, moment, now

FIELDS = ["function", "run", "at", "mode", "regions", "seen", "steps", "skipped", "gaps"]
STEP_FIELDS = ["region", "resource", "team", "action", "evidence", "saves_usd_per_hour", "outcome", "error"]
OUTCOMES = {"done", "observed", "already-gone", "changed", "not-reached", "failed"}


def assert_contract(response: dict[str, Any], function: str, rules: dict[str, set[str]]) -> None:
    """Exactly the fields of the design, in their order, with their types; `rules` says which actions each may lead to."""
    assert list(response) == FIELDS
    assert response["function"] == function and isinstance(response["run"], str) and response["run"]
    assert abs((now() - moment(response["at"])).total_seconds()) < 600
    assert response["mode"] in ("observe", "enforce")
    for step in response["steps"]:
        assert list(step) == STEP_FIELDS and step["region"] in response["regions"]
        assert step["team"] is None or isinstance(step["team"], str)
        assert step["action"] in rules[step["evidence"]["rule"]] and step["outcome"] in OUTCOMES
        price = step["saves_usd_per_hour"]
        assert price is None or (isinstance(price, (int, float)) and price >= 0)
        assert step["error"] is None or isinstance(step["error"], str)
    assert all(isinstance(count, int) and count > 0 for count in response["skipped"].values())
    for gap in response["gaps"]:
        assert list(gap) == ["region", "call", "error"]
        assert all(isinstance(value, str) and value for value in gap.values())


def assert_all_is_in_it_once(response: dict[str, Any], besides: int = 0) -> None:
    """Everything seen; `besides` is how many are judged and not counted as seen."""
    assert response["seen"] + besides == len(response["steps"]) + sum(response["skipped"].values())


def assert_recorded(account: Account, run: Run, reason: str, skipped: list[str]) -> None:
    """The audit record tells the same, what people know a resource by, who was skipped for this reason, and what AWS bills of the run."""
    record = account.audit(run)
    usage = record.pop("usage")
    assert usage["runs"] == 1 and usage["s3_reads"] > 0 and usage["s3_writes"] > 0, usage
    assert record.pop("schema") == 1 and record.pop("skipped").get(reason, []) == skipped
    for step in record["steps"]:
        assert step.pop("what") and step.pop("name", "-")
    assert record == {name: value for name, value in run.response.items() if name != "skipped"}
