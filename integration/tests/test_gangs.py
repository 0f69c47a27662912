"""A job on several machines ends as if nothing had happened, whatever befalls one of them; and it ends as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moved_clock
from gangs import EVERY, LONG_NOTICE_SECONDS, Gang, GangWorld
from hosts import Host
from local_aws import LocalAws
from reaping import BUCKET

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")

PAUSE = 13  # after a checkpoint, before the next one
KEPT = PAUSE - PAUSE % EVERY


@pytest.fixture
def world(aws: LocalAws, tmp_path: Path, packaged: Path) -> Iterator[GangWorld]:
    with GangWorld(aws, tmp_path, packaged) as world:
        yield world


@pytest.fixture
def saving_world(aws: LocalAws, tmp_path: Path, packaged: Path) -> Iterator[GangWorld]:
    """The nodes that AWS has not warned have 150 seconds to save, and have to come out with what they become here on a busy machine."""
    with GangWorld(aws, tmp_path, packaged, hurry=20) as world:
        yield world


def paused(world: GangWorld, nodes: int) -> tuple[Gang, list[Host]]:
    """A gang that has kept a step on all nodes, has gone on, and waits."""
    gang = world.submit(nodes, pause_after=PAUSE)
    hosts = gang.hosts()
    gang.keeps(KEPT)
    gang.comes_to(PAUSE)
    return gang, hosts


def test_nodes_run_one_command_together(world: GangWorld) -> None:
    gang = world.submit(nodes=4, pause_after=PAUSE, outputs=True)
    hosts = gang.hosts()
    gang.keeps(KEPT)
    for node, host in enumerate(hosts):
        instance = world.aws.instance(host.id)
        member = gang.read(f"member/{node}.json")
        assert (member["instance"], member["address"]) == (host.id, instance["PrivateIpAddress"]) and instance["AmiLaunchIndex"] == node
    round_0 = gang.read("round/0.json")
    assert (round_0["addresses"], round_0["port"]) == ([world.aws.instance(host.id)["PrivateIpAddress"] for host in hosts], 29500)
    assert sorted(gang.parts(1, KEPT)) == [0, 1, 2, 3]
    gang.go_on()
    gang.succeeds()
    gang.resumed_after(0, attempt=1)
    assert gang.head()["result"]["succeeded"] and world.launches() == [([4, 4], 200)]
    assert [gang.read(f"exit/{node}.json")["reason"] for node in range(4)] == ["succeeded"] * 4
    key = f"outputs/{gang.job.id}/1{gang.folder / 'result'}"
    assert world.aws.object(BUCKET, key) == (gang.folder / "result").read_bytes()


def test_a_warning_of_one_node_saves_on_all(saving_world: GangWorld) -> None:
    gang, hosts = paused(saving_world, nodes=3)
    saving_world.control.interrupt(hosts[1], LONG_NOTICE_SECONDS)
    for host in hosts:
        host.wait_until_dark()
        assert host.ended_by == "poweroff", host.console()
    stop = gang.read("stop.json")
    assert (stop["cause"], stop["node"]) == ("warned", 1)
    for node, host in enumerate(hosts):
        assert f"node 1 ({hosts[1].id}) is taken back by AWS" in host.console(), f"node {node}:\n{host.console()}"
    assert sorted(gang.parts(1, PAUSE)) == [0, 1, 2]
    gang.go_on()
    gang.succeeds()
    gang.resumed_after(PAUSE)
    assert gang.job.document.get("retries") is None
    assert saving_world.launches() == [([3, 3], 200)] * 2


def test_warnings_of_all_nodes_are_one_loss(saving_world: GangWorld) -> None:
    gang, hosts = paused(saving_world, nodes=2)
    for host in hosts:
        host.warn(LONG_NOTICE_SECONDS)
    for host in hosts:
        saving_world.control.interrupt(host, LONG_NOTICE_SECONDS)
    gang.go_on()
    gang.succeeds()
    gang.resumed_after(PAUSE)
    assert gang.job.attempt == 2 and saving_world.launches() == [([2, 2], 200)] * 2


def test_a_node_without_power_is_a_loss_and_no_failure(world: GangWorld) -> None:
    """The command of the other node fails within milliseconds, for its connection is reset."""
    gang, hosts = paused(world, nodes=2)
    world.control.pull_the_plug(hosts[1])
    gang.go_on()
    gang.succeeds()
    gang.resumed_after(KEPT)
    assert gang.job.document.get("retries") is None


def test_a_node_without_power_of_which_ec2_says_that_it_runs_is_ended(world: GangWorld) -> None:
    gang, hosts = paused(world, nodes=2)
    world.control.pull_the_plug(hosts[1], silent=True)
    hosts[0].wait_until_dark()
    gang.loses_the_rest()
    gang.go_on()
    gang.succeeds()
    gang.resumed_after(KEPT)
    assert gang.job.document.get("retries") is None
    assert all(world.account.state(host.id) == "terminated" for host in hosts)


def test_a_node_that_hangs_ends_all(world: GangWorld) -> None:
    """Its connections stay open, so that the other's command waits for it without end."""
    gang, hosts = paused(world, nodes=2)
    hosts[1].freeze()
    gang.go_on()
    gang.was_silent(1, minutes=6)
    hosts[0].wait_until_dark()
    stop = gang.read("stop.json")
    assert (stop["cause"], stop["node"]) == ("lost", 1), hosts[0].console()
    assert "node 1 has sent nothing for 5m: the other nodes end" in hosts[0].console()
    gang.loses_the_rest()
    # EC2 takes its power after some minutes.
    gang.until(lambda: world.account.state(hosts[1].id) == "shutting-down")
    hosts[1].pull_the_plug()
    gang.succeeds()
    gang.resumed_after(KEPT)
    assert gang.job.document.get("retries") is None


