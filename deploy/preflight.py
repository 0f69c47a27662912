"""Checks in seconds what `make deploy` needs, before minutes of compiling. Each failure is a sentence, and the command that mends it.

`preflight.py machine` checks what compiles, with the standard library alone. `preflight.py account ARGS...` checks what deploys, with botocore,
which SAM brings along; ARGS are those of `make deploy`. A check that lacks a permission is "unknown", and no failure.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHON_MIN = (3, 11)
JOB_ROLE, RESTORED_JOB_ROLE = "curfew-job", "curfew-restored-job"
DEPLOYER_POLICY = "deploy/policies/deployer.json"
SECONDS_TO_CONNECT, SECONDS_TO_ANSWER = 5, 15
# CloudFormation calls other services in the name of its caller (IAM user guide, "AWS global condition context keys").
BY_STACK = tuple((f"aws:CalledVia{which}", "cloudformation.amazonaws.com") for which in ("", "First", "Last"))
LISTS = ("aws:CalledVia",)
# Keys that the real request lacks too, unless the question names them. Any other key without a value may decide otherwise in the real request.
KNOWN_ABSENT = {"iam:permissionsboundary", "iam:passedtoservice", "aws:calledvia", "aws:calledviafirst", "aws:calledvialast"}
# Where IAM answers, by the partition (IAM user guide, "aws:RequestedRegion": global services have one region).
REGION_OF_IAM = {"aws": "us-east-1", "aws-us-gov": "us-gov-west-1", "aws-cn": "cn-north-1"}
# IAM user guide, "Testing IAM policies with the IAM policy simulator": by such policies organizations demand boundaries.
NOT_SIMULATED = "service control policies with conditions are not simulated"


@dataclass(frozen=True)
class Finding:
    """One line of the result: `ok`, `note`, `unknown` or `FAILED`."""

    state: str
    text: str
    remedy: str = ""

    def lines(self) -> Iterator[str]:
        yield f"  {self.state:<8} {self.text}"
        if self.remedy:
            yield f"  {'':<8} {self.remedy}"


def ok(text: str) -> Finding:
    return Finding("ok", text)


def failed(text: str, remedy: str) -> Finding:
    return Finding("FAILED", text, remedy)


def unknown(text: str, remedy: str = "") -> Finding:
    return Finding("unknown", text, remedy)


def read_toml(name: str) -> dict[str, Any]:
    """A TOML file of the repository. Python has the reader since 3.11: an older one is a finding, and no traceback."""
    import tomllib

    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------------- this machine


def check_python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_MIN:
        yield failed(f"Python {version} is too old; 3.11 or newer is needed.", "Run: make PYTHON=/path/to/python3.11 deploy")
    # Debian and Ubuntu split it off, and `python3 -m venv` fails without it.
    elif importlib.util.find_spec("ensurepip") is None:
        yield failed(f"Python {version} cannot make virtual environments.", "Run: sudo apt install python3-venv, or what your system calls it")
    else:
        yield ok(f"Python {version}")


def check_compiler() -> Iterator[Finding]:
    if shutil.which("cc") is None:
        yield failed("No C compiler is installed; crates need one.", "Run: sudo apt install build-essential, or what your system calls it")


def check_rust() -> Iterator[Finding]:
    if sys.version_info < PYTHON_MIN:
        return  # it cannot read rust-toolchain.toml
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        yield failed("Rust is not installed.", "Install rustup, which fetches the pinned version: https://rustup.rs")
        return
    # In the repository, whose rust-toolchain.toml rustup obeys.
    asked, version = (subprocess.run(["rustc", *words], cwd=ROOT, capture_output=True, text=True, check=False) for words in (("--print", "sysroot"), ("--version",)))
    if asked.returncode != 0:
        reason = (asked.stderr.strip().splitlines() or ["no reason was given"])[-1]
        yield failed(f"Rust does not start: {reason}.", f"Run: cd {ROOT} && rustup toolchain install")
        return
    toolchain = read_toml("rust-toolchain.toml")["toolchain"]
    pinned, installed = toolchain["channel"], (version.stdout.split() or ["", "unknown"])[1]
    if installed != pinned:
        yield failed(f"Rust here is {installed}, and Curfew is built with {pinned}.", "Install rustup, which fetches the pinned version: https://rustup.rs")
    libraries = Path(asked.stdout.strip()) / "lib" / "rustlib"
    missing = [target for target in toolchain["targets"] if not (libraries / target / "lib").is_dir()]
    if missing:
        yield failed(f"Rust cannot compile for {' and '.join(missing)} yet.", f"Run: rustup target add {' '.join(missing)}")
    else:
        yield ok(f"Rust {installed} for {' and '.join(toolchain['targets'])}")


# -------------------------------------------------------------------------------------------------------- the account


@dataclass
class Deployment:
    """The deployment as samconfig.toml and ARGS describe it."""

    stack: str = "curfew"
    region: str | None = None
    profile: str | None = None
    bucket: str = "aws-sam-cli-managed-default-samclisourcebucket-1"
    parameters: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, arguments: Iterable[str]) -> Deployment:
        """Options of the command line go before samconfig.toml, as SAM reads them. Parameters come from the command line alone: `make deploy`
        always names one there, and SAM then ignores those of the file."""
        sections = read_toml("samconfig.toml").get("default", {})
        options = {**sections.get("global", {}).get("parameters", {}), **sections.get("deploy", {}).get("parameters", {})}
        parameters: dict[str, str] = {}
        option = "parameter_overrides"
        for word in arguments:
            if word.startswith("--"):
                name, equals, value = word.removeprefix("--").partition("=")
                option = name.replace("-", "_")
                if equals:
                    options[option] = value
            elif option == "parameter_overrides":
                named = re.fullmatch(r"(?:ParameterKey=)?(\w+)(?:,ParameterValue)?=(.*)", word, re.DOTALL)
                if named:
                    parameters[named[1]] = named[2]
            else:
                options[option] = word
        return cls(options.get("stack_name", cls.stack), options.get("region"), options.get("profile"), options.get("s3_bucket", cls.bucket), parameters)


class Account:
    """The clients of one region, with short timeouts, and the ARN of their caller."""

    def __init__(self, session: Any, region: str) -> None:
        from botocore.config import Config

        self.region = region
        config = Config(connect_timeout=SECONDS_TO_CONNECT, read_timeout=SECONDS_TO_ANSWER, retries={"total_max_attempts": 2})
        self.sts, self.iam, self.cloudformation = (session.create_client(name, region, config=config) for name in ("sts", "iam", "cloudformation"))
        self.arn = ""

    @property
    def partition(self) -> str:
        return self.arn.split(":")[1]

    @property
    def number(self) -> str:
        return self.arn.split(":")[4]

    def arn_of(self, service: str, resource: str, region: str | None = None) -> str:
        return f"arn:{self.partition}:{service}:{self.region if region is None else region}:{self.number}:{resource}"


def code_of(error: Exception) -> str:
    """The code of an answer of AWS; of anything else the name of its class."""
    return getattr(error, "response", {}).get("Error", {}).get("Code", type(error).__name__)


def is_denied(error: Exception) -> bool:
    return "AccessDenied" in code_of(error) or "Unauthorized" in code_of(error)


def settings_of(wanted: Deployment) -> tuple[Any, str | None]:
    """The session and the region of a deployment."""
    import botocore.session

    session = botocore.session.Session(profile=wanted.profile)
    return session, wanted.region or session.get_config_variable("region")


def check_account(arguments: Iterable[str]) -> Iterator[Finding]:
    from botocore.exceptions import ProfileNotFound

    wanted = Deployment.read(arguments)
    try:
        session, region = settings_of(wanted)
        partitions = session.get_available_partitions()
    except ProfileNotFound as error:
        yield failed(f"{error}.", "Run: aws configure list-profiles, and export AWS_PROFILE=NAME")
        return
    if not region:
        yield failed("No region is configured.", "Run: export AWS_DEFAULT_REGION=us-east-1, or another one: a single stack covers all regions")
        return
    if not any(region in session.get_available_regions("cloudformation", partition, allow_non_regional=True) for partition in partitions):
        yield failed(f"{region} is no region that this version of the AWS SDK knows.", "Run: export AWS_DEFAULT_REGION=us-east-1, or another one")
        return
    account = Account(session, region)
    identity = check_identity(account)
    yield identity
    if identity.state != "ok":
        return
    stack, findings = check_stack(account, wanted)
    yield from findings
    yield from check_permissions(account, wanted, stack)


def check_identity(account: Account) -> Finding:
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    try:
        account.arn = account.sts.get_caller_identity()["Arn"]
    except (BotoCoreError, ClientError, HTTPClientError) as error:
        code = code_of(error)
        if code in ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"):
            return failed("No credentials were found.", "Run: export AWS_PROFILE=NAME, or aws configure sso")
        if code.startswith(("Expired", "UnauthorizedSSO", "SSOToken", "TokenRetrieval", "Login")):
            return failed(f"The credentials have expired ({code}).", "Run: aws sso login, or renew them where you got them")
        if isinstance(error, HTTPClientError) or "Connection" in code or "Timeout" in code:
            return failed(f"AWS STS does not answer in {account.region}: {error}.", "Check network and proxy, and that the account has this region enabled")
        return failed(f"AWS refuses the credentials: {error}.", "Run: aws sts get-caller-identity")
    return ok(f"{account.arn} in {account.region}")


# ---------------------------------------------------------------------------------------------------- an earlier stack

# The command that makes a stack ready for an update, by its status (CloudFormation user guide, "Stack status codes").
MENDED_BY = {
    "ROLLBACK_COMPLETE": "Its creation failed. Run: aws cloudformation delete-stack --stack-name {stack}",
    "CREATE_FAILED": "Its creation failed. Run: aws cloudformation delete-stack --stack-name {stack}",
    "ROLLBACK_FAILED": "Its creation failed. Run: aws cloudformation delete-stack --stack-name {stack}",
    "DELETE_FAILED": "Its deletion failed. Run: aws cloudformation delete-stack --stack-name {stack}",
    "UPDATE_ROLLBACK_FAILED": "Run: aws cloudformation continue-update-rollback --stack-name {stack}",
}
FIND_STACK = (
    "Run: for region in $(aws ec2 describe-regions --query 'Regions[].RegionName' --output text); do aws cloudformation describe-stacks "
    "--region $region --query \"Stacks[?Outputs[?OutputKey=='StateBucketName']].StackId\" --output text; done"
)


def check_stack(account: Account, wanted: Deployment) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The stack if there is one, and the findings about it."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    try:
        (stack,) = account.cloudformation.describe_stacks(StackName=wanted.stack)["Stacks"]
    except ClientError as error:
        if "does not exist" not in str(error):
            return None, [unknown(f"The stack {wanted.stack} cannot be read: {error}")]
        return None, [check_other_stack(account, wanted)]
    except (BotoCoreError, HTTPClientError) as error:
        return None, [unknown(f"The stack {wanted.stack} cannot be read: {error}")]
    status = stack["StackStatus"]
    if status == "REVIEW_IN_PROGRESS":  # a change set of a stack that was never created
        return None, [check_other_stack(account, wanted)]
    if status in MENDED_BY:
        return stack, [failed(f"The stack {wanted.stack} is {status}, which no update mends.", MENDED_BY[status].format(stack=wanted.stack))]
    if status.endswith("_IN_PROGRESS"):
        return stack, [failed(f"The stack {wanted.stack} is {status}.", "Wait until it has ended, and run this again")]
    outputs = {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])}
    if "StateBucketName" not in outputs:
        return stack, [failed(f"There is a stack {wanted.stack} in {account.region}, and it is not one of Curfew's.", 'Run: make deploy ARGS="--stack-name NAME"')]
    return stack, [*check_version(wanted, status, outputs.get("Version")), *check_path(wanted, stack)]


def check_other_stack(account: Account, wanted: Deployment) -> Finding:
    """Looks for a stack elsewhere in the account before a first deployment, which CloudFormation would refuse."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    restored = wanted.parameters.get("RestoreFrom")
    first = f"There is no stack {wanted.stack} in {account.region}: this is the first deployment"
    if restored:  # beside the stack that it replaces
        first = f"There is no stack {wanted.stack} in {account.region}: it takes over with the bucket {restored}"
    role = RESTORED_JOB_ROLE if restored else JOB_ROLE
    try:
        account.iam.get_role(RoleName=role)
    except ClientError as error:
        if code_of(error) == "NoSuchEntity":
            return ok(first)
        return unknown(f"{first}, unless the account has one in another region: {error}")
    except (BotoCoreError, HTTPClientError) as error:
        return unknown(f"{first}, unless the account has one in another region: {error}")
    return failed(f"The account has a stack of Curfew elsewhere, whose role is {role}; a second one is refused. Deploy to its region, under its name.", FIND_STACK)


