"""A fleet that is served by a process of its own, for the time of a `with` block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_INTEGRATION = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Served:
    address: str
    function: str
    count: int  # of instances, or of volumes
    rendered_bytes: int  # all that DescribeInstances, or DescribeVolumes, says of them

    def told(self) -> dict[str, Any]:
        """`calls`, `metrics_asked`, `published` and `refused` since the last `forget`."""
        return self._get("told")

    def forget(self) -> None:
        """Nothing was called, and the bucket holds the configuration only."""
        self._get("forget")

    def _get(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self.address}/_bench/{what}", timeout=10) as answer:
            return json.load(answer)


@contextmanager
def serving(function: str, count: int) -> Iterator[Served]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.endpoint", "--function", function, "--count", str(count)],
        env={**os.environ, "PYTHONPATH": str(_INTEGRATION)},
        stdin=subprocess.PIPE,  # its end is the server's, however we end
        stdout=subprocess.PIPE,
    )
    try:
        ready = process.stdout.readline()
        if not ready:
            raise RuntimeError(f"the endpoint for {function} at {count} did not start: see above")
        yield Served(**json.loads(ready))
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()
