"""The second lock: what template.yaml promises, whatever else changes in it.

What its roles let functions do is evaluated in test_template_roles.py.
"""

from __future__ import annotations

import json
import re
import subprocess
from fnmatch import fnmatchcase
from typing import Any

import pytest

from template_actions import (
    REPOSITORY,
    Statement,
    changing_actions,
    fixed_environment,
    functions,
    granted_actions,
    logical_ids,
    managed_policy_ids,
    permissions,
    resources,
    statements,
    statements_of_role,
    template,
)
from template_iam import ADMINISTRATOR, Request, decision, statements_of

FUNCTIONS = sorted(functions())
# Woken by people alone, and there only where the account wants links.
REPLY = "reply"
SCHEDULED = [one for one in FUNCTIONS if one != REPLY]


MINUTES_BETWEEN_RUNS = {"reap-instances": 5, "reap-volumes": 60, "reap-sagemaker": 60, "enforce-budgets": 15, "run-jobs": 1}
MINUTES_OF_SILENCE = {
    "reap-instances": 15,
    "reap-volumes": 3 * 60,
    "reap-sagemaker": 3 * 60,
    "enforce-budgets": 45,
    "run-jobs": 5,
    "send-report": 2 * 24 * 60,
}
# Every morning: each failure is an alarm of its own.
DAILY = "send-report"

# Woken by events at any time as well: of two that decide about one job, one loses the swap of its state.
OVERLAPPING = {"run-jobs"}


def allowed(function: str) -> list[Statement]:
    return [statement for statement in statements(function) if statement.effect == "Allow"]


def denied(function: str) -> list[Statement]:
    return [statement for statement in statements(function) if statement.effect == "Deny"]


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
    assert set(managed_policy_ids(role)) <= set(resources("AWS::IAM::ManagedPolicy")), "AWS's managed policies change without us"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_role_allows_what_is_stated_and_no_more(function: str) -> None:
    """On everything only where AWS offers no less, and a change only in enforce mode."""
    granted = granted_actions(function)
    assert {action for one in allowed(function) for action in one.actions} == granted
    for one in allowed(function):
        for stated in (permissions()[action] for action in one.actions):
            assert set(stated["condition"].split()) <= set(one.only_if), (one.sid, stated)
            assert ("*" in one.resources) == (stated["resource"] == "*"), (one.sid, stated)
    at_all_times = {action for one in allowed(function) if not one.only_if for action in one.actions}
    assert at_all_times == {action for action in granted if not permissions()[action]["condition"]}
    assert template()["Conditions"]["Enforcing"] == {"Fn::Equals": [{"Ref": "Mode"}, "enforce"]}


def test_the_stack_is_refused_where_no_partition_is_supported() -> None:
    table = (REPOSITORY / "shared/model/src/partition.rs").read_text(encoding="utf-8")
    supported = re.findall(r'name: "([a-z-]+)",[^}]*is_supported: true,', table)
    [assertion] = template()["Rules"]["SupportedPartition"]["Assertions"]
    assert assertion["Assert"] == {"Fn::Contains": [supported, {"Ref": "AWS::Partition"}]}
    assert supported[0] == "aws" and all(partition in assertion["AssertDescription"] for partition in supported)


# -------------------------------------------------------------------------------------------- functions and their house


def test_every_function_directory_is_deployed_and_nothing_else() -> None:
    directories = {path.parent.name for path in (REPOSITORY / "functions").glob("*/Cargo.toml")}
    assert set(FUNCTIONS) == directories


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_sample_events(function: str) -> None:
    assert list((REPOSITORY / "events" / function).glob("*.json")), f"events/{function}/ is empty"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_sam_build_knows_every_function(function: str) -> None:
    rules = (REPOSITORY / "deploy" / "package.mk").read_text(encoding="utf-8")
    assert f"build-{logical_ids()[function]}: NAME := {function}\n" in rules


def dry_run(goal: str) -> str:
    """What make would do to package a function for x86_64."""
    makefile = REPOSITORY / "deploy" / "x86_64" / "Makefile"
    command = ["make", "--dry-run", "-f", str(makefile), goal, "ARTIFACTS_DIR=/artifacts"]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def test_jobs_carry_an_agent_for_every_processor_and_nothing_else_does() -> None:
    """Whatever the function itself runs on; and for the oldest glibc of the images that jobs may name."""
    packaged = dry_run("build-RunJobs")
    for architecture in template()["Parameters"]["Architecture"]["AllowedValues"]:
        assert f'/agent" "/artifacts/agent-{architecture}"' in packaged
    assert '"/artifacts/bootstrap"' in packaged and "x86_64-unknown-linux-gnu.2.26" in packaged and "aarch64-unknown-linux-gnu.2.26" in packaged
    assert "agent" not in dry_run("build-ReapInstances").replace(str(REPOSITORY), "")


