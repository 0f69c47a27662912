"""`curfew box`: a machine that a person works on. No control plane runs here: its documents are put into the bucket by hand."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from command import COMMAND, Said, curfew
from reaping import Account, ago, now, rfc3339
from terminal import Terminal
from test_cli_jobs import MACHINE, TERMS, ended, leave, placed, write
from test_cli_submit import answer, etag

JOB = "vision/my-box-1a2b3c4d"
BOX = "boxes/vision/my-box.json"
INBOX = "inbox/vision/my-box.toml"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9rY1X8yVqKq0f3l2nq5l3q5l3q5l3q5l3q5l3q5l3q"
UNTIL = now() + timedelta(hours=9)


class Desk:
    """A person's computer: a home, real OpenSSH, and an `aws` that only says how it was called."""

    def __init__(self, account: Account, folder: Path) -> None:
        self.account, self.home, programs = account, folder / "home", folder / "programs"
        self.home.mkdir()
        programs.mkdir()
        self.aws = programs / "aws"
        self.aws.write_text('#!/bin/sh\necho "$@"; exit 3\n')
        self.aws.chmod(0o755)
        path = os.pathsep.join([str(programs), "/usr/bin", "/bin"])
        self.environment = account.environment(HOME=str(self.home), PATH=path, TZ="Europe/Berlin", USER="bob")

    def box(self, *arguments: str) -> Said:
        return curfew(self.environment, "box", *arguments)

    def file(self, name: str) -> str:
        return (self.home / ".ssh" / name).read_text()

    def key(self) -> str:
        return self.file("curfew/vision.my-box.pub").strip()

    def job(self, phase: dict[str, Any], public_key: str | None = None, **state: Any) -> None:
        terms = {**TERMS, "checkpoint": None, "spot": None}
        until = rfc3339(UNTIL)
        terms["box"] = {"public_key": public_key or self.key(), "home_gib": 200, "idle_seconds": 3600, "until": until}
        own = {"soft_end": until, "kept_until": rfc3339(now()), **state}
        write(self.account, JOB, phase, terms=terms, **{"box": own})

    def document(self, holder: bool = True, **fields: Any) -> None:
        volume = {"number": 1, "zone": "us-east-1b", "id": "vol-0123456789abcdef0", "uses": 1}
        snapshot = {"id": "snap-0123456789abcdef0", "of": {"volume": 1, "uses": 1}, "at": "2026-11-22T13:36:00Z", "completed": True}
        document = {
            **{"schema": 1, "box": "vision/my-box", "owner": "ada", "region": "us-east-1", "made_at": "2026-11-01T08:00:00Z"},
            **({"holder": {"job": JOB, "since": rfc3339(ago(minutes=5))}} if holder else {"down_since": "2026-11-22T13:36:00Z", "last_job": JOB}),
            **{"home": {"size_gib": 200, "volume": volume, "snapshots": [snapshot]}, **fields},
        }
        self.account.put(BOX, json.dumps(document).encode())

    def beat(self, **report: Any) -> None:
        report = {
            **{"ready_at": "2026-11-22T08:00:00Z", "user": "ubuntu", "host_key": KEY, "why": "GPU 91 %"},
            **{"in_use_at": rfc3339(now()), "ends_at": rfc3339(UNTIL), **report},
        }
        leave(self.account, JOB, "1/heartbeat.json", at=rfc3339(now()), attempt=1, doing="running", box=report)

    def make_key(self) -> None:
        folder = self.home / ".ssh/curfew"
        folder.mkdir(parents=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "my-box", "-f", str(folder / "vision.my-box")], check=True)

    def up(self) -> None:
        """A box to which its person can log in."""
        self.make_key()
        self.document()
        self.job({"state": "running", "of": placed(zone="us-east-1b", lifecycle="on-demand")})
        self.beat()


@pytest.fixture
def desk(account: Account, tmp_path: Path) -> Desk:
    return Desk(account, tmp_path)


OPTIONS = ["--gpu", "g5.xlarge", "--team", "vision", "--owner", "ada", "--home", "200gb"]


def accepted(desk: Desk) -> None:
    while INBOX not in desk.account.keys("inbox/"):
        time.sleep(0.1)
    answer(desk.account, etag(desk.account, INBOX), key=INBOX, job=JOB)


