"""What the command answers. Unknown fields are ignored here, and kept in `document`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, Optional, Tuple

Document = Dict[str, Any]


def read_time(text: Optional[str]) -> Optional[datetime]:
    """A moment of the command (RFC 3339, in UTC), to the microsecond."""
    if text is None:
        return None
    seconds, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{seconds}.{(fraction + '000000')[:6]}+00:00")


@dataclass(frozen=True)
class Mistake:
    """A mistake in a job document. `line` is 0 where it is of no line."""

    line: int
    key: str
    problem: str

    @staticmethod
    def from_document(document: Document) -> Mistake:
        return Mistake(document["line"], document["key"], document["problem"])

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        key = f"`{self.key}`: " if self.key else ""
        return f"{where}{key}{self.problem}"


@dataclass(frozen=True)
class Finding:
    """A resource that `curfew scan` found. An unknown price is None, and never 0."""

    region: str
    resource: str
    kinds: Tuple[str, ...]
    team: Optional[str]
    owner: Optional[str]
    name: Optional[str]
    what: str
    evidence: str
    usd_per_month: Optional[float]
    saves_usd_per_month: Optional[float]
    document: Document = field(repr=False, compare=False)

    @staticmethod
    def from_document(document: Document) -> Finding:
        return Finding(
            region=document["region"],
            resource=document["resource"],
            kinds=tuple(document["kinds"]),
            team=document["team"],
            owner=document["owner"],
            name=document["name"],
            what=document["what"],
            evidence=document["evidence"],
            usd_per_month=document["usd_per_month"],
            saves_usd_per_month=document["saves_usd_per_month"],
            document=document,
        )


@dataclass(frozen=True)
class Scan:
    """The result of `curfew scan`.

    `is_complete` is False where a call failed, a region did not answer, or an instance could not be judged: then there may be more findings.
    """

    at: Optional[datetime]
    findings: Tuple[Finding, ...]
    total_usd_per_month: Optional[float]
    total_saves_usd_per_month: Optional[float]
    is_complete: bool
    document: Document = field(repr=False, compare=False)

    @staticmethod
    def from_document(document: Document, is_complete: bool) -> Scan:
        total = document["total"]
        is_complete = is_complete and not (document["gaps"] or document["unanswered"] or document["seen"]["unjudged"])
        return Scan(
            at=read_time(document["at"]),
            findings=tuple(map(Finding.from_document, document["findings"])),
            total_usd_per_month=total["usd_per_month"],
            total_saves_usd_per_month=total["saves_usd_per_month"],
            is_complete=is_complete,
            document=document,
        )


@dataclass(frozen=True)
class JobStatus:
    """A job, or a sweep with all its members, as it was when the command looked.

    `state` of a job is `submitted`, `reserving`, `launching`, `running`, `interrupted`, `waiting` or `held`; of one that is `over` it is
    `succeeded`, `failed`, `expired` or `cancelled`. A sweep is `running` until all its members are over; then it is `succeeded` if all have, and
    else has the state of the first that has not.
    """

    job: str
    state: str
    over: bool
    why: str
    owner: Optional[str]
    submitted_at: Optional[datetime]
    attempts: int
    step: Optional[int]
    total_steps: Optional[int]
    cost_usd_max: float
    document: Document = field(repr=False, compare=False)

    @property
    def succeeded(self) -> bool:
        return self.state == "succeeded"

    @staticmethod
    def from_document(document: Document) -> JobStatus:
        if "members" in document:
            return _sweep_status(document)
        return JobStatus(
            job=document["job"],
            state=document["state"],
            over=document["over"],
            why=document["why"],
            owner=document["owner"],
            submitted_at=read_time(document["submitted_at"]),
            attempts=document["attempts"],
            step=document["step"],
            total_steps=document["total_steps"],
            cost_usd_max=document["cost_usd_max"],
            document=document,
        )


def _sweep_status(document: Document) -> JobStatus:
    begun = [JobStatus.from_document(one) for one in document["jobs"]]
    over = len(begun) == document["members"] and all(one.over for one in begun)
    worst = next((one for one in begun if one.over and not one.succeeded), None)
    state = "running" if not over else worst.state if worst else "succeeded"
    submitted = [one.submitted_at for one in begun if one.submitted_at]
    return JobStatus(
        job=document["sweep"],
        state=state,
        over=over,
        why=f"{worst.job}: {worst.why}" if worst else "",
        owner=begun[0].owner if begun else None,
        submitted_at=min(submitted) if submitted else None,
        attempts=sum(one.attempts for one in begun),
        step=None,
        total_steps=None,
        cost_usd_max=document["summary"]["cost_usd_max"],
        document=document,
    )


_JOB = re.compile(r"[^/]+/[^/]+")


def is_job_id(text: str) -> bool:
    """True for `<team>/<job>`."""
    return _JOB.fullmatch(text) is not None
