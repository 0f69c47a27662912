"""`python -m release`: builds what a tag publishes, and uploads nothing."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from . import command, sbom, stack, template
from .archives import write_checksums
from .settings import BuildSettings
from .version import ROOT, ReleaseError, version_problems

OUT = ROOT / "target" / "release-artifacts"
PARTS = ("all", "check", "sbom", "template", "command", "stack", "checksums")


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="release", description="Build what a tag publishes.")
    parser.add_argument("part", nargs="?", choices=PARTS, default="all")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder of the results")
    parser.add_argument("--tag", help="the tag of the release, such as v1.2.3: everything has to agree with it")
    parser.add_argument("--target", action="append", default=[], help="a target of the command, instead of those that this system links")
    parser.add_argument("--profile", default="release", help="the profile of Cargo for the command: dev is for trying this program")
    return parser.parse_args(words)


def check_version(tag: str | None) -> None:
    if problems := version_problems(tag=tag):
        raise ReleaseError("\n".join(problems))


def build_commands(triples: list[str], settings: BuildSettings) -> list[Path]:
    targets = command.find_targets(triples) if triples else command.default_targets()
    command.check_targets(targets, settings)
    return [command.build_command(target, settings) for target in targets]


def build(asked: argparse.Namespace) -> list[Path]:
    """The files of the part that was asked for. All parts come with the quick ones first, and checksums of the rest last."""
    check_version(asked.tag)
    settings = BuildSettings(asked.out.absolute(), asked.profile)
    settings.out.mkdir(parents=True, exist_ok=True)
    parts = {
        "check": lambda: [],
        "sbom": lambda: [sbom.write_sbom(settings.out)],
        "template": lambda: [template.package(settings.out)],
        "command": lambda: build_commands(asked.target, settings),
        "stack": lambda: [stack.build_stack(settings)],
        "checksums": lambda: [write_checksums(settings.out)],
    }
    wanted = ("sbom", "command", "stack", "checksums") if asked.part == "all" else (asked.part,)
    return [path for part in wanted for path in parts[part]()]


def main() -> int:
    try:
        made = build(parse())
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: {' '.join(map(str, error.cmd))} failed:\n{error.stderr}", file=sys.stderr)
        return 1
    for path in made:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
