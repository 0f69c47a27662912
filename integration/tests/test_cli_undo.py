"""`curfew undo`: what the real reapers stop and delete, started and made again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from command import Said, curfew
from local_aws.client import REGION
from reaping import EUROPE, TAGGED, Account, ago, now, rfc3339
from reaping_volumes import VolumeAccount, described
from terminal import Terminal

NOBODY = "vol-0123456789abcdef0"


def undo(account: Account, *resources: str, yes: bool = True, **over: str | None) -> Said:
    return curfew(account.environment(**over), "undo", *resources, *(["--yes"] if yes else []))


def told(account: Account, *resources: str) -> list[dict[str, Any]]:
    document = undo(account, *resources, "--json").json()
    assert document["schema"] == 1
    return document["resources"]


def stopped(account: Account, **gpu: Any) -> str:
    instance = account.idle(account.gpu(**gpu), gpu.get("region", REGION))
    assert account.tick().said(instance) == ("mark", "idle", "done")
    assert account.tick().said(instance) == ("stop", "idle", "done")
    return instance


def deleted(storage: VolumeAccount, **volume: Any) -> dict[str, Any]:
    """What it was before anything was announced."""
    region = volume.get("region", REGION)
    volume_id = storage.orphan(**volume)
    before = storage.aws.volume(volume_id, region)
    for _ in range(3):
        storage.tick()
    assert not storage.exists(volume_id, region)
    return before


def volumes(storage: VolumeAccount, region: str = REGION) -> list[str]:
    return [one["VolumeId"] for one in storage.aws.client("ec2", region).describe_volumes()["Volumes"]]


# Instances


def test_what_the_reaper_stopped_runs_again(account: Account) -> None:
    gpu = stopped(account)
    answer = undo(account, gpu).fine()
    assert account.state(gpu) == "running"
    assert f"{gpu} (us-east-1): it runs" in answer.out and f"curfew keep {gpu} 1d" in answer.out
    for words in ("by the run ", " of reap-instances at ", "for the rule idle, of team vision", "$1.01/h"):
        assert words in answer.err
    assert account.tick().said(gpu)[0] in ("unmark", "mark"), "its next run knows that it was started"
    assert "curfew:stopped" not in account.aws.tags(gpu)


def test_without_a_deployment_the_tags_are_enough(account: Account) -> None:
    gpu = stopped(account, region=EUROPE)
    no_stack = {"status": 400, "code": "ValidationError", "message": "Stack with id curfew does not exist"}
    account.aws.fault("cloudformation:DescribeStackResources", "custom", times=None, **no_stack)
    answer = undo(account, gpu, CURFEW_BUCKET=None, CURFEW_TOPIC_ARN=None).fine()
    assert account.state(gpu, EUROPE) == "running"
    assert "the audit trail is not read: there is no stack curfew in us-east-1" in answer.err
    assert "stopped by Curfew at " in answer.err and "price unknown" in answer.err


def test_what_is_terminated_is_gone_and_the_trail_says_who_did_it(account: Account) -> None:
    gpu = account.idle(account.gpu(tags={"curfew:on-idle": "terminate"}))
    account.tick()
    run = account.tick()
    assert run.said(gpu) == ("terminate", "idle", "done")
    by_others = account.gpu(state="terminated")
    answer = undo(account, gpu, by_others)
    assert answer.code == 1
    assert f"that was the run {run.response['run']} of reap-instances" in answer.err
    assert f"{by_others} (us-east-1): it is terminated, which cannot be undone; by the audit trail, Curfew" in answer.err


def test_a_start_that_comes_to_nothing_is_told(account: Account) -> None:
    gpu = stopped(account)
    gives_up = {"instance": gpu, "state": "stopped", "state_reason": "Client.InternalError"}
    account.aws.before("ec2:DescribeInstances", {"set_instance": gives_up}, skip=1)
    answer = undo(account, gpu)
    assert answer.code == 1 and "gave it up (Client.InternalError)" in answer.err and "kms:CreateGrant" in answer.err


def test_a_start_that_is_refused_says_why(account: Account) -> None:
    gpu = stopped(account)
    account.aws.fault("ec2:StartInstances", "access_denied", times=None)
    answer = undo(account, gpu)
    assert answer.code == 2 and "ec2:StartInstances failed in us-east-1" in answer.err
    assert "grant ec2:StartInstances" in answer.err and "credentials of the environment" in answer.err
    account.aws.clear_faults()
    account.aws.fault("ec2:StartInstances", "custom", code="InsufficientInstanceCapacity", message="None left.")
    answer = undo(account, gpu)
    assert answer.code == 2 and "InsufficientInstanceCapacity: None left; AWS has none at the moment; try again in a minute" in answer.err


def test_a_start_whose_answer_is_lost(account: Account) -> None:
    gpu = stopped(account)
    account.aws.fault("ec2:StartInstances", "lost_answer", times=None)
    undo(account, gpu).fine()
    assert account.state(gpu) == "running"


# Volumes


def test_a_deleted_volume_comes_back_as_it_was(storage: VolumeAccount) -> None:
    asked = {"Iops": 6000, "Throughput": 500, "AvailabilityZone": "us-east-1c"}
    awkward = {"quotes": "\"double\", 'single'", "far": "ñ 東京 🚀", "empty": "", "curfew:mode": "enforce"}
    before = deleted(storage, size=500, asked=asked, tags=awkward)
    [one] = told(storage, before["VolumeId"])
    assert (one["outcome"], one["region"], one["ended_by"]["rule"]) == ("restored", REGION, "orphaned")
    assert one["usd_per_month"] == pytest.approx(one["usd_per_hour"] * 730, abs=0.01)
    restored = storage.aws.volume(one["restored_as"])
    assert restored["SnapshotId"] == one["snapshot"] == storage.snapshot(before["VolumeId"])
    assert described(restored) == described(before)
    assert {tag["Key"]: tag["Value"] for tag in restored["Tags"]} == {**TAGGED, **awkward}


def test_where_it_was_is_known_from_the_trail(storage: VolumeAccount) -> None:
    volume = storage.untagged_volume()
    host = storage.attach(volume, storage.host(tags=TAGGED))
    storage.tick()
    storage.detach(volume)
    storage.tag(volume, unattached_since=rfc3339(ago(days=20)))
    for _ in range(3):
        storage.tick()
    answer = undo(storage, volume).fine()
    [restored] = [one for one in volumes(storage) if one != volume]
    assert f"restored as {restored} in us-east-1a" in answer.out
    assert f"last attached to {host}: aws ec2 attach-volume" in answer.out
    assert f"--volume-id {restored} --instance-id {host} --device /dev/sdf" in answer.out


def test_twice_it_is_there_already(storage: VolumeAccount) -> None:
    volume = deleted(storage, region=EUROPE)["VolumeId"]
    [one] = told(storage, volume)
    again = undo(storage, volume)
    assert again.code == 1 and f"it was made again already, as {one['restored_as']}" in again.err
    assert volumes(storage, EUROPE) == [one["restored_as"]]
    assert "restored as" in undo(storage, volume, "--again").fine().out
    assert len(volumes(storage, EUROPE)) == 2


def test_two_at_once_make_one_volume_only(storage: VolumeAccount) -> None:
    volume = deleted(storage)["VolumeId"]
    with ThreadPoolExecutor() as both:
        answers = list(both.map(lambda one: undo(storage, one, one), [volume] * 2))
    assert {said.code for said in answers} <= {0, 1} and len(volumes(storage)) == 1, answers


def test_where_nobody_answers_the_next_undo_finds_what_was_made(storage: VolumeAccount) -> None:
    volume = deleted(storage)["VolumeId"]
    storage.aws.fault("ec2:CreateVolume", "lost_answer", times=None)
    answer = undo(storage, volume)
    assert answer.code == 2 and "run undo again, which does it only once" in answer.err
    storage.aws.clear_faults()
    [made] = volumes(storage)
    answer = undo(storage, volume)
    assert answer.code == 1 and f"already, as {made}" in answer.err


def test_what_ec2_does_not_list_yet_is_not_made_once_more(storage: VolumeAccount) -> None:
    """The same volume and snapshot are the same ClientToken."""
    volume = deleted(storage, tags={"Name": "data"})["VolumeId"]
    [first] = told(storage, volume)
    storage.aws.set_volume(first["restored_as"], unlisted=True)
    [second] = told(storage, volume)
    assert (second["outcome"], second["restored_as"]) == ("restored", first["restored_as"])
    storage.tag(storage.snapshot(volume), mode="observe")
    [third] = told(storage, volume)
    assert third["outcome"] == "failed" and "--again makes another" in third["error"]


def test_what_was_deleted_for_good_stays_so(storage: VolumeAccount) -> None:
    storage.configure(volumes={"action": "delete"})
    volume = storage.orphan()
    storage.tick()
    run = storage.tick()
    assert run.said(volume) == ("delete", "orphaned", "done")
    answer = undo(storage, volume, NOBODY)
    assert answer.code == 1
    assert f"{volume}: it is deleted, and Curfew has no snapshot of it; that was the run" in answer.err
    unknown = "none of the account's 2 regions has it, nor a snapshot that Curfew made of it; by the audit trail"
    assert f"{NOBODY}: {unknown}" in answer.err


def test_what_is_asked_is_legible_and_volumes_are_priced_by_the_month(storage: VolumeAccount) -> None:
    volume = deleted(storage, size=500)["VolumeId"]
    asleep = storage.host(tags={"curfew:stopped": f"idle {rfc3339(now() + timedelta(seconds=5))}"}, state="stopped")
    terminal = Terminal(storage.environment(), "undo", volume, asleep)
    terminal.wait_for("[y/N]")
    [proposed] = [line for line in terminal.shown.splitlines() if line.startswith(f"{volume} (500 GiB gp3, us-east-1")]
    assert "it costs: $40.00 a month" in proposed and "\x1b[" not in proposed
    question = "This will start 1 instance, at a price that is not known, and restore 1 volume, for $40.00 a month (table of 2026-09-30). Go on?"
    assert question in terminal.shown
    terminal.type("n\n")
    assert terminal.end() == 1 and volumes(storage) == []


def test_a_region_that_does_not_answer_may_have_the_snapshot(storage: VolumeAccount) -> None:
    storage.aws.fault("ec2:DescribeSnapshots", "access_denied", region=EUROPE, times=None)
    answer = undo(storage, NOBODY)
    assert answer.code == 2 and f"ec2:DescribeSnapshots failed in {EUROPE}" in answer.err


def test_where_the_trail_is_forbidden_the_tags_are_enough(storage: VolumeAccount) -> None:
    volume = deleted(storage)["VolumeId"]
    storage.aws.fault("s3:ListObjectsV2", "access_denied", times=None)
    answer = undo(storage, NOBODY, volume)
    assert answer.code == 1 and "restored as" in answer.out
    assert answer.err.count("the audit trail is not read: s3:ListBucket") == 1