def test_sam_build_knows_every_architecture() -> None:
    for architecture in template()["Parameters"]["Architecture"]["AllowedValues"]:
        makefile = REPOSITORY / "deploy" / architecture / "Makefile"
        assert f"ARCHITECTURE := {architecture}\n" in makefile.read_text(encoding="utf-8")


@pytest.mark.parametrize("function", SCHEDULED)
def test_the_schedule_is_the_retry(function: str) -> None:
    invocation = functions()[function]["Properties"]["EventInvokeConfig"]
    assert invocation["MaximumRetryAttempts"] == (2 if function == DAILY else 0)
    assert invocation["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": ["FailedEvents", "Arn"]}


@pytest.mark.parametrize("function", SCHEDULED)
def test_two_runs_of_a_function_do_not_overlap(function: str) -> None:
    properties = functions()[function]["Properties"]
    events = properties["Events"].values()
    (schedule,) = (event["Properties"]["Schedule"] for event in events if event["Type"] == "Schedule")
    if function == DAILY:
        assert schedule == {"Fn::If": ["ReportsOrganization", "cron(30 6 * * ? *)", "cron(0 6 * * ? *)"]}
        return
    minutes = MINUTES_BETWEEN_RUNS[function]
    assert schedule == "rate(1 minute)" if minutes == 1 else len(begins(schedule)) == 60 // minutes
    if function in OVERLAPPING:  # as long as a warning is worth something
        assert properties["EventInvokeConfig"]["MaximumEventAgeInSeconds"] == 120
    else:
        assert max(properties["EventInvokeConfig"]["MaximumEventAgeInSeconds"], properties["Timeout"]) < minutes * 60


def begins(schedule: str) -> set[int]:
    """The minutes of an hour at which a cron expression begins a run."""
    [minute] = re.findall(r"^cron\((\S+) \* \* \* \? \*\)$", schedule)
    first, _, every = minute.partition("/")
    return set(range(int(first), 60, int(every or 60)))


def test_no_two_schedules_begin_in_the_same_minute() -> None:
    """Each function has its share of the messages of a second, and only that of run-jobs is added to another's."""
    schedules = [
        event["Properties"]["Schedule"]
        for function in SCHEDULED
        if function not in (DAILY, "run-jobs")
        for event in functions()[function]["Properties"]["Events"].values()
        if event["Type"] == "Schedule"
    ]
    minutes = [minute for schedule in schedules for minute in begins(schedule)]
    assert len(schedules) == 4 and len(minutes) == len(set(minutes))