def check_version(wanted: Deployment, status: str, deployed: str | None) -> Iterator[Finding]:
    own = read_toml("Cargo.toml")["workspace"]["package"]["version"]
    states = f"The stack {wanted.stack} ({status}) has version {deployed or 'unknown'}, and gets {own}"
    if deployed and numbers(deployed) > numbers(own):
        yield Finding("note", f"{states}, which is older.", f"To keep its version: git checkout v{deployed}")
    else:
        yield ok(states)


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def parameter(stack: dict[str, Any] | None, wanted: Deployment, name: str, default: str) -> str:
    """The value that a parameter will have: given, or that of the stack, or the template's default."""
    deployed = {one["ParameterKey"]: one["ParameterValue"] for one in (stack or {}).get("Parameters", [])}
    return wanted.parameters.get(name, deployed.get(name, default))


def check_path(wanted: Deployment, stack: dict[str, Any]) -> Iterator[Finding]:
    deployed = parameter(stack, Deployment(), "RolePath", "/")
    if parameter(stack, wanted, "RolePath", "/") != deployed:
        yield failed(
            f"RolePath of the stack is {deployed}, and cannot be changed: CloudFormation replaces no role that has a name.",
            f"Leave it out, or name RolePath={deployed}",
        )


# --------------------------------------------------------------------------------------------------------- permissions


