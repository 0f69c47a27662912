"""What a run answers and leaves behind: the response, the audit record, the messages; and that it repeats nothing."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

from contract import assert_all_is_in_it_once, assert_contract, assert_recorded
from local_aws.client import REGION
from reaping import EUROPE, REGIONS, REPOSITORY, Account, Run, ago, moment, rfc3339

INFERRED = {"mark", "unmark", "notify", "stop", "terminate"}
RULES = {"untagged": INFERRED, "idle": INFERRED, "lifetime": INFERRED, "hours": {*INFERRED, "start"}, "expired": INFERRED}


def assert_answers(response: dict[str, Any]) -> None:
    assert_contract(response, "reap-instances", RULES)
    assert_all_is_in_it_once(response)
    assert all(step["resource"].startswith("i-") for step in response["steps"])


def test_a_run_fulfils_the_contract(account: Account) -> None:
    idle = account.idle(account.gpu(tags={"Name": "bench"}))
    forgotten = account.untagged("p4d.24xlarge")
    expired = account.gpu("inf2.xlarge", EUROPE, tags={"curfew:expires-at": rfc3339(ago(hours=1)), "Team": "nlp"})
    account.remember_labels(expired, EUROPE)
    protected = account.gpu(tags={"curfew:protected": ""})
    account.aws.run_instance("m5.large", {}, launch_time=ago(hours=5))  # no accelerator: not even counted
    account.aws.client("ec2").terminate_instances(InstanceIds=[account.gpu()])
    listener = queue_for_team(account, "nlp")
    for event in ("scheduled-rule", "scheduled-scheduler"):
        run = account.tick((REPOSITORY / "events" / "reap-instances" / f"{event}.json").read_bytes())
        assert_answers(run.response)
        assert_recorded(account, run, "protected", [protected])
        if event == "scheduled-rule":
            first = run

    response = first.response
    assert (response["run"], response["mode"]) == (first.invocation.request_id, "enforce")
    assert (response["regions"], response["seen"]) == (REGIONS, 4)
    assert (response["skipped"], response["gaps"]) == ({"protected": 1}, [])
    expect = {
        idle: ("mark", "idle", "done", "vision", REGION),
        forgotten: ("mark", "untagged", "done", None, REGION),
        expired: ("stop", "expired", "done", "nlp", EUROPE),
    }
    for gpu, (*said, team, region) in expect.items():
        assert [*first.said(gpu), first.step(gpu)["team"], first.step(gpu)["region"]] == [*said, team, region]

    severities = {"vision": "warning", "untagged": "warning", "nlp": "action"}
    for message in first.messages:
        team = message["attributes"]["team"]
        assert message["attributes"] == {"team": team, "function": "reap-instances", "severity": severities.pop(team)}
        assert message["topic"] == account.topic_arn
    assert severities == {}
    told = first.message()
    deadline = first.step(idle)["evidence"]["deadline"]
    until = f"{moment(deadline):%Y-%m-%d %H:%M UTC}"
    stops = f'Curfew will stop {idle} (g5.xlarge "bench") of team vision at {until}: $1.01/h.'
    assert told.splitlines()[0] == f"Will lose: 250 GB NVMe scratch. {stops}"
    [subject] = [one["subject"] for one in first.messages if one["attributes"]["team"] == "vision"]
    assert re.fullmatch(r"Curfew: bench \(g5\.xlarge, vision\) stops [\d-]* ?\d\d:\d\d UTC, loses 250 GB scratch, \$1\.01/h", subject)
    for part in ("g5.xlarge", '"bench"', 'owner "ada"', REGION, "idle", "$1.01/h", deadline, f"\nKeep it: curfew keep {idle} 7d"):
        assert part in told, part
    assert forgotten in first.message("untagged")
    received = account.aws.client("sqs").receive_message(QueueUrl=listener, MaxNumberOfMessages=10)["Messages"]
    assert len(received) == 1 and expired in received[0]["Body"]


def test_many_teams_do_not_suspend_the_subscription(account: Account) -> None:
    """SNS does that above ten messages in a second."""
    idle = [account.idle(account.gpu(tags={"Team": f"team{number:02}"})) for number in range(16)]
    run = account.tick()
    assert len(run.messages) == len(idle)
    sent = sorted(call["at"] for call in run.calls if call["action"] == "sns:Publish")
    assert max(sum(1 for at in sent if start <= at < start + 1) for start in sent) <= 10
    assert account.tick().gaps == []


def queue_for_team(account: Account, team: str) -> str:
    """One whose filter policy takes what concerns that team; its URL."""
    sqs, sns = account.aws.client("sqs"), account.aws.client("sns")
    url = sqs.create_queue(QueueName=team)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"team": [team], "severity": ["warning", "action", "error"]})
    sns.subscribe(TopicArn=account.topic_arn, Protocol="sqs", Endpoint=arn, Attributes={"FilterPolicy": policy})
    return url


def test_an_unchanged_account_is_notified_once_across_processes(account: Account) -> None:
    account.configure(idle={"grace": "1h"}, untagged={"grace": "1h"})
    account.idle(account.gpu())
    account.untagged(region=EUROPE)
    account.gpu(tags={"curfew:idle-after": "soon"})
    account.gpu("trn1.32xlarge")
    account.gpu(launched=ago(days=30), tags={"curfew:idle-after": "off"})
    account.idle(account.gpu(tags={"eks:cluster-name": "ml"}))
    assert len(account.tick().messages) == 2
    for _ in range(2):
        account.restart()
        run = account.tick()
        assert run.is_quiet and (run.steps, run.response["seen"]) == ([], 6), run.messages


def test_two_at_once_do_no_harm(aws: Any) -> None:
    """Lambda may run a function twice at the same time, and deliver an event twice."""
    with Account(aws) as one:
        other = Account.__new__(Account)
        other.__dict__.update(one.__dict__)
        with other:
            gpus = [one.idle(one.gpu()) for _ in range(4)]
            runs: list[Run] = []
            for _ in range(4):
                pair = [threading.Thread(target=lambda who=who: runs.append(who.tick())) for who in (one, other)]
                [thread.start() for thread in pair]
                [thread.join() for thread in pair]
    assert len(runs) == 8
    for run in runs:
        assert_answers(run.response)
        assert {step["outcome"] for step in run.steps} <= {"done", "changed", "already-gone"}, run.steps
    assert [one.state(gpu) for gpu in gpus] == ["stopped"] * 4
    for gpu in gpus:
        assert one.mark(gpu) is None
        assert aws.tags(gpu)["curfew:stopped"].startswith("idle ")
