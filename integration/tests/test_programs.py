"""`import curfew` of the wheel, and the examples that use it: the real command, the real `run-jobs`, on the local AWS."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
import threading
import tomllib
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from command import COMMAND
from hosts.host import wait_for
from jobs import SPEC, JobAccount
from local_aws import LocalAws
from reaping import REPOSITORY, Account

PACKAGE = REPOSITORY / "cli/python"
EXAMPLES = REPOSITORY / "docs/examples"
sys.path.insert(0, str(PACKAGE))

import curfew  # noqa: E402
from curfew.toml import write_toml  # noqa: E402

JOB = {"name": "llama", **tomllib.loads(SPEC)}


@pytest.fixture
def jobs(aws: LocalAws) -> Iterator[JobAccount]:
    with JobAccount(aws) as account:
        account.write_budget()
        yield account


def client(account: Account) -> curfew.Curfew:
    return curfew.Curfew(command=COMMAND, env=account.environment())


@contextmanager
def running_jobs(account: JobAccount) -> Iterator[None]:
    """The function runs again and again, as by its minute."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.2):
            account.tick()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def ends(account: JobAccount) -> None:
    """The command of the job ends, once it runs; a job that does not run is cancelled, so that nobody waits for it."""
    def runs() -> bool:
        has_state = any(key.endswith("/state.json") for key in account.keys("jobs/vision/llama-"))
        return has_state and account.job().state == "running"

    try:
        wait_for(runs, 120, lambda: "it never ran")
        account.job().ends()
    except BaseException:
        account.job().cancel()
        raise


# The package


def test_a_job_from_its_submission_to_its_end(jobs: JobAccount) -> None:
    ours = client(jobs)
    with running_jobs(jobs):
        job = ours.submit(JOB, team="vision")
        assert job.id == jobs.job().id and ours.job("llama").id == job.id
        wait_for(lambda: job.status().state == "running", 120, lambda: str(job.status()))
        with pytest.raises(curfew.WaitTimedOut) as late:
            job.wait(timeout=0)
        assert isinstance(late.value, TimeoutError) and not late.value.status.over
        [listed] = ours.jobs(team="vision")
        assert (listed.job, listed.owner, listed.attempts) == (job.id, "ada@example.com", 1) and listed.submitted_at.utcoffset().seconds == 0
        assert ours.jobs(team="nlp") == ()
        ends(jobs)
        status = job.wait(timeout=120, poll=0.2)
    assert status.succeeded and status.cost_usd_max >= 0 and status.document["job"] == job.id
    assert [(one.job, one.succeeded) for one in ours.jobs(all=True)] == [(job.id, True)]


def test_a_job_that_fails_or_is_cancelled_is_an_exception(jobs: JobAccount) -> None:
    with running_jobs(jobs):
        job = client(jobs).submit(JOB, team="vision")
        wait_for(lambda: job.status().state == "running", 120, lambda: str(job.status()))
        job.cancel()
        with pytest.raises(curfew.JobFailed, match=f"{job.id} has cancelled") as failed:
            job.wait(timeout=120, poll=0.2)
        assert job.wait(check=False) == failed.value.status
        job.cancel()


def test_mistakes_are_an_exception_with_each_of_them(account: Account, tmp_path: Path) -> None:
    file = tmp_path / "train.toml"
    file.write_text('command = ""\ncolour = 1\nowner = "ada"\n')
    with pytest.raises(curfew.SubmissionRefused) as refused:
        client(account).submit(file, team="vision")
    assert [(one.line, one.key) for one in refused.value.mistakes] == [(1, "command"), (2, "colour")]
    assert refused.value.exit_code == 1 and "line 2: `colour`: " in str(refused.value)
    with pytest.raises(curfew.CurfewError, match="no such file|cannot be read") as missing:
        client(account).submit(tmp_path / "absent.toml", team="vision")
    assert missing.value.exit_code == 2