def test_a_team_without_a_reader_raises_an_alarm_on_another_topic() -> None:
    [metric] = resources("AWS::Logs::MetricFilter")["UnreadAnnouncements"]["Properties"]["MetricTransformations"]
    unread = resources("AWS::CloudWatch::Alarm")["UnreadAnnouncementsAlarm"]["Properties"]
    assert (unread["Namespace"], unread["MetricName"]) == (metric["MetricNamespace"], metric["MetricName"])
    assert unread["AlarmActions"] == [{"Ref": "AlarmTopic"}] and unread["EvaluationPeriods"] > 1
    named = set(re.findall(r"sns:\w+", resources("AWS::Logs::MetricFilter")["UnreadAnnouncements"]["Properties"]["FilterPattern"]))
    written = re.findall(r'"(sns:\w+)"', (REPOSITORY / "shared/execution/src/subscribers.rs").read_text(encoding="utf-8"))
    assert named == set(written)


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
        "CURFEW_ACCOUNT_TOPIC_ARN": {"Ref": "AccountTopic"},
        "CURFEW_CHAT_TOPIC_ARN": {"Fn::If": ["HasChatTopic", {"Ref": "ChatTopic"}, ""]},
        "CURFEW_EVENT_BUS": {"Ref": "EventBus"},
        "CURFEW_REPLY_URL": {"Fn::If": ["HasReplyLinks", {"Ref": "ReplyUrl"}, ""]},
        "CURFEW_HUB_BUCKET": {"Ref": "HubBucket"},
        "CURFEW_REPLICA_BUCKET": {"Ref": "ReplicaBucket"},
        "CURFEW_REPLICA_REGION": {"Ref": "ReplicaRegion"},
        "CURFEW_RESTORED": {"Fn::If": ["IsRestored", "yes", "no"]},
        "CURFEW_MODE": {"Ref": "Mode"},
        "MALLOC_TRIM_THRESHOLD_": "1048576",
    }
    assert template()["Resources"]["RunJobs"]["Properties"]["Environment"] == {
        "Variables": {
            "CURFEW_JOB_PROFILE": {"Ref": "JobProfile"},
            "CURFEW_TRIGGER_BUCKETS": {"Fn::Join": [",", {"Ref": "TriggerBuckets"}]},
            "CURFEW_ACCOUNT_METRICS": {"Ref": "AccountMetrics"},
            "CURFEW_SCHEDULES": {"Ref": "Schedules"},
        }
    }
    metrics = {"CURFEW_ACCOUNT_METRICS": {"Ref": "AccountMetrics"}}
    reports = {"CURFEW_ORGANIZATION_REPORT": {"Fn::If": ["ReportsOrganization", "yes", "no"]}}
    assert template()["Resources"]["EnforceBudgets"]["Properties"]["Environment"] == {"Variables": {**metrics, **reports}}
    assert template()["Resources"]["SendReport"]["Properties"]["Environment"] == {"Variables": {**metrics, **reports}}
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
    # Nothing but these ends by age: the rest is configuration and memory.
    assert {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule} == {
        "plans/": {"Ref": "AuditRetentionDays"},
        "reports/": {"Ref": "AuditRetentionDays"},
        "replies/": {"Ref": "AuditRetentionDays"},
        "inbox/": 30,
        "checkpoints/": {"Ref": "CheckpointRetentionDays"},
        "workdirs/": 180,
    }
    # What is rewritten every minute, or large, or both, has no old versions for a month.
    briefly = {
        rule["Prefix"]
        for rule in rules
        if "Prefix" in rule and rule.get("NoncurrentVersionExpiration") == {"NoncurrentDays": 1}
    }
    assert {"jobs/", "attempts/", "checkpoints/", "active/", "notices/", "activity/", "ledger/", "budgets/", "exports/", "prices/", "triggers/", "workdirs/"} == briefly


def test_a_checkpoint_outlives_a_month_of_waiting() -> None:
    """A job that is held by a budget waits for the next month, and then a little."""
    assert template()["Parameters"]["CheckpointRetentionDays"]["MinValue"] >= 31 + 14


@pytest.mark.parametrize(
    ("kind", "what"),
    [("AWS::S3::BucketPolicy", "s3:*"), ("AWS::SNS::TopicPolicy", "sns:Publish"), ("AWS::SQS::QueuePolicy", "sqs:*")],
)
def test_nothing_travels_without_tls(kind: str, what: str) -> None:
    for policy in resources(kind).values():
        assert any(
            statement["Effect"] == "Deny"
            and statement["Principal"] == "*"
            and statement["Action"] == what
            and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        )


def test_every_topic_is_encrypted_and_says_who_may_publish() -> None:
    topics = resources("AWS::SNS::Topic")
    assert {topic["Properties"]["KmsMasterKeyId"]["Fn::GetAtt"][0] for topic in topics.values()} == {"TopicKey"}
    policies = resources("AWS::SNS::TopicPolicy").values()
    assert sorted(policy["Properties"]["Topics"][0]["Ref"] for policy in policies) == sorted(topics)


