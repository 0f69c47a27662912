"""`curfew run`, `curfew rerun` and `--workdir`: from a directory to the exit code of its program on a machine."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import moved_clock
from command import COMMAND, curfew
from end_to_end_jobs import World
from local_aws import LocalAws
from reaping import BUCKET, Account
from test_cli_submit import with_image

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")

# Unpacked in the home of the user that an agent chooses, and deleted from there.
FOLDER = f".curfew-test-{os.getpid()}"
OPTIONS = ["--gpu", "g5.xlarge", "--team", "vision", "--owner", "ada@example.com", "--max-runtime", "1h"]


@pytest.fixture
def code(tmp_path: Path) -> Iterator[Path]:
    """A directory with a program, and a file that git ignores."""
    code = tmp_path / "code"
    (code / FOLDER).mkdir(parents=True)
    program = code / FOLDER / "train.sh"
    program.write_text(f'cd "$HOME/{FOLDER}" && echo * && echo "with $1" && exit 7\n')
    (code / FOLDER / ".gitignore").write_text("*.ckpt\n")
    (code / FOLDER / "old.ckpt").write_text("x" * 1000)
    yield code
    for user in pwd.getpwall():
        if user.pw_uid in (os.getuid(), 1000):
            shutil.rmtree(Path(user.pw_dir) / FOLDER, ignore_errors=True)


def test_a_command_ends_with_its_exit_code_and_comes_again(aws: LocalAws, tmp_path: Path, code: Path) -> None:
    with World(aws, tmp_path) as world:
        environment = world.account.environment()
        said = curfew(environment, "run", *OPTIONS, "--workdir", str(code), "--", "/bin/sh", f"{FOLDER}/train.sh", "a b")
        assert said.code == 7, said.out + said.err
        assert "train.sh\nwith a b\n" in said.out and "old.ckpt" not in said.out, said
        [archive] = world.account.keys("workdirs/")
        assert archive.startswith("workdirs/vision/") and archive.endswith(".tar.zst")
        assert "accepted" in curfew(environment, "rerun", "train", "--wait").fine().out
        world.until(lambda: exit_codes(world) == [7, 7], lambda: str(exit_codes(world)))
        assert world.account.keys("workdirs/") == [archive]

        # Without a terminal to ask at, Ctrl-C leaves the job running.
        words = [COMMAND, "run", *OPTIONS, "--name", "long", "--", "echo has begun; sleep 1000"]
        with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert any(line == "has begun\n" for line in running.stdout)
            running.send_signal(signal.SIGINT)
            _, error = running.communicate(timeout=120)
        assert running.returncode == 0 and "keeps running. Follow it:  curfew logs vision/long-" in error, error
        curfew(environment, "cancel", "long", "--yes").fine()
        world.until(lambda: not world.account.keys("active/"), lambda: str(world.account.keys("active/")))


def exit_codes(world: World) -> list[int]:
    return [world.account.read(key)["code"] for key in world.account.keys("attempts/") if key.endswith("/exit.json")]


def test_a_document_names_the_archive_of_its_directory(account: Account, tmp_path: Path, code: Path) -> None:
    file = tmp_path / "train.toml"
    file.write_text(with_image(account))
    arguments = ["submit", str(file), "--team", "vision", "--workdir", str(code), "--json"]
    dry = curfew(account.environment(), *arguments, "--dry-run").fine().json()
    assert account.keys("workdirs/") == [] and dry["workdir"]["uploaded"] is False
    said = curfew(account.environment(), *arguments).fine().json()
    digest = said["workdir"]["digest"]
    assert said["workdir"] == dry["workdir"] | {"uploaded": True} and said["workdir"]["entries"] == 3
    assert account.keys("workdirs/") == [f"workdirs/vision/{digest.removeprefix('sha256:')}.tar.zst"]
    document = account.aws.client("s3").get_object(Bucket=BUCKET, Key="inbox/vision/train.toml")["Body"].read().decode()
    assert document == f'workdir = "{digest}"\n{file.read_text()}'
    # The same directory is uploaded once; a document that has an archive takes no other.
    file.write_text(document)
    (tmp_path / "other.toml").write_text(file.read_text())
    twice = curfew(account.environment(), *arguments)
    assert twice.code == 1 and "names an archive already" in twice.json()["mistakes"][0]["problem"]
    other = curfew(account.environment(), "submit", str(tmp_path / "other.toml"), "--team", "vision").fine()
    assert "other-" in other.out
    account.aws.client("s3").delete_object(Bucket=BUCKET, Key=account.keys("workdirs/")[0])
    gone = curfew(account.environment(), "submit", str(tmp_path / "other.toml"), "--team", "nlp")
    assert gone.code == 2 and "or not for long enough" in gone.err and account.keys("inbox/nlp/") == []


def test_a_large_archive_goes_up_in_parts(account: Account, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "noise").write_bytes(os.urandom(11 * 1024 * 1024))
    (tmp_path / "code" / "data").symlink_to("/mnt/nfs/imagenet")
    (tmp_path / "train.toml").write_text(with_image(account))
    said = curfew(account.environment(), "submit", str(tmp_path / "train.toml"), "--team", "vision", "--workdir", str(tmp_path / "code"))
    assert "uploaded 5.0 MiB of 11.0 MiB" in said.fine().err
    assert "data is a link to /mnt/nfs/imagenet, which is not packed" in said.err
    [key] = account.keys("workdirs/")
    assert account.aws.client("s3").head_object(Bucket=BUCKET, Key=key)["ContentLength"] > 11 * 1024 * 1024


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpu", "a10"], "no known GPU is called \"a10\"; there are A100"),
        (["--gpu", "a10g:99"], "the number of GPUs is 1 to 16"),
        (["--gpu", "a10g", "--env", "A"], "write NAME=VALUE"),
        (["--gpu", "a10g", "--workdir", "/nowhere"], "/nowhere is not a directory"),
        (["--gpu", "a10g", "--json"], "--json cannot print the log of a command"),
    ],
)
def test_wrong_usage_submits_nothing(account: Account, arguments: list[str], words: str) -> None:
    said = curfew(account.environment(), "run", *arguments, "--team", "vision", "--", "true")
    assert said.code == 2 and words in said.err and account.keys("inbox/") == [], said


def test_ctrl_c_before_the_answer_leaves_the_job_submitted(account: Account) -> None:
    """Nothing answers here, and there is no terminal to ask at."""
    words = [COMMAND, "run", *OPTIONS, "--", "true"]
    with subprocess.Popen(words, env=account.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert any("waiting for the answer" in line for line in running.stderr)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=120)
    assert running.returncode == 0 and "keeps running" in error, error
    assert account.keys("inbox/") == ["inbox/vision/true.toml"]


def test_without_a_limit_it_runs_for_a_day(account: Account) -> None:
    run = ["run", "--gpu", "g5.xlarge", "--team", "vision", "--owner", "ada@example.com", "--dry-run"]
    assert "Without --max-runtime the command ends after 24h\ntrue: for 1d at most" in curfew(account.environment(), *run, "--", "true").out
    account.configure(lifetime={"max": "8h"})
    assert "true: for 8h at most" in curfew(account.environment(), *run, "--", "true").out


def test_a_mistake_names_the_option(account: Account) -> None:
    run = ["run", "--gpu", "g5.xlarge", "--team", "vision", "--owner", "ada@example.com", "--dry-run"]
    short = curfew(account.environment(), *run, "--max-runtime", "5m", "--checkpoint-dir", "ckpt", "--", "true")
    assert short.code == 1
    assert short.out.splitlines() == [
        "--max-runtime: 5m is too short; a machine has to boot first: write 15m or more",
        '--checkpoint-dir: "ckpt" is not an absolute path; begin it with `/`',
    ]
    typo = curfew(account.environment(), "run", "--gpu", "t3.micro", "--team", "vision", "--", "true")
    assert typo.code == 2 and "t3 has no NVIDIA GPU" in typo.err
