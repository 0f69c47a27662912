"""The version of Curfew: `workspace.package.version` of Cargo.toml. Whatever else names it has to agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The subset of Semantic Versioning 2.0.0 that is a version of PEP 440 and a name of a file as well.
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_HEADING = re.compile(r"^## (\S+) \((.*)\)$", re.MULTILINE)
_OUTPUT = re.compile(r"^  Version:\n(?:    .*\n)*?    Value: \"?([^\"\s]+)\"?$", re.MULTILINE)
UNRELEASED = "unreleased"
_DATE = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}|{UNRELEASED}")


class ReleaseError(Exception):
    """A reason for which there is no release: what failed, and what to do."""


def read_version(root: Path = ROOT) -> str:
    """The one place; raises ReleaseError where that is no version."""
    version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f'Cargo.toml: the version "{version}" is not like 1.2.3. Write three numbers with dots.')
    return version


def version_problems(root: Path = ROOT, tag: str | None = None) -> list[str]:
    """Each place that disagrees with Cargo.toml, and what to write there. A release has a tag, and its changes a date."""
    version = read_version(root)
    problems = []
    heading = _HEADING.search((root / "CHANGELOG.md").read_text())
    newest, date = (heading[1], heading[2]) if heading else ("absent", "")
    if newest != version or not _DATE.fullmatch(date):
        problems.append(f'CHANGELOG.md: the newest heading is {newest} ({date}). Write "## {version} ({UNRELEASED})", or the day YYYY-MM-DD.')
    output = _OUTPUT.search((root / "template.yaml").read_text())
    if (output[1] if output else None) != version:
        problems.append(f'template.yaml: the output Version is {output[1] if output else "absent"}. Set its Value to "{version}".')
    if tag is not None and tag != f"v{version}":
        problems.append(f"The tag is {tag}, and Cargo.toml has {version}. Tag that version as v{version}.")
    if tag is not None and date == UNRELEASED:
        problems.append(f'CHANGELOG.md: {newest} is "{UNRELEASED}". Write the day of the release instead.')
    return problems
