"""`curfew doctor` on the roles of the functions, as IAM's policy simulator would tell of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploying import Deployment, deploy, doctor, findings, the_only
from local_aws import policy_simulator
from reaping import Account
from template_actions import Statement
from template_iam import Request, decision, statements_of


@pytest.fixture
def stack(account: Account) -> Deployment:
    return deploy(account)


def test_the_roles_of_the_template_are_as_they_should_be_in_both_modes(account: Account) -> None:
    for mode in ("observe", "enforce"):
        account.aws.reset()
        account = Account(account.aws)
        said = doctor(deploy(account, mode))
        assert findings(said, "permissions") == [], mode
        simulated = [call for call in account.aws.calls("iam:SimulatePrincipalPolicy")]
        assert 120 < len(simulated) < 380


STOP = {"Action": "ec2:StopInstances", "Resource": "*"}


def test_a_role_that_may_stop_unmarked_instances_is_a_problem(stack: Deployment) -> None:
    stack.attach("reap-instances", STOP)
    finding = the_only(doctor(stack), "permissions")
    assert finding["severity"] == "problem"
    assert finding["where"] == f"reap-instances (role {stack.role('reap-instances')})"
    assert finding["found"].startswith("it may call ec2:StopInstances on an instance without any tag, and must not")
    assert "deploy the stack again" in finding["remedy"]


def test_an_observing_role_that_may_act_is_a_problem(account: Account) -> None:
    stack = deploy(account, mode="observe")
    stack.attach("reap-instances", {**STOP, "Condition": {"Null": {"aws:ResourceTag/curfew:marked": "false"}}})
    (finding,) = findings(doctor(stack), "permissions")
    assert "the deployment only observes" in finding["found"]


def test_a_role_for_spot_that_is_missing_and_may_not_be_created_is_a_problem(stack: Deployment) -> None:
    iam = stack.account.aws.client("iam")
    document = {"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "iam:CreateServiceLinkedRole", "Resource": "*"}}
    iam.put_role_policy(RoleName=stack.role("run-jobs"), PolicyName="by-hand", PolicyDocument=json.dumps(document))
    finding = the_only(doctor(stack), "permissions")
    assert finding["severity"] == "problem" and "AWSServiceRoleForEC2Spot" in finding["found"]
    assert "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in finding["remedy"]
    iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    if not [one for one in iam.list_roles()["Roles"] if one["RoleName"] == "AWSServiceRoleForEC2Spot"]:
        # moto calls it otherwise.
        iam.create_role(RoleName="AWSServiceRoleForEC2Spot", Path="/aws-service-role/spot.amazonaws.com/", AssumeRolePolicyDocument="{}")
    assert findings(doctor(stack), "permissions") == []


JUDGED = ("reap-instances", "reap-volumes", "reap-sagemaker", "enforce-budgets", "send-report")


def policy_of(stack: Deployment, function: str) -> dict[str, Any]:
    of = {"RoleName": stack.role(function), "PolicyName": "of-the-template"}
    return stack.account.aws.client("iam").get_role_policy(**of)["PolicyDocument"]


def test_without_any_statement_of_the_template_the_doctor_gets_another_answer(
    stack: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new permission of the template needs a case of the doctor."""
    asked: list[tuple[list[Statement], Request]] = []

    def decided(policies: list[Statement], question: Request) -> str:
        asked.append((policies, question))
        return decision(policies, question)

    monkeypatch.setattr(policy_simulator, "decision", decided)
    assert findings(doctor(stack), "permissions") == []
    for function in JUDGED:
        own = statements_of(policy_of(stack, function))
        # Some questions are of the role with a policy besides.
        of_role = [(policies, question) for policies, question in asked if policies[: len(own)] == own]
        for gone in own:
            changes = (decision([one for one in policies if one != gone], question) != decision(policies, question) for policies, question in of_role)
            assert any(changes), f"{function}: {gone.sid}"


def test_a_removed_statement_of_each_role_is_found(stack: Deployment) -> None:
    for function in JUDGED:
        policy = policy_of(stack, function)
        document = json.dumps({**policy, "Statement": policy["Statement"][1:]})
        stack.account.aws.client("iam").put_role_policy(RoleName=stack.role(function), PolicyName="of-the-template", PolicyDocument=document)
    found = {one["where"] for one in findings(doctor(stack), "permissions")}
    assert found == {f"{function} (role {stack.role(function)})" for function in JUDGED}
