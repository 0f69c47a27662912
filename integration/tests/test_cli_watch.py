"""`curfew watch`: the account on one screen. In a pipe one frame; at a real terminal, tmux, until somebody quits."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tmux
from command import Said, curfew
from hosts.host import wait_for
from local_aws import LocalAws
from reaping import Account, now, rfc3339
from test_cli_budget import write as write_budget
from test_cli_jobs import LLAMA, leave, running
from tmux import Tmux

# XML carries no escape, but the commands of eight bits; a document carries both.
HOSTILE = "\u202e\u009b2J東京の訓練🇩🇪"
CONFIG = "config/curfew.toml"
at_a_terminal = pytest.mark.skipif(not tmux.IS_HERE, reason="tmux is not installed: no real terminal to test in")


@dataclass(frozen=True)
class Watched:
    """An idle instance that is announced, a busy one, a protected one of a hostile name, a job and two budgets."""

    account: Account
    idle: str
    busy: str
    kept: str

    @property
    def aws(self) -> LocalAws:
        return self.account.aws


@pytest.fixture
def watched(account: Account) -> Watched:
    account.configure(idle={"grace": "1h"}, teams={"vision": {"monthly_budget_usd": 5000}})
    idle, busy = account.idle(account.gpu("g5.12xlarge"), gpus=4), account.busy(account.gpu())
    there = Watched(account, idle, busy, account.gpu(tags={"curfew:protected": "", "Name": HOSTILE}))
    account.tick()
    gap = {"region": "us-east-1", "call": "ec2:DescribeVolumes", "error": "\x1b[2J\x1b]0;owned\x07"}
    for function in ("reap-volumes", "reap-sagemaker", "enforce-budgets"):
        run = {"function": function, "run": "5f1c2a7e", "at": rfc3339(now()), "mode": "enforce", "steps": [], "gaps": [gap]}
        account.put(f"plans/{now():%Y-%m-%d}/{function}/5f1c2a7e.json", json.dumps({"schema": 1, **run}).encode())
    write_budget(account)
    write_budget(account, None, budget_usd=None, spent_usd=6210.5)
    running(account)
    leave(account, LLAMA, "1/heartbeat.json", at=rfc3339(now()), attempt=1, step=1234, gpu_percent=63.4, doing="running")
    account.aws.clear_calls()
    return there


def watch(watched: Watched, *arguments: str) -> Said:
    return curfew(watched.account.environment(), "watch", *arguments)


def row(lines: list[str], of: str) -> str:
    """The first line that names it."""
    return next(line for line in lines if of in line)


def test_one_frame_in_a_pipe(watched: Watched) -> None:
    said = watch(watched).fine()
    assert not set("\x1b\x07\x9b\u202e") & set(said.out) and "?[2J?]0;owned?" in said.out and "??2J東京の訓練??" in said.out
    lines = said.out.splitlines()
    assert re.fullmatch(r"curfew  3 running, \$7\.68/h  as of \d\d:\d\d:\d\d UTC  enforce mode", lines[0]), lines[0]
    assert re.match(r"newest runs: enforce-budgets \S+, reap-instances \S+, reap-sagemaker \S+, reap-volumes \S+$", lines[1])
    heading = next(line for line in lines if "instance" in line and "type" in line)
    first, *_ = lines[lines.index(heading) + 1 :]
    assert re.match(rf" 5\.67  {watched.idle}  g5\.12xlarge  vision  0 % \d\d:\d\d   +stop (\w+ +\d+ )?\d\d:\d\d \(idle\)", first), first
    assert re.search(r"  g5\.xlarge +vision  busy \d\d:\d\d +busy", row(lines, watched.busy))
    assert re.search(r"  unknown +protected", row(lines, watched.kept))
    assert re.search(rf"^ 0\.41  {LLAMA}  running  1234  63 % \d\d:\d\d ", "\n".join(lines), re.MULTILINE)
    assert re.search(r"^vision +\$4,210\.13  \$5,000\.00  \[########--\]  84 %", "\n".join(lines), re.MULTILINE)
    when = [line for line in lines if re.match(r"\S.*  stop   ", line)]
    assert len(when) == 1 and watched.idle in when[0]


def test_a_frame_costs_next_to_nothing(watched: Watched) -> None:
    """Thirteen objects, a few lists, one look at each region, and not one metric."""
    watch(watched, "--once").fine()
    counts = Counter(call["action"] for call in watched.aws.calls())
    lists = counts.pop("s3:ListObjectsV2")
    # One of jobs, and one a function for its newest record; near midnight a second one.
    assert 4 <= lists <= 9
    assert counts == {
        "ec2:DescribeRegions": 1,
        "ec2:DescribeInstances": 2,
        "ec2:DescribeInstanceTypes": 1,
        # Configuration, the copy of a hub's, prices, two budgets, four records, activity, notices, state and heartbeat.
        "s3:GetObject": 13,
        # Whether somebody reads what is announced to each team.
        "sns:ListSubscriptionsByTopic": 1,
        "sns:GetSubscriptionAttributes": 1,
    }


def test_the_document_says_what_is_unknown(watched: Watched) -> None:
    shown: dict[str, Any] = watch(watched, "--json").fine().json()
    assert (shown["schema"], shown["mode"], len(shown["problems"])) == (1, "enforce", 3)
    by_id = {one["instance"]: one for one in shown["instances"]}
    idle, busy, kept = (by_id[one] for one in (watched.idle, watched.busy, watched.kept))
    assert (idle["gpu"]["state"], idle["gpu"]["percent"], idle["outlook"]["kind"]) == ("idle", 0, "stop")
    assert (busy["gpu"]["state"], busy["gpu"]["percent"]) == ("busy", None)
    assert (kept["gpu"], kept["outlook"]["kind"]) == ({"state": "unknown", "percent": None, "at": None}, "protected")
    assert shown["totals"] == {"running": 3, "others": 0, "usd_per_hour": pytest.approx(7.684), "unknown_prices": 0}
    [job] = shown["jobs"]
    assert (job["job"], job["step"], job["gpu"]["percent"]) == (LLAMA, 1234, 63.4)
    # A budget may last until the month ends.
    assert {one["what"] for one in shown["next"]} - {"budget spent"} == {"stop", "attempt ends", "month ends"}
    assert shown["next"] == sorted(shown["next"], key=lambda one: one["at"])


def test_what_could_not_be_read_is_said_and_is_no_success(watched: Watched) -> None:
    watched.aws.fault("ec2:DescribeInstances", "access_denied", times=None)
    said = watch(watched, "--once")
    assert said.code == 2 and "ATTENTION" in said.out and "ec2:DescribeInstances failed in us-east-1" in said.out
    assert "no instance with an accelerator" in said.out and LLAMA in said.out
    watched.aws.clear_faults()
    watched.account.put(CONFIG, b"mode = 3")
    said = watch(watched, "--once")
    assert said.code == 2 and said.out == "" and "mode" in said.err


@pytest.mark.parametrize("wrong", [("--every", "1s"), ("--every", "2h"), ("--every", "soon"), ("--once", "--every", "15s")])
def test_who_asks_for_too_much_hears_what_is_legal(wrong: tuple[str, ...]) -> None:
    said = curfew({}, "watch", *wrong)
    assert said.code == 2 and "--every" in said.err


# At a terminal


@contextmanager
def terminal(watched: Watched, *arguments: str, columns: int = 80, rows: int = 24, **environment: str) -> Iterator[Tmux]:
    with Tmux({**watched.account.environment(), **environment}, columns, rows) as there:
        there.type(" ".join(["curfew", "watch", *arguments]) + "\n")
        there.wait_for("INSTANCES", "as of")
        yield there


def is_as_before(there: Tmux) -> None:
    """The shell's screen, a cursor, and lines that are edited and echoed."""
    wait_for(lambda: not there.is_on_other_screen(), 60, lambda: "\n".join(there.lines()))
    assert there.has_cursor()
    there.type("stty -a\n")
    lines = " ".join(there.wait_for("icanon", "echonl"))
    assert " icanon" in lines and " echo " in lines and " isig" in lines and " opost" in lines, lines


