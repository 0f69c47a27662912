"""The byte server, agent/examples/byte-server.rs, for the time of a `with` block: compiled on the fly, a process of its own."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .measure import REPOSITORY

_SOURCE = REPOSITORY / "agent" / "examples" / "byte-server.rs"
_BINARY = REPOSITORY / "target" / "bench" / "byte-server"


@dataclass(frozen=True)
class ByteServer:
    address: str  # S3's, for any bucket, and that of the instance metadata

    def told(self) -> dict[str, Any]:
        """`calls` by kind, `bytes` that are kept, and what was `refused`, since the last `forget`."""
        return json.loads(self.get("_bench/told"))

    def forget(self) -> None:
        """There is nothing in any bucket."""
        self.get("_bench/forget")

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.address}/{path}", timeout=60) as answer:
            return answer.read()

    def put(self, bucket: str, key: str, body: str) -> None:
        request = urllib.request.Request(f"{self.address}/{bucket}/{quote(key)}", data=body.encode(), method="PUT")
        with urllib.request.urlopen(request, timeout=60):
            pass


@contextmanager
def serving() -> Iterator[ByteServer]:
    process = subprocess.Popen(
        [_compiled()],
        stdin=subprocess.PIPE,  # its end is the server's, however we end
        stdout=subprocess.PIPE,
    )
    try:
        yield ByteServer(**json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def _compiled() -> Path:
    if not _BINARY.is_file() or _BINARY.stat().st_mtime < _SOURCE.stat().st_mtime:
        _BINARY.parent.mkdir(parents=True, exist_ok=True)
        new = _BINARY.with_suffix(".new")
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", new, _SOURCE], cwd=REPOSITORY, check=True)
        new.replace(_BINARY)  # at once, beside others that compile it as well
    return _BINARY
