"""Every rule of instances, from the announcement to the action, and everything that keeps an instance from it."""

from __future__ import annotations

from datetime import timedelta

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
    account.configure(untagged={"action": "terminate"}, lifetime={"action": "stop"}, projects={"allowed": ["atlas"], "action": "stop", "grace": "0s"})
    to_terminate = {"spot_instance_request": "one-time", "tags": {"curfew:on-idle": "terminate"}}
    idle, ownerless = account.idle(account.gpu()), {"Team": "vision", "Owner": " "}
    ends = {
        idle: ("idle", "stop", REGION),
        account.idle(account.gpu(**to_terminate)): ("idle", "terminate", REGION),
        account.untagged("inf2.xlarge", EUROPE, tags=ownerless): ("untagged", "terminate", EUROPE),
        account.gpu("inf2.xlarge", launched=ago(days=7, minutes=1)): ("lifetime", "stop", REGION),
        account.gpu("inf2.xlarge", tags={"Project": "doom <b>"}): ("unlisted-project", "stop", REGION),
    }
    listed = account.gpu("inf2.xlarge", tags={"Project": "Atlas"})
    younger = account.gpu("inf2.xlarge", launched=ago(days=6, hours=23))

    run = account.tick()
    for gpu, (rule, action, region) in ends.items():
        deadline = run.step(gpu)["evidence"]["deadline"]
        assert run.said(gpu) == ("mark", rule, "done")
        assert account.mark(gpu, region) == f"{rule}={action}@{deadline}"
        assert account.state(gpu, region) == "running"
        past = {"stop": "stopped", "terminate": "terminated"}[action]
        announced = [one for one in run.message().split("\n\n") if f"It will be {past} at {deadline}" in one]
        assert len([one for one in announced if one.startswith(f"{gpu} (")]) == 1
    assert sorted(run.ec2_writes) == sorted(("CreateTags", gpu) for gpu in ends)
    assert 'its Project "doom <b>" is not on the list of projects' in run.message() and account.state(listed) == "running"
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


def test_an_expiry_that_was_past_when_first_seen_is_announced_and_counts_in_the_limits(account: Account) -> None:
    """Who may tag a machine of another team does not end it at once, nor do they end a whole fleet."""
    account.configure(mode="observe", limits={"actions_max": 2})
    gpus = [account.busy(account.gpu(tags={"curfew:expires-at": rfc3339(ago(minutes=5))})) for _ in range(3)]
    run = account.tick_at(now())
    assert {run.said(gpu) for gpu in gpus} == {("mark", "expired", "done")}
    assert all(run.step(gpu)["evidence"]["first_seen_past"] and gpu in run.message() for gpu in gpus)
    assert account.tick_at(now() + timedelta(minutes=14)).skipped == {"marked": 3}
    run = account.tick_at(now() + timedelta(minutes=16))
    assert {run.said(gpu) for gpu in gpus} == {("stop", "expired", "not-reached")}


def test_a_forged_mark_announces_nothing_and_a_missing_one_delays_by_a_run(account: Account) -> None:
    account.configure(idle={"grace": "1h"})
    forged, robbed = account.idle(account.gpu()), account.idle(account.gpu())
    account.tag(forged, marked=f"idle=stop@{rfc3339(ago(minutes=5))}", stopped="yes", unattached_since="9999-12-31T23:59:59Z")
    account.was_announced(robbed, f"idle=stop@{rfc3339(ago(minutes=5))}")
    account.aws.client("ec2").delete_tags(Resources=[robbed], Tags=[{"Key": "curfew:marked"}])
    run = account.tick()
    assert run.said(forged) == run.said(robbed) == ("mark", "idle", "done")
    assert forged in run.message() and robbed not in run.message()
    run = account.tick()
    assert run.said(robbed) == ("stop", "idle", "done") and account.state(forged) == "running"


def test_a_label_starts_nothing(account: Account) -> None:
    """Whoever may tag a stopped machine does not start it."""
    tags = {"curfew:hours": "Mon-Sun 00:00-24:00 UTC", "curfew:stopped": f"hours {rfc3339(ago(hours=11))}"}
    gpu = account.gpu("p4d.24xlarge", tags=tags, launched=ago(days=2), state="stopped")
    assert account.tick().skipped == {"not-running": 1} and account.state(gpu) == "stopped"


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
    for gpu in ends:
        account.remember_labels(gpu)
    run = account.tick()
    for gpu, action in ends.items():
        assert_ended(account, run, gpu, "expired", action)
        writes = [write[0] for write in run.ec2_writes if gpu in write]
        assert writes[0] == "CreateTags", "a run that is cut off leaves a trace"
    run = account.tick()
    assert run.messages == [] and run.ec2_writes == []
