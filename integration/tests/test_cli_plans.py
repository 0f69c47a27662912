"""`curfew plans`: what runs found and did, and what awaits approval."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from command import Said, curfew
from pending_plans import applied, due, held, hold, key_of, rewrite
from reaping import BUCKET, EUROPE, Account, ago


def plans(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), "plans", *arguments)


def listed(account: Account, *arguments: str) -> list[dict[str, Any]]:
    said = plans(account, *arguments, "--json")
    assert said.json()["schema"] == 1
    return said.json()["plans"]


def test_a_run_that_acted(account: Account) -> None:
    due(account, 2)
    account.idle(account.gpu())
    run = account.tick()
    [row] = listed(account)
    assert row == {
        "key": key_of(account, run.response["run"]),
        "function": "reap-instances",
        "run": run.response["run"],
        "at": run.response["at"],
        "mode": "enforce",
        "seen": 3,
        "done": 3,
        "ended": 2,
        "observed": 0,
        "overtaken": 0,
        "failed": 0,
        "not_reached": 0,
        "waiting": 0,
        "saved_usd_per_hour": pytest.approx(2 * 1.006),
        "would_save_usd_per_hour": 0,
        "at_stake_usd_per_hour": 0,
        "gaps": 0,
        "applied_by": [],
        "applied": 0,
        "superseded_by": None,
    }
    said = plans(account).fine()
    assert "$2.01/h" in said.out and "curfew apply" not in said.out


def test_a_held_action_is_pointed_out(account: Account) -> None:
    """Of the newest run alone, and no longer once it has been carried out."""
    gpus, _ = held(account)
    account.restart()
    run = account.tick().response["run"]
    older = newest_but(account, run)
    rewrite(account, older, at=ago(minutes=10))
    said = plans(account)
    assert said.code == 1
    assert re.findall(r"curfew apply (\S+)", said.out) == [run[:8]]
    assert "2 actions of reap-instances await approval" in said.out and f"superseded by {run[:8]}" in said.out
    newest, oldest = listed(account)
    assert newest["waiting"] == 2 and newest["at_stake_usd_per_hour"] == pytest.approx(2.012)
    assert (oldest["waiting"], oldest["at_stake_usd_per_hour"], oldest["superseded_by"]) == (0, 0, run)
    applied(account, run, "--only", gpus[0])
    said = plans(account)
    assert said.code == 1 and "1 action of reap-instances awaits approval" in said.out
    applied(account, run)
    said = plans(account).fine()
    assert "await" not in said.out and "applied by 2 runs: 2 done" in said.out
    assert [row["waiting"] for row in listed(account)] == [0, 0, 0, 0]
    watched = curfew(account.environment(), "watch", "--json").json()
    assert watched["awaiting_approval"] == [] and all(row["outlook"]["kind"] != "awaits-approval" for row in watched["instances"])


def test_what_enforce_mode_would_have_done_is_listed_by_resource(account: Account) -> None:
    """The price of the two hours between the first run that found the stop due and the last."""
    account.write_config('[idle]\nlocal_disk = "expendable"\ngrace = "0s"\n')
    gpu = account.gpu()
    account.idle(gpu)
    account.tick()
    began = ago(hours=3)
    for hours in (0, 2):
        at = began + timedelta(hours=hours)
        # S3 dates objects by the second, and records are read in the order in which they were written.
        account.aws.set_object(BUCKET, rewrite(account, account.tick().response["run"], at=at), at)
    said = plans(account, "--by-resource", "--since", "7d").fine()
    assert "Enforce mode would have stopped 1 machine in the last 7d, $2.01; none of them was used again since." in said.out
    assert re.search(rf"^{gpu} +stop +idle .* \$2\.01 +still due", said.out, re.MULTILINE), said
    found = plans(account, "--by-resource", "--json").json()
    [row] = found["rows"]
    assert (row["resource"], row["action"], row["rule"], row["state"], row["used_again_at"]) == (gpu, "stop", "idle", "still-due", None)
    assert row["due_seconds"] == 7200
    assert found["would_have_saved_usd"] == pytest.approx(2.012) and (found["unknown_prices"], found["unread"]) == (0, 0)


def newest_but(account: Account, run: str) -> str:
    [other] = [key for key in account.keys("plans/") if run not in key]
    return other.split("/")[-1].removesuffix(".json")


def test_plans_are_listed_newest_first_up_to_the_limit(account: Account) -> None:
    quiet = account.tick().response["run"]
    assert listed(account) == [] and [one["run"] for one in listed(account, "--all")] == [quiet]
    assert quiet[:8] in plans(account, "--all").fine().out
    due(account, 1)
    runs = [hold(account).response["run"] for _ in range(3)]
    for hours, run in enumerate(runs):
        rewrite(account, run, at=ago(hours=hours))
    assert [one["run"] for one in listed(account)] == runs and listed(account, "--function", "reap-volumes") == []
    said = plans(account, "--limit", "1")
    assert "There are more" in said.err
    assert plans(account, "--limit", "1", "--json").json()["more"] is True
    rewrite(account, runs[2], at=ago(hours=30))
    assert [one["run"] for one in listed(account)] == runs[:2]
    assert [one["run"] for one in listed(account, "--since", "7d")] == runs


def test_a_run_for_review(account: Account) -> None:
    """Every step, the dearest first, with the errors, the totals and the command."""
    account.gpu(tags={"curfew:protected": ""})
    [dear] = due(account, 1)
    [cheap] = due(account, 1, instance_type="g4dn.xlarge")
    [far] = due(account, 1, region=EUROPE)
    account.aws.fault("cloudwatch:GetMetricData", "access_denied", region=EUROPE, times=None)
    run = hold(account)
    said = plans(account, run.response["run"])
    assert said.code == 1
    rows = [line.split()[0] for line in said.out.splitlines() if line.startswith("i-") and " waits " in line]
    assert rows == [dear, cheap], said
    assert "actions_max = 0" in said.out and "1 protected" in said.out and "2 awaiting approval" in said.out
    assert "not seen: eu-central-1, cloudwatch:GetMetricData" in said.out
    assert f"curfew apply {run.response['run']}" in said.out and far not in rows
    whole = plans(account, run.response["run"], "--json").json()
    assert whole.pop("schema") == 1 and whole.pop("key") == key_of(account, run.response["run"])
    assert whole.pop("tally")["waiting"] == 2
    assert (whole.pop("applied_by"), whole.pop("applied"), whole.pop("superseded_by")) == ([], 0, None)
    record = account.audit(run)
    record.pop("schema")
    assert whole == record


def test_a_run_of_last_week_is_found(account: Account) -> None:
    account.idle(account.gpu())
    run = account.tick().response["run"]
    rewrite(account, run, at=ago(days=6))
    assert plans(account, run[:8]).fine()
    rewrite(account, run, at=ago(days=9))
    assert plans(account, run[:8]).code == 2
