"""Jobs by cron expressions: `curfew schedule`, and the real `run-jobs` at moments of its own clock."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from command import Said, curfew
from jobs import SPEC, JobAccount
from reaping import BUCKET, REPOSITORY, Run, now

KEY = "triggers/vision/schedules/nightly.toml"
STATE = "triggers/vision/schedules/nightly.state.json"


class ScheduleAccount(JobAccount):
    on = True

    def environment(self, **over: str | None) -> dict[str, str]:
        return super().environment(**{"CURFEW_SCHEDULES": "yes" if self.on else None, **over})

    def schedule(self, *words: str) -> Said:
        return curfew(self.environment(), "schedule", *words, "--team", "vision")

    def listed(self) -> dict[str, Any]:
        [one] = self.schedule("ls", "--json").json()["schedules"]
        return one

    def made(self) -> list[str]:
        return [key.removeprefix("inbox/vision/") for key in self.keys("inbox/vision/nightly.") if key.endswith(".toml")]

    def past(self, moment: datetime, **how: Any) -> Run:
        """The minute's run after a moment."""
        return self.tick_at(moment + timedelta(seconds=20), **how)


@pytest.fixture
def account(aws: Any) -> Iterator[ScheduleAccount]:
    with ScheduleAccount(aws) as account:
        yield account


@pytest.fixture
def moments(account: ScheduleAccount, tmp_path: Path) -> list[datetime]:
    """The next moments, ten minutes apart, of a schedule that was added, and seen by a run."""
    start = now()
    first = start.replace(second=0, microsecond=0) + timedelta(minutes=2)
    moments = [first + timedelta(minutes=10 * number) for number in range(12)]
    minutes = ",".join(str(moment.minute) for moment in moments[:6])
    file = tmp_path / "train.toml"
    file.write_text(SPEC)
    account.schedule("add", "nightly", str(file), "--cron", f"{minutes} * * * *", "--yes").fine()
    # However long that took.
    account.aws.set_object(BUCKET, KEY, start)
    account.tick_at(start)
    return moments


def stamp(moment: datetime) -> str:
    return f"nightly.{moment:%Y%m%d%H%M}.toml"


def test_a_moment_makes_one_job_and_too_many_skip_the_next(account: ScheduleAccount, moments: list[datetime]) -> None:
    assert account.made() == [] and account.listed()["is_seen"]
    run = account.past(moments[0])
    assert account.made() == [stamp(moments[0])] and account.job("nightly").state == "running", "the same run has accepted it"
    text = account.aws.client("s3").get_object(Bucket=BUCKET, Key=f"inbox/vision/{stamp(moments[0])}")["Body"].read().decode()
    document = tomllib.loads(text)
    assert document["env"] == {"SCHEDULED_AT": f"{moments[0]:%Y-%m-%dT%H:%M:%SZ}"} and "schedule" not in document
    assert run.gaps == []
    account.tick_at(moments[0] + timedelta(seconds=80))
    assert account.made() == [stamp(moments[0])]

    run = account.past(moments[1])
    assert account.made() == [stamp(moments[0])], "the first job is unfinished"
    [text] = [one["message"] for one in run.messages if "made no job at" in one["message"]]
    assert "its `max_at_once` is 1" in text
    assert not any("made no job at" in one["message"] for one in account.tick_at(moments[1] + timedelta(seconds=80)).messages)
    listed = account.listed()
    assert (listed["submitted_at"], listed["missed"]) == (f"{moments[0]:%Y-%m-%dT%H:%M:%SZ}", None)
    assert listed["skipped"] == {"at": f"{moments[1]:%Y-%m-%dT%H:%M:%SZ}", "unfinished": 1}

    account.job("nightly").ends()
    account.tick_at(moments[1] + timedelta(minutes=2))
    # As the bucket does after a month: the moment is over, and no answer says so.
    for key in account.keys("inbox/vision/"):
        account.aws.client("s3").delete_object(Bucket=BUCKET, Key=key)
    account.past(moments[2])
    assert account.made() == [stamp(moments[2])]