def test_alarms_and_budgets_of_this_account_only_can_publish() -> None:
    def services(document: list[dict[str, Any]]) -> dict[str, Any]:
        document = [one for one in document if "Fn::If" not in one]
        return {
            statement["Principal"]["Service"]: statement["Condition"]
            for statement in document
            if isinstance(statement["Principal"], dict) and "Service" in statement["Principal"]
        }

    policies = resources("AWS::SNS::TopicPolicy")
    key = resources("AWS::KMS::Key")["TopicKey"]["Properties"]["KeyPolicy"]["Statement"]
    topic = policies["TopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    everything = policies["AccountTopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    alarms = policies["AlarmTopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    notifications = policies["BudgetNotificationsPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    this_account = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    its_budgets = {"ArnLike": {"aws:SourceArn": {"Fn::Sub": "arn:${AWS::Partition}:budgets::${AWS::AccountId}:*"}}}
    assert services(key) == {"cloudwatch.amazonaws.com": this_account, "budgets.amazonaws.com": this_account}
    assert (services(topic), services(everything), services(alarms)) == ({}, {}, {"cloudwatch.amazonaws.com": this_account})
    [(condition, of_account, nothing)] = [one["Fn::If"] for one in everything if "Fn::If" in one]
    its_alarms = {"ArnLike": {"aws:SourceArn": {"Fn::Sub": "arn:${AWS::Partition}:cloudwatch:${AWS::Region}:${AWS::AccountId}:alarm:${AWS::StackName}-*"}}}
    assert (condition, nothing) == ("HasAccountAlarm", {"Ref": "AWS::NoValue"})
    assert services([of_account]) == {"cloudwatch.amazonaws.com": this_account | its_alarms}
    assert services(notifications) == {"budgets.amazonaws.com": this_account | its_budgets}


def test_aws_budgets_wakes_the_one_function_that_knows_it() -> None:
    woken = {
        function: event["Properties"]["Topic"]
        for function in SCHEDULED
        for event in functions()[function]["Properties"]["Events"].values()
        if event["Type"] == "SNS"
    }
    assert woken == {"enforce-budgets": {"Ref": "BudgetNotifications"}}


def test_cost_explorer_is_asked_only_where_somebody_asks_for_it() -> None:
    assert template()["Conditions"]["AsksCostExplorer"] == {"Fn::Equals": [{"Ref": "CostExplorer"}, "yes"]}
    assert template()["Parameters"]["CostExplorer"]["Default"] == "no"


def test_mail_is_sent_only_from_the_address_that_somebody_named() -> None:
    for function in (DAILY, "reap-instances", "reap-volumes", "reap-sagemaker"):
        (mailing,) = [one for one in allowed(function) if "ses:SendEmail" in one.actions]
        assert mailing.only_if == ("HasReportSender",) and mailing.conditions == {"StringEquals": {"ses:FromAddress": {"Ref": "ReportSender"}}}
    assert template()["Conditions"]["HasReportSender"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "ReportSender"}, ""]}]}
    assert template()["Parameters"]["ReportSender"]["Default"] == ""


@pytest.mark.parametrize("function", SCHEDULED)
def test_a_channel_is_reached_only_where_somebody_asks_for_it(function: str) -> None:
    to_chat = [one for one in allowed(function) if {"Ref": "ChatTopic"} in one.resources]
    assert [(one.actions, one.resources, one.only_if) for one in to_chat] == [(("sns:Publish",), ({"Ref": "ChatTopic"},), ("HasChatTopic",))]
    to_bus = [one for one in allowed(function) if "events:PutEvents" in one.actions]
    assert [(one.actions, one.only_if) for one in to_bus] == [(("events:PutEvents",), ("HasEventBus",))]
    conditions, parameters = template()["Conditions"], template()["Parameters"]
    assert conditions["HasChatTopic"] == {"Fn::Equals": [{"Ref": "ChatNotifications"}, "yes"]}
    assert conditions["HasEventBus"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "EventBus"}, ""]}]}
    assert (parameters["ChatNotifications"]["Default"], parameters["EventBus"]["Default"]) == ("no", "")
    assert {resources()[name]["Condition"] for name in ("ChatTopic", "ChatTopicPolicy")} == {"HasChatTopic"}


def test_what_budgets_say_is_done_by_others() -> None:
    """Nothing is granted, and nothing that the reapers may do can be granted besides."""
    assert changing_actions("enforce-budgets") == set()
    (never,) = denied("enforce-budgets")
    assert (never.resources, never.conditions, never.only_if) == (("*",), {}, ())
    assert set(never.actions) >= {action for one in FUNCTIONS for action in changing_actions(one) if not action.startswith("iam:")}


def direct_patterns(function: str) -> list[dict[str, Any]]:
    """Of the events that each start an invocation of their own."""
    events = functions()[function]["Properties"]["Events"].values()
    return [event["Properties"]["Pattern"] for event in events if event["Type"] == "EventBridgeRule"]


def queued_patterns() -> list[dict[str, Any]]:
    """Of the events that go to the queue of run-jobs."""
    rules = [rule["Properties"] for rule in resources("AWS::Events::Rule").values()]
    for rule in rules:
        assert [target["Arn"] for target in rule["Targets"]] == [{"Fn::GetAtt": ["JobEvents", "Arn"]}]
    return [rule["EventPattern"] for rule in rules]


def patterns() -> list[dict[str, Any]]:
    """Of all events that wake run-jobs."""
    return [*direct_patterns("run-jobs"), *queued_patterns()]


def test_events_wake_jobs_alone() -> None:
    assert [function for function in SCHEDULED if direct_patterns(function)] == ["run-jobs"]
    kinds = [kind for pattern in patterns() for kind in pattern["detail-type"]]
    assert sorted(kinds) == ["EC2 Instance State-change Notification", "EC2 Spot Instance Interruption Warning", "Object Created", "Object Created"]