def test_a_step_that_a_node_without_network_has_done_counts_for_nothing(world: GangWorld) -> None:
    """Neither S3 nor its instance metadata answer, and its command meets the others all the same."""
    gang, hosts = paused(world, nodes=2)
    hosts[1].cut_network()
    gang.go_on()
    gang.until(lambda: 0 in gang.parts(1, gang.steps))
    gang.was_silent(1, minutes=6)
    hosts[0].wait_until_dark()
    assert gang.kept() == KEPT and gang.parts(1, gang.steps) == [0]
    gang.loses_the_rest()
    gang.until(lambda: world.account.state(hosts[1].id) == "shutting-down")
    hosts[1].pull_the_plug()
    gang.succeeds()
    gang.resumed_after(KEPT)


def test_a_node_that_fails_ends_all(world: GangWorld) -> None:
    gang, hosts = paused(world, nodes=3)
    gang.fail(2, code=7)
    gang.go_on()
    gang.ends("failed")
    result = gang.head()["result"]
    assert not result["succeeded"] and result["code"] == 7 and "node 2, exit code 7 at" in result["why"], result
    assert all(f"{node}" in result["why"].partition("(")[2] for node in (0, 1)), result
    for host in hosts:
        host.wait_until_dark()
    assert world.launches() == [([3, 3], 200)]


def test_a_failure_is_retried_on_all(world: GangWorld) -> None:
    gang = world.submit(pause_after=PAUSE, more="retries = 1\n")
    gang.keeps(KEPT)
    gang.comes_to(PAUSE)
    gang.fail(1, code=3)
    gang.go_on()
    gang.until(lambda: gang.job.state == "retrying")
    assert gang.job.document["retries"] == {"used": 1, "attempt": 1}


def test_a_warned_node_may_be_gone_before_the_others_have_saved(saving_world: GangWorld) -> None:
    gang, hosts = paused(saving_world, nodes=2)
    gang.hold_save(1)
    hosts[0].warn(LONG_NOTICE_SECONDS)
    gang.until(lambda: gang.parts(1, PAUSE) == [0])
    saving_world.control.pull_the_plug(hosts[0])
    assert gang.kept() == KEPT, "a step without the part of a node is none"
    gang.release_save(1)
    gang.until(lambda: gang.kept() == PAUSE)
    assert gang.head()["attempt"] == 1, "node 1 has named it"
    gang.go_on()
    gang.succeeds()
    gang.resumed_after(PAUSE)


def test_a_node_that_saves_for_too_long_is_left_behind(aws: LocalAws, tmp_path: Path, packaged: Path) -> None:
    with GangWorld(aws, tmp_path, packaged, hurry=60) as world:
        gang, hosts = paused(world, nodes=2)
        gang.hold_save(1)
        world.control.interrupt(hosts[0], LONG_NOTICE_SECONDS)
        hosts[1].wait_until_dark()
        assert gang.kept() == KEPT and 1 not in gang.parts(1, PAUSE)
        gang.release_save(1)
        gang.go_on()
        gang.succeeds()
        gang.resumed_after(KEPT)


def test_a_node_that_never_boots_ends_all(world: GangWorld) -> None:
    never: list[str] = []

    def boots(machine: dict[str, Any]) -> bool:
        if machine["launch_index"] == 1 and not never:
            never.append(machine["id"])
        return machine["id"] not in never

    world.hosts.boots = boots
    gang = world.submit(nodes=2)
    gang.until(lambda: gang.job.state == "running" and gang.has("member/0.json") and gang.has("beat/0.json"))
    first, zone = gang.job.machines, gang.job.phase["zone"]
    assert first[1:] == never
    gang.was_silent(0, minutes=11)
    gang.until(lambda: gang.has("stop.json"))
    stop = gang.read("stop.json")
    assert (stop["cause"], stop["node"]) == ("never-joined", 1)
    world.hosts.find(first[0]).wait_until_dark()
    gang.loses_the_rest()
    gang.until(lambda: gang.job.attempt == 2 and gang.job.state == "running")
    assert gang.job.phase["zone"] != zone
    gang.succeeds()
    assert {world.account.state(one) for one in first} == {"terminated"} and world.launches() == [([2, 2], 200)] * 2
    gang.resumed_after(0)
