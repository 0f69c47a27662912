"""The homes of boxes: each volume and each snapshot is a folder, which the machine that has the volume mounts.

A machine finds the disk as Linux names it, `/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol…` (EBS user guide, "Map Amazon EBS volumes to NVMe
device names"). There is no block device: the file there has nothing but zeros, as a new disk, and `mount`, `blkid` and `mkfs.ext4` of
the machine are stand-ins that know its folder. Whether a volume may be attached, the local AWS decides.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from local_aws import LocalAws

from . import isolation
from .disk import INSIDE

BOX_TOOLS = ("ssh-keygen",)  # of OpenSSH's client
BY_ID = "dev/disk/by-id"
_OF_BOXES = [{"Name": "tag-key", "Values": ["curfew:box"]}]
_FORMATTED = ".formatted"
_USERS_HOME = Path("/usr/games")  # which everybody may reach, and every Debian has; only the machine sees what is mounted there
_FOLDERS = "folders"  # of the disks that a machine has, by their names
_MOUNT = """#!/bin/sh
case $1 in
*/{by_id}/*) exec {mount} --bind "$(cat "$CURFEW_ROOT/{folders}/${{1##*/}}")" "$2" ;;
*) exec {mount} "$@" ;;
esac
"""
_BLKID = """#!/bin/sh
for disk in "$@"; do :; done
[ -e "$(cat "$CURFEW_ROOT/{folders}/${{disk##*/}}")/{formatted}" ] || exit 2
echo ext4
"""
_MKFS = """#!/bin/sh
for disk in "$@"; do :; done
touch "$(cat "$CURFEW_ROOT/{folders}/${{disk##*/}}")/{formatted}"
"""
# Listens where its configuration says, and keeps what connects.
_SSHD = """#!{python} -IS
import socket, sys
port = next(int(line.split()[1]) for line in open(sys.argv[-1]) if line.startswith("Port "))
server, kept = socket.create_server(("127.0.0.1", port)), []
while True:
    kept.append(server.accept())
"""


def why_no_boxes() -> str | None:
    """What is missing here for a machine that mounts a home; None if nothing is."""
    kind, why = isolation.best(sys.executable, str(INSIDE))
    if kind != isolation.NAMESPACES:
        return f"a box needs namespaces ({why})"
    if os.getuid() != 0:
        return "a box needs root"
    missing = [what for what in BOX_TOOLS if shutil.which(what) is None]
    missing += [] if _USERS_HOME.is_dir() else [str(_USERS_HOME)]
    return f"a box needs {missing[0]}" if missing else None


class Disks:
    """The folders of all homes of a region."""

    def __init__(self, aws: LocalAws, folder: Path, region: str = "us-east-1") -> None:
        self.folder, self._ec2 = folder, aws.client("ec2", region)
        folder.mkdir(parents=True, exist_ok=True)

    def furnish(self, root: Path) -> None:
        """The commands of a machine that know disks, its `sshd`, and a first user who is not root."""
        (root / "etc").mkdir(exist_ok=True)
        (root / "etc/passwd").write_text(f"root:x:0:0::/root:/bin/sh\nada:x:1000:1000::{_USERS_HOME}:/bin/sh\n")
        scripts = {
            "mount": _MOUNT.format(by_id=BY_ID, folders=_FOLDERS, mount=shutil.which("mount")),
            "umount": f'#!/bin/sh\nexec {shutil.which("umount")} "$@"\n',
            "blkid": _BLKID.format(folders=_FOLDERS, formatted=_FORMATTED),
            "mkfs.ext4": _MKFS.format(folders=_FOLDERS, formatted=_FORMATTED),
            "sshd": _SSHD.format(python=sys.executable),
        }
        for name, text in scripts.items():
            path = root / "tools" / name
            path.write_text(text)
            path.chmod(0o755)
        for folder in (BY_ID, _FOLDERS):
            (root / folder).mkdir(parents=True)

    def look(self, roots: dict[str, Path]) -> None:
        """Makes what is new, and shows each machine the disks that it has. `roots`: the disks of machines by instance."""
        for volume in self._ec2.describe_volumes(Filters=_OF_BOXES)["Volumes"]:
            folder = self.folder / volume["VolumeId"]
            if not folder.exists():
                self._make(folder, volume.get("SnapshotId"))
            for attachment in volume["Attachments"]:
                if root := roots.get(attachment["InstanceId"]):
                    name = f"nvme-Amazon_Elastic_Block_Store_{volume['VolumeId'].replace('-', '')}"
                    # Written once, and there as a whole: the machine may read them at any time.
                    if not (root / BY_ID / name).exists():
                        (root / _FOLDERS / name).write_text(str(folder))
                        zeros = root / _FOLDERS / f"{name}.part"
                        zeros.write_bytes(bytes(4096))
                        zeros.rename(root / BY_ID / name)
        for snapshot in self._ec2.describe_snapshots(Filters=_OF_BOXES)["Snapshots"]:
            folder = self.folder / snapshot["SnapshotId"]
            if not folder.exists():
                self._make(folder, snapshot["VolumeId"])

    def _make(self, folder: Path, source: str | None) -> None:
        """Empty, or a copy, which is there at once or not at all."""
        if source:
            copy = folder.with_name(f"{folder.name}.part")
            shutil.copytree(self.folder / source, copy, symlinks=True)
            copy.rename(folder)
        else:
            folder.mkdir()
