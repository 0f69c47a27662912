"""`curfew doctor`: a healthy deployment, and each illness once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from command import curfew
from deploying import ON_DEMAND_G, STACK, Deployment, deploy, doctor, findings, put_alarm
from reaping import BUCKET, EUROPE, Account, ago, binary, now, rfc3339, scheduled
from runtime_api import Function

FUNCTIONS = ["reap-instances", "reap-volumes", "enforce-budgets", "reap-sagemaker"]
CHECKS = ["version", "runs", "alarms", "subscriptions", "channels", "configuration", "permissions", "roles", "telemetry", "quotas", "tags"]


@pytest.fixture
def stack(account: Account) -> Deployment:
    return deploy(account)


def test_a_healthy_deployment_is_fine(account: Account) -> None:
    stack = deploy(account)
    for function in FUNCTIONS:
        with Function(binary(function), env=account.environment()) as reaper:
            assert reaper.invoke(scheduled(function)).error is None
    said = doctor(stack)
    assert said.code == 0, said
    document = said.json()
    assert (document["schema"], document["stack"], document["bucket"]) == (1, STACK, BUCKET)
    assert [(one["check"], one["state"]) for one in document["checks"]] == [(check, "ok") for check in CHECKS]
    shown = curfew(stack.environment(), "doctor").fine()
    assert "reap-instances ran" in shown.out and "in enforce mode" in shown.out
    assert shown.out.endswith("All is well.\n")


def test_a_topic_for_chats_that_no_channel_reads_is_found(stack: Deployment) -> None:
    topic_arn = stack.account.aws.client("sns").create_topic(Name="curfew-chat")["TopicArn"]
    [unread] = findings(doctor(stack, CURFEW_CHAT_TOPIC_ARN=topic_arn), "subscriptions")
    assert topic_arn in str(unread) and "no channel is connected" in unread["found"]


def test_mail_and_links_that_reach_nobody_are_found(account: Account) -> None:
    sender, url = "curfew@example.com", "https://abc.lambda-url.us-east-1.on.aws/"
    account.configure(report={"sender": sender}, notify={"owners": True})
    stack = deploy(account, ReplyLinks="yes", ReplyUrl=url)
    mail, links = findings(doctor(stack), "channels")
    assert (mail["severity"], mail["remedy"]) == ("problem", f'make deploy ARGS="ReportSender={sender}"')
    assert (links["severity"], links["where"]) == ("warning", url)
    account.aws.put_stack("curfew-reply-url", {}, outputs={"ReplyUrl": url})
    account.aws.put_stack(STACK, stack.made, parameters={**stack.parameters, "ReportSender": sender})
    assert findings(doctor(stack), "channels") == []


def test_each_illness_is_found_once(stack: Deployment) -> None:
    account, aws = stack.account, stack.account.aws
    soon, long_ago = rfc3339(now() + timedelta(hours=1)), rfc3339(ago(days=2))
    for key in account.keys("plans/"):
        aws.client("s3").delete_object(Bucket=BUCKET, Key=key)
    put_alarm(account, f"{STACK}-FailedEventsAlarm-1ABC", "Read the queue.", "ALARM")
    put_alarm(account, f"{STACK}-test-FailedEventsAlarm-1ABC", "Not ours.", "ALARM")
    aws.client("sns").subscribe(TopicArn=account.topic_arn, Protocol="email", Endpoint="ada@example.com")
    account.write_config('mode = "enforce"\n[idle]\nwindow = "soon"\n')
    aws.set_quota(ON_DEMAND_G, 4)
    aws.set_quota("L-7212CCBC", 96, region=EUROPE)
    silent, half = account.gpu(tags={"curfew:job": "vision/llama"}), account.gpu("g5.12xlarge", EUROPE)
    account.busy(half, EUROPE, gpus=3)
    copied = account.idle(account.gpu("m5.large", tags={"curfew:marked": f"idle=stop@{soon}"}))
    account.tag(half, EUROPE, stopped=f"idle {long_ago}")
    group = aws.client("ec2").create_security_group(GroupName="x", Description="x")["GroupId"]
    account.tag(group, marked=f"idle=stop@{soon}")
    account.put("active/vision/live-0123abcd", b"")
    account.idle(account.gpu(tags={"curfew:job": "vision/live-0123abcd"}))

    stack.ran("reap-instances", minutes_ago=20)
    aws.clear_calls()
    said = doctor(stack, CURFEW_MODE="enforce")
    verbs = {call["action"].partition(":")[2] for call in aws.calls()}
    assert all(verb.startswith(("Describe", "Get", "List", "Simulate", "HeadBucket")) for verb in verbs), verbs
    assert said.code == 1
    instances, volumes, budgets, sagemaker = findings(said, "runs")
    assert {one["severity"] for one in (instances, volumes, sagemaker, budgets)} == {"problem"}
    assert instances["found"] == "its last run was 20m ago, and it should run every 5m"
    assert "curfew-reap-instances" in instances["remedy"] and "has left a record" in volumes["found"]
    [alarm], [unconfirmed], [refused] = (findings(said, check) for check in ("alarms", "subscriptions", "configuration"))
    assert (alarm["severity"], alarm["remedy"]) == ("problem", "Read the queue.")
    assert (unconfirmed["severity"], unconfirmed["where"]) == ("warning", "ada@example.com")
    assert refused["severity"] == "problem" and "line 3" in refused["found"]
    telemetry = {one["where"].split(" ")[0]: one for one in findings(said, "telemetry")}
    assert telemetry.keys() == {half, silent} and "3 of its 4 accelerators report" in telemetry[half]["found"]
    assert telemetry[silent]["severity"] == "warning" and "CloudWatch agent" in telemetry[silent]["remedy"]
    [quota] = findings(said, "quotas")
    assert "vCPUs of G and VT (on-demand)" in quota["found"] and "8 of 4 in us-east-1" in quota["found"]
    tags = {one["where"].split(" ")[1]: one for one in findings(said, "tags")}
    assert tags.keys() == {copied, half, group, silent}, tags
    assert tags[half]["remedy"] == f"aws ec2 delete-tags --region {EUROPE} --resources {half} --tags Key=curfew:stopped"
    assert "which is not an active job" in tags[silent]["found"]

    shown = curfew(stack.environment(CURFEW_MODE="enforce"), "doctor").out
    assert shown.count("install the CloudWatch agent") == 1, "a remedy that several findings share is said once"
    rows = [line.split() for line in shown.splitlines() if line.startswith(("  us-", "  eu-"))]
    assert ["eu-central-1", "P", "0/0", "0/96"] in rows


# Calls that are denied together, each with its permission and the checks that it leaves unknown; all others are fine.
DENIED: list[dict[tuple[str, str], set[str]]] = [
    {
        ("s3:ListObjectsV2", "s3:ListBucket"): {"runs", "roles"},
        ("cloudwatch:DescribeAlarms", "cloudwatch:DescribeAlarms"): {"alarms"},
        ("sns:ListSubscriptionsByTopic", "sns:ListSubscriptionsByTopic"): {"subscriptions"},
        ("cloudwatch:ListMetrics", "cloudwatch:ListMetrics"): {"telemetry"},
    },
    {
        ("s3:GetObject", "s3:GetObject"): {"version", "runs", "configuration"},
        ("iam:SimulatePrincipalPolicy", "iam:SimulatePrincipalPolicy"): {"permissions"},
        ("servicequotas:ListServiceQuotas", "servicequotas:ListServiceQuotas"): {"quotas"},
        ("ec2:DescribeTags", "ec2:DescribeTags"): {"tags"},
    },
    {
        ("s3:GetBucketPolicy", "s3:GetBucketPolicy"): {"permissions"},
        ("cloudformation:DescribeStacks", "cloudformation:DescribeStacks"): {"version", "channels"},
    },
    {("ec2:DescribeRegions", "ec2:DescribeRegions"): {"telemetry", "quotas", "tags"}},
]


@pytest.mark.parametrize("denied", DENIED, ids=[next(iter(calls))[0] for calls in DENIED])
def test_a_denied_call_is_unknown_and_the_rest_is_checked(
    stack: Deployment, denied: dict[tuple[str, str], set[str]]
) -> None:
    account = stack.account
    account.idle(account.gpu(tags={"curfew:protected": ""}))
    account.aws.create_volume(10, {"curfew:protected": ""})
    for action, _ in denied:
        account.aws.fault(action, "access_denied", times=None)
    # The mode stands in the record of a run, and else only the environment says it.
    said = doctor(stack, CURFEW_MODE="enforce")
    assert said.code == 1
    states = {one["check"]: one["state"] for one in said.json()["checks"]}
    assert {check for check, state in states.items() if state != "ok"} == set().union(*denied.values())
    for (_, permission), checks in denied.items():
        for check in checks:
            assert states[check] == "unknown"
            for finding in findings(said, check):
                assert finding["severity"] == "unknown"
                assert permission in finding["found"] + finding["remedy"], finding
                assert "grant" in finding["remedy"], finding


def test_everything_denied_exits_with_2(stack: Deployment) -> None:
    stack.account.aws.fault("*", "access_denied", times=None)
    said = doctor(stack, CURFEW_BUCKET=BUCKET, CURFEW_TOPIC_ARN=stack.account.topic_arn)
    assert said.code == 2
    assert {one["state"] for one in said.json()["checks"]} == {"unknown"}


def test_a_missing_deployment_is_an_error(account: Account) -> None:
    said = doctor(Deployment(account, "observe"))
    assert said.code == 2 and said.out == ""
    assert "no stack curfew in us-east-1" in said.err and "--stack" in said.err