def test_only_a_warning_starts_an_invocation_of_its_own() -> None:
    """A storm of other events must not take the 10 concurrent executions of a new account, nor make a warning wait."""
    (direct,) = direct_patterns("run-jobs")
    assert direct["detail-type"] == ["EC2 Spot Instance Interruption Warning"] and "detail" not in direct
    mapped = {
        (function, name): event["Properties"]
        for function in SCHEDULED
        for name, event in functions()[function]["Properties"]["Events"].items()
        if event["Type"] == "SQS"
    }
    ((function, _), mapping), *others = mapped.items()
    assert function == "run-jobs" and not others
    assert mapping["Queue"] == {"Fn::GetAtt": ["JobEvents", "Arn"]}
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}
    # More than 10 in a batch need a window (Lambda developer guide, "Lambda parameters for Amazon SQS event source mappings").
    assert mapping["BatchSize"] == 100 and mapping["MaximumBatchingWindowInSeconds"] == 1
    for name in SCHEDULED:
        assert "ReservedConcurrentExecutions" not in functions()[name]["Properties"], "it fails in an account whose limit is 10"


def test_an_instance_that_ends_is_told_once() -> None:
    """Of the two states of each end, the first."""
    (ends,) = [one for one in patterns() if one["detail-type"] == ["EC2 Instance State-change Notification"]]
    assert ends["detail"] == {"state": ["running", "stopping", "shutting-down"]}
    sample = json.loads((REPOSITORY / "events" / "run-jobs" / "ec2-instance-state-change.json").read_text())
    assert sample["detail"]["state"] in ends["detail"]["state"], "no rule delivers it"


def test_an_event_of_a_failed_run_is_tried_again_for_a_day() -> None:
    """Nothing but its event says that an object arrived for a trigger."""
    queue = resources("AWS::SQS::Queue")["JobEvents"]["Properties"]
    # Lambda refuses a visibility timeout below the function's timeout, and advises six times as much.
    assert queue["VisibilityTimeout"] == 6 * functions()["run-jobs"]["Properties"]["Timeout"]
    assert 10 * queue["VisibilityTimeout"] < queue["MessageRetentionPeriod"] == 24 * 3600


def test_only_the_rules_of_the_stack_may_send_to_the_queue() -> None:
    """A principal of the account may send by its own policies alone, so all others are denied; but not what Lambda does to read."""
    document = resources("AWS::SQS::QueuePolicy")["JobEventsPolicy"]["Properties"]["PolicyDocument"]
    policy = statements_of(document)
    assert [one["Principal"] for one in document["Statement"] if one["Effect"] == "Allow"] == [{"Service": "events.amazonaws.com"}]
    queue = "JobEvents.Arn"

    def may_send(source: str | None, besides: tuple[Statement, ...] = ()) -> bool:
        context: dict[str, str | list[str]] = {} if source is None else {"aws:SourceArn": source}
        return decision((*policy, *besides), Request("sqs:SendMessage", queue, context=context)) == "allowed"

    rules = resources("AWS::Events::Rule")
    assert len(rules) == 3 and all(may_send(f"{name}.Arn") for name in rules)
    for stranger in (None, "AnotherRule.Arn", f"arn:aws:s3:::{queue}"):
        assert not may_send(stranger) and not may_send(stranger, (ADMINISTRATOR,)), stranger
    taken = [one for one in statements("run-jobs") if one.sid == "TakeEvents"]
    assert all(decision((*taken, *policy), Request(action, queue)) == "allowed" for action in taken[0].actions)


def test_arrivals_of_buckets_come_only_where_the_account_names_them() -> None:
    rule = resources("AWS::Events::Rule")["ArrivalForTrigger"]
    assert rule["Condition"] == "HasTriggerBuckets" and template()["Parameters"]["TriggerBuckets"]["Default"] == ""
    assert rule["Properties"]["EventPattern"]["detail"] == {"bucket": {"name": {"Ref": "TriggerBuckets"}}}


def test_objects_of_the_state_bucket_are_no_arrivals() -> None:
    """Whatever the account names: each run writes there, and would start the next. Of an event of S3 `resources` has the bucket alone."""
    pattern = resources("AWS::Events::Rule")["ArrivalForTrigger"]["Properties"]["EventPattern"]
    assert pattern["resources"] == [{"anything-but": [{"Fn::GetAtt": ["StateBucket", "Arn"]}]}]
    for sample in (REPOSITORY / "events" / "run-jobs").glob("s3-object-created-*.json"):
        event = json.loads(sample.read_text(encoding="utf-8"))
        assert event["resources"] == [f"arn:aws:s3:::{event['detail']['bucket']['name']}"]


