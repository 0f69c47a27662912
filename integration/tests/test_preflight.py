"""`make preflight`, which checks in seconds what `make deploy` needs; and the sample policy for deployers."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import botocore.validate
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, UnauthorizedSSOTokenError

from reaping import Account
from sample_policies import FOLDER, document, policy
from template_actions import REPOSITORY, template
from template_iam import ACCOUNT, Request, Statement, decision

PREFLIGHT = REPOSITORY / "deploy" / "preflight.py"
DEPLOYER = FOLDER / "deployer.json"
_spec = importlib.util.spec_from_file_location("preflight", PREFLIGHT)
assert _spec is not None and _spec.loader is not None
preflight: Any = importlib.util.module_from_spec(_spec)
sys.modules["preflight"] = preflight
_spec.loader.exec_module(preflight)
_spec = importlib.util.spec_from_file_location("restore", PREFLIGHT.with_name("restore.py"))
assert _spec is not None and _spec.loader is not None
restore: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(restore)


def run(*words: str, **environment: str | Path) -> subprocess.CompletedProcess[str]:
    known = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    quiet = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    values = {**known, **quiet, **{key: str(value) for key, value in environment.items()}}
    return subprocess.run([sys.executable, PREFLIGHT, *words], env=values, capture_output=True, text=True, check=False)


def states(result: subprocess.CompletedProcess[str]) -> list[str]:
    """The first word of each finding."""
    return re.findall(r"^  (\w+) ", result.stdout, re.MULTILINE)


# ------------------------------------------------------------------------------------------------------- this machine


RUSTC = 'case $1 in --version) echo "rustc $RUST_VERSION (1a2b3c4d5 2026-04-14)" ;; *) echo "$SYSROOT" ;; esac'
PINNED = re.findall(r'^channel = "([\d.]+)"', (REPOSITORY / "rust-toolchain.toml").read_text(encoding="utf-8"), re.MULTILINE)[0]


def machine(tmp_path: Path, *targets: str, rustc: str = RUSTC, version: str = PINNED, tools: tuple[str, ...] = ("cc", "cargo", "rustc")) -> Any:
    """A machine with these tools and targets of Rust, and nothing else."""
    (tmp_path / "bin").mkdir()
    for tool in tools:
        (tmp_path / "bin" / tool).write_text(f"#!/bin/sh\n{rustc}\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    for target in targets:
        (tmp_path / "lib" / "rustlib" / target / "lib").mkdir(parents=True)
    return run("machine", PATH=tmp_path / "bin", SYSROOT=tmp_path, RUST_VERSION=version)


X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


def test_a_machine_with_everything_is_fine(tmp_path: Path) -> None:
    result = machine(tmp_path, X86, ARM)
    assert (result.returncode, states(result), result.stderr) == (0, ["ok", "ok"], "")
    assert f"for {X86} and {ARM}" in result.stdout


def test_a_missing_target_is_named_with_the_command_that_adds_it(tmp_path: Path) -> None:
    result = machine(tmp_path, X86)
    assert result.returncode == 1 and f"FAILED   Rust cannot compile for {ARM} yet." in result.stdout
    assert f"Run: rustup target add {ARM}\n" in result.stdout and result.stderr == "Nothing was compiled or deployed.\n"


def test_another_version_of_rust_than_the_pinned_one_is_reported(tmp_path: Path) -> None:
    result = machine(tmp_path, X86, ARM, version="1.80.0")
    assert result.returncode == 1 and f"FAILED   Rust here is 1.80.0, and Curfew is built with {PINNED}." in result.stdout


def test_an_old_python_is_reported_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    monkeypatch.setitem(sys.modules, "tomllib", None)
    findings = [finding for check in (preflight.check_python, preflight.check_rust) for finding in check()]
    assert [one.state for one in findings] == ["FAILED"] and "Python 3.9.2 is too old" in findings[0].text


def test_everything_that_is_missing_is_reported_at_once(tmp_path: Path) -> None:
    result = machine(tmp_path, tools=())
    assert result.returncode == 1 and states(result).count("FAILED") == 2
    assert "No C compiler is installed" in result.stdout and "https://rustup.rs" in result.stdout


def test_a_toolchain_that_is_not_installed_is_reported_in_its_own_words(tmp_path: Path) -> None:
    result = machine(tmp_path, X86, ARM, rustc="echo info: hello >&2; echo error: toolchain 1.95.0 is not installed >&2; exit 1")
    assert result.returncode == 1 and "Rust does not start: error: toolchain 1.95.0 is not installed." in result.stdout and "rustup toolchain install" in result.stdout


def test_rust_toolchain_names_the_targets_that_are_built() -> None:
    toolchain = (REPOSITORY / "rust-toolchain.toml").read_text(encoding="utf-8")
    packaged = (REPOSITORY / "deploy" / "package.mk").read_text(encoding="utf-8")
    (pairs,) = re.findall(r"^AGENT_TARGETS := (.*)$", packaged, re.MULTILINE)
    assert [one.split(":")[1] for one in pairs.split()] == [X86, ARM]
    assert f'targets = ["{X86}", "{ARM}"]' in toolchain
    for architecture, target in (("x86_64", X86), ("arm64", ARM)):
        makefile = (REPOSITORY / "deploy" / architecture / "Makefile").read_text(encoding="utf-8")
        assert f"RUST_TARGET := {target}\n" in makefile


# -------------------------------------------------------------------------------------------------------- the account


def in_account(account: Account, *arguments: str, user: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    keys: dict[str, str] = {}
    if user is not None:
        made = account.aws.client("iam").create_access_key(UserName=user)["AccessKey"]
        keys = {"AWS_ACCESS_KEY_ID": made["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"]}
    return run("account", "--", *arguments, **{**account.aws.environment(), **keys, **environment})


def user_with(account: Account, *documents: dict[str, Any]) -> str:
    iam = account.aws.client("iam")
    iam.create_user(UserName="deployer")
    for number, given in enumerate(documents):
        iam.put_user_policy(UserName="deployer", PolicyName=f"p{number}", PolicyDocument=json.dumps(given))
    return "deployer"


def test_a_first_deployment_by_the_sample_policy(account: Account) -> None:
    result = in_account(account, "NotificationEmail=you@example.com", user=user_with(account, document(DEPLOYER)))
    assert (result.returncode, states(result), result.stderr) == (0, ["ok", "ok", "ok"], ""), result.stdout
    assert f"arn:aws:iam::{ACCOUNT}:user/deployer in us-east-1" in result.stdout and "this is the first deployment" in result.stdout
    assert "service control policies with conditions are not simulated" in result.stdout


def test_what_is_denied_is_named_with_what_to_ask_for(account: Account) -> None:
    denied = {"Version": "2012-10-17", "Statement": [{"Sid": "No", "Effect": "Deny", "Action": ["kms:CreateKey", "sns:CreateTopic"], "Resource": "*"}]}
    result = in_account(account, user=user_with(account, document(DEPLOYER), denied))
    assert result.returncode == 1 and "IAM denies you sns:CreateTopic, kms:CreateKey." in result.stdout
    assert "deploy/policies/deployer.json" in result.stdout


def test_roles_only_with_a_boundary(account: Account) -> None:
    boundary = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
    unbounded = {"Sid": "No", "Effect": "Deny", "Action": "iam:CreateRole", "Resource": "*", "Condition": {"StringNotEquals": {"iam:PermissionsBoundary": boundary}}}
    user = user_with(account, document(DEPLOYER), {"Version": "2012-10-17", "Statement": [unbounded]})
    result = in_account(account, user=user)
    assert result.returncode == 1 and 'make deploy ARGS="PermissionsBoundaryArn=ARN RolePath=/PATH/"' in result.stdout
    assert in_account(account, f"PermissionsBoundaryArn={boundary}", user=user).returncode == 0


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({"BoolIfExists": {"aws:MultiFactorAuthPresent": "false"}}, "unknown"),
        ({"StringNotEquals": {"aws:RequestTag/CostCenter": "42"}}, "unknown"),
        ({"StringNotEquals": {"aws:RequestedRegion": ["us-east-1", "eu-west-1"]}}, "ok"),
        ({"StringNotEquals": {"aws:RequestedRegion": "eu-west-1"}}, "FAILED"),
    ],
)
def test_a_denial_that_depends_on_the_real_request_is_unknown(account: Account, conditions: dict[str, Any], state: str) -> None:
    denied = {"Sid": "No", "Effect": "Deny", "Action": ["sns:CreateTopic", "kms:CreateKey"], "Resource": "*", "Condition": conditions}
    result = in_account(account, user=user_with(account, document(DEPLOYER), {"Version": "2012-10-17", "Statement": [denied]}))
    assert (result.returncode, states(result)) == (int(state == "FAILED"), ["ok", "ok", state]), result.stdout
    if state == "unknown":
        (key,) = next(iter(conditions.values()))
        assert f"about sns:CreateTopic, kms:CreateKey depends on {key}" in result.stdout


def test_the_root_user_needs_no_simulation(account: Account) -> None:
    result = in_account(account)
    assert result.returncode == 0 and "The root user may do everything" in result.stdout


def test_permissions_that_cannot_be_asked_about_are_unknown_and_no_failure(account: Account) -> None:
    account.aws.fault("iam:SimulatePrincipalPolicy", "access_denied", times=None)
    result = in_account(account, user=user_with(account))
    assert (result.returncode, states(result)) == (0, ["ok", "ok", "unknown"])
    assert "iam:SimulatePrincipalPolicy" in result.stdout


def test_a_second_stack_is_reported_before_the_build(account: Account) -> None:
    account.aws.client("iam").create_role(RoleName="curfew-job", AssumeRolePolicyDocument="{}")
    result = in_account(account)
    assert result.returncode == 1 and "The account has a stack of Curfew elsewhere" in result.stdout and "describe-stacks" in result.stdout
    account.aws.fault("iam:GetRole", "access_denied", times=None)
    result = in_account(account)
    assert (result.returncode, states(result)[1]) == (0, "unknown")


def test_a_restored_stack_may_stand_beside_the_first(account: Account) -> None:
    iam = account.aws.client("iam")
    iam.create_role(RoleName="curfew-job", AssumeRolePolicyDocument="{}")
    result = in_account(account, "RestoreFrom=copy")
    assert result.returncode == 0 and "it takes over with the bucket copy" in result.stdout
    iam.create_role(RoleName="curfew-restored-job", AssumeRolePolicyDocument="{}")
    result = in_account(account, "RestoreFrom=copy")
    assert result.returncode == 1 and "whose role is curfew-restored-job" in result.stdout


class Stacks:
    """CloudFormation as `restore` calls it: each request is checked by botocore's own model, and changes the stacks as AWS would."""

    def __init__(self, **buckets: tuple[str, str]) -> None:
        # Of each stack the logical and the physical id of its bucket.
        self.stacks = {name: ("CREATE_COMPLETE", *bucket) for name, bucket in buckets.items()}
        self.calls: list[str] = []
        self.real = botocore.session.get_session().create_client("cloudformation", "us-west-2", aws_access_key_id="a", aws_secret_access_key="b")
        self.exceptions = self.real.exceptions

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            operation = self.real.meta.service_model.operation_model(self.real.meta.method_to_api_mapping[name])
            report = botocore.validate.ParamValidator().validate(given, operation.input_shape)
            assert not report.has_errors(), report.generate_report()
            self.calls.append(name)
            return getattr(self, f"_{name}")(**given)

        return call

    def get_waiter(self, name: str) -> Any:
        assert name in self.real.waiter_names
        return SimpleNamespace(wait=lambda **_: self.calls.append(name))

    def _missing(self, name: str) -> ClientError:
        return self.exceptions.ClientError({"Error": {"Code": "ValidationError", "Message": f"Stack with id {name} does not exist"}}, "DescribeStacks")

    def _describe_stacks(self, StackName: str) -> Any:
        if StackName not in self.stacks:
            raise self._missing(StackName)
        return {"Stacks": [{"StackStatus": self.stacks[StackName][0]}]}

    def _describe_stack_resources(self, **given: str) -> Any:
        found = [
            {"StackName": name, "LogicalResourceId": logical, "PhysicalResourceId": physical}
            for name, (_, logical, physical) in self.stacks.items()
            if given.get("StackName") == name or given.get("PhysicalResourceId") == physical
        ]
        if not found:
            raise self._missing(str(given))
        return {"StackResources": found}

    def _delete_stack(self, StackName: str) -> None:
        del self.stacks[StackName]

    def _delete_change_set(self, **_: str) -> None:
        pass

    def _create_change_set(self, StackName: str, ChangeSetType: str, TemplateBody: str, ResourcesToImport: list[Any], **_: str) -> None:
        (made,) = json.loads(TemplateBody)["Resources"].items()
        (imported,) = ResourcesToImport
        assert ChangeSetType == "IMPORT" and made[0] == imported["LogicalResourceId"] == "StateBucket" and "DeletionPolicy" in made[1]
        bucket = imported["ResourceIdentifier"]["BucketName"]
        # A resource of another stack cannot be imported.
        assert all(physical != bucket for _, _, physical in self.stacks.values())
        self.stacks[StackName] = ("REVIEW_IN_PROGRESS", "StateBucket", bucket)

    def _execute_change_set(self, StackName: str, **_: str) -> None:
        self.stacks[StackName] = ("IMPORT_COMPLETE", *self.stacks[StackName][1:])