@at_a_terminal
def test_it_draws_resizes_quits_and_leaves_the_terminal_as_it_was(watched: Watched) -> None:
    with terminal(watched) as there:
        lines = there.wait_for("> INSTANCES", "NEXT", "JOBS", "BUDGETS", "q quit")
        assert there.is_on_other_screen() and len(lines) == 24
        assert re.search(rf"5\.67  {watched.idle} .*0 % \d\d:\d\d .*stop", "\n".join(lines))
        there.resize(130, 40)
        wide = there.wait_for("region", "??2J東京の訓練??", "us-east-1")
        assert len(wide) == 40 and "??2J東京の訓練??" in row(wide, watched.kept) and "us-east-1" in row(wide, watched.kept)
        there.resize(30, 8)
        there.wait_for("too small: 30x8")
        there.resize(80, 24)
        there.press("Tab")
        there.wait_for("> NEXT")
        there.press("?")
        there.wait_for("refresh now")
        there.press("?")
        there.wait_for("> NEXT")
        there.press("q")
        is_as_before(there)


@at_a_terminal
@pytest.mark.parametrize("way", ["C-c", "SIGTERM"])
def test_however_it_ends_the_terminal_is_restored(watched: Watched, way: str) -> None:
    with terminal(watched) as there:
        if way.startswith("SIG"):
            os.kill(there.process_of("curfew"), signal.Signals[way])
        else:
            there.press(way)
        is_as_before(there)


