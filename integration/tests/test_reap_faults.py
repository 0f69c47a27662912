"""Calls that fail: what could not be seen is a gap and judges nobody, and all else is done."""

from __future__ import annotations


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
    assert run.invocation.seconds < 20
