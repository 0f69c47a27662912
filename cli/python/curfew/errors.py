"""Errors: each has the text of the command and its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence

from .results import JobStatus, Mistake

if TYPE_CHECKING:
    from .client import Job


class CurfewError(Exception):
    """The command failed. `exit_code` is None if it never ended, and `message` is what it said on stderr."""

    def __init__(self, message: str, exit_code: Optional[int] = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class CommandMissing(CurfewError):
    """There is no command `curfew` to run, or it cannot be run."""


class IncompleteResult(CurfewError):
    """Something could not be read: `document` has the rest."""

    def __init__(self, message: str, exit_code: int, document: Dict[str, Any]) -> None:
        super().__init__(message, exit_code)
        self.document = document


class SubmissionRefused(CurfewError):
    """No job was made: the document has `mistakes`, or the message says what else is missing."""

    def __init__(self, message: str, exit_code: int, mistakes: Sequence[Mistake], document: Dict[str, Any]) -> None:
        super().__init__(message, exit_code)
        self.mistakes = tuple(mistakes)
        self.document = document


class SubmissionUnanswered(CurfewError, TimeoutError):
    """The document is in the inbox, and got no answer in time: `job` may start later. Do not submit it again; cancel it once it is there."""

    def __init__(self, message: str, exit_code: int, job: Job, document: Dict[str, Any]) -> None:
        super().__init__(message, exit_code)
        self.job = job
        self.document = document


class JobFailed(CurfewError):
    """The job is over, and has not succeeded."""

    def __init__(self, status: JobStatus) -> None:
        why = f": {status.why}" if status.why else ""
        super().__init__(f"{status.job} has {status.state}{why}", 1)
        self.status = status


class WaitTimedOut(CurfewError, TimeoutError):
    """The job was unfinished when the time was over. It continues.

    `status` is the newest that was seen, and None if each look has failed.
    """

    def __init__(self, job: str, status: Optional[JobStatus], seconds: float, error: Optional[CurfewError] = None) -> None:
        state = "in an unknown state" if status is None or error is not None else status.state
        why = "" if error is None else f"; the last look failed: {error}"
        super().__init__(f"{job} is {state} after {seconds:.0f} seconds, and continues{why}")
        self.status = status
