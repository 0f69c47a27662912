"""The package of a function: what it carries, and that no agent is in it which an old machine would not start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from reaping import REPOSITORY

BASELINE = REPOSITORY / "deploy" / "baseline.py"
Link = Callable[..., Path]


@pytest.fixture
def link(tmp_path: Path) -> Link:
    """A program that needs one symbol of each of these versions of a library called as glibc is, as a real linker writes it."""

    def linked(*versions: str, options: tuple[str, ...] = ()) -> Path:
        folder = tmp_path / ("-".join(versions) or "none")
        folder.mkdir()
        names = [f"symbol_{number}" for number in range(len(versions))]
        (folder / "libc.c").write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in names) + "int other;\n")
        script = "".join(f"{version} {{ global: {name}; }};\n" for version, name in zip(versions, names))
        (folder / "versions").write_text(script or "GLIBC_9.9 { global: other; };\n")
        calls = " + ".join([f"{name}()" for name in names] or ["0"])
        declared = "".join(f"int {name}(void);\n" for name in names)
        (folder / "program.c").write_text(f"{declared}int _start(void) {{ return {calls}; }}\n")
        library = folder / "libc.so.6"
        shared = ["-shared", f"-Wl,--version-script={folder / 'versions'}", "-Wl,-soname,libc.so.6", "-o", library, folder / "libc.c"]
        program = [*options, "-Wl,--no-as-needed", "-o", folder / "program", folder / "program.c"]
        for words in (shared, program if "-static" in options else [*program, library]):
            subprocess.run(["cc", "-nostdlib", *words], check=True)
        return folder / "program"

    return linked


def check(*files: Path, glibc: str = "2.26") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-I", BASELINE, "--glibc", glibc, *files]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_an_old_glibc_is_enough(link: Link) -> None:
    program = link("GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.26")
    told = check(program)
    assert (told.returncode, told.stderr) == (0, "")
    assert "needs glibc 2.26 at the newest, and libc.so.6" in told.stdout
    assert "glibc 2.2.5 at the newest" in check(link("GLIBC_2.2.5")).stdout


def test_a_newer_symbol_is_refused_and_named(link: Link) -> None:
    # Compared as numbers: 2.100 comes after 2.26, and 2.3 before it.
    told = check(link("GLIBC_2.3", "GLIBC_2.34", "GLIBC_2.100"))
    assert told.returncode == 1 and told.stdout == ""
    assert "it needs GLIBC_2.34, which glibc 2.26 does not have" in told.stderr
    assert "GLIBC_2.100" in told.stderr and "GLIBC_2.3," not in told.stderr


def test_private_symbols_of_glibc_are_refused(link: Link) -> None:
    told = check(link("GLIBC_PRIVATE"))
    assert told.returncode == 1 and "GLIBC_PRIVATE" in told.stderr


def test_a_static_program_is_refused(link: Link) -> None:
    told = check(link(options=("-static",)))
    assert told.returncode == 1 and "cannot load a library when it runs" in told.stderr


class Build:
    """`make build-RunJobs` as SAM calls it, with a cargo that copies what it is told to: alone, or after `make build` has compiled by these goals."""

    def __init__(self, folder: Path, agent: Path, compiled_by: tuple[str, ...] = ()) -> None:
        self.artifacts, self.tools = folder / "artifacts", folder / "tools"
        self.artifacts.mkdir()
        (self.tools / "bin").mkdir(parents=True)
        (self.tools / ".installed").touch()
        future = (REPOSITORY / "deploy" / "requirements.txt").stat().st_mtime + 1
        os.utime(self.tools / ".installed", (future, future))
        cargo, rustc = self.tools / "bin" / "cargo", self.tools / "bin" / "rustc"
        cargo.write_text(
            '#!/bin/sh\necho "$@" >> "$ASKED"\n'
            'while [ $# -gt 0 ]; do case "$1" in --target-dir) into=$2;; --lambda-dir) functions=$2;; --target) targets="$targets ${2%%.*}";; '
            '--package) what="$what $2";; esac; shift; done\n'
            'for one in $what; do case $one in\n'
            'agent) for target in $targets; do mkdir -p "$into/$target/release"; cp "$AGENT" "$into/$target/release/agent"; done;;\n'
            '*) mkdir -p "$functions/$one"; echo $one > "$functions/$one/bootstrap";; esac; done\n'
        )
        rustc.write_text('#!/bin/sh\necho "$SYSROOT"\n')
        for one in (cargo, rustc):
            one.chmod(0o755)
        for target in ("x86_64", "aarch64"):
            (folder / "sysroot" / "lib" / "rustlib" / f"{target}-unknown-linux-gnu" / "lib").mkdir(parents=True)
        self.asked = folder / "asked"
        own = {"ASKED": self.asked, "AGENT": agent, "SYSROOT": folder / "sysroot"}
        own |= {"PATH": f"{self.tools / 'bin'}:{os.environ['PATH']}"}
        words = ["make", "-f", REPOSITORY / "deploy" / "package.mk", f"TOOLS={self.tools}", f"PYTHON={sys.executable}"]
        words += [f"ARTIFACTS_DIR={self.artifacts}", f"AGENTS={folder / 'agents'}", f"BINARIES={folder / 'functions'}"]
        words += ["ARCHITECTURE=x86_64", "RUST_TARGET=x86_64-unknown-linux-gnu"]
        environment = dict(os.environ) | {key: str(value) for key, value in own.items()}
        for goal in compiled_by:
            subprocess.run([*words, goal], env=environment, check=True, capture_output=True)
            environment["CURFEW_COMPILED"] = "yes"
        self.asked_before = self.asked.read_text() if compiled_by else ""
        self.made = subprocess.run([*words, "build-RunJobs"], env=environment, capture_output=True, text=True, check=False)


def test_run_jobs_carries_an_agent_for_each_processor(link: Link, tmp_path: Path) -> None:
    agent = link("GLIBC_2.26")
    build = Build(tmp_path, agent)
    assert build.made.returncode == 0, build.made.stderr
    # By these names run-jobs looks for them (shared/runtime/src/environment.rs).
    assert sorted(path.name for path in build.artifacts.iterdir()) == ["agent-arm64", "agent-x86_64", "bootstrap"]
    assert (build.artifacts / "agent-arm64").read_bytes() == agent.read_bytes()
    assert (build.artifacts / "bootstrap").read_text() == "run-jobs\n"
    # One invocation for both, so that cargo compiles them side by side.
    (asked,) = [line for line in build.asked.read_text().splitlines() if "--package agent" in line]
    assert "--target x86_64-unknown-linux-gnu.2.26 --target aarch64-unknown-linux-gnu.2.26 --package agent" in asked


def test_after_make_build_sam_only_copies(link: Link, tmp_path: Path) -> None:
    build = Build(tmp_path, link("GLIBC_2.26"), compiled_by=("compile", "agents"))
    assert build.made.returncode == 0, build.made.stderr
    assert sorted(path.name for path in build.artifacts.iterdir()) == ["agent-arm64", "agent-x86_64", "bootstrap"]
    assert len(build.asked_before.splitlines()) == 2 and build.asked.read_text() == build.asked_before


def test_one_invocation_of_cargo_lambda_builds_all_functions(link: Link, tmp_path: Path) -> None:
    build = Build(tmp_path, link("GLIBC_2.26"))
    (asked,) = [line.split() for line in build.asked.read_text().splitlines() if "--package agent" not in line]
    assert asked[:4] == ["lambda", "build", "--release", "--locked"]
    assert asked[asked.index("--target") + 1] == "x86_64-unknown-linux-gnu.2.34"
    packages = {after for word, after in zip(asked, asked[1:]) if word == "--package"}
    assert packages == {path.parent.name for path in (REPOSITORY / "functions").glob("*/Cargo.toml")}
    # cargo metadata, which cargo-lambda asks first, does not know the option.
    assert "--target-dir" not in asked


def test_a_panic_of_a_function_unwinds() -> None:
    """cargo-lambda sets strip, lto, codegen-units and panic = "abort" where the release profile does not say them."""
    profile = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["profile"]["release"]
    assert profile["panic"] == "unwind"
    assert {"strip", "lto", "codegen-units"} <= set(profile)
    pinned = (REPOSITORY / "deploy" / "requirements.txt").read_text()
    assert all(re.search(rf"^{name}==\d", pinned, re.MULTILINE) for name in ("cargo-lambda", "cargo-zigbuild", "ziglang"))


def test_no_crate_has_operators_that_panic_or_wrap() -> None:
    """The numbers of `sizing` have limits; those of all others come from anybody."""
    assert tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["profile"]["release"]["overflow-checks"] is True
    roots = [*(REPOSITORY / "shared").glob("*/src/lib.rs"), *(REPOSITORY / name / "src" / "main.rs" for name in ("agent", "cli"))]
    assert [root.parts[-3] for root in roots if "deny(clippy::arithmetic_side_effects)" not in root.read_text()] == ["sizing"]


def test_pip_installs_what_builds_and_tests_curfew_only_by_hash() -> None:
    lists = [REPOSITORY / "deploy" / "requirements.txt", *(REPOSITORY / "integration").glob("requirements*.txt")]
    assert len(lists) == 6
    for listed in lists:
        # A package, and the lines of its hashes.
        packages = re.split(r"^(?=[^#\s])", listed.read_text(), flags=re.MULTILINE)[1:]
        assert packages and all(re.match(r"\S+==\S", one) and "--hash=sha256:" in one for one in packages), listed
    # The recipes of a user's own job are no part of it.
    recipes = [line for name in ("Makefile", "deploy/package.mk") for line in (REPOSITORY / name).read_text().splitlines()]
    installs = [line for line in recipes if re.search(r'/pip"? install', line)]
    assert len(installs) == 2 and all("--require-hashes" in line or "$(HASHES)" in line for line in installs), installs


def test_an_agent_that_would_not_start_fails_the_build(link: Link, tmp_path: Path) -> None:
    build = Build(tmp_path, link("GLIBC_2.38"))
    assert build.made.returncode != 0 and "it needs GLIBC_2.38, which glibc 2.26 does not have" in build.made.stderr
    assert not list(build.artifacts.iterdir())