def test_a_scan_has_its_findings_and_says_what_it_could_not_see(account: Account) -> None:
    gpu = account.idle(account.gpu(tags={"Team": "vision", "Owner": "ada"}))
    ours = client(account)
    scan = ours.scan()
    [found] = scan.findings
    assert (found.resource, found.kinds, found.team) == (gpu, ("idle",), "vision") and scan.is_complete
    assert scan.total_usd_per_month == found.usd_per_month > 0 and found.document["what"] == "g5.xlarge"
    account.aws.fault("ec2:DescribeVolumes", "access_denied", times=None)
    with pytest.raises(curfew.IncompleteResult, match="ec2:DescribeVolumes") as incomplete:
        ours.scan()
    assert incomplete.value.exit_code == 1 and incomplete.value.document["gaps"]
    partial = ours.scan(allow_incomplete=True)
    assert not partial.is_complete and [one.resource for one in partial.findings] == [gpu]


def test_an_error_has_the_text_and_the_code_of_the_command(account: Account, tmp_path: Path) -> None:
    with pytest.raises(curfew.CurfewError, match="error: .*llama") as error:
        client(account).job("llama")
    assert error.value.exit_code == 2 and error.value.message.startswith("error: ")
    with pytest.raises(curfew.CommandMissing, match="pip install curfew-aws"):
        curfew.Curfew(command=tmp_path / "curfew").jobs()
    (tmp_path / "curfew").write_text("")
    with pytest.raises(curfew.CommandMissing, match="cannot be run: Permission denied"):
        curfew.Curfew(command=tmp_path / "curfew").jobs()
    with pytest.raises(curfew.SubmissionRefused, match="comes from no file that names the job: .*; write `name`"):
        client(account).submit({"command": "true", "owner": "ada"}, team="vision")


def test_a_word_is_never_an_option_and_never_for_a_shell(account: Account, tmp_path: Path) -> None:
    for name in ("--yes", "$(touch hacked)", "; touch hacked"):
        with pytest.raises(curfew.CurfewError):
            curfew.Curfew(command=COMMAND, env=account.environment(), region="us-east-1").job(name)
        with pytest.raises(ValueError):
            curfew.Job(client(account), name)
    assert not list(tmp_path.iterdir()) and not Path("hacked").exists()


def test_fields_of_a_later_version_are_tolerated(tmp_path: Path) -> None:
    command = tmp_path / "curfew"
    command.write_text('#!/bin/sh\necho "{\\"schema\\": 1, \\"at\\": \\"2026-11-22T05:00:00.123456789Z\\", \\"later\\": {}, \\"jobs\\": []}"\n')
    command.chmod(0o755)
    assert curfew.Curfew(command=command).jobs() == ()
    command.write_text("#!/bin/sh\necho no document\necho broken >&2\nexit 2\n")
    with pytest.raises(curfew.CurfewError, match="printed no JSON; it said: broken"):
        curfew.Curfew(command=command).jobs()


def stand_in(folder: Path, submit: str, others: str) -> Path:
    """A command that answers `submit`, and all else, with a line of shell."""
    command = folder / "curfew"
    document = '{"schema": 1, "submitted": "inbox/vision/llama.toml", "job": "vision/llama-0123abcd", "answer": ANSWER, "mistakes": [], "inputs_denied": []}'
    (folder / "accepted").write_text(document.replace("ANSWER", '{"accepted": true, "mistakes": []}'))
    (folder / "unanswered").write_text(document.replace("ANSWER", "null"))
    command.write_text(f'#!/bin/sh\ncd {folder}\necho "$1" >> calls\n[ "$1" != submit ] || {{ {submit}; }}\n{others}\n')
    command.chmod(0o755)
    return command


def test_a_submission_without_an_answer_names_the_job_that_may_start(tmp_path: Path) -> None:
    said = "echo waiting for the answer >&2; echo 'error: inbox/vision/llama.toml was submitted, and got no answer' >&2; echo '       doctor' >&2"
    with pytest.raises(curfew.SubmissionUnanswered) as unanswered:
        curfew.Curfew(command=stand_in(tmp_path, f"cat unanswered; {said}; exit 2", "exit 2")).submit(JOB)
    assert unanswered.value.job.id == "vision/llama-0123abcd" and isinstance(unanswered.value, TimeoutError)
    assert unanswered.value.message == "error: inbox/vision/llama.toml was submitted, and got no answer\n       doctor"


