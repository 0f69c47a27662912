"""`curfew scan --organization`: many accounts side by side, of which none reaches the figures of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from moto.sts.models import AssumedRole

from command import Said, curfew, interrupted
from documented_permissions import permissions
from local_aws import LocalAws
from organization import HUB, ROLE, Member, Organization
from reaping import EUROPE, REGIONS
from template_actions import REPOSITORY, statements_of_role, template

FIRST, SECOND, THIRD = "111122223333", "444455556666", "777788889999"
LOOK_ROLE = template(REPOSITORY / "deploy/organization/look-role.yaml")["Resources"]["LookRole"]["Properties"]
HOURLY = 1.006  # of a g5.xlarge


@pytest.fixture
def company(aws: LocalAws) -> Organization:
    return Organization(aws)


def figures(instances: int = 1, findings: int = 1, usd: float = HOURLY, waste: float = HOURLY) -> dict[str, Any]:
    priced = {"running": {"usd_per_hour": usd, "unknown_prices": 0}, "waste": {"usd_per_hour": waste, "unknown_prices": 0}}
    return {"instances": instances, "gpus": instances, "findings": findings, **priced}


def of(said: Said, account: str) -> dict[str, Any]:
    [found] = [one for one in said.json()["accounts"] if one["account"] == account]
    return found


def test_a_row_of_each_account_and_team_with_its_dollars(company: Organization, aws: LocalAws) -> None:
    first, second = company.member(FIRST, "research"), company.member(SECOND, "production")
    gpu = first.idle(first.gpu())
    second.busy(second.gpu(region=EUROPE), EUROPE), second.gpu(tags={"Team": "nlp"}), second.idle(second.gpu(tags={"Team": "nlp"}))
    company.hub.idle(company.hub.gpu())
    aws.clear_calls()
    said = company.scan("--json")
    document = said.json()
    assert (said.code, document["schema"], document["partition"], document["role"]) == (1, 1, "aws", ROLE)
    assert (document["refused"], document["left_out"], document["unanswered"]) == ([], [], [])
    assert {one["account"] for one in document["accounts"]} == {FIRST, SECOND, HUB} and document["accounts"][0]["account"] == SECOND
    assert of(said, FIRST)["teams"] == [{"team": "vision", **figures()}] and of(said, FIRST)["name"] == "research"
    assert of(said, HUB)["teams"] == [{"team": "vision", **figures()}]
    nlp, vision = of(said, SECOND)["teams"]
    assert (nlp["team"], nlp["instances"], nlp["running"]["usd_per_hour"]) == ("nlp", 2, 2 * HOURLY)
    assert (vision["findings"], vision["running"]["usd_per_hour"], vision["waste"]["usd_per_hour"]) == (0, 1.258, 0.0)
    assert document["total"]["instances"] == 5
    [notable] = of(said, FIRST)["notable"]
    assert (notable["resource"], notable["kinds"], notable["usd_per_hour"]) == (gpu, ["idle"], HOURLY)
    assumed = [call["resources"] for call in aws.calls("sts:AssumeRole")]
    assert len(assumed) == 2 and len({call["access_key"] for call in aws.calls("ec2:DescribeInstances")}) == 3
    assert "3 of 3 accounts, 0 refused" in said.err


def test_a_member_is_asked_for_nothing_that_its_role_lacks(company: Organization, aws: LocalAws) -> None:
    first = company.member(FIRST)
    first.idle(first.gpu()), first.volume()
    aws.clear_calls()
    company.scan("--json", "--accounts", FIRST, "--sagemaker")
    hub = aws.environment()["AWS_ACCESS_KEY_ID"]
    by_member = {action for call in aws.calls() if call["access_key"] != hub for action in call["permissions"]}
    statements = statements_of_role(LOOK_ROLE)
    assert all(one.effect == "Allow" and one.resources == ("*",) for one in statements)
    granted = {one.sid: set(one.actions) for one in statements}
    assert by_member <= set.union(*granted.values()) | {"sts:GetCallerIdentity"} and len(by_member) > 12
    documented = {one for one in permissions("scan") if not one.startswith(("s3:", "pricing:", "sts:", "cloudformation:", "organizations:"))}
    assert set.union(*granted.values()) == documented
    assert [one.only_if for one in statements] == [(), ("HasSageMaker",)]
    assert all(one.split(":")[1].startswith(("Describe", "List", "Get")) for one in documented)
    # The hub asks the Price List, and does not list the accounts if they are named.
    by_hub = {call["action"] for call in aws.calls() if call["access_key"] == hub}
    assert "pricing:GetProducts" in by_hub and "organizations:ListAccounts" not in by_hub and "ec2:DescribeInstances" not in by_hub


def test_the_role_trusts_the_hub_alone() -> None:
    [trust] = LOOK_ROLE["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${HubAccountId}:root"}}
    none = {"Ref": "AWS::NoValue"}
    equals = {
        "aws:PrincipalOrgID": {"Fn::If": ["HasOrganizationId", {"Ref": "OrganizationId"}, none]},
        "sts:ExternalId": {"Fn::If": ["HasExternalId", {"Ref": "ExternalId"}, none]},
    }
    assert trust["Condition"] == {"Fn::If": ["HasTrustCondition", {"StringEquals": equals}, none]}
    assert LOOK_ROLE["RoleName"] == {"Ref": "RoleName"}
    parameters = template(REPOSITORY / "deploy/organization/look-role.yaml")["Parameters"]
    assert parameters["RoleName"]["Default"] == ROLE and "Default" not in parameters["HubAccountId"]


def test_an_account_that_refuses_is_named_and_stops_no_other(company: Organization, aws: LocalAws) -> None:
    first, _, _ = company.member(FIRST), company.member(SECOND, "sandbox"), company.member(THIRD, "old")
    first.idle(first.gpu())
    company.refuse(SECOND)
    company.suspend(THIRD)
    said = company.scan("--json")
    [refused] = said.json()["refused"]
    assert said.code == 1 and (refused["account"], refused["name"]) == (SECOND, "sandbox") and "sts:AssumeRole" in refused["reason"]
    assert said.json()["left_out"] == [{"account": THIRD, "name": "old", "state": "SUSPENDED"}]
    assert of(said, FIRST)["teams"] == [{"team": "vision", **figures()}]
    assert "3 of 3 accounts, 1 refused" in said.err
    shown = company.scan("--quiet").out
    assert f"Left out, as they are not active: {THIRD}." in shown
    assert shown.splitlines()[-1].startswith(f"  {SECOND} sandbox: the role {ROLE} is missing there, or these credentials may not assume it") and "Could not be read: 1 account" in shown
    # Without a finding anywhere what was refused is what counts.
    said = company.scan("--accounts", SECOND)
    assert said.code == 2 and "No account could be read." in said.out


def test_an_account_that_is_seen_nowhere_is_named_with_its_reason(company: Organization, aws: LocalAws) -> None:
    company.member(FIRST)
    for call in ("ec2:DescribeInstances", "ec2:DescribeVolumes"):
        aws.fault(call, "access_denied", times=None)
    said = company.scan("--json", "--accounts", FIRST)
    [refused] = said.json()["refused"]
    assert said.code == 2 and "ec2:DescribeInstances failed in" in refused["reason"] and said.json()["accounts"] == []
    aws.clear_faults()
    aws.fault("ec2:DescribeVolumes", "access_denied", region=EUROPE, times=None)
    said = company.scan("--json", "--accounts", FIRST, "--config", "/dev/null")
    [gap] = of(said, FIRST)["gaps"]
    assert said.code == 2 and (gap["region"], gap["call"]) == (EUROPE, "ec2:DescribeVolumes") and f"warning: {FIRST}: ec2:DescribeVolumes" in said.err
    assert "in 1 account, but not everything could be seen." in company.scan("--accounts", FIRST, "--config", "/dev/null").out


def test_without_the_price_list_the_table_counts_and_is_named_once(company: Organization, aws: LocalAws) -> None:
    for account in (FIRST, SECOND):
        member = company.member(account)
        member.idle(member.gpu())
    aws.fault("pricing:GetProducts", "access_denied", times=None)
    said = company.scan("--json")
    assert of(said, FIRST)["teams"] == of(said, SECOND)["teams"] == [{"team": "vision", **figures()}]
    assert said.err.count("Prices are those of tables") == 1 and said.code == 1


# Attacks of one account on another's figures


def test_credentials_of_another_account_than_asked_count_for_none(company: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = company.member(FIRST), company.member(SECOND)
    second.idle(second.gpu()), first.idle(first.gpu())
    honest = AssumedRole.arn.fget
    monkeypatch.setattr(AssumedRole, "arn", property(lambda role: honest(role).replace(FIRST, SECOND)))
    said = company.scan("--json", "--accounts", f"{FIRST},{SECOND}")
    [refused] = said.json()["refused"]
    assert refused["account"] == FIRST and f"STS answered with credentials of the account {SECOND}" in refused["reason"]
    assert [(one["account"], one["teams"]) for one in said.json()["accounts"]] == [(SECOND, [{"team": "vision", **figures()}])]


def test_the_tags_of_an_account_change_no_row_of_another(company: Organization, aws: LocalAws) -> None:
    """It takes the name and the team of the other, and says that its machines belong to a job of the hub."""
    first, hostile = company.member(FIRST, "research"), company.member(SECOND, "research")
    first.idle(first.gpu())
    before = of(company.scan("--json", "--accounts", FIRST), FIRST)
    for tags in ({"Name": FIRST}, {"curfew:job": "vision/llama-0123abcd"}, {"Team": "\u202evision"}):
        hostile.idle(hostile.gpu(tags=tags))
    aws.clear_calls()
    said = company.scan("--json")
    found = of(said, FIRST)
    assert (found["teams"], found["notable"], found["total"]) == (before["teams"], before["notable"], before["total"])
    assert of(said, SECOND)["total"]["instances"] == 3
    assert not [call for call in aws.calls() if call["action"].startswith("s3:")]


def test_hostile_names_stay_in_their_cell(company: Organization) -> None:
    hostile = company.member(FIRST, "\x1b[2Jresearch\r\n\u202e999999999999  $0.00")
    hostile.idle(hostile.gpu(tags={"Team": "\x9b31mnlp\u2066", "Name": "a\nb"}))
    for arguments in ((), ("--json",)):
        said = company.scan(*arguments)
        for text in (said.out, said.err):
            assert not any(letter in text for letter in "\x1b\x9b\r\u202e\u2066\u2028"), text
    assert of(said, FIRST)["name"] == "\x1b[2Jresearch\r\n\u202e999999999999  $0.00"
    shown = company.scan("--quiet").out
    [row] = [line for line in shown.splitlines() if FIRST in line]
    assert "1.01" in row and row.count("999999999999") == 1


# Continuing


def test_a_scan_that_was_interrupted_continues(company: Organization, aws: LocalAws, tmp_path: Path) -> None:
    first, second = company.member(FIRST), company.member(SECOND)
    first.idle(first.gpu()), second.idle(second.gpu(region=EUROPE), EUROPE)
    file = tmp_path / "accounts.jsonl"
    aws.fault("sts:AssumeRole", "slow", seconds=600, match=SECOND)
    said = interrupted(aws.environment(), "scan", "--organization", "--resume", str(file), after="2 of 3 accounts")
    assert said.code == 2
    assert f"interrupted: not read are {SECOND}\n" in said.out
    aws.clear_faults()
    company.aws.fault("cloudformation:DescribeStackResources", "custom", code="ValidationError", message="Stack with id curfew does not exist", times=None)
    aws.clear_calls()
    continued = company.scan("--json", "--resume", str(file))
    assert len(aws.calls("sts:AssumeRole")) == 1 and "2 of them are in the file already" in continued.err
    aws.clear_calls()
    assert company.scan("--json", "--resume", str(file)).json()["accounts"] == continued.json()["accounts"]
    assert not aws.calls("sts:AssumeRole") and file.stat().st_mode & 0o777 == 0o600
    once = company.scan("--json").json()["accounts"]
    assert [(one["account"], one["total"]) for one in once] == [(one["account"], one["total"]) for one in continued.json()["accounts"]]


def test_a_file_of_something_else_stays_as_it_is(company: Organization, tmp_path: Path) -> None:
    company.member(FIRST)
    file = tmp_path / "accounts.jsonl"
    company.scan("--quiet", "--resume", str(file))
    scanned = file.read_text()
    old = json.loads(scanned.splitlines()[0])
    old["started_at"] = "2020-01-01T00:00:00Z"
    for text, arguments, expect in (
        (scanned, ("--role", "other"), "its scan has the role curfew-look"),
        (scanned, ("--accounts", FIRST), "its scan has other accounts"),
        (scanned, ("--regions", EUROPE), "its scan has other regions"),
        (scanned + "{\n", (), "line 4 is none of a scan of accounts"),
        (json.dumps(old) + "\n", (), "its scan began at 2020-01-01T00:00:00Z, not within the last 24 hours"),
        ("the only copy of a thesis", (), "line 1 is none of a scan of accounts"),
    ):
        file.write_text(text)
        said = company.scan("--resume", str(file), *arguments)
        assert said.code == 2 and expect in said.err and "name another file" in said.err and not said.out, said
        assert file.read_text() == text
    said = company.scan("--resume", str(tmp_path))
    assert said.code == 2 and "--resume" in said.err


# What may be asked


def test_accounts_come_from_a_file(company: Organization, tmp_path: Path) -> None:
    company.member(FIRST), company.member(SECOND)
    file = tmp_path / "accounts"
    file.write_text(f"# ours\n{SECOND} # sandbox\n")
    said = company.scan("--json", "--accounts", f"@{file}")
    assert said.code == 0 and [one["account"] for one in said.json()["accounts"]] == [SECOND]
    assert "Nothing runs, and nothing was found, in 1 account." in company.scan("--accounts", f"@{file}").out


@pytest.mark.parametrize(
    ("arguments", "expect"),
    [
        (("--accounts", "1234"), "write 12 digits"),
        (("--accounts", f"{FIRST},{FIRST}"), "is there twice"),
        (("--accounts", "@/nowhere"), "No such file"),
        (("--role", "a b"), "is no name of a role"),
        (("--external-id", "x"), "no external id"),
    ],
)
def test_what_cannot_be_meant_is_an_error_before_any_account_is_asked(company: Organization, aws: LocalAws, arguments: tuple[str, ...], expect: str) -> None:
    said = company.scan(*arguments)
    assert said.code == 2 and expect in said.err and not said.out and not aws.calls("sts:AssumeRole")


def test_one_account_sees_nothing_of_it(company: Organization, aws: LocalAws) -> None:
    hub: Member = company.hub
    hub.idle(hub.gpu())
    aws.clear_calls()
    document = curfew(aws.environment(), "scan", "--json", "--quiet").json()
    assert set(document) == {"schema", "at", "regions", "seen", "findings", "kinds", "teams", "total", "gaps", "unanswered"}
    assert document["regions"] == REGIONS
    assert not {"sts:AssumeRole", "sts:GetCallerIdentity", "organizations:ListAccounts"} & set(aws.counts())
    said = curfew(aws.environment(), "scan", "--role", "look")
    assert said.code == 2 and "--organization" in said.err
