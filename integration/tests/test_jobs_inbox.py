"""What teams drop into the inbox: accepted, or answered with every mistake."""

from __future__ import annotations

import json
from datetime import timedelta

from jobs import SPEC, JobAccount
from reaping import BUCKET, now, rfc3339

WRONG = """
owner = "ada@example.com"
command = ""
colour = "red"
[gpu]
count = 0
types = ["quick"]
[limits]
max_runtime = "5m"
"""


def test_a_job_is_accepted_and_its_spec_kept_as_it_was_written(jobs: JobAccount) -> None:
    key = jobs.submit()
    jobs.told_of(key)
    answer = jobs.answer(key)
    job = jobs.job()
    assert answer and answer["is"] == "accepted" and answer["job"] == job.id and answer["schema"] == 1
    etag = jobs.aws.client("s3").head_object(Bucket=BUCKET, Key=key)["ETag"]
    assert answer["object"] == etag and job.id.endswith(etag.strip('"')[:8])
    spec = jobs.aws.client("s3").get_object(Bucket=BUCKET, Key=f"jobs/{job.id}/spec.toml")["Body"].read()
    assert spec.decode() == SPEC
    assert job.is_active and job.document["schema"] == 1 and job.document["owner"] == "ada@example.com"


def test_every_mistake_is_answered_at_once_and_a_corrected_spec_is_accepted(jobs: JobAccount) -> None:
    key = jobs.submit("wrong", WRONG)
    run = jobs.tick()
    answer = jobs.answer(key)
    assert answer and answer["is"] == "rejected" and "job" not in answer
    assert {mistake["key"] for mistake in answer["mistakes"]} >= {"command", "colour", "gpu.count", "limits.max_runtime"}
    assert all(mistake["problem"] and mistake["line"] > 0 for mistake in answer["mistakes"])
    [message] = run.messages
    assert message["attributes"]["team"] == "vision" and message["attributes"]["severity"] == "error"
    for mistake in answer["mistakes"]:
        assert mistake["key"] in message["message"]
    assert jobs.keys("jobs/") == jobs.keys("active/") == [] and jobs.ever_launched() == []
    assert jobs.tick().messages == []
    jobs.submit("wrong")
    jobs.aws.set_object(BUCKET, key, now() + timedelta(seconds=2))
    jobs.tick()
    mended = jobs.answer(key)
    assert mended and mended["job"] == jobs.job("wrong").id


def test_the_answer_of_a_faster_run_stays(jobs: JobAccount) -> None:
    """It was written after this run had read the answers, and is to what came after."""
    key = jobs.submit("llama", WRONG)
    jobs.told_of(key)
    newer = {"schema": 1, "object": "newer", "at": "2999-01-01T00:00:00Z", "mistakes": []}
    put = {"bucket": BUCKET, "key": "inbox/vision/llama.rejected.json", "text": json.dumps(newer)}
    jobs.submit()
    jobs.aws.before("s3:PutObject", {"put_object": put}, match="llama.accepted.json")
    jobs.told_of(key)
    assert [key for key in jobs.keys("inbox/") if key.endswith(".json")] == ["inbox/vision/llama.accepted.json", put["key"]]
    assert jobs.read("inbox/vision/llama.rejected.json")["object"] == "newer"


def test_a_spec_of_any_size_is_answered(jobs: JobAccount) -> None:
    sizes = {"long": 64 * 1024 + 1, "endless": 16 * 1024 * 1024 + 1}
    for name, size in sizes.items():
        jobs.put(f"inbox/vision/{name}.toml", SPEC.encode() + b"#" * (size - len(SPEC.encode())))
    run = jobs.tick()
    for name, size in sizes.items():
        answer = jobs.answer(f"inbox/vision/{name}.toml")
        assert answer and [one["problem"] for one in answer["mistakes"]] == [f"the document has {size} bytes; 65536 are the most"]
        assert answer["is"] == "rejected" and f"{size} bytes" in run.message()
    assert run.gaps == [] and jobs.keys("jobs/") == []
    jobs.written_long_ago()
    assert jobs.tick().messages == []


def test_a_spec_that_replaces_a_long_one_gets_its_own_answer(jobs: JobAccount) -> None:
    key = "inbox/vision/llama.toml"
    jobs.put(key, SPEC.encode() + b"#" * 64 * 1024)
    replaced = {"bucket": BUCKET, "key": key, "text": SPEC}
    jobs.aws.before("s3:[GH]e*Object", {"put_object": replaced}, match=key, skip=1)  # right after the long one was read
    jobs.told_of(key)
    jobs.told_of(key)
    answer = jobs.answer(key)
    assert answer and answer["is"] == "accepted", answer


def test_a_team_with_an_odd_name_is_one_folder_everywhere(jobs: JobAccount) -> None:
    key = jobs.submit(team="Bild%20Köln")
    event = "inbox/Bild%2520K%C3%B6ln/llama.toml"  # as S3's own notifications write it
    jobs.told_of(event)
    answer = jobs.answer(key)
    assert answer and answer["job"].startswith("Bild Köln/llama-")
    [active] = jobs.keys("active/")
    assert active.startswith("active/Bild%20Köln/llama-")
    [machine] = jobs.machines()
    assert jobs.aws.tags(machine)["curfew:job"] == answer["job"] and jobs.aws.tags(machine)["Team"] == "Bild Köln"
    assert [step["action"] for step in jobs.warn(machine).steps] == ["notify", "launch"]


def test_a_state_at_a_foreign_key_launches_nothing(jobs: JobAccount) -> None:
    """A copied state, or an object at a key like a job's, launches no machine."""
    job = jobs.running()
    forged = {**job.document, "phase": {"state": "submitted"}, "attempt": 0, "machines": 0}
    before = len(jobs.ever_launched())
    for at in ("nlp/other-0123abcd", "nlp/attempts", "nlp/LLAMA-0123ABCD"):
        jobs.put(f"jobs/{at}/state.json", json.dumps(forged).encode())
        jobs.put(f"jobs/{at}/spec.toml", SPEC.encode())
        jobs.put(f"active/{at}", b'{"schema":1}')
    run = jobs.tick()
    assert len(jobs.ever_launched()) == before
    [gap] = run.gaps
    assert f"jobs/nlp/other-0123abcd/state.json says that it is of {job.id}, so Curfew does not believe it" in gap["error"]
    assert json.loads(jobs.aws.client("s3").get_object(Bucket=BUCKET, Key="jobs/nlp/other-0123abcd/state.json")["Body"].read()) == forged


def test_an_answer_about_another_teams_job_does_not_count(jobs: JobAccount) -> None:
    key = jobs.submit()
    etag = jobs.aws.client("s3").head_object(Bucket=BUCKET, Key=key)["ETag"]
    forged = {"schema": 1, "object": etag, "at": rfc3339(now()), "job": "nlp/bert-0123abcd"}
    jobs.put("inbox/vision/llama.accepted.json", json.dumps(forged).encode())
    run = jobs.told_of(key)
    [gap] = run.gaps
    assert "inbox/vision/llama.accepted.json says that it is of nlp/bert-0123abcd" in gap["error"]
    assert jobs.keys("jobs/") == []
