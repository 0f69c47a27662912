"""The hub of an organization: what the real functions publish there, and what the hub reports on all accounts.

IAM keeps accounts apart (test_template_hub.py); here is what an account can do with the objects that IAM lets it write.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from command import Said, curfew
from local_aws import LocalAws
from local_aws.client import ACCOUNT
from organization import MemberAws
from reaping import BUCKET, Account, ago, now, rfc3339, within_a_month
from reaping_budgets import BudgetAccount, month

HUB = "curfew-hub"
MEMBER, LIAR = "111122223333", "444455556666"


class ReportAccount(Account):
    function = "send-report"


class Hub:
    """The bucket, as its own account and as members see it."""

    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws
        aws.client("s3").create_bucket(Bucket=HUB)

    def keys(self, prefix: str = "") -> list[str]:
        listed = self.aws.client("s3").list_objects_v2(Bucket=HUB, Prefix=prefix)
        return [one["Key"] for one in listed.get("Contents", [])]

    def text(self, key: str) -> str:
        return self.aws.client("s3").get_object(Bucket=HUB, Key=key)["Body"].read().decode()

    def publish(self, account: str, document: bytes | dict[str, Any], of: str, kind: str = "") -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        MemberAws(self.aws, account).client("s3").put_object(Bucket=HUB, Key=f"accounts/{account}/figures/{of}{kind}.json", Body=body)

    def report(self, folder: Path, *arguments: str) -> Said:
        page = str(folder / "organization.html")
        return curfew(self.aws.environment(), "report", "--organization", "--hub", HUB, "--output", page, *arguments)


@pytest.fixture
def hub(aws: LocalAws) -> Hub:
    return Hub(aws)


@pytest.fixture
def sender(aws: LocalAws, hub: Hub) -> Iterator[ReportAccount]:
    """The account of the hub, in which teams vision and nlp have spent something."""
    with BudgetAccount(aws) as money, ReportAccount(aws, heard=False) as sender:
        money.launch(ago(hours=5))
        money.launch(ago(hours=5), tags={"Team": "nlp"})
        at = within_a_month()
        money.restart(CURFEW_HUB_BUCKET=HUB)
        money.tick_at(at)
        sender.move_to(at)
        sender.restart(CURFEW_HUB_BUCKET=HUB, CURFEW_ORGANIZATION_REPORT="yes")
        yield sender


def published(teams: dict[str, float], of: str, **over: Any) -> dict[str, Any]:
    spends = [{"team": team, "spent": {"usd": usd, "unknown": 0}} for team, usd in teams.items()]
    return {"schema": 1, "account_name": "research", "month": of, "as_of": rfc3339(now()), "teams": spends, **over}


def gaps_of_hub(run: Any, name: str = HUB) -> list[dict[str, Any]]:
    return [gap for gap in run.gaps if name in gap["error"]]


def month_of(account: Account) -> str:
    """That of its reports: on the first of a month, hours ago are of the month before."""
    return max(key.split("/")[1] for key in account.keys("ledger/"))


def test_a_beat_publishes_its_teams_and_nothing_else(aws: LocalAws, hub: Hub) -> None:
    with BudgetAccount(aws) as money:
        gpu = money.launch(ago(hours=2), tags={"Owner": "ada", "Name": "secret-project"})
        money.budgets(vision={"monthly_budget_usd": 100})
        aws.clear_calls()
        money.tick()
        assert not any(HUB in str(call["resources"]) for call in aws.calls()) and hub.keys() == []
        money.restart(CURFEW_HUB_BUCKET=HUB)
        assert gaps_of_hub(money.tick()) == []
        [key] = hub.keys()
        assert key == f"accounts/{ACCOUNT}/figures/{month()}.json"
        text = hub.text(key)
        [vision] = json.loads(text)["teams"]
        assert (vision["team"], vision["budget_usd"], vision["spent"]["unknown"]) == ("vision", 100, 0)
        assert vision["spent"]["usd"] == money.document("vision")["spent_usd"] > 0
        assert not [one for one in (gpu, "ada", "secret-project", "g5.xlarge") if one in text]


def test_a_hub_that_refuses_is_a_gap_and_stops_nothing(aws: LocalAws, hub: Hub) -> None:
    with BudgetAccount(aws) as money:
        money.launch(ago(hours=2))
        money.restart(CURFEW_HUB_BUCKET=HUB)
        # Once: the audit record names the object, too.
        aws.fault("s3:PutObject", "access_denied", match=f"accounts/{ACCOUNT}/figures/")
        run = money.tick()
        [gap] = gaps_of_hub(run)
        assert gap["call"] == "s3:PutObject" and f"s3://{HUB}/accounts/{ACCOUNT}/figures/" in gap["error"]
        assert money.document("vision")["spent_usd"] > 0 and money.audit(run)["function"] == "enforce-budgets"
        aws.clear_faults()
        money.restart(CURFEW_HUB_BUCKET="curfew-gone")
        [gap] = gaps_of_hub(money.tick(), "curfew-gone")
        assert "there is no bucket curfew-gone" in gap["error"]


def test_the_hub_reports_on_all_accounts(hub: Hub, sender: ReportAccount) -> None:
    of = month_of(sender)
    hub.publish(MEMBER, published({"vision": 7.5, "=HYPERLINK(1)": 1}, of, as_of=rfc3339(within_a_month())), of)
    run = sender.tick()
    assert gaps_of_hub(run) == [] and f"accounts/{ACCOUNT}/figures/{of}.report.json" in hub.keys()
    [own, organization] = run.messages
    assert " in 2 accounts" in organization["message"].splitlines()[0] and " in 2 accounts" not in own["message"]
    [page] = [key for key in sender.keys("reports/") if key.endswith("/organization.html")]
    shown = sender.aws.client("s3").get_object(Bucket=BUCKET, Key=page)["Body"].read().decode()
    assert f"research ({MEMBER})" in shown and "Teams across accounts" in shown
    # Partitions by account and month, and the tables that read them.
    rows = {}
    for account in (ACCOUNT, MEMBER):
        teams = list(csv.DictReader(hub.text(f"exports/teams/account={account}/month={of}/teams.csv").splitlines()))
        focus = list(csv.DictReader(hub.text(f"exports/focus/account={account}/month={of}/curfew-focus.csv").splitlines()))
        assert {row["account_id"] for row in teams} == {row["SubAccountId"] for row in focus} == {account}
        rows[account] = {row["team"]: row["spent_usd"] for row in teams}
    assert rows[MEMBER] == {"vision": "7.500000", "'=HYPERLINK(1)": "1.000000"} and set(rows[ACCOUNT]) >= {"vision", "nlp"}
    for account in (ACCOUNT, MEMBER):
        parquet = hub.aws.client("s3").get_object(Bucket=HUB, Key=f"exports/teams-parquet/account={account}/month={of}/teams.parquet")
        content = parquet["Body"].read()
        assert content[:4] == content[-4:] == b"PAR1" and parquet["ContentType"] == "application/vnd.apache.parquet"
        assert account.encode() in content and (b"=HYPERLINK(1)" in content) == (account == MEMBER)
    tables = hub.text("exports/tables.sql")
    assert f"s3://{HUB}/exports/teams/account=${{account}}/month=${{month}}/" in tables and f"'{MEMBER},{ACCOUNT}'" in tables
    # The second run of a day renews the page, and sends nothing.
    assert sender.tick().messages == []


def test_what_an_account_claims_changes_no_figure_of_another(hub: Hub, sender: ReportAccount, tmp_path: Path) -> None:
    of = month_of(sender)
    honest = published({"vision": 7.5}, of)
    hub.publish(MEMBER, honest, of)
    at = ("--month", of, "--json")

    def row(account: str) -> dict[str, Any]:
        [found] = [one for one in hub.report(tmp_path, *at).json()["accounts"] if one["account"] == account]
        return found

    before = row(MEMBER)
    lies: list[tuple[bytes | dict[str, Any], str]] = [
        (b"{", "cannot be understood"),
        (b" " * (1024 * 1024 + 1), "bytes"),
        (published({"vision": 1e300}, of), "is no amount of money of one month"),
        (published({f"team-{number}": 1 for number in range(101)}, of), "they have 101 teams"),
        (published({}, of, as_of=rfc3339(now() + timedelta(days=400))), "of the future"),
        (published({}, "2020-01"), "they say that they are of"),
        ({**published({}, of), "schema": 99}, "schema"),
        ({"schema": 1, "account": MEMBER}, "missing field"),
    ]
    for document, why in lies:
        hub.publish(LIAR, document, of)
        said = hub.report(tmp_path, *at)
        assert said.code == 2 and any(why in gap and f"figures of {LIAR}: " in gap for gap in said.json()["gaps"]), (why, said.json()["gaps"])
        # It is unknown, and makes the sum a lower bound.
        assert row(LIAR)["spent"] == {"usd": None, "unknown": 1} and said.json()["spent"]["unknown"] > 0
        assert row(MEMBER) == before
    # Whatever it says about itself, its figures are those of the account that wrote them.
    hub.publish(LIAR, {**published({"vision": 2.5}, of), "account": MEMBER}, of)
    assert (row(LIAR)["spent"]["usd"], row(MEMBER)) == (2.5, before)


def test_accounts_that_publish_nothing_are_named(hub: Hub, sender: ReportAccount, tmp_path: Path) -> None:
    never, of = "777788889999", month()
    hub.publish(MEMBER, published({"vision": 7.5}, of, as_of=rfc3339(now() - timedelta(hours=30))), of)
    said = hub.report(tmp_path, "--accounts", f"{MEMBER},{never}")
    assert said.code == 2
    assert f"{never}: no figures of this month or the one before." in said.out
    # On the first day of a month these figures are older than the month.
    assert f"{MEMBER}" in said.out and ("not heard of since" in said.out or "older than their month" in said.out)
    page = (tmp_path / "organization.html").read_text(encoding="utf-8")
    assert "Accounts that publish nothing" in page and never in page


def test_a_report_finds_the_hub_of_the_stack(aws: LocalAws, hub: Hub, tmp_path: Path) -> None:
    def report() -> Said:
        return curfew(aws.environment(), "report", "--organization", "--output", str(tmp_path / "page.html"))

    said = report()
    assert said.code == 2 and "no hub is named, and the stack curfew has none" in said.err
    aws.put_stack("curfew", {}, parameters={"HubBucket": HUB})
    hub.publish(MEMBER, published({"vision": 7.5}, month()), month())
    shared = f'[teams.vision]\nmonthly_budget_usd = 500\nbudget_accounts = ["{ACCOUNT}", "{MEMBER}"]\n'
    aws.client("s3").put_object(Bucket=HUB, Key="config/curfew.toml", Body=shared.encode())
    said = report()
    assert said.code == 0 and "at least $7.50  vision in 2 accounts, of $500.00" in said.out, said


def test_without_any_account_there_is_no_report(aws: LocalAws, tmp_path: Path) -> None:
    # Of no account anything is known: that is no report, and replaces none.
    page = tmp_path / "organization.html"
    page.write_text("an earlier page", encoding="utf-8")
    aws.client("s3").create_bucket(Bucket="no-hub")
    reasons = {"nosuchbucket": "name the bucket of the organization", "no-hub": "no account has published its figures in s3://no-hub"}
    for bucket, why in reasons.items():
        for form in ([], ["--json"]):
            said = curfew(aws.environment(), "report", "--organization", "--hub", bucket, "--output", str(page), *form)
            assert said.code == 2 and why in said.err and "$0.00" not in said.out, (said.out, said.err)
    assert page.read_text(encoding="utf-8") == "an earlier page"


def test_an_account_that_sees_nothing_publishes_nothing(aws: LocalAws, hub: Hub) -> None:
    with BudgetAccount(aws) as money:
        money.restart(CURFEW_HUB_BUCKET=HUB)
        aws.fault("ec2:DescribeInstances", "access_denied", times=None)
        assert "no region could be read" in money.tick().error and hub.keys() == []
        aws.clear_faults()
        assert gaps_of_hub(money.tick()) == []
        [key] = hub.keys()
        known = hub.text(key)
        aws.fault("ec2:DescribeInstances", "access_denied", times=None)
        money.tick()
        assert hub.keys() == [key] and hub.text(key) == known, "a later time would make its figures young"
