"""`curfew apply`, interrupted or killed in the middle: the same command continues, and does nothing twice."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import moved_clock
from command import COMMAND
from moved_clock import MovedClock
from pending_plans import applied, held, key_of
from reaping import Account
from terminal import Terminal

SECONDS_MAX = 120
HELD_SECONDS = 30  # until it is released; for so long the SDK waits for an answer
ANSWER_WITHIN_SECONDS = 10  # see ANSWER_WITHIN in cli/src/commands/apply.rs
AT_ONCE = 8  # steps, see AT_ONCE in shared/execution


@contextmanager
def applying(account: Account, plan: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = [str(COMMAND), "apply", plan, "--yes", "--json"]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(arguments, env=account.environment(), stdout=out, stderr=err, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait(SECONDS_MAX)


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < end, "that never came"
        time.sleep(0.05)


def stops(account: Account) -> list[str]:
    return [resource for call in account.aws.calls("ec2:StopInstances") for resource in call["resources"]]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP])
def test_interrupted(account: Account, tmp_path: Path, how: signal.Signals) -> None:
    """What has begun is finished, told and recorded; nothing more is begun; then the same command does the rest."""
    gpus, plan = held(account, AT_ONCE + 2)
    account.aws.clear_calls()
    account.aws.fault("ec2:StopInstances", "slow", seconds=HELD_SECONDS, times=AT_ONCE)
    told = len(account.aws.messages())
    with applying(account, plan, tmp_path) as process:
        wait_for(lambda: account.aws.struck() == AT_ONCE)
        process.send_signal(how)
        wait_for(lambda: "interrupted" in (tmp_path / "err").read_text())
        account.aws.release("ec2:StopInstances")
        assert process.wait(SECONDS_MAX) == 1
    answer, said = json.loads((tmp_path / "out").read_text()), (tmp_path / "err").read_text()
    assert (answer["done"], answer["not_reached"]) == (AT_ONCE, 2)
    assert "interrupted" in said and f"curfew apply {plan}" in said
    done = {step["resource"] for step in answer["steps"] if step["outcome"] == "done"}
    assert sorted(stops(account)) == sorted(done)
    [message] = account.aws.messages()[told:]
    assert all((gpu in message["message"]) == (gpu in done) for gpu in gpus)
    record = account.read(key_of(account, answer["run"]))
    assert {step["resource"] for step in record["steps"] if step["outcome"] == "done"} == done

    said, outcomes = applied(account, plan)
    assert said.code == 0
    assert outcomes == {gpu: "already-gone" if gpu in done else "done" for gpu in gpus}
    assert set(stops(account)) == set(gpus) - done
    [rest] = account.aws.messages()[told + 1 :]
    assert all((gpu in rest["message"]) == (gpu not in done) for gpu in gpus)


def test_killed(account: Account, tmp_path: Path) -> None:
    """The record was written first, so the next one finds what was not notified, and notifies it once."""
    gpus, plan = held(account, 3)
    told = len(account.aws.messages())
    account.aws.fault("ec2:DescribeInstances", "slow", seconds=HELD_SECONDS, match=f"InstanceId.1={gpus[2]}")
    with applying(account, plan, tmp_path):
        wait_for(lambda: [account.state(gpu) for gpu in gpus[:2]] == ["stopped"] * 2)
        wait_for(lambda: not any(account.mark(gpu) for gpu in gpus[:2]))
    account.aws.clear_faults()
    assert (tmp_path / "out").read_text() == "" and account.aws.messages()[told:] == []
    [cut_off] = [key for key in account.keys("plans/") if f"/apply-{plan}-" in key]
    assert {step["outcome"] for step in account.read(cut_off)["steps"]} == {"not-reached"}

    said, outcomes = applied(account, plan, "--only", gpus[0])
    assert outcomes == {gpus[0]: "already-gone"} and account.aws.messages()[told:] == []
    said, outcomes = applied(account, plan)
    assert said.code == 0 and stops(account) == [gpus[2]]
    assert outcomes == {gpus[0]: "already-gone", gpus[1]: "already-gone", gpus[2]: "done"}
    [message] = account.aws.messages()[told:]
    assert all(gpu in message["message"] for gpu in gpus) and message["message"].count("was interrupted") == 2
    assert message["attributes"]["team"] == "vision"

    said, outcomes = applied(account, plan)
    assert said.code == 0 and set(outcomes.values()) == {"already-gone"}
    assert len(account.aws.messages()[told:]) == 1 and account.aws.calls("s3:PutObject") == []


def test_the_terminal_is_closed(account: Account) -> None:
    """Its output is closed, and all of it is still done, notified and recorded."""
    gpus, plan = held(account, 3)
    account.aws.clear_calls()
    account.aws.fault("ec2:StopInstances", "slow", seconds=1)
    told = len(account.aws.messages())
    ours, its = pty.openpty()
    arguments = [str(COMMAND), "apply", plan, "--yes"]
    process = subprocess.Popen(arguments, env=account.environment(), stdin=its, stdout=its, stderr=its)
    os.close(its)
    try:
        wait_for(lambda: bool(account.aws.calls("ec2:CreateTags")))
        os.close(ours)
        assert process.wait(SECONDS_MAX) == 0
    finally:
        process.kill()
    [message] = account.aws.messages()[told:]
    assert all(gpu in message["message"] for gpu in gpus) and {account.state(gpu) for gpu in gpus} == {"stopped"}


def test_asked(account: Account) -> None:
    [gpu], plan = held(account, 1)
    for answer, code, state in (("", 1, "running"), ("y", 0, "stopped")):
        terminal = Terminal(account.environment(), "apply", plan)
        terminal.wait_for("Carry this out (stop 1)? [y/N]")
        terminal.type(f"{answer}\n")
        assert terminal.end() == code and account.state(gpu) == state, terminal.shown
        assert ("Nothing was done." in terminal.shown) == (state == "running")


@pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
def test_a_late_answer_is_checked_again_by_the_new_configuration(account: Account) -> None:
    [gpu], plan = held(account, 1)
    clock = MovedClock()
    terminal = Terminal(account.environment(**clock.environment()), "apply", plan)
    terminal.wait_for("[y/N]")
    account.configure(mode="observe")
    clock.move_by(ANSWER_WITHIN_SECONDS + 1)
    terminal.type("y\n")
    assert terminal.end() == 1 and "checking again" in terminal.shown and account.state(gpu) == "running"
