"""What the command shows of a job on several machines that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import moved_clock
from command import curfew
from gangs import GangWorld
from local_aws import LocalAws


@pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")
def test_all_nodes_are_shown_and_their_logs(aws: LocalAws, tmp_path: Path, packaged: Path) -> None:
    with GangWorld(aws, tmp_path, packaged) as world:
        gang = world.submit(nodes=3, pause_after=13)
        hosts = gang.hosts()
        gang.keeps(12)
        gang.until(lambda: gang.job.document["progress"]["step"] == 12)
        gang.until(lambda: all("runs the command" in gang.log(node) for node in range(3)))
        environment, name = world.account.environment(), gang.job.id.split("/")[1]
        shown = curfew(environment, "jobs", name).fine().out
        assert "attempt 1, 3 of 3 nodes, step 12" in shown and "complete on all 3" in shown, shown
        for node, host in enumerate(hosts):
            [line] = [line for line in shown.splitlines() if f"node {node} " in line]
            assert host.id in line and aws.instance(host.id)["PrivateIpAddress"] in line and "running" in line
        nodes = json.loads(curfew(environment, "jobs", name, "--json").fine().out)["nodes"]
        assert [one["instance"] for one in nodes] == [host.id for host in hosts]
        every = curfew(environment, "logs", name).fine().out.splitlines()
        assert {line.partition("| ")[0] for line in every} == {"0", "1", "2"}, every
        [one] = [line for line in curfew(environment, "logs", name, "--node", "2").fine().out.splitlines() if "node 2 of 3" in line]
        assert hosts[2].id in one
        gang.go_on()
        gang.succeeds()