def starting(desk: Desk, *arguments: str) -> subprocess.Popen[str]:
    words = [COMMAND, "box", "up", *OPTIONS, *arguments, "--yes", "my-box"]
    return subprocess.Popen(words, env=desk.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def step(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(f"no line with {words!r}: {process.stderr.read() if process.stderr else ''}")


def test_a_box_comes_up_and_ssh_knows_it(desk: Desk) -> None:
    (desk.home / ".ssh").mkdir()
    (desk.home / ".ssh/config").write_text("Host other\n  User x\n")
    with starting(desk, "--until", "19:00", "--idle", "2h", "--setup", "true") as up:
        step(up, "Home: new, 200 GB, $16.00 a month while it exists")
        desk.document()
        while not (desk.home / ".ssh/curfew/vision.my-box.pub").exists():
            time.sleep(0.1)
        desk.job({"state": "submitted"})
        accepted(desk)
        step(up, "submitted\n")
        running = {"state": "running", "of": placed(lifecycle="on-demand")}
        desk.job(running, home_wait="last-machine")
        step(up, "home: waits for the last machine to let go of its volume\n")
        desk.job(running)
        step(up, f"booting {MACHINE} (g5.xlarge in us-east-1a)\n")
        desk.beat()
        assert step(up, "ready") == "ready: ssh my-box\n"
        _, error = up.communicate(timeout=60)
    assert up.returncode == 0 and "wrote `Include curfew/config` at the top" in error, error
    spec = desk.account.aws.client("s3").get_object(Bucket="curfew-state", Key=INBOX)["Body"].read().decode()
    assert f'public_key = "{desk.key()}"' in spec and 'idle = "2h"' in spec and "enabled = false" in spec
    assert ":00:00Z" in spec.partition("until = ")[2], spec
    assert desk.key().endswith(" my-box") and desk.file("config") == "Include curfew/config\n\nHost other\n  User x\n"
    folder = desk.home / ".ssh/curfew"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {"curfew": 0o700, "config": 0o600, "known_hosts": 0o600, "vision.my-box": 0o600, "vision.my-box.pub": 0o644}
    assert desk.file("curfew/known_hosts") == f"curfew-vision-my-box {KEY}\n"
    read = subprocess.run(["ssh", "-G", "-F", str(folder / "config"), "my-box"], capture_output=True, text=True, check=True).stdout
    proxy = f"proxycommand {COMMAND} --region us-east-1 --stack curfew --bucket curfew-state box connect vision/my-box"
    for line in (f"hostname {MACHINE}", "user ubuntu", "port 2222", "hostkeyalias curfew-vision-my-box", "serveraliveinterval 15", proxy):
        assert f"{line}\n" in read, read


def test_a_box_that_is_up_is_not_submitted_again(desk: Desk) -> None:
    desk.up()
    said = desk.box("up", *OPTIONS, "my-box").fine()
    assert said.out == "ready: ssh my-box\n" and "is already up since 2026-11-22 08:00 UTC" in said.err
    assert "another computer" not in said.err
    assert desk.account.keys("inbox/") == [] and f"HostName {MACHINE}\n" in desk.file("curfew/config")
    before = desk.file("curfew/config")
    again = desk.box("up", "vision/my-box").fine()
    assert desk.file("curfew/config") == before and "Include" not in again.err
    desk.job({"state": "running", "of": placed()}, public_key=KEY)
    assert "with the key of another computer or person" in desk.box("up", "vision/my-box").fine().err


@pytest.mark.parametrize("report", [{"user": "a b"}, {"host_key": f"{KEY}\n* {KEY}"}])
def test_no_word_of_a_machine_gets_into_the_configuration_of_ssh(desk: Desk, report: dict[str, str]) -> None:
    desk.up()
    desk.beat(**report)
    said = desk.box("up", *OPTIONS, "my-box")
    assert said.code == 2 and "is not written" in said.err and not (desk.home / ".ssh/curfew/config").exists()


def test_a_box_without_a_machine_is_cancelled(desk: Desk) -> None:
    with starting(desk, "--wait", "1s") as up:
        step(up, "Home:")
        while not (desk.home / ".ssh/curfew/vision.my-box.pub").exists():
            time.sleep(0.1)
        desk.job({"state": "submitted"})
        accepted(desk)
        step(up, "and is cancelled, so that none starts later")
        assert up.wait(timeout=60) == 1
    assert desk.account.read(f"jobs/{JOB}/cancel.json")["by"] == "bob"


def test_it_comes_up_as_the_last_time(desk: Desk) -> None:
    never = desk.box("up", "--team", "vision", "my-box")
    assert never.code == 2 and "vision/my-box was never up" in never.err and "curfew box up --gpu a10g vision/my-box" in never.err
    desk.make_key()
    desk.document(holder=False)
    desk.job(ended())
    spec = f'name = "my-box"\nowner = "ada"\nsetup = "make"\n[box]\npublic_key = "{KEY}"\nuntil = "2026-01-01T00:00:00Z"\n'
    spec += '[gpu]\ncount = 1\ntypes = ["g5.xlarge"]\n[spot]\nenabled = true\n[env]\nA = "1"\n'
    desk.account.put(f"jobs/{JOB}/spec.toml", spec.encode())
    said = desk.box("up", "--team", "vision", "--for", "2h", "--env", "B=2", "--detach", "--yes", "--dry-run", "my-box")
    assert said.code == 2 and "cannot be used with" in said.err
    worker = Thread(target=accepted, args=(desk,))
    worker.start()
    said = desk.box("up", "--team", "vision", "--for", "2h", "--env", "B=2", "--detach", "--yes", "my-box").fine()
    worker.join()
    assert "Home: 200 GB in us-east-1b, $16.00 a month while it exists" in said.out and f"{JOB}: accepted" in said.out
    text = desk.account.aws.client("s3").get_object(Bucket="curfew-state", Key=INBOX)["Body"].read().decode()
    for line in ('setup = "make"', 'for = "2h"', "enabled = true", 'A" = "1"', 'B" = "2"', f'public_key = "{desk.key()}"'):
        assert line in text, text
    assert "until" not in text
    desk.account.put(f"jobs/{JOB}/spec.toml", b'command = "true"\n')
    said = desk.box("up", "--team", "vision", "my-box")
    assert said.code == 2 and "was not written by `curfew box up`" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--until", "7pm"], "--until \"7pm\" is no time"),
        (["--until", "19:00", "--for", "2h"], "cannot be used with"),
        (["--home", "200mb"], "write it in GB, such as 200gb"),
        (["--json"], "--json cannot print the steps of a box"),
    ],
)
def test_wrong_usage_submits_nothing(desk: Desk, arguments: list[str], words: str) -> None:
    said = desk.box("up", "--gpu", "g5.xlarge", "--team", "vision", *arguments, "my-box")
    assert said.code == 2 and words in said.err and desk.account.keys("inbox/") == [], said


