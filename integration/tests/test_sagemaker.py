"""The real `reap-sagemaker` and the real command against the local SageMaker: each kind from its first announcement to its end and, where
there is one, back. Which rule decides when is tested by shared/reaping/src/sagemaker/."""

from __future__ import annotations

from datetime import timedelta

from command import curfew
from local_aws.client import REGION
from reaping import Run, ago, moment, now
from reaping_sagemaker import WRITES, StudioAccount


def writes(run: Run) -> list[str]:
    return [call["action"] for call in run.calls if call["action"] in WRITES]


def off_hours() -> str:
    """Working hours that began half a day ago and ended three hours ago, in UTC."""
    until = now() - timedelta(hours=3)
    return f"mon-sun {until - timedelta(hours=9):%H}:00-{until:%H}:00 UTC"


def undone(studio: StudioAccount, *arguments: str) -> str:
    said = curfew(studio.environment(), "undo", *arguments, "--yes").fine()
    return said.out + said.err


def test_a_notebook_is_stopped_out_of_hours_and_started_by_undo(studio: StudioAccount) -> None:
    lab = studio.notebook(hours=off_hours())
    run = studio.tick()
    assert run.said(lab) == ("mark", "hours", "done") and lab in run.message(), run.response
    run = studio.tick_at(moment(run.step(lab)["evidence"]["deadline"]))
    assert run.said(lab) == ("stop", "hours", "done") and studio.notebook_status() == "Stopped"
    assert "start-notebook-instance" in run.message() and "sagemaker:StopNotebookInstance" in writes(run)

    out = undone(studio, lab)
    assert studio.notebook_status() == "InService" and lab in out
    assert writes(studio.tick()) == ["sagemaker:DeleteTags"], "its memory of the stop; what somebody started out of hours is left alone"
    assert studio.notebook_status() == "InService"


def test_an_idle_app_is_deleted_after_its_announcement(studio: StudioAccount) -> None:
    """Of one space the tags say that it is kept: its app inherits them."""
    app, busy, kept = studio.app(), studio.app("in-use", used=ago(minutes=5)), studio.app("kept")
    studio.aws.put_sagemaker("space", "d-1/kept", {}, {"curfew:protected": ""})
    run = studio.tick()
    assert run.said(app) == ("mark", "idle", "done") and run.skipped == {"busy": 1, "protected": 1}, run.response
    assert studio.tags_of(app)["curfew:marked"].startswith("idle=delete@") and app in run.message()
    evidence = run.step(app)["evidence"]
    assert evidence["shown_by"] == "user-activity" and studio.app_status() == "InService"

    run = studio.tick()
    assert run.said(app) == ("delete", "idle", "done") and studio.app_status() == "Deleted"
    assert [studio.app_status(name) for name in ("in-use", "kept")] == ["InService", "InService"]
    assert busy not in run.message() and kept not in run.message()
    assert studio.tick().steps == []


def test_an_app_that_is_used_again_after_its_announcement_stays(studio: StudioAccount) -> None:
    app = studio.app()
    assert studio.tick().said(app)[0] == "mark"
    studio.aws.put_sagemaker("app", "d-1/vision-lab/jupyterlab/default", {"LastUserActivityTimestamp": ago(minutes=2).timestamp()})
    assert studio.tick().said(app) == ("unmark", "idle", "done")
    assert studio.app_status() == "InService" and "curfew:marked" not in studio.tags_of(app)


def test_an_idle_endpoint_is_notified_of_and_stays(studio: StudioAccount) -> None:
    llm, asked = studio.unused(studio.endpoint("llm")), studio.unused(studio.endpoint("asked"))
    studio.asked(asked, ago(hours=2))
    run = studio.tick()
    assert run.said(llm) == ("notify", "idle", "done") and run.skipped == {"busy": 1}, run.response
    assert llm in run.message() and asked not in run.message() and writes(run) == []
    again = studio.tick()
    assert not again.messages and set(studio.endpoints()) == {"llm", "asked"}


