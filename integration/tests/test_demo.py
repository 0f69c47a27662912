"""`make demo` is the acceptance test of the functions: it ends as its story says, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from moto.ec2.models import EC2Backend

import local_aws
from demo import budgets, jobs, verdict_jobs, verdict_volumes
from demo.fleet import REGIONS
from demo.run import Broken, Run
from demo.seed import Account, seed
from demo.storage import NAMELESS, RESTORED
from demo.story import Played, play
from hosts import isolation
from hosts.host import INSIDE
from hosts.inside import processes
from hosts.isolation import NAMESPACES, PROCESSES

INTEGRATION = Path(__file__).resolve().parents[1]
TOLD = {signal.SIGINT: 130, signal.SIGTERM: 143}


@contextmanager
def demo(*words: str, **environment: str) -> Iterator[subprocess.Popen]:
    """The demo, in a session of its own: whatever it starts can be found by that, and is gone after the test."""
    process = subprocess.Popen(
        [sys.executable, *(words or ("-m", "demo"))],
        env={**os.environ, "PYTHONPATH": str(INTEGRATION), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for one in members(process.pid):
            with suppress(ProcessLookupError):
                os.kill(int(one.split()[0]), signal.SIGKILL)
        process.wait()


def members(session: int) -> list[str]:
    """The processes of a session that still live."""
    listed = subprocess.run(["ps", "-e", "-o", "sess=,stat=,pid=,args="], capture_output=True, text=True, check=True)
    rows = [row.split(None, 3) for row in listed.stdout.splitlines()]
    return [" ".join(row[2:]) for row in rows if row[0] == str(session) and not row[1].startswith("Z")]


def test_whoever_has_read_enough_closes_the_pipe() -> None:
    """`python -m demo | head -1`, here without the demo: it only goes on writing."""
    goes_on = "while True: demo.line('more')"
    program = f"import sys\nfrom demo import __main__ as demo\ndef on(_):\n    {goes_on}\ndemo._demo = on\nsys.exit(demo.main())"
    environment = {**os.environ, "PYTHONPATH": str(INTEGRATION)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None and process.stdout.readline() == "more\n"
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(30) == 128 + signal.SIGPIPE


def test_the_story_ends_as_it_should() -> None:
    with demo() as running:
        told, _ = running.communicate(timeout=240)
        assert running.returncode == 0, told
        assert members(running.pid) == []

    for line in (
        "Every machine, volume, budget and job met the fate that the story has for it.",
        "vision heard at 80 % and at 100 % of its budget, and is held.",
        "$ curfew budget vision",
        "$ curfew submit reward-model.toml --team nlp",
        "A machine boots, ",
        "attempt 1  its exit record: interrupted: EC2 takes the machine back",
        "as of a training that nothing disturbs, byte for byte.",
        "From the event to the accepted launch: 6 AWS calls (6 are the most), ",
        "Reserved for jobs: $0.00.",
        "The job reward-model lost two machines, and succeeded on the third, as if nothing had happened.",
        "run-jobs/",
        "curfew:keep-until",
        "plans/",
        "reap-volumes/",
        "aws ec2 create-volume",
        "Type, size, IOPS, throughput, zone, encryption and tags are those of the old one.",
    ):
        assert line in told
    assert "\033[" not in told, "colour is for terminals"
    # Commands can be copied: their words are not broken, and the tags of a volume are one.
    assert max(len(line) for line in told.splitlines() if "ResourceType" not in line) <= 100
    assert len(told.splitlines()) <= 960, "somebody is to read it"


@pytest.mark.parametrize("number", TOLD)
def test_interrupted_it_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the group at once; SIGTERM only the one it is sent to."""
    with demo(TMPDIR=str(tmp_path)) as running:
        wait_for("== Run 2", running)
        assert len(members(running.pid)) == 4, "the demo, who plays it, and the two functions"

        if number == signal.SIGINT:
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)

        told, _ = running.communicate(timeout=20)
        assert running.returncode == TOLD[number], told
        assert told.endswith("\nInterrupted; nothing of it runs any more.\n")
        assert members(running.pid) == [] and left_of(running.pid, tmp_path) == []


LEAVES_BEHIND = """
import subprocess, sys, time
from demo import __main__ as demo

def on(_):
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    demo.line(str(left.pid))
    time.sleep(600)

demo._demo = on
sys.exit(demo.main())
"""


def test_what_loses_whoever_started_it_is_ended(tmp_path: Path) -> None:
    """Whoever plays is killed, by the kernel for one, and what it started is in a session of its own."""
    with demo("-c", LEAVES_BEHIND, TMPDIR=str(tmp_path)) as running:
        assert running.stdout is not None
        left = int(running.stdout.readline())
        os.kill(player_of(running), signal.SIGKILL)
        try:
            assert running.wait(30) == 128 + signal.SIGKILL
            assert left not in processes.running() and left_of(running.pid, tmp_path) == []
        finally:
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)