@pytest.mark.parametrize(
    ("key", "wakes"),
    [
        ("inbox/vision/llama-ft.toml", True),
        ("jobs/vision/llama-ft-0123abcd/cancel.json", True),
        ("jobs/vision/llama-ft-0123abcd/extend.json", True),
        ("boxes/vision/my-box.json", False),
        ("triggers/vision/ingest.toml", True),
        ("triggers/ingest.toml", True),
        # What the function itself writes: it would go on for ever.
        ("inbox/vision/llama-ft.accepted.json", False),
        ("inbox/vision/llama-ft.rejected.json", False),
        ("triggers/vision/ingest.state.json", False),
        ("jobs/vision/llama-ft-0123abcd/spec.toml", False),
        ("jobs/vision/llama-ft-0123abcd/state.json", False),
        # And what machines write every minute.
        ("attempts/vision/llama-ft-0123abcd/1/heartbeat.json", False),
        ("attempts/vision/llama-ft-0123abcd/head.json", False),
        ("checkpoints/vision/llama-ft-0123abcd/1/100/manifest.json", False),
        ("config/curfew.toml", False),
    ],
)
def test_the_function_does_not_wake_itself(key: str, wakes: bool) -> None:
    (of_objects,) = (pattern for pattern in patterns() if pattern["source"] == ["aws.s3"] and "object" in pattern["detail"])
    assert of_objects["detail"]["bucket"] == {"name": [{"Ref": "StateBucket"}]}
    # `*` is any characters, `/` too (Amazon EventBridge user guide, "Comparison operators for use in event patterns").
    wildcards = [one["wildcard"] for one in of_objects["detail"]["object"]["key"]]
    assert any(fnmatchcase(key, wildcard) for wildcard in wildcards) == wakes


REPLY_URL = REPOSITORY / "deploy" / "reply-url.yaml"


def test_links_are_there_only_where_somebody_asks_for_them() -> None:
    parameters, conditions = template()["Parameters"], template()["Conditions"]
    assert (parameters["ReplyLinks"]["Default"], parameters["ReplyUrl"]["Default"]) == ("no", "")
    assert conditions["HasReplyLinks"] == {"Fn::Equals": [{"Ref": "ReplyLinks"}, "yes"]}
    own = {name for name, one in resources().items() if one.get("Condition") == "HasReplyLinks"}
    assert own == {"ReplyLogs", "ReplyRole", "Reply", "ReplyErrorsAlarm"}
    properties = functions()[REPLY]["Properties"]
    # A flood of strangers' requests must not take what the reapers need.
    assert properties["ReservedConcurrentExecutions"] == 2 and "Events" not in properties
    assert alarm(REPLY, "Url5xxCount")["AlarmActions"] == [{"Ref": "AlarmTopic"}]


def test_the_function_of_links_has_no_address_but_by_a_template_of_its_own() -> None:
    """Regions without the types of these resources refuse any template that names them."""
    beside = template(REPLY_URL)
    kinds = {one["Type"] for one in beside["Resources"].values()}
    assert kinds == {"AWS::Lambda::Url", "AWS::Lambda::Permission", "AWS::Chatbot::CustomAction"}
    assert not kinds & {one["Type"] for one in resources().values()}
    granted = [one["Properties"] for one in beside["Resources"].values() if one["Type"] == "AWS::Lambda::Permission"]
    # Since October 2025 both are needed, and each only by the address.
    assert {one["Action"]: (one["Principal"], one.get("FunctionUrlAuthType"), one.get("InvokedViaFunctionUrl")) for one in granted} == {
        "lambda:InvokeFunctionUrl": ("*", "NONE", None),
        "lambda:InvokeFunction": ("*", None, True),
    }
    assert re.fullmatch(template()["Parameters"]["ReplyUrl"]["AllowedPattern"], "https://abc.lambda-url.eu-central-1.on.aws/")


def test_a_button_sends_the_token_of_its_message_and_a_choice_that_exists() -> None:
    source = (REPOSITORY / "shared/operator/src/reply.rs").read_text(encoding="utf-8")
    chat = (REPOSITORY / "shared/notify/src/chat.rs").read_text(encoding="utf-8")
    assert '=> "reply"' in chat and '=> "box_reply"' in chat
    buttons = [one for one in template(REPLY_URL)["Resources"].values() if one["Type"] == "AWS::Chatbot::CustomAction"]
    choices = set()
    for button in buttons:
        assert button["Condition"] == "HasButtons"
        properties = button["Properties"]
        [attachment] = properties["Attachments"]
        payload = json.loads(properties["Definition"]["CommandText"]["Fn::Sub"].partition("--payload ")[2])
        variable = "box_reply" if payload["choice"] == "keep-3h" else "reply"
        assert attachment["Variables"] == {"reply": f"event.metadata.additionalContext.{variable}"}
        assert attachment["Criteria"] == [{"Operator": "HAS_VALUE", "VariableName": "reply"}]
        assert payload["reply"] == "$reply" and f'=> "{payload["choice"]}"' in source
        choices.add(payload["choice"])
    assert choices == {"keep-day", "protect", "undo", "keep-3h"}


