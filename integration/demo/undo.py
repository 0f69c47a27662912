"""The undo of a deletion: the command of its message, pasted into a shell as its owner would, and what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .run import Broken, Run
from .seed import Account
from .show import paragraph_of
from .storage import RESTORED

# Whatever else EC2 tells of a volume must be as it was.
_OF_ITS_OWN = {"VolumeId", "CreateTime", "SnapshotId"}
_OF_CURFEW = {"curfew:marked", "curfew:unattached-since"}
_COMMAND = "aws ec2 create-volume"
_CLI = Path(sys.executable).parent  # the AWS CLI is installed beside the local AWS
_NOBODYS_SETTINGS = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}


def command(run: Run, volume_id: str) -> str:
    """From its first word to the end of its paragraph."""
    said = paragraph_of(run, volume_id) or ""
    if _COMMAND not in said:
        raise Broken(f"no message says how to restore {volume_id}")
    return said[said.index(_COMMAND) :]


def paste(account: Account, text: str) -> str:
    """Runs it. Answers the id of the new volume."""
    path = f"{_CLI}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    env = {**account.aws.environment(), **_NOBODYS_SETTINGS, "PATH": path}
    done = subprocess.run(["bash", "-c", text], env=env, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Broken(f"the command of the message failed: {done.stderr.strip()}")
    return json.loads(done.stdout)["VolumeId"]


def differences(account: Account, volume_id: str) -> dict[str, tuple[Any, Any]]:
    """What EC2 says of the new volume, and did not of the old one before anybody thought of deleting it."""
    old_id = account.storage.id_of(RESTORED)
    region = account.storage.disks[old_id].region
    old, new = _described(account.storage.before[old_id]), _described(account.aws.volume(volume_id, region))
    both = {key: (old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys())}
    return {key: (was, now) for key, (was, now) in both.items() if was != now}


def _described(volume: dict[str, Any]) -> dict[str, Any]:
    tags = {tag["Key"]: tag["Value"] for tag in volume.get("Tags", []) if tag["Key"] not in _OF_CURFEW}
    return {**{key: value for key, value in volume.items() if key not in _OF_ITS_OWN}, "Tags": tags}