def player_of(running: subprocess.Popen) -> int:
    return next(pid for pid, one in processes.running().items() if one.parent == running.pid)


ONLY_THE_JOB = """
import sys
from demo import __main__ as demo, jobs
from demo.run import BUDGETS, reaper

def only_the_job(sockets):
    with demo._account() as account:
        with reaper(account, "enforce", BUDGETS) as beats:
            beats.run()
        jobs.play(account, sockets, sys.argv[1])

demo._demo = only_the_job
sys.exit(demo.main())
"""


@pytest.mark.parametrize(
    "moment, number, kind, says",
    [
        ("A machine boots", signal.SIGTERM, NAMESPACES, "in namespaces of its own"),
        ("A machine boots", signal.SIGINT, PROCESSES, "as processes beside all others"),
        ("attempt 2  the agent runs", signal.SIGKILL, NAMESPACES, ""),
    ],
)
def test_its_machines_do_not_outlive_it(moment: str, number: signal.Signals, kind: str, says: str, tmp_path: Path) -> None:
    """They run in sessions of their own, so that no Ctrl-C reaches them."""
    if isolation.best(sys.executable, str(INSIDE))[0] == PROCESSES:
        kind, says = PROCESSES, "as processes beside all others"
    with demo("-c", ONLY_THE_JOB, kind, TMPDIR=str(tmp_path)) as running:
        assert says in wait_for(moment, running)
        wait_until(lambda: machines_of(tmp_path), "a process of a machine")
        if number == signal.SIGKILL:
            os.kill(player_of(running), number)
        else:
            running.send_signal(number)
        told, _ = running.communicate(timeout=30)
        assert running.returncode == 128 + number, told
        assert members(running.pid) == [] and left_of(running.pid, tmp_path) == []


def machines_of(scratch: Path) -> list[int]:
    """The processes of machines whose disks lie there."""
    root = f"CURFEW_ROOT={scratch}/".encode()
    return [pid for pid in processes.running() if any(one.startswith(root) for one in processes.environment(pid))]


def left_of(pid: int, scratch: Path) -> list[Any]:
    """What a demo has left behind: processes of its machines, and files."""
    return [*machines_of(scratch), *scratch.iterdir(), *Path("/tmp").glob(f"demo-{pid}-*")]


def wait_until(is_so: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.01)


def test_a_budget_that_fares_otherwise_is_no_happy_end(spent: budgets.Spent) -> None:
    assert list(budgets.differences(spent)) == []
    quiet, at_80, held, again = spent.runs
    for runs, says in (
        ([at_80, at_80, held, again], "beat 1: of the budget of vision None was to be"),
        ([quiet, quiet, held, again], "beat 2: of the budget of vision ('notify', 80) was to be"),
        ([quiet, at_80, held, held], "beat 4: messages went to ['vision']"),
        ([quiet, replace(at_80, calls=Counter({"ec2:StopInstances": 1})), held, again], "beat 2 called"),
        ([quiet, at_80, replace(held, record={**held.record, "gaps": ["us-east-1"]}), again], "beat 3: "),
    ):
        assert says in "\n".join(budgets.differences(replace(spent, runs=runs)))
    assert "the command was to say" in "\n".join(budgets.differences(replace(spent, overview="")))


def test_a_job_that_fares_otherwise_is_no_happy_end(lived: jobs.Lived) -> None:
    assert list(verdict_jobs.differences(lived)) == []
    launched, warned, silent, over = (lived.stages[name] for name in ("launched", "warned", "silent", "over"))
    backwards = sorted(silent.run.asked, key=lambda call: call["action"] == "ec2:TerminateInstances")
    mistakes = lived.rejected["mistakes"]
    for changed, says in (
        (lives(lived, launched=replace(launched, reserved={"usd": 8.5})), "$8.05 was to be reserved"),
        (lives(lived, launched=replace(launched, state=warned.state)), "launched: the job was to be running, at attempt 1"),
        (lives(lived, launched=asking(launched, warned.run.asked)), "one launch was to be refused"),
        (lives(lived, warned=replace(warned, machines=[])), "warned: the machines of jobs were to be"),
        (lives(lived, warned=replace(warned, run=replace(warned.run, messages=[]))), "warned: messages went to []"),
        (lives(lived, warned=asking(warned, [*launched.run.asked[:1], *warned.run.asked])), "7 calls were made, and 6 are the most"),
        (lives(lived, silent=asking(silent, backwards)), "was to be terminated before another one was launched"),
        (lives(lived, silent=replace(silent, kept=(99, 99))), "silent: step 99 was kept before it"),
        (lives(lived, over=replace(over, machines=["i-1"])), "nothing was to be left"),
        (lives(lived, over=replace(over, active=["active/nlp/x"])), "nothing was to be left"),
        (lives(lived, over=replace(over, reserved={"usd": 1})), "what was reserved was to be given back"),
        (lives(lived, over=replace(over, run=silent.run)), "a sweep without jobs was to ask EC2 nothing"),
        (replace(lived, rejected={"mistakes": mistakes[1:]}), "the mistakes were to be in"),
        (replace(lived, refusing=[]), "research was to hear"),
        (replace(lived, submitted=""), "the command was to say 'It can cost $8.05"),
        (replace(lived, overview=""), "the command was to say that nlp/reward-model-"),
    ):
        assert says in "\n".join(verdict_jobs.differences(changed))
    with pytest.raises(Broken, match="the job was to run, and is"):
        _ = over.placed


