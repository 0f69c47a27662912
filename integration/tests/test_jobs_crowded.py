"""A team that has more in its folders than one run lists, or takes: the others do not notice."""

from __future__ import annotations

import moved_clock
import pytest

from jobs import SPEC, JobAccount
from reaping import BUCKET
from test_jobs_index import forget, swept_at

LISTED_MAX = 5_000  # as in shared/store/src/jobs/backlog.rs
TEAM_MAX = 200  # documents of one team in one sweep, as in shared/execution/src/jobs/inbox.rs
KEY_BYTES_MAX = 1024
BOOKMARKS = "notices/run-jobs/bookmarks.json"


def told(run: object) -> dict[str, str]:
    return {message["attributes"]["team"]: message["message"] for message in run.messages}  # type: ignore[attr-defined]


def test_a_team_that_fills_its_folder_delays_no_other(jobs: JobAccount) -> None:
    jobs.aws.add_objects(BUCKET, "inbox/flood/", LISTED_MAX + 1)
    key = jobs.submit()
    jobs.put("inbox/llama.toml", SPEC.encode())
    run = jobs.tick(patience_s=120)
    answer = jobs.answer(key)
    assert run.gaps == [] and answer and answer["is"] == "accepted" and jobs.job().state == "running"
    assert "is in no team's folder" in str(jobs.answer("inbox/llama.toml"))
    messages = told(run)
    assert "inbox/flood/ has more" in messages["flood"] and "flood" not in messages["vision"]
    assert jobs.read(BOOKMARKS)["after"] == {"inbox/flood/": "inbox/flood/004999"}, "where the next run goes on"


def test_a_sweep_answers_so_many_of_a_team_and_goes_on_in_the_next(jobs: JobAccount) -> None:
    for number in range(TEAM_MAX + 2):
        jobs.put(f"inbox/flood/{number:03}.toml", b"")
    jobs.submit("wrong", "command = 1")
    answers = lambda: len([key for key in jobs.keys("inbox/flood/") if key.endswith(".rejected.json")])  # noqa: E731
    run = jobs.tick(patience_s=120)
    assert answers() == TEAM_MAX and run.gaps == []
    answer = jobs.answer("inbox/vision/wrong.toml")
    assert answer and answer["is"] == "rejected" and "2 of those that it listed wait" in told(run)["flood"]
    jobs.tick(patience_s=120)
    assert answers() == TEAM_MAX + 2


def test_a_name_that_cannot_be_answered_is_refused_and_told_once(jobs: JobAccount) -> None:
    key = f"{'inbox/vision/':x<{KEY_BYTES_MAX - len('.toml')}}.toml"
    jobs.put(key, SPEC.replace("[gpu]", 'name = "llama"\n[gpu]').encode())
    assert jobs.told_of(key).gaps == [], "as it arrives"
    run = jobs.tick()
    assert run.gaps == [] and "was not accepted" in told(run)["vision"] and "s3:GetObject" in run.counts
    assert jobs.keys("jobs/") == [] and jobs.keys("active/") == [] and jobs.ever_launched() == []
    again = jobs.tick()
    calls = sum(again.counts.values())
    assert again.messages == [] and calls <= 7, "it costs no call a minute; two of them are of the minute that looks for lost jobs"


@pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
def test_a_forgotten_job_is_found_beside_a_team_with_any_number_of_jobs(jobs: JobAccount) -> None:
    jobs.aws.set_capacity(0, "g5.xlarge")
    jobs.submit()
    jobs.tick()
    job = jobs.job()
    forget(job)
    jobs.aws.add_objects(BUCKET, "jobs/flood/", 1)
    for key in ("jobs/flood/a-0123abcd/state.json", "jobs/flood/b-0123abcd/state.json"):
        jobs.put(key, b"none of Curfew's")
    run = jobs.tick_at(swept_at(job))
    assert run.response["seen"] == 1 and job.is_active
