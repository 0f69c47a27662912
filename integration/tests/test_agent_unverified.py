"""Unverified checkpoints, which may be incomplete because their command did not succeed: the agent keeps them, and steps back from one on which
a command fails."""

from __future__ import annotations

import json
from pathlib import Path


from attempts import Job, Machine, head, is_taken_back


def unverified(job: Job) -> list[tuple[int, int]]:
    """Attempt and step of the unverified checkpoints in head."""
    return [(one["attempt"], one["step"]) for one in job.head().get("unverified", [])]


def test_an_unmarked_checkpoint_of_a_signal_handler_is_resumed_from(job: Job) -> None:
    job.training(200, "--every", "1000", "--unmarked")
    with job.machine(1) as machine:
        machine.until(lambda: len(job.steps()) > 5)
        is_taken_back(machine)
    done = len(job.steps())
    assert (job.exit(1)["reason"], job.exit(1)["code"], "not kept" in job.exit(1)["why"]) == ("interrupted", 143, False)
    assert (job.kept(), unverified(job)) == (done, [(1, done)])
    assert f"the checkpoint of step {done} may be incomplete" in job.log(1)
    with job.machine(2) as machine:
        machine.ends()
    assert f"resumes from step {done}, which attempt 1 kept, which may be incomplete" in machine.said()
    assert job.result.read_text() == job.expected
    assert [step for _, step in job.steps()] == list(range(1, 201)), "nothing is done twice"
    assert job.manifests() == [(1, done), (2, 200)] and not unverified(job), "what was gone on from was whole"


def test_a_checkpoint_renamed_just_before_the_signal_is_kept_beside_a_verified_one(job: Job) -> None:
    folder = job.checkpoints
    job.spec(f"cd {folder}; n=0; while :; do n=$((n+1)); echo $n > .new; mv .new model-$n.pt; sleep 0.2; done", keep=1)
    # A minute, in which the newest is not certain, is 6 s here: longer than a busy machine takes from the signal to the last look.
    with job.machine(1, hurry=10) as machine:
        machine.until(lambda: job.kept())
        is_taken_back(machine)
    newest = max(int(path.stem.partition("-")[2]) for path in folder.glob("model-*.pt"))
    assert (job.kept(), job.newest(f"model-{newest}.pt")) == (newest, b"%d\n" % newest)
    [certain] = job.head()["kept"]
    assert unverified(job) == [(1, newest)] and job.manifests() == [(1, certain["step"]), (1, newest)]


def runs(job: Job) -> list[str]:
    """Of each run of the command its attempt, and the file that it resumed from."""
    return job.trail.read_text().splitlines() if job.trail.exists() else []


def is_killed_while_it_writes(job: Job, then: str) -> None:
    """Attempt 1 leaves a whole checkpoint 1 and a torn checkpoint 2. Each later one does `then`."""
    folder = job.checkpoints
    job.spec(
        f'echo "$CURFEW_ATTEMPT ${{CURFEW_RESUME_FROM##*/}}" >> {job.trail}; '
        # The second is never quiet, however long it takes until the signal comes.
        f"cd {folder}; if [ $CURFEW_ATTEMPT = 1 ]; then while sleep 0.1; do [ -e model-2.pt ] && printf ha >> model-2.pt; done; fi; {then}",
        more=f'setup = "echo >> {job.scratch}/setups"',
    )
    # A minute, in which the newest is not certain, is 6 s here.
    with job.machine(1, hurry=10) as machine:
        machine.until(lambda: runs(job))
        (folder / "model-1.pt").write_text("whole")
        machine.until(lambda: job.kept() == 1)
        (folder / "model-2.pt").write_text("ha")
        is_taken_back(machine)
    assert (job.kept(), unverified(job)) == (2, [(1, 2)])


READS = 'if [ -n "$CURFEW_RESUME_FROM" ]; then grep -q whole "$CURFEW_RESUME_FROM" || exit 3; fi; '


def test_a_command_that_fails_on_an_incomplete_checkpoint_runs_again_from_the_previous_one(job: Job) -> None:
    is_killed_while_it_writes(job, READS + "printf whole > model-3.pt; exit 0")
    with job.machine(2) as machine:
        machine.ends()
    assert runs(job) == ["1 ", "2 model-2.pt", "2 model-1.pt"]
    assert (job.scratch / "setups").read_text() == "\n\n", "once on each machine"
    expect = json.loads(head(2, (2, 3), kept=[(1, 1)]))
    assert {**job.head(), "result": None} == expect and job.manifests() == [(1, 1), (2, 3)]
    assert job.head()["result"]["why"] == "the command has ended with success; resumed from step 1"
    assert "the command has failed with exit code 3, soon after it resumed from step 2: the agent runs it again" in job.log(2)
    [trouble] = job.heartbeat(2)["warnings"]
    assert trouble["kind"] == "damaged" and trouble["words"].endswith("exit code 3, soon after it resumed from step 2")
    assert trouble["words"].startswith("it resumes from step 1,")
    assert "resumes from step 1, which attempt 1 kept\n" in job.log(2)


