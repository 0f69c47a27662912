"""Instances that people and other controllers change between a look and an action. test_every_fault.py tries the faults of single calls."""

from __future__ import annotations

from typing import Any

from pending_plans import due
from reaping import EUROPE, Account, now

LOOK = "ec2:DescribeInstances"


def test_a_throttled_call_delays_no_other(account: Account) -> None:
    """Retries that limit all calls together would hold this run for half a minute, and leave no time for a step."""
    [gpu] = due(account, 1)
    account.aws.fault(LOOK, "throttle", region=EUROPE)
    assert account.tick(deadline_s=45).said(gpu) == ("stop", "idle", "done")


def test_a_run_leaves_what_changed_since_it_looked(account: Account) -> None:
    protected, gone, stopped, again, unfound, last = gpus = due(account, 6)

    def meanwhile(gpu: str, **fields: Any) -> None:
        """Happens before the first DescribeInstances that names this instance."""
        change = {"set_instance": {"instance": gpu, **fields}} if fields else {"tag": {"resource": gpu, "tags": {"curfew:protected": ""}}}
        account.aws.before(LOOK, change, match=f"InstanceId.1={gpu}")

    meanwhile(protected)
    meanwhile(gone, state="shutting-down")
    meanwhile(stopped, state="stopping")
    meanwhile(again, launch_time=now())  # another life, in which it has been idle for seconds
    account.aws.fault("ec2:StopInstances", "not_found", match=unfound)
    run = account.tick()
    assert [run.step(gpu)["outcome"] for gpu in gpus] == ["changed", "already-gone", "changed", "changed", "failed", "done"]
    assert {write[1] for write in run.ec2_writes} == {unfound, last}
    assert not any(gpu in run.message() for gpu in (protected, gone, stopped, again))
    assert "curfew:stopped" not in account.aws.tags(stopped) and account.state(protected) == "running"
    assert account.mark(unfound) is not None, "the next run needs it"
    assert account.tick().said(unfound) == ("stop", "idle", "done") and account.mark(unfound) is None
