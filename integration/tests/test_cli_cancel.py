"""`curfew cancel`: a person wants a job to end."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from command import Said, curfew
from reaping import BUCKET, Account, moment, now
from terminal import Terminal
from test_cli_jobs import LLAMA, MACHINE, running


def cancel(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(USER="bob"), "cancel", *arguments)


def test_a_cancel_names_its_author_and_time(account: Account) -> None:
    running(account)
    said = cancel(account, "llama", "--yes").fine()
    assert said.out == f"{LLAMA}: is cancelled; follow it with:  curfew jobs {LLAMA}\n"
    document = account.read(f"jobs/{LLAMA}/cancel.json")
    assert (document["schema"], document["by"]) == (1, "bob")
    assert now() - moment(document["at"]) < timedelta(minutes=1)
    assert f"{LLAMA}" in curfew(account.environment(), "jobs", "llama").fine().out
    again = curfew(account.environment(USER="eve"), "cancel", LLAMA, "--yes", "--json").fine().json()
    assert (again["outcome"], again["cancel"]["by"], again["job"]) == ("unchanged", "bob", LLAMA)
    assert account.read(f"jobs/{LLAMA}/cancel.json") == document


def test_a_cancel_at_the_same_time_is_named(account: Account) -> None:
    running(account)
    theirs = {"schema": 1, "at": "2026-09-01T12:00:00Z", "by": "eve"}
    theirs = {"bucket": BUCKET, "key": f"jobs/{LLAMA}/cancel.json", "text": json.dumps(theirs)}
    account.aws.before("s3:PutObject", {"put_object": theirs}, match="cancel.json")
    assert cancel(account, "llama", "--yes").fine().out == f"{LLAMA}: was cancelled at 2026-09-01T12:00:00Z (unchanged)\n"


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1)])
def test_the_prompt_decides(account: Account, answer: str, code: int) -> None:
    running(account, progress={"step": 40, "attempts_without": 0})
    terminal = Terminal(account.environment(), "cancel", "llama")
    terminal.wait_for("[y/N]")
    assert f"Cancel {LLAMA}, which is running, and terminate {MACHINE} (g5.xlarge)? Its checkpoint of step 40 stays." in terminal.shown
    assert f"jobs/{LLAMA}/cancel.json" not in account.keys("jobs/")
    terminal.type(f"{answer}\n")
    assert terminal.end() == code
    assert (f"jobs/{LLAMA}/cancel.json" in account.keys("jobs/")) == (code == 0)


def test_a_cancel_without_a_terminal_names_the_flag(account: Account) -> None:
    running(account)
    said = cancel(account, "llama")
    assert said.code == 2 and "--yes" in said.err and f"jobs/{LLAMA}/cancel.json" not in account.keys("jobs/")