def test_a_training_that_fares_otherwise_is_no_happy_end(lived: jobs.Lived) -> None:
    trained = lived.trained
    assert trained is not None
    first, second, third = trained.attempts
    begins_again = replace(second, took_over=0, steps=[1, *second.steps])
    for changed, says in (
        (None, "nothing was counted"),
        (replace(trained, result="another"), "was to come out, and it is another"),
        (replace(trained, trail=trained.trail[1:]), "each of 100 steps was to be done"),
        (replace(trained, trail=[*trained.trail, (1, 100)]), "was to do nothing after the next one had begun"),
        (replace(trained, fence=[*trained.fence, 1]), "was to do nothing after the next one had begun"),
        (replace(trained, processes=1), "of the machines 1 processes are left"),
        (replace(trained, volumes=["vol-1"]), "of the machines these volumes are left: ['vol-1']"),
        (replace(trained, attempts=[first, second, replace(third, exited=None)]), "the attempts were to end as"),
        (replace(trained, attempts=[replace(first, ended_by="plug"), second, third]), "the attempts were to end as"),
        (replace(trained, attempts=[first, begins_again, third]), f"attempt 2 was to go on from step {first.kept}"),
        (replace(trained, attempts=[replace(first, kept=0), second, third]), "attempt 1 was to come further than step 0"),
        (replace(trained, attempts=[replace(first, steps=[*first.steps, 99]), second, third]), "attempt 1 was warned, and"),
        (replace(trained, attempts=[first, second, replace(third, beat={})]), "the heart of attempt 3 was to beat"),
    ):
        assert says in "\n".join(verdict_jobs.differences(replace(lived, trained=changed)))


def lives(lived: jobs.Lived, **stages: jobs.Stage) -> jobs.Lived:
    """The same, but for these stages."""
    return replace(lived, stages={**lived.stages, **stages})


def asking(stage: jobs.Stage, calls: list[dict[str, Any]]) -> jobs.Stage:
    return replace(stage, run=replace(stage.run, asked=calls))


@pytest.fixture(scope="module")
def spent(told: tuple[Account, Played]) -> budgets.Spent:
    return budgets.play(told[0])


@pytest.fixture(scope="module")
def lived(told: tuple[Account, Played], spent: budgets.Spent) -> jobs.Lived:
    """On the account whose budgets were played: the job's has to fit into one."""
    return jobs.play(told[0])


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[Account, Played]]:
    """The account after a story that went as it should, told in this process."""
    with pytest.MonkeyPatch.context() as patch:
        # Which regions there are is as global as moto is: the tests after these have others.
        patch.setattr(EC2Backend, "describe_regions", EC2Backend.describe_regions)
        yield from _play()


def _play() -> Iterator[tuple[Account, Played]]:
    with local_aws.running(regions=REGIONS) as aws:
        aws.reset()
        account = seed(aws, lambda _: None)
        played = play(account)
        assert verdict_volumes.differences(played, account) == []
        yield account, played


def otherwise(played: Played, number: int, **fields: Any) -> Played:
    """The same, but for this in one run of the volumes."""
    runs = list(played.volumes)
    runs[number - 1] = replace(runs[number - 1], **fields)
    return replace(played, volumes=runs)


def stepped(run: Run, resource_id: str, **fields: Any) -> dict[str, Any]:
    """The record of a run, but for this in one step."""
    steps = [{**step, **(fields if step["resource"] == resource_id else {})} for step in run.record["steps"]]
    assert steps != run.record["steps"]
    return {**run.record, "steps": steps}


