"""The machines that tests boot: that they boot, end and are kept apart as real ones are, and that nothing of them outlives a test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import pytest

import booting
import moved_clock
from hosts import Host, Hosts
from hosts.host import wait_for
from hosts.inside import processes
from hosts.isolation import PROCESSES
from local_aws import LocalAws
from local_aws.client import REGION
from moved_clock import MovedClock
from reaping import now, rfc3339

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


def serving(unit: str = SERVICE, start: bool = True) -> str:
    """A script that makes a unit."""
    begin = "systemctl start --no-block serving" if start else ""
    return f"cat >$CURFEW_ROOT/etc/systemd/system/serving.service <<'END'\n{unit}END\nsystemctl enable serving\n{begin}"


class Machines:
    def __init__(self, aws: LocalAws, hosts: Hosts) -> None:
        self.aws, self.hosts = aws, hosts

    def launch(self, boothook: str = "", script: str = "", behaviour: str = "terminate", told: bytes | None = None) -> Host:
        return self.hosts.wait_for(self.ask_for(told or user_data(boothook, script), behaviour))

    def ask_for(self, told: bytes, behaviour: str = "terminate") -> str:
        """The id of an instance with that user data."""
        asked = {"ImageId": "ami-0123456789abcdef0", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1, "UserData": told}
        launched = self.aws.client("ec2").run_instances(**asked, InstanceInitiatedShutdownBehavior=behaviour)
        return launched["Instances"][0]["InstanceId"]

    def state(self, host: Host) -> tuple[str, str]:
        """As EC2 says, and why."""
        found = self.aws.instance(host.id)
        return found["State"]["Name"], found.get("StateReason", {}).get("Code", "")

    def reaches(self, host: Host, state: str) -> str:
        until(host, lambda: self.state(host)[0] == state)
        return self.state(host)[1]


def until(host: Host, what: Callable[[], Any]) -> Any:
    return wait_for(what, 30, lambda: f"it never came to that:\n{host.console()}")


def says(host: Host, words: str, times: int = 1) -> None:
    until(host, lambda: host.console().count(words) >= times)


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


def test_an_enabled_unit_starts_at_every_boot(machines: Machines) -> None:
    host = machines.launch(script=serving())
    says(host, "serves\n")
    host.reboot()
    says(host, "serves\n", times=2)


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


# Its end for certain


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def timed(aws: LocalAws, tmp_path: Path, clock: MovedClock) -> Iterator[tuple[Machines, bytes]]:
    """Machines of Curfew's own user data, whose end is in an hour."""
    identity = {
        "schema": 1,
        "bucket": "curfew-state",
        "region": REGION,
        "job": "vision/llama-0123abcd",
        "attempt": 1,
        "launch": "0a1b2c3d4e5f",
        "ends_at": rfc3339(now() + timedelta(hours=1)),
        "agent_sha256": "0" * 64,
    }
    with Hosts(aws, tmp_path / "hosts", HURRY, clock) as hosts:
        yield Machines(aws, hosts), booting.user_data(identity)


def test_its_timer_ends_it(timed: tuple[Machines, bytes], clock: MovedClock) -> None:
    machines, told = timed
    host = machines.launch(told=told)
    assert "Running timer as unit: curfew-end.timer" in host.console()
    clock.move_to(now() + timedelta(minutes=59))
    assert host.is_on and "rings" not in host.console()
    clock.move_to(now() + timedelta(minutes=61))
    host.wait_until_dark()
    assert "the timer of curfew-end.service rings" in host.console()
    assert machines.reaches(host, "terminated") == "Client.InstanceInitiatedShutdown"


def test_a_broken_timer_ends_nothing_nor_after_a_reboot(timed: tuple[Machines, bytes], clock: MovedClock) -> None:
    machines, told = timed
    host = machines.launch(told=told)
    host.break_timer()
    until(host, lambda: not any("curfew-end" in word for one in host.processes() for word in one.words))
    host.reboot()
    until(host, host.booted.is_set)
    assert not any("curfew-end" in word for one in host.processes() for word in one.words)
    clock.move_to(now() + timedelta(minutes=61))
    says(host, "the timer of curfew-end.service is broken")
    host.run("echo it is $(systemctl is-active curfew-end)")
    says(host, "it is inactive\n")
    assert host.is_on


# Apart from all others


def test_nothing_that_ends_a_machine_is_found_but_its_own(machines: Machines) -> None:
    names = "systemctl shutdown poweroff halt reboot init telinit systemd-run sudo aws ip dbus-send busctl"
    host = machines.launch(script=f"for name in {names}; do command -v $name; done; echo done")
    says(host, "done\n")
    found = [line for line in host.console().splitlines() if line.startswith("/")]
    assert {Path(line).parent for line in found} == {machines.hosts.disk / "tools"}
    assert {Path(line).name for line in found} == {"systemctl", "shutdown", "poweroff", "halt", "reboot", "systemd-run"}
    for name in ("init", "telinit", "sudo"):
        assert not (host.root / "tools" / name).exists()


# Its network

ASK = """
imds=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}
get() { curl -s -g -m 5 -w ' %{http_code}\\n' -H "X-aws-ec2-metadata-token: $token" "$imds/latest/$1"; }
token=$(curl -s -m 1 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' $imds/latest/api/token)
"""


def test_the_metadata_are_of_version_two(machines: Machines) -> None:
    host = machines.launch(
        script=f"{ASK}\nget meta-data/instance-id; get meta-data/placement/region; get meta-data/spot/instance-action\n"
        "get meta-data/iam/security-credentials/; get meta-data/iam/security-credentials/curfew-job; token=other; get meta-data/instance-id\n"
        "curl -s -m 5 -w 'no seconds: %{http_code}\\n' -X PUT $imds/latest/api/token"
    )
    console = host.console()
    assert f"{host.id} 200\n" in console and f"{REGION} 200\n" in console and " 404\n" in console
    assert " 401\n" in console and "no seconds: 400\n" in console
    credentials = json.loads(console[console.index("{") : console.index("}") + 1])
    assert credentials["Token"] and credentials["Expiration"] > rfc3339(now() + timedelta(hours=1))


def test_a_warning_is_in_the_metadata(machines: Machines) -> None:
    host = machines.launch()
    host.run(f"{ASK}\nuntil get meta-data/spot/instance-action | grep terminate; do sleep 0.05; done")
    host.warn(120)
    says(host, '"action": "terminate"')
    host.recommend()
    assert "noticeTime" in host.metadata.says["/latest/meta-data/events/recommendations/rebalance"]


def test_a_network_that_is_cut_is_silent_until_it_is_mended(machines: Machines) -> None:
    host = machines.launch()
    timed_out = 28  # curl(1), "Exit codes"

    def check(name: str, seconds: float, code: int) -> None:
        curl = f"curl -s -m {seconds} -o $CURFEW_ROOT/answer"
        host.run(f"{ASK}\n{curl} $imds/latest/meta-data/; echo {name} metadata $?; {curl} $AWS_ENDPOINT_URL/_local/ready; echo {name} aws $?")
        says(host, f"{name} metadata {code}\n{name} aws {code}\n")

    check("open", 20, 0)
    host.cut_network()
    check("cut", 0.2, timed_out)
    host.mend_network()
    check("mended", 20, 0)


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
