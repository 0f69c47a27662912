"""Calls that fail, and what people and other controllers do between a look and an action. Every fault at every call is tried by
test_every_fault.py."""

from __future__ import annotations

from typing import Any

from local_aws.client import REGION
from reaping import EUROPE, Account, ago, now, rfc3339

LOOK, SPOT = "ec2:DescribeInstances", "ec2:DescribeSpotInstanceRequests"
# A region for each call that fails, so that one run waits for all the retries at once.
FAULTS = {
    "us-east-2": (LOOK, "throttle", "RequestLimitExceeded"),
    "us-west-1": (LOOK, "reset", ""),
    "us-west-2": (LOOK, "access_denied", f"grant {LOOK} to the role that asked"),
    "eu-west-1": (LOOK, "scp_denied", "organisation"),
    "eu-west-2": ("ec2:DescribeInstanceTypes", "error500", "InternalError"),
    "eu-west-3": ("cloudwatch:GetMetricData", "throttle", "Throttling"),
    "eu-north-1": ("cloudwatch:ListMetrics", "access_denied", "grant cloudwatch:ListMetrics"),
    "sa-east-1": (SPOT, "access_denied", f"grant {SPOT}"),
}


def due(account: Account, region: str = REGION, rule: str = "idle=stop", **gpu: object) -> str:
    """An instance that the next run would end."""
    gpu_id = account.idle(account.gpu(region=region, **gpu), region)
    account.tag(gpu_id, region, marked=f"{gpu_id} {rule}@{rfc3339(ago(minutes=5))}")
    return gpu_id


def test_what_cannot_be_seen_is_a_gap_and_ends_nothing_and_all_else_is_done(account: Account) -> None:
    account.configure(regions=[REGION, *FAULTS], limits={"actions_max": 100})
    one_time = {"spot_instance_request": "one-time", "tags": {"curfew:on-idle": "terminate"}}
    gpus = {
        region: due(account, region, "idle=terminate", **one_time) if call == SPOT else due(account, region)
        for region, (call, _, _) in FAULTS.items()
    }
    healthy, healthy_spot = due(account), due(account, REGION, "idle=terminate", **one_time)
    for region, (call, fault, _) in FAULTS.items():
        account.aws.fault(call, fault, region=region, times=None)
    run = account.tick()
    gaps = {gap["region"]: gap for gap in run.gaps}
    assert len(run.gaps) == len(gaps) and run.response["regions"] == sorted([REGION, *FAULTS])
    assert {region: gap["call"] for region, gap in gaps.items()} == {region: call for region, (call, _, _) in FAULTS.items()}
    assert all(words in gaps[region]["error"] for region, (_, _, words) in FAULTS.items())
    assert all(region in run.message("untagged") for region in FAULTS)
    assert run.said(healthy) == ("stop", "idle", "done")
    assert run.said(healthy_spot) == ("terminate", "idle", "done")
    # What was announced stays announced where nobody could ask, and is called off where it might be launched again.
    touched = {write[1] for write in run.ec2_writes} - {healthy, healthy_spot}
    assert touched <= {gpus["sa-east-1"]}
    account.aws.clear_faults()
    assert {account.state(gpu, region) for region, gpu in gpus.items()} == {"running"}
    assert all(account.mark(gpus[region], region) for region in FAULTS if region != "sa-east-1")
    after = account.tick()
    assert after.gaps == [] and {after.said(gpus[region]) for region in ("us-east-2", "eu-north-1")} == {("stop", "idle", "done")}


def test_nothing_could_be_read_is_an_error(account: Account) -> None:
    account.aws.fault(LOOK, "access_denied", times=None)
    run = account.tick()
    assert "no region could be read" in run.error and f"grant {LOOK}" in run.error
    assert run.ec2_writes == []


def test_one_throttled_call_slows_down_no_other(account: Account) -> None:
    """Retries that limit all calls together would hold this run for half a minute, and leave no time for a step."""
    gpu = due(account)
    account.aws.fault(LOOK, "throttle", region=EUROPE)
    assert account.tick(deadline_s=45).said(gpu) == ("stop", "idle", "done")