@dataclass(frozen=True)
class Question:
    """Actions on one resource, for IAM's policy simulator."""

    actions: tuple[str, ...]
    resource: str
    context: tuple[tuple[str, str], ...] = BY_STACK


def questions(account: Account, wanted: Deployment, stack: dict[str, Any] | None) -> list[Question]:
    """One resource of each kind that a deployment creates, with the actions that create it."""
    path, boundary = parameter(stack, wanted, "RolePath", "/"), parameter(stack, wanted, "PermissionsBoundaryArn", "")
    bounded = (*BY_STACK, ("iam:PermissionsBoundary", boundary)) if boundary else BY_STACK
    of_function = account.arn_of("iam", f"role{path}{wanted.stack}-RunJobsRole-1", "")
    of_machines = account.arn_of("iam", f"role{path}curfew/{JOB_ROLE}", "")
    return [
        Question(("iam:CreateRole", "iam:PutRolePolicy"), of_function, bounded),
        Question(("iam:CreateRole", "iam:PutRolePolicy"), of_machines, bounded),
        Question(("cloudformation:CreateChangeSet", "cloudformation:ExecuteChangeSet"), account.arn_of("cloudformation", f"stack/{wanted.stack}/1"), ()),
        Question(("s3:PutObject",), f"arn:{account.partition}:s3:::{wanted.bucket}/{wanted.stack}/1", ()),
        Question(("iam:PassRole",), of_function, (*BY_STACK, ("iam:PassedToService", "lambda.amazonaws.com"))),
        Question(("iam:CreatePolicy",), account.arn_of("iam", f"policy{path}only-one-curfew-stack-per-account", "")),
        Question(("iam:CreateInstanceProfile", "iam:AddRoleToInstanceProfile"), account.arn_of("iam", f"instance-profile{path}curfew/{JOB_ROLE}", "")),
        Question(("lambda:CreateFunction", "lambda:UpdateFunctionCode"), account.arn_of("lambda", f"function:{wanted.stack}-run-jobs")),
        Question(("s3:CreateBucket",), f"arn:{account.partition}:s3:::{wanted.stack}-statebucket-1"),
        Question(("sns:CreateTopic",), account.arn_of("sns", f"{wanted.stack}-Topic-1")),
        Question(("sqs:CreateQueue",), account.arn_of("sqs", f"{wanted.stack}-FailedEvents-1")),
        Question(("events:PutRule",), account.arn_of("events", f"rule/{wanted.stack}-RunJobs-1")),
        Question(("logs:CreateLogGroup",), account.arn_of("logs", f"log-group:/aws/lambda/{wanted.stack}-run-jobs")),
        Question(("cloudwatch:PutMetricAlarm",), account.arn_of("cloudwatch", f"alarm:{wanted.stack}-FailedEventsAlarm-1")),
        Question(("kms:CreateKey",), "*"),
    ]


