"""An account with budgets whose teams use SageMaker: `enforce-budgets`, and what `StudioAccount` builds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from reaping import ago
from reaping_budgets import BudgetAccount
from reaping_sagemaker import StudioAccount


# What a beat lists of SageMaker in each region: running jobs, and those that ended lately.
LISTS = {
    "sagemaker:ListNotebookInstances": 1,
    "sagemaker:ListApps": 1,
    "sagemaker:ListEndpoints": 1,
    "sagemaker:ListTrainingJobs": 2,
    "sagemaker:ListProcessingJobs": 2,
}


class StudioBudgets(BudgetAccount, StudioAccount):
    def trained(self, name: str, billable_s: int, at: datetime) -> str:
        """A training job on managed Spot that ended ten minutes before, after nearly three hours."""
        job = self.job(name)
        times = {"TrainingStartTime": (at - timedelta(hours=3)).timestamp(), "TrainingEndTime": (at - timedelta(minutes=10)).timestamp()}
        times["LastModifiedTime"] = times["TrainingEndTime"]
        spot = {"EnableManagedSpotTraining": True, "BillableTimeInSeconds": billable_s}
        self.aws.put_sagemaker("training-job", name, {"TrainingJobStatus": "Completed", **times, **spot}, {})
        return job

    def processing(self, name: str) -> str:
        runs_on = {"ClusterConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50}}
        fields = {"ProcessingJobStatus": "InProgress", "ProcessingResources": runs_on, "ProcessingStartTime": ago(hours=1).timestamp()}
        return self._put("processing-job", name, fields, None, {})

    def row(self, resource: str) -> dict[str, Any]:
        [row] = [run for run in self.ledger()["runs"] if run.get("sagemaker") == resource]
        return row

    def reap(self) -> None:
        """From now on `tick` is one of reap-sagemaker."""
        self.stop()
        self.function = "reap-sagemaker"