def test_a_copy_becomes_the_state_bucket_of_a_new_stack() -> None:
    stacks = Stacks(**{"curfew-replica": ("ReplicaBucket", "copy"), "theirs": ("ReplicaBucket", "other")})
    said: list[str] = []
    restore.restore(stacks, "curfew", "copy", said.append)
    assert stacks.stacks == {"theirs": ("CREATE_COMPLETE", "ReplicaBucket", "other"), "curfew": ("IMPORT_COMPLETE", "StateBucket", "copy")}
    assert [call for call in stacks.calls if "_stack" not in call or "complete" in call][:1] == ["stack_delete_complete"]
    # The same command again, after whatever failed behind it.
    before = dict(stacks.stacks)
    restore.restore(stacks, "curfew", "copy", said.append)
    assert stacks.stacks == before and said[-1] == "The stack curfew has the bucket copy already"


def test_an_import_that_was_cut_off_is_repeated() -> None:
    stacks = Stacks()
    stacks.stacks["curfew"] = ("REVIEW_IN_PROGRESS", "StateBucket", "none yet")
    restore.restore(stacks, "curfew", "copy", lambda _: None)
    assert stacks.stacks == {"curfew": ("IMPORT_COMPLETE", "StateBucket", "copy")} and "delete_change_set" in stacks.calls


