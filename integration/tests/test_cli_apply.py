"""`curfew apply`: exactly the reviewed list, each item checked again; and nothing where nothing may be ended."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hosts.host import wait_for
from local_aws.client import REGION
from pending_plans import applied, apply, due, held, key_of, rewrite
from reaping import EC2_LOOKS, EUROPE, Account, Run, ago


def ec2_writes(account: Account) -> set[tuple[str, str]]:
    """Every EC2 call that changes something, with each resource that it names."""
    return {
        (call["action"], resource)
        for call in account.aws.calls()
        if call["action"].startswith("ec2:") and call["action"] not in EC2_LOOKS
        for resource in call["resources"]
    }


def touched(account: Account) -> set[str]:
    return {resource for _, resource in ec2_writes(account)}


def is_untouched(account: Account) -> bool:
    """Nothing ended, told, recorded or remembered."""
    puts = [call for call in account.aws.calls() if call["action"] == "s3:PutObject"]
    return not ec2_writes(account) and not account.aws.calls("sns:Publish") and not puts


def says_nothing(run: Run) -> bool:
    """Without the notifications of an apply since the run before."""
    own = [one for one in run.messages if "Run apply-" not in one["message"]]
    return not own and not run.ec2_writes


def test_the_whole_list(account: Account) -> None:
    """Carried out, told to its team, recorded as a run of its own; and the next run of the function has nothing to say."""
    gpus, plan = held(account, 3)
    told = len(account.aws.messages())
    said, outcomes = applied(account, plan)
    assert said.code == 0, said
    assert outcomes == {gpu: "done" for gpu in gpus}
    assert {account.state(gpu) for gpu in gpus} == {"stopped"}
    answer = said.json()
    assert (answer["schema"], answer["done"], answer["plan"]) == (1, 3, key_of(account, plan))
    assert answer["saved_usd_per_hour"] == pytest.approx(3 * 1.006)
    assert touched(account) == set(gpus)
    [message] = account.aws.messages()[told:]
    assert message["attributes"]["team"] == "vision" and message["attributes"]["severity"] == "action"
    assert all(gpu in message["message"] for gpu in gpus) and answer["run"] in message["message"]
    record = account.read(key_of(account, answer["run"]))
    assert (record["function"], record["mode"]) == ("reap-instances", "enforce")
    assert {step["resource"]: step["outcome"] for step in record["steps"]} == outcomes
    assert answer["run"].startswith(f"apply-{plan}-")
    assert all(f"/3] stop {gpu} (us-east-1): done" in said.err for gpu in gpus)
    assert says_nothing(account.tick())


def test_for_people(account: Account) -> None:
    [gpu], plan = held(account, 1)
    said = apply(account, plan)
    assert said.code == 2 and "pass --yes" in said.err and gpu in said.out
    assert f"lost for good: the NVMe scratch of {gpu} (250 GB)" in said.out
    assert is_untouched(account) and account.state(gpu) == "running"
    said = apply(account, plan[:8], "--yes").fine()
    assert all(word in said.out for word in (gpu, "g5.xlarge", "vision, ada", "$1.01/h", "GPU at 0 %", "1 done"))
    assert "total: 1 action, saving $1.01/h" in said.out and "Checking 1 action again" in said.err
    again = apply(account, plan[:8], "--yes").fine()
    assert "1 ended before" in again.out and is_untouched(account)


def test_a_change_in_the_last_second_is_respected(account: Account) -> None:
    [gpu], plan = held(account, 1)
    change = {"tag": {"resource": gpu, "tags": {"curfew:protected": ""}}}
    account.aws.before("ec2:DescribeInstances", change, match="InstanceId.1")
    said, outcomes = applied(account, plan)
    assert said.code == 1 and outcomes == {gpu: "changed"} and touched(account) == set()


def _of_others(account: Account, plan: str) -> list[dict[str, Any]]:
    """The logs of both regions, but for what the plan acts on."""
    logs = [account.read(account.notices(region)) for region in (REGION, EUROPE)]
    for log in logs:
        log["resources"] = {id: one for id, one in log["resources"].items() if "undone-idle" not in one.get("notified", {})}
        log.pop("readers", None)  # of what is announced, so of the plan too
    return logs


def test_an_apply_keeps_the_notifications_of_other_resources(account: Account) -> None:
    """Told once: the finding of an instance that is not on the list, and what it would have been stopped for."""
    account.configure(limits={"actions_max": 0}, teams={"nlp": {"mode": "observe"}})
    account.gpu(tags={"curfew:idle-after": "soon"})
    account.gpu(launched=ago(days=9), tags={"curfew:idle-after": "off"})
    account.idle(account.gpu(tags={"Team": "nlp"}))
    account.idle(account.gpu(region=EUROPE, tags={"Team": "nlp"}), EUROPE)
    due(account, 2)
    account.tick()
    plan = account.tick().response["run"]
    activity = account.read(f"activity/{REGION}.json")
    notices = _of_others(account, plan)
    records = [one for log in notices for one in log["resources"].values()]
    assert any("notified" in one for one in records) and any("announced" in one for one in records)
    said, _ = applied(account, plan)
    assert said.code == 0 and said.json()["done"] == 2
    assert _of_others(account, plan) == notices
    assert account.read(f"activity/{REGION}.json") == activity
    assert says_nothing(account.tick())


def check_refused(account: Account, plan: str, why: str, **over: str | None) -> None:
    said = apply(account, plan, "--yes", **over)
    assert said.code == 2 and why in said.err, said
    assert said.out == "" and is_untouched(account), account.aws.counts()


def test_an_apply_is_refused_where_nothing_may_be_ended(account: Account) -> None:
    """Without a confirmed subscription, a configuration, or a sign that the function runs."""
    gpus, plan = held(account)
    check_refused(account, plan, "no topic is named", CURFEW_TOPIC_ARN=None)
    deaf = account.aws.client("sns").create_topic(Name="deaf")["TopicArn"]
    check_refused(account, plan, "no confirmed subscription", CURFEW_TOPIC_ARN=deaf)
    for call, match in (("sns:ListSubscriptionsByTopic", None), ("s3:GetObject", "config/curfew.toml")):
        account.aws.fault(call, "access_denied", match=match)
        check_refused(account, plan, call)
    account.write_config("mode = 1")
    check_refused(account, plan, "mode")
    account.configure(limits={"actions_max": 0})
    # Reserved concurrency 0 is the break-glass that no CURFEW_MODE shows.
    for at, why in (
        (ago(hours=25), "is 1d1h old, and a plan is carried out within 1d only"),
        (ago(minutes=-20), "which is in the future"),  # it would never be too old
        (ago(minutes=16), "has left no record for 16m"),
    ):
        # By its key, for late in the evening the future is a day that is not looked at.
        check_refused(account, rewrite(account, plan, at=at), why)
    account.tick()
    assert applied(account, plan, "--only", gpus[0])[0].code == 0
    for key in account.keys("plans/"):
        if "/apply-" not in key and plan not in key:
            account.aws.client("s3").delete_object(Bucket="curfew-state", Key=key)
    check_refused(account, plan, "it is paused, or dead")  # an apply is no sign of life


def test_only_narrows(account: Account) -> None:
    gpus, plan = held(account, 2)
    [stranger] = due(account, 1)
    for other in (stranger, "", "*", gpus[0][:-1], ",".join(gpus)):
        said = apply(account, plan, "--only", other, "--yes")
        assert said.code == 2 and f"{other} is not on the list" in said.err and is_untouched(account)
    said, outcomes = applied(account, plan, "--only", gpus[0], "--only", gpus[0])
    assert said.code == 0 and outcomes == {gpus[0]: "done"} and touched(account) == {gpus[0]}


def test_a_plan_that_is_no_list_is_refused(account: Account) -> None:
    gpus, plan = held(account)
    [step, _] = account.read(key_of(account, plan))["steps"]
    record = account.read(key_of(account, plan))
    rewrite(account, plan, steps=[step, step])
    check_refused(account, plan, f"{step['resource']} is on the list of run {plan} twice")
    for body in (b"null", b"[" * 100_000, json.dumps({**record, "steps": [{}]}).encode()):
        account.put(key_of(account, plan), body)
        check_refused(account, key_of(account, plan), "error: ")
    account.put(key_of(account, plan), json.dumps(record).encode())
    rewrite(account, plan, function="reap-clusters")
    check_refused(account, plan, "does not know what reap-clusters does")
    rewrite(account, plan, function="reap-instances")
    run = applied(account, plan)[0].json()["run"]
    check_refused(account, run, "is itself the record of an apply")


def test_break_glass(account: Account) -> None:
    """The function went to observe mode since, or the person's CURFEW_MODE is observe."""
    _, plan = held(account)
    check_refused(account, plan, "CURFEW_MODE=observe is set here", CURFEW_MODE="observe")
    check_refused(account, plan, "CURFEW_MODE is \"perhaps\"", CURFEW_MODE="perhaps")
    account.restart(CURFEW_MODE="observe")
    account.tick()
    check_refused(account, plan, "ran in observe mode")
    check_refused(account, plan, "ran in observe mode", CURFEW_MODE=None)
    account.restart()
    account.aws.client("s3")
    rewrite(account, newest(account), at=ago(hours=1))
    # What was observed since is announced anew before anything ends.
    said, outcomes = applied(account, plan, CURFEW_MODE=None)
    assert said.code == 1 and set(outcomes.values()) == {"changed"} and touched(account) == set()


