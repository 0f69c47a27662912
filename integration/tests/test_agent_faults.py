"""What goes wrong on a machine and around it: each attempt ends in a defined way, and its documents say how."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import moved_clock
import pytest

from attempts import NAME, Job, Machine, head
from fake_metadata import INTERRUPTION

moves_the_clock = pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
MIB = 1024 * 1024


def struck(job: Job) -> int:
    """How many calls were made to fail."""
    return sum(rule["struck"] for rule in job.aws.faults())


def waits_for(job: Job, name: str) -> str:
    """What has a command wait until the test calls `go`; it says that it has come so far."""
    return f"touch {job.scratch}/at-{name}; while ! [ -e {job.scratch}/go-{name} ]; do sleep 0.1; done; "


def go(job: Job, machine: Machine, name: str) -> None:
    machine.until((job.scratch / f"at-{name}").exists)
    (job.scratch / f"go-{name}").touch()


# S3 and credentials


def test_a_late_s3_delays_a_job(job: Job) -> None:
    job.spec("true", checkpoint=False)
    job.aws.fault("s3:*", "reset", times=None)
    with job.machine(1) as machine:
        machine.until(lambda: "the spec cannot be read yet" in machine.said())
        job.aws.clear_faults()
        machine.ends()
    assert job.head()["result"]["succeeded"]


def test_an_unreachable_s3_ends_the_machine(job: Job) -> None:
    job.spec("echo never", checkpoint=False)
    job.aws.fault("s3:*", "reset", times=None)
    with job.machine(1, hurry=300) as machine:
        said = machine.ends()
    assert "no exit record is written" in said and "runs the command" not in said
    job.aws.clear_faults()
    assert job.exit(1) is None and not job.head()


def test_uploads_wait_for_s3_at_the_end(job: Job) -> None:
    output = job.scratch / "model.txt"
    machine = f'[machine]\nuser = "root"\noutputs = ["{output}"]\n'
    job.spec(waits_for(job, "end") + f"echo fine > {output}; echo 1 > {job.checkpoints}/step-1", more=machine)
    with job.machine(1) as machine:
        machine.until((job.scratch / "at-end").exists)
        for match in ("files/step-1", ""):
            job.aws.fault("s3:*", "custom", status=400, code="ExpiredToken", message="The provided token has expired.", match=match, times=None)
        go(job, machine, "end")
        # More often than what does not pass is tried: six times, of three calls each.
        machine.until(lambda: job.aws.faults()[0]["struck"] > 18)
        job.aws.clear_faults()
        machine.ends()
    assert job.kept() == 1 and job.get(f"outputs/{NAME}/1{output}") == b"fine\n"
    assert job.head()["result"]["succeeded"] and job.head()["result"]["why"] == "the command has ended with success"


def test_a_spec_that_may_not_be_read_is_a_defined_end(job: Job) -> None:
    job.spec("echo never", checkpoint=False)
    job.aws.fault("s3:GetObject", "access_denied", match="spec.toml", times=None)
    with job.machine(1) as machine:
        # What may pass is tried for a quarter of an hour, which is 45 s here.
        machine.ends(30)
    assert (job.exit(1)["reason"], job.exit(1)["code"]) == ("failed", 126)
    assert "the spec cannot be read: s3:GetObject" in job.exit(1)["why"] and "AccessDenied" in job.exit(1)["why"]


def test_a_result_that_may_not_be_written_is_a_defined_end(job: Job) -> None:
    job.spec(waits_for(job, "end"), checkpoint=False)
    with job.machine(1) as machine:
        machine.until((job.scratch / "at-end").exists)
        # By what only head.json holds: the exit record names it as well.
        job.aws.fault("s3:PutObject", "access_denied", match='"kept":', times=None)
        go(job, machine, "end")
        machine.ends(30)
    assert job.exit(1)["reason"] == "broken"
    assert "the command has ended with success, but the result could not be written: s3:PutObject" in job.exit(1)["why"]


def test_credentials_expire_and_new_ones_come(job: Job) -> None:
    job.training(10_000, "--every", "10")
    machine = job.machine(1, role=True)
    machine.metadata.give_credentials(seconds=15)
    with machine:
        machine.until(lambda: job.kept())
        job.aws.fault("s3:*", "custom", status=400, code="ExpiredToken", message="The provided token has expired.", times=None)
        machine.until(lambda: "ExpiredToken" in machine.said())
        asked = machine.metadata.credentials_asked()
        machine.metadata.give_credentials(seconds=3600)
        machine.until(lambda: machine.metadata.credentials_asked() > asked)
        job.aws.clear_faults()
        kept = job.kept()
        machine.until(lambda: job.kept() > kept)
        machine.metadata.warn(seconds=12)
        machine.ends()
    assert job.exit(1)["reason"] == "interrupted"


# The instance metadata


def test_silent_metadata_end_nothing_and_a_later_warning_counts(job: Job) -> None:
    job.training(10_000, "--every", "10")
    with job.machine(1) as machine:
        machine.until(lambda: job.kept())
        machine.metadata.hang()
        machine.until(lambda: "the instance metadata does not answer" in machine.said())
        kept = job.kept()
        machine.until(lambda: job.kept() > kept)
        machine.metadata.go_on()
        machine.until(lambda: "the instance metadata answers again" in machine.said())
        machine.metadata.warn(seconds=20)
        machine.ends()
    assert job.exit(1)["reason"] == "interrupted"


# The time that there is


@moves_the_clock
def test_a_warning_shortens_an_end_that_has_begun(job: Job) -> None:
    clock = moved_clock.MovedClock()
    job.spec("trap '' TERM; while :; do sleep 0.1; done", checkpoint=False)
    with job.machine(1, hurry=2, clock=clock) as machine:
        machine.until(lambda: "runs the command" in machine.said())
        # Five minutes before the end, which are 150 s here, the command is told. It would have nearly two minutes, which is longer than
        # anybody waits for its end here.
        clock.move_to(machine.ends_at - timedelta(seconds=150))
        machine.until(lambda: "sends SIGTERM to the command, which has " in machine.said())
        machine.metadata.warn(clock.moved_by_seconds + 15)
        machine.ends()
    assert "there is less time than that: EC2 takes the machine back" in machine.said()
    assert job.exit(1)["reason"] == "expired"


def test_the_next_attempt_uploads_outputs_after_a_warning(job: Job) -> None:
    output = job.scratch / "model.txt"
    job.spec(f"echo fine > {output}", checkpoint=False, more=f'[machine]\nuser = "root"\noutputs = ["{output}"]\n')
    job.aws.fault("s3:PutObject", "slow", seconds=30, match="model.txt")
    with job.machine(1) as machine:
        machine.until(lambda: struck(job))
        machine.metadata.warn(seconds=8)
        machine.ends()
    assert job.exit(1)["reason"] == "interrupted" and not job.head()["result"]
    assert "there was no time to upload its outputs" in job.exit(1)["why"]
    with job.machine(2) as machine:
        machine.ends()
    assert job.head()["result"]["succeeded"] and job.get(f"outputs/{NAME}/2{output}") == b"fine\n"


@moves_the_clock
def test_a_changed_clock_does_not_complete_a_checkpoint(job: Job) -> None:
    clock, file = moved_clock.MovedClock(), job.checkpoints / "step-1"
    job.spec(f"echo half > {file}; {waits_for(job, 'set')} sleep 3; echo rest >> {file}; sleep 600")
    # A minute is 15 s here, the metadata are asked every 1.25 s, and the directory every 2.5.
    with job.machine(1, hurry=4, ends_in=12 * 3600, clock=clock) as machine:
        machine.until(file.exists)
        asked = len(machine.metadata.asked)
        machine.until(lambda: machine.metadata.asked[asked:].count(INTERRUPTION) >= 4)
        clock.move_by(3600)
        go(job, machine, "set")
        machine.until(lambda: job.kept() == 1)
        assert job.get(f"checkpoints/{NAME}/1/1/files/step-1") == b"half\nrest\n"
        clock.move_by(0)
        machine.metadata.warn(seconds=15)
        machine.ends()
    assert job.exit(1)["reason"] == "interrupted"


# Processes

DEAF = 'trap "" TERM HUP INT; while :; do sleep 0.1; done'


def test_a_process_that_left_the_group_is_not_waited_for(job: Job) -> None:
    stays = f"setsid sh -c '{DEAF}' &"
    ends = f"trap 'echo 9 > {job.checkpoints}/step-9; exit 0' TERM"
    job.spec(f"{stays} {ends}; {waits_for(job, 'told')}", more=f"setup = {json.dumps(stays)}")
    with job.machine(1) as machine:
        machine.until((job.scratch / "at-told").exists)
        machine.metadata.warn(seconds=60)
        machine.ends()
    assert "did not end after SIGTERM" not in machine.said()
    # It ended with success, so what it wrote is whole.
    assert (job.exit(1)["reason"], job.exit(1)["code"], job.kept()) == ("interrupted", 0, 9)


def test_inherited_processes_are_reaped(job: Job) -> None:
    job.spec("for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.1 &); done; sleep 600", checkpoint=False)
    with job.machine(1) as machine:
        machine.until(lambda: dead_children(machine) > 0)
        # Each minute, which is 3 s here.
        machine.until(lambda: dead_children(machine) == 0)


def dead_children(machine: Machine) -> int:
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        count += (state, int(parent)) == ("Z", machine.process.pid)
    return count


# Checkpoints


def test_a_checkpoint_comes_back_as_it_was(job: Job) -> None:
    folder = job.checkpoints / "step-1"
    job.spec(waits_for(job, "made"))
    with job.machine(1) as machine:
        machine.until((job.scratch / "at-made").exists)
        half = job.checkpoints / "making"
        (half / "deep" / "er").mkdir(parents=True)
        (half / "nothing" / "in it").mkdir(parents=True)
        for name in ("a b", "grün ☃", "plus+%41&?#", 'quo"te\\', "x" * 255, "deep/er/a", ".zarray"):
            (half / name).write_text(name)
        with (half / "sparse").open("wb") as sparse:
            sparse.truncate(20 * MIB)
            sparse.seek(18 * MIB)
            sparse.write(b"end")
        (half / "to-directory").symlink_to("deep/er")
        (half / "to-nothing").symlink_to("/nowhere/at-all")
        (half / "circle").symlink_to("..")
        (half / "to-file").symlink_to("a b")
        expect = {**shape(half), "to-file": b"a b"}
        half.rename(folder)
        go(job, machine, "made")
        machine.ends()
    assert job.kept() == 1, machine.said()
    job.put(f"attempts/{NAME}/head.json", head(1, (1, 1)))
    job.spec(waits_for(job, "restored"))
    with job.machine(2) as machine:
        machine.until((job.scratch / "at-restored").exists)
        assert shape(folder) == expect


def shape(folder: Path) -> dict[str, object]:
    """Everything below, by its path: what a link says, what a file holds, and of a directory nothing."""
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        found[str(path.relative_to(folder))] = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return found


def test_a_checkpoint_deleted_during_its_upload_is_kept(job: Job) -> None:
    folder = job.checkpoints
    job.aws.fault("s3:PutObject", "slow", seconds=60, match="/files/step-", times=None)
    one = f"mkdir {folder}/tmp; for f in $(seq 20); do echo 7 > {folder}/tmp/$f; done; touch {folder}/tmp/_SUCCESS; mv {folder}/tmp {folder}/step-7"
    job.spec(f"{one}; {waits_for(job, 'deleted')} rm -r {folder}/step-7; sleep 600")
    with job.machine(1) as machine:
        machine.until(lambda: struck(job))
        go(job, machine, "deleted")
        machine.until(lambda: not (folder / "step-7").exists())
        job.aws.release("s3:PutObject")
        kept = machine.until(lambda: job.kept())
    assert "is not kept" not in machine.said()
    held = '[ -e "$CURFEW_CHECKPOINT_DIR/.curfew-held" ]'
    job.spec(f'[ "$CURFEW_RESUME_STEP" = {kept} ] && [ "$(cat "$CURFEW_RESUME_FROM/20")" = {kept} ] && ! {held}')
    with job.machine(2) as machine:
        machine.ends()
    assert job.head()["result"]["succeeded"], machine.said()


def test_restored_files_belong_to_the_user_under_any_umask(job: Job) -> None:
    for folder in (job.scratch, *job.scratch.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    made = 'cd "$CURFEW_CHECKPOINT_DIR" && mkdir step-1 && echo of-1 > step-1/weights'
    job.spec(made, user="nobody")
    with job.machine(1, umask=0o077) as machine:
        machine.ends()
    assert job.kept() == 1, machine.said()
    job.put(f"attempts/{NAME}/head.json", head(1, (1, 1)))
    job.spec('cd "$CURFEW_RESUME_FROM" && [ "$(cat weights)" = of-1 ] && echo more >> weights && mkdir ../step-2', user="nobody")
    with job.machine(2, umask=0o077) as machine:
        machine.ends()
    assert job.head()["result"]["succeeded"], machine.said()


# The disk


def test_a_restore_on_a_full_disk_replaces_earlier_content(job: Job, full_disk: Path) -> None:
    job.checkpoints = full_disk / "checkpoints"
    folder = job.checkpoints / "step-1"
    job.spec(f'[ -n "$CURFEW_RESUME_STEP" ] && exit 0; mkdir {folder}; head -c {5 * MIB} /dev/zero > {folder}/a; touch {folder}/_SUCCESS; sleep 600')
    with job.machine(1, disk=False) as machine:
        machine.until(lambda: job.kept() == 1)
        machine.pull_the_plug()
    with job.machine(1, disk=False) as machine:
        machine.ends()
    assert "the earlier contents of the checkpoint directory are deleted" in machine.said()
    assert job.head()["result"]["succeeded"], machine.said()
