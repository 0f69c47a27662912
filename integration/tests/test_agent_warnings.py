"""Warnings for the owner of a job: the heartbeat of the real agent has each as long as it lasts."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from attempts import BUCKET, HURRY, NAME, UNTIL_SECONDS, Job, Machine, head

MIB = 1024 * 1024
QUICK = 60  # where a minute of the agent is nothing but waited for
HASTY = 120  # the same for half an hour

# Longer than a minute of the agent takes here, and shorter than one takes on a real machine.
SOON = 40


def told(job: Job, attempt: int = 1) -> dict[str, str]:
    """Words by kind; at most one of each."""
    troubles = (job.heartbeat(attempt) or {}).get("warnings", [])
    words = {trouble["kind"]: trouble["words"] for trouble in troubles}
    assert len(words) == len(troubles)
    return words


def is_silent(job: Job) -> bool:
    """But for an upload that seems to take minutes: one of a busy machine, at a pace at which a minute is a second."""
    return told(job).keys() <= {"too-large"}


def hears(job: Job, machine: Machine, kind: str, seconds: float = UNTIL_SECONDS) -> str:
    return machine.until(lambda: told(job, machine.attempt).get(kind), seconds)


def with_checkpoints(job: Job, *damaged: int) -> None:
    """The first attempt has kept steps 1 and 2; some are damaged since."""
    folder = job.checkpoints
    one = f"mkdir {folder}/step-$step; echo of-$step > {folder}/step-$step/weights; touch {folder}/step-$step/.complete"
    job.spec(f"for step in 1 2; do {one}; while ! [ -e {job.scratch}/kept-$step ]; do sleep 0.1; done; done")
    with job.machine(1) as machine:
        for step in (1, 2):
            machine.until(lambda: job.kept() == step)
            (job.scratch / f"kept-{step}").touch()
        machine.ends()
    assert job.manifests() == [(1, 1), (1, 2)] and is_silent(job)
    for step in damaged:
        job.put(f"checkpoints/{NAME}/1/{step}/files/step-{step}/weights", "torn")
    job.put(f"attempts/{NAME}/head.json", head(1, (1, 2), kept=[(1, 1)]))


def test_a_damaged_checkpoint_is_reported_at_once(job: Job) -> None:
    """The machine may be gone before a minute is over."""
    with_checkpoints(job, 2)
    job.spec("sleep 600")
    with job.machine(2, hurry=1) as machine:
        words = hears(job, machine, "damaged", SOON)
    assert words.startswith("it resumes from step 1, which attempt 1 kept: the checkpoint of step 2 (") and words.endswith(") is damaged")
    assert machine.said().count("the checkpoint of step 2 is damaged, and skipped") == 1, "as the log says it"
    assert set(told(job, 2)) == {"damaged"}


def test_the_loss_of_all_checkpoints_is_reported(job: Job) -> None:
    with_checkpoints(job, 1, 2)
    job.spec("true")
    with job.machine(2) as machine:
        machine.ends()
    words = told(job, 2)["damaged"]
    assert words.startswith("it starts at zero, because there is no other checkpoint: the checkpoints of step 2 (")
    assert ", of step 1 (" in words and words.endswith(") are damaged")


def test_a_last_heartbeat_has_the_last_warning(job: Job) -> None:
    job.aws.fault("s3:PutObject", "slow", seconds=95 / HURRY + 1, match="files/step-1/weights", times=1)
    # The beat that comes at once does not come through.
    job.spec(f"mkdir {job.checkpoints}/step-1; echo 1 > {job.checkpoints}/step-1/weights; touch {job.scratch}/written")
    with job.machine(1) as machine:
        machine.until((job.scratch / "written").exists)
        machine.until(lambda: job.heartbeat(1))
        job.aws.fault("s3:GetObject", "slow", seconds=5, match="head.json", times=None)
        machine.ends()
    assert job.kept() == 1 and "too-large" in told(job)


def test_a_directory_without_a_checkpoint_is_reported_until_one_is_kept(job: Job) -> None:
    folder, go = job.checkpoints, job.scratch / "go"
    job.spec(f"echo > {folder}/train-9.log; while ! [ -e {go} ]; do sleep 0.1; done; mkdir {folder}/step-5; echo 5 > {folder}/step-5/a; sleep 600")
    with job.machine(1, hurry=QUICK) as machine:
        words = hears(job, machine, "no-checkpoint")
        assert words.startswith(f"`train-9.log` is no checkpoint, nor is anything else in {folder}, and an interruption loses")
        go.touch()
        machine.until(lambda: job.kept() == 5 and is_silent(job))
    assert machine.said().count("`train-9.log` is part of no checkpoint") == 1


def test_a_command_that_completes_no_further_checkpoint_is_reported_until_it_does(job: Job) -> None:
    folder, go = job.checkpoints, job.scratch / "go"
    save = "echo x > step=$n.pt; : > step=$n.pt.complete"
    job.spec(f"cd {folder}; for n in 1 2 3; do {save}; sleep 0.3; done; while ! [ -e {go} ]; do sleep 0.1; done; n=4; {save}; sleep 600")
    with job.machine(1, hurry=HASTY) as machine:
        words = hears(job, machine, "stalled")
        # At this pace a minute is half a second, which a busy machine may take between two of them.
        rhythm = r"(`checkpoint.every` is 1m|before that it completed one at least every \w+)"
        assert re.match(rf"the command has completed no new checkpoint for 1\w+, since step 3: {rhythm}; it has written no output", words), words
        assert words.endswith(", and GPU use is not known")
        work = job.heartbeat(1)["work"]
        assert 600 <= work["stalled_seconds"] == work["step_seconds"] and "gpu_idle_seconds" not in work
        go.touch()
        machine.until(lambda: job.kept() == 4 and is_silent(job))
        assert job.heartbeat(1)["work"]["step_seconds"] < 600


def test_a_silent_setup_is_reported_until_it_writes(job: Job) -> None:
    go = job.scratch / "go"
    job.spec("sleep 600", checkpoint=False, more=f'setup = "while ! [ -e {go} ]; do sleep 0.1; done; echo installed; sleep 600"')
    with job.machine(1, hurry=HASTY) as machine:
        assert hears(job, machine, "stalled").startswith("`setup` has written no output for 2")
        go.touch()
        machine.until(lambda: told(job) == {})


def test_inputs_that_do_not_arrive_are_reported(job: Job) -> None:
    job.put("data/a", "1")
    job.aws.fault("s3:GetObject", "slow", seconds=60, match="data/a", times=None)
    job.spec("true", checkpoint=False, more=f'[[inputs]]\nfrom = "s3://{BUCKET}/data/"\nto = "{job.scratch}/data"\n[machine]\nuser = "root"')
    with job.machine(1, hurry=HASTY) as machine:
        assert hears(job, machine, "stalled").startswith("no data of the inputs has arrived for 2")


def test_an_undeleted_checkpoint_is_reported_until_it_is_deleted(job: Job) -> None:
    folder, go = job.checkpoints, job.scratch / "go"
    writes = " ".join(f"mkdir {folder}/step-{step}; echo a > {folder}/step-{step}/a; touch {folder}/step-{step}/.complete; while ! [ -e {go}-{step} ]; do sleep 0.1; done;" for step in (1, 2, 3))
    job.spec(f"{writes} sleep 600", keep=1)
    job.aws.fault("s3:DeleteObjects", "access_denied", times=None)
    with job.machine(1) as machine:
        machine.until(lambda: job.kept() == 1)
        Path(f"{go}-1").touch()
        words = hears(job, machine, "not-pruned", SOON)
        assert words.startswith("the checkpoint of step 1 is not deleted, and still costs money: s3:DeleteObjectVersion on s3://") and "grant" in words
        job.aws.clear_faults()
        Path(f"{go}-2").touch()
        machine.until(lambda: job.kept() == 3 and is_silent(job))
    assert job.manifests() == [(1, 3)]


def test_a_missing_directory_is_reported_until_it_exists_again(job: Job) -> None:
    go = job.scratch / "go"
    job.spec(f"rmdir {job.checkpoints}; while ! [ -e {go} ]; do sleep 0.1; done; mkdir {job.checkpoints}; sleep 600")
    with job.machine(1, hurry=QUICK) as machine:
        assert hears(job, machine, "directory") == f"the checkpoint directory {job.checkpoints} is gone"
        go.touch()
        machine.until(lambda: "directory" not in told(job))


def test_a_full_disk_is_reported_until_there_is_room(job: Job, full_disk: Path) -> None:
    job.checkpoints = full_disk / "checkpoints"
    junk, go = full_disk / "junk", job.scratch / "go"
    job.spec(f"head -c {64 * MIB} /dev/zero > {junk}; while ! [ -e {go} ]; do sleep 0.1; done; rm {junk}; sleep 600")
    with job.machine(1, hurry=QUICK, disk=False) as machine:
        assert hears(job, machine, "disk").startswith(f"the disk of {job.checkpoints} is nearly full (")
        go.touch()
        machine.until(lambda: "disk" not in told(job))


# A training that a helper feeds: without it there is nothing to save. Like a loader process, the helper ends by the signal.
FED = """
import os, signal, subprocess, sys, time
helper = subprocess.Popen([sys.executable, "-c", "import time\\nwhile True: print(1, flush=True); time.sleep(0.02)"], stdout=subprocess.PIPE)
stop, step, folder = [], 0, os.environ["CURFEW_CHECKPOINT_DIR"]
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
while True:
    if not helper.stdout.readline():
        sys.exit("the helper is gone")
    step += 1
    print("at", step, flush=True)
    if stop or step == 10:
        with open(f"{folder}/step={step}.pt", "w") as file:
            file.write(helper.stdout.readline().decode())
        open(f"{folder}/step={step}.pt.complete", "w").close()
    if stop:
        helper.kill()
        sys.exit(143)