def test_looks_that_fail_count_against_the_timeout(tmp_path: Path) -> None:
    ours = curfew.Curfew(command=stand_in(tmp_path, "cat accepted; exit 0", "echo 'error: ExpiredToken' >&2; exit 2"))
    job = ours.submit(JOB)
    with pytest.raises(curfew.WaitTimedOut, match="in an unknown state .* the last look failed: error: ExpiredToken") as late:
        job.wait(timeout=0, poll=60)
    assert late.value.status is None
    with pytest.raises(curfew.CurfewError, match="ExpiredToken") as failed:
        job.wait(poll=0)
    assert not isinstance(failed.value, TimeoutError)
    assert (tmp_path / "calls").read_text().split() == ["submit", "jobs"] + 5 * ["jobs"]


@pytest.mark.parametrize(
    "document",
    [JOB, {"a": 'x"\\\n\x7fé𝄞', "b": [1, 1.5, True], "c": {"d e": {"f": "g"}, "h": []}, "inputs": [{"from": "s3://x/"}]}],
)
def test_a_mapping_is_written_as_toml(document: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(document)) == document


def test_the_wheel_has_the_package_and_the_helper_of_trainings() -> None:
    settings = tomllib.loads((REPOSITORY / "cli/pyproject.toml").read_text())["tool"]["maturin"]
    assert (settings["python-source"], settings["module-name"]) == (PACKAGE.name, "curfew")
    assert (PACKAGE / "curfew/py.typed").exists()
    recipe = REPOSITORY / "docs/recipes/curfew.py"
    assert (PACKAGE / "curfew/training.py").resolve() == recipe
    names = {"path", "resume", "saved", "should_stop"}
    assert names <= set(curfew.__all__) and all(getattr(curfew, name).__code__.co_filename.endswith("training.py") for name in names)
    # Nothing beside the standard library.
    alone = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import curfew"], check=False)
    assert alone.returncode == 0


def test_the_command_of_the_wheel_comes_before_that_of_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from curfew import client as module

    for folder in ("scripts", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "curfew").symlink_to(COMMAND)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(module.sysconfig, "get_path", lambda *_: str(tmp_path / "scripts"))
    assert module.find_command() == str(tmp_path / "scripts/curfew")
    (tmp_path / "scripts/curfew").unlink()
    assert module.find_command() == str(tmp_path / "path/curfew")
    (tmp_path / "path/curfew").unlink()
    with pytest.raises(curfew.CommandMissing):
        module.find_command()


