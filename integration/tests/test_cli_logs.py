"""`curfew logs`: what a job's command said, as its agent uploaded it."""

from __future__ import annotations

import re
import subprocess

from command import COMMAND, Said, curfew
from reaping import BUCKET, Account, ago, rfc3339
from terminal import Terminal
from test_cli_jobs import BERT, LLAMA, ended, leave, running, write


# By whose key the calls of the command are told from those of the test.
PERSON = "AKIAOFAPERSON0000000"


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


def store(account: Account, name: str, text: str, **metadata: int) -> None:
    """As an agent does: the end of a log, or a part of it."""
    metadata = {key: str(value) for key, value in metadata.items()}
    account.aws.client("s3").put_object(Bucket=BUCKET, Key=f"attempts/{LLAMA}/{name}", Body=text.encode(), Metadata=metadata)


def test_the_whole_log_of_each_attempt_with_how_it_ended(account: Account) -> None:
    write(account, LLAMA, ended(), attempt=3, machines=3)
    store(account, "1/log.0", "one\ntwo\n", start=0)
    store(account, "1/log.1", "two\nthree\n", start=4)  # of an agent that was restarted
    store(account, "1/log", "three\nfour\n", start=8, parts=2)
    at = rfc3339(ago(hours=1))
    leave(account, LLAMA, "1/heartbeat.json", at=at, attempt=1, step=900, doing="running")
    store(account, "2/log.0", "five\n", start=0)
    store(account, "2/log", "seven\n", start=9, parts=4_000_000_000)  # what no agent would write
    exit = {"attempt": 2, "at": "2026-11-22T05:00:00Z", "reason": "failed", "code": 3, "why": "boom"}
    leave(account, LLAMA, "2/exit.json", **exit)
    said = logs(account, "llama", "--whole").fine()
    lines = said.out.splitlines()
    assert lines[:4] == ["one", "two", "three", "four"] and lines[5:] == [
        "five",
        "",
        "[curfew] 4 bytes of the log are missing here",
        "seven",
        "[curfew] attempt 2 ended with exit code 3 on 2026-11-22 05:00 UTC: boom",
    ]
    assert re.fullmatch(r"\[curfew\] attempt 1 left no result; its last heartbeat was on .* UTC, at step 900", lines[4])
    assert said.err.splitlines() == [f"{LLAMA}, attempt 1", f"{LLAMA}, attempt 2"]
    # A machine that was lost between a part and the tail.
    store(account, "1/log.2", "four\nmore\n", start=14)
    assert logs(account, "llama", "--whole", "--attempt", "1").fine().out.splitlines()[:5] == [*lines[:4], "more"]
    tail = logs(account, "llama", "--attempt", "1").fine()
    assert (tail.out, tail.err) == ("three\nfour\n", f"{LLAMA}, attempt 1\n(earlier lines: add --whole)\n")
    assert logs(account, "llama", "--whole", "--follow").code == 2


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
        env=account.environment(AWS_ACCESS_KEY_ID=PERSON),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None and follower.stdout.readline() == "one\n"
    store(account, "1/log.0", "one\ntwo\n", start=0)
    store(account, "1/log", "three\n", start=8, parts=1)
    assert [follower.stdout.readline() for _ in range(2)] == ["two\n", "three\n"]
    upload(account, "again\nlast\n", 2)
    write(account, LLAMA, ended(), attempt=2)
    out, err = follower.communicate(timeout=120)
    assert (follower.returncode, out) == (0, "again\nlast\n")
    assert err.splitlines() == [f"{LLAMA}, attempt 1", f"{LLAMA}, attempt 2", f"{LLAMA}: succeeded"]
    # What docs/command.md grants it to write, and nothing else.
    written = {key for call in account.aws.calls("s3:PutObject") if call["access_key"] == PERSON for key in call["resources"]}
    assert written == {f"{BUCKET}/jobs/{LLAMA}/followed.json"}


def test_following_says_why_there_is_no_log_yet(account: Account) -> None:
    waiting = {"until": rfc3339(ago(hours=-1)), "passes": 1, "said": "no zone has capacity"}
    write(account, LLAMA, {"state": "waiting", "of": waiting}, attempt=0, machines=0)
    follower = subprocess.Popen([COMMAND, "logs", "llama", "-f"], env=account.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert follower.stderr is not None
    assert follower.stderr.readline() == f"{LLAMA} has no log yet: it is waiting: no zone has capacity\n"
    running(account)
    assert follower.stderr.readline() == f"{LLAMA} has no log yet: it is running\n"
    upload(account, "one\n")
    write(account, LLAMA, ended())
    out, err = follower.communicate(timeout=120)
    assert (follower.returncode, out) == (0, "one\n")
    assert err.splitlines() == [f"{LLAMA}, attempt 1", f"{LLAMA}: succeeded"]
