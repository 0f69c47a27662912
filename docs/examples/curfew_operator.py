"""An Airflow operator that runs a job of Curfew, and waits for it. Install `curfew-aws` where the workers of Airflow run.

    train = CurfewJobOperator(task_id="train", spec="/opt/jobs/train.toml", team="vision", execution_timeout=timedelta(hours=12))
"""

from __future__ import annotations

from typing import Any

import curfew

try:
    from airflow.sdk import BaseOperator  # Airflow 3
except ImportError:
    from airflow.models.baseoperator import BaseOperator  # Airflow 2


class CurfewJobOperator(BaseOperator):
    """Submits a job document, a path or a mapping, and succeeds if the job does.

    The task's value (XCom) is the id of the job, its state and what it cost at most. If the task is stopped, the job is cancelled. A retry of
    the task submits another job: leave `retries` at 0, because Curfew itself brings an interrupted job back from its checkpoint.
    """

    template_fields = ("spec", "team")

    def __init__(self, *, spec: Any, team: str | None = None, account: dict[str, str] | None = None, poll_seconds: float = 30, **kwargs: Any) -> None:
        """`account` has the arguments of `curfew.Curfew`, such as `{"profile": "research"}`."""
        super().__init__(**kwargs)
        self.spec = spec
        self.team = team
        self.account = account or {}
        self.poll_seconds = poll_seconds
        self.job: curfew.Job | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        # A task has no terminal at which somebody could confirm.
        self.job = curfew.Curfew(**self.account).submit(self.spec, team=self.team, yes=True)
        self.log.info("submitted %s", self.job.id)
        try:
            status = self.job.wait(poll=self.poll_seconds)
        except curfew.JobFailed:
            raise
        except curfew.CurfewError:
            # The task ends, and nobody looks after the job any more.
            self.job.cancel()
            raise
        return {"job": self.job.id, "state": status.state, "cost_usd_max": status.cost_usd_max}

    def on_kill(self) -> None:
        if self.job is not None:
            self.job.cancel()
