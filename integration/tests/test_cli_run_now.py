"""`curfew run-now`: one run of the deployed function, and what came of it."""

from __future__ import annotations

import pytest

from command import Said, curfew
from deploying import STACK, Deployment, deploy
from reaping import Account

DEPLOYED = f"{STACK}-reap-instances"
PAUSED = dict(Runtime="provided.al2023", Handler="bootstrap", Code={"ZipFile": b"none"})


@pytest.fixture
def stack(account: Account) -> Deployment:
    return deploy(account)


def run_now(stack: Deployment, *arguments: str) -> Said:
    return curfew(stack.environment(), "run-now", *arguments)


def test_the_response_of_a_run_is_counted(stack: Deployment) -> None:
    gpu = stack.account.idle(stack.account.gpu())
    run = stack.account.tick()
    stack.account.aws.put_invocation(DEPLOYED, run.response)
    said = run_now(stack, "reap-instances").fine()
    assert said.out.splitlines() == [
        f"reap-instances: run {run.response['run']} in enforce mode",
        "  seen: 1",
        "  steps: mark done 1",
        "  skipped: none",
    ]
    assert f"curfew plans {run.response['run']}" in said.err
    document = run_now(stack, "reap-instances", "--json").fine().json()
    assert (document["function"], document["steps"]) == ("reap-instances", {"mark done": 1})
    assert document["response"]["steps"][0]["resource"] == gpu


def test_the_event_is_one_that_every_function_takes(stack: Deployment) -> None:
    stack.account.aws.put_invocation(DEPLOYED, {"run": "r1"})
    run_now(stack, "reap-instances").fine()
    [event] = stack.account.aws.invoked_with(DEPLOYED)
    assert stack.account.tick(event).response["function"] == "reap-instances"


def test_what_the_run_missed_is_a_finding(stack: Deployment) -> None:
    gap = {"region": "eu-central-1", "call": "ec2:DescribeInstances", "error": "no\x1b[31m"}
    stack.account.aws.put_invocation(DEPLOYED, {"run": "r1", "seen": 0, "gaps": [gap]})
    said = run_now(stack, "reap-instances")
    assert said.code == 1 and "could not be read: ec2:DescribeInstances in eu-central-1: no?[31m" in said.out


def test_an_error_of_the_function_is_one_of_the_command(stack: Deployment) -> None:
    failed = {"errorType": "Failure", "errorMessage": "the configuration is refused: line 2\nnext"}
    stack.account.aws.put_invocation(DEPLOYED, failed, error="Unhandled")
    said = run_now(stack, "reap-instances")
    assert said.code == 2 and said.out == ""
    assert "the run of reap-instances failed: the configuration is refused: line 2 next" in said.err
    assert f"aws logs tail /aws/lambda/{DEPLOYED}" in said.err
    stack.account.aws.put_invocation(DEPLOYED, {"errorMessage": "Task timed out after 270.00 seconds"}, error="Unhandled")
    assert "Task timed out" in run_now(stack, "reap-instances").err


def test_a_paused_function_says_so(stack: Deployment) -> None:
    functions = stack.account.aws.client("lambda")
    [role, *_] = stack.account.aws.client("iam").list_roles()["Roles"]
    functions.create_function(FunctionName=DEPLOYED, Role=role["Arn"], **PAUSED)
    functions.put_function_concurrency(FunctionName=DEPLOYED, ReservedConcurrentExecutions=0)
    said = run_now(stack, "reap-instances")
    assert said.code == 2 and f"get-function-concurrency --function-name {DEPLOYED}" in said.err


def test_what_is_not_there_is_not_run(stack: Deployment) -> None:
    said = run_now(stack, "reap-instances")
    assert said.code == 2 and "Function not found" in said.err
    said = run_now(stack, "reap-everything")
    assert said.code == 2 and "reap-instances" in said.err, "the names that there are"
    stack.account.aws.put_invocation(DEPLOYED, ["anything"])
    assert "is not the response of a run" in run_now(stack, "reap-instances").err
    stack.account.aws.fault("lambda:Invoke", "access_denied", times=None)
    assert "grant lambda:InvokeFunction" in run_now(stack, "reap-instances").err
