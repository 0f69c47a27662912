"""`curfew budget`: where budgets stand, by their documents in the state bucket."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from command import Said, curfew
from reaping import Account, ago, now, rfc3339


def budget(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), "budget", *arguments)


def month(at: datetime | None = None) -> str:
    return (at or now()).strftime("%Y-%m")


def key(team: str | None, at: str) -> str:
    return f"budgets/{team}/{at}.json" if team else f"budgets/{at}.json"


def write(account: Account, team: str | None = "vision", at: str | None = None, **fields: Any) -> None:
    """84 % of $5,000, three minutes ago, unless fields say otherwise."""
    document = {
        "schema": 1,
        "team": team,
        "month": at or month(),
        "as_of": rfc3339(ago(minutes=3)),
        "budget_usd": 5000,
        "spent_usd": 4210.13,
        "reserved_usd": 0,
        "forecast_usd": 4900,
        "forecast_method": "as much a day as in the last 7 days",
        "remaining_usd": 789.87,
        "usd_per_hour": 12.3,
        "verdict": "ok",
        "mode": "enforce",
        "others": {"count": 0, "usd": 0},
        **fields,
    }
    document = {name: value for name, value in document.items() if value is not None}
    account.put(key(team, document["month"]), json.dumps(document).encode())


def rows(said: Said) -> list[str]:
    """Of the table, from its headings on."""
    return said.out.splitlines()[2:]


def test_every_budget_the_nearest_to_its_end_first(account: Account) -> None:
    write(account, None, budget_usd=None, spent_usd=6210.5, forecast_usd=8000)
    write(account, "nlp", spent_usd=100, forecast_usd=5100)
    write(account)
    write(account, "untagged", budget_usd=None, spent_usd=12, forecast_usd=None)
    account.aws.clear_calls()
    said = budget(account).fine()
    assert sorted(call["action"] for call in account.aws.calls()) == ["s3:GetObject"] * 6 + ["s3:ListObjectsV2"]
    assert said.out.startswith(f"{month()}\n")
    heading, *lines = rows(said)
    assert heading.split() == ["team", "budget", "spent", "%", "forecast", "verdict", "reserved", "as", "of"]
    assert [re.split(r" {2,}", line)[:6] for line in lines] == [
        ["(account)", "-", "$6,210.50", "-", "$8,000.00", "no budget"],
        ["vision", "$5,000.00", "$4,210.13", "84", "$4,900.00", "ok"],
        ["nlp", "$5,000.00", "$100.00", "2", "$5,100.00", "ok; the forecast exceeds it"],
        ["(no team)", "-", "$12.00", "-", "-", "no budget"],
    ]
    assert all(re.search(r"3m(\d+s)? ago$", line) for line in lines)
    assert "curfew budget vision" in said.err and "warning" not in said.err
    whole = budget(account, "--json").fine().json()
    assert (whole["schema"], whole["month"], whole["time_zone"], whole["problems"]) == (1, month(), "UTC", [])
    of_account, of_team, *_ = whole["budgets"]
    assert (of_account["of"], of_account["team"], of_team["of"], of_team["team"]) == ("account", None, "team", "vision")
    assert (of_team["state"], of_team["over"], of_team["percent"], of_team["forecast_percent"]) == ("fresh", False, 84, 98)
    assert of_team["budget"]["spent_usd"] == 4210.13 and of_team["budget"]["usd_per_hour"] == 12.3


def test_an_exceeded_budget_in_detail(account: Account) -> None:
    spender = {"region": "us-east-1", "what": "p5.48xlarge", "usd": 3302.4, "usd_per_hour": 55.04, "running": True}
    top = [{"resource": "i-0aaa", "name": "llama", "owner": "ada", **spender}]
    write(account, None, budget_usd=None)
    write(account, spent_usd=5000.01, verdict="hold", mode="observe", top=top, remedy=["stop i-0aaa, which saves $55.04/h"])
    said = budget(account, "vision")
    assert said.code == budget(account).code == 1
    assert re.match(rf"vision, {month()}, as of \d{{4}}-\d\d-\d\d \d\d:\d\d UTC \(3m(\d+s)? ago\)\n", said.out)
    for line in (
        r"verdict +over: no new jobs in enforce mode",
        r"spent +\$5,000.01  100 % of the budget.*",
        r"\$3,302.40 +\$55.04/h  i-0aaa +p5.48xlarge +llama +ada +us-east-1",
        r"- stop i-0aaa, which saves \$55.04/h",
    ):
        assert re.search(rf"^{line}$", said.out, re.MULTILINE), (line, said.out)


# Unknown


def test_a_damaged_document_is_a_warning(account: Account) -> None:
    """The others are shown."""
    write(account, None)
    write(account)
    account.put(key("nlp", month()), b"{")
    account.put(key("other", month()), b'{"schema": 7}')
    account.put("budgets/notes.txt", b"")
    account.put(f"budgets/deep/er/{month()}.json", b"{}")
    said = budget(account)
    assert said.code == 2 and len(rows(said)) == 3 and said.err.count("warning: a budget could not be read: ") == 2
    assert "cannot be understood" in said.err and "schema 7" in said.err
    assert len(budget(account, "--json").json()["problems"]) == 2
    said = budget(account, "nlp")
    assert said.code == 2 and said.out == "" and "cannot be understood" in said.err
