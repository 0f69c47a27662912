"""Stacks and functions of the local AWS, as CloudFormation and Lambda answer about them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_aws import LocalAws

NAME = "curfew"
BOTH = ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
SAME = {"ParameterKey": "Email", "UsePreviousValue": True}
OBSERVE = {"ParameterKey": "Mode", "ParameterValue": "observe"}


@pytest.fixture
def stack(aws: LocalAws) -> LocalAws:
    aws.put_stack(NAME, {}, parameters={"Mode": "enforce", "Email": "a@example.com"}, outputs={"Version": "0.1.0"})
    return aws


def update(aws: LocalAws, *parameters: dict[str, Any], capabilities: list[str] = BOTH) -> str | None:
    """What CloudFormation says against it."""
    call = dict(StackName=NAME, UsePreviousTemplate=True, Capabilities=capabilities, ClientRequestToken="mine")
    try:
        aws.client("cloudformation").update_stack(Parameters=list(parameters), **call)
    except ClientError as refused:
        return f"{refused.response['Error']['Code']}: {refused.response['Error']['Message']}"
    return None


def status(aws: LocalAws) -> tuple[str, dict[str, str]]:
    [found] = aws.client("cloudformation").describe_stacks(StackName=NAME)["Stacks"]
    return found["StackStatus"], {one["ParameterKey"]: one["ParameterValue"] for one in found["Parameters"]}


def test_an_update_takes_a_while_and_keeps_what_it_is_told_to_keep(stack: LocalAws) -> None:
    assert update(stack, OBSERVE, SAME) is None
    assert "is in UPDATE_IN_PROGRESS state and can not be updated." in (update(stack, OBSERVE, SAME) or "")
    assert status(stack)[0] == "UPDATE_IN_PROGRESS"
    assert status(stack) == ("UPDATE_COMPLETE", {"Mode": "observe", "Email": "a@example.com"})
    assert update(stack, OBSERVE, SAME) == "ValidationError: No updates are to be performed."


def test_an_update_names_every_parameter_and_both_capabilities(stack: LocalAws) -> None:
    assert update(stack, OBSERVE) == "ValidationError: Parameters: [Email] must have values"
    assert "[Other] do not exist in the template" in (update(stack, OBSERVE, SAME, {**SAME, "ParameterKey": "Other"}) or "")
    lacking = update(stack, OBSERVE, SAME, capabilities=["CAPABILITY_NAMED_IAM"])
    assert lacking == "InsufficientCapabilitiesException: Requires capabilities : [CAPABILITY_AUTO_EXPAND]"


def test_a_failed_update_is_rolled_back_and_its_events_say_why(stack: LocalAws) -> None:
    stack.fail_stack(NAME, "ReapInstances", "Rate exceeded")
    assert update(stack, OBSERVE, SAME) is None
    assert [status(stack)[0] for _ in range(2)] == ["UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE"]
    assert status(stack)[1]["Mode"] == "enforce"
    events = stack.client("cloudformation").describe_stack_events(StackName=NAME)["StackEvents"]
    mine = [one["LogicalResourceId"] for one in events if one["ClientRequestToken"] == "mine"]
    assert mine == [NAME, "Other", "ReapInstances"], "the newest first"


def test_all_stacks_of_a_region_are_listed_and_a_deleted_one_is_gone(stack: LocalAws) -> None:
    cloudformation = stack.client("cloudformation")
    assert [one["StackName"] for one in cloudformation.describe_stacks()["Stacks"]] == [NAME]
    assert stack.client("cloudformation", "eu-central-1").describe_stacks()["Stacks"] == []
    cloudformation.delete_stack(StackName=NAME)
    cloudformation.delete_stack(StackName=NAME)
    with pytest.raises(ClientError, match="does not exist"):
        cloudformation.describe_stacks(StackName=NAME)


def test_a_function_answers_what_a_test_says(aws: LocalAws) -> None:
    functions = aws.client("lambda")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        functions.invoke(FunctionName="curfew-x", Payload=b"{}")
    aws.put_invocation("curfew-x", {"run": "r1"})
    invoked = functions.invoke(FunctionName="curfew-x", Payload=b'{"source": "aws.events"}')
    assert json.load(invoked["Payload"]) == {"run": "r1"} and "FunctionError" not in invoked
    assert aws.invoked_with("curfew-x") == [{"source": "aws.events"}]
    aws.put_invocation("curfew-x", {"errorMessage": "no"}, error="Unhandled")
    assert functions.invoke(FunctionName="curfew-x", Payload=b"{}")["FunctionError"] == "Unhandled"
    assert {"lambda:InvokeFunction"} == set(aws.permissions())
