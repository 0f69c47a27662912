"""Uploads and restores of one checkpoint, by the real agent and by `aws s3 cp --recursive`, a whole process each time."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from . import process
from .agent_checkpoint import NAME, STEP, Checkpoint, digest, make, remove
from .byte_server import ByteServer
from .measure import Usage, python_environment

AWS = Path(sys.executable).parent / "aws"
BUCKET = "curfew-state"
_JOB = "vision/llama-1a2b3c4d"
_FILES = f"checkpoints/{_JOB}/1/{STEP}/files/{NAME}"
# Waits, of which the agent has some at its beginning and end, are not what is measured.
_HURRY = 20


class Machine:
    """A disk, the bucket, and who moves the checkpoint from one to the other."""

    def __init__(self, server: ByteServer, binary: Path, checkpoint: Checkpoint, disk: Path) -> None:
        self.server, self.binary, self.checkpoint, self.disk = server, binary, checkpoint, disk
        self.source, self.checkpoints = disk / "source" / NAME, disk / "checkpoints"
        make(checkpoint, self.source)
        self.digest = digest(self.source)

    @property
    def putting(self) -> str:
        """What a command does that writes the checkpoint: it is linked, for writing is not the agent's."""
        return f"cp -al {shlex.quote(str(self.source))} \"$CURFEW_CHECKPOINT_DIR\""

    @property
    def head(self) -> str:
        """Where the server has head.json."""
        return f"{BUCKET}/attempts/{_JOB}/head.json"

    def agent_uploads(self) -> Usage:
        """What the command wrote is complete when that has ended."""
        self.server.forget()
        remove(self.checkpoints)
        return self._agent(self.putting)

    def agent_restores(self) -> Usage:
        """What the agent has uploaded, in front of a command that does nothing."""
        remove(self.checkpoints)
        head = {"schema": 1, "attempt": 1, "launch": "0a", "checkpoint": {"attempt": 1, "step": STEP}, "kept": [], "result": None}
        return self._restored(self._agent("true", json.dumps(head)))

    def aws_uploads(self) -> Usage:
        self.server.forget()
        return self._aws(self.source, f"s3://{BUCKET}/{_FILES}")

    def aws_restores(self) -> Usage:
        """The same objects."""
        remove(self.checkpoints)
        return self._restored(self._aws(f"s3://{BUCKET}/{_FILES}", self.checkpoints / NAME))

    def _restored(self, moved: Usage) -> Usage:
        folder = self.checkpoints / NAME
        same = folder.is_dir() and digest(folder) == self.digest
        return moved if same else replace(moved, wrong=(*moved.wrong, "what was restored is not what was uploaded"))

    def _aws(self, source: str | Path, target: str | Path) -> Usage:
        command = [AWS, "s3", "cp", "--recursive", "--only-show-errors", source, target]
        return self._moved(command, "")

    def _agent(self, command: str, head: str | None = None) -> Usage:
        with agent_command(self.server, self.binary, command, self.checkpoints, _HURRY, head) as words:
            return self._moved(words, "the command has ended with success")

    def _moved(self, command: list[str | Path], says: str) -> Usage:
        """`says` is what it has to say."""
        before = self.server.told()["calls"]
        with tempfile.TemporaryFile() as output:
            used = process.run(command, environment(self.server, self.disk), output, output)
            output.seek(0)
            said = output.read().decode(errors="replace")
        told = self.server.told()
        calls = {call: count - before.get(call, 0) for call, count in told["calls"].items()}
        wrong = [f"the server refused: {words}" for words in told["refused"]]
        if used.code != 0 or says not in said:
            wrong.append(f"exit code {used.code}: {said[-1000:]}")
        if told["bytes"] < self.checkpoint.bytes:
            wrong.append(f"the bucket has {told['bytes']:,} bytes, less than the checkpoint")
        return Usage(used.cpu_seconds, used.wall_seconds, used.peak_mib, calls, 0, tuple(wrong))


def environment(server: ByteServer, home: Path) -> dict[str, str]:
    return {**python_environment(server.address, str(home)), "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.address}


@contextmanager
def agent_command(
    server: ByteServer, binary: Path, command: str, checkpoints: Path, hurry: int, head: str | None = None
) -> Iterator[list[str | Path]]:
    """The agent as a process of its own, for a job whose command that is; what the reconciler writes is in the bucket."""
    user = pwd.getpwuid(os.getuid()).pw_name
    spec = f"name = \"llama\"\ncommand = {json.dumps(command)}\n"
    spec += f"[checkpoint]\ndir = {json.dumps(str(checkpoints))}\nevery = \"1m\"\nkeep = 3\n"
    spec += f"[machine]\nuser = {json.dumps(user)}\n[gpu]\ncount = 1\n[limits]\nmax_runtime = \"8h\"\n"
    server.put(BUCKET, f"jobs/{_JOB}/spec.toml", spec)
    server.put(BUCKET, f"jobs/{_JOB}/state.json", json.dumps({"schema": 1, "terms": {"checkpoint": {"keep": 3}}}))
    if head is not None:
        server.put(BUCKET, f"attempts/{_JOB}/head.json", head)
    ends_at = datetime.now(timezone.utc) + timedelta(hours=1)
    identity = {
        "schema": 1,
        "bucket": BUCKET,
        "region": "us-east-1",
        "job": _JOB,
        "attempt": 1,
        "launch": "0a",
        "ends_at": ends_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "agent_sha256": "0" * 64,
    }
    with tempfile.NamedTemporaryFile("w") as file:
        json.dump(identity, file)
        file.flush()
        yield [binary, "--identity", file.name, "--shutdown-command", "true", "--hurry", str(hurry)]
