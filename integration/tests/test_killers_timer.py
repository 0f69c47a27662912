"""The first of the three killers, a timer of the machine's own, is enough alone: no agent, no network and no control plane is needed."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import moved_clock
import pytest
from machine_without_control_plane import AGENT, STEPS, MachineWithoutControlPlane

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")


def test_the_agent_is_missing(machine: MachineWithoutControlPlane) -> None:
    machine.launch(machine.training(STEPS))
    machine.lose_agent()
    host = machine.boot()
    machine.says("could not be fetched")
    machine.ends_by_its_timer()
    assert not (host.root / AGENT).exists()


def test_a_machine_without_a_network_ends_by_its_timer(machine: MachineWithoutControlPlane) -> None:
    machine.hosts.have_network = False
    machine.launch(machine.training(STEPS))
    host = machine.boot()
    machine.ends_by_its_timer()
    assert "has not heeded" not in host.console(), "nothing of the timer's holds the shutdown up"
    assert host.metadata.asked == [] and not (host.root / AGENT).exists()


def test_the_agent_hangs(machine: MachineWithoutControlPlane) -> None:
    machine.train_for_ever()
    os.kill(machine.agent(), signal.SIGSTOP)
    machine.ends_by_its_timer()


def test_the_agent_is_killed_again_and_again(machine: MachineWithoutControlPlane) -> None:
    host = machine.train_for_ever()
    (host.root / "etc/curfew/fetch-agent").write_text("exit 0\n")
    (dies := host.root / "dies").write_text("#!/bin/sh\nkill -9 $$\n")
    dies.chmod(0o755)
    pid = machine.agent()
    dies.replace(host.root / AGENT)
    os.kill(pid, signal.SIGKILL)
    machine.says("curfew-agent.service has ended: -9", times=3)
    machine.ends_by_its_timer()


# A reboot in between


def test_the_timer_survives_a_reboot(machine: MachineWithoutControlPlane) -> None:
    host = machine.train_for_ever()
    host.reboot()
    before = machine.step()
    machine.until(lambda: machine.step() > before)
    assert machine.trail().count(1) == 1, "the job has not begun anew"
    os.kill(machine.agent(), signal.SIGSTOP)
    machine.ends_by_its_timer()


def test_a_boot_after_the_end_powers_off_first(machine: MachineWithoutControlPlane) -> None:
    host = machine.train_for_ever()
    host.pull_the_plug()
    boot, steps = host.console(), machine.trail()
    assert "curfew-agent.service has started" in boot
    machine.clock.move_to(machine.ends_at + timedelta(seconds=1))
    host.switch_on()
    machine.has_ended()
    assert "curfew-agent" not in host.console().removeprefix(boot)
    assert machine.trail() == steps and machine.exit() is None
