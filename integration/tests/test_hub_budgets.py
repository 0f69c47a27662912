"""A team's budget that several accounts share: the hub's sums, and what each account makes of its own.

IAM keeps accounts apart (test_template_hub.py); here the real `enforce-budgets` runs in the account of the hub, which shares budgets, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from command import curfew
from local_aws import LocalAws
from local_aws.client import ACCOUNT
from reaping import BUCKET, Run, ago, now, rfc3339
from reaping_budgets import BudgetAccount, month
from test_hub import HUB, LIAR, MEMBER, Hub, gaps_of_hub, published

STRANGER = "999988887777"


class SharingAccount(BudgetAccount):
    """The account of the hub, whose team vision shares its budget with two others."""

    hub: Hub

    def share(self, usd: float, accounts: tuple[str, ...] = (ACCOUNT, MEMBER, LIAR), lines: str = "") -> None:
        """What reap-instances has read from the hub."""
        text = f'mode = "enforce"\n[teams.vision]\nmonthly_budget_usd = {usd}\nover_budget = "hold"\nbudget_accounts = {json.dumps(accounts)}\n{lines}'
        self.aws.client("s3").put_object(Bucket=BUCKET, Key="config/hub.toml", Body=text.encode(), Metadata={"hub": HUB})

    def sums(self, account: str = ACCOUNT) -> dict[str, Any]:
        return json.loads(self.hub.text(f"sums/{account}/{month()}.json"))

    def write_sums(self, document: dict[str, Any] | bytes) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.aws.client("s3").put_object(Bucket=HUB, Key=f"sums/{ACCOUNT}/{month()}.json", Body=body)

    def shared(self) -> dict[str, Any]:
        return self.document("vision")["shared"]

    def tick_alone(self) -> Run:
        """A beat of an account that is not the hub's: it reads its sums, and makes none."""
        self.restart(CURFEW_HUB_BUCKET=HUB)
        return self.tick()


@pytest.fixture
def sharing(aws: LocalAws) -> Iterator[SharingAccount]:
    with SharingAccount(aws) as account:
        account.hub = Hub(aws)
        account.launch(ago(hours=1))
        account.restart(CURFEW_HUB_BUCKET=HUB, CURFEW_ORGANIZATION_REPORT="yes")
        yield account


def team(sums: dict[str, Any], name: str = "vision") -> dict[str, Any]:
    [found] = [one for one in sums["teams"] if one["team"] == name]
    return found


def test_accounts_share_a_budget_by_the_hubs_sum(sharing: SharingAccount, aws: LocalAws) -> None:
    sharing.share(500)
    sharing.hub.publish(MEMBER, published({"vision": 300, "nlp": 9}, month()), month())
    sharing.hub.publish(LIAR, published({"vision": 250}, month()), month())
    sharing.hub.publish(STRANGER, published({"vision": 1e6}, month()), month())
    run = sharing.tick()
    # No sum was made before.
    assert sharing.shared()["counts"] == "own" and "has no sum of" in sharing.shared()["reason"]
    assert run.steps == []
    # Around the end of a month the hub sums two.
    made = [key for key in sharing.hub.keys("sums/") if key.endswith(f"/{month()}.json")]
    assert sorted(made) == [f"sums/{one}/{month()}.json" for one in sorted((ACCOUNT, MEMBER, LIAR))]
    sum_of = team(sharing.sums(MEMBER))
    own = sharing.document("vision")["spent_usd"]
    assert sum_of["total"] == {"usd": pytest.approx(550 + own, abs=0.01), "unknown": 0}
    assert [share["account"] for share in sum_of["shares"]] == sorted((ACCOUNT, MEMBER, LIAR))
    # The next beat counts the others by it, and its own present spend.
    run = sharing.tick()
    document = sharing.document("vision")
    assert run.gaps == [] and run.said("vision") == ("hold", "over-budget", "done")
    assert (document["verdict"], document["spent_usd"], document["remaining_usd"]) == ("hold", pytest.approx(own, abs=0.1), 0)
    assert (document["shared"]["counts"], document["shared"]["others"]) == ("sum", {"usd": 550, "unknown": 0})
    [message] = [one["message"] for one in run.messages]
    assert "3 accounts share the budget; the 2 other accounts spent $550.00, by the hub's sum of" in message
    said = curfew(sharing.environment(CURFEW_HUB_BUCKET=HUB), "budget", "vision")
    assert said.code == 1 and "3 accounts share the budget; the 2 other accounts spent $550.00, by the hub's sum of" in said.out
    assert "over: no new jobs" in said.out
    # Figures that an account publishes are its own spend alone.
    figures = json.loads(sharing.hub.text(f"accounts/{ACCOUNT}/figures/{month()}.json"))
    assert figures["teams"][0]["spent"]["usd"] == document["spent_usd"]


