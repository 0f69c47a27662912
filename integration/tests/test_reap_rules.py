"""Every rule of instances, from the announcement to the action, and everything that keeps an instance from it."""

from __future__ import annotations

from typing import Any

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


def test_every_rule_is_announced_and_then_carried_out(account: Account) -> None:
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


def test_an_owners_own_end_takes_one_run(account: Account) -> None:
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


def test_metrics_of_another_namespace_and_name(account: Account) -> None:
    names = {
        "namespace": "ML",
        "utilization": "gpu_busy",
        "memory_used_mib": "",
        "device_dimension": "gpu",
        "instance_dimension": "instance",
    }
    account.configure(metrics={"nvidia": names})
    gpu = account.idle(account.gpu())
    assert account.tick().skipped == {"usage-unknown": 1}
    account.aws.put_metrics("ML", "gpu_busy", {"instance": gpu, "gpu": "0"}, [0.0] * 24, ago(hours=2))
    account.aws.client("s3").delete_object(Bucket="curfew-state", Key=f"activity/{REGION}.json")
    assert account.tick().said(gpu) == ("mark", "idle", "done")


def test_tagged_in_time_the_mark_goes(account: Account) -> None:
    account.configure(untagged={"grace": "24h"}, idle={"window": "60d"})
    gpu = account.untagged()
    run = account.tick()
    wait = moment(run.step(gpu)["evidence"]["deadline"]) - now()
    assert 23.9 * 3600 < wait.total_seconds() <= 24 * 3600
    assert account.tick().skipped == {"marked": 1}
    account.aws.tag(gpu, {"Team": "nlp", "Owner": "grace"})
    run = account.tick()
    assert run.said(gpu) == ("unmark", "untagged", "done")
    assert "is called off" in run.message("nlp")
    assert account.mark(gpu) is None and account.tick().is_quiet


def test_what_is_notify_only_is_told_once(account: Account) -> None:
    why: dict[str, str] = {}
    for reason, gpu in (
        ("cannot-be-stopped", {"spot_instance_request": "one-time"}),
        ("cannot-be-stopped", {"root_device_type": "instance-store"}),
        ("persistent-spot", {"spot_instance_request": "persistent", "tags": {"curfew:on-idle": "terminate"}}),
        ("local-disk", {"tags": {"curfew:local-disk": "keep"}}),
        ("configured", {"tags": {"curfew:on-idle": "notify"}}),
        ("saves-nothing", {"capacity_reservation_id": "cr-0123456789abcdef0"}),
    ):
        why[account.idle(account.gpu(**gpu))] = reason
    run = account.tick()
    for gpu, reason in why.items():
        assert run.said(gpu) == ("notify", "idle", "done") and gpu in run.message()
        assert run.step(gpu)["evidence"]["notify_only"] == reason
    again = account.tick()
    assert run.ec2_writes == [] and again.is_quiet and again.skipped == {"notified": len(why)}


def test_what_is_skipped_is_not_touched_and_told_at_most_once(account: Account) -> None:
    """Each is idle, too old, and announced for both, past the deadlines."""
    account.configure(lifetime={"action": "terminate"}, managed={"tag_keys": ["spacelift"]})
    past = rfc3339(ago(minutes=5))

    def due(**gpu: Any) -> str:
        gpu_id = account.idle(account.gpu(launched=ago(days=30), **gpu))
        account.tag(gpu_id, marked=f"{gpu_id} idle=stop@{past} lifetime=terminate@{past}")
        return gpu_id

    kept = [{"curfew:protected": "false"}, {"curfew:keep-until": rfc3339(ago(hours=-1))}]
    unreadable = [{"curfew:idle-after": "soon"}, {"curfew:expires-at": "2020-01-01T00:00:00Z"}, {"curfew:protectd": ""}]
    # Keys that begin with `aws:` cannot be set by a caller: those come by the back door.
    managed = [{"aws:autoscaling:groupName": "g"}, {"eks:cluster-name": "ml"}, {"spacelift": "x"}]
    of = {gpu: tags for tags in (*kept, *unreadable, *managed) for gpu in [due()]}
    for gpu, tags in of.items():
        account.aws.tag(gpu, tags)
    own = account.of_job(account.idle(account.gpu(launched=ago(days=9), tags=OF_JOB)))
    unsayable = account.idle(account.gpu(tags={**OF_JOB, "curfew:job": "vision/b-0123abcd"}))
    silent, ended = account.gpu(), due()
    account.put("jobs/vision/b-0123abcd/state.json", b"half a docu")
    expected = {"protected": 1, "kept": 1, "unreadable": 3, "foreign-owned": 3}
    expected |= {"live-job": 1, "job-unknown": 1, "usage-unknown": 1}

    first, second = account.tick(), account.tick()
    assert first.step(ended)["action"] in ("stop", "terminate"), "without a reason it ends"
    for run, more in ((first, {}), (second, {"not-running": 1})):
        assert run.skipped == {**expected, **more}
        assert {step["resource"] for step in run.steps} <= {ended}
        assert {write[1] for write in run.ec2_writes} <= {ended}
        assert [gap["call"] for gap in run.gaps] == ["s3:GetObject"]
    assert second.is_quiet
    assert {account.state(gpu) for gpu in (*of, own, unsayable, silent)} == {"running"}
    assert all(account.mark(gpu) for gpu in of), "not even the mark is touched"
    paragraphs = {one.split(" ")[0]: one for one in first.message().split("\n\n")}
    for gpu, tags in of.items():
        [(key, value)] = tags.items()
        assert (gpu in paragraphs) == (tags not in kept)
        assert tags not in unreadable or f"{key}={value} cannot be read" in paragraphs[gpu]
    for words in ("its usage is unknown", "$1.01/h", "install"):
        assert words in paragraphs[silent]
    assert own not in paragraphs and unsayable not in paragraphs


def test_an_instance_that_its_job_does_not_know_is_untagged(account: Account) -> None:
    account.of_job("i-0123456789abcdef0")
    account.configure(untagged={"mode": "enforce", "grace": "1h"}, idle={"grace": "2h"})
    gpu = account.idle(account.gpu(tags=OF_JOB))
    first = account.tick()
    assert first.said(gpu) == ("mark", "untagged", "done")
    assert (first.step(gpu)["evidence"]["missing"], first.step(gpu)["evidence"]["disowned_by"]) == ([], JOB)
    assert all(words in first.message() for words in (JOB, "copied", "$1.01/h"))
    assert "untagged=stop@" in (account.mark(gpu) or "") and account.tick().is_quiet
