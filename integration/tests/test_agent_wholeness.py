"""What a framework says of the completeness of its checkpoints, and a command that counts again or did not resume. Each command writes the names of a
framework in its order; a minute of the agent is three seconds here."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from attempts import Job, Machine, is_taken_back

# A framework as Megatron-LM, DeepSpeed or NeMo: it saves every 10 steps, says in its own way that a save is complete, and resumes only from what it
# calls complete. At the step `torn` it hangs in the middle of a save.
FRAMEWORK = '''
import os, re, shutil, sys, time
way, torn = sys.argv[1], int(sys.argv[2])
os.chdir(os.environ["CURFEW_CHECKPOINT_DIR"])

def begin(name):
    if way == "mark": open(name + "-unfinished", "w").close()

def commit(name):
    if way == "mark": os.unlink(name + "-unfinished")
    elif way == "flag": open(name + ".done", "w").close()
    elif way == "link": os.symlink(name, ".new"); os.replace(".new", "latest")
    else: open(".new", "w").write(name if way == "latest" else name.split("-")[1]); os.replace(".new", way)

def resume():
    names = [name for name in os.listdir() if re.fullmatch("step-[0-9]+", name)]
    if way == "mark": whole = [name for name in names if not os.path.exists(name + "-unfinished")]
    elif way == "flag": whole = [name for name in names if os.path.exists(name + ".done")]
    elif way == "link": whole = [os.readlink("latest")] if os.path.lexists("latest") else []
    else: whole = ["step-" + open(way).read().split("-")[-1]] if os.path.exists(way) else []
    steps = [int(name[5:]) for name in whole if os.path.exists(name)]
    return max(steps, default=0)

step = resume()
print(f"begins after {step}.", flush=True)
while step < 40:
    step += 10
    name = f"step-{step}"
    begin(name)
    os.mkdir(name)
    with open(name + "/model.bin", "w") as file:
        file.write("x" * 100_000)
        file.flush()
        if step == torn: print(f"hangs at {step}.", flush=True); time.sleep(600)
        file.write("END")
    commit(name)
    time.sleep(4)
'''


def program(job: Job, code: str, *arguments: str) -> None:
    (job.scratch / "program.py").write_text(code)
    job.spec(f"exec {sys.executable} {job.scratch}/program.py {' '.join(arguments)}")


@pytest.mark.parametrize(
    ("way", "is_warned"),
    [("latest_checkpointed_iteration.txt", True), ("latest", False), ("link", True), ("mark", True), ("mark", False), ("flag", False)],
)
def test_a_step_that_its_framework_does_not_call_complete_is_not_resumed_from(job: Job, way: str, is_warned: bool) -> None:
    program(job, FRAMEWORK, way, "$([ $CURFEW_ATTEMPT = 1 ] && echo 30)", "0")
    with job.machine(1) as machine:
        machine.until(lambda: "hangs at 30." in machine.said())
        # Two quiet minutes, and then the plug is pulled.
        time.sleep(0.5 if is_warned else 7)
        if is_warned:
            is_taken_back(machine)
    with job.machine(2) as machine:
        machine.until(lambda: re.search("begins after [0-9]+[.]", machine.said()))
        assert "begins after 20." in machine.said(), machine.said()


def begins(machine: Machine, path: str) -> bool:
    return machine.until(lambda: "from=" in machine.said()) and f"from={path}\n" in machine.said()


SHELL = "cd $CURFEW_CHECKPOINT_DIR; echo from=${CURFEW_RESUME_FROM##*/}; save() { mkdir -p $1; echo $1 >$1/a; : >$1/_SUCCESS; sleep 1; }; "


def test_a_command_that_ignores_its_checkpoint_goes_back_and_then_keeps_what_it_does(job: Job) -> None:
    job.spec(SHELL + f"if [ $CURFEW_ATTEMPT = 1 ]; then save step-20; until [ -e {job.trail} ]; do sleep 0.1; done; save step-30; sleep 600; fi; save step-5; save step-10; sleep 4")
    with job.machine(1) as machine:
        machine.until(lambda: job.kept() == 20)
        job.trail.touch()
        machine.until(lambda: job.kept() == 30)
    with job.machine(2) as machine:
        machine.ends()
    assert "it wrote step 5: the agent runs it again" in machine.said() and machine.said().count("from=step-") == 2
    assert (job.head()["began_again"], job.newest("step-10/a")) == (2, b"step-10\n")
    assert "resumed" not in job.exit(2)["why"] and "it did not resume from step 20" in job.exit(2)["why"], job.exit(2)
    assert {"attempt": 1, "step": 20, "rewrite": 0}.items() <= job.head()["kept"][0].items() or len(job.head()["kept"]) > 0
    [warning] = [one for one in job.heartbeat(2)["warnings"] if one["kind"] == "damaged"]
    assert "did not resume" in warning["words"]


def test_a_second_training_is_kept_and_state_goes_with_its_step(job: Job) -> None:
    kept = f"until [ -e {job.scratch}/kept-$n ]; do sleep 0.1; done"
    job.spec(
        SHELL
        + f"if [ $CURFEW_ATTEMPT = 1 ]; then save pretrain-step-1000; sleep 1; n=1000; {kept}; for n in 10 20; do "
        # Between the beginning and the mark of its step, so that no pause of a busy machine puts it before the step.
        "mkdir -p recipe_state finetune-step-$n; echo begun >finetune-step-$n/b; "
        f"head -c 2000000 /dev/urandom >state-of-$n; mv state-of-$n recipe_state/state.bin; save finetune-step-$n; sleep 3; {kept}; done; fi; sleep 600"
    )
    with job.machine(1) as machine:
        for name in ("pretrain-step-1000", "finetune-step-10", "finetune-step-20"):
            machine.until(lambda: job.newest(f"{name}/a"))
            (job.scratch / f"kept-{name.rpartition('-')[2]}").touch()
        assert job.newest("recipe_state/state.bin") is not None, job.keys("checkpoints/")
        kept = (job.checkpoints / "recipe_state" / "state.bin").read_bytes()
    with job.machine(2) as machine:
        assert begins(machine, "finetune-step-20"), machine.said()
    assert (job.checkpoints / "recipe_state" / "state.bin").read_bytes() == kept


def test_what_setup_wrote_is_no_checkpoint_and_text_keeps_its_step(job: Job) -> None:
    job.spec(
        "cd $CURFEW_CHECKPOINT_DIR; echo from=${CURFEW_RESUME_FROM##*/} step=$CURFEW_RESUME_STEP; "
        "for n in 10 20; do echo $n >model_$n.txt; : >model_$n.txt.complete; sleep 1; done; sleep 600",
        more='setup = "mkdir -p $CURFEW_CHECKPOINT_DIR/pretrained-step-5000 && echo x >$CURFEW_CHECKPOINT_DIR/pretrained-step-5000/a"',
    )
    with job.machine(1) as machine:
        machine.until(lambda: job.kept() == 20)
    with job.machine(2) as machine:
        machine.until(lambda: "from=" in machine.said())
        assert "from=model_20.txt step=20" in machine.said(), machine.said()


def test_a_copy_under_a_fixed_name_comes_back(job: Job) -> None:
    """As of fairseq, which resumes from `checkpoint_last.pt`, and copies the newest to it."""
    job.spec(
        "cd $CURFEW_CHECKPOINT_DIR; echo from=$(head -c 7 checkpoint_last.pt 2>/dev/null); for n in 1 2; do (echo of-ep-$n; head -c 2000000 /dev/zero) >checkpoint$n.pt; "
        "cp checkpoint$n.pt checkpoint_last.pt; : >checkpoint$n.pt.complete; sleep 3; done; sleep 600"
    )
    with job.machine(1) as machine:
        machine.until(lambda: job.kept() == 2)
    assert not [key for key in job.keys("checkpoints/") if "checkpoint_last" in key], "it is not uploaded twice"
    with job.machine(2) as machine:
        assert begins(machine, "of-ep-2"), machine.said()


def test_the_exit_record_is_in_time_however_slow_the_upload_is(job: Job) -> None:
    job.spec("trap 'echo x >$CURFEW_CHECKPOINT_DIR/step=1.pt; exit 0' TERM; echo runs; while :; do sleep 0.1; done")
    with job.machine(1) as machine:
        machine.until(lambda: "runs" in machine.said())
        job.aws.fault("s3:PutObject", "slow", seconds=60, match="/files/", times=None)
        machine.metadata.warn(seconds=30)
        warned = time.monotonic()
        machine.ends()
        # Ten seconds are for what comes after an upload, and five are left at the end; a busy machine takes some of these.
        assert time.monotonic() - warned < 29
        job.aws.clear_faults()
    assert job.exit(1)["reason"] == "interrupted" and "no time to upload its last checkpoint" in job.exit(1)["why"]


def test_held_checkpoints_leave_the_command_its_disk(job: Job, full_disk: Path) -> None:
    """The disk has room for two and a half; the command keeps one, and writes the next before it deletes that."""
    job.checkpoints = full_disk / "checkpoints"
    job.spec(
        "cd $CURFEW_CHECKPOINT_DIR; for n in 1 2 3 4; do mkdir new-$n && head -c 2700000 /dev/urandom >new-$n/a && mv new-$n step-$n || exit 5; "
        "rm -rf step-$((n-1)); sleep 3; done; echo trained"
    )
    for operation in ("s3:PutObject", "s3:UploadPart"):
        job.aws.fault(operation, "slow", match="/files/", seconds=8, times=None)
    with job.machine(1, disk=False) as machine:
        machine.until(lambda: "trained" in machine.said() or "failed" in machine.said())
        job.aws.clear_faults()
        machine.ends()
    assert job.exit(1)["reason"] == "succeeded", machine.said()
    assert job.newest("step-4/a") is not None
