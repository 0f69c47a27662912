"""Warnings for the owner of a job: the heartbeat of the real agent has each as long as it lasts."""

from __future__ import annotations

from pathlib import Path


from attempts import HURRY, NAME, Job, Machine, head

MIB = 1024 * 1024
QUICK = 60  # where a minute of the agent is nothing but waited for

# Longer than a minute of the agent takes here, and shorter than one takes on a real machine.
SOON = 40


def told(job: Job, attempt: int = 1) -> dict[str, str]:
    """Words by kind; at most one of each."""
    troubles = (job.heartbeat(attempt) or {}).get("warnings", [])
    words = {trouble["kind"]: trouble["words"] for trouble in troubles}
    assert len(words) == len(troubles)
    return words


def hears(job: Job, machine: Machine, kind: str, seconds: float = 60) -> str:
    return machine.until(lambda: told(job, machine.attempt).get(kind), seconds)


def with_checkpoints(job: Job, *damaged: int) -> None:
    """The first attempt has kept steps 1 and 2; some are damaged since."""
    folder = job.checkpoints
    job.spec(f"for step in 1 2; do mkdir {folder}/step-$step; echo of-$step > {folder}/step-$step/weights; touch {folder}/step-$step/.complete; sleep 2; done")
    with job.machine(1) as machine:
        machine.ends()
    assert job.manifests() == [(1, 1), (1, 2)] and told(job) == {}
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
        machine.until(lambda: job.kept() == 5 and told(job) == {})
    assert machine.said().count("`train-9.log` is part of no checkpoint") == 1


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
        machine.until(lambda: job.kept() == 3 and told(job) == {})
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
