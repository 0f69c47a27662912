"""An account whose SageMaker is reaped: builders for what runs there, and the real `reap-sagemaker`.

llm = studio.unused(studio.endpoint("llm"))     # in tests: the fixture `studio`
assert studio.tick().said(llm) == ("notify", "idle", "done")
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import reaping
from earlier_runs import record_of_labels
from local_aws.client import ACCOUNT, REGION
from reaping import TAGGED, Account, ago, now
from template_actions import changing_actions

# What changes SageMaker, by IAM action.
WRITES = changing_actions("reap-sagemaker")

EAGER: dict[str, Any] = {**reaping.EAGER, "sagemaker": {"mode": "enforce", "grace": "0s"}}

_PERIOD = timedelta(minutes=5)
_INSTANCE_TYPE = "ml.g5.xlarge"


class StudioAccount(Account):
    function = "reap-sagemaker"
    eager = EAGER

    # What is there

    def notebook(self, name: str = "lab", created: datetime | None = None, status: str = "InService", **tags: str) -> str:
        fields = {"NotebookInstanceStatus": status, "InstanceType": _INSTANCE_TYPE}
        return self._put("notebook-instance", name, fields, created, tags)

    def app(self, name: str = "vision-lab", used: datetime | None = None, **tags: str) -> str:
        """JupyterLab of the space of that name in the domain `d-1`: looked at a minute ago, last used six hours ago if not said otherwise."""
        times = {"LastUserActivityTimestamp": (used or ago(hours=6)).timestamp()}
        times["LastHealthCheckTimestamp"] = ago(minutes=1).timestamp()
        named = {"DomainId": "d-1", "SpaceName": name, "AppType": "JupyterLab", "AppName": "default"}
        spec = {"ResourceSpec": {"InstanceType": _INSTANCE_TYPE}}
        for kind, owner in (("space", f"d-1/{name}"), ("domain", "d-1")):
            self.aws.put_sagemaker(kind, owner, {})
        return self._put("app", f"d-1/{name}/jupyterlab/default", {"Status": "InService", **named, **times, **spec}, None, tags)

    def endpoint(self, name: str, config: dict[str, Any] | None = None, created: datetime | None = None, **tags: str) -> str:
        """One of one variant on one instance, two days old if not said otherwise, whose configuration has these fields besides."""
        variant = {"VariantName": "AllTraffic", "InitialInstanceCount": 1, "InstanceType": _INSTANCE_TYPE, "ModelName": "m"}
        self._put("endpoint-config", f"{name}-v1", {"ProductionVariants": [variant], **(config or {})}, None, {})
        running = [{"VariantName": variant["VariantName"], "CurrentInstanceCount": 1}]
        fields = {"EndpointStatus": "InService", "EndpointConfigName": f"{name}-v1", "ProductionVariants": running}
        return self._put("endpoint", name, fields, created, tags)

    def component(self, name: str, copies: int = 2, keeps_instances: bool = False, **tags: str) -> str:
        """An inference component alone on an endpoint of its own, `<name>-host`, with an instance, which ends without copies unless that `keeps_instances`."""
        scaling = {"Status": "ENABLED", "MinInstanceCount": 1 if keeps_instances else 0, "MaxInstanceCount": 2}
        variant = {"VariantName": "AllTraffic", "InitialInstanceCount": 1, "InstanceType": _INSTANCE_TYPE, "ManagedInstanceScaling": scaling}
        host = self.endpoint(f"{name}-host", {"ProductionVariants": [variant]}).partition("/")[2]
        running = {"VariantName": "AllTraffic", "CurrentInstanceCount": 1, "ManagedInstanceScaling": scaling}
        self.aws.put_sagemaker("endpoint", host, {"ProductionVariants": [running]})
        runtime = {"DesiredCopyCount": copies, "CurrentCopyCount": copies}
        fields = {"InferenceComponentStatus": "InService", "EndpointName": host, "VariantName": "AllTraffic", "RuntimeConfig": runtime}
        fields["EndpointArn"] = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:endpoint/{host}"
        return self._put("inference-component", name, fields, None, tags)

    def job(self, name: str, created: datetime | None = None, more: dict[str, Any] | None = None, **tags: str) -> str:
        runs_on = {"InstanceType": _INSTANCE_TYPE, "InstanceCount": 1, "VolumeSizeInGB": 50}
        fields = {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Training", "ResourceConfig": runs_on, **(more or {})}
        return self._put("training-job", name, fields, created, tags)

    def _put(self, kind: str, name: str, fields: dict[str, Any], created: datetime | None, tags: dict[str, str]) -> str:
        since = (created or ago(days=2)).timestamp()
        times = {"CreationTime": since, "LastModifiedTime": since}
        named = {f"curfew:{key.replace('_', '-')}": value for key, value in tags.items()}
        self.aws.put_sagemaker(kind, name, {**times, **fields}, {**TAGGED, **named})
        if {"marked", "stopped", "expires_at"} & tags.keys():  # by Curfew, or seen in time
            created = datetime.fromtimestamp(since, timezone.utc)
            self.remember(f"{kind}/{name}", **record_of_labels(created, named))
        return f"{kind}/{name}"

    def unused(self, endpoint: str, hours: float = 30) -> str:
        """Its instance reports, and it has no request. Of that SageMaker emits nothing."""
        self._reports(self._variant(endpoint), "AWS/SageMaker", "ConcurrentRequestsPerModel", hours)
        self._reports(self._variant(endpoint), "/aws/sagemaker/Endpoints", "GPUUtilization", hours)
        return endpoint

    def little_used(self, endpoint: str) -> str:
        """Its instance has reported by the hour for 15 days, and it had a request two hours ago."""
        hours = [0.0] * 24 * 15
        self.aws.put_metrics("/aws/sagemaker/Endpoints", "GPUUtilization", self._variant(endpoint), hours, ago(days=15), 3600)
        return self.asked(endpoint, ago(hours=2))

    def unused_component(self, component: str, hours: float = 30) -> str:
        """The same of an inference component."""
        named = {"InferenceComponentName": component.partition("/")[2]}
        self._reports(named, "AWS/SageMaker", "ConcurrentRequestsPerCopy", hours)
        self._reports(named, "/aws/sagemaker/InferenceComponents", "GPUUtilizationNormalized", hours)
        return component

    def copies(self, component: str) -> int:
        name = component.partition("/")[2]
        return self.aws.client("sagemaker").describe_inference_component(InferenceComponentName=name)["RuntimeConfig"]["DesiredCopyCount"]

    def asked(self, endpoint: str, when: datetime) -> str:
        """Somebody asks it for an inference."""
        self.aws.put_metrics("AWS/SageMaker", "Invocations", self._variant(endpoint), [1.0], when)
        return endpoint

    def _reports(self, dimensions: dict[str, str], namespace: str, metric: str, hours: float) -> None:
        count = int(timedelta(hours=hours) / _PERIOD)
        self.aws.put_metrics(namespace, metric, dimensions, [0.0] * count, now() - _PERIOD * count)

    @staticmethod
    def _variant(endpoint: str) -> dict[str, str]:
        return {"EndpointName": endpoint.partition("/")[2], "VariantName": "AllTraffic"}

    # What became of it

    def tags_of(self, resource_id: str) -> dict[str, str]:
        arn = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{resource_id}"
        found = self.aws.client("sagemaker").list_tags(ResourceArn=arn)["Tags"]
        return {tag["Key"]: tag["Value"] for tag in found}

    def notebook_status(self, name: str = "lab") -> str:
        return self.aws.client("sagemaker").describe_notebook_instance(NotebookInstanceName=name)["NotebookInstanceStatus"]

    def endpoints(self) -> dict[str, str]:
        """By name: its status."""
        listed = self.aws.client("sagemaker").list_endpoints(MaxResults=100)["Endpoints"]
        return {one["EndpointName"]: one["EndpointStatus"] for one in listed}

    def app_status(self, name: str = "vision-lab") -> str:
        key = {"DomainId": "d-1", "SpaceName": name, "AppType": "JupyterLab", "AppName": "default"}
        return self.aws.client("sagemaker").describe_app(**key)["Status"]
