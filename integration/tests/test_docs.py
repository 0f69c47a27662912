"""Every command line of the documentation, run as a reader would: in order, against an account in which it makes sense.

Of the pages, `curfew …` and `aws …` are run as they stand, but for the ids, which are those of the account, and for days, which
are ahead; and so are the programs of a shell around them. Of `make …` it is tried that there is such a target, by
`make --dry-run`. `cargo` and the rest are named in `_NOT_RUN`, each with its reason.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from command import COMMAND
from deploying import deploy
from documented_permissions import is_in_row, objects, permissions, refused
from jobs import SPEC, JobAccount
from local_aws import LocalAws
from reaping import BUCKET, REPOSITORY, Account, now
from reaping_budgets import BudgetAccount
from reaping_sagemaker import StudioAccount
from reaping_volumes import VolumeAccount
from template_actions import template
from test_cli_box import Desk
from test_cli_budget import write as write_budget
from test_cli_jobs import running
from test_cli_logs import upload

DOCS = sorted(path.stem for path in REPOSITORY.glob("docs/*.md") if path.stem != "SUMMARY")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", *(f"docs/{page}.md" for page in DOCS))

_PROGRAMS = ("curfew", "aws", "make", "cargo", "for", "mkdir")
# What ends with 1 where there is something to say.
_FINDS = re.compile(r"^curfew (scan|doctor|plans|recommend|metrics check|schedule ls)\b")
_GROUPS = ("box", "config", "metrics", "schedule", "team")
_DAY = re.compile(r"\b20\d\d-\d\d-\d\d\b(?!T)")
_NOT_RUN = {
    "cargo": "builds and tests: the rest of `make test` does",
    "make": "a dry run: the others would test this test",
}


@dataclass(frozen=True)
class Line:
    page: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.number}: {self.text}"


def lines(page: str) -> Iterator[Line]:
    """What is indented as code, and what stands in backticks within a sentence, where a program's name comes first. In a sentence
    `curfew` with one word, or two where the first is that of a group, is the name of a command, of which it is tried that it has one."""
    fenced, taken = False, 0
    text = (REPOSITORY / page).read_text().splitlines()
    for number, line in enumerate(text, 1):
        fenced ^= line.lstrip().startswith("```")
        if fenced or number <= taken:
            continue
        indented = re.match(r" {4,}(?=\S)", line)
        first = line.split()[0] if line.split() else ""
        if indented and first in _PROGRAMS and "…" not in line:  # else it is what a message says
            block = [line.strip()]
            while block[-1].endswith("\\") or (block[0].startswith("for ") and block[-1] != "done"):
                block.append(text[number - 1 + len(block)].strip())
            taken = number + len(block) - 1
            yield Line(page, number, "\n".join(block))
        elif not indented:
            for span in re.findall(r"`([^`]+)`", line):
                words = span.split()
                if words[0] in _PROGRAMS and len(words) > 1:
                    is_name = words[0] == "curfew" and len(words) <= (3 if words[1] in _GROUPS else 2)
                    yield Line(page, number, f"{span} --help" if is_name else span)


@dataclass(frozen=True)
class Section:
    """What stands under one heading: commands, and the last `curfew.toml` that the page showed by then."""

    page: str
    heading: str
    commands: tuple[Line, ...]
    config: str

    def __str__(self) -> str:
        return f"{self.page}, {self.heading}"


def sections(page: str) -> Iterator[Section]:
    every = list(lines(page))
    heading, config, fence, block, start = "", "", None, [], 0
    text = (REPOSITORY / page).read_text().splitlines()
    for number, line in enumerate([*text, "## "], 1):
        if line.lstrip().startswith("```"):
            if fence == "toml":
                config = "\n".join(block)
            fence, block = (None, []) if fence is not None else (line.strip("` "), [])
        elif fence is not None:
            block.append(line)
        elif line.startswith("## "):
            here = tuple(one for one in every if start < one.number < number)
            if here:
                yield Section(page, heading, here, config)
            heading, config, start = line.removeprefix("## "), "", number


class Reader:
    """Somebody with a shell, an AWS profile, and the account that the page speaks of."""

    def __init__(self, aws: LocalAws, folder: Path) -> None:
        self.aws, self.folder = aws, folder
        self.account = Account(aws)
        deploy(self.account)
        programs = folder / "bin"
        programs.mkdir()
        (programs / "curfew").symlink_to(COMMAND)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), "/usr/bin", "/bin"])
        self.environment = {
            **aws.environment(),
            "PATH": path,
            "HOME": str(folder),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
        self._names: dict[str, str] = {"BUCKET": BUCKET, "TOPIC": self.account.topic_arn, "FILE": "curfew.toml"}
        self._made: dict[str, Callable[[], str]] = {
            "i-0123456789abcdef0": lambda: self.account.busy(self.account.gpu()),
            "i-0fedcba9876543210": lambda: self.account.busy(self.account.gpu()),
            "vol-0123456789abcdef0": lambda: VolumeAccount(aws).orphan(),
            "i-0a1b2c3d4e5f60718": self._stopped,
            "vol-0a1b2c3d4e5f60718": self._deleted,
            "endpoint/llm": lambda: StudioAccount(aws).endpoint("llm"),
            "endpoint/bert": self._deleted_endpoint,
            "RUN": self._held,
            "ID": self._stopped,
            "CHAT_TOPIC": self._chat_topic,
            "QUEUE_ARN": self._queue,
            "SUBSCRIPTION": self._subscription,
            "budget": self._budgets,
            "report": self._month,
            "commitment": self._hours,
            "llama": self._job,
            "my-box": self._box,
            "tune-1a2b3c4d": self._sweep,
            "tune-0007-1a2b3c4d": lambda: self._sweep().replace("tune-", "tune-0007-"),
        }

    def prepared(self, text: str) -> str:
        """The same, with what it names made, and by its real name."""
        if "aws lambda " in text:
            self._make_functions()
        if run_now := re.search(r"curfew run-now ([a-z-]+)", text):
            self.aws.put_invocation(f"curfew-{run_now[1]}", {"run": "run-1", "seen": 0})
        for name, make in self._made.items():
            if re.search(rf"\b{name}\b", text) and name not in self._names:
                self._names[name] = make()
        for name, real in self._names.items():
            text = re.sub(rf"\b{name}\b", real, text)
        # A day that is ahead on the page is ahead whenever the page is tried.
        return _DAY.sub(f"{now() + timedelta(days=30):%Y-%m-%d}", text)

    def types(self, text: str) -> tuple[int, str]:
        """Runs it in a shell at a terminal, and answers yes to whatever is asked. How it ended, and what it said."""
        ours, theirs = pty.openpty()
        seen: list[bytes] = []
        reading = threading.Thread(target=_drain, args=(ours, seen), daemon=True)
        try:
            reading.start()
            ended = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                env=self.environment,
                cwd=self.folder,
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=theirs,
                text=True,
                timeout=180,
            )
        finally:
            os.close(theirs)
            reading.join()
            os.close(ours)
        return ended.returncode, f"{ended.stdout}\n{b''.join(seen).decode(errors='replace')}"

    def _make_functions(self) -> None:
        """The functions of the stack, which a page pauses."""
        functions, iam = self.aws.client("lambda"), self.aws.client("iam")
        if functions.list_functions()["Functions"]:
            return
        [role, *_] = iam.list_roles()["Roles"]
        reapers = ("curfew-reap-instances", "curfew-reap-volumes", "curfew-reap-sagemaker")
        for name in (*reapers, "curfew-enforce-budgets", "curfew-run-jobs", "curfew-send-report"):
            functions.create_function(
                FunctionName=name,
                Role=role["Arn"],
                Runtime="provided.al2023",
                Handler="bootstrap",
                Code={"ZipFile": b"none"},
            )

    def _budgets(self) -> str:
        """Of this month, and of the one that the page names."""
        for team in (None, "vision"):
            write_budget(self.account, team)
            write_budget(self.account, team, at="2026-10", as_of="2026-10-31T23:30:00Z")
        return "budget"

    def _month(self) -> str:
        """A ledger, and a run of each reaper."""
        self.account.gpu()
        with VolumeAccount(self.aws, heard=False) as storage, BudgetAccount(self.aws, heard=False) as money:
            storage.tick()
            money.tick()
        self.account.tick()
        return "report"

    def _chat_topic(self) -> str:
        return self.aws.client("sns").create_topic(Name="curfew-chat")["TopicArn"]

    def _queue(self) -> str:
        sqs = self.aws.client("sqs")
        url = sqs.create_queue(QueueName="tickets")["QueueUrl"]
        return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]

    def _subscription(self) -> str:
        listening = self.aws.client("sns").subscribe(TopicArn=self._chat_topic(), Protocol="sqs", Endpoint=self._queue())
        return listening["SubscriptionArn"]

    def _hours(self) -> str:
        """A ledger that has seen some whole hours."""
        with BudgetAccount(self.aws, heard=False) as money:
            money.launch(now() - timedelta(hours=9))
            money.tick_at(now() - timedelta(hours=5))
            money.tick_at(now() - timedelta(seconds=1))
        return "commitment"

    def _job(self) -> str:
        running(self.account)
        upload(self.account, "step 1\n")
        return "llama"

    def _box(self) -> str:
        (self.folder / "desk").mkdir()
        Desk(self.account, self.folder / "desk").up()
        return "my-box"

    def _sweep(self) -> str:
        with JobAccount(self.aws, heard=False, profile=False) as jobs:
            key = jobs.submit("tune", f'{SPEC}\n[sweep]\nlr = [1e-4, 3e-4]\nseed = "1..5"\n')
            jobs.told_of(key)
            answer = jobs.answer(key)
        assert answer and answer["members"] == 10
        return answer["job"].split("/")[1]

    def _stopped(self) -> str:
        gpu = self.account.idle(self.account.gpu())
        assert self.account.tick().said(gpu)[0] == "mark"
        assert self.account.tick().said(gpu)[0] == "stop"
        return gpu

    def _deleted(self) -> str:
        with VolumeAccount(self.aws) as storage:
            volume = storage.marked()
            storage.snapshot_of(volume)
            assert storage.tick().said(volume) == ("delete", "orphaned", "done")
        return volume

    def _deleted_endpoint(self) -> str:
        with StudioAccount(self.aws) as studio:
            studio.configure(sagemaker={"endpoint_action": "delete"})
            endpoint = studio.unused(studio.endpoint("bert"))
            assert [studio.tick().said(endpoint)[0] for _ in range(2)] == ["mark", "delete"]
        return endpoint

    def _held(self) -> str:
        gpus = [self.account.idle(self.account.gpu()) for _ in range(3)]
        self.account.tick()
        self.account.configure(limits={"actions_max": 1})
        run = self.account.tick()
        assert {run.said(gpu)[2] for gpu in gpus} == {"not-reached"}
        return run.response["run"]


def _drain(terminal: int, seen: list[bytes]) -> None:
    """Whatever is written there, until its other end is closed; each question is answered once it is seen."""
    answered = 0
    try:
        while some := os.read(terminal, 4096):
            seen.append(some)
            asked = b"".join(seen).count(b"[y/N]")
            os.write(terminal, b"y\n" * (asked - answered))
            answered = asked
    except OSError:  # how Linux says that nobody writes there any more
        pass


@pytest.fixture
def reader(aws: LocalAws, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(aws, tmp_path)
    with reader.account:
        yield reader


def _is_run(line: Line) -> bool:
    return line.text.split()[0] not in _NOT_RUN and not _asks_for_help(line) and _deployed(line) is None


def _asks_for_help(line: Line) -> bool:
    return line.text.startswith("curfew ") and line.text.endswith(" --help")


def _by_text(every: Iterable[Line]) -> list[Line]:
    """The first line of each text."""
    return list({line.text: line for line in reversed(list(every))}.values())


_LINES = [line for page in PAGES for line in lines(page)]


def _deployed(line: Line) -> str | None:
    """The template that a line deploys. The local AWS knows no change sets, so such a line is read instead."""
    found = re.match(r"aws cloudformation deploy .*--template-file (\S+)", line.text, re.DOTALL)
    return found[1] if found else None


def _command(text: str) -> str | None:
    """Which command of `curfew` it is, where docs/command.md says what that needs."""
    words = text.split()
    if words[0] != "curfew":
        return None
    name = " ".join(words[1:3]) if words[1] in _GROUPS else words[1]
    return None if name in ("apply", "completions", "protect") else name


@pytest.mark.parametrize("section", [one for page in PAGES for one in sections(page) if any(map(_is_run, one.commands))], ids=str)
def test_a_section(section: Section, reader: Reader) -> None:
    for name in ("curfew.toml", "train.toml"):
        (reader.folder / name).write_text(section.config)
    if section.page == "docs/triggers.md":
        reader.account.configure(teams={"vision": {"buckets": ["s3://vision-data/uploads/"]}})
    for line in filter(_is_run, section.commands):
        text = reader.prepared(line.text)
        reader.aws.clear_calls()
        code, said = reader.types(text)
        assert code in ({0, 1} if _FINDS.match(line.text) else {0}), f"{line}\n{said}"
        if (command := _command(line.text)) is not None:
            needed = set(reader.aws.permissions()) - {"cloudformation:DescribeStackResources"}
            assert needed <= permissions(command), f"{line} needs more than docs/command.md says"
            calls = reader.aws.calls()
            beyond = [(call["action"], call["resources"]) for call in calls if not is_in_row(call, objects(command))]
            assert beyond == [], f"{line} reads or writes more than docs/command.md says"
            # The policies are for what EC2 has.
            if line.page != "docs/sagemaker.md":
                assert refused(command, calls) == [], f"{line} needs more than a policy of deploy/policies allows"


@pytest.mark.parametrize("line", _by_text(filter(_asks_for_help, _LINES)), ids=str)
def test_a_command_that_a_sentence_names_is_there(line: Line) -> None:
    told = subprocess.run([COMMAND, *line.text.split()[1:]], capture_output=True, text=True, timeout=180)
    assert told.returncode == 0, f"{line}\n{told.stderr}"


@pytest.mark.parametrize("line", _by_text(one for one in _LINES if one.text.startswith("make ")), ids=str)
def test_a_make_target_is_there(line: Line) -> None:
    command = line.text.split("  ")[0].removeprefix("make ")
    told = subprocess.run(
        ["bash", "-c", f"make --dry-run {command}"], cwd=REPOSITORY, capture_output=True, text=True, timeout=180
    )
    assert told.returncode == 0, f"{line}\n{told.stderr}"


@pytest.mark.parametrize("line", list(filter(_deployed, _LINES)), ids=str)
def test_a_template_that_is_deployed_is_there_and_has_these_parameters(line: Line) -> None:
    parameters = template(REPOSITORY / str(_deployed(line)))["Parameters"]
    given = set(re.findall(r"(\w+)=", line.text.partition("--parameter-overrides")[2]))
    assert given and given <= set(parameters)
    assert {name for name, one in parameters.items() if "Default" not in one} <= given, "what it asks for"


def test_every_page_and_every_command_is_found() -> None:
    """What is not found is not run."""
    found = {line.text for line in _LINES}
    for known in ("curfew scan", "curfew doctor", "curfew apply RUN", "make demo"):
        assert known in found
    assert {path.name for path in REPOSITORY.glob("*.md")} - {"ARCHITECTURE.md"} <= set(PAGES)
    assert {line.text.split()[0] for line in _LINES} <= {*_PROGRAMS}
