"""The real command `curfew`, typed by the people of the story, and what it answers."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from .run import BINARIES, Broken
from .screen import WIDTH, line, paint, paragraph
from .seed import BUCKET, Account

_COMMAND = BINARIES / "curfew"
_NO_SETTINGS = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}


def before_deployment(account: Account, config: str, *arguments: str) -> str:
    """No deployment is named; a file `curfew.toml` configures idleness."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "curfew.toml").write_text(config)
        return _type(account, {}, folder, *arguments)


def curfew(account: Account, *arguments: str, **environment: str) -> str:
    """Shows the command line and its output. Returns the output."""
    return _type(account, {"CURFEW_BUCKET": BUCKET, "CURFEW_TOPIC_ARN": account.topic_arn, **environment}, ".", *arguments)


def curfew_with(account: Account, files: dict[str, str], *arguments: str) -> str:
    """The same, in a folder in which these lie."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        return _type(account, {"CURFEW_BUCKET": BUCKET, "CURFEW_TOPIC_ARN": account.topic_arn}, folder, *arguments)


def _type(account: Account, deployment: dict[str, str], folder: str, *arguments: str) -> str:
    if not _COMMAND.exists():
        raise Broken(f"{_COMMAND} is not built: run `make demo`, or `cargo build --package cli`")
    line()
    line(paint(f"$ curfew {shlex.join(arguments)}", "bold"))
    told = subprocess.run(
        [_COMMAND, *arguments],
        env={**account.aws.environment(), **_NO_SETTINGS, **deployment, "COLUMNS": str(WIDTH)},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    for one in told.stdout.splitlines():
        _show(one)
    # 1: it found something.
    if told.returncode not in (0, 1):
        raise Broken(f"`curfew {shlex.join(arguments)}` ended with {told.returncode}")
    return told.stdout


def _show(text: str) -> None:
    """A row of a table keeps its width, and a sentence wraps."""
    if "  " in text.strip():
        line(text.rstrip())
    else:
        paragraph(text.strip(), " " * (len(text) - len(text.lstrip())))