def test_a_command_that_always_fails_runs_twice(job: Job) -> None:
    is_killed_while_it_writes(job, "exit 7")
    with job.machine(2) as machine:
        machine.ends()
    assert runs(job) == ["1 ", "2 model-2.pt", "2 model-1.pt"]
    assert (job.exit(2)["reason"], job.exit(2)["code"]) == ("failed", 7)
    why = job.head()["result"]["why"]
    assert why.startswith("the command has failed with exit code 7; ") and why.endswith("; resumed from step 1")
    assert job.kept() == 2, "which only the command can tell from a whole one"


def test_a_command_that_kept_a_checkpoint_is_not_run_again(job: Job) -> None:
    is_killed_while_it_writes(job, "echo whole > model-3.pt; touch model-3.pt.complete; exit 7")
    with job.machine(2) as machine:
        machine.ends()
    assert runs(job) == ["1 ", "2 model-2.pt"] and job.exit(2)["code"] == 7
    assert (job.kept(), unverified(job)) == (3, [])


def test_files_of_a_failed_run_do_not_verify_a_checkpoint(job: Job) -> None:
    once = f"[ -e {job.result} ] || {{ touch {job.result}; mkdir run-20261122; echo x > run-20261122/events; }}; "
    is_killed_while_it_writes(job, once + READS + "printf whole > model-3.pt; exit 0")
    with job.machine(2) as machine:
        machine.ends()
    assert runs(job) == ["1 ", "2 model-2.pt", "2 model-1.pt"]
    assert {**job.head(), "result": None} == json.loads(head(2, (2, 3), kept=[(1, 1)])) and job.head()["result"]["succeeded"]


def test_an_unverified_checkpoint_does_not_verify_the_previous_one(job: Job) -> None:
    second = f"if [ $CURFEW_ATTEMPT = 2 ]; then mkdir run-9; echo x > run-9/events; touch {job.result}; sleep 600; fi; "
    is_killed_while_it_writes(job, second + READS + "exit 0")
    with job.machine(2) as machine:
        machine.until(job.result.exists)
        is_taken_back(machine)
    assert sorted(unverified(job)) == [(1, 2), (2, 9)]
    with job.machine(3) as machine:
        machine.ends()
    assert runs(job) == ["1 ", "2 model-2.pt", "3 run-9", "3 model-2.pt", "3 model-1.pt"] and job.head()["result"]["succeeded"]


def test_a_failure_after_half_an_hour_is_final(job: Job) -> None:
    is_killed_while_it_writes(job, "sleep 7; exit 3")
    # Half an hour is 6 s here.
    with job.machine(2, hurry=300) as machine:
        machine.ends()
    assert runs(job) == ["1 ", "2 model-2.pt"] and job.exit(2)["reason"] == "failed"


def test_a_failure_during_an_interruption_is_left_to_the_next_attempt(job: Job) -> None:
    # What it leaves behind gets two seconds to end by itself, and five to heed a signal.
    leaves = f"touch {job.result}; if [ $CURFEW_ATTEMPT = 2 ]; then (trap '' TERM; exec sleep 600) & fi"
    is_killed_while_it_writes(job, f"{leaves}; {READS} exit 0")
    with job.machine(2) as machine:
        machine.until(job.result.exists)
        machine.until(lambda: not running(machine, "sh"))
        is_taken_back(machine)
    assert job.exit(2)["reason"] == "interrupted" and job.head()["result"] is None
    assert "which the next attempt retries: EC2 takes the machine back" in job.exit(2)["why"]
    with job.machine(3) as machine:
        machine.ends()
    assert runs(job) == ["1 ", "2 model-2.pt", "3 model-2.pt", "3 model-1.pt"] and job.head()["result"]["succeeded"]


def running(machine: Machine, name: str) -> bool:
    """Whether the agent has a child of that name that has not ended."""
    children = Path(f"/proc/{machine.process.pid}/task/{machine.process.pid}/children")
    stats = [Path(f"/proc/{child}/stat") for child in children.read_text().split()]
    return any(f"({name}) " in text and ") Z" not in text for text in (stat.read_text() for stat in stats if stat.exists()))
