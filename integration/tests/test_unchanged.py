"""What `make test` leaves out: only what passed lately with the same inputs."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import unchanged

HERE = Path(__file__).resolve().parent


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Records that a group passed with one input, and answers whether it is left out with that input's content now."""
    monkeypatch.setattr(unchanged, "PASSED", tmp_path)
    source = tmp_path / "input.txt"

    def is_left_out(content: str = "as it was", **changes: Any) -> bool:
        unchanged.digest.cache_clear()
        unchanged.is_unchanged.cache_clear()
        source.write_text("as it was")
        known = {"at": time.time() - 60, "python": sys.version, "inputs": {str(source): unchanged.digest(source)}}
        (tmp_path / "group.json").write_text(json.dumps({**known, **changes}))
        source.write_text(content)
        unchanged.digest.cache_clear()
        return unchanged.is_unchanged("group")

    return is_left_out


def test_what_passed_lately_with_the_same_inputs_is_left_out(record: Any) -> None:
    assert record()
    assert not record("as it is")
    assert not record(at=time.time() - 25 * 3600)
    assert not record(at=time.time() + 3600)
    assert not record(python="another")
    assert not unchanged.is_unchanged("another group")


def test_a_file_of_tests_has_the_modules_that_its_modules_import() -> None:
    found = unchanged.imported(HERE / "test_cli_budget.py")
    assert {HERE / "test_cli_budget.py", HERE / "reaping.py", HERE.parent / "runtime_api.py", HERE.parent / "moved_clock.py"} <= found
    assert HERE.parent / "local_aws" / "__init__.py" in found
    assert HERE / "test_hosts.py" not in found


def test_everything_includes_what_is_not_committed() -> None:
    files = unchanged.listed_files()
    assert files is not None and Path(__file__) in files