def test_the_bucket_of_a_living_stack_is_never_taken() -> None:
    stacks = Stacks(curfew=("StateBucket", "state"))
    for stack, bucket in (("curfew", "copy"), ("second", "state")):
        with pytest.raises(restore.NotRestored):
            restore.restore(stacks, stack, bucket, lambda _: None)
    assert stacks.stacks == {"curfew": ("CREATE_COMPLETE", "StateBucket", "state")} and "delete_stack" not in stacks.calls


def test_an_existing_stack_is_reported_with_both_versions(account: Account) -> None:
    account.aws.put_stack("curfew", {"StateBucket": ("AWS::S3::Bucket", "state")})
    result = in_account(account)
    version = re.search(r'^version = "([\d.]+)"', (REPOSITORY / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert result.returncode == 0 and version and f"has version unknown, and gets {version[1]}" in result.stdout
    account.aws.put_stack("other", {"Queue": ("AWS::SQS::Queue", "theirs")})
    result = in_account(account, "--stack-name", "other")
    assert result.returncode == 1 and "not one of Curfew's" in result.stdout


@pytest.mark.parametrize(
    ("environment", "sentence", "remedy"),
    [
        ({}, "No region is configured.", "export AWS_DEFAULT_REGION=us-east-1"),
        ({"AWS_DEFAULT_REGION": "eu-wets-1"}, "eu-wets-1 is no region", "export AWS_DEFAULT_REGION"),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, "No credentials were found.", "export AWS_PROFILE=NAME"),
        ({"AWS_DEFAULT_REGION": "eu-west-1", "AWS_PROFILE": "nobody"}, "(nobody) could not be found.", "aws configure list-profiles"),
    ],
)
def test_without_credentials_or_region(environment: dict[str, str], sentence: str, remedy: str) -> None:
    result = run("account", **environment)
    assert (result.returncode, states(result)) == (1, ["FAILED"]) and sentence in result.stdout and remedy in result.stdout


@pytest.mark.parametrize(
    ("error", "sentence", "remedy"),
    [
        (ClientError({"Error": {"Code": "ExpiredToken", "Message": "old"}}, "GetCallerIdentity"), "have expired", "aws sso login"),
        (UnauthorizedSSOTokenError(), "have expired", "aws sso login"),
        (NoCredentialsError(), "No credentials", "aws configure sso"),
        (EndpointConnectionError(endpoint_url="https://sts.eu-west-1.amazonaws.com"), "does not answer in eu-west-1", "network"),
        (ClientError({"Error": {"Code": "InvalidClientTokenId", "Message": "no"}}, "GetCallerIdentity"), "refuses the credentials", "aws sts get-caller-identity"),
    ],
)
def test_credentials_that_do_not_work_are_reported_with_the_reason(error: Exception, sentence: str, remedy: str) -> None:
    def get_caller_identity() -> Any:
        raise error

    found = preflight.check_identity(SimpleNamespace(region="eu-west-1", sts=SimpleNamespace(get_caller_identity=get_caller_identity)))
    assert found.state == "FAILED" and sentence in found.text and remedy in found.remedy


# ---------------------------------------------------------------------------------- stacks that no local AWS can have


def stack_with(status: str = "UPDATE_COMPLETE", outputs: dict[str, str] | None = None, **parameters: str) -> Any:
    stack = {
        "StackStatus": status,
        "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in {"StateBucketName": "state", **(outputs or {})}.items()],
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
    }
    no_role = ClientError({"Error": {"Code": "NoSuchEntity", "Message": "no"}}, "GetRole")

    def get_role(RoleName: str) -> Any:
        raise no_role

    cloudformation = SimpleNamespace(describe_stacks=lambda StackName: {"Stacks": [stack]})
    return SimpleNamespace(region="eu-west-1", cloudformation=cloudformation, iam=SimpleNamespace(get_role=get_role))


def judged(account: Any, *arguments: str) -> list[tuple[str, str]]:
    _, found = preflight.check_stack(account, preflight.Deployment.read(arguments))
    return [(one.state, f"{one.text} {one.remedy}") for one in found]


@pytest.mark.parametrize(
    ("status", "state", "words"),
    [
        ("UPDATE_COMPLETE", "ok", "gets"),
        ("UPDATE_ROLLBACK_COMPLETE", "ok", "gets"),
        ("REVIEW_IN_PROGRESS", "ok", "first deployment"),
        ("ROLLBACK_COMPLETE", "FAILED", "delete-stack --stack-name curfew"),
        ("UPDATE_IN_PROGRESS", "FAILED", "Wait"),
        ("UPDATE_ROLLBACK_FAILED", "FAILED", "continue-update-rollback --stack-name curfew"),
        ("DELETE_FAILED", "FAILED", "delete-stack"),
    ],
)
def test_a_stack_that_no_update_mends_is_reported_with_what_does(status: str, state: str, words: str) -> None:
    ((found, text),) = judged(stack_with(status))
    assert found == state and words in text


def test_an_older_version_than_the_deployed_one_is_noted() -> None:
    ((state, text),) = judged(stack_with(outputs={"Version": "99.10.0"}))
    assert state == "note" and "git checkout v99.10.0" in text
    ((state, text),) = judged(stack_with(outputs={"Version": "0.0.9"}))
    assert state == "ok" and "has version 0.0.9" in text


def test_the_path_of_roles_cannot_be_changed() -> None:
    assert [state for state, _ in judged(stack_with(), "RolePath=/platform/")] == ["ok", "FAILED"]
    assert [state for state, _ in judged(stack_with(RolePath="/platform/"), "RolePath=/platform/", "Mode=enforce")] == ["ok"]
    assert [state for state, _ in judged(stack_with(RolePath="/platform/"), "Mode=enforce")] == ["ok"]


def test_arguments_are_read_as_sam_reads_them() -> None:
    words = ["Mode=enforce", "ParameterKey=RolePath,ParameterValue=/a/", "--tags", "Stage=x", "--stack-name=mine", "--region", "eu-west-1", "--guided"]
    read = preflight.Deployment.read(words)
    assert (read.stack, read.region, read.profile, read.parameters) == ("mine", "eu-west-1", None, {"Mode": "enforce", "RolePath": "/a/"})
    assert preflight.Deployment.read([]).stack == "curfew"


def test_a_deployment_begins_with_the_preflight() -> None:
    """Before an hour of compiling, and the compiling before SAM, which only copies."""
    planned = subprocess.run(["make", "--dry-run", "deploy", 'ARGS=Mode=enforce --tags "Stage=x"'], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    steps = ["preflight.py machine", "preflight.py account -- Mode=enforce", "Makefile compile", "package.mk agents", "CURFEW_COMPILED=yes", "sam deploy"]
    places = [planned.index(step) for step in steps]
    assert places == sorted(places), planned


# ---------------------------------------------------------------------------------------------- the policy of deployers

BY_STACK: dict[str, str | list[str]] = {"aws:CalledVia": ["cloudformation.amazonaws.com"]}
ALLOWED: tuple[Statement, ...] = policy(DEPLOYER)
# The resource of each type that the templates make, as CloudFormation names it, and what it calls to create, update and delete one.
MADE = {
    "AWS::CloudWatch::Alarm": ("cloudwatch:us-east-1:{account}:alarm:curfew-RunJobsErrorsAlarm-1", "cloudwatch:PutMetricAlarm cloudwatch:DeleteAlarms"),
    "AWS::CloudWatch::Dashboard": ("cloudwatch::{account}:dashboard/curfew-account", "cloudwatch:PutDashboard cloudwatch:GetDashboard cloudwatch:DeleteDashboards"),
    "AWS::Events::Rule": ("events:us-east-1:{account}:rule/curfew-EndOfInstance-1", "events:PutRule events:PutTargets events:RemoveTargets events:DeleteRule"),
    "AWS::IAM::InstanceProfile": (
        "iam::{account}:instance-profile/curfew/curfew-job",
        "iam:CreateInstanceProfile iam:AddRoleToInstanceProfile iam:RemoveRoleFromInstanceProfile iam:DeleteInstanceProfile",
    ),
    "AWS::IAM::ManagedPolicy": ("iam::{account}:policy/curfew-EncryptVolumes-1", "iam:CreatePolicy iam:CreatePolicyVersion iam:DeletePolicyVersion iam:DeletePolicy"),
    "AWS::IAM::Role": (
        "iam::{account}:role/curfew-RunJobsRole-1",
        "iam:CreateRole iam:PutRolePolicy iam:AttachRolePolicy iam:TagRole iam:PutRolePermissionsBoundary iam:UpdateAssumeRolePolicy iam:DeleteRolePolicy iam:DetachRolePolicy iam:DeleteRole",
    ),
    "AWS::KMS::Key": ("kms:us-east-1:{account}:key/1", "kms:CreateKey kms:PutKeyPolicy kms:EnableKeyRotation kms:ScheduleKeyDeletion"),
    "AWS::Logs::MetricFilter": ("logs:us-east-1:{account}:log-group:/aws/lambda/curfew-reap-instances", "logs:PutMetricFilter logs:DeleteMetricFilter"),
    "AWS::Logs::LogGroup": ("logs:us-east-1:{account}:log-group:/aws/lambda/curfew-run-jobs", "logs:CreateLogGroup logs:PutRetentionPolicy logs:DeleteLogGroup"),
    "AWS::S3::Bucket": (
        "s3:::curfew-statebucket-1",
        "s3:CreateBucket s3:PutLifecycleConfiguration s3:PutBucketVersioning s3:PutBucketNotification s3:PutBucketOwnershipControls s3:PutEncryptionConfiguration s3:PutBucketPublicAccessBlock s3:PutReplicationConfiguration",
    ),
    "AWS::S3::BucketPolicy": ("s3:::curfew-statebucket-1", "s3:PutBucketPolicy s3:DeleteBucketPolicy"),
    "AWS::SNS::Subscription": ("sns:us-east-1:{account}:curfew-Topic-1", "sns:Subscribe sns:Unsubscribe"),
    "AWS::SNS::Topic": ("sns:us-east-1:{account}:curfew-Topic-1", "sns:CreateTopic sns:SetTopicAttributes sns:DeleteTopic"),
    "AWS::SNS::TopicPolicy": ("sns:us-east-1:{account}:curfew-Topic-1", "sns:SetTopicAttributes"),
    "AWS::SQS::Queue": ("sqs:us-east-1:{account}:curfew-JobEvents-1", "sqs:CreateQueue sqs:SetQueueAttributes sqs:DeleteQueue"),
    "AWS::SQS::QueuePolicy": ("sqs:us-east-1:{account}:curfew-JobEvents-1", "sqs:SetQueueAttributes"),
    "AWS::Chatbot::CustomAction": ("chatbot::{account}:custom-action/curfew-keep-day", "chatbot:CreateCustomAction chatbot:DeleteCustomAction"),
    "AWS::Lambda::Permission": ("lambda:us-east-1:{account}:function:curfew-reply", "lambda:AddPermission lambda:RemovePermission"),
    "AWS::Lambda::Url": ("lambda:us-east-1:{account}:function:curfew-reply", "lambda:CreateFunctionUrlConfig lambda:DeleteFunctionUrlConfig"),
    "AWS::Serverless::Function": (
        "lambda:us-east-1:{account}:function:curfew-run-jobs",
        "lambda:CreateFunction lambda:UpdateFunctionCode lambda:UpdateFunctionConfiguration lambda:AddPermission lambda:PutFunctionEventInvokeConfig lambda:PutFunctionConcurrency lambda:DeleteFunction",
    ),
}


def may_deploy(action: str, resource: str, context: dict[str, str | list[str]]) -> bool:
    return decision(ALLOWED, Request(action, resource, context=context)) == "allowed"


def test_a_deployer_may_make_all_that_the_templates_have() -> None:
    files = ("template.yaml", "deploy/team-role.yaml", "deploy/forwarder.yaml", "deploy/reply-url.yaml", "deploy/replica/replica.yaml")
    assert {one["Type"] for file in files for one in template(REPOSITORY / file)["Resources"].values()} == set(MADE)
    for resource, actions in MADE.values():
        for action in actions.split():
            assert may_deploy(action, f"arn:aws:{resource.format(account=ACCOUNT)}", BY_STACK), action
    for service in ("lambda", "ec2", "events", "s3"):
        passing: dict[str, str | list[str]] = {"iam:PassedToService": f"{service}.amazonaws.com"}
        assert may_deploy("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/curfew/curfew-job-vision", passing)


def test_a_deployer_may_do_what_the_preflight_asks_about() -> None:
    account = SimpleNamespace(partition="aws", arn_of=lambda service, resource, region="us-east-1": f"arn:aws:{service}:{region}:{ACCOUNT}:{resource}")
    asked = preflight.questions(account, preflight.Deployment(), None)
    assert len(asked) > 10
    for question in asked:
        context: dict[str, str | list[str]] = {key: [value] if key in preflight.LISTS else value for key, value in question.context}
        for action in question.actions:
            assert may_deploy(action, question.resource, context), action


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("iam:CreateRole", f"arn:aws:iam::{ACCOUNT}:role/Administrator"),
        ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/curfew/curfew-job"),
        ("iam:PutUserPolicy", f"arn:aws:iam::{ACCOUNT}:user/ada"),
        ("kms:ScheduleKeyDeletion", f"arn:aws:kms:us-east-1:{ACCOUNT}:key/theirs"),
        ("s3:GetObject", "arn:aws:s3:::curfew-statebucket-1/config/curfew.toml"),
        ("s3:DeleteBucket", "arn:aws:s3:::curfew-statebucket-1"),
        ("lambda:InvokeFunction", f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:curfew-run-jobs"),
        ("lambda:UpdateFunctionCode", f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:theirs"),
        ("ec2:TerminateInstances", f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-1"),
    ],
)
def test_a_deployer_may_do_nothing_besides(action: str, resource: str) -> None:
    assert not may_deploy(action, resource, {})


# Names of IAM that differ from the API's.
NAMES = {
    "PassRole": "AddRoleToInstanceProfile",
    "ListBucket": "ListObjectsV2",
    "GetEncryptionConfiguration": "GetBucketEncryption",
    "PutEncryptionConfiguration": "PutBucketEncryption",
    "GetLifecycleConfiguration": "GetBucketLifecycleConfiguration",
    "PutLifecycleConfiguration": "PutBucketLifecycleConfiguration",
    "GetReplicationConfiguration": "GetBucketReplication",
    "PutReplicationConfiguration": "PutBucketReplication",
    "PutBucketNotification": "PutBucketNotificationConfiguration",
    "PutBucketPublicAccessBlock": "PutPublicAccessBlock",
}


def test_the_policy_is_one_that_iam_takes() -> None:
    found = document(DEPLOYER)
    assert len(json.dumps(found, separators=(",", ":"))) < 6_144
    session = botocore.session.get_session()
    for action in (action for statement in ALLOWED for action in statement.actions):
        service, _, name = action.partition(":")
        operations = session.get_service_model(service).operation_names
        assert any(fnmatchcase(operation, NAMES.get(name, name)) for operation in operations), action
        # Patterns of reads alone: a list of them would not fit.
        assert "*" not in name or re.fullmatch(r"(Get|List|Describe)(Bucket)?\*", name), action
