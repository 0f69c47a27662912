"""`curfew version`, and the check of that name of `curfew doctor`."""

from __future__ import annotations

import json

import pytest

from command import Said, curfew
from deploying import STACK, Deployment, deploy, doctor, findings, parameters, version
from reaping import BUCKET, Account

NOTICES = "notices/reap-instances/us-east-1.json"


@pytest.fixture
def stack(account: Account) -> Deployment:
    return deploy(account)


def restate(stack: Deployment, outputs: dict[str, str]) -> None:
    stack.account.aws.put_stack(STACK, stack.made, parameters=parameters("enforce"), outputs=outputs)


def asked(stack: Deployment, *arguments: str) -> Said:
    return curfew(stack.environment(), "version", *arguments)


def test_versions_that_fit(stack: Deployment) -> None:
    said = asked(stack).fine()
    assert said.out.splitlines()[:2] == [f"command  {version()}", f"stack    {version()}  (curfew, Mode=enforce)"]
    assert f"bucket   {BUCKET}: {NOTICES} none yet" in said.out
    stack.account.gpu()
    stack.account.tick()
    document = asked(stack, "--json").fine().json()
    assert document["stack"] == {"name": STACK, "version": version(), "mode": "enforce"}
    assert document["bucket"]["documents"][0] == {"key": NOTICES, "found": 2, "known": 2}
    assert (document["state"], document["findings"]) == ("ok", [])
    assert findings(doctor(stack), "version") == []


@pytest.mark.parametrize(("deployed", "where"), [("0.0.9", "stack"), ("99.0.0", "command")])
def test_the_older_one_is_named_with_a_remedy(stack: Deployment, deployed: str, where: str) -> None:
    restate(stack, {"Version": deployed})
    said = asked(stack)
    assert said.code == 1 and f"{where}: it is too old" in said.out and "  -> " in said.out
    [finding] = findings(doctor(stack), "version")
    assert (finding["severity"], finding["where"]) == ("warning", where)


def test_a_stack_that_states_no_version_is_unknown(stack: Deployment) -> None:
    restate(stack, {})
    said = asked(stack, "--json")
    assert said.code == 2 and said.json()["stack"]["version"] is None and said.json()["state"] == "unknown"
    [finding] = findings(doctor(stack), "version")
    assert finding["severity"] == "unknown" and "deploy it again" in finding["remedy"]


def test_documents_of_another_version_are_found(stack: Deployment) -> None:
    stack.account.put(NOTICES, json.dumps({"schema": 3}).encode())
    said = asked(stack)
    assert said.code == 1 and "its schema is 3, and the command reads 2: a newer Curfew wrote it" in said.out
    stack.account.put(NOTICES, b"[1")
    said = asked(stack)
    assert said.code == 2 and NOTICES in said.out


def test_without_credentials_only_the_command_is_known() -> None:
    said = curfew({"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1"}, "version").fine()
    assert said.out == f"command  {version()}\n" and "Only the command: no credentials" in said.err
    assert curfew({}, "--version").out == f"curfew {version()}\n"


def test_without_a_stack_it_says_so_and_a_refusal_is_unknown(account: Account) -> None:
    said = curfew(account.environment(CURFEW_BUCKET=None, CURFEW_TOPIC_ARN=None), "version").fine()
    assert "There is no stack curfew in us-east-1" in said.err
    account.aws.fault("cloudformation:DescribeStacks", "access_denied", times=None)
    said = curfew(account.environment(), "version")
    assert said.code == 2 and "grant cloudformation:DescribeStacks" in said.out
