"""Plans that await approval, made by the real functions.

plan = held(account, gpus := due(account, 3))
said = apply(account, plan, "--yes")
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from command import Said, curfew
from local_aws.client import REGION
from reaping import Account, Run, ago, moment, rfc3339


def due(account: Account, count: int, region: str = REGION, **gpu: Any) -> list[str]:
    """So many idle instances that the next run would stop."""
    gpus = []
    for _ in range(count):
        gpu_id = account.idle(account.gpu(region=region, **gpu), region)
        account.was_announced(gpu_id, f"idle=stop@{rfc3339(ago(minutes=5))}", region)
        gpus.append(gpu_id)
    return gpus


def hold(account: Account) -> Run:
    """A run that holds every end that it inferred."""
    account.configure(limits={"actions_max": 0})
    return account.tick()


def held(account: Account, count: int = 2) -> tuple[list[str], str]:
    """So many instances whose end waits, and the run that left it to a person."""
    gpus = due(account, count)
    run = hold(account)
    assert {run.said(gpu) for gpu in gpus} == {("stop", "idle", "not-reached")}
    return gpus, run.response["run"]


def key_of(account: Account, run: str) -> str:
    [key] = [key for key in account.keys("plans/") if key.endswith(f"/{run}.json")]
    return key


def rewrite(account: Account, run: str, at: datetime | None = None, **fields: Any) -> str:
    """The same record with other fields, as if it had been written at another time. Answers its key."""
    key = key_of(account, run)
    record = account.read(key) | fields
    account.aws.client("s3").delete_object(Bucket="curfew-state", Key=key)
    if at:
        record["at"] = rfc3339(at)
    day = moment(record["at"]).strftime("%Y-%m-%d")
    account.put(key := f"plans/{day}/{record['function']}/{run}.json", json.dumps(record).encode())
    return key


def apply(account: Account, *arguments: str, **over: str | None) -> Said:
    account.aws.clear_calls()
    return curfew(account.environment(**over), "apply", *arguments)


def applied(account: Account, *arguments: str, **over: str | None) -> tuple[Said, dict[str, str]]:
    """The command's output as JSON, without a question; and the outcome of each resource."""
    said = apply(account, *arguments, "--yes", "--json", **over)
    return said, {step["resource"]: step["outcome"] for step in said.json()["steps"]} if said.out else {}
