"""Calls that fail: what could not be seen is a gap and judges nobody, and all else is done."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest

from local_aws.client import REGION
from reaping import EUROPE, Account, Run, ago, rfc3339

FAULTS = ["throttle", "error500", "reset", "access_denied", "scp_denied"]
DENIALS = ("access_denied", "scp_denied")
# A region for each call that fails and each way it does, so that one run waits for all the retries at once.
REGIONS_OF = {
    "ec2:DescribeInstances": ["us-east-2", "us-west-1", "us-west-2", "eu-west-1", "eu-west-2"],
    "ec2:DescribeInstanceTypes": ["us-east-2", "us-west-1", "us-west-2", "eu-west-1", "eu-west-2"],
    "cloudwatch:GetMetricData": ["eu-west-3", "eu-north-1", "eu-south-1", "ap-south-1", "ap-south-2"],
    "cloudwatch:ListMetrics": ["ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-southeast-1", "ap-southeast-2"],
    "ec2:DescribeSpotInstanceRequests": ["sa-east-1", "ca-central-1", "me-south-1", "af-south-1", "eu-central-2"],
}


def due(account: Account, region: str, rule: str = "idle=stop", **gpu: object) -> str:
    """An instance that the next run would end."""
    gpu_id = account.idle(account.gpu(region=region, **gpu), region)
    account.tag(gpu_id, region, marked=f"{gpu_id} {rule}@{rfc3339(ago(minutes=5))}")
    return gpu_id


def break_all(account: Account, action: str) -> None:
    for fault, region in zip(FAULTS, REGIONS_OF[action]):
        account.aws.fault(action, fault, region=region, times=None)


def assert_gaps_say_why(run: Run, action: str) -> None:
    gaps = [gap for gap in run.gaps if gap["call"] == action]
    assert sorted(gap["region"] for gap in gaps) == sorted(REGIONS_OF[action])
    by_region = {gap["region"]: gap["error"] for gap in gaps}
    errors = {fault: by_region[region] for fault, region in zip(FAULTS, REGIONS_OF[action])}
    assert f"grant {action} to the role that asked" in errors["access_denied"]
    assert "organisation" in errors["scp_denied"]
    ec2 = action.startswith("ec2:")
    assert ("RequestLimitExceeded" if ec2 else "Throttling") in errors["throttle"]
    assert ("InternalError" if ec2 else "InternalFailure") in errors["error500"]


def test_a_region_that_cannot_be_read_is_a_gap_and_the_others_are_done(account: Account) -> None:
    action = "ec2:DescribeInstances"
    account.configure(regions=[REGION, *REGIONS_OF[action]])
    gpus = {region: due(account, region) for region in (REGION, *REGIONS_OF[action])}
    break_all(account, action)
    run = account.tick()
    assert_gaps_say_why(run, action)
    assert run.response["regions"] == sorted(gpus) and run.response["seen"] == 1
    assert run.said(gpus[REGION]) == ("stop", "idle", "done")
    assert {write[1] for write in run.ec2_writes} == {gpus[REGION]}
    told = run.message("untagged")
    assert all(region in told for region in REGIONS_OF[action])
    assert run.severities() == {"untagged": "error", "vision": "action"}
    account.aws.clear_faults()
    after = account.tick()
    assert after.gaps == []
    assert {after.said(gpus[region]) for region in REGIONS_OF[action]} == {("stop", "idle", "done")}


def test_what_cannot_be_asked_convicts_nobody(account: Account) -> None:
    """Each call of a look but the first, failing in each way: the instances there are not judged, or only told."""
    blind = {action: regions for action, regions in REGIONS_OF.items() if action != "ec2:DescribeInstances"}
    spot = "ec2:DescribeSpotInstanceRequests"
    everywhere = [region for regions in blind.values() for region in regions]
    account.configure(regions=[REGION, *everywhere], limits={"actions_max": 100})
    one_time = {"spot_instance_request": "one-time", "tags": {"curfew:on-idle": "terminate"}}
    gpus = {
        region: due(account, region, "idle=terminate", **one_time) if action == spot else due(account, region)
        for action, regions in blind.items()
        for region in regions
    }
    healthy, healthy_spot = due(account, REGION), due(account, REGION, "idle=terminate", **one_time)
    for action in blind:
        break_all(account, action)
    run = account.tick()
    for action in blind:
        assert_gaps_say_why(run, action)
    assert len(run.gaps) == len(everywhere)
    assert run.said(healthy) == ("stop", "idle", "done")
    assert run.said(healthy_spot) == ("terminate", "idle", "done")
    # What was announced stays announced where nobody could ask, and is called off where it might be launched again.
    touched = {write[1] for write in run.ec2_writes} - {healthy, healthy_spot}
    assert touched <= {gpus[region] for region in REGIONS_OF[spot]}
    assert {account.state(gpu, region) for region, gpu in gpus.items()} == {"running"}
    for action in ("cloudwatch:GetMetricData", "cloudwatch:ListMetrics"):
        assert all(account.mark(gpus[region], region) for region in REGIONS_OF[action])


@pytest.mark.parametrize("action", ["ec2:DescribeInstances", "ec2:StopInstances", "ec2:CreateTags", "sns:Publish"])
@pytest.mark.parametrize("fault", ["throttle", "reset", "lost_answer"])
def test_a_call_that_fails_once_is_repeated_at_once(account: Account, action: str, fault: str) -> None:
    """A lost answer too: every one of these calls may be made twice."""
    gpu = account.idle(account.gpu())
    account.tag(gpu, marked=f"{gpu} idle=stop@{rfc3339(ago(minutes=5))}")
    account.aws.fault(action, fault)
    run = account.tick()
    assert run.said(gpu) == ("stop", "idle", "done")
    assert run.gaps == []
    assert account.state(gpu) == "stopped" and account.mark(gpu) is None
    assert [rule["struck"] for rule in account.aws.faults()] == [1]
    assert account.tick().is_quiet


def test_the_regions_cannot_be_listed(account: Account) -> None:
    """Then the home region alone is looked at, and that is said."""
    account.aws.fault("ec2:DescribeRegions", "access_denied", times=None)
    home, far = account.untagged("inf2.xlarge"), account.untagged("inf2.xlarge", EUROPE)
    run = account.tick()
    assert run.response["regions"] == [REGION]
    assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "ec2:DescribeRegions")]
    assert "grant ec2:DescribeRegions" in run.gaps[0]["error"]
    assert run.said(home) == ("mark", "untagged", "done")
    assert account.mark(far, EUROPE) is None


def test_a_lasting_gap_is_told_once_a_day_and_returned_every_time(account: Account) -> None:
    account.aws.fault("ec2:DescribeInstances", "access_denied", region=EUROPE, times=None)
    first = account.tick()
    assert "ec2:DescribeInstances" in first.message("untagged") and EUROPE in first.message("untagged")
    for _ in range(3):
        run = account.tick()
        assert len(run.gaps) == 1 and run.messages == []
    account.restart()
    assert account.tick().messages == []


def test_a_forbidden_region_is_told_once_for_ever(account: Account) -> None:
    account.aws.fault("ec2:DescribeInstances", "scp_denied", region=EUROPE, times=None)
    assert EUROPE in account.tick().message("untagged")
    _two_days_pass(account)
    run = account.tick()
    assert len(run.gaps) == 1 and run.messages == []


def test_a_lasting_gap_is_told_again_the_next_day(account: Account) -> None:
    account.aws.fault("ec2:DescribeInstances", "access_denied", region=EUROPE, times=None)
    account.tick()
    _two_days_pass(account)
    assert EUROPE in account.tick().message("untagged")
    assert account.tick().messages == []


def _two_days_pass(account: Account) -> None:
    """What was remembered was remembered two days ago."""
    key = f"notices/reap-instances/{REGION}.json"
    body = account.aws.client("s3").get_object(Bucket="curfew-state", Key=key)["Body"].read().decode()
    earlier, times = re.subn(
        r"\d{4}-\d\d-\d\d(?=T)", lambda day: f"{date.fromisoformat(day[0]) - timedelta(days=2)}", body
    )
    assert times
    account.put(key, earlier.encode())


@pytest.mark.parametrize("fault", DENIALS)
@pytest.mark.parametrize("action", ["ec2:CreateTags", "ec2:StopInstances", "ec2:TerminateInstances"])
def test_a_write_that_is_denied_names_the_permission_and_stops_nothing_else(
    account: Account, action: str, fault: str
) -> None:
    past = rfc3339(ago(minutes=5))
    ending = {"curfew:on-idle": "terminate"} if action == "ec2:TerminateInstances" else {}
    tags = {"curfew:expires-at": past, **ending}
    denied, done = account.gpu(tags=tags), account.gpu(tags=tags)
    account.aws.fault(action, fault, match=denied, times=None)
    run = account.tick()
    assert run.step(denied)["outcome"] == "failed" and run.step(done)["outcome"] == "done"
    assert action in run.step(denied)["error"]
    hint = "organisation" if fault == "scp_denied" else f"grant {action}"
    assert hint in run.step(denied)["error"]
    assert account.state(denied) == "running"
    assert run.severities() == {"vision": "error"}
    assert f"could not {run.step(denied)['action']}" in run.message()
    assert account.tick().messages == [], "a lasting failure is told once a day"
    account.aws.clear_faults()
    assert account.tick().step(denied)["outcome"] == "done"


def test_a_mark_that_stays_after_the_stop_is_removed_by_the_next_run_that_sees_it(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.tick()
    account.aws.fault("ec2:DeleteTags", "access_denied")
    run = account.tick()
    assert run.said(gpu) == ("stop", "idle", "done")
    assert "ec2:DeleteTags" in run.step(gpu)["error"]
    assert account.state(gpu) == "stopped"
    account.aws.client("ec2").start_instances(InstanceIds=[gpu])
    account.tick()
    assert account.mark(gpu) is None and account.state(gpu) == "running"


def test_nothing_could_be_read_is_an_error(account: Account) -> None:
    account.aws.fault("ec2:DescribeInstances", "access_denied", times=None)
    run = account.tick()
    assert "no region could be read" in run.error and "grant ec2:DescribeInstances" in run.error
    assert run.ec2_writes == []
    account.aws.clear_faults()
    assert account.tick().gaps == []


def test_one_throttled_call_slows_down_no_other(account: Account) -> None:
    """Retries that limit all calls together would hold this run for half a minute."""
    gpus = [account.idle(account.gpu()) for _ in range(6)]
    account.aws.fault("ec2:DescribeInstances", "throttle", region=EUROPE)
    run = account.tick()
    assert {run.said(gpu) for gpu in gpus} == {("mark", "idle", "done")}
    assert run.invocation.seconds < 5


def test_slow_calls_are_waited_for(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.aws.fault("cloudwatch:GetMetricData", "slow", seconds=2)
    assert account.tick().said(gpu) == ("mark", "idle", "done")
