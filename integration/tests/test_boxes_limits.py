"""The limits of boxes that run-jobs keeps whatever is put into the inbox, and a home whose making had no answer."""

from __future__ import annotations

import json

import pytest

from jobs import JobAccount, box_spec


def states(jobs: JobAccount, *names: str) -> dict[str, str]:
    return {name: jobs.job(name).state for name in names}


def test_a_third_box_of_a_person_is_refused(jobs: JobAccount) -> None:
    """All four in one run, which must not count each for itself."""
    for name, owner in (("one", "ada"), ("two", "ada"), ("three", "ada"), ("other", "bob")):
        jobs.submit(name, box_spec(owner=owner))
    jobs.tick()
    found = states(jobs, "one", "two", "three", "other")
    assert sorted(found.values()) == ["ended", "running", "running", "running"] and found["other"] == "running", found
    [refused] = [name for name, state in found.items() if state == "ended"]
    first, second = sorted({"one", "two", "three"} - {refused})
    phase = jobs.job(refused).phase
    wanted = f"2 boxes of the owner ada are up, vision/{first}, vision/{second}, and `[boxes] per_owner_max` of the configuration is 2."
    assert phase["result"] == "failed" and phase["why"] == f"{wanted} End one:  curfew box down vision/{first}", phase
    assert f"boxes/vision/{refused}.json" not in jobs.keys("boxes/") and len(jobs.ever_launched()) == 3
    # One that is over leaves room as soon as its machine is gone.
    ended = jobs.job(first)
    ended.cancel()
    jobs.tick()
    jobs.submit("next", box_spec(owner="ada"))
    for _ in range(3):
        jobs.tick()
    assert ended.state == "ended" and jobs.job("next").state == "running" and len(jobs.machines()) == 3


def test_what_cannot_be_read_holds_a_box_and_refuses_none(jobs: JobAccount) -> None:
    jobs.running("one", box_spec(owner="ada"))
    document = jobs.read("boxes/vision/one.json")
    jobs.put("boxes/vision/one.json", b"{}")
    jobs.submit("two", box_spec(owner="ada"))
    run = jobs.tick()
    assert jobs.job("two").state == "submitted" and len(jobs.ever_launched()) == 1
    assert [gap for gap in run.gaps if "boxes/vision/one.json" in gap["error"]], run.gaps
    jobs.put("boxes/vision/one.json", json.dumps(document).encode())
    jobs.tick()
    assert jobs.job("two").state == "running"


@pytest.mark.parametrize(
    ("config", "more", "mistake"),
    [
        ({"jobs": {"ssh": False}}, "", "line 7: `box`: `[jobs] ssh` of the configuration is false, so nobody could log in to a box"),
        ({}, 'idle = "5h"', "line 9: `box.idle`: 5h is not possible; write 15m to 4h, or leave it out: `[boxes] idle_max` of"),
        ({"teams": {"vision": {"box_home_gib_max": 50}}}, "home_gib = 51", "line 9: `box.home_gib`: a home of 51 GiB is not possible"),
        ({"boxes": {"runtime_max": "8h"}}, '[limits]\nmax_runtime = "9h"', "line 10: `limits.max_runtime`: 9h is not possible; write 15m to 8h"),
    ],
)
def test_a_document_beyond_the_limits_is_rejected(jobs: JobAccount, config: dict[str, dict[str, object]], more: str, mistake: str) -> None:
    jobs.configure(**config)
    key = jobs.submit("my-box", box_spec(more, "ada"))
    jobs.tick()
    answer = jobs.answer(key)
    assert answer is not None and answer["is"] == "rejected", answer
    [found] = answer["mistakes"]
    assert f"line {found['line']}: `{found['key']}`: {found['problem']}".startswith(mistake), found
    assert jobs.ever_launched() == []


def test_a_home_made_without_an_answer_is_made_once(jobs: JobAccount) -> None:
    """No try of the run has an answer, as after a crash right behind CreateVolume: the next run asks by the same token."""
    job = jobs.running("my-box", box_spec(owner="ada"))
    jobs.aws.fault("ec2:CreateVolume", "lost_answer", times=None)
    run = jobs.tick()
    assert [gap for gap in run.gaps if gap["call"] == "ec2:CreateVolume"], run.gaps
    assert "id" not in jobs.read("boxes/vision/my-box.json")["home"]["volume"]
    jobs.aws.clear_faults()
    jobs.tick()
    wanted = [{"Name": "tag:curfew:box", "Values": ["vision/my-box"]}]
    [volume] = jobs.aws.client("ec2").describe_volumes(Filters=wanted)["Volumes"]
    assert jobs.read("boxes/vision/my-box.json")["home"]["volume"]["id"] == volume["VolumeId"]
    assert [one["InstanceId"] for one in volume["Attachments"]] == [job.machine]
