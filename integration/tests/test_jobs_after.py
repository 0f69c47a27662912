"""`after`: a job begins once other jobs have succeeded, and costs next to nothing until then."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import curfew
from jobs import SPEC, Job, JobAccount


def after(*jobs: Job) -> str:
    names = ", ".join(f'"{job.id.split("/")[1]}"' for job in jobs)
    return f"after = [{names}]\n{SPEC}"


@pytest.mark.usefixtures("unlisted")
def test_a_job_begins_once_the_other_has_succeeded(jobs: JobAccount, tmp_path: Path) -> None:
    prepare = jobs.running("prepare")
    file = tmp_path / "llama.toml"
    file.write_text(after(prepare))
    dry = curfew(jobs.environment(), "submit", str(file), "--team", "vision", "--dry-run")
    assert f"It begins once all of these have succeeded: {prepare.id.split('/')[1]}\n" in dry.out
    jobs.submit("llama", after(prepare))
    jobs.tick()
    llama = jobs.job()
    assert (llama.state, llama.document["waits_for"]) == ("submitted", [prepare.id.split("/")[1]])
    prepare.beats()
    jobs.written_long_ago()
    run = jobs.tick()
    assert run.counts["s3:GetObject"] == 2 + 5 + 2, "of the job that waits its state and cancel.json, as of any that is not launched"
    said = curfew(jobs.environment(), "jobs").fine().out
    assert "waiting" in said and f"it begins once {prepare.id.split('/')[1]} has succeeded" in said
    prepare.ends()
    jobs.tick()
    jobs.tick()
    assert (llama.state, "waits_for" in llama.document) == ("running", False)


def test_a_job_ends_with_the_one_that_it_comes_after(jobs: JobAccount) -> None:
    prepare = jobs.running("prepare")
    jobs.submit("llama", after(prepare))
    jobs.tick()
    prepare.cancel()
    jobs.tick()
    run = jobs.tick()
    llama = jobs.job()
    assert llama.phase["result"] == "failed" and f"it comes after {prepare.id.split('/')[1]}, which was cancelled" in run.message("vision")
    assert len(jobs.ever_launched()) == 1 and not llama.is_active


def test_a_job_after_one_that_is_not_there_or_failed_is_rejected(jobs: JobAccount, tmp_path: Path) -> None:
    prepare = jobs.running("prepare")
    prepare.cancel()
    jobs.tick()
    spec = after(prepare, Job(jobs, "vision/absent-0123abcd"))
    key = jobs.submit("llama", spec)
    jobs.tick()
    answer = jobs.answer(key)
    assert answer and answer["is"] == "rejected"
    assert [(mistake["line"], mistake["key"], mistake["problem"].split(",")[0]) for mistake in answer["mistakes"]] == [
        (1, "after[0]", f'"{prepare.id.split("/")[1]}" was cancelled'),
        (1, "after[1]", '"absent-0123abcd" is not a job or sweep of this team'),
    ]
    file = tmp_path / "llama.toml"
    file.write_text(spec)
    said = curfew(jobs.environment(), "submit", str(file), "--team", "vision")
    assert said.code == 1 and '"absent-0123abcd" is not a job or sweep of this team' in said.out + said.err


def sweep_of_two(jobs: JobAccount) -> tuple[Job, Job, Job]:
    """A sweep, as a job comes after it, and its two jobs, which run."""
    key = jobs.submit("tune", f'{SPEC}\n[sweep]\nseed = "1..2"\n')
    jobs.told_of(key)
    jobs.tick()
    answer = jobs.answer(key)
    assert answer
    first, second = (Job(jobs, answer["job"].replace("tune-", f"tune-000{number}-")) for number in (1, 2))
    first.beats()
    second.beats()
    return Job(jobs, answer["job"]), first, second


@pytest.mark.usefixtures("unlisted")
def test_a_job_begins_once_all_jobs_of_a_sweep_have_succeeded(jobs: JobAccount) -> None:
    sweep, first, second = sweep_of_two(jobs)
    jobs.submit("llama", after(sweep))
    jobs.tick()
    llama = jobs.job()
    assert (llama.state, llama.document["waits_for"]) == ("submitted", [sweep.id.split("/")[1]])
    jobs.written_long_ago()
    run = jobs.tick()
    assert run.counts["s3:GetObject"] == 2 + 2 * 5 + 2, "it costs what it costs after a job"
    first.ends()
    jobs.tick()
    jobs.tick()
    assert llama.state == "submitted" and not first.is_active
    second.ends()
    for _ in range(3):
        jobs.tick()
    assert (llama.state, "waits_for" in llama.document) == ("running", False)


def test_a_job_ends_with_the_first_of_a_sweep_that_fails(jobs: JobAccount) -> None:
    sweep, first, second = sweep_of_two(jobs)
    jobs.submit("llama", after(sweep))
    jobs.tick()
    second.ends(succeeded=False, code=3, why="the command has failed with exit code 3", shuts_down=False)
    jobs.tick()
    jobs.tick()
    llama = jobs.job()
    obstacle = "is a sweep whose job 2 has failed"
    assert f"it comes after {sweep.id.split('/')[1]}, which {obstacle}" in llama.phase["why"] and first.state == "running"
    first.ends()
    for _ in range(3):
        jobs.tick()
    key = jobs.submit("late", after(sweep))
    jobs.tick()
    answer = jobs.answer(key)
    assert answer and [mistake["key"] for mistake in answer["mistakes"]] == ["after[0]"]
    assert f'"{sweep.id.split("/")[1]}" {obstacle}, so this job would never begin' in answer["mistakes"][0]["problem"]


def test_a_rerun_begins_with_the_checkpoint_of_the_earlier_job(jobs: JobAccount) -> None:
    llama = jobs.running("llama")
    rerun = ("rerun", llama.id, "--from-checkpoint", "--json")
    said = curfew(jobs.environment(), *rerun)
    [mistake] = said.json()["mistakes"]
    assert said.code == 1 and (mistake["line"], mistake["key"]) == (1, "resume_from"), said
    assert "is not a job of this team with a complete checkpoint" in mistake["problem"]
    name = llama.id.split("/")[1]
    key = jobs.submit("typed", f'resume_from = "{name}"\n{SPEC}')
    jobs.tick()
    answer = jobs.answer(key)
    assert answer and answer["mistakes"] == [mistake]
    llama.checkpoint(1200)
    said = curfew(jobs.environment(), *rerun).fine()
    assert f"It begins with step 1200 of {llama.id}" in said.err
    submitted = said.json()["job"]
    jobs.tick()
    again = Job(jobs, submitted)
    assert again.id != llama.id and again.document["terms"]["checkpoint"]["resume_from"] == name


def test_a_rerun_without_a_checkpoint_says_why(jobs: JobAccount) -> None:
    llama = jobs.running("llama", SPEC.split("[checkpoint]")[0])
    said = curfew(jobs.environment(), "rerun", llama.id, "--from-checkpoint", "--dry-run")
    assert said.code == 2 and f"{llama.id} kept no checkpoint, because its document has no [checkpoint]" in said.err
    assert "rerun it without --from-checkpoint" in said.err
