"""What a run answers and leaves behind: the response, the audit record, the messages; and that it repeats nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from local_aws.client import REGION
from reaping import EUROPE, REGIONS, REPOSITORY, Account, Run, ago, moment, now, rfc3339

FIELDS = ["function", "run", "at", "mode", "regions", "seen", "steps", "skipped", "gaps"]
STEP_FIELDS = ["region", "resource", "team", "action", "evidence", "saves_usd_per_hour", "outcome", "error"]
ACTIONS = {"mark", "unmark", "notify", "stop", "terminate", "start"}
RULES = {"expired", "untagged", "idle", "hours", "lifetime"}
OUTCOMES = {"done", "observed", "already-gone", "changed", "not-reached", "failed"}


def assert_contract(response: dict[str, Any]) -> None:
    """Exactly the fields of the design, in their order, with their types; everything seen is in it once."""
    assert list(response) == FIELDS
    assert response["function"] == "reap-instances"
    assert isinstance(response["run"], str) and response["run"]
    assert abs((now() - moment(response["at"])).total_seconds()) < 60
    assert response["mode"] in ("observe", "enforce")
    assert all(isinstance(region, str) for region in response["regions"])
    for step in response["steps"]:
        assert list(step) == STEP_FIELDS
        assert step["region"] in response["regions"]
        assert step["resource"].startswith("i-")
        assert step["team"] is None or isinstance(step["team"], str)
        assert step["action"] in ACTIONS
        assert step["evidence"]["rule"] in RULES
        price = step["saves_usd_per_hour"]
        assert price is None or (isinstance(price, (int, float)) and price >= 0)
        assert step["outcome"] in OUTCOMES
        assert step["error"] is None or isinstance(step["error"], str)
    assert all(isinstance(count, int) and count > 0 for count in response["skipped"].values())
    assert response["seen"] == len(response["steps"]) + sum(response["skipped"].values())
    for gap in response["gaps"]:
        assert list(gap) == ["region", "call", "error"]
        assert all(isinstance(value, str) and value for value in gap.values())


def test_a_run_answers_what_the_contract_says(account: Account) -> None:
    idle = account.idle(account.gpu())
    forgotten = account.untagged("p4d.24xlarge")
    expired = account.gpu("inf2.xlarge", EUROPE, tags={"curfew:expires-at": rfc3339(ago(hours=1))})
    account.gpu(tags={"curfew:protected": ""})
    account.aws.run_instance("m5.large", {}, launch_time=ago(hours=5))  # no accelerator: not even counted
    gone = account.gpu()
    account.aws.client("ec2").terminate_instances(InstanceIds=[gone])
    run = account.tick()
    response = run.response
    assert_contract(response)
    assert response["run"] == run.invocation.request_id
    assert response["mode"] == "enforce"
    assert response["regions"] == REGIONS
    assert response["seen"] == 4
    assert response["skipped"] == {"protected": 1}
    assert response["gaps"] == []
    assert run.said(idle) == ("mark", "idle", "done")
    assert run.said(forgotten) == ("mark", "untagged", "done")
    assert run.said(expired) == ("stop", "expired", "done")
    assert [run.step(one)["team"] for one in (idle, forgotten, expired)] == ["vision", None, "vision"]
    assert [run.step(one)["region"] for one in (idle, forgotten, expired)] == [REGION, REGION, EUROPE]


def test_the_audit_record_tells_the_same_as_the_response(account: Account) -> None:
    account.idle(account.gpu())
    protected = account.gpu(tags={"curfew:protected": "yes"})
    account.untagged(region=EUROPE)
    for _ in range(2):
        run = account.tick()
        record = account.audit(run)
        assert record.pop("schema") == 1
        assert record.pop("skipped")["protected"] == [protected]
        for step in record["steps"]:
            assert step.pop("what") and step.pop("name", "-")
        assert record == {name: value for name, value in run.response.items() if name != "skipped"}


def test_messages_carry_what_filter_policies_need(account: Account) -> None:
    ours = account.idle(account.gpu(tags={"Name": "bench"}))
    theirs = account.idle(account.gpu(tags={"Team": "nlp", "Owner": "grace"}))
    nobodys = account.untagged()
    run = account.tick()
    assert [one["attributes"] for one in sorted(run.messages, key=lambda one: one["attributes"]["team"])] == [
        {"team": team, "function": "reap-instances", "severity": "warning"} for team in ("nlp", "untagged", "vision")
    ]
    assert all(one["topic"] == account.topic_arn for one in run.messages)
    assert theirs not in run.message() and ours in run.message() and nobodys in run.message("untagged")
    told = run.message()
    assert told.splitlines()[0] == f"Lost by what Curfew ends: the NVMe scratch of {ours} (250 GB)."
    deadline = run.step(ours)["evidence"]["deadline"]
    for part in ("g5.xlarge", '"bench"', "owner ada", REGION, "idle", "$1.01/h", deadline, "curfew:keep-until"):
        assert part in told, part
    assert f"--resources {ours}" in told


def test_after_a_stop_the_message_says_how_to_undo_it(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.tick()
    run = account.tick()
    assert run.severities() == {"vision": "action"}
    assert f"aws ec2 start-instances --region {REGION} --instance-ids {gpu}" in run.message()


def test_a_queue_with_a_filter_policy_gets_its_team_only(account: Account) -> None:
    sqs, sns = account.aws.client("sqs"), account.aws.client("sns")
    url = sqs.create_queue(QueueName="nlp")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = '{"team": ["nlp"], "severity": ["warning", "action", "error"]}'
    sns.subscribe(TopicArn=account.topic_arn, Protocol="sqs", Endpoint=arn, Attributes={"FilterPolicy": policy})
    account.idle(account.gpu())
    theirs = account.idle(account.gpu(tags={"Team": "nlp"}))
    account.tick()
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    assert len(received) == 1 and theirs in received[0]["Body"]


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_what_does_not_change_is_told_and_written_once(account: Account, mode: str) -> None:
    account.configure(idle={"grace": "1h"}, untagged={"grace": "1h"})
    account.restart(CURFEW_MODE=mode)
    account.idle(account.gpu())
    account.untagged(region=EUROPE)
    account.gpu(tags={"curfew:idle-after": "soon"})
    account.gpu("trn1.32xlarge")
    account.gpu(launched=ago(days=30), tags={"curfew:idle-after": "off"})
    account.idle(account.gpu(tags={"eks:cluster-name": "ml"}))
    first = account.tick()
    assert len(first.messages) == 2
    runs = [account.tick() for _ in range(4)]
    assert [run.is_quiet for run in runs] == [True] * 4, [run.messages for run in runs]
    if mode == "enforce":
        assert [run.steps for run in runs] == [[]] * 4
    else:
        would = [(step["resource"], step["action"], "observed") for step in first.steps if step["action"] != "notify"]
        listed = [[(step["resource"], step["action"], step["outcome"]) for step in run.steps] for run in runs]
        assert len(would) == 2 and listed == [would] * 4, "each run lists what it would do"
    assert all(run.response["seen"] == 6 for run in runs)


def test_a_new_process_repeats_nothing(account: Account) -> None:
    account.configure(idle={"grace": "1h"})
    account.idle(account.gpu())
    account.gpu(launched=ago(days=30), tags={"curfew:idle-after": "off"})
    assert account.tick().messages
    account.restart()
    assert account.tick().is_quiet


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
        assert_contract(run.response)
        assert {step["outcome"] for step in run.steps} <= {"done", "changed", "already-gone"}, run.steps
    assert [one.state(gpu) for gpu in gpus] == ["stopped"] * 4
    for gpu in gpus:
        assert one.mark(gpu) is None
        assert aws.tags(gpu)["curfew:stopped"].startswith("idle ")


@pytest.mark.parametrize("name", ["scheduled-rule", "scheduled-scheduler"])
def test_both_kinds_of_schedule_wake_it(account: Account, name: str) -> None:
    gpu = account.gpu(tags={"curfew:expires-at": rfc3339(ago(minutes=1))})
    event = (REPOSITORY / "events" / "reap-instances" / f"{name}.json").read_bytes()
    assert account.tick(event).said(gpu) == ("stop", "expired", "done")
