"""Where a release is built, and with which tools."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .version import ROOT

# What makes a make think itself part of another.
_OF_MAKE = frozenset({"MAKEFLAGS", "MFLAGS", "MAKELEVEL"})


@dataclass(frozen=True)
class BuildSettings:
    """`tools` has the pinned programs in `bin`; `built` is the target folder of cargo."""

    out: Path
    profile: str = "release"
    tools: Path = ROOT / "target" / "venv-build"
    built: Path = ROOT / "target" / "command"

    def environment(self) -> dict[str, str]:
        """That of every program that builds: the pinned tools come first."""
        kept = {key: value for key, value in os.environ.items() if key not in _OF_MAKE}
        return kept | {"PATH": f"{self.tools / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def binary(self, triple: str, name: str) -> Path:
        return self.built / triple / ("debug" if self.profile == "dev" else self.profile) / name
