"""Links of announcements: what they do, and all that they must not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from answering import READER, Links, document_of
from jobs import Job, JobAccount, box_spec
from reaping import EUROPE, REPOSITORY, Account, ago, moment, now, rfc3339
from reaping_sagemaker import StudioAccount
from reaping_volumes import VolumeAccount
from test_sagemaker import off_hours

BOX = box_spec("home_gib = 20")
KEPT = {"s3:PutObject": 1, "ec2:CreateTags": 1}
HOUR = {"idle": {"grace": "1h"}}


@pytest.fixture
def links(account: Account) -> Iterator[Links]:
    account.configure(**HOUR)
    with Links(account) as links:
        yield links


def test_one_click_keeps_and_the_next_run_calls_the_announcement_off(links: Links) -> None:
    account = links.account
    gpu = account.idle(account.gpu(tags={"Name": "<b>llama</b>"}))
    run = account.tick()
    path = links.path(run)
    assert run.said(gpu) == ("mark", "idle", "done") and run.gaps == []
    links.writes()
    asked = links.get(path)
    assert asked.status == 200 and asked.choices == ["keep-day", "keep-friday", "protect"]
    assert gpu in asked.page and "It will be stopped from" in asked.page and "<b>" not in asked.page
    assert links.get(path) == asked and links.writes() == {}, "to read it changes nothing"
    done = links.post(path, "keep-day")
    assert (done.status, links.writes()) == (200, KEPT)
    until = moment(account.aws.tags(gpu)["curfew:keep-until"])
    assert abs(until - now() - timedelta(days=1)) < timedelta(minutes=1)
    assert "an announced action is off" in done.page and f"curfew release {gpu}" in done.page
    assert account.tick().skipped == {"kept": 1} and account.state(gpu) == "running"
    assert "announced" not in account.read(account.notices())["resources"].get(gpu, {})


def test_the_bucket_knows_to_whom_it_was_sent_and_who_used_it_but_not_the_token(links: Links) -> None:
    account = links.account
    gpu = account.idle(account.gpu())
    path = links.path(account.tick())
    before = links.document(path)
    sent_to = before["sent_to"]
    assert (sent_to["function"], sent_to["team"], sent_to["topic"]) == ("reap-instances", "vision", account.topic_arn)
    assert (before["schema"], before["resource"], before["action"], before["rule"]) == (1, gpu, "stop", "idle")
    assert moment(before["expires_at"]) - moment(before["deadline"]) == timedelta(days=7) and "used" not in before
    links.post(path, "protect")
    assert "curfew:protected" in account.aws.tags(gpu)
    used = links.document(path)["used"]
    assert (used["choice"], used["from"]) == ("protect", READER) and abs(moment(used["at"]) - now()) < timedelta(minutes=1)
    token = path.removeprefix("/r/")
    s3 = account.aws.client("s3")
    for key in account.keys():
        assert token not in key and token.encode() not in s3.get_object(Bucket="curfew-state", Key=key)["Body"].read(), key


def test_what_is_forged_old_or_repeated_does_nothing(links: Links) -> None:
    account = links.account
    gpu = account.idle(account.gpu())
    path = links.path(account.tick())
    links.writes()
    token = path.removeprefix("/r/")
    forged = [f"/r/{'0' * 64}", f"/r/{token[:-1]}", f"/r/{token.upper()}", f"/r/{token}/", f"/r/{token}/delete", "/", f"/{document_of(path)}"]
    for other in forged:
        assert (links.get(other).status, links.post(other, "keep-day").status) == (404, 404), other
        assert token not in links.get(other).page
    for method in ("HEAD", "PUT", "DELETE", "OPTIONS", "post", ""):
        assert links.request(method, f"{path}/keep-day").status == 405, method
    assert links.request("POST", path).status == 404, "without a choice"
    assert links.post(path, "undo").status == 409, "it was not stopped"
    old = {**links.document(path), "expires_at": rfc3339(ago(seconds=1))}
    current = links.document(path)
    account.put(document_of(path), json.dumps(old).encode())
    links.writes()
    assert (links.get(path).status, links.post(path, "keep-day").status) == (410, 410)
    assert links.writes() == {}
    account.put(document_of(path), json.dumps(current).encode())
    links.writes()
    assert [links.post(path, "keep-day").status for _ in range(3)] == [200, 410, 410]
    assert links.writes() == KEPT and links.get(path).status == 410
    assert "curfew:keep-until" in account.aws.tags(gpu)


def test_a_link_acts_on_one_life_of_one_resource(links: Links) -> None:
    account = links.account
    gpu, other = account.idle(account.gpu()), account.idle(account.gpu(region=EUROPE), EUROPE)
    paths = {links.document(path)["resource"]: path for path in links.paths(account.tick())}
    assert set(paths) == {gpu, other}
    links.writes()
    assert links.post(paths[other], "protect").status == 200
    assert "curfew:protected" in account.aws.tags(other, EUROPE) and "curfew:protected" not in account.aws.tags(gpu)
    # As if it was stopped and started by hand.
    document = links.document(paths[gpu])
    account.put(document_of(paths[gpu]), json.dumps({**document, "since": rfc3339(ago(days=3))}).encode())
    links.writes()
    assert "started or made again" in links.get(paths[gpu]).page and links.post(paths[gpu], "keep-day").status == 409
    account.aws.client("ec2").terminate_instances(InstanceIds=[gpu])
    account.put(document_of(paths[gpu]), json.dumps(document).encode())
    links.writes()
    gone = links.get(paths[gpu])
    assert gone.choices == [] and "it is terminated" in gone.page
    assert links.post(paths[gpu], "keep-day").status == 409 and links.writes() == {}


def test_of_two_answers_at_once_one_acts(links: Links) -> None:
    account = links.account
    gpu = account.idle(account.gpu())
    path = links.path(account.tick())
    links.writes()
    account.aws.fault("s3:PutObject", "slow", match="sent_to", seconds=1, times=2)
    with Links(account) as others, ThreadPoolExecutor() as both:
        answers = [both.submit(one.post, path, choice) for one, choice in ((links, "keep-day"), (others, "protect"))]
        assert sorted(answer.result().status for answer in answers) == [200, 410]
    assert links.writes()["ec2:CreateTags"] == 1
    assert len({"curfew:keep-until", "curfew:protected"} & set(account.aws.tags(gpu))) == 1


def test_a_stop_by_curfew_is_undone_and_no_other(links: Links) -> None:
    account = links.account
    account.configure(idle={"grace": "0s"})
    gpu, other = account.idle(account.gpu()), account.idle(account.gpu())
    paths = {links.document(path)["resource"]: path for path in links.paths(account.tick())}
    account.aws.client("ec2").stop_instances(InstanceIds=[other])
    account.tag(other, stopped="idle 2026-09-01T12:00:00Z")
    assert account.tick().said(gpu) == ("stop", "idle", "done")
    links.writes()
    forged = links.get(paths[other])
    assert "undo" not in forged.choices and "not by Curfew" in forged.page
    asked = links.get(paths[gpu])
    links.check_role()
    assert asked.choices[0] == "undo" and "Curfew stopped it" in asked.page
    done = links.post(paths[gpu], "undo")
    assert done.status == 200 and "announces the stop again if it stays idle" in done.page
    assert (account.state(gpu), account.state(other)) == ("running", "stopped")
    assert links.writes() == {"s3:PutObject": 1, "ec2:StartInstances": 1}
    assert links.post(paths[gpu], "undo").status == 410


def test_what_fails_says_so_and_is_not_tried_twice(links: Links) -> None:
    account = links.account
    gpu = account.idle(account.gpu())
    path = links.path(account.tick())
    account.aws.fault("ec2:DescribeInstances", "access_denied", times=None)
    assert (links.get(path).status, links.post(path, "keep-day").status) == (503, 503)
    account.aws.clear_faults()
    assert links.get(path).status == 200, "nothing was used up"
    account.aws.fault("ec2:CreateTags", "access_denied", times=None)
    failed = links.post(path, "keep-day")
    assert failed.status == 503 and "unknown" in failed.page
    account.aws.clear_faults()
    assert links.post(path, "keep-day").status == 410 and "curfew:keep-until" not in account.aws.tags(gpu)


def test_an_announcement_whose_link_cannot_be_written_goes_without(links: Links) -> None:
    account = links.account
    gpu = account.idle(account.gpu())
    account.aws.fault("s3:PutObject", "access_denied", match="sent_to", times=None)
    run = account.tick()
    assert run.said(gpu) == ("mark", "idle", "done") and account.mark(gpu) is not None
    assert links.paths(run) == [] and "by one click" not in run.message()
    assert [gap["call"] for gap in run.gaps] == ["s3:PutObject"]


def test_links_are_only_in_announcements_of_enforce_mode(links: Links) -> None:
    account = links.account
    observed = account.idle(account.gpu(tags={"curfew:mode": "observe"}))
    run = account.tick()
    assert run.said(observed)[2] == "observed" and links.paths(run) == [] and account.keys("replies/") == []
    gpu = account.idle(account.gpu())
    path = links.path(account.tick())
    with Links(account, CURFEW_MODE="observe") as observing:
        assert "observe mode" in observing.get(path).page and observing.post(path, "protect").status == 409
    assert "curfew:protected" not in account.aws.tags(gpu)


def test_whatever_strangers_send_is_answered_by_the_same_pages(links: Links) -> None:
    hostile = ["/r/../config/curfew.toml", "/r/%2e%2e", "/r/" + "a" * 10_000, "/r/\u0000", "/r/💥", "/r/" + "é" * 64, "", "r", "/r/<script>"]
    pages = {links.get(path).page for path in hostile}
    assert len(pages) == 1 and "script" not in pages.pop()
    body = {"body": "A" * 5_000_000, "isBase64Encoded": True, "headers": {"x": "\r\nset-cookie: a=b"}, "rawQueryString": "x=" + "y" * 9000}
    answer = links.request("POST", f"/r/{'0' * 64}/keep-day", **body)
    assert answer.status == 404
    assert answer.headers["content-security-policy"].startswith("default-src 'none'") and "form-action 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer" and answer.headers["cache-control"] == "no-store"
    assert "noindex" in answer.headers["x-robots-tag"] and "set-cookie" not in answer.headers
    assert links.press("/r/" + "0" * 64, "keep-day") == "There is no such page."
    assert links.press("/r/\U0001f4a5", "rm -rf") == "There is no such page."


@pytest.mark.parametrize("name", ["url-get", "url-post", "chat-button"])
def test_the_samples_are_answered(links: Links, name: str) -> None:
    event = (REPOSITORY / f"events/reply/{name}.json").read_bytes()
    answer = links.invoke(event)
    assert answer["message" if name == "chat-button" else "statusCode"] in (404, "There is no such page.")


def test_a_button_of_a_chat_answers_for_the_resource_of_its_message(links: Links) -> None:
    account = links.account
    gpu = account.idle(account.gpu())
    path = links.path(account.tick())
    assert links.press(path, "undo").startswith(f"{gpu}: nothing was changed. It will be stopped from")
    assert links.press(path, "keep-day").startswith(f"{gpu}: It is kept until")
    assert links.document(path)["used"]["from"] == "chat"
    assert links.press(path, "keep-day").startswith("This link was used")


def test_a_volume_is_kept(storage: VolumeAccount) -> None:
    storage.configure(volumes={"grace": "1h"})
    volume = storage.orphan()
    with Links(storage) as links:
        path = links.path(storage.tick())
        storage.aws.clear_calls()
        asked = links.get(path)
        assert asked.choices == ["keep-day", "keep-friday", "protect"] and "It will be snapshotted and deleted from" in asked.page
        assert links.post(path, "keep-friday").status == 200
        links.check_role()
    until = moment(storage.aws.tags(volume)["curfew:keep-until"])
    assert (until.isoweekday(), until.hour) == (5, 18) and timedelta() < until - now() < timedelta(days=8)
    assert storage.tick().skipped == {"kept": 1}


def test_an_endpoint_is_protected_and_a_stopped_notebook_started(studio: StudioAccount) -> None:
    studio.configure(sagemaker={"endpoint_action": "delete", "component_action": "scale-to-zero"})
    with Links(studio) as links:
        llm, lab = studio.unused(studio.endpoint("llm")), studio.notebook(hours=off_hours())
        others = {studio.app(), studio.unused_component(studio.component("llama"))}
        run = studio.tick()
        paths = {links.document(path)["resource"]: path for path in links.paths(run)}
        assert set(paths) == {llm, lab, *others}
        studio.aws.clear_calls()
        for other in others:
            assert links.post(paths[other], "keep-day").status == 200 and "curfew:keep-until" in studio.tags_of(other)
        links.check_role()
        assert links.post(paths[llm], "protect").status == 200 and "curfew:protected" in studio.tags_of(llm)
        run = studio.tick_at(moment(run.step(lab)["evidence"]["deadline"]))
        assert run.said(lab) == ("stop", "hours", "done") and studio.endpoints()["llm"] == "InService"
        asked = links.get(paths[lab])
        assert asked.choices[0] == "undo", asked.page
        assert links.post(paths[lab], "undo").status == 200 and studio.notebook_status() == "InService"


# Boxes


def box_that_ends_soon(jobs: JobAccount) -> Job:
    jobs.configure(teams={"vision": {"monthly_budget_usd": 100, "over_budget": "hold"}})
    jobs.write_budget(100)
    job = jobs.running("my-box", BOX)
    assert jobs.tick().messages == [] and job.state == "running"
    end_soon(job)
    return job


def end_soon(job: Job, minutes: int = 8) -> None:
    job.rewrite(box={**job.document["box"], "soft_end": rfc3339(now() + timedelta(minutes=minutes))})


def test_a_box_is_kept_by_one_click_as_by_its_command(jobs: JobAccount) -> None:
    with Links(jobs) as links:
        job = box_that_ends_soon(jobs)
        run = jobs.tick()
        path = links.path(run)
        assert "is about to end at" in run.message() and "curfew box extend my-box 3h" in run.message()
        assert jobs.tick().messages == [], "it is told once"
        document = links.document(path)
        named = (document["job"], document["box"], document["ends_at"], document["sent_to"]["team"])
        assert named == (job.id, "vision/my-box", job.document["box"]["soft_end"], "vision")
        assert document["expires_at"] == job.phase["ends_at"] and "resource" not in document
        links.writes()
        asked = links.get(path)
        assert asked.choices == ["keep-3h"] and "vision/my-box" in asked.page and links.writes() == {}
        assert links.post(path, "protect").status == 409
        with Links(jobs, CURFEW_MODE="observe") as observing:
            assert "observe mode" in observing.get(path).page and observing.post(path, "keep-3h").status == 409
        links.writes()
        answer = links.post(path, "keep-3h")
        assert answer.status == 200 and "It reserves the cost first" in answer.page and "curfew box ls" in answer.page
        assert links.writes() == {"s3:PutObject": 2} and links.post(path, "keep-3h").status == 410
        request = jobs.read(f"jobs/{job.id}/extend.json")
        assert request["by"] == "a link"
        kept = jobs.tick()
        soft_end = moment(job.document["box"]["soft_end"])
        assert job.document["box"]["soft_end"] == request["until"] and abs(soft_end - now() - timedelta(hours=3)) < timedelta(minutes=1)
        assert f"it ends at {request['until']}" in kept.message() and links.paths(kept) == []


def test_a_box_without_money_is_told_so_and_one_that_is_down_is_not_kept(jobs: JobAccount) -> None:
    with Links(jobs) as links:
        job = box_that_ends_soon(jobs)
        path = links.path(jobs.tick())
        soft_end = job.document["box"]["soft_end"]
        jobs.write_budget(100, spent_usd=100.0)
        assert links.press(path, "keep-3h").startswith("vision/my-box: Curfew was asked to keep it until")
        refused = jobs.tick()
        assert job.document["box"]["soft_end"] == soft_end and job.document["box"]["extended"]["refused"]
        assert "the request to keep it longer is refused: " in refused.message()
        again = links.path(refused)
        assert again != path and links.get(again).choices == ["keep-3h"]
        job.cancel()
        ended = jobs.tick()
        assert "No sync of its home was known by then" in ended.message() and links.paths(ended) == []
        links.writes()
        gone = links.get(again)
        assert gone.choices == [] and "It went down at" in gone.page and "curfew box up vision/my-box" in gone.page
        links.check_role()
        assert links.post(again, "keep-3h").status == 409 and links.writes() == {}


def test_a_message_about_a_box_goes_without_a_link_that_cannot_be_written(jobs: JobAccount) -> None:
    with Links(jobs) as links:
        box_that_ends_soon(jobs)
        jobs.aws.fault("s3:PutObject", "access_denied", match="sent_to", times=None)
        run = jobs.tick()
        assert "is about to end at" in run.message() and links.paths(run) == []
        assert [gap["call"] for gap in run.gaps] == ["s3:PutObject"]
