"""Every rule of instances, from the announcement to the action, and everything that keeps an instance from it."""

from __future__ import annotations

from local_aws.client import REGION
from reaping import EUROPE, Account, Run, ago, moment, now, rfc3339

JOB = "vision/a-0123abcd"
OF_JOB = {"curfew:job": JOB, "curfew:attempt": "1", "curfew:mode": "enforce"}
WRITES = {"stop": "StopInstances", "terminate": "TerminateInstances"}
STATES = {"stop": "stopped", "terminate": "terminated"}


def assert_ended(account: Account, run: Run, gpu: str, rule: str, action: str, region: str = REGION) -> None:
    """Ended by one call, told, and the mark replaced by what stopped it."""
    assert run.said(gpu) == (action, rule, "done")
    assert [one["attributes"]["severity"] for one in run.messages if gpu in one["message"]] == ["action"]
    assert [write for write in run.ec2_writes if write[0] == WRITES[action] and gpu in write] == [(WRITES[action], gpu)]
    assert account.state(gpu, region) == STATES[action]
    if action == "stop":
        tags = account.aws.tags(gpu, region)
        by, at = tags["curfew:stopped"].split(" ")
        assert "curfew:marked" not in tags and by == rule and abs((now() - moment(at)).total_seconds()) < 60


def test_every_rule_announces_and_then_acts(account: Account) -> None:
    account.configure(untagged={"action": "terminate"}, lifetime={"action": "stop"})
    to_terminate = {"spot_instance_request": "one-time", "tags": {"curfew:on-idle": "terminate"}}
    idle, ownerless = account.idle(account.gpu()), {"Team": "vision", "Owner": " "}
    ends = {
        idle: ("idle", "stop", REGION),
        account.idle(account.gpu(**to_terminate)): ("idle", "terminate", REGION),
        account.untagged("inf2.xlarge", EUROPE, tags=ownerless): ("untagged", "terminate", EUROPE),
        account.gpu("inf2.xlarge", launched=ago(days=7, minutes=1)): ("lifetime", "stop", REGION),
    }
    younger = account.gpu("inf2.xlarge", launched=ago(days=6, hours=23))

    run = account.tick()
    for gpu, (rule, action, region) in ends.items():
        deadline = run.step(gpu)["evidence"]["deadline"]
        assert run.said(gpu) == ("mark", rule, "done")
        assert account.mark(gpu, region) == f"{gpu} {rule}={action}@{deadline}"
        assert account.state(gpu, region) == "running"
        past = {"stop": "stopped", "terminate": "terminated"}[action]
        announced = [one for one in run.message().split("\n\n") if f"It will be {past} at {deadline}" in one]
        assert len([one for one in announced if one.startswith(f"{gpu} (")]) == 1
    assert sorted(run.ec2_writes) == sorted(("CreateTags", gpu) for gpu in ends)
    actions = [call["action"] for call in run.calls]
    assert actions.index("sns:Publish") < actions.index("ec2:CreateTags"), "people hear of it before it is marked"
    evidence = run.step(idle)["evidence"]
    assert (evidence["devices"], evidence["gpu_max_percent"], evidence["reserved"]) == (1, 0.0, False)
    assert evidence["coverage_percent"] == 100
    assert (moment(evidence["to"]) - moment(evidence["from"])).total_seconds() == 900
    assert 10 * 60 <= (now() - moment(evidence["to"])).total_seconds() < 16 * 60

    run = account.tick()
    for gpu, (rule, action, region) in ends.items():
        assert_ended(account, run, gpu, rule, action, region)
    actions = [call["action"] for call in run.calls]
    assert actions.index("s3:PutObject") < actions.index("ec2:StopInstances"), "the record comes first"
    assert actions.index("ec2:CreateTags") < actions.index("ec2:StopInstances"), "and so does the trace"
    last = account.tick()
    assert account.state(younger) == "running" and (last.messages, last.ec2_writes) == ([], [])


def test_a_scheduled_action_takes_one_run(account: Account) -> None:
    account.configure(mode="observe")  # its owner's word is enough
    expires = {"curfew:expires-at": rfc3339(ago(seconds=5))}
    ends = {
        account.gpu(tags=expires): "stop",
        account.gpu(tags={**expires, "curfew:on-idle": "notify"}): "stop",
        account.gpu(tags=expires, spot_instance_request="one-time"): "terminate",
        account.gpu(tags=expires, root_device_type="instance-store"): "terminate",
        account.of_job(account.gpu(tags={**OF_JOB, **expires})): "terminate",
    }
    run = account.tick()
    for gpu, action in ends.items():
        assert_ended(account, run, gpu, "expired", action)
        writes = [write[0] for write in run.ec2_writes if gpu in write]
        assert writes[0] == "CreateTags", "a run that is cut off leaves a trace"
    assert account.tick().is_quiet
