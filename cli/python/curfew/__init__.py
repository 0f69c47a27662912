"""Curfew for programs: typed calls over the JSON of the command `curfew`.

    import curfew

    job = curfew.submit("train.toml", team="vision")
    status = job.wait(timeout=8 * 3600)          # curfew.JobFailed unless it succeeded
    print(status.cost_usd_max, curfew.scan().total_usd_per_month)

`Curfew(profile=..., region=...)` has the same calls for another account. In a training script `resume`, `path`, `saved` and
`should_stop` are those of the one-file recipe `curfew.py`.
"""

from __future__ import annotations

from .client import Curfew, Job, cancel, jobs, scan, submit
from .errors import CommandMissing, CurfewError, IncompleteResult, JobFailed, SubmissionRefused, SubmissionUnanswered, WaitTimedOut
from .results import Finding, JobStatus, Mistake, Scan
from .training import path, resume, saved, should_stop

__all__ = [
    "CommandMissing",
    "Curfew",
    "CurfewError",
    "Finding",
    "IncompleteResult",
    "Job",
    "JobFailed",
    "JobStatus",
    "Mistake",
    "Scan",
    "SubmissionRefused",
    "SubmissionUnanswered",
    "WaitTimedOut",
    "cancel",
    "jobs",
    "path",
    "resume",
    "saved",
    "scan",
    "should_stop",
    "submit",
]
