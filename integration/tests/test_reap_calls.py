"""What a run asks of AWS: no call more than it takes, no metric twice, and no permission that the template lacks."""

from __future__ import annotations

from typing import Any

from local_aws.client import REGION
from reaping import EC2_WRITES, EUROPE, READS, SCHEDULED, Account, Run, ago, rfc3339
from template_actions import granted_actions


def metrics_asked(run: Run) -> int:
    """What CloudWatch would bill."""
    return sum(call["metrics_asked"] for call in run.calls)


# Of every run, whatever there is to do: configuration, prices, what was told, who listens, where to look, the audit record.
ALWAYS = {
    "s3:GetObject": 2 + 2,
    "sns:ListSubscriptionsByTopic": 1,
    "ec2:DescribeRegions": 1,
    "ec2:DescribeInstances": 2,
    "s3:PutObject": 1,
}


def test_an_empty_account_costs_ten_calls(account: Account) -> None:
    assert dict(account.tick().counts) == ALWAYS


def test_cpu_machines_cost_a_question_about_their_types_and_nothing_else(account: Account) -> None:
    for instance_type in ("m5.large", "c5.large", "t3.micro"):
        account.aws.run_instance(instance_type, {}, launch_time=ago(hours=5))
    assert dict(account.tick().counts) == {**ALWAYS, "ec2:DescribeInstanceTypes": 1}


def test_hundreds_of_instances_are_few_calls(account: Account) -> None:
    """A page of DescribeInstances holds 1,000, and GetMetricData takes 500 questions."""
    account.configure(tags={"required": []})
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "Team", "Value": "vision"}]}]
    ec2 = account.aws.client("ec2")
    for _ in range(12):
        launched = ec2.run_instances(
            ImageId="ami-1", InstanceType="g5.xlarge", MinCount=50, MaxCount=50, TagSpecifications=tags
        )
    for one in launched["Instances"]:
        account.aws.set_instance(one["InstanceId"], launch_time=ago(hours=5))
    run = account.tick()
    assert run.response["seen"] == 600
    assert run.counts["ec2:DescribeInstances"] == ALWAYS["ec2:DescribeInstances"]
    assert run.counts["ec2:DescribeInstanceTypes"] == 1
    # CPU of the 50 that are old enough, then network and disk of all of them: nothing reports, nothing more is asked.
    assert run.counts["cloudwatch:ListMetrics"] == 1
    assert run.counts["cloudwatch:GetMetricData"] == 2
    assert metrics_asked(run) == 50 + 50 * 4
    assert sum(run.counts.values()) <= sum(ALWAYS.values()) + 1 + 1 + 2 + 1 + 3


def test_a_busy_cpu_answers_for_the_rest(account: Account) -> None:
    """One metric for a machine at work; nothing at all until it can have become idle."""
    account.busy(account.gpu("g5.48xlarge"), gpus=8)
    first = account.tick()
    assert metrics_asked(first) == 1 and first.counts["cloudwatch:ListMetrics"] == 0
    second = account.tick()
    assert metrics_asked(second) == 0 and second.counts["cloudwatch:GetMetricData"] == 0
    assert second.spared == {"busy": 1}


def test_an_idle_machine_is_asked_about_once_for_each_of_its_series(account: Account) -> None:
    account.idle(account.gpu("g5.12xlarge"), gpus=4)
    run = account.tick()
    # CPU; network in and out, disk read and written; utilisation and memory of four GPUs.
    assert metrics_asked(run) == 1 + 4 + 2 * 4
    assert (run.counts["cloudwatch:ListMetrics"], run.counts["cloudwatch:GetMetricData"]) == (1, 2)


def test_marked_ones_are_asked_about_in_every_run(account: Account) -> None:
    account.configure(idle={"grace": "1h"})
    account.idle(account.gpu())
    asked = [metrics_asked(account.tick()) for _ in range(3)]
    assert asked == [7, 7, 7]


def test_unknown_observed_and_only_told_ones_once_a_window(account: Account) -> None:
    account.gpu()
    account.idle(account.gpu(tags={"curfew:mode": "observe"}))
    account.idle(account.gpu(tags={"curfew:on-idle": "notify"}))
    account.configure(idle={"grace": "1h"})
    asked = [metrics_asked(account.tick()) for _ in range(3)]
    assert asked[0] == 5 + 7 + 7 and asked[1:] == [0, 0]


def test_whom_nobody_asks_about(account: Account) -> None:
    for tags in ({"curfew:protected": ""}, {"curfew:keep-until": "2099-01-01"}, {"curfew:idle-after": "off"}):
        account.idle(account.gpu(tags=tags))
    account.idle(account.gpu(launched=ago(minutes=10)))
    account.idle(account.gpu(tags={"curfew:idle-after": "soon"}))
    account.idle(account.gpu(state="stopped"))
    run = account.tick()
    assert metrics_asked(run) == 0
    assert run.counts["s3:GetObject"] == ALWAYS["s3:GetObject"] + 1, "activity of the one region that has instances"