def test_an_outage_ends_with_one_job_and_one_message(account: ScheduleAccount, moments: list[datetime]) -> None:
    run = account.tick_at(moments[5] + timedelta(minutes=9))
    assert account.made() == [stamp(moments[5])], "the newest alone"
    [text] = [one["message"] for one in run.messages if " missed " in one["message"]]
    assert "missed 5 moments" in text and "submit it by hand" in text
    assert account.listed()["missed"]["count"] == 5
    assert not any(" missed " in one["message"] for one in account.past(moments[5] + timedelta(minutes=9)).messages)
    assert account.made() == [stamp(moments[5])]


def test_a_run_that_was_cut_off_is_repeated_and_makes_no_second_job(account: ScheduleAccount, moments: list[datetime]) -> None:
    account.aws.fault("s3:PutObject", "access_denied", match="inbox/vision/nightly.", times=None)
    account.past(moments[0])
    assert account.made() == [] and account.read(STATE)["pending"]
    account.aws.clear_faults()
    account.tick_at(moments[0] + timedelta(seconds=80))
    assert account.made() == [stamp(moments[0])] and "pending" not in account.read(STATE)
    # The state was not written after the document.
    state = account.read(STATE)
    account.put(STATE, json.dumps({**state, "pending": state["submitted"], "unanswered": []}).encode())
    account.tick_at(moments[0] + timedelta(seconds=140))
    assert account.made() == [stamp(moments[0])] and len(account.keys("active/")) == 1


def test_a_schedule_with_a_mistake_stops_no_other(account: ScheduleAccount, moments: list[datetime]) -> None:
    text = account.aws.client("s3").get_object(Bucket=BUCKET, Key=KEY)["Body"].read().decode()
    for key in ("triggers/vision/schedules/wrong.toml", "triggers/schedules/nobody.toml"):
        account.put(key, re.sub(r"cron = .\d+", 'cron = "61', text).encode())
    account.put("triggers/vision/schedules/wrong2.state.json", b"{")
    account.put("triggers/vision/schedules/wrong2.toml", text.encode())
    run = account.past(moments[0])
    assert len([key for key in account.keys("inbox/vision/") if key.endswith(f"{moments[0]:%Y%m%d%H%M}.toml")]) == 2
    assert "`61` is no minute" in run.message() and "schedules/wrong.toml makes no jobs" in run.message()
    listed = {one["name"]: one for one in account.schedule("ls", "--json").json()["schedules"]}
    assert [one["key"] for one in listed["wrong"]["mistakes"]] == ["schedule.cron"] and listed["wrong"]["next_at"] is None
    assert account.schedule("ls").code == 1


def test_without_the_parameter_nothing_is_listed_and_the_team_is_told(account: ScheduleAccount, moments: list[datetime]) -> None:
    account.on = False
    account.restart()
    run = account.past(moments[0])
    assert account.made() == [] and not [call for call in run.calls if any("triggers/" in one for one in call["resources"])]
    assert "the parameter Schedules of the stack" in account.told_of(KEY).message()


def test_a_moment_without_its_archive_makes_no_job(account: ScheduleAccount, tmp_path: Path) -> None:
    start = now()
    first = start.replace(second=0, microsecond=0) + timedelta(minutes=2)
    cron = f"{first.minute},{(first.minute + 10) % 60},{(first.minute + 20) % 60} * * * *"
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "retrain.py").write_text("pass\n")
    file = tmp_path / "train.toml"
    file.write_text(f'workdir = "sha256:{64 * "0"}"\n{SPEC}')
    missing = account.schedule("add", "nightly", str(file), "--cron", cron, "--yes")
    assert missing.code == 2 and "bring the directory along again" in missing.err and account.keys("triggers/") == []
    file.write_text(SPEC)
    added = account.schedule("add", "nightly", str(file), "--cron", cron, "--workdir", str(tmp_path / "code"), "--yes", "--json")
    assert added.fine().json()["workdir"]["uploaded"] is True
    [archive] = account.keys("workdirs/vision/")
    account.aws.set_object(BUCKET, KEY, start)
    account.aws.set_object(BUCKET, archive, start - timedelta(days=174))
    account.tick_at(start)
    run = account.past(first)
    assert account.made() == [stamp(first)] and "The bucket deletes the archive of the `workdir`" in run.message()
    account.job("nightly").ends()
    account.tick_at(first + timedelta(minutes=2))

    account.aws.client("s3").delete_object(Bucket=BUCKET, Key=archive)
    second, third = (first + timedelta(minutes=minutes) for minutes in (10, 20))
    run = account.past(second)
    assert account.made() == [stamp(first)] and run.gaps == []
    assert "missed a moment" in run.message() and "does not have the archive" in run.message()
    listed = account.listed()
    assert (listed["missed"]["count"], listed["missed"]["reason"]) == (1, "workdir-gone")
    assert "does not have the archive" not in str([one["message"] for one in account.past(third).messages]), "once a day"


