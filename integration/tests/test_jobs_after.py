"""`after`: a job begins once other jobs have succeeded, and costs next to nothing until then."""

from __future__ import annotations

from pathlib import Path

from command import curfew
from jobs import SPEC, Job, JobAccount


def after(*jobs: Job) -> str:
    names = ", ".join(f'"{job.id.split("/")[1]}"' for job in jobs)
    return f"after = [{names}]\n{SPEC}"


def test_a_job_begins_once_the_other_has_succeeded(jobs: JobAccount) -> None:
    prepare = jobs.running("prepare")
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
        (1, "after[1]", '"absent-0123abcd" is no job of this team'),
    ]
    file = tmp_path / "llama.toml"
    file.write_text(spec)
    said = curfew(jobs.environment(), "submit", str(file), "--team", "vision")
    assert said.code == 1 and '"absent-0123abcd" is no job of this team' in said.out + said.err


def test_a_rerun_begins_with_the_checkpoint_of_the_earlier_job(jobs: JobAccount) -> None:
    llama = jobs.running("llama")
    rerun = ("rerun", llama.id, "--from-checkpoint", "--json")
    said = curfew(jobs.environment(), *rerun)
    [mistake] = said.json()["mistakes"]
    assert said.code == 1 and (mistake["line"], mistake["key"]) == (1, "resume_from"), said
    assert "is no job of this team with a complete checkpoint" in mistake["problem"]
    name = llama.id.split("/")[1]
    key = jobs.submit("typed", f'resume_from = "{name}"\n{SPEC}')
    jobs.tick()
    answer = jobs.answer(key)
    assert answer and answer["mistakes"] == [mistake]
    llama.checkpoint(1200)
    submitted = curfew(jobs.environment(), *rerun).fine().json()["job"]
    jobs.tick()
    again = Job(jobs, submitted)
    assert again.id != llama.id and again.document["terms"]["checkpoint"]["resume_from"] == name