def test_a_write_that_fails_names_the_reason_and_stops_nothing_else(account: Account) -> None:
    terminate = {"curfew:expires-at": rfc3339(ago(minutes=5)), "curfew:on-idle": "terminate"}
    denied, refused, done = due(account), account.gpu(tags=terminate, disable_api_termination=True), account.gpu(tags=terminate)
    account.aws.fault("ec2:StopInstances", "access_denied", match=denied, times=None)
    run = account.tick()
    assert run.said(denied) == ("stop", "idle", "failed") and "grant ec2:StopInstances" in run.step(denied)["error"]
    assert run.said(refused) == ("terminate", "expired", "failed") and "disableApiTermination" in run.step(refused)["error"]
    assert run.said(done) == ("terminate", "expired", "done"), "one call for one resource: nobody is shielded"
    assert run.severities() == {"vision": "error"} and "could not stop" in run.message()
    assert account.tick().messages == [], "a lasting failure is told once a day"
    account.aws.clear_faults()
    assert account.tick().said(denied) == ("stop", "idle", "done")
    assert (account.state(denied), account.state(refused)) == ("stopped", "running")


# What is told and recorded first


def test_a_team_that_cannot_be_told_has_nothing_marked_and_holds_up_no_other(account: Account) -> None:
    ours, theirs = account.idle(account.gpu()), account.idle(account.gpu(tags={"Team": "nlp"}))
    account.aws.fault("sns:Publish", "access_denied", match="nlp", times=None)
    run = account.tick()
    assert run.said(ours) == ("mark", "idle", "done")
    assert run.said(theirs) == ("mark", "idle", "not-reached") and "could not be notified" in run.step(theirs)["error"]
    assert account.mark(theirs) is None and [gap["call"] for gap in run.gaps] == ["sns:Publish"]
    account.aws.clear_faults()
    after = account.tick()
    assert after.said(theirs) == ("mark", "idle", "done") and theirs in after.message("nlp")


def test_a_region_whose_notices_cannot_be_read_is_not_judged(account: Account) -> None:
    here, there = due(account), due(account, EUROPE)
    account.put(account.notices(), b'{"schema": 99}')
    run = account.tick()
    assert [(gap["region"], gap["call"]) for gap in run.gaps] == [(REGION, "s3:GetObject")]
    assert account.notices() in run.gaps[0]["error"]
    assert [step["resource"] for step in run.steps] == [there] and account.state(here) == "running"
    assert account.state(there, EUROPE) == "stopped", "the other region is done"


def test_without_an_audit_record_nothing_is_ended(account: Account) -> None:
    gpu, other = due(account), account.idle(account.gpu())
    expired = account.gpu(tags={"curfew:expires-at": rfc3339(ago(minutes=1))})
    account.aws.fault("s3:PutObject", "access_denied", match="plans/", times=None)
    run = account.tick()
    for one in (gpu, expired):
        assert run.step(one)["outcome"] == "not-reached" and "audit record" in run.step(one)["error"]
        assert account.state(one) == "running"
    assert run.said(other) == ("mark", "idle", "done"), "what ends nothing is done"
    assert "s3:PutObject" in {gap["call"] for gap in run.gaps}


# Between the look and the action


def test_what_changed_since_the_look_is_left_to_the_next_run(account: Account) -> None:
    protected, gone, stopped, again, unfound, last = gpus = [due(account) for _ in range(6)]

    def meanwhile(gpu: str, **fields: Any) -> None:
        """Happens before the first DescribeInstances that names this instance."""
        change = {"set_instance": {"instance": gpu, **fields}} if fields else {"tag": {"resource": gpu, "tags": {"curfew:protected": ""}}}
        account.aws.before(LOOK, change, match=f"InstanceId.1={gpu}")

    meanwhile(protected)
    meanwhile(gone, state="shutting-down")
    meanwhile(stopped, state="stopping")
    meanwhile(again, launch_time=now())  # another life, in which it has been idle for seconds
    account.aws.fault("ec2:StopInstances", "not_found", match=unfound)
    run = account.tick()
    assert [run.step(gpu)["outcome"] for gpu in gpus] == ["changed", "already-gone", "changed", "changed", "failed", "done"]
    assert {write[1] for write in run.ec2_writes} == {unfound, last}
    assert not any(gpu in run.message() for gpu in (protected, gone, stopped, again))
    assert "curfew:stopped" not in account.aws.tags(stopped) and account.state(protected) == "running"
    assert account.mark(unfound) is not None, "the next run needs it"
    assert account.tick().said(unfound) == ("stop", "idle", "done") and account.mark(unfound) is None
