"""`curfew mode`: the brake works with the stack's own template, and changes one parameter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from command import Said, curfew
from deploying import STACK, Deployment, deploy, parameters
from reaping import Account
from terminal import Terminal


@pytest.fixture
def stack(account: Account) -> Iterator[Deployment]:
    stack = deploy(account, mode="enforce")
    account.aws.clear_calls()
    yield stack


def mode(stack: Deployment, *arguments: str) -> Said:
    return curfew(stack.environment(), "mode", *arguments)


def deployed(stack: Deployment) -> dict[str, str]:
    """The parameters of the stack."""
    [found] = stack.account.aws.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    return {one["ParameterKey"]: one["ParameterValue"] for one in found["Parameters"]}


def test_the_brake_needs_no_question_and_one_call_before_the_update(stack: Deployment) -> None:
    said = mode(stack, "observe").fine()
    assert said.out == "curfew: the mode is observe (it was enforce)\n"
    assert "Mode: enforce -> observe: no action from the next run on" in said.err
    assert "UPDATE_IN_PROGRESS" in said.err
    calls = [call["action"] for call in stack.account.aws.calls()]
    assert calls[:2] == ["cloudformation:DescribeStacks", "cloudformation:UpdateStack"]
    assert deployed(stack) == parameters("observe")


def test_what_is_so_already_is_no_update(stack: Deployment) -> None:
    said = mode(stack, "enforce", "--json").fine()
    assert said.json() == {
        **{"schema": 1, "stack": STACK, "outcome": "unchanged", "from": "enforce", "to": "enforce"},
        "status": "CREATE_COMPLETE",
    }
    assert "cloudformation:UpdateStack" not in stack.account.aws.counts()


def test_enforce_says_on_whom_and_asks(account: Account) -> None:
    stack = deploy(account, mode="observe")
    account.write_config('[teams.vision]\nmode = "enforce"\n')
    said = mode(stack, "enforce")
    assert said.code == 2 and "--yes" in said.err and deployed(stack)["Mode"] == "observe"
    assert "By the configuration they act on: vision;" in said.err
    terminal = Terminal(stack.environment(), "mode", "enforce")
    terminal.wait_for("[y/N]")
    terminal.type("n\n")
    assert terminal.end() == 1 and "it was not confirmed" in terminal.shown
    assert mode(stack, "enforce", "--yes").fine().out.startswith("curfew: the mode is enforce")
    assert deployed(stack)["Mode"] == "enforce"


def test_without_waiting_the_update_has_begun(stack: Deployment) -> None:
    said = mode(stack, "observe", "--no-wait", "--json").fine().json()
    assert (said["outcome"], said["status"]) == ("started", "UPDATE_IN_PROGRESS")


def test_a_failed_update_names_the_first_resource_and_why(stack: Deployment) -> None:
    stack.account.aws.fail_stack(STACK, "ReapInstances", "Rate exceeded")
    said = mode(stack, "observe")
    assert said.code == 2 and "the mode is still enforce" in said.err
    assert "ReapInstances (AWS::Lambda::Function) is UPDATE_FAILED: Rate exceeded" in said.err
    assert "UPDATE_ROLLBACK_COMPLETE" in said.err and deployed(stack)["Mode"] == "enforce"


@pytest.mark.parametrize(
    ("status", "remedy"),
    [("UPDATE_IN_PROGRESS", "under way"), ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback"), ("ROLLBACK_COMPLETE", "delete")],
)
def test_a_stack_that_cannot_be_updated_says_what_to_do(stack: Deployment, status: str, remedy: str) -> None:
    stack.account.aws.set_stack_status(STACK, status)
    said = mode(stack, "observe")
    assert said.code == 2 and status in said.err and remedy in said.err
    assert "reserved concurrency" in said.err, "the brake that always works"
    assert "cloudformation:UpdateStack" not in stack.account.aws.counts()


def test_a_foreign_stack_and_none_are_refused(account: Account) -> None:
    environment = account.environment(CURFEW_BUCKET=None, CURFEW_TOPIC_ARN=None)
    said = curfew(environment, "mode", "observe")
    assert said.code == 2 and "there is no stack curfew in us-east-1" in said.err
    account.aws.put_stack(STACK, {"Queue": ("AWS::SQS::Queue", "theirs")}, parameters={"Size": "1"})
    said = curfew(environment, "mode", "observe")
    assert said.code == 2 and "has no parameter Mode" in said.err


def test_a_missing_permission_is_named(stack: Deployment) -> None:
    stack.account.aws.fault("cloudformation:UpdateStack", "access_denied", times=None)
    said = mode(stack, "observe")
    assert said.code == 2 and "grant cloudformation:UpdateStack" in said.err
