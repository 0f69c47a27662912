"""A deployment of Curfew in the local AWS, as `sam deploy` would make it: what template.yaml says, with its references resolved.

stack = deploy(account, mode="enforce")
stack.ran("reap-instances", minutes_ago=2)
assert findings(doctor(stack), "runs") == []
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from command import Said, curfew
from local_aws.client import ACCOUNT, REGION
from reaping import BUCKET, Account, now
from template_actions import REPOSITORY, logical_ids, resources, statements, template

STACK = "curfew"
ON_DEMAND_G = "L-DB2E81BA"  # Running On-Demand G and VT instances
_QUEUE = f"{STACK}-FailedEvents-1ABC"
_KEY = "11111111-2222-3333-4444-555555555555"


@dataclass
class Deployment:
    account: Account
    mode: str
    parameters: dict[str, str] = field(default_factory=dict)
    # The physical ids by logical id.
    made: dict[str, tuple[str, str]] = field(default_factory=dict)

    def environment(self, **over: str | None) -> dict[str, str]:
        """Of somebody who has not deployed Curfew by hand: nothing names the bucket but the stack."""
        unsaid: dict[str, str | None] = {"CURFEW_BUCKET": None, "CURFEW_TOPIC_ARN": None, "CURFEW_MODE": None}
        return self.account.environment(**{**unsaid, **over})

    def role(self, function: str) -> str:
        return self.made[f"{logical_ids()[function]}Role"][1]

    def ran(self, function: str, minutes_ago: float = 1, before: datetime | None = None, **record: Any) -> None:
        """Leaves the record of a run that began so long before a moment, or before now."""
        at = (before or now()) - timedelta(minutes=minutes_ago)
        key = f"plans/{at:%Y-%m-%d}/{function}/{minutes_ago}.json"
        head = {"schema": 1, "function": function, "run": str(minutes_ago), "at": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
        body = {**head, "mode": self.mode, "regions": [], "seen": 0, "steps": [], "skipped": {}, "gaps": [], **record}
        self.account.put(key, json.dumps(body).encode())
        self.account.aws.set_object(BUCKET, key, at)

    def attach(self, function: str, *allowed: dict[str, Any]) -> None:
        """Somebody gives a role more than the template does."""
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **one} for one in allowed]}
        self.account.aws.client("iam").put_role_policy(
            RoleName=self.role(function), PolicyName="by-hand", PolicyDocument=json.dumps(document)
        )


# The conditions of the template that hold where a parameter is given.
_CONDITIONS = {"HasReportSender": "ReportSender", "HasReplyLinks": "ReplyLinks"}


def deploy(account: Account, mode: str = "enforce", **given: str) -> Deployment:
    """The stack with its roles and alarms; its functions have just run. `given`: parameters that are not as by default."""
    stack = Deployment(account, mode, {**parameters(mode), **given})
    stack.made = {
        "StateBucket": ("AWS::S3::Bucket", BUCKET),
        "Topic": ("AWS::SNS::Topic", account.topic_arn),
        "AccountTopic": ("AWS::SNS::Topic", account.aws.client("sns").create_topic(Name="everything")["TopicArn"]),
        "TopicKey": ("AWS::KMS::Key", _KEY),
        "FailedEvents": ("AWS::SQS::Queue", f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{_QUEUE}"),
        "JobEvents": ("AWS::SQS::Queue", f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{STACK}-JobEvents-1ABC"),
    }
    for function, logical_id in logical_ids().items():
        if not _holds(stack, resources()[logical_id].get("Condition", "")):  # by default
            continue
        stack.made[logical_id] = ("AWS::Lambda::Function", f"{STACK}-{function}")
        stack.made[f"{logical_id}Logs"] = ("AWS::Logs::LogGroup", f"/aws/lambda/{STACK}-{function}")
        stack.made[f"{logical_id}Role"] = ("AWS::IAM::Role", f"{STACK}-{logical_id}Role-1ABC")
        _create_role(stack, function)
        if "Events" in resources()[logical_id]["Properties"]:
            stack.ran(function)
    for logical_id, alarm in resources("AWS::CloudWatch::Alarm").items():
        if not _holds(stack, alarm.get("Condition", "")):
            continue
        name = f"{STACK}-{logical_id}-1ABC"
        stack.made[logical_id] = ("AWS::CloudWatch::Alarm", name)
        put_alarm(account, name, alarm["Properties"]["AlarmDescription"])
    policy = _resolved(stack, resources()["StateBucketPolicy"]["Properties"]["PolicyDocument"])
    account.aws.client("s3").put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(policy))
    account.aws.put_stack(STACK, stack.made, parameters=stack.parameters, outputs={"Version": version()})
    account.aws.set_quota(ON_DEMAND_G, 64)
    return stack


def parameters(mode: str) -> dict[str, str]:
    """The parameters of the template by default, but for the mode."""
    return {name: str(one["Default"]) for name, one in template()["Parameters"].items()} | {"Mode": mode}


def version() -> str:
    """The version of the workspace."""
    return tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def put_alarm(account: Account, name: str, description: str = "", state: str = "OK") -> None:
    cloudwatch = account.aws.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        AlarmDescription=description,
        MetricName="Errors",
        Namespace="AWS/Lambda",
        Period=300,
        EvaluationPeriods=1,
        Threshold=0,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[account.topic_arn],
    )
    cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="as a test says")


def doctor(stack: Deployment, *arguments: str, **over: str | None) -> Said:
    return curfew(stack.environment(**over), "doctor", "--json", *arguments)


def findings(said: Said, check: str) -> list[dict[str, Any]]:
    (found,) = [one for one in said.json()["checks"] if one["check"] == check]
    return found["findings"]


def the_only(said: Said, check: str) -> dict[str, Any]:
    """The one finding that there is, in any check."""
    others = {one["check"]: one["findings"] for one in said.json()["checks"] if one["check"] != check}
    assert not any(others.values()), others
    (finding,) = findings(said, check)
    return finding


def _create_role(stack: Deployment, function: str) -> None:
    iam = stack.account.aws.client("iam")
    role = stack.role(function)
    iam.create_role(RoleName=role, Path=stack.parameters["RolePath"], AssumeRolePolicyDocument="{}")
    kept = [one for one in statements(function) if all(_holds(stack, condition) for condition in one.only_if)]
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": one.sid,
                "Effect": one.effect,
                "Action": list(one.actions),
                "Resource": [_resolved(stack, resource) for resource in one.resources],
                "Condition": _resolved(stack, one.conditions),
            }
            for one in kept
        ],
    }
    iam.put_role_policy(RoleName=role, PolicyName="of-the-template", PolicyDocument=json.dumps(document))


def _holds(stack: Deployment, condition: str) -> bool:
    """Whether a condition of the template does; any that is not known here does not, as by default."""
    if condition == "Enforcing":
        return stack.mode == "enforce"
    return not condition or condition in _CONDITIONS and stack.parameters[_CONDITIONS[condition]] not in ("", "no")


def _resolved(stack: Deployment, value: Any) -> Any:
    """The value with Ref, Fn::If, Fn::GetAtt and Fn::Sub replaced by what they stand for."""
    if isinstance(value, list):
        chosen = [one["Fn::If"][1] if isinstance(one, dict) and "Fn::If" in one and _holds(stack, one["Fn::If"][0]) else one for one in value]
        return [_resolved(stack, one) for one in chosen if not (isinstance(one, dict) and "Fn::If" in one)]
    if not isinstance(value, dict):
        return value
    if "Ref" in value:
        return stack.made[value["Ref"]][1] if value["Ref"] in stack.made else stack.parameters[value["Ref"]]
    if "Fn::GetAtt" in value:
        logical_id, attribute = value["Fn::GetAtt"]
        assert attribute == "Arn", attribute
        return _arn(stack, logical_id)
    if "Fn::Sub" in value:
        text = value["Fn::Sub"] if isinstance(value["Fn::Sub"], str) else value["Fn::Sub"][0]
        pseudo = {"AWS::Partition": "aws", "AWS::URLSuffix": "amazonaws.com", "AWS::AccountId": ACCOUNT, "AWS::Region": REGION, "AWS::StackName": STACK}
        domain = {"Domain": stack.parameters["ReportSender"].rpartition("@")[2]}
        for name, stands_for in {**pseudo, **stack.parameters, **domain}.items():
            text = text.replace(f"${{{name}}}", stands_for)
        for logical_id in stack.made:
            text = text.replace(f"${{{logical_id}.Arn}}", _arn(stack, logical_id))
        assert "${" not in text, text
        return text
    return {key: _resolved(stack, one) for key, one in value.items()}


def _arn(stack: Deployment, logical_id: str) -> str:
    kind, physical_id = stack.made[logical_id]
    name = physical_id.rpartition("/")[2]
    return {
        "AWS::S3::Bucket": f"arn:aws:s3:::{name}",
        "AWS::KMS::Key": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{name}",
        "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}",
        "AWS::Logs::LogGroup": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{physical_id}:*",
        "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role{stack.parameters['RolePath']}{name}",
    }.get(kind, physical_id)
