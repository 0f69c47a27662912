"""An account whose teams have budgets: builders for what they spend, and the real `enforce-budgets`.

money = BudgetAccount(aws)                      # in tests: the fixture `money`
gpu = money.gpu(launched=ago(hours=5))
money.budget(vision=80)                         # so much that 80 % of it are spent by now
assert money.tick().said("vision") == ("notify", "over-budget", "done")
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from local_aws.client import REGION
from reaping import Account, moment, now, rfc3339

HOURLY = {"g5.xlarge": 1.006, "g5.12xlarge": 5.672, "g5.48xlarge": 16.288}  # of the table, us-east-1

EAGER: dict[str, Any] = {
    "mode": "enforce",
    "untagged": {"mode": "observe"},
    "limits": {"fleet_share_max_percent": 100, "actions_max": 100},
    "account": {"over_budget_grace": "0s"},
}


def month(at: datetime | None = None) -> str:
    return f"{at or now():%Y-%m}"


def budget_key(team: str | None, at: datetime | None = None) -> str:
    """The figures of a document; the account's has no team."""
    return f"budgets/{team}/{month(at)}.json" if team else f"budgets/{month(at)}.json"


def month_began(at: datetime | None = None) -> datetime:
    return (at or now()).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


class BudgetAccount(Account):
    function = "enforce-budgets"
    eager = EAGER

    # What is there

    def launch(
        self, at: datetime, instance_type: str = "g5.xlarge", region: str = REGION, tags: dict[str, str] | None = None, **fields: Any
    ) -> str:
        """An instance of team vision that was launched at this moment of any clock, with the volume that it came with."""
        gpu = self.gpu(instance_type, region, at, tags, **fields)
        self.attached_at(gpu, at, region)
        return gpu

    def attached_at(self, gpu: str, at: datetime, region: str = REGION) -> None:
        for device in self.aws.instance(gpu, region)["BlockDeviceMappings"]:
            self.aws.set_volume(device["Ebs"]["VolumeId"], region, attach_time=at)

    def detach(self, gpu: str, region: str = REGION) -> None:
        """Leaves an instance without the volumes that it came with."""
        for device in self.aws.instance(gpu, region)["BlockDeviceMappings"]:
            self.aws.detach(device["Ebs"]["VolumeId"], region)

    # What is set

    def budgets(self, account: dict[str, Any] | None = None, **teams: dict[str, Any]) -> None:
        """Sections of teams, and keys of `[account]`."""
        self.configure(account=account or {}, teams=teams)

    def budget(self, percent: float, gpu: str | None = None, **team: Any) -> float:
        """Gives team vision a budget of which this instance, or else all of the team's by the last document, has spent
        that many percent."""
        usd = self.spent_on(gpu) if gpu else self.document("vision")["spent_usd"]
        # Half a percent more, so that a second more or less counts for nothing.
        budget = usd * 100 / (percent + 0.5)
        self.budgets(vision={"monthly_budget_usd": budget, **team})
        return budget

    # What became of it

    def spent_on(self, gpu: str, at: datetime | None = None, region: str = REGION) -> float:
        """What an instance that runs has cost this month until then, by the second."""
        seen = self.aws.instance(gpu, region)
        launched = seen["LaunchTime"]
        since = max(launched, month_began())
        return HOURLY[seen["InstanceType"]] * int(((at or now()) - since).total_seconds()) / 3600

    def document(self, team: str | None = None, of: str | None = None) -> dict[str, Any]:
        """The budget of a team, or of the account."""
        return self.read(f"budgets/{team}/{of or month()}.json" if team else f"budgets/{of or month()}.json")

    def ledger(self, region: str = REGION, of: str | None = None) -> dict[str, Any]:
        return self.read(f"ledger/{of or month()}/{region}.json")

    def ended(self, gpu: str, at: datetime, state: str = "terminated", region: str = REGION, code: str = "") -> None:
        """As EC2 tells of it afterwards."""
        reason = f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)"
        fields: dict[str, Any] = {"state": state, "state_transition_reason": reason}
        if code:
            fields["state_reason"] = code
        self.aws.set_instance(gpu, region, **fields)

    def age(self, by: timedelta, team: str | None = "vision") -> None:
        """Makes a document older than it is."""
        key = budget_key(team)
        document = self.read(key)
        at = moment(document["as_of"])
        self.write(key, {**document, "as_of": rfc3339(at - by)})

    def write(self, key: str, document: dict[str, Any]) -> None:
        self.put(key, json.dumps(document).encode())
