"""The template of a release: plain CloudFormation, whose functions are archives in a bucket.

SAM's own translator resolves `AWS::Serverless`, so a person needs neither SAM nor CAPABILITY_AUTO_EXPAND. Stack sets with service-managed
permissions refuse templates with macros, and SAM's transform is one (CloudFormation API reference, CreateStackSet, Capabilities). Logical
ids are those of `sam deploy`, so a stack of one can be updated by the other.
"""

from __future__ import annotations

import copy
import json
import logging
from pathlib import Path
from typing import Any

from .version import ROOT, ReleaseError, read_version

TEMPLATE = ROOT / "template.yaml"
FUNCTION = "AWS::Serverless::Function"
# CloudFormation user guide, "CloudFormation quotas": what a template at a URL may have.
BYTES_MAX = 1024 * 1024
# Nothing of a region may be resolved when the template is packaged; two partitions tell.
_REGIONS = ("us-east-1", "cn-north-1")

_ARTIFACT_BUCKET = {
    "Type": "String",
    "AllowedPattern": "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
    "ConstraintDescription": "must be the name of a bucket in the region of this stack",
    "Description": "The bucket with the functions of this release. Lambda reads them only from a bucket in the region of the stack.",
}


def prefix(version: str) -> str:
    """Where a release is in a bucket. Never a parameter: an update would keep the old functions with the new template."""
    return f"curfew/{version}"


def package_name(code_uri: str, architecture: str) -> str:
    """`functions/reap-instances/` and an architecture as the name of an archive."""
    return f"{Path(code_uri).name}-{architecture}.zip"


def functions(template: dict[str, Any]) -> dict[str, str]:
    """The folder of each function, by logical id."""
    return {name: one["Properties"]["CodeUri"] for name, one in template["Resources"].items() if one["Type"] == FUNCTION}


def read_template(path: Path = TEMPLATE) -> dict[str, Any]:
    from samtranslator.yaml_helper import yaml_parse

    return yaml_parse(path.read_text())


def package_template(template: dict[str, Any], version: str) -> dict[str, Any]:
    packaged = copy.deepcopy(template)
    for name, code_uri in functions(template).items():
        function = packaged["Resources"][name]
        key = f"{prefix(version)}/{package_name(code_uri, '${Architecture}')}"
        function["Properties"]["CodeUri"] = {"Bucket": {"Ref": "ArtifactBucket"}, "Key": {"Fn::Sub": key}}
        del function["Metadata"]  # how SAM builds it
    # The translator would put the default of a parameter in the place of each reference to it.
    defaults = {name: one.pop("Default") for name, one in packaged["Parameters"].items() if "Default" in one}
    resolved = _translate(packaged)
    for name, default in defaults.items():
        resolved["Parameters"][name]["Default"] = default
    resolved["Parameters"]["ArtifactBucket"] = _ARTIFACT_BUCKET
    resolved["Parameters"]["Architecture"]["Description"] = "The processor of the functions."
    interface = resolved["Metadata"]["AWS::CloudFormation::Interface"]
    interface["ParameterGroups"].insert(0, {"Label": {"default": "Release"}, "Parameters": ["ArtifactBucket"]})
    interface["ParameterLabels"]["ArtifactBucket"] = {"default": "Bucket of this release"}
    return resolved


def write_template(path: Path, template: dict[str, Any]) -> None:
    path.write_text(json.dumps(template, indent=1) + "\n")
    if path.stat().st_size > BYTES_MAX:
        raise ReleaseError(f"{path} has more than {BYTES_MAX} bytes, which CloudFormation refuses. Split template.yaml.")


def _translate(template: dict[str, Any]) -> dict[str, Any]:
    import boto3
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    # It counts what it translates for SAM's own statistics, and warns when nobody sends them.
    logging.getLogger("samtranslator.metrics").setLevel(logging.ERROR)
    resolved = [
        Translator({}, Parser(), boto_session=boto3.Session(region_name=region)).translate(copy.deepcopy(template), {}, {})
        for region in _REGIONS
    ]
    if resolved[0] != resolved[1]:
        raise ReleaseError("template.yaml resolves differently in another region. Use a pseudo parameter where it does.")
    left = [name for name, one in resolved[0]["Resources"].items() if one["Type"].startswith("AWS::Serverless")]
    if left:
        raise ReleaseError(f"SAM left {', '.join(left)} unresolved.")
    return resolved[0]


def package(out: Path) -> Path:
    """`curfew.json`, in this folder."""
    path = out / "curfew.json"
    write_template(path, package_template(read_template(), read_version()))
    return path