def test_what_is_little_used_or_trains_on_demand_is_notified_of_once(studio: StudioAccount) -> None:
    """Another endpoint has as few requests, and reports no use of its GPU; another job has a training plan."""
    llm = studio.little_used(studio.endpoint("llm", created=ago(days=20)))
    silent = studio.asked(studio.endpoint("silent", created=ago(days=20)), ago(hours=2))
    saves = {"CheckpointConfig": {"S3Uri": "s3://models/gpt"}, "TrainingStartTime": ago(hours=3).timestamp()}
    gpt = studio.job("gpt", ago(hours=4), saves)
    runs_on = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2, "TrainingPlanArn": "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"}
    planned = studio.job("planned", ago(hours=4), {**saves, "ResourceConfig": runs_on})
    run = studio.tick()
    assert run.steps == [] and writes(run) == [], run.response
    said = run.message()
    assert f"{llm}" in said and "1 request from " in said and "asynchronous inference" in said, said
    assert gpt in said and "EnableManagedSpotTraining" in said and silent not in said and planned not in said, said
    assert not studio.tick().messages

    found = curfew(studio.environment(), "scan", "--sagemaker", "--json").json()["findings"]
    kinds = {one["resource"]: one["kinds"] for one in found}
    assert kinds[llm] == ["low-use"] and kinds[gpt] == ["uninstrumented", "on-demand-training"] and kinds[planned] == ["uninstrumented"], found
    explained = curfew(studio.environment(), "explain", llm).fine()
    assert "and little: 1 request from " in explained.out, explained.out


def test_an_idle_endpoint_is_deleted_where_the_account_says_so_and_made_again(studio: StudioAccount) -> None:
    studio.configure(sagemaker={"endpoint_action": "delete"})
    llm = studio.unused(studio.endpoint("llm"))
    run = studio.tick()
    assert run.said(llm) == ("mark", "idle", "done") and writes(run) == ["sagemaker:AddTags"], run.response
    run = studio.tick()
    assert run.said(llm) == ("delete", "idle", "done") and studio.endpoints() == {}
    assert "--endpoint-config-name llm-v1" in run.message()
    config = studio.aws.client("sagemaker").describe_endpoint_config(EndpointConfigName="llm-v1")
    assert config["EndpointConfigName"] == "llm-v1", "it stays"

    undone(studio, llm)
    assert studio.endpoints() == {"llm": "InService"}
    tags = studio.tags_of(llm)
    assert tags["Team"] == "vision" and "curfew:marked" not in tags
    assert studio.tick().skipped == {"recently-changed": 1}


def test_an_idle_inference_component_is_scaled_to_zero_and_gets_its_copies_back(studio: StudioAccount) -> None:
    studio.configure(sagemaker={"component_action": "scale-to-zero"})
    llama, kept = studio.unused_component(studio.component("llama")), studio.unused_component(studio.component("kept", keeps_instances=True))
    scaled, safe = studio.unused_component(studio.component("scaled")), studio.unused_component(studio.component("safe"))
    studio.aws.scale_sagemaker(scaled)
    studio.aws.put_sagemaker("endpoint", "safe-host", {}, {"curfew:protected": ""})
    run = studio.tick()
    assert run.said(llama) == ("mark", "idle", "done") and writes(run) == ["sagemaker:AddTags"], run.response
    assert run.said(kept) == ("notify", "idle", "done") and run.step(kept)["evidence"]["notify_only"] == "keeps-instances"
    assert run.skipped == {"autoscaled": 1, "protected": 2, "inference-components": 3}, run.response
    assert llama in str(curfew(studio.environment(), "scan", "--sagemaker", "--json").json())
    run = studio.tick()
    assert run.said(llama) == ("stop", "idle", "done") and studio.copies(llama) == 0, run.response
    assert writes(run) == ["sagemaker:UpdateInferenceComponentRuntimeConfig", "sagemaker:DeleteTags"]
    assert "CopyCount=2" in run.message() and [studio.copies(one) for one in (kept, scaled, safe)] == [2, 2, 2]
    assert studio.tick().skipped["not-running"] == 1

    assert "scaled to zero" in undone(studio, llama) and studio.copies(llama) == 2
    assert studio.tick().skipped["recently-changed"] == 1
    assert "curfew:marked" not in studio.tags_of(llama)
    refused = curfew(studio.environment(), "undo", llama, "--yes")
    assert refused.code != 0 and "it has copies" in refused.err


