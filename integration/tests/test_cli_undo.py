"""`curfew undo`: what the real reapers stop and delete, started and made again."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from command import Said, curfew
from local_aws.client import REGION
from reaping import EUROPE, TAGGED, Account, now, rfc3339
from reaping_volumes import VolumeAccount, described
from terminal import Terminal


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


def test_a_stopped_instance_runs_again(account: Account) -> None:
    gpu = stopped(account)
    answer = undo(account, gpu).fine()
    assert account.state(gpu) == "running"
    assert f"{gpu} (us-east-1): it runs" in answer.out and f"curfew keep {gpu} 1d" in answer.out
    for words in ("by the run ", " of reap-instances at ", "for the rule idle, of team vision", "$1.01/h"):
        assert words in answer.err
    assert account.tick().said(gpu)[0] in ("unmark", "mark"), "its next run knows that it was started"
    assert "curfew:stopped" not in account.aws.tags(gpu)


def test_a_terminated_instance_cannot_be_undone(account: Account) -> None:
    gpu = account.idle(account.gpu(tags={"curfew:on-idle": "terminate"}))
    account.tick()
    run = account.tick()
    assert run.said(gpu) == ("terminate", "idle", "done")
    by_others = account.gpu(state="terminated")
    answer = undo(account, gpu, by_others)
    assert answer.code == 1
    assert f"that was the run {run.response['run']} of reap-instances" in answer.err
    assert f"{by_others} (us-east-1): it is terminated, which cannot be undone; by the audit trail, Curfew" in answer.err


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


def test_a_second_undo_names_the_restored_volume(storage: VolumeAccount) -> None:
    volume = deleted(storage, region=EUROPE)["VolumeId"]
    [one] = told(storage, volume)
    again = undo(storage, volume)
    assert again.code == 1 and f"it was already restored as {one['restored_as']}" in again.err
    assert volumes(storage, EUROPE) == [one["restored_as"]]
    assert "restored as" in undo(storage, volume, "--again").fine().out
    assert len(volumes(storage, EUROPE)) == 2


def test_two_undos_at_once_make_one_volume(storage: VolumeAccount) -> None:
    volume = deleted(storage)["VolumeId"]
    with ThreadPoolExecutor() as both:
        answers = list(both.map(lambda one: undo(storage, one, one), [volume] * 2))
    assert {said.code for said in answers} <= {0, 1} and len(volumes(storage)) == 1, answers


def test_an_undo_after_a_lost_answer_finds_the_volume(storage: VolumeAccount) -> None:
    volume = deleted(storage)["VolumeId"]
    storage.aws.fault("ec2:CreateVolume", "lost_answer", times=None)
    answer = undo(storage, volume)
    assert answer.code == 2 and "run undo again, which does it only once" in answer.err
    storage.aws.clear_faults()
    [made] = volumes(storage)
    answer = undo(storage, volume)
    assert answer.code == 1 and f"already restored as {made}" in answer.err


def test_an_unlisted_volume_is_not_made_twice(storage: VolumeAccount) -> None:
    """The same volume and snapshot are the same ClientToken."""
    volume = deleted(storage, tags={"Name": "data"})["VolumeId"]
    [first] = told(storage, volume)
    storage.aws.set_volume(first["restored_as"], unlisted=True)
    [second] = told(storage, volume)
    assert (second["outcome"], second["restored_as"]) == ("restored", first["restored_as"])
    storage.tag(storage.snapshot(volume), mode="observe")
    [third] = told(storage, volume)
    assert third["outcome"] == "failed" and "--again makes another" in third["error"]


def test_the_prompt_prices_volumes_by_the_month(storage: VolumeAccount) -> None:
    volume = deleted(storage, size=500)["VolumeId"]
    asleep = storage.host(state="stopped")
    stopped = {"rule": "idle", "action": "stop", "at": rfc3339(now() + timedelta(seconds=5))}
    log = {"schema": 2, "resources": {asleep: {"carried_out": stopped}}}
    storage.put(f"notices/reap-instances/{REGION}.json", json.dumps(log).encode())
    terminal = Terminal(storage.environment(), "undo", volume, asleep)
    terminal.wait_for("[y/N]")
    [proposed] = [line for line in terminal.shown.splitlines() if line.startswith(f"{volume} (500 GiB gp3, us-east-1")]
    assert "it costs: $40.00 a month" in proposed and "\x1b[" not in proposed
    question = "This will start 1 instance, at a price that is not known, and restore 1 volume, for $40.00 a month (table of 2026-09-30). Go on?"
    assert question in terminal.shown
    terminal.type("n\n")
    assert terminal.end() == 1 and volumes(storage) == []
