"""The agent runs as root, and reads what its user made with the rights of that user."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import NAME, Job, head
from local_aws import LocalAws

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take the rights of another user")


@pytest.fixture
def job(aws: LocalAws, tmp_path: Path) -> Iterator[Job]:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    yield Job(aws, tmp_path)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A directory that anybody may list, with a file that only root may read."""
    folder = tmp_path / "of-root"
    (folder / "step-9").mkdir(parents=True)
    file = folder / "step-9" / "key"
    file.write_text("only for root")
    file.chmod(0o600)
    return folder


def test_files_that_the_user_may_not_read_are_not_uploaded(job: Job, secret: Path, tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    outputs.chmod(0o777)
    key = secret / "step-9" / "key"
    links = f'cd "$CURFEW_CHECKPOINT_DIR"; mkdir step-1 step-2; echo fine > step-1/a; ln -s {key} step-2/key; '
    named = f"echo fine > {outputs}/a; ln -s {key} {outputs}/key; echo mine > {outputs}/0600; chmod 600 {outputs}/0600"
    job.spec(links + named, more=f'[machine]\nuser = "nobody"\noutputs = ["{outputs}", "{key}"]\n')
    with job.machine(1) as machine:
        machine.ends()
    assert job.kept() == 1, machine.said()
    assert "`step-2/key` is a link to a file outside of the checkpoint directory" in machine.said()
    sent = job.keys(f"outputs/{NAME}/1/")
    assert sorted(key.rpartition("/")[2] for key in sent) == ["0600", "a"]
    assert f"{outputs}/key (a link to a file outside of {outputs})" in job.exit(1)["why"]
    assert f"{key}: Permission denied" in job.exit(1)["why"]
    stored = [job.get(key) or b"" for key in job.keys()]
    assert not any(b"only for root" in body for body in stored)


def test_a_checkpoint_directory_that_became_a_link_is_not_followed(job: Job, secret: Path) -> None:
    job.put(f"attempts/{NAME}/head.json", head(0))
    home = job.checkpoints.parent / "home"
    home.mkdir()
    home.chmod(0o777)
    job.checkpoints = home / "checkpoints"
    job.spec(f'cd /; rmdir "$CURFEW_CHECKPOINT_DIR"; ln -s {secret} "$CURFEW_CHECKPOINT_DIR"', user="nobody")
    before = (secret.stat().st_uid, sorted(os.listdir(secret)))
    with job.machine(1) as machine:
        machine.ends()
    assert job.kept() is None
    assert f"the checkpoints in {job.checkpoints} cannot be read: {job.checkpoints} is a link, and is not followed" in machine.said()
    # The same machine once more: it would put aside what is there, and give the directory to the user.
    job.put(f"attempts/{NAME}/head.json", json.dumps({**json.loads(head(1)), "launch": "0a"}))
    with job.machine(1, disk=False) as machine:
        machine.ends()
    assert "is a link, and is not followed" in job.exit(1)["why"]
    assert (secret.stat().st_uid, sorted(os.listdir(secret))) == before
