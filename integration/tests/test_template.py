"""The second lock: what template.yaml promises, whatever else changes in it.

Conditions of IAM cannot be exercised on a local AWS, so they are read here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from template_actions import (
    REPOSITORY,
    Statement,
    fixed_environment,
    functions,
    granted_actions,
    logical_ids,
    resources,
    statements,
    template,
)

FUNCTIONS = sorted(functions())
ENDING = {"ec2:StopInstances", "ec2:TerminateInstances"}
TAGGING = {"ec2:CreateTags", "ec2:DeleteTags"}
CHANGING = ENDING | TAGGING | {"ec2:StartInstances"}
ANNOUNCED = {"curfew:marked", "curfew:expires-at", "curfew:job"}

# What each function may write on a resource, and nothing else.
OWN_TAGS = {"reap-instances": {"curfew:marked", "curfew:stopped"}}


def allowed(function: str) -> list[Statement]:
    return [statement for statement in statements(function) if statement.effect == "Allow"]


def denied(function: str) -> list[Statement]:
    return [statement for statement in statements(function) if statement.effect == "Deny"]


def required_tags(statement: Statement) -> set[str]:
    """The tags that have to be on the resource for the statement to apply."""
    return {
        key.removeprefix("aws:ResourceTag/")
        for key, absent in statement.conditions.get("Null", {}).items()
        if key.startswith("aws:ResourceTag/") and absent == "false"
    }


def on_instances_of_this_account(statement: Statement) -> bool:
    return statement.resources == (
        {"Fn::Sub": "arn:${AWS::Partition}:ec2:*:${AWS::AccountId}:instance/*"},
    )


# ------------------------------------------------------------------------------------------------------------- roles


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_action_is_a_wildcard(function: str) -> None:
    wild = [action for statement in statements(function) for action in statement.actions if "*" in action]
    assert wild == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_function_has_a_role_of_its_own_and_nothing_beside_it(function: str) -> None:
    properties = functions()[function]["Properties"]
    assert "Policies" not in properties, "SAM's policy templates hide what is granted"
    roles = [other["Properties"]["Role"]["Fn::GetAtt"][0] for other in functions().values()]
    assert roles.count(properties["Role"]["Fn::GetAtt"][0]) == 1
    role = resources("AWS::IAM::Role")[properties["Role"]["Fn::GetAtt"][0]]["Properties"]
    assert "ManagedPolicyArns" not in role, "AWS's managed policies change without us"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_ends_that_does_not_announce_it(function: str) -> None:
    ending = [statement for statement in allowed(function) if ENDING & set(statement.actions)]
    for statement in ending:
        assert len(required_tags(statement)) == 1 and required_tags(statement) <= ANNOUNCED, statement.sid
        assert on_instances_of_this_account(statement), statement.sid


def test_every_announcement_is_one_that_the_reaper_can_act_on() -> None:
    ending = [statement for statement in allowed("reap-instances") if ENDING <= set(statement.actions)]
    assert {tag for statement in ending for tag in required_tags(statement)} == ANNOUNCED


@pytest.mark.parametrize("function", FUNCTIONS)
def test_only_what_curfew_stopped_is_started(function: str) -> None:
    for statement in allowed(function):
        if "ec2:StartInstances" in statement.actions:
            assert statement.actions == ("ec2:StartInstances",), statement.sid
            assert required_tags(statement) == {"curfew:stopped"}, statement.sid
            assert on_instances_of_this_account(statement), statement.sid


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_protected_are_denied_every_change(function: str) -> None:
    changing = granted_actions(function) & CHANGING
    protecting = [
        statement
        for statement in denied(function)
        if statement.conditions == {"Null": {"aws:ResourceTag/curfew:protected": "false"}}
        and statement.resources == ("*",)
        and statement.only_if == ()
    ]
    assert changing <= {action for statement in protecting for action in statement.actions}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_tags_are_written_by_their_exact_keys(function: str) -> None:
    for statement in allowed(function):
        if TAGGING & set(statement.actions):
            assert set(statement.actions) <= TAGGING, statement.sid
            assert set(statement.conditions["ForAllValues:StringEquals"]["aws:TagKeys"]) == OWN_TAGS[function]
            # ForAllValues is true for an empty set, and DeleteTags without tags wipes all of them.
            assert statement.conditions["Null"]["aws:TagKeys"] == "false", statement.sid
            assert on_instances_of_this_account(statement), statement.sid


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_people_say_in_tags_is_never_changed(function: str) -> None:
    theirs = {"curfew:protected", "curfew:mode", "curfew:keep-until"}
    keeping = [
        statement
        for statement in denied(function)
        if set(statement.conditions.get("ForAnyValue:StringEquals", {}).get("aws:TagKeys", [])) == theirs
        and set(statement.conditions) == {"ForAnyValue:StringEquals"}
        and statement.resources == ("*",)
        and statement.only_if == ()
    ]
    assert granted_actions(function) & TAGGING <= {action for statement in keeping for action in statement.actions}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_observing_role_can_change_nothing(function: str) -> None:
    for statement in allowed(function):
        if (CHANGING | {"kms:CreateGrant"}) & set(statement.actions):
            assert "Enforcing" in statement.only_if, statement.sid
    assert template()["Conditions"]["Enforcing"] == {"Fn::Equals": [{"Ref": "Mode"}, "enforce"]}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_everything_is_granted_on_everything_only_where_aws_offers_no_less(function: str) -> None:
    unnarrowable = re.compile(r"ec2:Describe\w+|cloudwatch:(ListMetrics|GetMetricData)")
    for statement in allowed(function):
        if "*" in statement.resources:
            assert all(unnarrowable.fullmatch(action) for action in statement.actions), statement.sid


def test_the_reaper_may_do_what_it_does_and_no_more() -> None:
    assert granted_actions("reap-instances") == {
        "cloudwatch:GetMetricData",
        "cloudwatch:ListMetrics",
        "ec2:CreateTags",
        "ec2:DeleteTags",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeInstances",
        "ec2:DescribeRegions",
        "ec2:DescribeSpotInstanceRequests",
        "ec2:StartInstances",
        "ec2:StopInstances",
        "ec2:TerminateInstances",
        "kms:CreateGrant",
        "kms:Decrypt",
        "kms:GenerateDataKey",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:PutObject",
        "sns:ListSubscriptionsByTopic",
        "sns:Publish",
        "sqs:SendMessage",
    }


# -------------------------------------------------------------------------------------------- functions and their house


def test_every_function_directory_is_deployed_and_nothing_else() -> None:
    directories = {path.parent.name for path in (REPOSITORY / "functions").glob("*/Cargo.toml")}
    assert set(FUNCTIONS) == directories


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_sample_events(function: str) -> None:
    assert list((REPOSITORY / "events" / function).glob("*.json")), f"events/{function}/ is empty"


@pytest.mark.parametrize("path", sorted((REPOSITORY / "events").glob("*/*.json")), ids=lambda path: path.stem)
def test_a_sample_event_is_one_json_object(path: Path) -> None:
    assert isinstance(json.loads(path.read_text(encoding="utf-8")), dict)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_sam_build_knows_every_function(function: str) -> None:
    rules = (REPOSITORY / "deploy" / "package.mk").read_text(encoding="utf-8")
    assert f"build-{logical_ids()[function]}: NAME := {function}\n" in rules


def test_sam_build_knows_every_architecture() -> None:
    for architecture in template()["Parameters"]["Architecture"]["AllowedValues"]:
        makefile = REPOSITORY / "deploy" / architecture / "Makefile"
        assert f"ARCHITECTURE := {architecture}\n" in makefile.read_text(encoding="utf-8")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_schedule_is_the_retry(function: str) -> None:
    invocation = functions()[function]["Properties"]["EventInvokeConfig"]
    assert invocation["MaximumRetryAttempts"] == 0
    assert invocation["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": ["FailedEvents", "Arn"]}


def test_two_runs_of_the_reaper_do_not_overlap() -> None:
    reaper = functions()["reap-instances"]["Properties"]
    schedules = [event["Properties"]["Schedule"] for event in reaper["Events"].values()]
    assert schedules == ["rate(5 minutes)"]
    assert reaper["Timeout"] < 5 * 60


@pytest.mark.parametrize("function", FUNCTIONS)
def test_logs_end_some_day(function: str) -> None:
    group = functions()[function]["Properties"]["LoggingConfig"]["LogGroup"]["Ref"]
    assert resources("AWS::Logs::LogGroup")[group]["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}


# ---------------------------------------------------------------------------------------------- what all of them share


def test_nothing_is_done_before_somebody_asks_for_it() -> None:
    mode = template()["Parameters"]["Mode"]
    assert mode["Default"] == "observe"
    assert mode["AllowedValues"] == ["observe", "enforce"]
    environment = template()["Globals"]["Function"]["Environment"]["Variables"]
    assert environment == {
        "CURFEW_BUCKET": {"Ref": "StateBucket"},
        "CURFEW_TOPIC_ARN": {"Ref": "Topic"},
        "CURFEW_MODE": {"Ref": "Mode"},
        "MALLOC_TRIM_THRESHOLD_": "1048576",
    }
    assert fixed_environment() == {"MALLOC_TRIM_THRESHOLD_": "1048576"}


def test_every_parameter_is_explained_and_checked() -> None:
    parameters = template()["Parameters"]
    for name, parameter in parameters.items():
        assert parameter["Description"] and parameter["ConstraintDescription"], name
        assert "Default" in parameter, f"{name}: a first deployment asks for nothing"
        assert {"AllowedValues", "AllowedPattern", "MinValue"} & set(parameter), name
    interface = template()["Metadata"]["AWS::CloudFormation::Interface"]
    grouped = [name for group in interface["ParameterGroups"] for name in group["Parameters"]]
    assert sorted(grouped) == sorted(parameters) == sorted(interface["ParameterLabels"])


def test_the_state_bucket_outlives_the_stack_and_is_private() -> None:
    bucket = resources("AWS::S3::Bucket")["StateBucket"]
    assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"
    properties = bucket["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(properties["PublicAccessBlockConfiguration"]) == 4
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert properties["BucketEncryption"]
    assert properties["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}


def test_the_state_bucket_does_not_grow_for_ever() -> None:
    rules = resources("AWS::S3::Bucket")["StateBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]
    everywhere = [rule for rule in rules if "Prefix" not in rule]
    assert any("NoncurrentVersionExpiration" in rule for rule in everywhere)
    assert any("AbortIncompleteMultipartUpload" in rule for rule in everywhere)
    # Nothing but the audit trail ends by age: the rest is configuration and memory.
    assert [rule["Prefix"] for rule in rules if "ExpirationInDays" in rule] == ["plans/"]


@pytest.mark.parametrize(
    ("kind", "what"),
    [("AWS::S3::BucketPolicy", "s3:*"), ("AWS::SNS::TopicPolicy", "sns:Publish"), ("AWS::SQS::QueuePolicy", "sqs:*")],
)
def test_nothing_travels_without_tls(kind: str, what: str) -> None:
    (policy,) = resources(kind).values()
    assert any(
        statement["Effect"] == "Deny"
        and statement["Principal"] == "*"
        and statement["Action"] == what
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    )


def test_alarms_and_budgets_of_this_account_only_can_publish() -> None:
    key = resources("AWS::KMS::Key")["TopicKey"]["Properties"]["KeyPolicy"]["Statement"]
    topic = resources("AWS::SNS::TopicPolicy")["TopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    for document in (key, topic):
        services = {
            statement["Principal"]["Service"]: statement["Condition"]
            for statement in document
            if isinstance(statement["Principal"], dict) and "Service" in statement["Principal"]
        }
        this_account = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
        assert services == {"cloudwatch.amazonaws.com": this_account, "budgets.amazonaws.com": this_account}


def alarm(function: str, metric: str) -> dict[str, Any]:
    """The properties of the one alarm on a metric of a function."""
    watched = [{"Name": "FunctionName", "Value": {"Ref": logical_ids()[function]}}]
    (found,) = (
        resource["Properties"]
        for resource in resources("AWS::CloudWatch::Alarm").values()
        if resource["Properties"]["MetricName"] == metric and resource["Properties"]["Dimensions"] == watched
    )
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors_of_every_function_raise_an_alarm(function: str) -> None:
    errors = alarm(function, "Errors")
    assert errors["Namespace"] == "AWS/Lambda"
    assert errors["AlarmActions"] == [{"Ref": "Topic"}]
    assert errors["TreatMissingData"] == "notBreaching"


def test_the_reaper_s_silence_raises_an_alarm() -> None:
    silence = alarm("reap-instances", "Invocations")
    assert silence["Namespace"] == "AWS/Lambda"
    assert silence["TreatMissingData"] == "breaching"
    assert silence["ComparisonOperator"] == "LessThanThreshold" and silence["Threshold"] == 1
    assert silence["Period"] * silence["EvaluationPeriods"] == 15 * 60
    assert silence["AlarmActions"] == [{"Ref": "Topic"}]


def test_failed_events_raise_an_alarm() -> None:
    failed = resources("AWS::CloudWatch::Alarm")["FailedEventsAlarm"]["Properties"]
    assert failed["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": ["FailedEvents", "QueueName"]}}]
    assert failed["TreatMissingData"] == "notBreaching"
    assert failed["AlarmActions"] == [{"Ref": "Topic"}]
