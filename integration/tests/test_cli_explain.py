"""`curfew explain`: what every rule finds of one resource, why it is or is not acted on, and when it would be."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any


from command import Said, curfew
from pending_plans import apply, due, held
from reaping import Account, ago, moment, rfc3339
from reaping_volumes import VolumeAccount


def explain(account: Account, *resources: str, **over: str | None) -> Said:
    return curfew(account.environment(**over), "explain", *resources)


def explained(account: Account, resource: str, **over: str | None) -> dict[str, Any]:
    [one] = explain(account, resource, "--json", **over).fine().json()["explained"]
    assert one["resource"] == resource
    return one


def rule(one: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [row for row in one["rules"] if row["rule"] == name]
    return found


# Instances


def test_an_idle_instance_is_marked_and_stopped_as_explained(account: Account) -> None:
    account.configure(idle={"grace": "1h"})
    gpu = account.idle(account.gpu())
    keys = account.keys()
    account.aws.clear_calls()
    before = explained(account, gpu)
    writes = [call["action"] for call in account.aws.calls() if call["action"].split(":")[1][:3] in ("Put", "Cre", "Del")]
    assert writes == [] and account.keys() == keys
    assert (before["mode"], before["mode_from"], before["ceiling"]) == ("enforce", "account", "enforce")
    row = rule(before, "idle")
    assert (row["verdict"], row["action"], row["announced"]) == ("violated", "stop", False)
    assert before["decision"] == {
        "kind": "step",
        "action": "mark",
        "reason": "idle",
        "words": f"the next run notifies its subscribers, and marks it: idle, to be stopped from {row['deadline']} on",
    }
    assert account.tick().said(gpu) == ("mark", "idle", "done")

    marked = explained(account, gpu)
    row = rule(marked, "idle")
    assert row["announced"] and f"idle=stop@{row['deadline']}" in (account.mark(gpu) or "")
    assert row["when"] == f"stopped by the first run from {row['deadline']} on that finds it still violated"
    assert (marked["decision"]["kind"], marked["decision"]["reason"]) == ("skipped", "marked")
    assert re.fullmatch(r"will be stopped at .*\d\d:\d\d UTC \(in (1 h|59 min)\): idle", marked["decision"]["words"])
    assert account.tick().skipped == {"marked": 1}

    account.was_announced(gpu, f"idle=stop@{rfc3339(ago(minutes=5))}")
    due = explained(account, gpu)
    assert rule(due, "idle")["when"] == "stopped by the next run, unless that run exceeds [limits]"
    assert (due["decision"]["action"], due["decision"]["reason"]) == ("stop", "idle")
    assert account.tick().said(gpu) == ("stop", "idle", "done")
    assert explained(account, gpu)["decision"]["reason"] == "not-running"


OF_JOB = {"curfew:job": "vision/a-0123abcd", "curfew:attempt": "1", "curfew:mode": "enforce"}


def test_a_machine_of_a_job_differs_from_one_with_a_copied_tag(account: Account) -> None:
    account.configure(untagged={"mode": "observe"})
    own = account.of_job(account.idle(account.gpu(tags=OF_JOB)))
    other = account.idle(account.gpu(tags=OF_JOB))
    of_job = explained(account, own)
    assert of_job["decision"]["reason"] == "live-job"
    assert {row["evidence"] for row in of_job["rules"] if row["rule"] != "expired"} == {
        "it belongs to the job vision/a-0123abcd, which terminates it"
    }
    stranger = explained(account, other)
    assert (stranger["mode"], stranger["mode_from"]) == ("observe", "untagged"), "what was copied opts in to nothing"
    row = rule(stranger, "untagged")
    assert (row["verdict"], row["evidence"]) == ("violated", "its curfew:job names vision/a-0123abcd, which did not launch it")
    account.put("jobs/vision/a-0123abcd/state.json", b"half a docu")
    unsayable = explained(account, own)
    assert unsayable["decision"]["reason"] == "job-unknown"
    assert rule(unsayable, "idle")["evidence"] == "it is unknown whether it belongs to the job vision/a-0123abcd that it names"


def test_a_held_stop_says_how_to_approve_it(account: Account) -> None:
    [gpu, _], run = held(account)
    account.configure(limits={"actions_max": 1})
    one = explained(account, gpu)
    assert one["held"]["run"] == run and "exceeds [limits] actions_max = 0" in one["held"]["error"]
    words = f"(above [limits]): curfew plans {run}, curfew apply {run}"
    assert rule(one, "idle")["when"].startswith("awaits approval since ")
    assert rule(one, "idle")["when"].endswith(words) and one["decision"]["words"].endswith(words)
    assert "stopped by the next run" not in explain(account, gpu).fine().out
    [not_seen_yet] = due(account, 1)
    assert explained(account, not_seen_yet)["held"] is None
    assert apply(account, run, "--yes").code == 0
    assert explained(account, gpu)["held"] is None


# The ceiling


def test_the_ceiling_is_that_of_the_newest_run(account: Account) -> None:
    gpu = account.idle(account.gpu())
    unknown = explained(account, gpu, CURFEW_MODE=None)
    assert unknown["ceiling"] is None and unknown["mode"] == "observe"
    assert "without a record of today or yesterday" in unknown["notes"][0]
    account.tick()
    known = explained(account, gpu, CURFEW_MODE=None)
    assert (known["ceiling"], known["mode"], known["notes"]) == ("enforce", "enforce", [])
    deaf = account.aws.client("sns").create_topic(Name="deaf")["TopicArn"]
    observed = explained(account, gpu, CURFEW_TOPIC_ARN=deaf)
    assert (observed["ceiling"], observed["mode"]) == ("observe", "observe") and "no confirmed subscription" in observed["notes"][0]
    message = "Stack with id curfew does not exist"
    account.aws.fault("cloudformation:*", "custom", code="ValidationError", message=message, times=None)
    default = explained(account, gpu, CURFEW_BUCKET=None, CURFEW_TOPIC_ARN=None, CURFEW_MODE=None)
    assert (default["mode"], default["ceiling"]) == ("observe", None) and "nothing is deployed" in default["notes"][0]
    assert rule(default, "idle")["verdict"] == "violated"


# What cannot be explained


def test_a_volume_that_curfew_deleted_can_be_undone(storage: VolumeAccount) -> None:
    volume = storage.orphan(size=500, tags={"Name": "data"})
    for _ in range(3):
        storage.tick()
    assert not storage.exists(volume)
    one = explained(storage, volume)
    assert (one["state"], one["what"], one["name"]) == ("deleted", "500 GiB gp3", "data")
    words = one["decision"]["words"]
    assert words.startswith(f"deleted at {one['since']}, after Curfew's snapshot") and f"; curfew undo {volume} restores it" in words
    assert moment(words.rsplit(" ", 1)[1]) - moment(one["since"]) == timedelta(days=30)
    undone = curfew(storage.environment(), "undo", volume, "--yes", "--json").json()["resources"]
    assert f"as {undone[0]['restored_as']}" in explained(storage, volume)["decision"]["words"]


# Volumes


def test_an_orphan_is_deleted_as_explained(storage: VolumeAccount) -> None:
    volume = storage.orphan(size=500)
    first = explained(storage, volume)
    row = rule(first, "orphaned")
    assert (row["verdict"], row["action"], row["announced"]) == ("violated", "snapshot-and-delete", False)
    assert first["decision"]["action"] == "mark" and first["what"] == "500 GiB gp3"
    assert storage.tick().said(volume) == ("mark", "orphaned", "done")

    second = explained(storage, volume)
    row = rule(second, "orphaned")
    assert row["announced"] and f"@{row['deadline']}" in (storage.mark(volume) or "")
    assert second["decision"]["action"] == "snapshot"
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done")

    snapshot = storage.snapshot(volume)
    assert rule(explained(storage, snapshot), "expired")["evidence"] == f"{volume} exists"
    assert explained(storage, volume)["decision"]["action"] == "delete"
    assert storage.tick().said(volume) == ("delete", "orphaned", "done")
    kept = rule(explained(storage, snapshot), "expired")
    assert kept["verdict"] == "compliant" and "can be restored from it" in kept["evidence"]


# For people


def test_an_explanation_for_people(account: Account) -> None:
    account.configure(idle={"grace": "1h"})
    gpu = account.idle(account.gpu(tags={"Name": "bench"}))
    said = explain(account, gpu).fine()
    lines = said.out.splitlines()
    assert lines[0] == f'{gpu}  g5.xlarge "bench", team vision, owner "ada", us-east-1'
    assert lines[1].startswith("  now               the next run notifies its subscribers, and marks it: idle")
    assert lines[2].startswith("  state             running, launched ") and "$1.01/h" in lines[2]
    assert lines[3] == "  mode              enforce, by mode at the top of the configuration"
    assert lines[4].startswith("  idle              violated   idle from ")
    assert "  expired           compliant  it carries no curfew:expires-at" in lines
    assert "\x1b" not in said.out and said.err == ""


def test_a_name_means_one_instance_or_lists_them(account: Account) -> None:
    gpu = account.idle(account.gpu(tags={"Name": "llama-ft"}))
    said = explain(account, "llama-ft", "--json").fine()
    assert [one["resource"] for one in said.json()["explained"]] == [gpu] and f'"llama-ft" is {gpu}' in said.err
    other = account.gpu(tags={"Name": "llama-ft"})
    for words in (["explain", "llama-ft"], ["keep", "llama-ft", "3d"], ["protect", "llama-ft"], ["undo", "llama-ft"]):
        said = curfew(account.environment(), *words)
        assert said.code == 2 and said.out == "" and '2 GPU instances are named "llama-ft"' in said.err, words
        assert gpu in said.err and other in said.err and "name one by its id" in said.err, words
    assert 'no GPU instance is named "llama"' in explain(account, "llama").err