def test_spot_requests_are_asked_about_together(account: Account) -> None:
    for kind in ("one-time", "persistent", "one-time"):
        account.busy(account.gpu(spot_instance_request=kind))
    assert account.tick().counts["ec2:DescribeSpotInstanceRequests"] == 1


def test_a_stop_is_four_calls_and_a_mark_two(account: Account) -> None:
    """Look again, trace, stop, and the mark goes; look again and mark."""
    account.idle(account.gpu())
    mark = account.tick().counts
    assert mark["ec2:DescribeInstances"] == ALWAYS["ec2:DescribeInstances"] + 1
    assert {action: mark[action] for action in EC2_WRITES if mark[action]} == {"ec2:CreateTags": 1}
    stop = account.tick().counts
    assert stop["ec2:DescribeInstances"] == ALWAYS["ec2:DescribeInstances"] + 1
    assert {action: stop[action] for action in EC2_WRITES if stop[action]} == {
        "ec2:CreateTags": 1,
        "ec2:StopInstances": 1,
        "ec2:DeleteTags": 1,
    }
    assert stop["sns:Publish"] == 1
    assert stop["s3:PutObject"] <= 2 + 2, "the record before and after, activity, what was told"


def test_a_terminate_writes_no_more_than_it_must(account: Account) -> None:
    account.idle(account.gpu(tags={"curfew:on-idle": "terminate"}))
    account.tick()
    counts = account.tick().counts
    assert {action: counts[action] for action in EC2_WRITES if counts[action]} == {"ec2:TerminateInstances": 1}


def test_every_call_names_its_instance(account: Account) -> None:
    """A batch with one bad id would shield the others."""
    for _ in range(5):
        account.idle(account.gpu())
    account.tick()
    assert all(len(write) == 2 for write in account.tick().ec2_writes)


# Granted, and not seen here, each for a reason.
NOT_SEEN = {
    "kms:GenerateDataKey",  # an encrypted bucket and topic: the local AWS asks for no key
    "kms:Decrypt",
    "kms:CreateGrant",  # EC2 opens encrypted volumes at a start
    "sqs:SendMessage",  # Lambda's: the on-failure destination
    "logs:CreateLogStream",  # Lambda's
    "logs:PutLogEvents",
    "s3:ListBucket",  # without it an absent object looks forbidden; nothing is listed
}


def test_the_role_may_do_what_was_done_and_nothing_else(account: Account) -> None:
    seen = {permission for run in _everything(account) for call in run.calls for permission in call["permissions"]}
    assert READS <= seen, "a run of everything left out a look"
    granted = granted_actions("reap-instances")
    assert seen - granted == set(), "the deployed function would be denied"
    assert granted - seen == NOT_SEEN & granted
    assert NOT_SEEN - granted == set(), "no longer granted: shorten the list"


def _everything(account: Account) -> list[Run]:
    """Runs that mark, unmark, notify, stop, terminate, start, and fail."""
    account.configure(lifetime={"action": "stop"})
    past = rfc3339(ago(minutes=5))
    account.idle(account.gpu())
    account.untagged("inf2.xlarge", EUROPE)
    account.gpu(launched=ago(days=9), tags={"curfew:idle-after": "off"})
    account.of_job(account.gpu(tags={"curfew:expires-at": past, "curfew:job": "vision/a-1"}))
    account.idle(account.gpu(spot_instance_request="one-time"))
    account.gpu("trn1.32xlarge")
    mended = account.busy(account.gpu())
    account.tag(mended, marked=f"{mended} idle=stop@{past}")
    asleep = account.gpu(tags={"curfew:hours": "Mon-Sun 00:00-24:00 UTC", "curfew:stopped": f"hours {past}"})
    account.aws.set_instance(asleep, state="stopped")
    runs = [account.tick() for _ in range(3)]
    done = {step["action"] for run in runs for step in run.steps if step["outcome"] == "done"}
    assert done == {"mark", "unmark", "notify", "stop", "terminate", "start"}
    account.write_config("mood = 1")
    return [*runs, account.tick(), account.tick(b"{}")]


def test_the_bucket_is_used_where_the_role_reaches(account: Account) -> None:
    """config/, prices/ and jobs/ are only read; notices/, activity/ and plans/ are the function's own."""
    touched: dict[str, set[str]] = {"s3:GetObject": set(), "s3:PutObject": set()}
    for run in _everything(account):
        for call in run.calls:
            if call["action"] in touched:
                touched[call["action"]] |= {"/".join(key.split("/")[1:3]) for key in call["resources"]}
    regions = {f"activity/{region}.json" for region in (REGION, EUROPE)}
    read = {"config/curfew.toml", "prices/current.json", "notices/reap-instances", "jobs/vision", *regions}
    assert touched["s3:GetObject"] == read
    days = {key for key in touched["s3:PutObject"] if key.startswith("plans/")}
    assert touched["s3:PutObject"] - days <= {"notices/reap-instances", *regions} and days


def test_starting_costs_milliseconds(account: Account) -> None:
    account.restart()
    account.tick(SCHEDULED)
    started: Any = account.init_seconds
    assert started < 0.5, "a cold start is waited for by nobody"
