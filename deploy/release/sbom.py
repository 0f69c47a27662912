"""The software bill of materials: CycloneDX 1.6 as JSON, from `cargo metadata`.

It lists each crate that Cargo.lock names for what a release contains: the command, the functions and the agent, on Linux and macOS.
Crates that only tests use are left out.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tomllib
import uuid
from pathlib import Path
from typing import Any

from .command import LINUX, MACOS
from .version import ROOT, read_version

# Where binaries of a release run: the command on all four, the functions and the agent on Linux with glibc.
_PLATFORMS = (*(target.triple for target in (*LINUX, *MACOS)), "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"


def read_metadata(root: Path = ROOT) -> dict[str, Any]:
    words = ["cargo", "metadata", "--format-version", "1", "--locked"]
    words += [word for platform in _PLATFORMS for word in ("--filter-platform", platform)]
    return json.loads(subprocess.run(words, cwd=root, check=True, capture_output=True, text=True).stdout)


def shipped(metadata: dict[str, Any]) -> set[str]:
    """The ids of packages that a binary of the workspace is built from, and not only its tests."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    binaries = {
        package["id"]
        for package in metadata["packages"]
        if package["id"] in metadata["workspace_members"] and any("bin" in target["kind"] for target in package["targets"])
    }
    found, left = set(), list(binaries)
    while left:
        package = left.pop()
        if package in found:
            continue
        found.add(package)
        left += [one["pkg"] for one in nodes[package]["deps"] if any(kind["kind"] != "dev" for kind in one["dep_kinds"])]
    return found


def checksums(root: Path = ROOT) -> dict[tuple[str, str], str]:
    """Of each crate of the registry, by name and version."""
    locked = tomllib.loads((root / "Cargo.lock").read_text())["package"]
    return {(one["name"], one["version"]): one["checksum"] for one in locked if "checksum" in one}


def make_sbom(metadata: dict[str, Any], hashes: dict[tuple[str, str], str], version: str) -> dict[str, Any]:
    included = shipped(metadata)
    packages = sorted((one for one in metadata["packages"] if one["id"] in included), key=lambda one: (one["name"], one["version"]))
    references = {one["id"]: _reference(one) for one in packages}
    depends = {node["id"]: node["dependencies"] for node in metadata["resolve"]["nodes"] if node["id"] in included}
    main = f"pkg:generic/curfew@{version}"
    ours = sorted(references[one] for one in metadata["workspace_members"] if one in included)
    components = [_component(one, hashes.get((one["name"], one["version"]))) for one in packages]
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same content has the same number.
        "serialNumber": f"urn:uuid:{uuid.UUID(hashlib.sha256(json.dumps(components).encode()).hexdigest()[:32], version=4)}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "curfew", "version": version, "bom-ref": main, "purl": main}},
        "components": components,
        "dependencies": [
            {"ref": main, "dependsOn": ours},
            *(
                {"ref": references[one["id"]], "dependsOn": sorted({references[id] for id in depends[one["id"]] if id in references})}
                for one in packages
            ),
        ],
    }


def _reference(package: dict[str, Any]) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def _component(package: dict[str, Any], checksum: str | None) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(package),
        "name": package["name"],
        "version": package["version"],
    }
    if package["source"] is not None:
        component["purl"] = _reference(package)
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["license"]:
        # Old crates write `/` for `OR`, which SPDX does not know.
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return component


def write_sbom(out: Path) -> Path:
    version = read_version()
    path = out / f"curfew-{version}.cdx.json"
    path.write_text(json.dumps(make_sbom(read_metadata(), checksums(), version), indent=1) + "\n")
    return path
