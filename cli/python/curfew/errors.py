"""Errors: each has the text of the command and its exit code."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

from .results import JobStatus, Mistake


class CurfewError(Exception):
    """The command failed. `exit_code` is None if it never ended, and `message` is what it said on stderr."""

    def __init__(self, message: str, exit_code: Optional[int] = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class CommandMissing(CurfewError):
    """There is no command `curfew` to run."""


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


class JobFailed(CurfewError):
    """The job is over, and has not succeeded."""

    def __init__(self, status: JobStatus) -> None:
        why = f": {status.why}" if status.why else ""
        super().__init__(f"{status.job} has {status.state}{why}", 1)
        self.status = status


class WaitTimedOut(CurfewError, TimeoutError):
    """The job was unfinished when the time was over. It continues."""

    def __init__(self, status: JobStatus, seconds: float) -> None:
        super().__init__(f"{status.job} is {status.state} after {seconds:.0f} seconds, and continues")
        self.status = status
