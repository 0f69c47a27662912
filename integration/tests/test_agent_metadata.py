"""The command does not reach the instance metadata of its machine, unless its job asks for them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import moved_clock
from hosts.isolation import NAMESPACES
from machine_without_control_plane import MachineWithoutControlPlane

pytestmark = [
    pytest.mark.skipif(not moved_clock.IS_HERE or shutil.which("ip") is None, reason="machines are processes of Linux, and need ip(8)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can take the rights of another user"),
]

# The token of IMDSv2, by a program that heeds no variable of AWS.
ASKS = (
    "curl --silent --max-time 30 -X PUT -H X-aws-ec2-metadata-token-ttl-seconds:60 http://169.254.169.254/latest/api/token >/dev/null; "
    "echo asked: $? $AWS_EC2_METADATA_DISABLED"
)


def run(machine: MachineWithoutControlPlane, tmp_path: Path, more: str = "", tools: tuple[str, ...] = ("ip",)) -> str:
    """What its machine writes."""
    if machine.hosts.isolation != NAMESPACES:
        pytest.skip(machine.hosts.why_not_better)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    Path(machine.clock.environment()["MOVED_CLOCK"]).chmod(0o644)  # every process of the machine reads it
    machine.user, machine.more, machine.hosts.more_tools = "nobody", more, tools
    machine.launch(ASKS)
    machine.boot()
    machine.until(lambda: machine.exit() is not None)
    assert machine.exit()["reason"] == "succeeded", machine.host.console()
    return machine.host.console()


def test_a_command_reaches_no_metadata(machine: MachineWithoutControlPlane, tmp_path: Path) -> None:
    said = run(machine, tmp_path)
    assert "asked: 7 true\n" in said, said
    assert "has no role of AWS: see `[machine] metadata`" in said
    assert "may read the instance metadata" not in said
    assert machine.warnings() == []


def test_a_command_reaches_those_that_its_job_asks_for(machine: MachineWithoutControlPlane, tmp_path: Path) -> None:
    said = run(machine, tmp_path, "metadata = true")
    assert "asked: 0\n" in said, said


def test_the_owner_hears_where_no_rule_can_be_made(machine: MachineWithoutControlPlane, tmp_path: Path) -> None:
    said = run(machine, tmp_path, tools=())
    assert "asked: 0 true\n" in said, said
    [warning] = machine.warnings()
    assert warning["kind"] == "metadata" and "the rule of routing cannot be made: ip: No such file" in warning["words"], warning