def test_a_bug_about_one_endpoint_keeps_no_other_from_its_turn(studio: StudioAccount) -> None:
    """The feature `reaping/fixture` makes each decision about a resource of this name panic."""
    planted, llm = studio.unused(studio.endpoint("planted-bug")), studio.unused(studio.endpoint("llm"))
    run = studio.tick()
    assert run.said(llm) == ("notify", "idle", "done") and run.skipped == {"bug": 1}, run.response
    assert planted in run.message() and "a bug in Curfew: planted for a test; report it" in run.message()
    assert not studio.tick().messages, "it is told once"
    found = curfew(studio.environment(), "scan", "--sagemaker", "--json")
    assert llm in found.out and f"judging {planted}" in found.out + found.err, (found.out, found.err)
    assert "because of a bug in Curfew" in curfew(studio.environment(), "explain", planted).fine().out


def test_what_may_be_in_production_is_spared_with_its_reason(studio: StudioAccount) -> None:
    studio.configure(sagemaker={"endpoint_action": "delete"})
    studio.unused(studio.endpoint("scaled"))
    studio.aws.scale_sagemaker("endpoint/scaled/variant/AllTraffic")
    studio.unused(studio.endpoint("async", {"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://b/p"}}}))
    pipeline = studio.unused(studio.endpoint("piped"))
    studio.aws.put_sagemaker("endpoint", "piped", {}, {"sagemaker:pipeline-execution-arn": "arn:aws:sagemaker:x"})
    studio.aws.put_sagemaker("endpoint", "fresh", {})
    fresh = studio.unused(studio.endpoint("fresh"))
    studio.aws.put_sagemaker("endpoint", "fresh", {"LastModifiedTime": ago(hours=1).timestamp()})
    run = studio.tick()
    assert run.skipped == {"autoscaled": 1, "async-inference": 1, "foreign-owned": 1, "recently-changed": 1}, run.response
    assert run.steps == [] and writes(run) == []
    said = {one: curfew(studio.environment(), "explain", one).fine().out for one in (pipeline, fresh)}
    assert "pipeline" in said[pipeline] and "changed" in said[fresh], said


def test_a_job_is_stopped_at_the_end_that_it_says_and_cannot_be_undone(studio: StudioAccount) -> None:
    over, runs = studio.job("over", expires_at=f"{ago(hours=1):%Y-%m-%dT%H:%M:%SZ}"), studio.job("runs")
    run = studio.tick()
    assert run.said(over) == ("stop", "expired", "done") and writes(run) == ["sagemaker:AddTags", "sagemaker:StopTrainingJob"], run.response
    assert runs not in {step["resource"] for step in run.steps}
    refused = curfew(studio.environment(), "undo", over, "--yes")
    assert refused.code != 0, refused


def test_observe_mode_writes_nothing(studio: StudioAccount) -> None:
    studio.restart(CURFEW_MODE="observe")
    studio.configure(sagemaker={"endpoint_action": "delete"})
    found = [studio.app(), studio.unused(studio.endpoint("llm")), studio.notebook(hours=off_hours())]
    run = studio.tick()
    assert writes(run) == [] and {step["resource"] for step in run.steps} == set(found), run.response
    assert {step["outcome"] for step in run.steps} == {"observed"}
    assert all("curfew:marked" not in studio.tags_of(one) for one in found)


def test_the_command_keeps_and_lists_what_the_reaper_would_end(studio: StudioAccount) -> None:
    app = studio.app()
    scanned = curfew(studio.environment(), "scan", "--sagemaker", "--json").json()
    assert app in str(scanned), scanned
    curfew(studio.environment(), "keep", app, "3d").fine()
    assert "curfew:keep-until" in studio.tags_of(app)
    assert studio.tick().skipped == {"kept": 1}


def test_a_region_that_does_not_answer_is_a_gap_and_nothing_is_ended_unseen(studio: StudioAccount) -> None:
    """No tags: nobody knows what is protected."""
    studio.configure(sagemaker={"endpoint_action": "delete"})
    studio.unused(studio.endpoint("llm"))
    studio.aws.fault("tag:GetResources", "access_denied", times=None)
    run = studio.tick()
    assert run.steps == [] and any(gap["region"] == REGION for gap in run.gaps), run.response


def test_a_kind_that_the_organisation_forbids_hides_no_other(studio: StudioAccount) -> None:
    """Of the others the run acts, so it must remember what it told."""
    lab = studio.notebook()
    studio.aws.fault("sagemaker:ListApps", "scp_denied", times=None)
    run = studio.tick()
    assert lab in run.message() and {gap["call"] for gap in run.gaps} == {"sagemaker:ListApps"}, run.response
    assert not studio.tick().messages
