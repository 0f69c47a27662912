"""The directory that a job brings along, on its machine: what is in the way of it."""

from __future__ import annotations

import hashlib
import io
import os
import pwd
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import Job

FOLDER = f".curfew-test-{os.getpid()}"
_BLOCK_BYTES_MAX = 128 * 1024


def as_zstandard(raw: bytes) -> bytes:
    """One frame of blocks that are not compressed (RFC 8878, "Zstandard Frames")."""
    blocks = [raw[at : at + _BLOCK_BYTES_MAX] for at in range(0, len(raw), _BLOCK_BYTES_MAX)]
    written = b"\x28\xb5\x2f\xfd\xa0" + len(raw).to_bytes(4, "little")
    for number, block in enumerate(blocks, start=1):
        written += (len(block) << 3 | (number == len(blocks))).to_bytes(3, "little") + block
    return written


def workdir(job: Job) -> str:
    """A folder with the link `data`, which leads to nothing on this machine. Its digest."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind, target in ((FOLDER, tarfile.DIRTYPE, ""), (f"{FOLDER}/data", tarfile.SYMTYPE, "/mnt/data")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = kind, target, 0o755
            tar.addfile(entry)
    archive = as_zstandard(raw.getvalue())
    digest = hashlib.sha256(archive).hexdigest()
    job.put(f"workdirs/vision/{digest}.tar.zst", archive)
    return digest


@pytest.fixture
def folder() -> Iterator[Path]:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir) / FOLDER
    yield home
    shutil.rmtree(home, ignore_errors=True)


def test_a_directory_of_the_image_gives_way_and_one_of_the_job_stays(job: Job, folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "of-the-image").touch()
    command = f'cd "$HOME/{FOLDER}"; if [ -L data ]; then rm data && mkdir data && touch data/of-the-job; fi; echo has "$(ls data)"; sleep 600'
    job.spec(command, checkpoint=False, more=f'workdir = "sha256:{workdir(job)}"')
    with job.machine(1) as machine:
        machine.until(lambda: "has of-the-job\n" in machine.said())
    assert [one.name for one in (folder / ".curfew-before-unpacking-1").iterdir()] == ["of-the-image"]
    with job.machine(1, again=machine) as machine:
        machine.until(lambda: "has of-the-job\n" in machine.said())
    assert f"{folder}/data stays as the job has made it" in machine.said()


def test_an_archive_that_is_gone_fails_the_job(job: Job) -> None:
    job.spec("echo never", checkpoint=False, more=f'workdir = "sha256:{"0" * 64}"')
    with job.machine(1) as machine:
        machine.ends()
    assert (job.exit(1)["reason"], job.exit(1)["code"]) == ("failed", 126)
    assert "submit the job again with --workdir" in job.exit(1)["why"]