def test_far_from_its_moments_a_minute_reads_the_document_alone(account: ScheduleAccount, tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(SPEC)
    daily = f"30 {(now() + timedelta(hours=12)).hour} * * *"
    account.schedule("add", "nightly", str(tmp_path / "train.toml"), "--cron", daily, "--yes").fine()
    account.tick()
    for key in (KEY, STATE):
        account.aws.set_object(BUCKET, key, now() - timedelta(hours=2))
    run = account.tick()
    assert [one for call in run.calls for one in call["resources"] if one.startswith(f"{BUCKET}/triggers/vision/")] == [f"{BUCKET}/{KEY}"]


def test_a_removed_schedule_makes_no_job(account: ScheduleAccount, moments: list[datetime]) -> None:
    assert account.schedule("rm", "nightly", "--json").fine().json()["removed"] == KEY
    account.past(moments[0])
    assert account.made() == []
    # What is deeper is no schedule.
    account.put("triggers/vision/schedules/sub/nightly.toml", SPEC.encode())
    gone = account.schedule("rm", "nightly")
    assert gone.code == 2 and 'vision has no schedule "nightly"; it has none' in gone.err
    assert f"vision has no schedule in s3://{BUCKET}" in account.schedule("ls").fine().out
    assert "schedules/sub/nightly.toml makes no jobs: it is in no team's folder" in account.past(moments[1]).message("untagged")
    assert account.keys("triggers/vision/schedules/sub/") == ["triggers/vision/schedules/sub/nightly.toml"]


def test_the_document_is_checked_before_it_is_added(account: ScheduleAccount, tmp_path: Path) -> None:
    file = tmp_path / "train.toml"
    file.write_text(SPEC)
    wrong = account.schedule("add", "nightly", str(file), "--cron", "0 2 30 2 *", "--time-zone", "EST")
    assert wrong.code == 1 and wrong.out.startswith("--cron: ") and "fits no day of any year" in wrong.out and "write America/New_York" in wrong.out, wrong
    dry = account.schedule("add", "nightly", str(file), "--cron", "0 2 * * *", "--time-zone", "Europe/Berlin", "--dry-run")
    assert "nightly runs by `0 2 * * *` in Europe/Berlin: at most 1 job at once, next at " in dry.out and account.keys("triggers/") == []
    missing = account.schedule("add", "nightly", str(file))
    assert missing.code == 1 and "there is no section `[schedule]`; write it, or pass --cron" in missing.out
    file.write_text(f'{SPEC}[schedule]\ncron = "0 2 * * *"\n')
    twice = account.schedule("add", "nightly", str(file), "--cron", "0 3 * * *")
    assert twice.code == 2 and "has a section [schedule] already" in twice.err
    account.schedule("add", "nightly", str(file), "--yes").fine()
    assert "in place of the earlier one" in account.schedule("add", "nightly", str(file), "--yes").fine().out
    unseen = account.schedule("ls")
    assert unseen.code == 1 and "no run has looked at some of these yet" in unseen.err
    rejected = curfew(account.environment(), "submit", str(file), "--team", "vision")
    assert rejected.code == 1 and "add it with `curfew schedule add NAME`" in rejected.out


def test_the_page_has_every_key() -> None:
    page = (REPOSITORY / "docs/schedules.md").read_text()
    source = (REPOSITORY / "shared/jobs/src/schedule/read.rs").read_text()
    keys = source.partition("const KEYS: [&str; 3] = [")[2].partition("]")[0].replace('"', "").split(", ")
    assert len(keys) == 3 and all(f"| `{key}` |" in page for key in keys)
