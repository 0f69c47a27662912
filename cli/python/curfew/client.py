"""The calls. Each runs the command once, without a shell, and reads its JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from .errors import CommandMissing, CurfewError, IncompleteResult, JobFailed, SubmissionRefused, SubmissionUnanswered, WaitTimedOut
from .results import Document, JobStatus, Mistake, Scan, is_job_id
from .toml import write_toml

# A job document, as a file or as what it says.
Spec = Union[str, "os.PathLike[str]", Mapping[str, Any]]

# No command takes as long, except a scan of very many accounts.
_COMMAND_SECONDS_MAX = 1800
# States change once a minute at most, except at an event.
_POLL_SECONDS = 30.0
# Looks that may fail one after the other while a job is awaited: a network fails for a minute, a missing permission for good.
_FAILED_LOOKS_MAX = 5


class Curfew:
    """One deployment of Curfew. Everything absent is found as the command finds it: by the profile, the environment and the stack."""

    def __init__(
        self,
        *,
        profile: Optional[str] = None,
        region: Optional[str] = None,
        stack: Optional[str] = None,
        bucket: Optional[str] = None,
        topic_arn: Optional[str] = None,
        command: Optional[Union[str, "os.PathLike[str]"]] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> None:
        """`env` replaces the environment of the command, and `command` its path."""
        options = {"--profile": profile, "--region": region, "--stack": stack, "--bucket": bucket, "--topic-arn": topic_arn}
        self._options = [f"{name}={value}" for name, value in options.items() if value is not None]
        self._command = None if command is None else os.fspath(command)
        self._env = None if env is None else dict(env)

    def scan(self, *, sagemaker: bool = False, allow_incomplete: bool = False) -> Scan:
        """Finds what costs without use.

        Raises IncompleteResult where a region or a call failed, unless `allow_incomplete`: then `Scan.is_complete` says it.
        """
        code, document, said = self._run("scan", *(["--sagemaker"] if sagemaker else []))
        # Findings end the command with 1, whatever is missing.
        result = Scan.from_document(_complete(code, document, said, allow_incomplete), code != 2)
        if not result.is_complete and not allow_incomplete:
            raise IncompleteResult(said, code, result.document)
        return result

    def jobs(self, *, all: bool = False, team: Optional[str] = None, allow_incomplete: bool = False) -> Tuple[JobStatus, ...]:
        """Lists unfinished jobs, or all."""
        options = (["--all"] if all else []) + ([] if team is None else [f"--team={team}"])
        document = _complete(*self._run("jobs", *options), allow_incomplete)
        return tuple(map(JobStatus.from_document, document["jobs"]))

    def job(self, name: str) -> Job:
        """The job or the sweep `<team>/<job>`, or of another name that only one has. It is looked up."""
        return Job(self, self._status(name).job)

    def submit(
        self,
        spec: Spec,
        *,
        team: Optional[str] = None,
        workdir: Optional[Union[str, "os.PathLike[str]"]] = None,
        yes: bool = False,
    ) -> Job:
        """Submits a job, and waits until it is accepted.

        `spec` is the path of a job document, or a mapping with what it says. `yes` submits a job that can cost more than
        `[jobs] confirm_above_usd`. Raises SubmissionRefused with every mistake, and SubmissionUnanswered where the job may still start.
        """
        text = write_toml(spec) if isinstance(spec, Mapping) else None
        file = "-" if text is not None else os.path.abspath(os.fspath(spec))  # type: ignore[arg-type]
        options = ["--wait"] + (["--yes"] if yes else [])
        options += [] if team is None else [f"--team={team}"]
        options += [] if workdir is None else [f"--workdir={os.fspath(workdir)}"]
        code, document, said = self._run("submit", *options, "--", file, stdin=text)
        if code == 0 and document and document["job"]:
            return Job(self, document["job"])
        if document is None:
            raise CurfewError(said, code)
        if document["submitted"] and document["answer"] is None:
            raise SubmissionUnanswered(said, code, Job(self, document["job"]), document)
        answer = document["answer"] or {}
        mistakes = [Mistake.from_document(one) for one in [*document["mistakes"], *answer.get("mistakes", ())]]
        reasons = [str(mistake) for mistake in mistakes] + document["inputs_denied"]
        raise SubmissionRefused("; ".join(reasons) or said, code, mistakes, document)

    def cancel(self, name: str) -> None:
        """Ends a job, or all jobs of a sweep. Nothing happens to one that is over."""
        _complete(*self._run("cancel", "--yes", "--", name), False)

    def _status(self, name: str) -> JobStatus:
        # What could not be read of a job is not its state.
        code, document, said = self._run("jobs", "--", name)
        status = JobStatus.from_document(_complete(code, document, said, True))
        if status.over and "members" in status.document and code == 2:
            raise IncompleteResult(said, code, status.document)
        return status

    def _run(self, *words: str, stdin: Optional[str] = None) -> Tuple[int, Optional[Document], str]:
        """The exit code, the document, and what was said on stderr."""
        line = [self._command or find_command(), words[0], "--json", *self._options, *words[1:]]
        try:
            ended = subprocess.run(
                line, env=self._env, input=stdin or "", capture_output=True, encoding="utf-8", timeout=_COMMAND_SECONDS_MAX, check=False
            )
        except FileNotFoundError:
            raise CommandMissing(f"there is no command {line[0]}; install it by: pip install curfew-aws") from None
        except OSError as error:
            raise CommandMissing(f"{line[0]} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise CurfewError(f"curfew {words[0]} has not ended after {_COMMAND_SECONDS_MAX} seconds") from None
        said = _without_progress(ended.stderr.strip())
        if not ended.stdout.strip():
            return ended.returncode, None, said or f"curfew {words[0]} ended with {ended.returncode} and said nothing"
        try:
            return ended.returncode, json.loads(ended.stdout), said
        except ValueError:
            raise CurfewError(f"curfew {words[0]} printed no JSON; it said: {said}", ended.returncode) from None


class Job:
    """A job that was submitted, or all jobs of a sweep. `id` is `<team>/<job>`."""

    def __init__(self, account: Curfew, id: str) -> None:
        if not is_job_id(id):
            raise ValueError(f"{id!r} is no job; one is <team>/<job>")
        self.account = account
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def status(self) -> JobStatus:
        """The job as it is now."""
        return self.account._status(self.id)

    def wait(self, timeout: Optional[float] = None, *, poll: float = _POLL_SECONDS, check: bool = True) -> JobStatus:
        """Waits until the job is over. `timeout` and `poll` are seconds.

        Raises JobFailed if it has not succeeded, unless `check` is False; and WaitTimedOut, after which the job continues. A look that
        fails takes time as well.
        """
        begun, failed = time.monotonic(), 0
        status: Optional[JobStatus] = None
        while True:
            error: Optional[CurfewError] = None
            try:
                status = self.status()
                failed = 0
            except CommandMissing:
                raise
            except CurfewError as caught:
                error = caught
                failed += 1
            if error is None and status is not None and status.over:
                if check and not status.succeeded:
                    raise JobFailed(status)
                return status
            waited = time.monotonic() - begun
            if timeout is not None and waited >= timeout:
                raise WaitTimedOut(self.id, status, waited, error) from error
            if error is not None and failed >= _FAILED_LOOKS_MAX:
                raise error
            time.sleep(poll if timeout is None else max(0.0, min(poll, timeout - waited)))

    def cancel(self) -> None:
        """Ends the job."""
        self.account.cancel(self.id)


def find_command() -> str:
    """The command of this package; else the first `curfew` of PATH."""
    for scheme in (None, *_user_schemes()):
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        beside = Path(folder) / "curfew"
        if beside.is_file():
            return str(beside)
    found = shutil.which("curfew")
    if found is None:
        raise CommandMissing("there is no command curfew; install it by: pip install curfew-aws")
    return found


def _user_schemes() -> List[str]:
    return [scheme for scheme in sysconfig.get_scheme_names() if scheme in ("posix_user", "osx_framework_user")]


def _without_progress(said: str) -> str:
    """From the last error on, if there is one: before it the command says what it does."""
    lines = said.splitlines()
    errors = [place for place, line in enumerate(lines) if line.startswith("error: ")]
    return "\n".join(lines[errors[-1] :]) if errors else said


def _complete(code: int, document: Optional[Document], said: str, allow_incomplete: bool) -> Dict[str, Any]:
    if document is None:
        raise CurfewError(said, code)
    if code not in (0, 1) and not allow_incomplete:
        raise IncompleteResult(said, code, document)
    return document


def scan(*, sagemaker: bool = False, allow_incomplete: bool = False) -> Scan:
    """`Curfew().scan`."""
    return Curfew().scan(sagemaker=sagemaker, allow_incomplete=allow_incomplete)


def jobs(*, all: bool = False, team: Optional[str] = None, allow_incomplete: bool = False) -> Tuple[JobStatus, ...]:
    """`Curfew().jobs`."""
    return Curfew().jobs(all=all, team=team, allow_incomplete=allow_incomplete)


def submit(
    spec: Spec, *, team: Optional[str] = None, workdir: Optional[Union[str, "os.PathLike[str]"]] = None, yes: bool = False
) -> Job:
    """`Curfew().submit`."""
    return Curfew().submit(spec, team=team, workdir=workdir, yes=yes)


def cancel(name: str) -> None:
    """`Curfew().cancel`."""
    Curfew().cancel(name)
