"""The story of `enforce-budgets`: a team crosses a share of its budget, and then all of it, while instances end, come and change their
price; another team has something reserved; and the account crosses half of its own.

Each beat begins at its moment of a clock of its own, so what was spent by then is the same in every story, to the millionth of a
dollar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from every_fault import EXEMPTIONS, FAILS, Plot, Story, faultless_story
from local_aws import LocalAws
from local_aws.client import REGION
from reaping import EUROPE, Run, rfc3339
from reaping_budgets import BudgetAccount
from scenario_account import OneOfEach

STRUCK_RUNS = 3  # a share is reached, nothing happens, the budget is spent
RUNS = STRUCK_RUNS + 2  # one makes up for what the fault cost, and in the last there is nothing left to do
REGIONS = (REGION, EUROPE)
BEGIN = datetime(2031, 1, 17, 12, tzinfo=timezone.utc)  # in the middle of a month
MONTH = f"{BEGIN:%Y-%m}"
STEP = timedelta(minutes=30)  # so that with one beat lost no hour is without any
HOLDERS = ("account", "untagged", "nlp", "vision")
JOB = "nlp/llama-0123abcd"
RESERVED_USD = 40.0
OLD_PRICES = "ec2:DescribeSpotPriceHistory"
DEARER_USD = 0.3 * 19 / 60  # of the 19 minutes since it fell by so much

# All but what is said of the future, which rests on how long the ledger has been kept.
FACTS = ("budget_usd", "spent_usd", "uncertain_usd", "reserved_usd", "remaining_usd", "usd_per_hour")
FACTS = (*FACTS, "over_budget", "verdict", "mode", "as_of", "reservations", "top", "others", "unpriced", "teams")

_STANDS = re.compile(r"(?:Team (?P<team>\w+)|The account) has spent .*? \((?P<percent>\d+) %\)")


@dataclass
class OneBudgetOfEach(OneOfEach):
    def before(self, run: int) -> None:
        money, aws = self.account, self.account.aws
        if run == 1:
            money.ended(self.ids["over"], BEGIN + timedelta(minutes=7))
        if run == 2:
            aws.set_instance(self.ids["again"], state="running", launch_time=BEGIN + timedelta(minutes=40))

    def run(self, number: int, **how: float) -> Run:
        return self.account.tick_at(BEGIN + number * STEP, **how)

    def world(self) -> dict[str, dict[str, Any]]:
        """No fault changes it, for nothing of EC2 is ever written."""
        return {}

    def kept(self) -> dict[str, Any]:
        found = {}
        for holder in HOLDERS:
            document = self.account.read(_key(holder))
            found[holder] = {fact: self._named(document[fact]) for fact in FACTS if fact in document}
        return found

    def _named(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [{**one, "resource": self.names.get(one["resource"], "a volume")} for one in value]

    def _thing(self, paragraph: str) -> tuple[str, str]:
        stands = _STANDS.match(paragraph)
        if stands is None:
            return super()._thing(paragraph)
        reached = max(share for share in (50, 80, 100) if share <= int(stands["percent"]))
        return stands["team"] or "account", f"{reached} %"


def _key(holder: str) -> str:
    return f"budgets/{MONTH}.json" if holder == "account" else f"budgets/{holder}/{MONTH}.json"


def one_budget_of_each(aws: LocalAws) -> OneBudgetOfEach:
    money = BudgetAccount(aws)
    money.configure(
        account={"monthly_budget_usd": 250},
        teams={
            # Not at 50 %: that would be true, and told, where a region was not seen at first.
            "vision": {"monthly_budget_usd": 120, "over_budget": "stop", "notify_at_percent": [80, 100]},
            "nlp": {"monthly_budget_usd": 1000, "over_budget": "stop"},
        },
    )
    on_spot = {"Team": "nlp", "curfew:job": JOB}
    ids = {
        "dear": money.launch(BEGIN - timedelta(hours=5), "g5.48xlarge"),
        "over": money.launch(BEGIN - timedelta(minutes=40)),
        "again": money.launch(BEGIN - timedelta(days=3)),
        "on Spot": money.launch(BEGIN - timedelta(hours=2), region=EUROPE, tags=on_spot, spot_instance_request="one-time"),
        "nobody's": money.untagged(launched=BEGIN - timedelta(hours=1)),
    }
    money.attached_at(ids["nobody's"], BEGIN - timedelta(hours=1))
    money.ended(ids["again"], BEGIN - timedelta(days=2), "stopped")
    # AWS does not report when a volume was detached, so its cost would depend on the last observation.
    money.detach(ids["over"])
    for usd, since in ((0.4, timedelta(days=-1)), (0.8, timedelta(minutes=17)), (0.5, timedelta(minutes=41))):
        aws.set_spot_price("g5.xlarge", {f"{EUROPE}a": usd}, EUROPE, since=BEGIN + since)
    since, until = BEGIN - timedelta(hours=2), BEGIN + timedelta(days=1)
    for holder in HOLDERS:
        reservation = {"usd": RESERVED_USD, "since": rfc3339(since), "until": rfc3339(until)}
        team = {} if holder == "account" else {"team": holder}
        document = {"schema": 1, **team, "month": MONTH, "as_of": rfc3339(BEGIN - STEP)}
        money.write(_key(holder), {**document, "reservations": {JOB: reservation} if holder == "nlp" else {}})
    return OneBudgetOfEach(money, {**ids, **{holder: holder for holder in HOLDERS}}, "", ())


def never(story: Story) -> Iterator[str]:
    """Nothing ends; no reservation is lost, and no money is counted twice; and after a clean beat all is as it would have been.

    Where Spot prices could not be asked for, the last known one counts until they can, and it was higher."""
    model = faultless_story(PLOT)["runs"]
    most = {holder: 0.0 for holder in HOLDERS}
    for number, (run, clean) in enumerate(zip(story["runs"], model)):
        if run["writes"]:
            yield f"run {number + 1}: {run['writes']} was written"
        struck = {call["action"] for call in run["calls"] if call["fault"]}
        for holder in HOLDERS:
            kept, truth = run["kept"][holder], clean["kept"][holder]
            most[holder] = max(most[holder], truth["spent_usd"])
            differ = {fact: (kept.get(fact), truth.get(fact)) for fact in FACTS if kept.get(fact) != truth.get(fact)}
            if not struck and differ:
                yield f"run {number + 1}: {holder} is not what it should be: {differ}"
            is_guessed = OLD_PRICES in struck and holder in ("nlp", "account")
            if kept.get("spent_usd", 0.0) > most[holder] + (DEARER_USD if is_guessed else 0):
                yield f"run {number + 1}: {holder} has spent {kept['spent_usd']}, and not {truth['spent_usd']}"
            if set(kept.get("reservations", {})) != set(truth.get("reservations", {})):
                yield f"run {number + 1}: {holder} has reserved {kept.get('reservations')}"
            if kept.get("verdict", "ok") not in ("ok", truth["verdict"]):
                yield f"run {number + 1}: {holder} is judged {kept['verdict']}, and not {truth['verdict']}"


PLOT = Plot(
    function="enforce-budgets",
    seed=one_budget_of_each,
    regions=REGIONS,
    deadline_seconds=600,
    struck_runs=STRUCK_RUNS,
    runs=RUNS,
    asked_again=0,
    ended=("terminated",),
    ends=(),
    exemptions=EXEMPTIONS,
    fails=FAILS,
    wrongs=never,
    of_a_look=1,
    hangs=False,  # which cost a minute and a half, and strike the calls that other functions make
)
