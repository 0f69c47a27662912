"""The story of `reap-sagemaker`: a notebook instance, an app, an endpoint or a job for each way that they can go, in one region."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from every_fault import EXEMPTIONS, FAILS, ONLY_LOG_UNREAD, Call, Plot, Story
from local_aws import LocalAws
from local_aws.client import REGION
from local_aws.sagemaker import SERVICES
from moto.core.utils import get_service_model
from reaping import Run, ago, now, rfc3339
from reaping_sagemaker import WRITES, StudioAccount
from scenario_account import NOTICES, OneOfEach

STRUCK_RUNS = 2  # announced, ended
OBSERVED = "observed app"
# Never touched: neither they nor their tags change.
SKIPPED = (OBSERVED, "app of a protected space", "autoscaled", "kept", "unmeasured")

_THINGS = (
    ("is called off", "called off"),
    ("It will be ", "announced"),
    ("It would be deleted at", "would be announced"),
    ("It would be deleted now", "would be deleted"),
    ("It was stopped", "stopped"),
    ("It was deleted", "deleted"),
    ("Its start was requested", "started"),
    ("Curfew only notifies: ", "notified"),
)
_ID = re.compile(r"(notebook-instance|app|endpoint|inference-component|training-job)/[\w./-]+")
_KINDS = ("notebook-instance", "app", "endpoint", "inference-component", "training-job")


@dataclass
class OneOfSageMakerEach(OneOfEach):
    looks_like: re.Pattern[str] = _ID

    def writes(self, run: Run) -> list[tuple[str, ...]]:
        calls = [call for call in run.calls if call["action"] in WRITES]
        return [(call["action"].partition(":")[2], *call["resources"]) for call in calls]

    def world(self) -> dict[str, dict[str, Any]]:
        sagemaker, tagging = self.account.aws.client("sagemaker"), self.account.aws.client("resourcegroupstaggingapi")
        filters = [f"sagemaker:{kind}" for kind in _KINDS]
        mappings = tagging.get_resources(ResourceTypeFilters=filters, ResourcesPerPage=100)["ResourceTagMappingList"]
        tags = {one["ResourceARN"].rpartition(":")[2]: self.tags(one) for one in mappings}
        states: dict[str, str] = {}
        for one in sagemaker.list_notebook_instances(MaxResults=100)["NotebookInstances"]:
            states[f"notebook-instance/{one['NotebookInstanceName']}"] = one["NotebookInstanceStatus"]
        for one in sagemaker.list_apps(MaxResults=100)["Apps"]:
            states[f"app/{one['DomainId']}/{one['SpaceName']}/jupyterlab/default"] = one["Status"]
        for one in sagemaker.list_endpoints(MaxResults=100)["Endpoints"]:
            states[f"endpoint/{one['EndpointName']}"] = one["EndpointStatus"]
        for one in sagemaker.list_inference_components(MaxResults=100)["InferenceComponents"]:
            component = f"inference-component/{one['InferenceComponentName']}"
            states[component] = one["InferenceComponentStatus"] if self.account.copies(component) else "Stopped"
        for one in sagemaker.list_training_jobs(MaxResults=100)["TrainingJobSummaries"]:
            states[f"training-job/{one['TrainingJobName']}"] = one["TrainingJobStatus"]
        return {self.names[one]: {"state": state, "tags": tags.get(one, {})} for one, state in states.items()}


def one_of_sagemaker_each(aws: LocalAws) -> OneOfSageMakerEach:
    """Two runs have work in it."""
    for service in SERVICES.values():  # megabytes of JSON, read here and not in each copy of this account
        aws.client(service)
        get_service_model(service)
    studio = StudioAccount(aws)
    studio.configure(sagemaker={"endpoint_action": "delete", "component_action": "scale-to-zero"})
    past, always = rfc3339(ago(minutes=5)), "Mon-Sun 00:00-24:00 UTC"
    asleep = {"hours": always, "stopped": f"hours {rfc3339(ago(hours=11))}"}
    ids = {
        "expired": studio.notebook("expired", expires_at=past),
        "asleep": studio.notebook("asleep", status="Stopped", **asleep),
        "unmeasured": studio.notebook("unmeasured"),
        "idle app": studio.app("idle-app"),
        "app of a protected space": studio.app("safe"),
        OBSERVED: studio.app("observed-app", mode="observe"),
        "idle": studio.unused(studio.endpoint("idle")),
        "asked again": studio.unused(studio.endpoint("asked", marked=f"idle=delete@{past}")),
        "idle to notify": studio.unused(studio.endpoint("told", on_idle="notify")),
        "autoscaled": studio.unused(studio.endpoint("scaled")),
        "kept": studio.unused(studio.endpoint("kept", keep_until="2999-01-01")),
        "over": studio.job("over", expires_at=past),
        "idle copies": studio.unused_component(studio.component("copies")),
        "host of copies": "endpoint/copies-host",
    }
    studio.asked(ids["asked again"], ago(hours=1))
    aws.scale_sagemaker("endpoint/scaled/variant/AllTraffic")
    aws.put_sagemaker("space", "d-1/safe", {}, {"curfew:protected": ""})
    return OneOfSageMakerEach(studio, ids, OBSERVED, _THINGS)


def never(story: Story) -> Iterator[str]:
    """What is skipped does not change, and what somebody asks is there."""
    for number, run in enumerate(story["runs"]):
        for name in SKIPPED:
            if run["world"].get(name) != story["before"][name]:
                yield f"run {number + 1}: {name} is {run['world'].get(name)}, and was {story['before'][name]}"
        if run["world"].get("asked again", {}).get("state") != "InService":
            yield f"run {number + 1}: the endpoint that is asked again is gone"


_VERB = re.compile(r"(?:Add|Delete|List)Tags|[A-Z][a-z]+")


def alike(call: Call) -> tuple[object, ...]:
    """One function makes all lists, one all looks, and one all stops; and what the bucket, EC2 and the topic answer, other functions try."""
    service, _, operation = call.action.partition(":")
    is_own = service == "sagemaker" or service == "s3" and call.on.startswith(NOTICES)
    return service, _VERB.findall(operation)[0] if is_own else ""


PLOT = Plot(
    function="reap-sagemaker",
    seed=one_of_sagemaker_each,
    regions=(REGION,),
    deadline_seconds=900,
    struck_runs=STRUCK_RUNS,
    runs=STRUCK_RUNS + 3,  # two make up for what the fault cost
    asked_again=0,
    ended=("Stopped", "Deleted", "absent"),
    ends=("stop", "delete"),
    of_a_look=1,
    hangs=False,  # as other functions do: each call has the SDK's timeouts
    alike=alike,
    exemptions=(
        *EXEMPTIONS,
        ONLY_LOG_UNREAD,
    ),
    # In an account with one region.
    fails={
        **FAILS,
        ("s3:GetObject", f"{NOTICES}reap-sagemaker/{REGION}.json"): "NothingSeen: ",  # without the log people would be notified twice
        ("ec2:DescribeInstanceTypes", ""): "NothingSeen: ",  # the types with a GPU are unknown
    },
    wrongs=never,
    # The mark that could not be removed after a stop: once the notebook instance runs again it is of an earlier life, and goes.
    stays=("sagemaker:DeleteTags", "Stopped", "curfew:marked"),
    # Of what its owner let expire: it is stopped unannounced, and marked just before, as the role stops nothing unmarked.
    unannounced="expired=stop@",
)