def test_a_dry_run_makes_no_key_and_names_the_most(desk: Desk) -> None:
    said = desk.box("up", *OPTIONS, "--for", "10h", "--dry-run", "my-box")
    assert "my-box: a box until 20" in said.out and "once it is idle for 1h" in said.out, said
    assert not (desk.home / ".ssh").exists()
    short = desk.box("up", *OPTIONS, "--idle", "5m", "--dry-run", "my-box")
    assert short.code == 1 and "--idle: 5m is not possible" in short.out


def test_without_ssh_keygen_it_says_what_to_install(desk: Desk) -> None:
    desk.environment["PATH"] = str(desk.aws.parent)
    said = desk.box("up", *OPTIONS, "my-box")
    assert said.code == 2 and "there is no program `ssh-keygen`" in said.err and "OpenSSH" in said.err


def test_ssh_connects_through_session_manager(desk: Desk) -> None:
    desk.up()
    said = desk.box("connect", "my-box")
    wanted = f"ssm start-session --target {MACHINE} --region us-east-1 --document-name AWS-StartSSHSession --parameters portNumber=2222\n"
    assert (said.code, said.out) == (3, wanted), said
    desk.account.aws.client("s3").delete_object(Bucket="curfew-state", Key=f"attempts/{JOB}/1/heartbeat.json")
    said = desk.box("connect", "vision/my-box")
    assert said.code == 2 and "is not ready: booting" in said.err and "curfew box up vision/my-box" in said.err
    desk.document(holder=False)
    down = desk.box("connect", "my-box")
    assert down.code == 2 and "vision/my-box is down" in down.err and "curfew box up vision/my-box" in down.err
    none = desk.box("connect", "other")
    assert none.code == 2 and "there is no box other" in none.err and "curfew box ls" in none.err