def test_what_a_named_account_publishes_makes_its_own_share_unknown(sharing: SharingAccount) -> None:
    sharing.share(500, lines=f'[teams.nlp]\nmonthly_budget_usd = 50\nbudget_accounts = ["{ACCOUNT}", "{MEMBER}"]\n')
    sharing.hub.publish(MEMBER, published({"vision": 3, "nlp": 9}, month()), month())
    spent = {"schema": 1, "month": month(), "as_of": rfc3339(now())}
    lies: list[bytes | dict[str, Any]] = [
        b"{",
        b" " * (1024 * 1024 + 1),
        json.dumps({**spent, "teams": [{"team": "vision", "spent": {"usd": float("nan"), "unknown": 0}}]}).encode(),
        {**spent, "teams": [{"team": "vision", "spent": {"usd": -5, "unknown": 0}}]},
        published({"vision": 1e300}, month()),
        published({"vision": 5}, "2020-01"),
        published({"vision": 5}, month(), as_of=rfc3339(now() + timedelta(hours=5))),
    ]
    for lie in lies:
        sharing.hub.publish(LIAR, lie, month())
        run = sharing.tick()
        assert [gap for gap in run.gaps if LIAR in gap["error"]], (lie[:60] if isinstance(lie, bytes) else lie, run.gaps)
        found = team(sharing.sums(MEMBER))
        assert found["total"]["unknown"] == 1 and 3 <= found["total"]["usd"] < 10
        [share] = [one for one in found["shares"] if one["account"] == LIAR]
        assert share == {"account": LIAR, "spent": {"usd": None, "unknown": 1}, "problem": "refused"}
        assert team(sharing.sums(MEMBER), "nlp")["total"] == {"usd": 9, "unknown": 0}
    # Whatever account it names inside: it is its own share. Other teams of its change nothing.
    sharing.hub.publish(LIAR, {**published({"vision": 5, "nlp": 1e6}, month()), "account": MEMBER}, month())
    assert sharing.tick().gaps == []
    assert team(sharing.sums())["total"]["unknown"] == 0 and team(sharing.sums(), "nlp")["total"] == {"usd": 9, "unknown": 0}
    assert [one["team"] for one in sharing.sums(LIAR)["teams"]] == ["vision"]


def test_without_a_young_sum_the_own_spend_counts_and_that_is_said(sharing: SharingAccount, aws: LocalAws) -> None:
    sharing.share(500)
    sharing.hub.publish(MEMBER, published({"vision": 300}, month()), month())
    sharing.hub.publish(LIAR, published({"vision": 300}, month()), month())
    sharing.tick()
    fresh = sharing.sums()
    assert sharing.tick_alone().said("vision") == ("hold", "over-budget", "done")
    cases: list[tuple[bytes | dict[str, Any], str]] = [
        ({**fresh, "made_at": rfc3339(now() - timedelta(minutes=61))}, "more than an hour ago"),
        ({**fresh, "made_at": rfc3339(now() + timedelta(minutes=30))}, "of the future"),
        ({**fresh, "account": MEMBER}, "of another account or month"),
        ({**fresh, "month": "2020-01"}, "of another account or month"),
        ({**fresh, "schema": 99}, "schema"),
        (b"[]", "expected an object"),
    ]
    for document, why in cases:
        sharing.write_sums(document)
        run = sharing.tick()
        assert any(why in gap["error"] for gap in run.gaps), (why, run.gaps)
        shared = sharing.shared()
        assert (shared["counts"], shared["others"]) == ("own", {"usd": None, "unknown": 1}) and why in shared["reason"]
        assert sharing.document("vision")["verdict"] == "ok"
    said = curfew(sharing.environment(CURFEW_HUB_BUCKET=HUB), "budget", "vision")
    assert said.code == 0 and "3 accounts share the budget, and only this one counts: " in said.out
    sharing.write_sums(fresh)
    aws.fault("s3:GetObject", "access_denied", match=f"sums/{ACCOUNT}/", times=None)
    [gap] = gaps_of_hub(sharing.tick())
    assert f"sums/{ACCOUNT}/" in gap["error"] and sharing.shared()["counts"] == "own"


def test_an_account_without_a_part_in_it_makes_no_call_more(sharing: SharingAccount, aws: LocalAws) -> None:
    sharing.share(500, (MEMBER, LIAR))
    aws.clear_calls()
    assert "sums/" not in str([call["resources"] for call in sharing.tick_alone().calls])
    assert "shared" not in sharing.document("vision")
    sharing.share(500)
    sharing.restart(CURFEW_HUB_BUCKET="")
    assert HUB not in str([call["resources"] for call in sharing.tick().calls]) and "shared" not in sharing.document("vision")


def test_an_account_cannot_let_others_share_its_budget(sharing: SharingAccount) -> None:
    sharing.write_config(f'[teams.vision]\nmonthly_budget_usd = 5\nbudget_accounts = ["{ACCOUNT}", "{MEMBER}"]\n')
    said = curfew(sharing.environment(), "budget")
    assert said.code == 2 and "only the hub of the organization can let accounts share a budget" in said.err
