"""Checkpoints of the real agent: kept, restored, damaged, fenced, pruned, and brought away when a machine is taken back."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path


from attempts import BUCKET, NAME, NOTICE_SECONDS, Job, Machine, head, is_taken_back

MIB = 1024 * 1024
EARLIER = "vision/earlier-00000001"


def test_a_warned_training_is_flushed_and_resumes_elsewhere(job: Job) -> None:
    job.training(200, "--every", "1000")
    with job.machine(1) as machine:
        machine.until(lambda: len(job.steps()) > 5)
        machine.metadata.warn(NOTICE_SECONDS)
        machine.ends()
    exit = job.exit(1)
    assert (exit["reason"], exit["code"]) == ("interrupted", 143)
    assert "EC2 takes the machine back (terminate at" in exit["why"]
    done = len(job.steps())
    # It wrote its only checkpoint when it was told, and that was brought away.
    assert job.head() == json.loads(head(1, (1, done)))
    with job.machine(2) as machine:
        machine.until(lambda: len(job.steps()) > done)
        assert f"resumes from step {done}, which attempt 1 kept" in machine.said()
        machine.ends()
    assert job.result.read_text() == job.expected
    assert [step for _, step in job.steps()] == list(range(1, 201)), "nothing is done twice"


def begins_with(job: Job, earlier: str) -> None:
    spec = job.get(f"jobs/{NAME}/spec.toml").decode()
    job.put(f"jobs/{NAME}/spec.toml", f'resume_from = "{earlier}"\n{spec}')


def earlier_job(job: Job) -> None:
    """The job EARLIER, with the checkpoints of the steps 5 and 10."""
    job.training_that_waits(10)
    with job.machine(1) as machine:
        job.keep_each(machine, 5)
        machine.ends()
    assert job.manifests() == [(1, 5), (1, 10)]
    for folder in (f"attempts/{NAME}/", f"checkpoints/{NAME}/"):
        for found in job.s3.list_objects_v2(Bucket=BUCKET, Prefix=folder)["Contents"]:
            key = found["Key"]
            job.put(key.replace(NAME, EARLIER), job.get(key))
            job.s3.delete_object(Bucket=BUCKET, Key=key)


def test_a_job_begins_with_the_checkpoint_of_another_and_keeps_it_as_its_own(job: Job) -> None:
    earlier_job(job)
    job.training(20)
    begins_with(job, "earlier-00000001")
    with job.machine(1) as machine:
        machine.ends()
    assert f"resumes from step 10, which attempt 1 of {EARLIER} kept" in job.log(1)
    assert job.result.read_text() == job.expected and job.kept() == 20
    assert [step for _, step in job.steps()] == list(range(1, 21)), "nothing is done twice"


def test_a_job_begins_with_the_newest_whole_checkpoint_that_the_other_still_has(job: Job) -> None:
    earlier_job(job)
    fence, folder = f"attempts/{NAME}/head.json", f"checkpoints/{EARLIER}/1"
    job.spec("echo from $CURFEW_RESUME_STEP; [ -e $CURFEW_RESUME_FROM ]")
    begins_with(job, "earlier-00000001")
    # Its own is damaged.
    job.put(fence, head(1, (1, 20)))
    with job.machine(2) as machine:
        machine.ends()
    assert "from 10\n" in job.log(2) and "starts at zero" not in job.log(2) and job.head()["result"]["succeeded"]
    # The newest of the other is gone: there is an older one, or one that the other job, which still runs, kept meanwhile.
    job.s3.delete_object(Bucket=BUCKET, Key=f"{folder}/10/manifest.json")
    for attempt, kept in ((3, [(1, 5)]), (4, [])):
        job.s3.delete_object(Bucket=BUCKET, Key=fence)
        job.put(f"attempts/{EARLIER}/head.json", head(1, (1, 10), kept=kept))
        if not kept:
            newer = {"bucket": BUCKET, "key": f"attempts/{EARLIER}/head.json", "text": head(1, (1, 5))}
            job.aws.before("s3:GetObject", {"put_object": newer}, match=f"{EARLIER}/1/10/manifest.json")
        with job.machine(attempt) as machine:
            machine.ends()
        assert "from 5\n" in job.log(attempt), machine.said()
    # None is left: it does not begin at zero.
    job.s3.delete_object(Bucket=BUCKET, Key=f"{folder}/5/manifest.json")
    for name, why in (("never-00000001", "has no checkpoint to resume from; "), ("earlier-00000001", "has no checkpoint left that can be restored (")):
        job.s3.delete_object(Bucket=BUCKET, Key=fence)
        job.spec("echo never")
        begins_with(job, name)
        with job.machine(5) as machine:
            machine.ends()
        exit = job.exit(5)
        assert (exit["reason"], exit["code"]) == ("failed", 126)
        assert exit["why"].startswith(f"vision/{name} {why}") and exit["why"].endswith(f"; run the job from its beginning: curfew rerun {NAME}")


def test_a_command_that_ignores_the_signal_is_killed_and_its_complete_checkpoints_are_kept(job: Job) -> None:
    job.training(10_000, "--every", "10", "--deaf")
    with job.machine(1) as machine:
        machine.until(lambda: job.kept())
        # Without that moment it would have two minutes, which is longer than anybody waits for its end here. Half of the time is the command's,
        # and of the rest half that of the upload.
        machine.metadata.warn(seconds=20)
        machine.ends()
    assert job.exit(1)["reason"] == "interrupted" and job.exit(1)["code"] is None
    assert "did not end after SIGTERM, and is killed" in job.log(1)
    assert job.kept() % 10 == 0 and job.kept() >= len(job.steps()) - 10


def test_a_damaged_checkpoint_is_skipped_and_that_is_said(job: Job) -> None:
    job.training_that_waits(15)
    with job.machine(1) as machine:
        job.keep_each(machine, 5, 10)
        machine.ends()
    assert job.manifests() == [(1, 5), (1, 10), (1, 15)]
    assert job.head()["kept"] == [{"attempt": 1, "step": 10}, {"attempt": 1, "step": 5}]
    job.put(f"attempts/{NAME}/head.json", head(1, (1, 15), kept=[(1, 10), (1, 5)]))
    key, manifest = f"checkpoints/{NAME}/1/15/files/step-15/weights/padding.bin", f"checkpoints/{NAME}/1/10/manifest.json"
    job.put(key, b"x" * len(job.get(key)))
    job.put(manifest, job.get(manifest)[:-9])
    job.training(20)
    with job.machine(2) as machine:
        machine.ends()
    said = machine.said()
    assert "the checkpoint of step 15 is damaged" in said and "does not have its checksum from byte 0" in said
    assert "the checkpoint of step 10 is damaged" in said
    assert "resumes from step 5, which attempt 1 kept" in said
    assert job.result.read_text() == job.expected
    assert (1, 15) not in job.manifests() and (1, 10) not in job.manifests()


def test_an_unreadable_checkpoint_is_kept_and_fails_the_job(job: Job) -> None:
    job.training(10)
    with job.machine(1) as machine:
        machine.ends()
    job.aws.fault("s3:GetObject", "access_denied", match="1/10/manifest.json", times=None)
    job.put(f"attempts/{NAME}/head.json", head(1, (1, 10), kept=[(1, 5)]))
    with job.machine(2) as machine:
        machine.ends()
    assert (job.exit(2)["reason"], job.exit(2)["code"]) == ("failed", 126)
    assert "the checkpoint of step 10 cannot be restored" in job.exit(2)["why"]
    assert "AccessDenied" in job.exit(2)["why"]
    assert (1, 10) in job.manifests() and job.kept() == 10


def test_nothing_is_deleted_while_keep_is_unknown(job: Job) -> None:
    job.training_that_waits(20)
    job.s3.delete_object(Bucket=BUCKET, Key=f"jobs/{NAME}/state.json")
    # Neither what the spec says nor the default of the configuration is asked: the machine's role may not read that.
    job.aws.fault("s3:GetObject", "access_denied", match="config/curfew.toml", times=None)
    with job.machine(1) as machine:
        job.keep_each(machine, 5, 10, 15)
        machine.ends()
    assert "the number of checkpoints to keep is unknown, so none is deleted" in machine.said()
    assert len(job.manifests()) > 3
    assert len(job.head()["kept"]) == len(job.manifests()) - 1


def test_a_deletion_removes_every_version(job: Job) -> None:
    """In a bucket with versions, like that of a deployment."""
    job.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    job.training(20, "--step-seconds", "0.2", keep=1)
    job.aws.fault("s3:GetObject", "error500", match="state.json", times=1, every_attempt=True)
    with job.machine(1) as machine:
        machine.ends()
    assert "state.json cannot be read yet" in machine.said() and job.manifests() == [(1, 20)]
    there = job.s3.list_object_versions(Bucket=BUCKET, Prefix=f"checkpoints/{NAME}/")
    assert {found["Key"].split("/")[4] for found in there["Versions"]} == {"20"} and "DeleteMarkers" not in there


def runs(job: Job, machine: Machine) -> None:
    """Waits until the command has written down what it resumes from."""
    machine.until(lambda: job.trail.exists() and job.trail.read_text().count("\n") == machine.attempt)


def resumes(job: Job) -> None:
    """A command that writes down what it resumes from, and leaves the checkpoints to the test."""
    job.spec(f'echo "${{CURFEW_RESUME_FROM:+$(cat "$CURFEW_RESUME_FROM")}}" >> {job.trail}; sleep 600')


def test_a_rewritten_checkpoint_is_kept_beside_the_first_and_replaced_by_it_if_damaged(job: Job) -> None:
    file = job.checkpoints / "model-1.ckpt"
    resumes(job)
    with job.machine(1, hurry=60) as machine:
        runs(job, machine)
        file.write_text("one\n")
        machine.until(lambda: job.kept() == 1)
        is_taken_back(machine)
    with job.machine(2, hurry=60) as machine:
        runs(job, machine)
        file.write_text("two\n")
        machine.until(lambda: job.head() == json.loads(head(2, (2, 1), kept=[(1, 1)])))
        assert "step 1 changed after it was kept, and is uploaded again" in machine.said()
        is_taken_back(machine)
    assert job.manifests() == [(1, 1), (2, 1)]
    job.put(f"checkpoints/{NAME}/2/1/files/model-1.ckpt", "torn")
    with job.machine(3, hurry=60) as machine:
        runs(job, machine)
        file.write_text("three\n")
        machine.until(lambda: job.head() == json.loads(head(3, (3, 1), kept=[(1, 1)])))
        machine.until(lambda: job.manifests() == [(1, 1), (3, 1)])
    assert job.trail.read_text().splitlines() == ["", "one", "one"]
    assert "the checkpoint of step 1 is damaged" in machine.said()


def test_large_files_go_in_parts_and_a_failed_part_again(job: Job) -> None:
    job.spec(
        f"mkdir {job.checkpoints}/step-1; cd {job.checkpoints}/step-1; yes 0123456789abcde | head -c {20 * MIB + 17} > large; "
        f"yes small | head -c 1000 > small; : > empty; sha256sum large > {job.scratch}/sum; touch .complete"
    )
    job.aws.fault("s3:UploadPart", "error500", times=1, every_attempt=True)
    with job.machine(1) as machine:
        machine.ends()
    assert job.kept() == 1
    manifest = json.loads(job.get(f"checkpoints/{NAME}/1/1/manifest.json"))
    large = next(file for file in manifest["files"] if file["path"] == "step-1/large")
    assert (large["bytes"], len(large["sha256"])) == (20 * MIB + 17, 2)
    job.put(f"attempts/{NAME}/head.json", head(1, (1, 1)))
    job.spec(f"cd $CURFEW_RESUME_FROM && sha256sum -c {job.scratch}/sum && [ -f empty ] && [ $(stat -c %s small) = 1000 ]")
    job.aws.fault("s3:GetObject", "cut_off", match="large", times=1, every_attempt=True)
    with job.machine(2) as machine:
        machine.ends()
    assert job.head()["result"]["succeeded"], machine.said()
    assert "large: OK" in job.log(2)


def test_looks_at_many_small_files_take_no_more_memory_with_time(job: Job) -> None:
    many = job.checkpoints / "step-0"
    job.spec(
        f"mkdir {many} && cd {many} && {sys.executable} -c 'for number in range(20_000): open(f\"{{number:0150}}\", \"w\").close()'; "
        f"touch {job.scratch}/written; sleep 1000"
    )
    with job.machine(1) as machine:
        machine.until((job.scratch / "written").exists)
        for number in range(1, 7):
            step = job.checkpoints / f"step-{number}"
            step.mkdir()
            for name in range(32):
                (step / str(name)).write_text("small")
            (step / ".complete").touch()
            machine.until(lambda: job.kept() == number)
        status = Path(f"/proc/{machine.process.pid}/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024
    assert peak < 64, f"{peak} MiB at its peak"


def test_a_restarted_machine_trusts_only_the_bucket(job: Job) -> None:
    job.training_that_waits(60, "--every", "10", after=10)
    with job.machine(1) as machine:
        machine.until(lambda: job.kept())
        machine.pull_the_plug()
    job.pause_after.unlink()
    kept = job.kept()
    torn = job.checkpoints / f"step-{kept + 1}"
    torn.mkdir()
    (torn / "_SUCCESS").touch()
    with job.machine(1, disk=False) as machine:
        machine.ends()
    assert f"resumes from step {kept}, which attempt 1 kept" in machine.said()
    assert "the earlier contents of the checkpoint directory are moved to" in machine.said()
    assert job.result.read_text() == job.expected


def test_a_recommendation_is_said_and_ends_nothing(job: Job) -> None:
    job.training(60)
    with job.machine(1) as machine:
        machine.metadata.recommend()
        machine.ends()
    assert "EC2 recommends to move this machine" in job.log(1)
    assert job.result.read_text() == job.expected


def test_a_full_disk_fails_the_job_with_the_reason(job: Job, full_disk: Path) -> None:
    job.checkpoints = full_disk / "checkpoints"
    job.spec(f"mkdir {job.checkpoints}/step-1 && head -c {64 * MIB} /dev/zero > {job.checkpoints}/step-1/a")
    with job.machine(1, disk=False) as machine:
        machine.ends()
    result = job.head()["result"]
    assert not result["succeeded"]
    assert f"the disk of {job.checkpoints} was full" in result["why"] and "root_volume_gib" in result["why"]


def test_a_checkpoint_too_large_for_the_disk_fails_the_job(job: Job, full_disk: Path) -> None:
    job.spec(f"mkdir {job.checkpoints}/step-1; head -c {20 * MIB} /dev/zero > {job.checkpoints}/step-1/a")
    with job.machine(1) as machine:
        machine.ends()
    job.put(f"attempts/{NAME}/head.json", head(1, (1, 1)))
    job.checkpoints = full_disk / "checkpoints"
    job.spec("echo never")
    with job.machine(2, disk=False) as machine:
        machine.ends()
    assert (job.exit(2)["reason"], job.exit(2)["code"]) == ("failed", 126)
    assert "cannot be restored" in job.exit(2)["why"] and "No space left" in job.exit(2)["why"]
    assert job.kept() == 1


def test_the_best_checkpoint_and_the_pointer_come_back_beside_the_newest(job: Job) -> None:
    folder = job.checkpoints
    one = 'mkdir checkpoint-$n; echo $n > checkpoint-$n/a; echo checkpoint-$n > latest; ' + (
        'printf \'{"best_model_checkpoint": "%s/checkpoint-1", "epoch": 1}\' $PWD > checkpoint-$n/trainer_state.json'
    )
    kept = f"while ! [ -e {job.scratch}/kept-$n ]; do sleep 0.1; done"
    job.spec(f"cd {folder}; for n in 1 2 3; do {one}; {kept}; done; sleep 600", keep=1)
    with job.machine(1) as machine:
        for step in (1, 2, 3):
            machine.until(lambda: job.kept() == step)
            (job.scratch / f"kept-{step}").touch()
        machine.pull_the_plug()
    job.spec(f"cd {folder} && [ $CURFEW_RESUME_FROM = {folder}/checkpoint-3 ] && [ $(cat checkpoint-1/a) = 1 ] && [ $(cat latest) = checkpoint-3 ] && ! [ -e checkpoint-2 ]")
    with job.machine(2) as machine:
        machine.ends()
    assert job.head()["result"]["succeeded"], machine.said()
    assert "step 1, which the command keeps besides, is restored as well" in machine.said()