def newest(account: Account) -> str:
    records = {key: account.read(key) for key in account.keys("plans/")}
    return max(records.values(), key=lambda record: (record["at"], record["mode"] == "observe"))["run"]


# EC2 user guide, "Enable stop protection for your EC2 instances".
STOP_PROTECTED = "The instance 'i-1' may not be stopped. Modify its 'disableApiStop' instance attribute and try again."


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ({"action": "ec2:StopInstances", "fault": "access_denied"}, "failed"),
        # What only a person lifts is tried again once a day by the function, and at once by a person.
        ({"action": "ec2:StopInstances", "fault": "custom", "code": "OperationNotPermitted", "message": STOP_PROTECTED}, "failed"),
        ({"action": "ec2:DescribeInstances", "fault": "access_denied", "times": 1}, "not-reached"),
        ({"action": "s3:GetObject", "fault": "access_denied", "match": "notices/"}, "not-reached"),
        ({"action": "s3:PutObject", "fault": "access_denied", "match": "apply-"}, "not-reached"),
    ],
)
def test_a_call_that_fails(account: Account, fault: dict[str, Any], outcome: str) -> None:
    """It acts on nothing that it could not check, or record first; the same command continues."""
    [gpu], plan = held(account, 1)
    account.aws.fault(**{"times": None, **fault})
    said, outcomes = applied(account, plan)
    assert said.code == 1 and outcomes == {gpu: outcome}, said
    assert "curfew apply" in said.err and account.state(gpu) == "running"
    account.aws.clear_faults()
    assert applied(account, plan)[1] == {gpu: "done"}


def test_an_undelivered_message_survives_a_write_of_another_run(account: Account) -> None:
    """A person who may apply may lack the right to publish, and the function runs every five minutes."""
    [gpu], plan = held(account, 1)
    account.aws.fault("sns:Publish", "access_denied", times=None)
    account.aws.fault("ec2:StopInstances", "slow", seconds=60)
    notices = {"schema": 2, "undelivered": [{"team": "vision", "severity": "info", "text": "what the other owes"}]}
    with ThreadPoolExecutor() as meanwhile:
        applying = meanwhile.submit(applied, account, plan)
        wait_for(lambda: account.aws.calls("ec2:StopInstances"), 60, lambda: "it never stopped anything")
        account.put(account.notices(), json.dumps({**account.read(account.notices()), **notices}).encode())
        account.aws.release("ec2:StopInstances")
        assert applying.result()[1] == {gpu: "done"}
    account.aws.clear_faults()
    message = account.tick().message()
    assert f"{gpu} (g5.xlarge" in message and "what the other owes" in message
