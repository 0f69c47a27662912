"""Leaves out the files of tests that passed within a day with what they still have: `pytest -p unchanged`, as in `make test`.

A file of tests has passed with its inputs: the modules that it imports and what lies beside them, the files of the repository that these
have opened, and our own executables that its tests have launched. Where one lists a folder, or a test launches another program (a shell,
Python, make), everything here is an input, for what that reads is not seen. A file of which a test was skipped, or was not run, has not
passed.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from runtime_api import INVOKED

ROOT = Path(__file__).resolve().parents[1]
INTEGRATION = ROOT / "integration"
TARGET = ROOT / "target"
EXECUTABLES = TARGET / "debug"
PASSED = TARGET / "passed"
VALID_SECONDS = 24 * 3600


def group_of(item: pytest.Item) -> str:
    """What is left out or run as a whole: a file, or the tests of it that one process runs."""
    marker = item.get_closest_marker("xdist_group")
    file = str(item.path.relative_to(ROOT))
    return f"{file}@{marker.args[0]}" if marker else file


@cache
def imported(module: Path) -> frozenset[Path]:
    """The modules of `integration` that a module imports, it included, and those that they import."""
    found, left = set(), [module]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _imports(path)
    return frozenset(found)


@cache
def _imports(module: Path) -> list[Path]:
    names = []
    for node in ast.walk(ast.parse(module.read_bytes())):
        if isinstance(node, ast.Import):
            names += [(INTEGRATION, one.name) for one in node.names] + [(INTEGRATION / "tests", one.name) for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            roots = [module.parents[node.level - 1]] if node.level else [INTEGRATION, INTEGRATION / "tests"]
            whole = [".".join([*([node.module] if node.module else []), name]) for name in ["", *(one.name for one in node.names)]]
            names += [(root, name.strip(".")) for root in roots for name in whole]
    places = [root.joinpath(*name.split(".")) if name else root for root, name in names]
    return [path for place in places for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()]


def listed_files() -> list[Path] | None:
    """All files of the repository, those included that are not committed yet; None where git does not know them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return sorted(ROOT / name for name in listed.stdout.split("\0") if name) if listed.returncode == 0 else None


@cache
def digest(path: Path) -> str:
    """Of a file's content; of an executable its time and size, for it has 100 MB."""
    if path == ROOT:
        files = listed_files()
        if files is None:
            return f"unknown at {time.time()}"
        executables = sorted(one for one in [*EXECUTABLES.iterdir(), *(EXECUTABLES / "examples").iterdir()] if os.access(one, os.X_OK))
        inputs = files + [one for one in executables if one.is_file()]
        return sha256("".join(f"{one} {digest(one)}\n" for one in inputs).encode()).hexdigest()
    if not path.is_file():
        return "absent"
    if path.is_relative_to(TARGET):
        return f"{path.stat().st_mtime_ns} {path.stat().st_size}"
    return sha256(path.read_bytes()).hexdigest()


class Unchanged:
    """What the tests of this process have opened and launched, and which groups have passed."""

    def __init__(self) -> None:
        self.group: str | None = None
        self.opened: defaultdict[Path, set[Path]] = defaultdict(set)  # by the module that opened it
        self.launched: defaultdict[str, set[Path]] = defaultdict(set)  # by group
        self.tests: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.unclean: set[str] = set()  # tests that failed, or were skipped
        self.files: dict[str, Path] = {}
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and arguments[2] & os.O_ACCMODE == os.O_RDONLY:
            self._open(arguments[0], is_folder=False)
        elif event in ("os.scandir", "os.listdir"):
            self._open(arguments[0], is_folder=True)
        elif self.group and event in (INVOKED, "subprocess.Popen"):
            self._launch(os.fsdecode(arguments[0]))
        elif self.group and event in ("os.fork", "os.forkpty", "os.system", "os.posix_spawn", "os.exec"):
            self.launched[self.group].add(ROOT)

    def _open(self, name: Any, *, is_folder: bool) -> None:
        if not isinstance(name, (str, bytes, os.PathLike)):
            return
        path = os.path.abspath(os.fsdecode(name))
        is_input = path.startswith(f"{ROOT}/") and not path.startswith(f"{TARGET}/") or path.startswith(f"{EXECUTABLES}/")
        if not is_input or path.endswith((".py", ".pyc", "/__pycache__")):
            return
        frame = sys._getframe(2)
        while frame and not frame.f_code.co_filename.startswith(f"{INTEGRATION}/"):
            frame = frame.f_back
        if frame and frame.f_code.co_filename != __file__:
            self.opened[Path(frame.f_code.co_filename)].add(ROOT if is_folder else Path(os.path.realpath(path)))

    def _launch(self, executable: str) -> None:
        path = Path(executable).resolve()
        self.launched[self.group or ""].add(path if path.is_relative_to(EXECUTABLES) else ROOT)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            self.tests[group_of(item)] += 1
            self.files[group_of(item)] = item.path
        kept = [item for item in items if not is_unchanged(group_of(item))]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.group = group_of(item)
        try:
            return (yield)
        finally:
            self.passed[self.group] += item.nodeid not in self.unclean
            self.group = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.unclean.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
        PASSED.mkdir(parents=True, exist_ok=True)
        for group, passed in self.passed.items():
            _record(group).unlink(missing_ok=True)
            if passed == self.tests[group]:
                inputs = {str(path): digest(path) for path in self._inputs(group)}
                record = {"at": time.time(), "python": sys.version, "inputs": inputs}
                _record(group).write_text(json.dumps(record, indent=1), encoding="utf-8")

    def _inputs(self, group: str) -> set[Path]:
        modules = imported(self.files[group]) | imported(INTEGRATION / "tests" / "conftest.py")
        beside = {path for folder in {module.parent for module in modules} for path in folder.iterdir() if path.is_file() and path.suffix != ".py"}
        # What a child of multiprocessing launches is not seen.
        everything = {ROOT} if any(b"multiprocessing" in module.read_bytes() for module in modules) else set()
        return modules.union(beside, everything, self.launched[group], *(self.opened[module] for module in modules))


def _record(group: str) -> Path:
    return PASSED / f"{group.replace('/', '.')}.json"


@cache
def is_unchanged(group: str) -> bool:
    """Whether the tests of a group passed within a day with what is there now."""
    try:
        record = json.loads(_record(group).read_text(encoding="utf-8"))
    except OSError:
        return False
    is_young = 0 <= time.time() - record["at"] < VALID_SECONDS
    return is_young and record["python"] == sys.version and all(digest(Path(path)) == known for path, known in record["inputs"].items())


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Unchanged(), "unchanged-inputs")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line("files of tests that passed within a day with the same inputs are left out (`make test ALL=1` runs them)")