# The examples


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example, with a stand-in for Airflow, which is not installed: of `BaseOperator` it has the arguments and the log."""

    class BaseOperator:
        def __init__(self, *, task_id: str) -> None:
            self.task_id, self.log = task_id, logging.getLogger(task_id)

    sdk = types.ModuleType("airflow.sdk")
    sdk.BaseOperator = BaseOperator  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "airflow", types.ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    described = importlib.util.spec_from_file_location("curfew_operator", EXAMPLES / "curfew_operator.py")
    assert described and described.loader
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module.CurfewJobOperator


def test_the_operator_of_airflow_runs_a_job_and_cancels_it_if_it_is_stopped(jobs: JobAccount, operator: Any) -> None:
    account = {"command": str(COMMAND), "env": jobs.environment()}
    task = operator(task_id="train", spec=JOB, team="vision", account=account, poll_seconds=0.2)
    assert set(task.template_fields) <= vars(task).keys()
    task.on_kill()
    with running_jobs(jobs):
        ending = threading.Thread(target=lambda: ends(jobs))
        ending.start()
        result = task.execute({})
        ending.join()
        assert result["job"] == task.job.id and result["state"] == "succeeded" and result["cost_usd_max"] >= 0
        second = operator(task_id="train", spec={**JOB, "name": "bert"}, team="vision", account=account, poll_seconds=0.2)
        stopping = threading.Thread(
            target=lambda: (wait_for(lambda: second.job is not None, 120, lambda: "it was never submitted"), second.on_kill())
        )
        stopping.start()
        with pytest.raises(curfew.JobFailed, match="has cancelled"):
            second.execute({})
        stopping.join()


class Workflow:
    """The steps of the action, run as GitHub runs those of a composite action."""

    def __init__(self, account: Account, folder: Path, command: Path = COMMAND) -> None:
        self.folder, self.output = folder, folder / "output"
        self.output.touch()
        programs = folder / "bin"
        programs.mkdir()
        (programs / "curfew").symlink_to(command)
        # `pip install` reaches no registry here: it says what it was asked for, and the package is found by its path.
        (programs / "python3").write_text(f'#!/bin/sh\n[ "$2" != pip ] || {{ echo "$@" >> {folder}/pip; exit 0; }}\nexec {sys.executable} "$@"\n')
        (programs / "python3").chmod(0o755)
        own = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(PACKAGE), "GITHUB_OUTPUT": str(self.output), "POLL_SECONDS": "0.2"}
        self.environment = {**account.environment(), **own}

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        action = yaml.safe_load((EXAMPLES / "github-action/action.yml").read_text())
        values = {f"inputs.{name}": inputs.pop(name, one.get("default")) for name, one in action["inputs"].items()}
        assert not inputs and None not in values.values()
        values["github.action_path"] = str(EXAMPLES / "github-action")
        for step in action["runs"]["steps"]:
            assert step["shell"] == "bash" and "${{" not in step["run"], "an input would be a program: hand it over by env"
            variables = {name: values[value.removeprefix("${{ ").removesuffix(" }}")] for name, value in step["env"].items()}
            words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(words, cwd=self.folder, env=self.environment | variables, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                break
        named = {line.partition(".outputs.")[2].removesuffix(" }}") for line in (one["value"] for one in action["outputs"].values())}
        assert self.outputs().keys() <= named
        return done

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


def test_the_action_runs_a_job(jobs: JobAccount, tmp_path: Path) -> None:
    workflow = Workflow(jobs, tmp_path)
    (tmp_path / "train.toml").write_text(f'name = "llama"\n{SPEC}')
    with running_jobs(jobs):
        ending = threading.Thread(target=lambda: ends(jobs))
        ending.start()
        done = workflow.run(file="train.toml", team="vision", version="1.2.3")
        ending.join()
    assert done.returncode == 0, done
    outputs = workflow.outputs()
    assert outputs["job"] == jobs.job().id and float(outputs["cost-usd-max"]) >= 0
    assert (tmp_path / "pip").read_text() == "-m pip install --quiet curfew-aws==1.2.3\n"


def test_the_action_cancels_a_job_that_it_cannot_see(account: Account, tmp_path: Path) -> None:
    refused = "echo 'error: ExpiredToken' >&2; exit 2"
    workflow = Workflow(account, tmp_path, stand_in(tmp_path, "cat accepted; exit 0", refused))
    done = workflow.run(file="train.toml", **{"timeout-minutes": "0.001"})
    assert done.returncode == 1 and "::error::vision/llama-0123abcd is in an unknown state" in done.stdout, done
    assert "the job could not be cancelled, and continues: error: ExpiredToken; cancel it: curfew cancel vision/llama-0123abcd" in done.stdout
    stand_in(tmp_path, "cat accepted; exit 0", f'[ "$1" = cancel ] && {{ echo "{{}}"; exit 0; }}; {refused}')
    done = workflow.run(file="train.toml")
    assert done.returncode == 1 and "::error::error: ExpiredToken; the job is cancelled, too" in done.stdout, done
    assert (tmp_path / "calls").read_text().split()[-6:] == 5 * ["jobs"] + ["cancel"]


def test_the_action_fails_with_the_mistakes_and_cancels_a_job_that_takes_too_long(jobs: JobAccount, tmp_path: Path) -> None:
    workflow = Workflow(jobs, tmp_path)
    (tmp_path / "train.toml").write_text(f"colour = 1\n{SPEC}")
    done = workflow.run(file="train.toml", team="vision")
    assert done.returncode == 1 and "::error::line 1: `colour`: " in done.stdout, done
    (tmp_path / "train.toml").write_text(f'name = "llama"\n{SPEC}')
    with running_jobs(jobs):
        done = workflow.run(**{"file": "train.toml", "team": "vision", "timeout-minutes": "0"})
        assert done.returncode == 1 and "the job is cancelled, too" in done.stdout, done
        wait_for(lambda: jobs.job().state == "ended", 120, lambda: "it was not cancelled")
