"""The machines that tests boot can harm nothing outside: they cannot power the real machine off, and end with the tests. That they boot and
end as real ones do is seen by the tests that use them."""

from __future__ import annotations

import json
import subprocess
import sys
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

import pytest

import moved_clock
from hosts import Host, Hosts
from hosts.host import wait_for
from hosts.inside import processes
from hosts.isolation import PROCESSES
from local_aws import LocalAws

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")

HURRY = 50


def launch_all(aws: LocalAws, script: str, count: int) -> list[str]:
    """Machines whose user data run this script once."""
    user_data = MIMEMultipart("mixed")
    for kind, text in (("cloud-boothook", ""), ("x-shellscript", script)):
        user_data.attach(MIMEText(f"#!/bin/sh\n{text}\n", kind, "us-ascii"))
    asked = {"ImageId": "ami-0123456789abcdef0", "InstanceType": "g5.xlarge", "MinCount": count, "MaxCount": count}
    launched = aws.client("ec2").run_instances(**asked, UserData=user_data.as_bytes())["Instances"]
    return [one["InstanceId"] for one in sorted(launched, key=lambda one: one["AmiLaunchIndex"])]


def launch(aws: LocalAws, hosts: Hosts, script: str) -> Host:
    return hosts.wait_for(launch_all(aws, script, 1)[0])


@pytest.mark.parametrize("kind", [None, PROCESSES], ids=["the best", PROCESSES])
def test_a_machine_finds_no_command_that_could_end_the_real_one(aws: LocalAws, tmp_path: Path, kind: str | None) -> None:
    names = "systemctl shutdown poweroff halt reboot init telinit systemd-run sudo aws ip dbus-send busctl"
    with Hosts(aws, tmp_path / "hosts", HURRY, kind=kind) as hosts:
        if kind is None and hosts.isolation == PROCESSES:
            pytest.skip(hosts.why_not_better)
        host = launch(aws, hosts, f"for name in {names}; do command -v $name; done; echo done")
        wait_for(lambda: "done\n" in host.console(), 120, host.console)
        found = [line for line in host.console().splitlines() if line.startswith("/")]
        assert {Path(line).parent for line in found} == {hosts.disk / "tools"}
        assert {Path(line).name for line in found} == {"systemctl", "shutdown", "poweroff", "systemd-run"}
        for name in ("halt", "reboot", "init", "telinit", "sudo"):
            assert not (host.root / "tools" / name).exists()


def test_machines_end_with_the_process_of_the_tests(tmp_path: Path) -> None:
    kinds = ("None", repr(PROCESSES))
    words = [[sys.executable, "-c", ABANDONED, str(tmp_path / f"hosts-{place}"), kind] for place, kind in enumerate(kinds)]
    begun = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent) for one in words]
    for harness in begun:
        sockets, *numbers = json.loads(harness.stdout.readline())
        pids = set(numbers)
        assert Path(sockets).exists() and pids <= set(processes.running()) and len(pids) >= 2
        harness.kill()
        harness.wait()
        wait_for(lambda: not pids & set(processes.running()), 120, lambda: f"these still run: {pids & set(processes.running())}")
        wait_for(lambda: not Path(sockets).exists(), 120, lambda: f"{sockets} is left")


TELLS_ITS_PLACE = """
metadata=http://169.254.169.254/latest
token=$(curl -s -X PUT $metadata/api/token -H "X-aws-ec2-metadata-token-ttl-seconds: 60")
for path in ami-launch-index local-ipv4 instance-id; do
    echo "$path: $(curl -s $metadata/meta-data/$path -H "X-aws-ec2-metadata-token: $token")"
done
cut -f 1,2,8 /proc/net/route
(while true; do date +%s%N > $CURFEW_ROOT/alive; sleep 0.01; done) > /dev/null 2>&1 &
"""


def test_machines_of_one_launch_are_machines_of_their_own(aws: LocalAws, tmp_path: Path) -> None:
    with Hosts(aws, tmp_path / "hosts", HURRY) as hosts:
        if hosts.isolation == PROCESSES:
            pytest.skip(hosts.why_not_better)
        instances = launch_all(aws, TELLS_ITS_PLACE, 2)
        machines = [hosts.wait_for(one) for one in instances]
        for index, (instance, host) in enumerate(zip(instances, machines)):
            assert "lo\t00000000\t00000000" in host.console(), "a default route"
            told = {"ami-launch-index": index, "local-ipv4": aws.instance(instance)["PrivateIpAddress"], "instance-id": instance}
            assert [line for line in (f"{path}: {value}" for path, value in told.items()) if line not in host.console().splitlines()] == []
        frozen, other = machines

        def beat(host: Host) -> str:
            return (host.root / "alive").read_text()

        def goes_on(host: Host) -> None:
            before = beat(host)
            wait_for(lambda: beat(host) not in ("", before), 120, host.console)

        for host in machines:
            wait_for((host.root / "alive").exists, 120, host.console)
        frozen.freeze()
        stands_at = beat(frozen)
        goes_on(other), goes_on(other)
        assert beat(frozen) == stands_at and frozen.is_on
        frozen.thaw()
        goes_on(frozen)
        frozen.freeze()
        aws.client("ec2").terminate_instances(InstanceIds=[frozen.id])
        frozen.wait_until_dark()
        assert frozen.ended_by == "plug" and other.is_on, "EC2 switches off what does not shut down"
        goes_on(other)


ABANDONED = """
import json, sys, time
sys.path.insert(0, "..")
from pathlib import Path
from local_aws import running
from hosts import Hosts
from hosts.host import wait_for
from test_hosts import launch
with running(regions=["us-east-1"]) as aws, Hosts(aws, Path(sys.argv[1]), kind=eval(sys.argv[2])) as hosts:
    host = launch(aws, hosts, "(setsid sh -c 'tail -f /dev/null & tail -f /dev/null') >/dev/null 2>&1 &")
    wait_for(lambda: sum("-f" in one.words for one in host.processes()) == 2, 120, host.console)
    print(json.dumps([str(host.place.sockets), *(one.pid for one in host.processes())]), flush=True)
    time.sleep(600)
"""