def test_boxes_are_listed_with_their_cost(desk: Desk) -> None:
    assert "There are no boxes" in desk.box("ls").fine().out
    desk.up()
    desk.account.put("boxes/nlp/x.json", json.dumps({"schema": 1, "box": "nlp/x", "region": "us-east-1", "made_at": "2026-11-01T08:00:00Z", "home": {"size_gib": 100}}).encode())
    desk.account.put("boxes/nlp/broken.json", b"{}")
    said = desk.box("ls", "--json")
    assert said.code == 2 and [one for one in said.json()["problems"] if "nlp/broken could not be read" in one]
    desk.account.aws.client("s3").delete_object(Bucket="curfew-state", Key="boxes/nlp/broken.json")
    rows = {row["box"]: row for row in desk.box("ls", "--json").fine().json()["boxes"]}
    mine, other = rows["vision/my-box"], rows["nlp/x"]
    assert (mine["state"], mine["why"], mine["home_usd_month"], mine["zone"]) == ("up", "GPU 91 %", 16.0, "us-east-1b")
    assert 0.8 < mine["cost_usd_max"] < 2.1 and mine["ends_at"] == rfc3339(UNTIL) and mine["snapshot_at"] == "2026-11-22T13:36:00Z"
    assert (other["state"], other["cost_usd_max"], other["machine"]) == ("down", None, None)
    assert "nlp/x" not in desk.box("ls", "--team", "vision").fine().out
    desk.document(holder=False)
    desk.job(ended(why="idle since 12:35"))
    [row, *_] = [line for line in desk.box("ls").fine().out.splitlines() if "my-box" in line]
    for words in ("down since 2026-11-22 13:36", "200 GB", "$16.00/mo", "us-east-1b", "idle since 12:35"):
        assert words in row, row


def test_no_box_without_ssh(desk: Desk) -> None:
    desk.account.configure(jobs={"ssh": False})
    said = desk.box("up", "--gpu", "a10g", "--team", "vision", "--owner", "ada", "my-box")
    assert said.code == 2 and "nobody could log in to a box ([jobs] ssh = false)" in said.err, said
    assert INBOX not in desk.account.keys("inbox/") and not (desk.home / ".ssh").exists()


def answering(desk: Desk, reply: Callable[[str], dict[str, Any]]) -> tuple[Thread, Event]:
    """Answers requests to extend, as run-jobs does."""
    over = Event()

    def work() -> None:
        while not over.is_set():
            if f"jobs/{JOB}/extend.json" in desk.account.keys("jobs/"):
                asked = desk.account.read(f"jobs/{JOB}/extend.json")
                assert asked["by"] == "bob"
                desk.job({"state": "running", "of": placed()}, **reply(asked["at"]))
                return
            time.sleep(0.1)

    worker = Thread(target=work)
    worker.start()
    return worker, over


@pytest.fixture
def extending(desk: Desk) -> Iterator[Callable[..., Said]]:
    def ask(**answer_: Any) -> Said:
        worker, over = answering(desk, lambda at: {"soft_end": "2026-11-22T20:00:00Z", "extended": {"asked_at": at, **answer_}})
        said = desk.box("extend", "my-box", "3h")
        over.set()
        worker.join()
        return said

    yield ask


def test_an_extension_names_the_new_end(desk: Desk, extending: Callable[..., Said]) -> None:
    desk.up()
    assert extending().fine().out == "vision/my-box: ends at 2026-11-22 20:00 UTC\n"
    desk.account.aws.client("s3").delete_object(Bucket="curfew-state", Key=f"jobs/{JOB}/extend.json")
    said = extending(refused="the budget of vision is spent")
    assert (said.code, said.out) == (1, "vision/my-box: refused: the budget of vision is spent. It ends at 2026-11-22 20:00 UTC\n")


def test_a_box_that_is_down_is_not_extended(desk: Desk) -> None:
    desk.document(holder=False)
    said = desk.box("extend", "my-box", "3h")
    assert said.code == 2 and "vision/my-box is down" in said.err
    assert desk.box("extend", "my-box", "soon").code == 2


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("", 1)])
def test_the_prompt_names_the_owner_and_what_is_lost(desk: Desk, typed: str, code: int) -> None:
    desk.up()
    terminal = Terminal(desk.environment, "box", "down", "my-box")
    terminal.wait_for("[y/N]")
    assert f"End the box vision/my-box of ada, and terminate {MACHINE} (g5.xlarge)?" in terminal.shown
    assert "all files outside of the home are lost; the home stays" in terminal.shown
    terminal.type(f"{typed}\n")
    assert terminal.end() == code
    assert (f"jobs/{JOB}/cancel.json" in desk.account.keys("jobs/")) == (code == 0)


def test_down_needs_yes_without_a_terminal(desk: Desk) -> None:
    desk.up()
    assert "--yes" in desk.box("down", "my-box").err and f"jobs/{JOB}/cancel.json" not in desk.account.keys("jobs/")
    said = desk.box("down", "my-box", "--yes", "--json").fine().json()
    assert (said["outcome"], said["box"], said["cancel"]["by"]) == ("cancelled", "vision/my-box", "bob")
    desk.document(holder=False)
    assert desk.box("down", "my-box", "--yes").fine().out == "vision/my-box: is down already (unchanged)\n"