def spared(run: Run, because: str, *ids: str) -> dict[str, Any]:
    """The record of a run that spared these for another reason."""
    others = {reason: [one for one in found if one not in ids] for reason, found in run.record["spared"].items()}
    return {**run.record, "spared": {**others, because: [*others.get(because, []), *ids]}}


def test_another_fate_is_no_happy_end(told: tuple[Account, Played]) -> None:
    account, played = told
    fourth = played.volumes[3]
    restored, golden = account.storage.id_of(RESTORED), account.storage.id_of("golden-set")
    root = next(iter(account.storage.roots & set(fourth.record["spared"]["attached"])))
    for record, says in (
        (stepped(fourth, restored, outcome="failed"), "imagenet-copy was to be `delete orphaned`, and is `failed"),
        (stepped(fourth, restored, action="mark"), "imagenet-copy was to be `delete orphaned`, and is `mark orphaned`"),
        (spared(fourth, "young", golden), "golden-set was to be `protected`, and is `young`"),
        (spared(fourth, "young", root), f"{root}, which is not in the cast was to be `None`, and is `young`"),
        (spared(fourth, "attached", "vol-0abc"), "vol-0abc, which is not in the cast"),
        ({**fourth.record, "gaps": ["us-east-1"]}, "could not see us-east-1"),
    ):
        assert says in accusation(otherwise(played, 4, record=record), account)


def test_another_word_or_call_is_no_happy_end(told: tuple[Account, Played]) -> None:
    account, played = told
    first, second, fourth = played.volumes[0], played.volumes[1], played.volumes[3]
    restored = account.storage.id_of(RESTORED)
    unnamed = [{**one, "message": one["message"].replace(restored, "it")} for one in second.messages]
    one_more = Counter({"ec2:DeleteVolume": 1})
    for changed, says in (
        (otherwise(played, 2, messages=second.messages[1:]), "run 2: messages were to go to"),
        (otherwise(played, 2, messages=unnamed), "run 2: nobody was told of the mark of"),
        (otherwise(played, 5, messages=fourth.messages), "run 5: messages were to go to []"),
        (otherwise(played, 1, messages=second.messages), "does not say that it only says"),
        (otherwise(played, 2, messages=[*second.messages, *first.messages]), "of labels-2024 it was to be told once"),
        (otherwise(played, 1, calls=Counter({"ec2:CreateTags": 1})), "the rehearsal of volumes called ec2:CreateTags"),
        (otherwise(played, 5, calls=Counter({"ec2:DeleteTags": 1})), "had nothing to do, and called ec2:DeleteTags"),
        (otherwise(played, 4, calls=fourth.calls + one_more), "took 3 calls of ec2:DeleteVolume"),
        (replace(played, differences={"Size": (2000, 1)}), "came back otherwise: Size was 2000, and is 1"),
    ):
        assert says in accusation(changed, account)


def test_another_account_is_no_happy_end(told: tuple[Account, Played]) -> None:
    """Whatever the records say. The last of these tests: it leaves the account in disorder."""
    account, played = told
    names = ("golden-set", "features", "eval-tmp", "thesis", NAMELESS)
    golden, features, new, thesis, nameless = (account.storage.id_of(name) for name in names)
    photographs = {safety.of: one for one, safety in account.storage.safeties.items()}
    region = "us-east-1"
    account.aws.change(tag={"resource": golden, "region": region, "tags": {"curfew:marked": "x"}})
    account.aws.change(tag={"resource": features, "region": region, "tags": {"curfew:unattached-since": "x"}})
    account.aws.change(untag={"resource": new, "region": region, "keys": ["curfew:unattached-since"]})
    account.aws.change(untag={"resource": photographs["raw-audio"], "region": region, "keys": ["curfew:deleted-at"]})
    for gone in (thesis, nameless, photographs[RESTORED]):
        account.aws.change(delete={"resource": gone, "region": region})
    said = accusation(played, account)
    for says in (
        "golden-set was to be left alone, and its tags are",
        "features was to be left alone, and its tags are",
        "features is in use, and its tags say otherwise",
        "eval-tmp was to be remembered as unattached",
        "the snapshot of raw-audio does not say since when its volume is gone",
        "thesis was to be there at the end",
        f"{NAMELESS} was to be there at the end",
        f"the snapshot of {RESTORED} was to be there at the end",
    ):
        assert says in said


def accusation(played: Played, account: Account) -> str:
    return "\n".join(verdict_volumes.differences(played, account))


def wait_for(text: str, running: subprocess.Popen) -> str:
    """The line that has it."""
    deadline = time.monotonic() + 120
    while text not in (line := running.stdout.readline()):
        assert line and time.monotonic() < deadline, f"the demo ended, or hung, before {text!r}"
    return line
