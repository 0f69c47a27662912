"""The undo: the message's own command, in a real shell, by the real AWS CLI; then compared with what was deleted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from reaping import REPOSITORY, Run
from reaping_volumes import VolumeAccount, described

CLI = REPOSITORY / "target" / "venv" / "bin"

AWKWARD = {
    "Name": "ada's data",
    "quotes": "\"double\", 'single', `backticks`",
    "money": "$HOME $(touch undone) ${x:-y} !! \\n \\",
    "blanks": "  two  before,\tand a tab ",
    "lines": "one\ntwo",
    "far": "ñ 東京 🚀 \u200d \u202e",
    "markup": "<b>&amp;</b> https://example.com?a=1&b=2",
    "json": '[{"a": 1}]',
    "file": "file:///etc/passwd",
    "empty": "",
    'it\'s a "key" $HOME 🚀': "x",
    "long": "v" * 256,
    "curfew:mode": "enforce",
}


def command(run: Run, volume: str, team: str = "vision") -> str:
    """From its first letter to the end of its paragraph, as people copy it."""
    [said] = [one for one in run.message(team).split("\n\n") if one.startswith(f"{volume} (")]
    assert said.count("aws ec2 create-volume") == 1
    undo = said[said.index("aws ec2 create-volume") :]
    assert "\n" not in undo, "one line, whatever its tags are"
    return undo


def paste(storage: VolumeAccount, text: str, folder: Path) -> dict[str, Any]:
    """Runs it in a shell of somebody whose own default region is another; answers what the CLI says."""
    environment = {
        **storage.aws.environment("ap-southeast-2"),
        "PATH": f"{CLI}:/usr/bin:/bin",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(["bash", "-c", text], env=environment, cwd=folder, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == [], "the shell carried out something that stood in a tag"
    return json.loads(done.stdout)


def deleted(storage: VolumeAccount, *volumes: str) -> tuple[list[dict[str, Any]], Run]:
    """What they were before anything was announced, and the run that deleted them."""
    before = [storage.aws.volume(volume) for volume in volumes]
    for action in ("mark", "snapshot", "delete"):
        run = storage.tick()
        assert {run.step(volume)["action"] for volume in volumes} == {action}
    return before, run


def assert_undone(storage: VolumeAccount, before: dict[str, Any], run: Run, folder: Path) -> None:
    volume_id = before["VolumeId"]
    snapshot = storage.snapshot(volume_id)
    said = paste(storage, command(run, volume_id), folder)
    restored = storage.aws.volume(said["VolumeId"])
    assert restored["SnapshotId"] == snapshot
    assert described(restored) == described(before)
    tags = {tag["Key"] for tag in restored.get("Tags", [])}
    assert not tags & {"curfew:marked", "curfew:unattached-since", "curfew:snapshot-of", "curfew:restore"}


def test_each_comes_back_as_it_was(storage: VolumeAccount, tmp_path: Path) -> None:
    """Types with and without figures of their own, encrypted, and with tags that no shell likes."""
    before, run = deleted(
        storage,
        storage.orphan(size=500, asked={"Iops": 6000, "Throughput": 500, "AvailabilityZone": "us-east-1c"}, tags=AWKWARD),
        storage.orphan(size=100, volume_type="io2", asked={"Iops": 5000, "Encrypted": True}),
        storage.orphan(size=40, volume_type="standard"),
    )
    for volume in before:
        assert_undone(storage, volume, run, tmp_path)


def test_grown_after_its_snapshot_it_comes_back_as_large(storage: VolumeAccount, tmp_path: Path) -> None:
    volume = storage.marked(size=100)
    storage.tick()
    storage.aws.client("ec2").modify_volume(VolumeId=volume, Size=200)
    before = storage.aws.volume(volume)
    assert storage.tick().said(volume) == ("snapshot", "orphaned", "done"), "the snapshot of the smaller volume does not count"
    run = storage.tick()
    assert run.said(volume) == ("delete", "orphaned", "done")
    restored = storage.aws.volume(paste(storage, command(run, volume), tmp_path)["VolumeId"])
    assert restored["Size"] == 200 and described(restored) == described(before)
