"""`curfew uninstall`: what stays, and the removal of what a person names."""

from __future__ import annotations


import pytest

from command import Said, curfew
from deploying import STACK, Deployment, deploy
from reaping import BUCKET, Account, ago
from reaping_volumes import VolumeAccount
from terminal import Terminal
from test_cli_jobs import LLAMA, running


@pytest.fixture
def stack(account: Account) -> Deployment:
    return deploy(account)


def uninstall(stack: Deployment, *arguments: str, **over: str | None) -> Said:
    return curfew(stack.environment(**over), "uninstall", *arguments)


REPLY_URL = {"FunctionName": "curfew-reply", "ChatButtons": "no"}
REPLY_URL_OF_OTHERS = REPLY_URL | {"FunctionName": "staging-reply"}


def kinds(said: Said) -> dict[str, int]:
    return {one["kind"]: one["count"] for one in said.json()["leftovers"]}


def stacks(account: Account, region: str = "us-east-1") -> list[str]:
    return [one["StackName"] for one in account.aws.client("cloudformation", region).describe_stacks()["Stacks"]]


def safety_snapshot(account: Account) -> str:
    """Of a volume that Curfew deleted, with its record."""
    with VolumeAccount(account.aws, heard=False) as storage:
        return storage.left_behind(ago(days=2))


def snapshots(account: Account) -> list[str]:
    found = account.aws.client("ec2").describe_snapshots(OwnerIds=["self"])["Snapshots"]
    return [one["SnapshotId"] for one in found if one["Description"].startswith("Curfew: ")]


def test_it_only_lists(stack: Deployment) -> None:
    account = stack.account
    gpu = account.gpu(tags={"curfew:marked": "idle=stop@2030-01-01T00:00:00Z", "curfew:protected": ""})
    account.gpu(tags={"curfew:stopped": "idle 2030-01-01T00:00:00Z"}, state="stopped", region="eu-central-1")
    safety_snapshot(account)
    curfew(account.environment(), "team", "create", "vision").fine()
    account.aws.put_stack("curfew-team-other", {}, parameters={"StateBucket": "another"})
    for region, home in (("eu-central-1", "us-east-1"), ("us-east-1", "eu-west-1")):
        account.aws.put_stack("curfew-forwarder", {}, region, parameters={"HomeRegion": home})
    account.aws.put_stack("curfew-reply-url", {}, parameters=REPLY_URL)
    account.aws.put_stack("curfew-reply-url-of-others", {}, parameters=REPLY_URL_OF_OTHERS)
    targets = [{"Key": "InstanceIds", "Values": [gpu]}]
    account.aws.client("ssm").create_association(Name="AWS-RunShellScript", AssociationName="curfew-gpu-metrics-configuration", Targets=targets)
    before = account.aws.tags(gpu)
    account.aws.clear_calls()
    said = uninstall(stack, "--json").fine()
    assert kinds(said) == {
        **{"stack": 1, "bucket": 1, "stopped-instances": 1, "labels": 2, "tags-of-people": 1, "snapshots": 1, "gpu-metrics": 1},
        **{"team-stacks": 1, "forwarders": 1, "reply-urls": 1},
    }
    assert (said.json()["outcome"], said.json()["removed"], said.json()["gaps"]) == ("listed", [], [])
    writes = [one for one in account.aws.counts() if not one.split(":")[1].startswith(("Describe", "List", "Get", "Head"))]
    assert writes == [] and account.aws.tags(gpu) == before
    shown = uninstall(stack).fine()
    assert f"The state bucket {BUCKET}" in shown.out and "the only copy of their data" in shown.out
    assert "Nothing was removed" in shown.err
    account.aws.put_stack("staging", {}, parameters={"Mode": "observe", "AuditRetentionDays": "30"})
    shared = uninstall(stack, "--remove", "forwarders", "--yes")
    assert shared.code == 2 and "staging needs the events as well" in shared.err


def test_what_is_named_is_removed_and_nothing_else(stack: Deployment) -> None:
    account = stack.account
    gpu = account.gpu(tags={"curfew:marked": "idle=stop@2030-01-01T00:00:00Z", "curfew:hours": "Mon-Fri 08:00-20:00 UTC"})
    snapshot = safety_snapshot(account)
    curfew(account.environment(), "team", "create", "vision").fine()
    account.aws.put_stack("curfew-forwarder", {}, "eu-central-1", parameters={"HomeRegion": "us-east-1"})
    account.aws.put_stack("curfew-reply-url", {}, parameters=REPLY_URL)
    account.aws.put_stack("curfew-reply-url-2", {}, parameters=REPLY_URL_OF_OTHERS)
    arguments = ("--delete-stack", "--remove", "labels,team-stacks", "--remove", "forwarders,reply-urls")
    said = uninstall(stack, *arguments, "--yes", "--json").fine().json()
    assert said["outcome"] == "removed" and said["failures"] == [] and len(said["removed"]) == 5
    assert said["removed"][0] == "the stack curfew", "before all else"
    assert "curfew:marked" not in account.aws.tags(gpu) and "curfew:hours" in account.aws.tags(gpu)
    assert snapshots(account) == [snapshot], "not named"
    assert stacks(account) == ["curfew-reply-url-2"] and stacks(account, "eu-central-1") == []
    assert account.keys("plans/"), "the record stays"
    again = uninstall(stack, *arguments, "--yes", "--json", CURFEW_BUCKET=BUCKET).fine().json()
    assert (again["outcome"], again["removed"]) == ("removed", [])