def check_permissions(account: Account, wanted: Deployment, stack: dict[str, Any] | None) -> Iterator[Finding]:
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    kind = account.arn.split(":")[5].partition("/")[0]
    if kind == "root":
        yield ok("The root user may do everything")
        return
    try:
        # The ARN of a session lacks its role's path, which the simulator wants.
        source = account.arn if kind == "user" else account.iam.get_role(RoleName=account.arn.split("/")[1])["Role"]["Arn"]
        with ThreadPoolExecutor(max_workers=8) as threads:
            answers = [answer for found in threads.map(denied_by(account, source), questions(account, wanted, stack)) for answer in found]
    except (BotoCoreError, ClientError, HTTPClientError, IndexError) as error:
        needs = "iam:SimulatePrincipalPolicy and iam:GetRole" if is_denied(error) else code_of(error)
        yield unknown(f"Your permissions cannot be checked ({needs}): a deployment that lacks one is rolled back")
        return
    denied = list(dict.fromkeys(action for action, depends_on in answers if not depends_on))
    undecided = list(dict.fromkeys(action for action, depends_on in answers if depends_on))
    if undecided:
        keys = sorted({key for _, depends_on in answers for key in depends_on})
        yield unknown(f"IAM's answer about {', '.join(undecided)} depends on {', '.join(keys)}, which only the real request has")
    if not denied and not undecided:
        yield ok(f"IAM lets you create what the stack has ({NOT_SIMULATED})")
        return
    roles = [action for action in denied if action == "iam:CreateRole"]
    if roles and not parameter(stack, wanted, "PermissionsBoundaryArn", ""):
        yield failed(
            "IAM does not let you create roles; your organization may demand a permissions boundary, or a path.",
            'Run: make deploy ARGS="PermissionsBoundaryArn=ARN RolePath=/PATH/"',
        )
        denied = [action for action in denied if action not in roles]
    if denied:
        yield failed(f"IAM denies you {', '.join(denied)}.", f"Ask an administrator for {DEPLOYER_POLICY} (docs/deploy.md)")


