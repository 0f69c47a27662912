"""What a machine of a job is told at its launch, taken apart as cloud-init does it, and run. How it fetches its agent is in
test_jobs_agent_fetched.py."""

from __future__ import annotations

import base64
import configparser
import datetime as dt
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from booting import POWERS_OFF, RECORDER, SHELLS, SLEEP, Machine, identity_with, machine_with, user_data

AGENT = b"#!/bin/sh\necho agent >>\"$CURFEW_ROOT/agent-ran\"\n"
END = int(dt.datetime(2026, 11, 22, 18, 30, 5, tzinfo=dt.UTC).timestamp())
DEFAULT_TIMEOUT_STOP_SECONDS = 90  # systemd-system.conf(5), DefaultTimeoutStopSec
IDENTITY = identity_with(AGENT)
OFF = ("systemctl", "shutdown", "poweroff")
ORDERLY = "systemctl poweroff -i"
BY_FORCE = "systemctl poweroff --force --force"
FAILS = RECORDER + "exit 1\n"
# In the place of `timeout`: kills what has stopped (proc_pid_stat(5), "state"), however long it takes until then.
KILLS_WHAT_HANGS = f"""#!/bin/sh
shift
"$@" &
while read -r _ _ state _ <"/proc/$!/stat"; do
    case $state in T) kill -KILL $! ;; Z) break ;; esac
    {SLEEP} 0.02
done
wait $!
"""


@pytest.fixture(scope="module")
def told() -> bytes:
    return user_data(IDENTITY)


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path, told: bytes) -> Iterator[Machine]:
    """Ten minutes before its end."""
    with machine_with(request.param, tmp_path, told) as machine:
        machine.clock = END - 600
        yield machine


def boot(machine: Machine) -> None:
    """Runs the first part as cloud-init does at every boot."""
    ended = machine.run("boothook")
    assert ended.returncode == 0, ended.stderr


# The end of the machine


