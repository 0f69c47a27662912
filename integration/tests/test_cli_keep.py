"""`curfew keep`, `protect` and `release`, and what the next real run makes of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from command import Said, curfew
from reaping import EUROPE, Account, ago, moment, now, rfc3339
from reaping_volumes import VolumeAccount

NOBODY = "i-0123456789abcdef0"


def said(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), *arguments)


def only(answer: Said) -> dict[str, Any]:
    [one] = answer.json()["resources"]
    return one


def test_what_is_kept_is_spared_and_what_is_released_taken_up(account: Account) -> None:
    gpu = account.idle(account.gpu())
    assert account.tick().said(gpu) == ("mark", "idle", "done")
    answer = said(account, "keep", gpu, "3d").fine()
    until = moment(account.aws.tags(gpu)["curfew:keep-until"])
    assert abs(until - now() - timedelta(days=3)) < timedelta(minutes=1)
    assert f"{gpu} (us-east-1): kept until {rfc3339(until)}" in answer.out
    assert "(idle: stop at" in answer.out and "is off" in answer.out and f"curfew release {gpu}" in answer.err
    assert account.tick().skipped == {"kept": 1} and account.state(gpu) == "running"
    answer = said(account, "release", gpu).fine()
    assert "is due in the next run" in answer.out
    assert "curfew:keep-until" not in account.aws.tags(gpu)
    assert account.tick().said(gpu) == ("stop", "idle", "done")


def test_a_volume_and_a_snapshot_of_curfews(storage: VolumeAccount) -> None:
    volume, snapshot = storage.orphan(), storage.left_behind(deleted_at=ago(days=31))
    said(storage, "keep", volume, snapshot, "2999-01-01").fine()
    assert {storage.aws.tags(one)["curfew:keep-until"] for one in (volume, snapshot)} == {"2999-01-01"}
    assert storage.tick().skipped == {"kept": 2}
    said(storage, "release", volume, snapshot).fine()
    run = storage.tick()
    assert run.said(volume) == ("mark", "orphaned", "done")
    assert run.said(snapshot) == ("delete", "expired", "done")


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


def test_release_takes_nothing_but_what_it_says(account: Account) -> None:
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


def test_one_that_fails_does_not_stop_the_others(account: Account) -> None:
    gone, gpu = account.gpu(state="terminated"), account.gpu()
    answer = said(account, "keep", gone, NOBODY, gpu, "3d")
    assert answer.code == 1 and f"{gpu} (us-east-1): kept until" in answer.out
    assert f"{gone} (us-east-1): it is terminated" in answer.err
    assert f"{NOBODY}: none of the account's 2 regions has it" in answer.err
    outcomes = [one["outcome"] for one in said(account, "keep", gone, gpu, "4d", "--json").json()["resources"]]
    assert outcomes == ["failed", "kept"]


def test_what_ec2_does_not_show_yet_is_said(account: Account) -> None:
    gpu = account.gpu()
    untag = {"untag": {"resource": gpu, "keys": ["curfew:protected"]}}
    account.aws.before("ec2:DescribeInstances", untag, skip=1)
    answer = said(account, "protect", gpu).fine()
    assert "does not show it yet" in answer.out


def test_of_a_deleted_volume_it_says_how_to_restore_it(account: Account) -> None:
    volume = NOBODY.replace("i-", "vol-")
    answer = said(account, "keep", volume, "3d")
    assert answer.code == 2 and f"curfew undo {volume}" in answer.err


def test_a_lost_answer_is_asked_again(account: Account) -> None:
    gpu = account.gpu()
    account.aws.fault("ec2:CreateTags", "lost_answer")
    assert only(said(account, "protect", gpu, "--json").fine())["outcome"] == "protected"


def test_a_region_that_does_not_answer_may_have_it(account: Account) -> None:
    account.aws.fault("ec2:DescribeInstances", "access_denied", region=EUROPE, times=None)
    answer = said(account, "protect", NOBODY)
    assert answer.code == 2 and f"ec2:DescribeInstances failed in {EUROPE}" in answer.err
