"""FSx file systems as tests put them: moto's have no state and no time of their creation.

Source: "DescribeFileSystems" and the type "FileSystem" (Amazon FSx API Reference).
"""

from __future__ import annotations

import json
import time
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.fsx.models import fsx_backends
from moto.fsx.responses import FSxResponse

_KIND = "file_systems_put"


def apply() -> None:
    FSxResponse.describe_file_systems = _describe_file_systems


def put(region: str, file_system: str, fields: dict[str, Any]) -> None:
    """One of Lustre that is available, with FSx's names for its fields."""
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125, "MountName": "fsx"}
    available = {
        "FileSystemId": file_system,
        "ResourceARN": f"arn:aws:fsx:{region}:{DEFAULT_ACCOUNT_ID}:file-system/{file_system}",
        "OwnerId": DEFAULT_ACCOUNT_ID,
        "FileSystemType": "LUSTRE",
        "Lifecycle": "AVAILABLE",
        "CreationTime": time.time(),
        "StorageCapacity": 1200,
        "StorageType": "SSD",
        "LustreConfiguration": lustre,
    }
    fsx_backends[DEFAULT_ACCOUNT_ID][region].__dict__.setdefault(_KIND, {})[file_system] = available | fields


def _describe_file_systems(response: FSxResponse) -> str:
    asked = json.loads(response.body)
    if asked.keys() - {"MaxResults", "NextToken"}:
        raise NotImplementedError(f"{sorted(asked)}")
    known = list(response.fsx_backend.__dict__.get(_KIND, {}).values())
    start = int(asked.get("NextToken") or 0)
    end = start + asked.get("MaxResults", len(known))
    page: dict[str, Any] = {"FileSystems": known[start:end]}
    return json.dumps(page | ({"NextToken": str(end)} if end < len(known) else {}))