FORWARDER = REPOSITORY / "deploy" / "forwarder.yaml"


def test_other_regions_send_home_what_wakes_jobs() -> None:
    """The same rules as at home, of the region's own events; and none in the home region, or they would go round for ever."""
    forwarder = template(FORWARDER)
    rules = [one for one in forwarder["Resources"].values() if one["Type"] == "AWS::Events::Rule"]
    forwarded = [dict(rule["Properties"]["EventPattern"]) for rule in rules]
    assert [pattern.pop("region") for pattern in forwarded] == [[{"Ref": "AWS::Region"}]] * 2
    assert forwarded == [pattern for pattern in patterns() if pattern["source"] == ["aws.ec2"]]
    assert {one["Condition"] for one in forwarder["Resources"].values()} == {"IsElsewhere"}
    at_home = {"Fn::Equals": [{"Ref": "HomeRegion"}, {"Ref": "AWS::Region"}]}
    assert forwarder["Conditions"]["IsElsewhere"] == {"Fn::Not": [at_home]}
    home_bus = {"Fn::Sub": "arn:${AWS::Partition}:events:${HomeRegion}:${AWS::AccountId}:event-bus/default"}
    for rule in rules:
        assert [target["Arn"] for target in rule["Properties"]["Targets"]] == [home_bus]
    (may,) = statements_of_role(forwarder["Resources"]["ForwarderRole"]["Properties"])
    assert (may.actions, may.resources) == (("events:PutEvents",), (home_bus,))


def test_a_role_for_one_team_is_the_common_one_but_for_its_prefixes() -> None:
    common = resources()["JobRole"]["Properties"]
    of_one = template(REPOSITORY / "deploy" / "team-role.yaml")["Resources"]
    of_team = of_one["JobRole"]["Properties"]
    for key in ("Path", "AssumeRolePolicyDocument"):
        assert common[key] == of_team[key]
    # Only a team is granted inputs.
    in_copy = of_one["ReachReplica"]["Properties"]
    assert in_copy["Roles"] == [{"Ref": "JobRole"}] and resources()["ReachReplica"]["Condition"] == of_one["ReachReplica"]["Condition"]
    with_copy = {**of_team, "Policies": [*of_team["Policies"], in_copy]}
    of_both = [one for one in statements_of_role(with_copy) if one.sid not in ("ReadInputs", "ListInputs")]
    pairs = list(zip(statements_of_role(common), of_both, strict=True))
    for one, other in pairs:
        assert (one.sid, one.effect, one.actions) == (other.sid, other.effect, other.actions)
        for key in ("StringEquals", "Null"):
            assert one.conditions.get(key) == other.conditions.get(key)


def test_launches_find_the_profile_by_its_name() -> None:
    (profile,) = resources("AWS::IAM::InstanceProfile").values()
    assert profile["Properties"]["InstanceProfileName"] == {"Fn::If": ["IsRestored", "curfew-restored-job", "curfew-job"]}
    assert profile["Properties"]["Roles"] == [{"Ref": "JobRole"}]
    # Only what is under this path may be given to machines.
    assert resources()["JobRole"]["Properties"]["Path"] == {"Fn::Sub": "${RolePath}curfew/"}
    samconfig = (REPOSITORY / "samconfig.toml").read_text(encoding="utf-8")
    assert 'capabilities = "CAPABILITY_NAMED_IAM"' in samconfig


def alarm(function: str, metric: str) -> dict[str, Any]:
    """The properties of the one alarm on a metric of a function."""
    watched = [{"Name": "FunctionName", "Value": {"Ref": logical_ids()[function]}}]
    (found,) = (
        resource["Properties"]
        for resource in resources("AWS::CloudWatch::Alarm").values()
        if resource["Properties"].get("MetricName") == metric and resource["Properties"]["Dimensions"] == watched
    )
    return found