def test_before_its_end_a_timer_is_kept_that_waits_for_nothing(machine: Machine) -> None:
    machine.freeze()
    boot(machine)
    copy = machine.root / "run" / "curfew-end"
    assert copy.read_bytes() == (machine.root / "boothook").read_bytes()
    assert [call.arguments for call in machine.calls("systemd-run")] == [
        (
            "--no-block",
            "--unit=curfew-end",
            "--property=DefaultDependencies=no",
            "--timer-property=DefaultDependencies=no",
            "--timer-property=AccuracySec=1s",
            "--on-calendar=2026-11-22 18:30:05 UTC",
            "/bin/sh",
            str(copy),
            "end",
        )
    ]
    assert machine.calls(*OFF) == []
    if shutil.which("systemd-analyze"):
        ask = ["systemd-analyze", "calendar", "--base-time=2026-01-01 00:00:00 UTC", "2026-11-22 18:30:05 UTC"]
        answer = subprocess.run(ask, env={"TZ": "UTC", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
        assert "Next elapse: Sun 2026-11-22 18:30:05 UTC" in answer.stdout, answer.stdout


def test_when_the_timer_fires_the_machine_ends_in_order(machine: Machine) -> None:
    machine.freeze()
    boot(machine)
    machine.pull_the_plug()
    machine.unfreeze()
    machine.clock = END
    machine.run("run/curfew-end", "end")
    assert machine.said(*OFF) == [ORDERLY]


def test_past_its_end_it_powers_off_at_once(machine: Machine) -> None:
    for late in (0, 1, 10**9):
        machine.clock = END + late
        machine.run("boothook")
        call = machine.wait_for(ORDERLY, *OFF)
        assert call.at == END + late
        assert all("--on-calendar" not in said for said in machine.said("systemd-run"))
        machine.wait_until_nothing_runs()
        for path in ("calls", "off"):
            (machine.root / path).unlink()


@pytest.mark.parametrize("script", [None, RECORDER], ids=["missing", "lying"])
def test_past_its_end_it_powers_off_whatever_systemd_run_does(machine: Machine, script: str | None) -> None:
    machine.tool("systemd-run", script)
    machine.clock = END
    machine.run("boothook")
    assert machine.wait_for(ORDERLY, *OFF).at <= END + 5


def test_past_its_end_a_shutdown_that_is_under_way_has_half_a_minute(machine: Machine) -> None:
    machine.tool("systemd-run", RECORDER)
    machine.tool("systemctl", POWERS_OFF.replace("exit 0", '[ "$1" = is-system-running ] && echo stopping\nexit 0'))
    machine.clock = END
    machine.run("boothook")
    assert machine.wait_for(ORDERLY, *OFF).at == END + 30


def test_a_reboot_arms_it_anew_and_one_after_the_end_powers_off(machine: Machine) -> None:
    machine.freeze()
    boot(machine)
    machine.pull_the_plug()
    shutil.rmtree(machine.root / "run")
    (machine.root / "run").mkdir()
    machine.clock = END - 60
    boot(machine)
    machine.pull_the_plug()
    armed = machine.calls("systemd-run")
    assert [call.arguments for call in armed] == [armed[0].arguments] * 2
    assert machine.calls(*OFF) == []
    machine.unfreeze()
    machine.clock = END + 5
    machine.run("boothook")
    assert machine.wait_for(ORDERLY, *OFF).at == END + 5


@pytest.mark.parametrize("script", [None, RECORDER], ids=["missing", "lying"])
def test_without_a_timer_the_clock_is_watched(machine: Machine, script: str | None) -> None:
    machine.tool("systemd-run", script)
    boot(machine)
    call = machine.wait_for(ORDERLY, *OFF)
    assert END <= call.at <= END + 31
    assert machine.said(*OFF) == [ORDERLY]


def test_an_old_systemd_gets_options_that_it_knows(machine: Machine) -> None:
    old = 'for of in "$@"; do case $of in --no-block | *DefaultDependencies*) exit 1 ;; esac; done\n'
    machine.tool("systemd-run", RECORDER + old)
    boot(machine)
    [_, plain] = machine.said("systemd-run")
    timer = "--unit=curfew-end --timer-property=AccuracySec=1s --on-calendar=2026-11-22 18:30:05 UTC"
    assert plain == f"systemd-run {timer} /bin/sh {machine.root}/run/curfew-end end"


def test_a_hanging_systemd_delays_nothing(machine: Machine) -> None:
    machine.tool("systemd-run", RECORDER + "kill -STOP $$\n")
    machine.tool("timeout", KILLS_WHAT_HANGS)
    boot(machine)
    assert len(machine.calls("systemd-run")) == 2
    machine.wait_for(ORDERLY, *OFF)


def test_an_orderly_end_that_hangs_is_forced_and_at_last_left_to_the_kernel(machine: Machine) -> None:
    machine.tool("systemctl", RECORDER)
    machine.clock = END
    ended = machine.run("boothook", "end")
    assert ended.returncode == 0, ended.stderr
    assert [(call.at - END, str(call)) for call in machine.calls(*OFF)] == [(0, ORDERLY), (120, BY_FORCE)]
    assert machine.file("proc/sys/kernel/sysrq") == "1\n"
    assert machine.file("proc/sysrq-trigger") == "s\nu\no\n"


def end_and_be_told_to(machine: Machine, first: str | None) -> None:
    """The end, which its own shutdown tells to end, by what PID 1 is then, and all that it has begun as well."""
    (machine.root / "proc/1").mkdir()
    becomes = "" if first is None else f'echo {first} >"$CURFEW_ROOT/proc/1/comm"\n'
    machine.tool("systemctl", RECORDER + becomes + 'kill -TERM "$(cat "$CURFEW_ROOT/pid")" $PPID $$\nexit 0\n')
    (machine.root / "wrapped").write_text('echo $$ >"$CURFEW_ROOT/pid"\n. "$CURFEW_ROOT/boothook"\n')
    machine.clock = END
    ended = machine.run("wrapped", "end")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("first", ["systemd", None])
def test_an_end_that_has_begun_is_not_stopped_by_the_shutdown(machine: Machine, first: str | None) -> None:
    """systemd sends SIGTERM to what it stops; who watches over the shutdown must outlive it."""
    end_and_be_told_to(machine, first)
    assert machine.said(*OFF) == [ORDERLY, BY_FORCE]
    assert machine.file("proc/sysrq-trigger") == "s\nu\no\n"


def test_the_end_of_the_shutdown_does_not_wait_for_the_script(machine: Machine) -> None:
    """That waits for what does not heed its SIGTERM, for `DefaultTimeoutStopSec`, and powers off by itself."""
    end_and_be_told_to(machine, "systemd-shutdow")
    assert machine.said(*OFF) == [ORDERLY] and machine.clock < END + DEFAULT_TIMEOUT_STOP_SECONDS
    machine.wait_until_nothing_runs()


def test_without_systemctl_older_ways_are_taken(machine: Machine) -> None:
    machine.tool("systemctl", None)
    machine.run("boothook", "end")
    assert machine.said(*OFF) == ["shutdown -h now", "poweroff -f"]
    machine.tool("shutdown", FAILS)
    (machine.root / "calls").unlink()
    machine.run("boothook", "end")
    assert machine.said(*OFF) == ["shutdown -h now", "poweroff", "poweroff -f"]


def test_a_machine_without_a_clock_ends_after_a_quarter_of_an_hour(machine: Machine) -> None:
    machine.clock = 0
    boot(machine)
    call = machine.wait_for(ORDERLY, *OFF)
    assert 900 <= call.at <= 960
    assert "--on-calendar=2026-11-22 18:30:05 UTC" in machine.calls("systemd-run")[0].arguments


def test_a_clock_that_is_set_late_counts_from_then_on(machine: Machine) -> None:
    machine.clock = 0
    (machine.root / "clock-set").write_text(f"{END - 1200}\n")
    boot(machine)
    assert END <= machine.wait_for(ORDERLY, *OFF).at <= END + 31


def test_a_clock_that_cannot_be_read_ends_nothing(machine: Machine) -> None:
    for script in (None, "#!/bin/sh\necho soon\n", "#!/bin/sh\n"):
        machine.tool("date", script)
        (machine.root / "calls").unlink(missing_ok=True)
        boot(machine)
        assert len(machine.calls("systemd-run")) == 1
        machine.pull_the_plug()
        assert machine.calls(*OFF) == []


# Its agent


def agent_unit(machine: Machine) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str
    unit.read_string(machine.file("etc/systemd/system/curfew-agent.service"))
    return unit


def test_the_agent_is_a_service_of_every_boot(machine: Machine) -> None:
    assert machine.run("setup").returncode == 0
    assert machine.said("systemctl") == [
        "systemctl daemon-reload",
        "systemctl enable curfew-agent.service",
        "systemctl start --no-block curfew-agent.service",
    ]
    service = agent_unit(machine)["Service"]
    assert (service["ExecStart"], service["Restart"]) == ("/usr/local/bin/curfew-agent", "on-failure")
    assert service["ExecStartPre"] == "/bin/sh /etc/curfew/fetch-agent"
    # By default systemd stops a unit of which the kernel killed a process for its memory, and the attempt would look interrupted.
    assert service["OOMPolicy"] == "continue"
    assert agent_unit(machine)["Install"]["WantedBy"] == "multi-user.target"
    assert json.loads(machine.file("etc/curfew/identity.json")) == IDENTITY


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_no_mistake_in_the_service(machine: Machine, tmp_path: Path) -> None:
    machine.run("setup")
    unit = tmp_path / "curfew-agent.service"
    unit.write_text(machine.file("etc/systemd/system/curfew-agent.service").replace("/usr/local/bin/curfew-agent", "/bin/true"))
    found = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    mistakes = [line for line in found.stderr.splitlines() if "curfew-agent.service" in line]
    assert mistakes == [], found.stderr


def fetched(machine: Machine) -> None:
    """`aws` that fetches."""
    content = base64.b64encode(AGENT).decode()
    machine.tool("aws", RECORDER + f'for last in "$@"; do :; done\nprintf %s {content} | base64 -d >"$last"\n')


@pytest.mark.parametrize("why", ["no systemd", "a systemd that refuses"])
def test_without_systemd_the_agent_runs_all_the_same(machine: Machine, why: str) -> None:
    if why == "no systemd":
        shutil.rmtree(machine.root / "run")
    else:
        machine.tool("systemctl", FAILS)
    fetched(machine)
    assert machine.run("setup").returncode == 0
    wait_for_agent(machine, 1)
    machine.run("var/lib/cloud/scripts/per-boot/curfew-agent")
    wait_for_agent(machine, 2)


def wait_for_agent(machine: Machine, times: int) -> None:
    machine.wait_until_nothing_runs()
    assert machine.file("agent-ran") == "agent\n" * times


def test_without_systemd_an_agent_that_fails_is_run_again(machine: Machine) -> None:
    shutil.rmtree(machine.root / "run")
    fetched(machine)
    machine.run("setup")
    wait_for_agent(machine, 1)
    agent = machine.root / "usr/local/bin/curfew-agent"
    machine.tool("sha256sum", f"#!/bin/sh\ncat >/dev/null\necho {IDENTITY['agent_sha256']}\n")
    agent.write_text('#!/bin/sh\necho agent >>"$CURFEW_ROOT/agent-ran"\n[ "$(sed -n 3p "$CURFEW_ROOT/agent-ran")" ]\n')
    machine.run("var/lib/cloud/scripts/per-boot/curfew-agent")
    wait_for_agent(machine, 3)


def test_a_failed_write_leaves_no_partial_identity(machine: Machine) -> None:
    """What is written is whole or not there: a half identity would be another one."""
    machine.tool("base64", None)
    machine.run("setup")
    assert machine.file("etc/curfew/identity.json") == ""


def test_no_command_is_found_but_the_stand_ins(machine: Machine) -> None:
    """Else a test could power off the machine that it runs on."""
    assert POWERS_OFF in (machine.tools / "systemctl").read_text()
    environment = {"PATH": str(machine.tools), "CURFEW_ROOT": str(machine.root)}
    for command in ("reboot", "halt", "init", "curl", "aws"):
        look = subprocess.run([machine.shell, "-c", f"command -v {command}"], env=environment, capture_output=True)
        assert look.returncode != 0, command
