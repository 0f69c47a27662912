"""`curfew logs`: what a job's command said, as its agent uploaded it."""

from __future__ import annotations

import subprocess

from command import COMMAND, Said, curfew
from reaping import Account
from terminal import Terminal
from test_cli_jobs import BERT, LLAMA, ended, running, write


def logs(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), "logs", *arguments)


def upload(account: Account, text: str | bytes, attempt: int = 1, job: str = LLAMA) -> None:
    account.put(f"attempts/{job}/{attempt}/log", text.encode() if isinstance(text, str) else text)


def test_the_log_of_the_newest_attempt_that_has_one(account: Account) -> None:
    running(account, attempt=3)
    upload(account, "first\n", 1)
    upload(account, "second\n", 2)
    said = logs(account, "llama").fine()
    assert (said.out, said.err) == ("second\n", f"{LLAMA}, attempt 2\n")
    assert logs(account, LLAMA, "--attempt", "1").fine().out == "first\n"
    document = logs(account, LLAMA, "--json").fine().json()
    assert document == {"schema": 1, "job": LLAMA, "attempt": 2, "log": "second\n"}


def test_a_pipe_gets_every_byte_and_a_terminal_nothing_that_moves_its_cursor(account: Account) -> None:
    running(account)
    raw = b"10%\r20%\r\n\x1b[2Jdone \xff\n"
    upload(account, raw)
    piped = subprocess.run([COMMAND, "logs", "llama"], env=account.environment(), capture_output=True, timeout=60)
    assert piped.stdout == raw
    terminal = Terminal(account.environment(NO_COLOR="1"), "logs", "llama")
    assert terminal.end() == 0 and "\x1b" not in terminal.shown and "?[2Jdone" in terminal.shown


def test_a_missing_log_says_why(account: Account) -> None:
    running(account)
    said = logs(account, "llama")
    assert said.code == 1 and said.out == "" and f"{LLAMA} has no log yet: it is running" in said.err
    assert logs(account, "llama", "--json").json()["log"] is None
    said = logs(account, "llama", "--attempt", "2")
    assert said.code == 2 and f"{LLAMA} has no attempt 2; the newest is 1" in said.err
    assert logs(account, "llama", "--attempt", "0").code == 2
    assert logs(account, "llama", "--follow", "--json").code == 2
    assert "there is no job" in logs(account, "bert").err


def test_following_ends_with_the_job(account: Account) -> None:
    running(account)
    upload(account, "one\n")
    running(account, BERT)
    follower = subprocess.Popen(
        [COMMAND, "logs", "llama", "--follow"],
        env=account.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None and follower.stdout.readline() == "one\n"
    upload(account, "one\ntwo\n")
    assert follower.stdout.readline() == "two\n"
    upload(account, "again\nlast\n", 2)
    write(account, LLAMA, ended(), attempt=2)
    out, err = follower.communicate(timeout=30)
    assert (follower.returncode, out) == (0, "again\nlast\n")
    assert err.splitlines() == [f"{LLAMA}, attempt 1", f"{LLAMA}, attempt 2", f"{LLAMA}: succeeded"]