def test_only_snapshots_that_our_record_proves_are_deleted(stack: Deployment) -> None:
    account, ec2 = stack.account, stack.account.aws.client("ec2")
    safety_snapshot(account)
    volume = account.aws.create_volume(8, {})
    forged = ec2.create_snapshot(VolumeId=volume, Description=f"Curfew: {volume} before its deletion, by run-1")["SnapshotId"]
    said = uninstall(stack, "--remove", "snapshots", "--yes", "--json").fine()
    assert kinds(said)["unproven-snapshots"] == 1 and len(said.json()["removed"]) == 1
    assert snapshots(account) == [forged]


def test_without_the_record_no_snapshot_is_deleted(stack: Deployment) -> None:
    snapshot = safety_snapshot(stack.account)
    stack.account.aws.fault("s3:GetObject", "access_denied", times=None)
    said = uninstall(stack, "--remove", "snapshots", "--yes", "--json")
    assert said.code == 2 and said.json()["outcome"] == "incomplete" and said.json()["gaps"]
    assert snapshots(stack.account) == [snapshot]


def test_unfinished_jobs_are_never_left_silently(stack: Deployment) -> None:
    running(stack.account)
    assert LLAMA in uninstall(stack).out
    said = uninstall(stack, "--delete-stack", "--yes")
    assert said.code == 2 and "1 unfinished job; nothing was removed" in said.err and "--with-running-jobs" in said.err
    assert STACK in stacks(stack.account)
    uninstall(stack, "--delete-stack", "--with-running-jobs", "--yes").fine()
    assert stacks(stack.account) == []


def test_labels_stay_while_the_functions_would_set_them_again(stack: Deployment) -> None:
    said = uninstall(stack, "--remove", "labels", "--yes")
    assert said.code == 2 and "add --delete-stack" in said.err


def test_the_person_decides(stack: Deployment) -> None:
    assert "--yes" in uninstall(stack, "--delete-stack").err
    terminal = Terminal(stack.environment(), "uninstall", "--delete-stack", "--remove", "snapshots")
    terminal.wait_for("[y/N]")
    assert "Remove the stack curfew, 0 snapshots of deleted volumes" in terminal.shown
    terminal.type("n\n")
    assert terminal.end() == 1 and STACK in stacks(stack.account)


def test_a_stack_that_stays_stops_the_rest(stack: Deployment) -> None:
    account = stack.account
    gpu = account.gpu(tags={"curfew:marked": "idle=stop@2030-01-01T00:00:00Z"})
    account.aws.fail_stack(STACK, "ReapInstances", "it is in use")
    said = uninstall(stack, "--delete-stack", "--remove", "labels", "--yes")
    assert said.code == 2 and "ReapInstances (AWS::Lambda::Function) is DELETE_FAILED: it is in use" in said.err
    assert "curfew:marked" in account.aws.tags(gpu)


def test_a_region_that_does_not_answer_is_named(stack: Deployment) -> None:
    stack.account.aws.fault("ec2:DescribeTags", "access_denied", times=None)
    said = uninstall(stack)
    assert said.code == 2 and "grant ec2:DescribeTags" in said.err


def test_a_stack_of_somebody_else_is_not_deleted(stack: Deployment) -> None:
    stack.account.aws.put_stack("prod-db", {}, parameters={"Mode": "ha"})
    said = uninstall(stack, "--stack", "prod-db", "--bucket", BUCKET, "--delete-stack", "--with-running-jobs", "--yes")
    assert said.code == 2 and "the stack prod-db is not one of Curfew" in said.err and "nothing was removed" in said.err, said
    assert "prod-db" in stacks(stack.account)


def test_beside_a_stack_that_cannot_be_read_nothing_is_removed(stack: Deployment) -> None:
    account = stack.account
    gpu = account.gpu(tags={"curfew:marked": "idle=stop@2030-01-01T00:00:00Z"})
    account.aws.fault("cloudformation:DescribeStacks", "access_denied", times=None)
    said = uninstall(stack, "--bucket", BUCKET, "--delete-stack", "--remove", "labels", "--yes")
    assert said.code == 2 and "grant cloudformation:DescribeStacks" in said.err, said
    account.aws.clear_faults()
    assert "curfew:marked" in account.aws.tags(gpu) and STACK in stacks(account)
