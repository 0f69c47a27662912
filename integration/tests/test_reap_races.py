"""Between the look and the act: what people and other controllers do in that second."""

from __future__ import annotations

from typing import Any

import pytest

from local_aws.client import REGION
from reaping import Account, Run, ago, now, rfc3339


def due(account: Account, **gpu: Any) -> str:
    """Idle and announced: the next run would stop it."""
    gpu_id = account.idle(account.gpu(**gpu))
    account.tick()
    return gpu_id


def with_change(account: Account, change: dict[str, Any]) -> Run:
    """A run in which this happens after the look: before the first DescribeInstances that names an instance."""
    account.aws.before("ec2:DescribeInstances", change, match="InstanceId.1")
    return account.tick()


@pytest.mark.parametrize(
    "tags",
    [
        {"curfew:protected": ""},
        {"curfew:keep-until": "2099-01-01"},
        {"curfew:mode": "observe"},
        {"curfew:idle-after": "off"},
        {"curfew:idle-after": "soon"},
        {"Owner": "grace"},
    ],
)
def test_a_tag_that_was_set_meanwhile_is_heeded(account: Account, tags: dict[str, str]) -> None:
    gpu = due(account)
    run = with_change(account, {"tag": {"resource": gpu, "region": REGION, "tags": tags}})
    assert run.said(gpu) == ("stop", "idle", "changed")
    assert run.ec2_writes == [] and run.messages == []
    assert account.state(gpu) == "running"


@pytest.mark.parametrize("state", ["terminated", "shutting-down"])
def test_gone_meanwhile(account: Account, state: str) -> None:
    gpu = due(account)
    run = with_change(account, {"instance": {"resource": gpu, "region": REGION, "state": state}})
    assert run.said(gpu) == ("stop", "idle", "already-gone")
    assert run.ec2_writes == [] and run.messages == []


@pytest.mark.parametrize("state", ["stopped", "stopping"])
def test_stopped_meanwhile(account: Account, state: str) -> None:
    gpu = due(account)
    run = with_change(account, {"instance": {"resource": gpu, "region": REGION, "state": state}})
    assert run.said(gpu) == ("stop", "idle", "changed")
    assert run.ec2_writes == [] and "curfew:stopped" not in account.aws.tags(gpu)


def test_launched_anew_meanwhile(account: Account) -> None:
    """Stopped and started: another life, in which it has been idle for seconds."""
    gpu = due(account)
    new_life = {"resource": gpu, "region": REGION, "launch_time": now().isoformat()}
    run = with_change(account, {"instance": new_life})
    assert run.said(gpu) == ("stop", "idle", "changed")
    assert account.state(gpu) == "running"


def test_not_found_at_the_stop_itself(account: Account) -> None:
    gpu = due(account)
    account.aws.fault("ec2:StopInstances", "not_found")
    run = account.tick()
    assert run.said(gpu) == ("stop", "idle", "failed")
    assert account.mark(gpu) is not None, "the next run needs it"
    assert account.tick().said(gpu) == ("stop", "idle", "done")
    assert account.mark(gpu) is None


def test_termination_protection_is_a_failure_that_says_so(account: Account) -> None:
    tags = {"curfew:expires-at": rfc3339(ago(minutes=1)), "curfew:on-idle": "terminate"}
    gpu = account.gpu(tags=tags, disable_api_termination=True)
    other = account.gpu(tags=tags)
    run = account.tick()
    assert run.said(gpu) == ("terminate", "expired", "failed")
    assert "disableApiTermination" in run.step(gpu)["error"]
    assert run.said(other) == ("terminate", "expired", "done"), "one call for one resource: nobody is shielded"
    assert account.state(gpu) == "running" and account.state(other) == "terminated"


def test_the_mark_was_removed_by_hand(account: Account) -> None:
    """Then it is announced anew, and not carried out."""
    account.configure(idle={"grace": "1h"})
    gpu = due(account)
    account.aws.change(untag={"resource": gpu, "region": REGION, "keys": ["curfew:marked"]})
    run = account.tick()
    assert run.said(gpu) == ("mark", "idle", "done")
    assert account.state(gpu) == "running"