@at_a_terminal
def test_it_ends_with_its_terminal(watched: Watched) -> None:
    with terminal(watched) as there:
        process = Path("/proc", str(there.process_of("curfew")))
    wait_for(lambda: not process.exists(), 60, lambda: (process / "status").read_text())


@at_a_terminal
def test_a_refresh_neither_blocks_keys_nor_loses_the_last_frame(watched: Watched) -> None:
    with terminal(watched, "--every", "1h") as there:
        there.wait_without("refreshing")
        watched.aws.fault("s3:GetObject", "access_denied", times=None, match=CONFIG)
        there.press("r")
        there.wait_for("error: ", "s3:GetObject", watched.idle)
        watched.aws.clear_faults()
        there.press("r")
        there.wait_without("error: ")
        watched.aws.fault("ec2:DescribeInstances", "slow", seconds=300)
        there.press("r")
        there.wait_for("refreshing", watched.idle)
        there.press("?")
        there.wait_for("refresh now", "refreshing")
        there.press("q")
        is_as_before(there)
        watched.aws.release("ec2:DescribeInstances")


@at_a_terminal
def test_it_refreshes_itself_and_lists_records_only_when_one_is_due(watched: Watched) -> None:
    def reads() -> int:
        return sum(CONFIG in "".join(call["resources"]) for call in watched.aws.calls("s3:GetObject"))

    with terminal(watched, "--every", "5s") as there:
        watched.aws.tag(watched.busy, {"Name": "renamed"})
        there.resize(130, 40)
        there.wait_for("renamed")
        wait_for(lambda: reads() >= 4, 60, lambda: f"{reads()} refreshes")
        there.press("q")
        is_as_before(there)
    refreshes, lists = reads(), len(watched.aws.calls("s3:ListObjectsV2"))
    # Of four functions; near midnight of two days.
    assert refreshes - 1 <= lists <= refreshes + 10


@at_a_terminal
@pytest.mark.parametrize(("variables", "has_colors"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_follow_the_environment(watched: Watched, variables: dict[str, str], has_colors: bool) -> None:
    with terminal(watched, **variables) as there:
        shown = there.wait_for("q quit") and there.escapes()
        assert bool(re.search(r"\x1b\[[0-9;]*38;5;\d", shown)) == has_colors
        assert "> INSTANCES" in "\n".join(there.lines())


@at_a_terminal
def test_a_dumb_terminal_gets_one_frame(watched: Watched) -> None:
    with Tmux(watched.account.environment()) as there:
        there.type("TERM=dumb curfew watch; echo ended with $?\n")
        there.wait_for("ended with 0")
        assert not there.is_on_other_screen()