@pytest.mark.parametrize("function", sorted(MINUTES_BETWEEN_RUNS))
def test_errors_of_every_function_raise_an_alarm(function: str) -> None:
    errors = alarm(function, "Errors")
    assert errors["Namespace"] == "AWS/Lambda"
    assert errors["AlarmActions"] == [{"Ref": "AlarmTopic"}]
    # Two of the last three runs: a period holds one run.
    assert errors["Period"] == MINUTES_BETWEEN_RUNS[function] * 60
    assert (errors["DatapointsToAlarm"], errors["EvaluationPeriods"]) == (2, 3)
    assert errors["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("function", SCHEDULED)
def test_the_silence_of_a_function_raises_an_alarm(function: str) -> None:
    silence = alarm(function, "Invocations")
    assert silence["Namespace"] == "AWS/Lambda"
    assert silence["TreatMissingData"] == "breaching"
    assert silence["ComparisonOperator"] == "LessThanThreshold" and silence["Threshold"] == 1
    assert silence["Period"] * silence["EvaluationPeriods"] == MINUTES_OF_SILENCE[function] * 60
    assert silence["AlarmActions"] == [{"Ref": "AlarmTopic"}]


FAILED_EVENTS_ALARM = "FailedEventsAlarm"


def test_every_kind_of_failure_raises_an_alarm() -> None:
    failed = resources("AWS::CloudWatch::Alarm")[FAILED_EVENTS_ALARM]["Properties"]
    assert failed["TreatMissingData"] == "notBreaching"
    assert failed["AlarmActions"] == [{"Ref": "AlarmTopic"}]
    total, *counted = failed["Metrics"]
    assert (total["Expression"], total["ReturnData"]) == ("SUM(FILL(METRICS(), 0))", True)
    assert {(one["MetricStat"]["Stat"], one["ReturnData"]) for one in counted} == {("Sum", False)}
    metrics = [one["MetricStat"]["Metric"] for one in counted]
    # What was never run is sent to the queue; what ran and failed is an error of its function.
    (kept,) = [one for one in metrics if one["Namespace"] == "AWS/SQS"]
    assert kept["MetricName"] == "NumberOfMessagesSent"
    assert kept["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": ["FailedEvents", "QueueName"]}}]
    ran = [one["Dimensions"] for one in metrics if (one["Namespace"], one["MetricName"]) == ("AWS/Lambda", "Errors")]
    assert sorted(ran, key=str) == sorted(([{"Name": "FunctionName", "Value": {"Ref": logical_ids()[one]}}] for one in SCHEDULED), key=str)


def mails(failures: list[int]) -> int:
    """How often the alarm of failed events tells, of failures that were counted in these minutes: each time its state becomes ALARM, which it is
    while enough of its last periods are above the threshold (CloudWatch user guide, "Evaluating an alarm")."""
    failed = resources("AWS::CloudWatch::Alarm")[FAILED_EVENTS_ALARM]["Properties"]
    (period,) = {one["MetricStat"]["Period"] // 60 for one in failed["Metrics"] if "MetricStat" in one}
    breaching = {minute // period for minute in failures}
    told, was = 0, False
    for last in range(max(breaching) + failed["EvaluationPeriods"] + 1):
        window = range(last - failed["EvaluationPeriods"] + 1, last + 1)
        now = len(breaching & set(window)) >= failed["DatapointsToAlarm"]
        told, was = told + (now and not was), now
    return told


@pytest.mark.parametrize("minutes", sorted(MINUTES_BETWEEN_RUNS.values()))
def test_an_error_that_lasts_is_told_once(minutes: int) -> None:
    assert mails(list(range(0, 24 * 60, minutes))) == 1
    # Now at the end of a run of 15 minutes, now at the beginning of the next but one.
    assert mails([minute + 15 * (number % 2) for number, minute in enumerate(range(0, 24 * 60, minutes))]) == 1


def test_the_second_failure_is_told_too() -> None:
    """Also while the event of the first still lies in the queue, which keeps it for 14 days."""
    assert mails([7]) == 1
    assert mails([7, 7 + 90]) == 2
    assert mails([0, 24 * 60, 7 * 24 * 60]) == 3


def test_the_page_on_costs_says_what_the_stack_itself_costs() -> None:
    """CloudWatch bills an alarm by the metrics that it evaluates, at $0.10 each (Amazon CloudWatch pricing); KMS bills a key $1 (AWS KMS pricing)."""
    alarms = [one["Properties"] for one in resources("AWS::CloudWatch::Alarm").values() if "Condition" not in one]
    metrics = sum(sum("MetricStat" in one for one in alarm.get("Metrics", [])) or 1 for alarm in alarms)
    keys = len(resources("AWS::KMS::Key"))
    assert keys == 1
    page = (REPOSITORY / "docs/costs.md").read_text(encoding="utf-8")
    cost = f"It costs ${metrics / 10 + keys:.2f} a month: {metrics} alarm metrics at $0.10 each, and one KMS key at $1."
    assert cost in " ".join(page.split())
