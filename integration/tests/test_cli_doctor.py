"""`curfew doctor`: a healthy deployment, and each illness once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from command import curfew
from deploying import ON_DEMAND_G, STACK, Deployment, deploy, doctor, findings, put_alarm, the_only
from reaping import BUCKET, EUROPE, Account, ago, binary, now, rfc3339, scheduled
from runtime_api import Function

FUNCTIONS = ["reap-instances", "reap-volumes", "enforce-budgets"]
CHECKS = ["runs", "alarms", "subscriptions", "configuration", "permissions", "roles", "telemetry", "quotas", "tags"]


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


def test_nothing_is_ever_written(stack: Deployment) -> None:
    stack.account.aws.clear_calls()
    doctor(stack)
    verbs = {call["action"].partition(":")[2] for call in stack.account.aws.calls()}
    assert all(verb.startswith(("Describe", "Get", "List", "Simulate", "HeadBucket")) for verb in verbs), verbs


# Runs


def test_a_function_that_does_not_run_is_a_problem(account: Account) -> None:
    stack = deploy(account)
    for key in account.keys("plans/"):
        account.aws.client("s3").delete_object(Bucket=BUCKET, Key=key)
    stack.ran("reap-instances", minutes_ago=20)
    said = doctor(stack)
    assert said.code == 1
    instances, volumes, budgets = findings(said, "runs")
    assert instances["severity"] == volumes["severity"] == budgets["severity"] == "problem"
    assert instances["found"] == "its last run was 20m ago, and it should run every 5m"
    assert "curfew-reap-instances" in instances["remedy"]
    assert "no record of a run" in volumes["found"] and "no record of a run" in budgets["found"]


# Alarms and subscriptions


def test_an_alarm_is_a_problem_and_its_description_the_remedy(stack: Deployment) -> None:
    put_alarm(stack.account, f"{STACK}-FailedEventsAlarm-1ABC", "Read the queue.", "ALARM")
    put_alarm(stack.account, f"{STACK}-test-FailedEventsAlarm-1ABC", "Not ours.", "ALARM")
    finding = the_only(doctor(stack), "alarms")
    assert (finding["severity"], finding["remedy"]) == ("problem", "Read the queue.")


def test_who_has_not_confirmed_is_named(stack: Deployment) -> None:
    sns = stack.account.aws.client("sns")
    sns.subscribe(TopicArn=stack.account.topic_arn, Protocol="email", Endpoint="ada@example.com")
    finding = the_only(doctor(stack), "subscriptions")
    assert (finding["severity"], finding["where"]) == ("warning", "ada@example.com")


# The configuration


def test_a_configuration_that_is_refused_is_a_problem(stack: Deployment) -> None:
    stack.account.write_config('mode = "enforce"\n[idle]\nwindow = "soon"\n')
    finding = the_only(doctor(stack), "configuration")
    assert finding["severity"] == "problem" and "line 3" in finding["found"]


# Telemetry


def test_a_gpu_that_does_not_report_is_a_warning_the_dearest_first(stack: Deployment) -> None:
    account = stack.account
    account.idle(account.gpu())
    silent = account.gpu(region=EUROPE)
    dear, half = account.gpu("g5.48xlarge"), account.gpu("g5.12xlarge")
    account.busy(half, gpus=3)
    # By its CPU it is at work, and its GPU still does not report.
    account.reports(dear, "CPUUtilization", [90.0] * 12)
    account.gpu(launched=ago(minutes=10))
    said = doctor(stack)
    assert said.code == 1
    found = findings(said, "telemetry")
    assert [one["where"].split(" ")[0] for one in found] == [dear, half, silent]
    assert found[0]["found"].startswith("g5.48xlarge, $16.29/h")
    assert "3 of its 4 accelerators report" in found[1]["found"]
    assert all(one["severity"] == "warning" and "CloudWatch agent" in one["remedy"] for one in found)


def test_people_read_a_remedy_once_where_several_findings_share_it(stack: Deployment) -> None:
    gpus = [stack.account.gpu(), stack.account.gpu()]
    shown = curfew(stack.environment(), "doctor").out
    assert all(shown.count(gpu) == 1 for gpu in gpus)
    assert shown.count("install the CloudWatch agent") == 1
    assert shown.endswith("\n2 warning(s)\n")


# Quotas


def test_a_quota_that_is_nearly_used_up_is_a_warning(stack: Deployment) -> None:
    stack.account.aws.set_quota(ON_DEMAND_G, 4)
    stack.account.aws.set_quota("L-7212CCBC", 96, region=EUROPE)
    stack.account.idle(stack.account.gpu())
    said = doctor(stack)
    finding = the_only(said, "quotas")
    assert finding["severity"] == "warning" and "4 of 4 vCPUs of G and VT (on-demand)" in finding["found"]
    (check,) = [one for one in said.json()["checks"] if one["check"] == "quotas"]
    assert len(check["quotas"]) == 22
    shown = curfew(stack.environment(), "doctor").out
    rows = [line.split() for line in shown.splitlines() if line.startswith(("  us-", "  eu-"))]
    assert rows == [["eu-central-1", "P", "0/0", "0/96"], ["us-east-1", "G", "and", "VT", "4/4", "0/0"]]


# What cannot be looked at


# Calls that are denied together, each with its permission and the checks that it leaves unknown; all others are fine.
DENIED: list[dict[tuple[str, str], set[str]]] = [
    {
        ("s3:ListObjectsV2", "s3:ListBucket"): {"runs", "roles"},
        ("cloudwatch:DescribeAlarms", "cloudwatch:DescribeAlarms"): {"alarms"},
        ("sns:ListSubscriptionsByTopic", "sns:ListSubscriptionsByTopic"): {"subscriptions"},
        ("cloudwatch:ListMetrics", "cloudwatch:ListMetrics"): {"telemetry"},
    },
    {
        ("s3:GetObject", "s3:GetObject"): {"runs", "configuration"},
        ("iam:SimulatePrincipalPolicy", "iam:SimulatePrincipalPolicy"): {"permissions"},
        ("servicequotas:ListServiceQuotas", "servicequotas:ListServiceQuotas"): {"quotas"},
        ("ec2:DescribeTags", "ec2:DescribeTags"): {"tags"},
    },
    {("ec2:DescribeRegions", "ec2:DescribeRegions"): {"telemetry", "quotas", "tags"}},
    {("ec2:DescribeInstances", "ec2:DescribeInstances"): {"telemetry", "quotas", "tags"}},
    {("ec2:DescribeVolumes", "ec2:DescribeVolumes"): {"tags"}},
]


@pytest.mark.parametrize("denied", DENIED, ids=[next(iter(calls))[0] for calls in DENIED])
def test_what_is_denied_is_unknown_and_the_rest_is_checked(
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


def test_the_roles_are_judged_by_the_mode_and_where_nobody_knows_it_that_is_said(stack: Deployment) -> None:
    stack.account.aws.fault("s3:GetObject", "access_denied", times=None)
    (finding,) = findings(doctor(stack), "permissions")
    assert finding["severity"] == "unknown" and "CURFEW_MODE" in finding["remedy"]


def test_nobody_can_say_where_nothing_could_be_looked_at(stack: Deployment) -> None:
    stack.account.aws.fault("*", "access_denied", times=None)
    said = doctor(stack, CURFEW_BUCKET=BUCKET, CURFEW_TOPIC_ARN=stack.account.topic_arn)
    assert said.code == 2
    assert {one["state"] for one in said.json()["checks"]} == {"unknown"}


def test_without_a_deployment_there_is_nothing_to_look_at(account: Account) -> None:
    said = doctor(Deployment(account, "observe"))
    assert said.code == 2 and said.out == ""
    assert "no stack curfew in us-east-1" in said.err and "--stack" in said.err


def test_a_bucket_without_its_stack_is_checked_as_far_as_it_goes(stack: Deployment) -> None:
    said = doctor(stack, "--stack", "another", CURFEW_BUCKET=BUCKET, CURFEW_TOPIC_ARN=stack.account.topic_arn)
    assert said.code == 1 and said.json()["stack"] is None
    states = {one["check"]: one["state"] for one in said.json()["checks"]}
    assert {check for check, state in states.items() if state == "unknown"} == {"alarms", "permissions"}
    assert all("--stack" in findings(said, check)[0]["remedy"] for check in ("alarms", "permissions"))


# Tags


def test_tags_that_nothing_owns_are_found_wherever_they_are(stack: Deployment) -> None:
    account = stack.account
    soon, long_ago = rfc3339(now() + timedelta(hours=1)), rfc3339(ago(days=2))
    gpu, other = account.gpu(), account.gpu(region=EUROPE)
    account.tag(gpu, marked=f"{gpu} idle=stop@{soon}", keep_until="2099-01-01")
    account.tag(other, region=EUROPE, marked=f"{gpu} idle=stop@{soon}")
    late = account.gpu(tags={"curfew:marked": "", "Curfew:Protected": "yes"})
    account.tag(late, marked=f"{late} idle=stop@{long_ago}")
    plain = account.gpu("m5.large", tags={"curfew:marked": f"{gpu} idle=stop@{soon}"})
    job = account.gpu(tags={"curfew:job": "vision/llama"})
    account.put("active/vision/live-0123abcd", b"")
    account.gpu(tags={"curfew:job": "vision/live-0123abcd"})
    gone = account.gpu(tags={"curfew:marked": "yes"})
    account.aws.client("ec2").terminate_instances(InstanceIds=[gone])
    group = account.aws.client("ec2").create_security_group(GroupName="x", Description="x")["GroupId"]
    account.tag(group, marked=f"{gpu} idle=stop@{soon}")
    said = doctor(stack)
    assert said.code == 1
    found = {one["where"].split(" ")[1]: one for one in findings(said, "tags")}
    by_resource = {
        other: "warning",
        late: "warning",
        plain: "warning",
        job: "warning",
        group: "warning",
    }
    assert {resource: one["severity"] for resource, one in found.items()} == by_resource, found
    assert found[other]["remedy"] == (
        f"aws ec2 delete-tags --region {EUROPE} --resources {other} --tags Key=curfew:marked"
    )
    assert "Curfew:Protected" in found[late]["found"]
    assert "no such active job" in found[job]["found"]


def test_a_snapshot_whose_volume_is_gone_and_that_never_ends_is_found(stack: Deployment) -> None:
    ec2 = stack.account.aws.client("ec2")
    lasting, gone = (stack.account.aws.create_volume(10, {}) for _ in range(2))
    of_lasting, of_gone = (ec2.create_snapshot(VolumeId=volume)["SnapshotId"] for volume in (lasting, gone))
    stack.account.tag(of_lasting, snapshot_of=lasting)
    stack.account.tag(of_gone, snapshot_of=gone)
    ec2.delete_volume(VolumeId=gone)
    finding = the_only(doctor(stack), "tags")
    assert of_gone in finding["where"] and gone in finding["found"]
