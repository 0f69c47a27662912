"""The command `curfew` for each target: a wheel by maturin, and an archive with the same binary."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import baseline

from .archives import write_tar
from .settings import BuildSettings
from .version import ROOT, ReleaseError, read_version


@dataclass(frozen=True)
class Target:
    """A triple of rustc, the machine of its ELF files, and the tags of its wheel."""

    triple: str
    machine: str
    compatibility: tuple[str, ...] = ("pypi",)

    @property
    def is_static(self) -> bool:
        return self.triple.endswith("-musl")

    @property
    def is_macos(self) -> bool:
        return self.triple.endswith("-apple-darwin")


# A static binary needs no libc, so one wheel has the tags of both.
_STATIC = ("manylinux2014", "musllinux_1_1", "pypi")
TARGETS = (
    Target("x86_64-unknown-linux-musl", "x86_64", _STATIC),
    Target("aarch64-unknown-linux-musl", "arm64", _STATIC),
    Target("x86_64-apple-darwin", "x86_64"),
    Target("aarch64-apple-darwin", "arm64"),
    # No part of a release: to try all of this with the standard library that every toolchain has.
    Target("x86_64-unknown-linux-gnu", "x86_64", ("manylinux2014", "pypi")),
)
# zig has no frameworks of macOS, and the command needs Security.framework for its root certificates: macOS builds macOS.
LINUX = tuple(target for target in TARGETS if target.is_static)
MACOS = tuple(target for target in TARGETS if target.is_macos)
# Beside the binary.
_DOCUMENTS = ("LICENSE", "README.md", "CHANGELOG.md")


def default_targets(system: str = sys.platform) -> tuple[Target, ...]:
    """Those that this system can link."""
    return MACOS if system == "darwin" else LINUX


def find_targets(triples: list[str]) -> tuple[Target, ...]:
    known = {target.triple: target for target in TARGETS}
    unknown = [triple for triple in triples if triple not in known]
    if unknown:
        raise ReleaseError(f"No such target: {', '.join(unknown)}. Known are {', '.join(known)}.")
    return tuple(known[triple] for triple in triples)


def check_targets(targets: tuple[Target, ...], settings: BuildSettings) -> None:
    """One error before anything is built, with the command that installs whatever is missing."""
    missing = []
    for target in targets:
        words = ["rustc", "--print", "target-libdir", "--target", target.triple]
        told = subprocess.run(words, cwd=ROOT, env=settings.environment(), capture_output=True, text=True, check=False)
        if told.returncode or not Path(told.stdout.strip()).is_dir():
            missing.append(target.triple)
    if missing:
        raise ReleaseError(f"Rust cannot build for {', '.join(missing)} yet. Run: rustup target add {' '.join(missing)}")


def build_command(target: Target, settings: BuildSettings) -> Path:
    """The wheel and the archive of a target; the path of the archive."""
    words = ["maturin", "build", "--manifest-path", "cli/Cargo.toml", "--locked", "--profile", settings.profile]
    words += ["--target", target.triple, "--out", str(settings.out)]
    words += [word for tag in target.compatibility for word in ("--compatibility", tag)]
    if not target.is_macos:
        words.append("--zig")
    environment = settings.environment() | {"CARGO_TARGET_DIR": str(settings.built)}
    if subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode:
        raise ReleaseError(f"The command was not built for {target.triple}; the error of maturin is above.")
    binary = settings.binary(target.triple, "curfew")
    check_binary(target, binary)
    if is_runnable(target):
        check_version(binary)
    name = f"curfew-{read_version()}-{target.triple}"
    archive = settings.out / f"{name}.tar.gz"
    documents = {document: ROOT / document for document in _DOCUMENTS}
    write_tar(archive, name, {"curfew": binary, **documents}, frozenset({"curfew"}))
    return archive


def check_binary(target: Target, binary: Path) -> None:
    """A binary for Linux is for the processor that its name says, and static where that is promised."""
    if target.is_macos:
        return
    try:
        program = baseline.read(binary)
    except (baseline.Unreadable, OSError) as error:
        raise ReleaseError(f"{binary} cannot be read: {error}") from None
    if program.machine != target.machine:
        raise ReleaseError(f"{binary} is for {program.machine}, not for {target.machine}.")
    if target.is_static and (program.interpreter or program.libraries):
        needs = ", ".join(program.libraries) or "a loader"
        raise ReleaseError(f"{binary} is not static: it needs {needs}.")


def check_version(binary: Path) -> None:
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    if said != f"curfew {read_version()}":
        raise ReleaseError(f'{binary} --version says "{said}", and Cargo.toml has {read_version()}. Build it again.')


def is_runnable(target: Target) -> bool:
    here = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine())
    return target.machine == here and target.is_macos == (sys.platform == "darwin")

