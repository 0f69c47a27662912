"""`curfew doctor` on the roles of the functions, as IAM's policy simulator would tell of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from command import Said, curfew
from deploying import Deployment, deploy, doctor, findings, the_only
from local_aws import policy_simulator
from local_aws.client import ACCOUNT
from reaping import BUCKET, Account
from template_actions import Statement
from template_iam import Request, decision, statements_of


WITH_CHANNELS = {"ReportSender": "curfew@example.com", "ReplyLinks": "yes"}


@pytest.fixture
def stack(account: Account) -> Deployment:
    return deploy(account)


@pytest.fixture
def with_channels(account: Account) -> Deployment:
    return deploy(account, **WITH_CHANNELS)


def test_the_roles_of_the_template_are_as_they_should_be_in_both_modes(account: Account) -> None:
    for mode in ("observe", "enforce"):
        account.aws.reset()
        account = Account(account.aws)
        said = doctor(deploy(account, mode, **WITH_CHANNELS))
        assert findings(said, "permissions") == [], mode
        simulated = [call for call in account.aws.calls("iam:SimulatePrincipalPolicy")]
        assert 120 < len(simulated) < 480


def test_roles_under_a_path_are_asked_about_there(account: Account) -> None:
    """A path of the stack: IAM knows no role by its name alone, and machines get roles under that path."""
    said = doctor(deploy(account, RolePath="/platform/ml/"))
    assert findings(said, "permissions") == []


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


JUDGED = ("reap-instances", "reap-volumes", "reap-sagemaker", "enforce-budgets", "send-report", "reply")


def policy_of(stack: Deployment, function: str) -> dict[str, Any]:
    of = {"RoleName": stack.role(function), "PolicyName": "of-the-template"}
    return stack.account.aws.client("iam").get_role_policy(**of)["PolicyDocument"]


def test_without_any_statement_of_the_template_the_doctor_gets_another_answer(
    with_channels: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new permission of the template needs a case of the doctor."""
    asked: list[tuple[list[Statement], Request]] = []

    def decided(policies: list[Statement], question: Request) -> str:
        asked.append((policies, question))
        return decision(policies, question)

    monkeypatch.setattr(policy_simulator, "decision", decided)
    assert findings(doctor(with_channels), "permissions") == []
    for function in JUDGED:
        own = statements_of(policy_of(with_channels, function))
        # Some questions are of the role with a policy besides.
        of_role = [(policies, question) for policies, question in asked if policies[: len(own)] == own]
        for gone in own:
            changes = (decision([one for one in policies if one != gone], question) != decision(policies, question) for policies, question in of_role)
            assert any(changes), f"{function}: {gone.sid}"


def test_a_removed_statement_of_each_role_is_found(with_channels: Deployment) -> None:
    for function in JUDGED:
        policy = policy_of(with_channels, function)
        document = json.dumps({**policy, "Statement": policy["Statement"][1:]})
        with_channels.account.aws.client("iam").put_role_policy(RoleName=with_channels.role(function), PolicyName="of-the-template", PolicyDocument=document)
    found = {one["where"] for one in findings(doctor(with_channels), "permissions")}
    assert found == {f"{function} (role {with_channels.role(function)})" for function in JUDGED}


def person(stack: Deployment, name: str, *allowed: dict[str, Any]) -> str:
    """A role for people, below a path as those of IAM Identity Center; its ARN."""
    iam = stack.account.aws.client("iam")
    arn = iam.create_role(RoleName=name, Path="/people/", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **one} for one in allowed]}
    iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=json.dumps(document))
    return arn


def doctor_as(stack: Deployment, role_arn: str, *arguments: str) -> Said:
    """By somebody who has assumed that role."""
    keys = stack.account.aws.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="ada")["Credentials"]
    credentials = {
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
    }
    return curfew(stack.environment(**credentials), "doctor", "--json", *arguments)


def test_somebody_who_may_write_the_state_of_a_job_is_named(stack: Deployment) -> None:
    on_notices = {"Action": "s3:*", "Resource": f"arn:aws:s3:::{BUCKET}/notices/*"}
    on_jobs = {"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{BUCKET}/jobs/vision/*"}
    everything = {"Action": "*", "Resource": "*"}
    narrow = {"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{BUCKET}/jobs/vision/*/cancel.json"}
    wide, administrator, member = person(stack, "ml", on_jobs), person(stack, "admin", everything), person(stack, "member", narrow)
    finding = the_only(doctor(stack, "--principal", wide, "--principal", administrator, "--principal", member), "permissions")
    assert (finding["severity"], finding["where"]) == ("warning", wide)
    assert "but for the policy of the bucket" in finding["found"] and "(jobs/vision/llama-0123abcd/state.json)" in finding["found"]
    assert "config/" not in finding["found"] and "deploy/policies/team-member.json" in finding["remedy"]
    # The same of who asks.
    assert findings(doctor_as(stack, wide), "permissions") == [finding]
    session = f"arn:aws:sts::{ACCOUNT}:assumed-role/ml/ada"
    assert findings(doctor_as(stack, wide, "--principal", wide, "--principal", session), "permissions") == [finding]
    announcing = the_only(doctor(stack, "--principal", person(stack, "notifier", on_notices)), "permissions")
    assert announcing["found"] == "it is no administrator, and its policies let it make actions count as announced (notices/reap-instances/us-east-1.json)"
    for fine in (administrator, member):
        assert findings(doctor_as(stack, fine), "permissions") == [], fine


def test_what_iam_answered_is_reported_although_it_did_not_answer_all(stack: Deployment) -> None:
    on_jobs = {"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{BUCKET}/jobs/vision/*"}
    wide = person(stack, "ml", on_jobs)
    stack.account.aws.fault("iam:SimulatePrincipalPolicy", "access_denied", match="config/curfew.toml", times=None)
    found = findings(doctor(stack, "--principal", wide), "permissions")
    of_wide = [one for one in found if one["where"] == wide]
    assert [one["severity"] for one in of_wide] == ["warning"] and "(jobs/vision/llama-0123abcd/state.json)" in of_wide[0]["found"]
    assert [one for one in found if one["found"].startswith("iam:SimulatePrincipalPolicy failed")]


def test_somebody_whom_iam_does_not_know_is_unknown(stack: Deployment) -> None:
    for arn in (f"arn:aws:sts::{ACCOUNT}:federated-user/ada", f"arn:aws:iam::{ACCOUNT}:role/people/gone"):
        assert the_only(doctor(stack, "--principal", arn), "permissions")["severity"] == "unknown", arn


def test_a_bucket_whose_policy_was_changed_is_a_problem(stack: Deployment) -> None:
    s3 = stack.account.aws.client("s3")
    policy = json.loads(s3.get_bucket_policy(Bucket=BUCKET)["Policy"])
    allowing = {"Sid": "Ours", "Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/ml"}, "Action": "s3:*", "Resource": f"arn:aws:s3:::{BUCKET}/notices/*"}
    s3.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({**policy, "Statement": [*policy["Statement"], allowing]}))
    finding = the_only(doctor(stack), "permissions")
    assert (finding["severity"], finding["where"]) == ("problem", f"s3://{BUCKET}")
    assert "its statement Ours allows" in finding["found"] and "notices/" in finding["found"]
    s3.delete_bucket_policy(Bucket=BUCKET)
    finding = the_only(doctor(stack), "permissions")
    assert "jobs/vision/llama-0123abcd/state.json" in finding["found"] and finding["remedy"] == "deploy the stack again"
