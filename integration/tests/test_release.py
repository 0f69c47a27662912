"""A release: one version everywhere, and each part that `make release` builds, with stand-ins for the programs that compile."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from command import COMMAND
from reaping import REPOSITORY
from template_actions import template

sys.path.insert(0, str(REPOSITORY / "deploy"))

from release import sbom  # noqa: E402
from release.archives import write_checksums, write_tar, write_zip  # noqa: E402
from release.command import LINUX, MACOS, build_command, check_targets, default_targets, find_targets  # noqa: E402
from release.settings import BuildSettings  # noqa: E402
from release.version import ReleaseError, read_version, version_problems  # noqa: E402

WITH_SAM = REPOSITORY / "target/venv-lint/bin/python"
VERSION = read_version()
[X86, ARM] = LINUX


def run_release(*words: str | Path, python: Path = WITH_SAM, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(REPOSITORY / "deploy"), **environment}
    return subprocess.run([python, "-m", "release", *words], env=os.environ | own, cwd=REPOSITORY, capture_output=True, text=True, check=False)


# ---------------------------------------------------------------------------------------------------------- one version


def test_everything_names_the_version_of_cargo_toml() -> None:
    assert version_problems() == []
    said = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"curfew {VERSION}\n"
    assert tomllib.loads((REPOSITORY / "cli/Cargo.toml").read_text())["package"]["version"] == {"workspace": True}
    wheel = tomllib.loads((REPOSITORY / "cli/pyproject.toml").read_text())
    assert wheel["project"]["dynamic"] == ["version"] and "version" not in wheel["project"]


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    def planted(version: str = "1.2.3", heading: str = "## 1.2.3 (unreleased)", output: str = '"1.2.3"') -> Path:
        (tmp_path / "Cargo.toml").write_text(f'[workspace.package]\nversion = "{version}"\n')
        (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n\n## 1.2.2 (2026-01-01)\n")
        (tmp_path / "template.yaml").write_text(f"Outputs:\n  Version:\n    Description: a\n    Value: {output}\n")
        return tmp_path

    return planted


@pytest.mark.parametrize(
    ("given", "tag", "problem"),
    [
        ({}, None, None),
        ({"heading": "## 1.2.3 (2026-12-01)"}, "v1.2.3", None),
        ({"heading": "## 1.2.2 (2026-12-01)"}, None, 'CHANGELOG.md: the newest heading is 1.2.2 (2026-12-01). Write "## 1.2.3 (unreleased)"'),
        ({"heading": "## 1.2.3 (soon)"}, None, "CHANGELOG.md: the newest heading is 1.2.3 (soon)"),
        ({"output": "1.2.2"}, None, 'template.yaml: the output Version is 1.2.2. Set its Value to "1.2.3".'),
        ({"heading": "## 1.2.3 (2026-12-01)"}, "v1.2.4", "The tag is v1.2.4, and Cargo.toml has 1.2.3"),
        ({}, "v1.2.3", 'CHANGELOG.md: 1.2.3 is "unreleased"'),
    ],
)
def test_a_place_that_disagrees_is_named(tree: Callable[..., Path], given: dict[str, str], tag: str | None, problem: str | None) -> None:
    problems = version_problems(tree(**given), tag)
    assert [one for one in problems if problem is None or problem not in one] == []
    assert len(problems) == (problem is not None)


def test_a_version_that_no_index_takes_is_refused(tree: Callable[..., Path]) -> None:
    with pytest.raises(ReleaseError, match='"1.2.3-rc.1" is not like 1.2.3'):
        read_version(tree(version="1.2.3-rc.1"))


def test_a_release_stops_before_it_builds_where_the_tag_is_another(tmp_path: Path) -> None:
    told = run_release("all", "--tag", "v9.9.9", "--out", tmp_path / "out", python=Path(sys.executable))
    assert told.returncode == 1 and "The tag is v9.9.9" in told.stderr and not (tmp_path / "out").exists()


def test_the_page_about_upgrades_has_the_schemas_of_the_code() -> None:
    sources = {
        "`notices/`": ("store/src/document.rs", r"impl StoredDocument for NotificationLog \{.*?const SCHEMA: u32 = (\d+);"),
        "`plans/`": ("plan/src/report/record.rs", r"const SCHEMA: u32 = (\d+);"),
        "`jobs/`": ("jobs/src/documents.rs", r"const SCHEMA: u32 = (\d+);"),
        "events": ("notify/src/event.rs", r"const SCHEMA: u32 = (\d+);"),
    }
    rows = [line.strip("| ").split(" | ") for line in (REPOSITORY / "docs/upgrade.md").read_text().splitlines() if line.startswith("| ")]
    for documents, (path, pattern) in sources.items():
        found = re.search(pattern, (REPOSITORY / "shared" / path).read_text(), re.DOTALL)
        [row] = [row for row in rows if row[0].split(",")[0] == documents]
        assert found and row[1] == found[1], documents


# -------------------------------------------------------------------------------------------------------------- archives


def test_archives_of_the_same_files_are_the_same(tmp_path: Path) -> None:
    program = tmp_path / "bootstrap"
    program.write_text("#!/bin/sh\n")
    made = []
    for second in (0, 1_000_000_000):
        os.utime(program, (second, second))
        write_zip(tmp_path / "one.zip", {"bootstrap": program})
        write_tar(tmp_path / "one.tar.gz", "curfew-1", {"curfew": program, "LICENSE": program}, frozenset({"curfew"}))
        made.append([(tmp_path / name).read_bytes() for name in ("one.zip", "one.tar.gz")])
    assert made[0] == made[1]
    [entry] = zipfile.ZipFile(tmp_path / "one.zip").infolist()
    assert (entry.filename, entry.external_attr >> 16) == ("bootstrap", 0o100755)
    modes = {entry.name: entry.mode for entry in tarfile.open(tmp_path / "one.tar.gz")}
    assert modes == {"curfew-1/LICENSE": 0o644, "curfew-1/curfew": 0o755}


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_text("a")
    write_checksums(tmp_path)
    write_checksums(tmp_path)  # those of an earlier run are not summed up
    words = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == "a.whl: OK\n"


# ----------------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def settings(tmp_path: Path) -> BuildSettings:
    """With a maturin that copies a program, and a rustc that can build for two processors."""
    tools = tmp_path / "tools"
    (tools / "bin").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    programs = {
        "maturin": f'echo "$@" >> {tmp_path}/asked\nwhile [ $# -gt 0 ]; do case "$1" in --target) target=$2;; esac; shift; done\n'
        f'mkdir -p "$CARGO_TARGET_DIR/$target/release"; cp {tmp_path}/program "$CARGO_TARGET_DIR/$target/release/curfew"\n',
        "rustc": f'case "$4" in *-linux-musl) echo {tmp_path};; *) echo {tmp_path}/missing;; esac\n',
    }
    for name, text in programs.items():
        (tools / "bin" / name).write_text(f"#!/bin/sh\n{text}")
        (tools / "bin" / name).chmod(0o755)
    return BuildSettings(tmp_path / "out", tools=tools, built=tmp_path / "built")


def compile_program(settings: BuildSettings, *options: str, version: str = VERSION) -> None:
    """What the stand-in of maturin copies."""
    source = settings.out.parent / "program.c"
    source.write_text(f'#include <stdio.h>\nint main(void) {{ puts("curfew {version}"); return 0; }}\n')
    subprocess.run(["cc", *options, "-o", source.with_suffix(""), source], check=True)


on_x86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the stand-in is compiled for this machine")


@on_x86
def test_the_archive_has_the_binary_of_the_wheel(settings: BuildSettings) -> None:
    compile_program(settings, "-static")
    archive = build_command(X86, settings)
    assert archive.name == f"curfew-{VERSION}-x86_64-unknown-linux-musl.tar.gz"
    with tarfile.open(archive) as packed:
        assert {Path(name).name for name in packed.getnames()} == {"curfew", "LICENSE", "README.md", "CHANGELOG.md"}
        program = packed.extractfile(f"curfew-{VERSION}-x86_64-unknown-linux-musl/curfew")
        assert program and program.read() == (settings.out.parent / "program").read_bytes()
    asked = (settings.out.parent / "asked").read_text()
    assert "--locked --profile release --target x86_64-unknown-linux-musl" in asked and asked.endswith("--zig\n")
    assert "--compatibility manylinux2014 --compatibility musllinux_1_1" in asked


@on_x86
@pytest.mark.parametrize(
    ("target", "options", "version", "problem"),
    [
        (X86, (), VERSION, r"is not static: it needs libc"),
        (ARM, ("-static",), VERSION, "is for x86_64, not for arm64"),
        (X86, ("-static",), "0.0.9", f'says "curfew 0.0.9", and Cargo.toml has {VERSION}'),
    ],
)
def test_a_binary_that_is_not_what_its_name_says_is_refused(
    settings: BuildSettings, target: Any, options: tuple[str, ...], version: str, problem: str
) -> None:
    compile_program(settings, *options, version=version)
    with pytest.raises(ReleaseError, match=problem):
        build_command(target, settings)
    assert list(settings.out.iterdir()) == []


def test_a_build_that_fails_makes_no_archive(settings: BuildSettings) -> None:
    (settings.tools / "bin" / "maturin").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ReleaseError, match="was not built for x86_64-unknown-linux-musl"):
        build_command(X86, settings)
    assert list(settings.out.iterdir()) == []


def test_whatever_rust_cannot_build_for_is_named_at_once(settings: BuildSettings) -> None:
    check_targets(LINUX, settings)
    with pytest.raises(ReleaseError, match="Run: rustup target add x86_64-apple-darwin aarch64-apple-darwin$"):
        check_targets((*LINUX, *MACOS), settings)


def test_each_system_builds_what_it_can_link() -> None:
    assert (default_targets("linux"), default_targets("darwin")) == (LINUX, MACOS)
    assert find_targets(["aarch64-apple-darwin"]) == (MACOS[1],)
    with pytest.raises(ReleaseError, match="No such target: sparc. Known are x86_64-unknown-linux-musl, "):
        find_targets(["sparc"])


# ------------------------------------------------------------------------------------------------- the stack of a release


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("packaged")
    told = run_release("template", "--out", out)
    assert (told.returncode, told.stderr) == (0, "")
    return json.loads((out / "curfew.json").read_text())


def test_nothing_of_sam_is_left_in_the_template(packaged: dict[str, Any]) -> None:
    assert "Transform" not in packaged and "AWS::Serverless" not in json.dumps(packaged)
    kept = {name for name, one in template()["Resources"].items()}
    assert kept <= packaged["Resources"].keys()
    assert packaged["Outputs"] == template()["Outputs"] and packaged["Outputs"]["Version"]["Value"] == VERSION
    # Above this it must be in a bucket, which docs/install.md says.
    assert 51_200 < len(json.dumps(packaged, separators=(",", ":"))) < 1_048_576


def test_each_function_comes_from_the_release_of_this_version(packaged: dict[str, Any]) -> None:
    functions = [one["Properties"] for one in packaged["Resources"].values() if one["Type"] == "AWS::Lambda::Function"]
    keys = {one["Code"]["S3Key"]["Fn::Sub"] for one in functions}
    names = [path.parent.name for path in REPOSITORY.glob("functions/*/Cargo.toml")]
    assert keys == {f"curfew/{VERSION}/{name}-${{Architecture}}.zip" for name in names}
    assert all(one["Code"]["S3Bucket"] == {"Ref": "ArtifactBucket"} for one in functions)
    assert all(one["Architectures"] == [{"Ref": "Architecture"}] for one in functions)


def test_parameters_are_those_of_the_template_and_the_bucket(packaged: dict[str, Any]) -> None:
    given, ours = packaged["Parameters"], template()["Parameters"]
    assert given.keys() - ours.keys() == {"ArtifactBucket"} and "Default" not in given["ArtifactBucket"]
    assert {name: given[name].get("Default") for name in ours} == {name: one.get("Default") for name, one in ours.items()}
    interface = packaged["Metadata"]["AWS::CloudFormation::Interface"]
    assert {name for group in interface["ParameterGroups"] for name in group["Parameters"]} == given.keys() == interface["ParameterLabels"].keys()


def test_a_stack_is_laid_out_as_its_bucket(tmp_path: Path) -> None:
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text(
        '#!/bin/sh\nfor word; do case "$word" in ARTIFACTS_DIR=*) into=${word#*=};; esac; done\n'
        'echo "$3" > "$into/bootstrap"\n[ "$3" != build-RunJobs ] || echo agent > "$into/agent-arm64"\n'
    )
    make.chmod(0o755)
    told = run_release("stack", "--out", tmp_path / "out", PATH=f"{make.parent}:{os.environ['PATH']}")
    assert told.returncode == 0, told.stderr
    [archive] = (tmp_path / "out").iterdir()
    assert archive.name == f"curfew-{VERSION}-stack.tar.gz"
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    folder = tmp_path / f"curfew-{VERSION}-stack" / "curfew" / VERSION
    names = [path.parent.name for path in REPOSITORY.glob("functions/*/Cargo.toml")]
    zips = {f"{name}-{architecture}.zip" for name in names for architecture in ("x86_64", "arm64")}
    assert {path.name for path in folder.iterdir()} == {"curfew.json", "forwarder.yaml", "reply-url.yaml", "hub.yaml", "rollout.yaml", "replica.yaml", *zips}
    with zipfile.ZipFile(folder / "run-jobs-arm64.zip") as package:
        assert package.namelist() == ["agent-arm64", "bootstrap"] and package.read("bootstrap") == b"build-RunJobs\n"


# -------------------------------------------------------------------------------------------------------------- the SBOM


def test_the_bill_of_materials_lists_what_binaries_are_built_from() -> None:
    """The fields that CycloneDX 1.6 demands, and no crate that only tests use."""

    def package(name: str, source: str | None, kind: str, license: str | None) -> dict[str, Any]:
        return {"id": name, "name": name, "version": "1.0.0", "source": source, "license": license, "targets": [{"kind": [kind]}]}

    def node(name: str, *uses: tuple[str, str | None]) -> dict[str, Any]:
        deps = [{"pkg": used, "dep_kinds": [{"kind": kind}]} for used, kind in uses]
        return {"id": name, "deps": deps, "dependencies": [used for used, _ in uses]}

    metadata = {
        "packages": [
            package("cli", None, "bin", "Apache-2.0"),
            package("serde", "registry", "lib", "MIT/Apache-2.0"),
            package("proptest", "registry", "lib", "MIT"),
            package("cc", "registry", "lib", None),
        ],
        "workspace_members": ["cli"],
        "resolve": {"nodes": [node("cli", ("serde", None), ("proptest", "dev")), node("serde", ("cc", "build")), node("proptest"), node("cc")]},
    }
    bill = sbom.make_sbom(metadata, {("serde", "1.0.0"): "ab" * 32}, "1.2.3")
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    components = {one["name"]: one for one in bill["components"]}
    assert components.keys() == {"cli", "serde", "cc"} and all(one["type"] == "library" for one in components.values())
    assert components["serde"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}] and "licenses" not in components["cc"]
    assert components["serde"]["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert components["serde"]["purl"] == "pkg:cargo/serde@1.0.0" and "purl" not in components["cli"]
    depends = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert depends == {
        "pkg:generic/curfew@1.2.3": ["pkg:cargo/cli@1.0.0"],
        "pkg:cargo/cc@1.0.0": [],
        "pkg:cargo/cli@1.0.0": ["pkg:cargo/serde@1.0.0"],
        "pkg:cargo/serde@1.0.0": ["pkg:cargo/cc@1.0.0"],
    }
    assert bill == sbom.make_sbom(metadata, {("serde", "1.0.0"): "ab" * 32}, "1.2.3")


# --------------------------------------------------------------------------------------------------- workflows and forms

WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))
# What a step may run beside our own make.
PROGRAMS = {"make", "rustup", "gh", "tar", "mkdir", "for", ".ci/run"}


def read_workflow(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text())


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_the_least_rights_and_pinned_actions(path: Path) -> None:
    workflow = read_workflow(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 180, name
    # A tag of an action can be moved; its commit cannot. The comment says which version that was.
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert [one for one in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []
    assert len(uses) == sum("uses" in step for step in steps(workflow))
    checkouts = [step for step in steps(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_there_is(path: Path) -> None:
    runs = [step["run"] for step in steps(read_workflow(path)) if "run" in step]
    for run in runs:
        assert "${{" not in run, "a name of somebody else would be a program: hand it over by env"
        assert run.split()[0] in PROGRAMS
        if run.startswith("make "):
            told = subprocess.run(["make", "--dry-run", *run.split()[1:]], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
            assert told.returncode == 0, told.stderr
    assert (REPOSITORY / ".ci/run").stat().st_mode & 0o100


def test_only_the_job_that_publishes_may_write() -> None:
    jobs = read_workflow(REPOSITORY / ".github/workflows/release.yml")["jobs"]
    writing = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert writing == {"publish", "pypi", "buckets"}
    assert all(jobs[name]["environment"] for name in writing)
    # Its targets are those that are built.
    added = [word for step in steps({"jobs": jobs}) if "rustup" in step.get("run", "") for word in step["run"].split()[3:]]
    assert {target.triple for target in (*LINUX, *MACOS)} <= set(added)


def test_forms_for_issues_have_what_github_demands() -> None:
    forms = sorted((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 3
    for form in forms:
        text = yaml.safe_load(form.read_text())
        if form.name == "config.yml":
            assert text["blank_issues_enabled"] is False
            continue
        assert {"name", "description", "body"} <= text.keys()
        questions = [one for one in text["body"] if one["type"] != "markdown"]
        assert all({"id", "attributes"} <= one.keys() and one["attributes"]["label"] for one in questions)


# -------------------------------------------------------------------------------------------------------------- Terraform

MODULE = REPOSITORY / "deploy/terraform"


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_terraform_reads_the_module() -> None:
    told = subprocess.run(["terraform", "fmt", "-check", "-diff", MODULE], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_module_finds_the_template_of_a_release(packaged: dict[str, Any]) -> None:
    main = (MODULE / "main.tf").read_text()
    assert "/curfew/${var.curfew_version}/curfew.json" in main and "ArtifactBucket = var.bucket" in main
    assert 'capabilities = ["CAPABILITY_NAMED_IAM"]' in main
    declared = set(re.findall(r'^variable "(\w+)"', (MODULE / "variables.tf").read_text(), re.MULTILINE))
    assert declared == set(re.findall(r"var\.(\w+)", main)) | {"curfew_version"}
    readme = (MODULE / "README.md").read_text()
    given = re.findall(r"(\w+) +=", readme.partition('module "curfew" {')[2].partition("}\n\n")[0])
    named = set(re.findall(r"\b(\w+) = \"", readme.partition("parameters     = {")[2].partition("}")[0]))
    assert named and named <= packaged["Parameters"].keys()
    assert set(given) - named - {"source", "Team"} <= declared


def test_no_page_names_the_package_of_another_project() -> None:
    """`curfew` on PyPI is not ours."""
    name = tomllib.loads((REPOSITORY / "cli/pyproject.toml").read_text())["project"]["name"]
    pages = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"), REPOSITORY / "cli/pyproject.toml"]
    found = [word for page in pages for word in re.findall(r"(?:pip|tool) install ([\w-]+)", page.read_text())]
    assert name in found and "curfew" not in found
