from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from local_aws import LocalAws, check_calls, running  # noqa: E402
from local_aws.client import CREDENTIALS  # noqa: E402
from attempts import Job, disk_of  # noqa: E402
from hosts import package  # noqa: E402
from jobs import JobAccount, not_while_all_is_listed  # noqa: E402
from machine_without_control_plane import MachineWithoutControlPlane  # noqa: E402
from reaping import Account, stop_the_warm  # noqa: E402
from reaping_budgets import BudgetAccount  # noqa: E402
from reaping_sagemaker import StudioAccount  # noqa: E402
from reaping_volumes import VolumeAccount  # noqa: E402
from studio_budgets import StudioBudgets

# A boto3 client that a test makes without our factory must not find a developer's account.
os.environ.update(CREDENTIALS, AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_EC2_METADATA_DISABLED="true")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-fault", choices=["some", "all"], default="some", help="see test_every_fault.py")


@pytest.fixture(scope="session")
def _running_aws() -> Iterator[LocalAws]:
    with running(regions=["us-east-1", "eu-central-1"]) as aws:
        yield aws
        stop_the_warm()


@pytest.fixture
def aws(_running_aws: LocalAws) -> Iterator[LocalAws]:
    """An empty account in two regions. A call that breaks AWS's own models fails the test, see `expect_violation`."""
    _running_aws.reset()
    yield _running_aws
    check_calls(_running_aws)


@pytest.fixture
def account(aws: LocalAws) -> Iterator[Account]:
    """A state bucket and a confirmed subscription; reaped in enforce mode with no grace."""
    with Account(aws) as account:
        yield account


@pytest.fixture
def storage(aws: LocalAws) -> Iterator[VolumeAccount]:
    """An account whose volumes are reaped, in enforce mode with no grace."""
    with VolumeAccount(aws) as storage:
        yield storage


@pytest.fixture
def studio(aws: LocalAws) -> Iterator[StudioAccount]:
    """An account whose SageMaker is reaped, in enforce mode with no grace."""
    with StudioAccount(aws) as studio:
        yield studio


@pytest.fixture
def money(aws: LocalAws) -> Iterator[BudgetAccount]:
    """An account whose teams have budgets, in enforce mode with no grace."""
    with BudgetAccount(aws) as money:
        yield money


@pytest.fixture
def studio_money(aws: LocalAws) -> Iterator[StudioBudgets]:
    """The same, of teams that use SageMaker."""
    with StudioBudgets(aws) as studio_money:
        yield studio_money


@pytest.fixture
def jobs(aws: LocalAws) -> Iterator[JobAccount]:
    """An account whose teams submit jobs, in enforce mode."""
    with JobAccount(aws) as jobs:
        yield jobs


@pytest.fixture
def unlisted() -> None:
    """For tests that count what runs about jobs ask for."""
    not_while_all_is_listed()


@pytest.fixture(scope="session")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of `run-jobs`, with the real agent for machines of g5. That for others is none, for each is hashed at a launch."""
    folder = package(tmp_path_factory.mktemp("package"))
    (folder / "agent-arm64").write_bytes(b"none")
    return folder


@pytest.fixture
def job(aws: LocalAws, tmp_path: Path) -> Job:
    """A job whose attempts the real agent runs."""
    return Job(aws, tmp_path)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB."""
    yield from disk_of(tmp_path, "8m")


@pytest.fixture
def machine(jobs: JobAccount, tmp_path: Path, packaged: Path) -> Iterator[MachineWithoutControlPlane]:
    """A machine of a job without a control plane."""
    with MachineWithoutControlPlane(jobs, tmp_path / "hosts", packaged) as machine:
        yield machine
