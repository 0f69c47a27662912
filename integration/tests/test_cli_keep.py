"""`curfew keep`, `protect` and `release`, and what the next real run makes of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from command import Said, curfew
from reaping import EUROPE, Account, ago, moment, now, rfc3339
from reaping_volumes import VolumeAccount


def said(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), *arguments)


def only(answer: Said) -> dict[str, Any]:
    [one] = answer.json()["resources"]
    return one


def test_a_kept_instance_is_skipped_until_it_is_released(account: Account) -> None:
    gpu = account.idle(account.gpu())
    assert account.tick().said(gpu) == ("mark", "idle", "done")
    answer = said(account, "keep", gpu, "3d").fine()
    until = moment(account.aws.tags(gpu)["curfew:keep-until"])
    assert abs(until - now() - timedelta(days=3)) < timedelta(minutes=1)
    assert f"{gpu} (us-east-1): kept until {rfc3339(until)}" in answer.out
    assert "an announced action is off" in answer.out and "announces it anew" in answer.out and f"curfew release {gpu}" in answer.err
    assert account.tick().skipped == {"kept": 1} and account.state(gpu) == "running"
    answer = said(account, "release", gpu).fine()
    assert "curfew:keep-until" not in account.aws.tags(gpu)
    assert account.tick().said(gpu) == ("mark", "idle", "done"), "it is announced anew"


def test_a_volume_and_a_snapshot_of_curfews(storage: VolumeAccount) -> None:
    volume, snapshot = storage.orphan(), storage.left_behind(deleted_at=ago(days=31))
    said(storage, "keep", volume, snapshot, "2999-01-01").fine()
    assert {storage.aws.tags(one)["curfew:keep-until"] for one in (volume, snapshot)} == {"2999-01-01"}
    assert storage.tick().skipped == {"kept": 2}
    said(storage, "release", volume, snapshot).fine()
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done")
    assert run.said(snapshot) == ("mark", "expired", "done"), "it is announced anew"


def test_in_another_region_and_without_a_deployment(account: Account) -> None:
    gpu = account.gpu(region=EUROPE)
    account.aws.clear_calls()
    answer = curfew(account.aws.environment(), "keep", gpu, "2999-06-01T12:00:00+02:00", "--json").fine()
    assert answer.json() == {
        "schema": 1,
        "resources": [
            {
                "region": EUROPE,
                "resource": gpu,
                "outcome": "kept",
                "keep_until": "2999-06-01T10:00:00Z",
                "notes": [],
                "error": None,
            }
        ],
    }
    assert account.aws.counts() == {"ec2:DescribeRegions": 1, "ec2:DescribeInstances": 3, "ec2:CreateTags": 1}
    assert account.aws.tags(gpu, EUROPE)["curfew:keep-until"] == "2999-06-01T12:00:00+02:00"


def test_release_removes_only_the_named_tags(account: Account) -> None:
    """DeleteTags without keys would take all tags away."""
    gpu = account.gpu(tags={"curfew:mode": "enforce"})
    account.aws.clear_calls()
    assert "nothing to take back" in said(account, "release", gpu).fine().out
    assert account.aws.counts()["ec2:DeleteTags"] == 0
    account.tag(gpu, keep_until="2999-01-01")
    assert [only(said(account, "protect", gpu, "--json").fine())["outcome"] for _ in range(2)] == ["protected", "unchanged"]
    said(account, "release", "--keep", gpu).fine()
    tags = account.aws.tags(gpu)
    assert "curfew:protected" in tags and "curfew:keep-until" not in tags
    said(account, "release", "--protected", gpu).fine()
    assert account.aws.tags(gpu) == {"Team": "vision", "Owner": "ada", "curfew:mode": "enforce"}