def undecided_keys(result: dict[str, Any]) -> tuple[str, ...]:
    """Condition keys of the policies that the simulation had no value for, and that the real request may have: global ones, and those of the
    service (IAM API reference, "EvaluationResult": of named resources they stand in the results of each)."""
    service = result["EvalActionName"].partition(":")[0].lower()
    missing = {key for one in (result, *result.get("ResourceSpecificResults", [])) for key in one.get("MissingContextValues", [])}
    return tuple(sorted(key for key in missing if key.lower() not in KNOWN_ABSENT and key.lower().partition(":")[0] in ("aws", service)))


def denied_by(account: Account, source: str) -> Callable[[Question], list[tuple[str, tuple[str, ...]]]]:
    """Asks IAM for the actions of a question that are not allowed, each with the condition keys on which that depends."""

    def ask(question: Question) -> list[tuple[str, tuple[str, ...]]]:
        region = REGION_OF_IAM.get(account.partition, account.region) if question.actions[0].startswith("iam:") else account.region
        context = [
            {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "stringList" if key in LISTS else "string"}
            for key, value in (("aws:RequestedRegion", region), *question.context)
        ]
        answer = account.iam.simulate_principal_policy(
            PolicySourceArn=source, ActionNames=list(question.actions), ResourceArns=[question.resource], ContextEntries=context
        )
        denied = [one for one in answer["EvaluationResults"] if one["EvalDecision"] != "allowed"]
        return [(one["EvalActionName"], undecided_keys(one)) for one in denied]

    return ask


def main() -> int:
    parser = argparse.ArgumentParser(description="Check what make deploy needs.")
    parser.add_argument("what", choices=["machine", "account"])
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="those of make deploy, after --")
    given = parser.parse_args()
    arguments = given.arguments[1:] if given.arguments[:1] == ["--"] else given.arguments
    checks = (check_python(), check_compiler(), check_rust()) if given.what == "machine" else (check_account(arguments),)
    found = [finding for check in checks for finding in check]
    for finding in found:
        print("\n".join(finding.lines()))
    is_failed = any(finding.state == "FAILED" for finding in found)
    if is_failed:
        print("Nothing was compiled or deployed.", file=sys.stderr)
    return 1 if is_failed else 0


if __name__ == "__main__":
    sys.exit(main())
