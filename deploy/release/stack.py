"""The stack: the archive of each function for both processors, and the templates, in the layout of a bucket."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from .archives import write_tar, write_zip
from .settings import BuildSettings
from .template import functions, package, package_name, prefix, read_template
from .version import ROOT, ReleaseError, read_version

ARCHITECTURES = ("x86_64", "arm64")
# What `curfew.json` does not contain.
_TEMPLATES = ("deploy/forwarder.yaml", "deploy/reply-url.yaml", "deploy/organization/hub.yaml", "deploy/replica/replica.yaml", "deploy/organization/rollout.yaml")


def build_function(logical_id: str, architecture: str, folder: Path, settings: BuildSettings) -> dict[str, Path]:
    """The files of a function's package, by the rule that `sam build` calls."""
    words = ["make", "--file", f"deploy/{architecture}/Makefile", f"build-{logical_id}", f"ARTIFACTS_DIR={folder}"]
    if subprocess.run(words, cwd=ROOT, env=settings.environment(), check=False).returncode:
        raise ReleaseError(f"{logical_id} was not built for {architecture}; the error is above.")
    return {file.name: file for file in folder.iterdir()}


def build_stack(settings: BuildSettings) -> Path:
    """The archive with all of it. Its folder `curfew/VERSION` is copied to a bucket as it is."""
    version = read_version()
    name = f"curfew-{version}-stack"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name / prefix(version)
        folder.mkdir(parents=True)
        for architecture in ARCHITECTURES:
            for logical_id, code_uri in functions(read_template()).items():
                with tempfile.TemporaryDirectory() as artifacts:
                    files = build_function(logical_id, architecture, Path(artifacts), settings)
                    write_zip(folder / package_name(code_uri, architecture), files)
        package(folder)
        for template in _TEMPLATES:
            shutil.copy(ROOT / template, folder)
        archive = settings.out / f"{name}.tar.gz"
        root = Path(scratch) / name
        write_tar(archive, name, {str(file.relative_to(root)): file for file in root.rglob("*") if file.is_file()})
    return archive