"""

# Passes the signal on to all of its session, as the launchers of trainings do.
LAUNCHER = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, *sys.argv[1:]], start_new_session=True)
signal.signal(signal.SIGTERM, lambda *_: os.killpg(child.pid, signal.SIGTERM))
sys.exit(child.wait() % 256)
"""


@pytest.mark.parametrize(
    "line",
    [
        "exec {python} {training}",
        "cd / && {python} {training}; echo not-reached",
        "{python} {training} 2>&1 | tee {scratch}/log",
        "timeout 600 {python} {training}; echo not-reached",
        "{python} {torchrun} {training}",
        "sh {scratch}/run.sh",
    ],
)
def test_the_signal_reaches_the_process_that_saves(job: Job, line: str) -> None:
    names = {"python": sys.executable, "scratch": job.scratch, "training": job.scratch / "train.py", "torchrun": job.scratch / "torchrun"}
    names["training"].write_text(FED)
    names["torchrun"].write_text(LAUNCHER)
    (job.scratch / "run.sh").write_text("{python} {training} | cat\n".format(**names))
    job.spec(line.format(**names))
    with job.machine(1) as machine:
        machine.until(lambda: job.kept() == 10)
        machine.until(lambda: "at 60\n" in machine.said())
        machine.metadata.warn(seconds=60)
        machine.ends()
    assert job.kept() >= 60 and "not-reached" not in machine.said(), machine.said()[-900:]
    assert "lost-at-signal" not in told(job) and "and is killed" not in machine.said()


def test_work_that_is_lost_at_the_signal_is_told_by_the_next_attempt(job: Job) -> None:
    folder = job.checkpoints
    job.spec(f"[ $CURFEW_ATTEMPT = 1 ] || exec sleep 600; echo 1 > {folder}/step-1; : > {folder}/step-1.complete; trap 'exit 9' TERM; while :; do sleep 0.1; done")
    with job.machine(1) as machine:
        machine.until(lambda: job.kept() == 1)
        # Half a minute is 1.5 s here.
        time.sleep(4)
        machine.metadata.warn(seconds=30)
        machine.ends()
    lost = told(job)["lost-at-signal"]
    assert lost.startswith("the command ended with exit code 9 after SIGTERM, and no checkpoint") and lost in job.exit(1)["why"], lost
    with job.machine(2) as machine:
        assert hears(job, machine, "lost-at-signal") == f"attempt 1: {lost}"
