"""The first of the three killers, a timer of the machine's own, is enough alone: no agent, no network and no control plane is needed."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import moved_clock
import pytest
from lone import AGENT, STEPS, LoneMachine

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")


def test_the_agent_is_missing(lone: LoneMachine) -> None:
    lone.launch(lone.training(STEPS))
    lone.lose_agent()
    host = lone.boot()
    lone.says("could not be fetched")
    lone.ends_by_its_timer()
    assert not (host.root / AGENT).exists()


def test_a_machine_without_a_network_ends_by_its_timer(lone: LoneMachine) -> None:
    lone.hosts.have_network = False
    lone.launch(lone.training(STEPS))
    host = lone.boot()
    lone.ends_by_its_timer()
    assert "has not heeded" not in host.console(), "nothing of the timer's holds the shutdown up"
    assert host.metadata.asked == [] and not (host.root / AGENT).exists()


def test_the_agent_hangs(lone: LoneMachine) -> None:
    lone.train_for_ever()
    os.kill(lone.agent(), signal.SIGSTOP)
    lone.ends_by_its_timer()


def test_the_agent_is_killed_again_and_again(lone: LoneMachine) -> None:
    host = lone.train_for_ever()
    (host.root / "etc/curfew/fetch-agent").write_text("exit 0\n")
    (dies := host.root / "dies").write_text("#!/bin/sh\nkill -9 $$\n")
    dies.chmod(0o755)
    pid = lone.agent()
    dies.replace(host.root / AGENT)
    os.kill(pid, signal.SIGKILL)
    lone.says("curfew-agent.service has ended: -9", times=3)
    lone.ends_by_its_timer()


# A reboot in between


def test_the_timer_survives_a_reboot(lone: LoneMachine) -> None:
    host = lone.train_for_ever()
    host.reboot()
    before = lone.step()
    lone.until(lambda: lone.step() > before)
    assert lone.trail().count(1) == 1, "the job has not begun anew"
    os.kill(lone.agent(), signal.SIGSTOP)
    lone.ends_by_its_timer()


def test_a_boot_after_the_end_powers_off_first(lone: LoneMachine) -> None:
    host = lone.train_for_ever()
    host.pull_the_plug()
    boot, steps = host.console(), lone.trail()
    assert "curfew-agent.service has started" in boot
    lone.clock.move_to(lone.ends_at + timedelta(seconds=1))
    host.switch_on()
    lone.has_ended()
    assert "curfew-agent" not in host.console().removeprefix(boot)
    assert lone.trail() == steps and lone.exit() is None
