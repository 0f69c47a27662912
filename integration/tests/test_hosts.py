"""The machines that tests boot: that they boot, end and are kept apart as real ones are, and that nothing of them outlives a test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import pytest

import moved_clock
from hosts import Host, Hosts
from hosts.host import wait_for
from hosts.inside import processes
from hosts.isolation import PROCESSES
from local_aws import LocalAws

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")

HURRY = 50
# Says when it is told to end, and ends.
SERVICE = """[Service]
ExecStart=/bin/sh -c 'trap "echo was told; exit 0" TERM; echo serves; while :; do sleep 0.05; done'
KillMode=mixed
[Install]
WantedBy=multi-user.target
"""


def user_data(boothook: str = "", script: str = "") -> bytes:
    made = MIMEMultipart("mixed")
    for kind, text in (("cloud-boothook", boothook), ("x-shellscript", script)):
        made.attach(MIMEText(f"#!/bin/sh\n{text}\n", kind, "us-ascii"))
    return made.as_bytes()


def serving(unit: str = SERVICE) -> str:
    """A script that makes a unit."""
    return f"cat >$CURFEW_ROOT/etc/systemd/system/serving.service <<'END'\n{unit}END\nsystemctl start --no-block serving"


class Machines:
    def __init__(self, aws: LocalAws, hosts: Hosts) -> None:
        self.aws, self.hosts = aws, hosts

    def launch(self, boothook: str = "", script: str = "") -> Host:
        asked = {"ImageId": "ami-0123456789abcdef0", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}
        launched = self.aws.client("ec2").run_instances(
            **asked, UserData=user_data(boothook, script), InstanceInitiatedShutdownBehavior="terminate"
        )
        return self.hosts.wait_for(launched["Instances"][0]["InstanceId"])

    def state(self, host: Host) -> tuple[str, str]:
        """As EC2 says, and why."""
        found = self.aws.instance(host.id)
        return found["State"]["Name"], found.get("StateReason", {}).get("Code", "")

    def reaches(self, host: Host, state: str) -> str:
        until(host, lambda: self.state(host)[0] == state)
        return self.state(host)[1]


def until(host: Host, what: Callable[[], Any]) -> Any:
    return wait_for(what, 30, lambda: f"it never came to that:\n{host.console()}")


def says(host: Host, words: str) -> None:
    until(host, lambda: words in host.console())


@pytest.fixture(params=["the best", PROCESSES])
def machines(request: pytest.FixtureRequest, aws: LocalAws, tmp_path: Path) -> Iterator[Machines]:
    kind = None if request.param == "the best" else request.param
    with Hosts(aws, tmp_path / "hosts", HURRY, kind=kind) as hosts:
        if kind is None and hosts.isolation == PROCESSES:
            pytest.skip(hosts.why_not_better)
        yield Machines(aws, hosts)


# Booting


def test_the_boothook_comes_first_and_the_script_runs_once(machines: Machines) -> None:
    host = machines.launch("echo early", "echo late")
    assert host.console().index("early\n") < host.console().index("late\n")
    assert f"in {host.isolation}" in host.console() and host.is_on
    host.reboot()
    until(host, host.booted.is_set)
    assert (host.console().count("early\n"), host.console().count("late\n"), host.boots) == (2, 1, 2)


# Ending


def test_one_that_is_terminated_shuts_down_first(machines: Machines) -> None:
    slow = SERVICE.replace("exit 0", "while [ ! -e $CURFEW_ROOT/go ]; do sleep 0.05; done; exit 0")
    host = machines.launch(script=serving(slow + "[Service]\nTimeoutStopSec=1h\n"))
    says(host, "serves\n")
    machines.aws.client("ec2").terminate_instances(InstanceIds=[host.id])
    says(host, "was told\n")
    assert machines.state(host)[0] == "shutting-down" and host.is_on
    (host.root / "go").touch()
    assert machines.reaches(host, "terminated") == "Client.UserInitiatedShutdown"
    assert host.ended_by == "poweroff"


def test_without_the_plug_nothing_runs_and_nobody_is_told(machines: Machines) -> None:
    host = machines.launch(script=f"{serving()}\n(setsid sh -c 'tail -f /dev/null & tail -f /dev/null') >/dev/null 2>&1 &")
    says(host, "serves\n")
    until(host, lambda: sum("-f" in one.words for one in host.processes()) == 2)
    pids = [one.pid for one in host.processes()]
    host.pull_the_plug()
    assert not set(pids) & set(processes.running()) and host.processes() == []
    assert "was told" not in host.console() and machines.state(host)[0] == "running"
    machines.aws.client("ec2").terminate_instances(InstanceIds=[host.id])
    machines.reaches(host, "terminated")


# Apart from all others


def test_nothing_that_ends_a_machine_is_found_but_its_own(machines: Machines) -> None:
    names = "systemctl shutdown poweroff halt reboot init telinit systemd-run sudo aws ip dbus-send busctl"
    host = machines.launch(script=f"for name in {names}; do command -v $name; done; echo done")
    says(host, "done\n")
    found = [line for line in host.console().splitlines() if line.startswith("/")]
    assert {Path(line).parent for line in found} == {machines.hosts.disk / "tools"}
    assert {Path(line).name for line in found} == {"systemctl", "shutdown", "poweroff", "systemd-run"}
    for name in ("halt", "reboot", "init", "telinit", "sudo"):
        assert not (host.root / "tools" / name).exists()


# Nothing is left


def test_where_the_tests_are_killed_their_machines_end(tmp_path: Path) -> None:
    kinds = ("None", repr(PROCESSES))
    words = [[sys.executable, "-c", ABANDONED, str(tmp_path / f"hosts-{place}"), kind] for place, kind in enumerate(kinds)]
    begun = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent) for one in words]
    for harness in begun:
        sockets, *numbers = json.loads(harness.stdout.readline())
        pids = set(numbers)
        assert Path(sockets).exists() and pids <= set(processes.running()) and len(pids) >= 2
        harness.kill()
        harness.wait()
        wait_for(lambda: not pids & set(processes.running()), 30, lambda: f"these still run: {pids & set(processes.running())}")
        wait_for(lambda: not Path(sockets).exists(), 30, lambda: f"{sockets} is left")


ABANDONED = """
import json, sys, time
sys.path.insert(0, "..")
from pathlib import Path
from local_aws import running
from hosts import Hosts
from hosts.host import wait_for
from test_hosts import Machines
with running(regions=["us-east-1"]) as aws, Hosts(aws, Path(sys.argv[1]), kind=eval(sys.argv[2])) as hosts:
    host = Machines(aws, hosts).launch(script="(setsid sh -c 'tail -f /dev/null & tail -f /dev/null') >/dev/null 2>&1 &")
    wait_for(lambda: sum("-f" in one.words for one in host.processes()) == 2, 30, host.console)
    print(json.dumps([str(host.place.sockets), *(one.pid for one in host.processes())]), flush=True)
    time.sleep(600)
"""
