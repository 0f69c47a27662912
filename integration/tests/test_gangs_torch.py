"""PyTorch itself on several machines: the recipes of gangs, each node in a network of its own, beside the undisturbed run on one machine.

`make recipes-torch` runs them; `RECIPES_PYTHON` names an interpreter that has torch. The machines have no GPU: gloo connects one rank of each.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangs import Gang, GangWorld
from hosts import Host, why_no_wires
from local_aws import LocalAws
from reaping import REPOSITORY
from test_recipes import PYTHON, RECIPES, python_of

WHY_NOT = why_no_wires() if PYTHON else "make recipes-torch runs it"
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

NAMES = sorted(path.stem for path in RECIPES.glob("*.toml") if "nodes" in tomllib.loads(path.read_text())["gpu"])
HURRY = 5  # who loads torch on a busy machine needs seconds for what takes milliseconds elsewhere
TIMEOUT_SECONDS = 400
NOTICE_SECONDS = 100.0  # takes no longer than the machine, which shuts down once all is kept
STEPS, EVERY = 60, 5  # of each recipe

SPEC = """
command = {command}
owner = "ada@example.com"
setup = {setup}
[env]
{variables}
[gpu]
nodes = {nodes}
types = ["g6.12xlarge"]
[limits]
max_runtime = "8h"
[machine]
user = "root"
[checkpoint]
dir = {checkpoints}
every = "1m"
"""


@pytest.fixture
def world(aws: LocalAws, tmp_path: Path, packaged: Path) -> Iterator[GangWorld]:
    with GangWorld(aws, tmp_path, packaged, HURRY, are_wired=True) as world:
        yield world


def steps_of(host: Host) -> list[int]:
    """The steps that the rank of a machine has printed."""
    return [int(step) for step in re.findall(r"\bstep (\d+)$", host.console(), re.MULTILINE)]


class TorchGang:
    """The job of a recipe. `before`: what Python does in each rank before it."""

    def __init__(self, world: GangWorld, name: str, before: str = "") -> None:
        python = python_of(name)
        if name == "deepspeed" and shutil.which("c++") is None:
            pytest.skip("DeepSpeed compiles what it needs on a CPU, and there is no c++")
        document = tomllib.loads((RECIPES / f"{name}.toml").read_text())
        torchrun, script, result = shlex.split(document["command"])
        nodes = document["gpu"]["nodes"]
        self.world, self.result, self.undisturbed = world, world.scratch / result, world.scratch / "undisturbed"
        variables = {
            "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "ACCELERATE_USE_CPU": "true",
            "DS_ACCELERATOR": "cpu",
            # DeepSpeed compiles for minutes what it has not compiled yet.
            "TORCH_EXTENSIONS_DIR": str(REPOSITORY / "target/torch-extensions"),
        }
        alone = {**os.environ, **variables, "CURFEW_CHECKPOINT_DIR": str(world.scratch / "alone")}
        words = [torchrun, "--nproc-per-node", str(nodes), str(RECIPES / script), str(self.undisturbed)]
        subprocess.run([str(Path(python).with_name(torchrun)), *words[1:]], env=alone, check=True)
        repository = world.scratch / "repository"
        repository.mkdir()
        (repository / "curfew.py").write_text((RECIPES / "curfew.py").read_text())
        (repository / script).write_text(before + (RECIPES / script).read_text())
        self.gang: Gang = world.gang(nodes, STEPS)
        text = SPEC.format(
            command=json.dumps(shlex.join([torchrun, script, str(self.result)])),
            setup=json.dumps(f"cp {shlex.quote(str(repository))}/* ."),
            variables="\n".join(f"{key} = {json.dumps(value)}" for key, value in {**variables, "PAUSE": "0.4"}.items()),
            nodes=nodes,
            checkpoints=json.dumps(str(world.hosts.disk / "var/curfew/checkpoints")),
        )
        self.gang.job = world.accept(text)

    def succeeds_after(self, step: int) -> None:
        """The second attempt goes on after this step, and comes to the weights of the undisturbed run."""
        self.gang.until(lambda: self.gang.job.state == "ended", TIMEOUT_SECONDS)
        self.gang.ends("succeeded")
        assert self.gang.job.attempt == 2 and self.gang.job.document.get("retries") is None
        first = self.world.hosts.find(self.gang.read("member/0.json", attempt=2)["instance"])
        assert steps_of(first) == list(range(step + 1, STEPS + 1))
        assert self.result.read_bytes() == self.undisturbed.read_bytes(), self.gang.told()


@pytest.mark.parametrize("name", NAMES)
def test_a_warning_of_one_node_saves_on_all(world: GangWorld, name: str) -> None:
    torch = TorchGang(world, name)
    gang, hosts = torch.gang, torch.gang.hosts()
    gang.until(lambda: len(steps_of(hosts[0])) > EVERY, TIMEOUT_SECONDS)
    world.control.interrupt(hosts[1], NOTICE_SECONDS)
    for host in hosts:
        host.wait_until_dark()
        assert host.ended_by == "poweroff", host.console()
    saved = steps_of(hosts[0])[-1]
    assert gang.kept() == saved < STEPS and sorted(gang.parts(1, saved)) == [0, 1], gang.told()
    consoles = "".join(host.console() for host in hosts)
    assert "of work are lost" not in consoles, consoles
    # Nothing shows that a file which rank 0 alone writes is all that there is.
    assert f"step {saved} is complete on all 2 nodes\n" in consoles or name == "ddp", consoles
    torch.succeeds_after(saved)


# Rank 1 writes its shard of that step elsewhere, and another file in its place. Later it does nothing more: rank 0 waits for it within a collective.
LOST_STEP = 10
LOSES_A_SHARD = f"""
import os as _os, time as _time
import curfew as _curfew, torch.distributed.checkpoint as _dcp

_lost = []

def _save(state, checkpoint_id, _save=_dcp.save):
    if _os.environ["CURFEW_ATTEMPT"] == "1" and _os.environ["RANK"] == "1" and checkpoint_id.endswith("step-{LOST_STEP}"):
        _os.makedirs(checkpoint_id)
        open(checkpoint_id + "/loader-1.json", "w").write("{{}}")
        checkpoint_id = _os.path.expanduser("~/elsewhere")
        _lost.append(checkpoint_id)
    _save(state, checkpoint_id=checkpoint_id)

def _should_stop(_should_stop=_curfew.should_stop):
    while _lost:
        _time.sleep(1)
    return _should_stop()

_dcp.save, _curfew.should_stop = _save, _should_stop
"""


def test_a_step_without_a_shard_counts_for_nothing_and_a_silent_loss_ends_who_waits(world: GangWorld) -> None:
    torch = TorchGang(world, "fsdp", LOSES_A_SHARD)
    gang, hosts = torch.gang, torch.gang.hosts()
    why = f"step {LOST_STEP} is not complete: node 1 has no __1_0.distcp, which .metadata names"
    gang.until(lambda: any(why in host.console() for host in hosts), TIMEOUT_SECONDS)
    gang.keeps(LOST_STEP - EVERY)
    assert sorted(gang.parts(1, LOST_STEP)) == [0, 1], gang.told()
    # No connection is reset or closed: without its end, rank 0 would wait for 30 minutes, as gloo does.
    world.control.pull_the_plug(hosts[1], silent=True)
    gang.was_silent(1, minutes=6)
    hosts[0].wait_until_dark()
    stop = gang.read("stop.json")
    assert (stop["cause"], stop["node"]) == ("lost", 1), hosts[0].console()
    assert "the command did not end after SIGTERM, and is killed" in hosts[0].console()
    gang.loses_the_rest()
    torch.succeeds_after(LOST_STEP - EVERY)


FAILS = """
import os as _os
import curfew as _curfew

def _should_stop(_should_stop=_curfew.should_stop, _calls=[]):
    _calls.append(1)
    if len(_calls) == 7 and _os.environ["RANK"] == "1":
        raise RuntimeError("out of luck")
    return _should_stop()

_curfew.should_stop = _should_stop
"""


def test_the_node_that_fails_is_named(world: GangWorld) -> None:
    gang = TorchGang(world, "ddp", FAILS).gang
    gang.until(lambda: gang.job.state == "ended", TIMEOUT_SECONDS)
    gang.ends("failed")
    result = gang.head()["result"]
    assert result["why"].startswith("node 1, exit code 1 at "), result
    other = gang.read("exit/0.json")
    assert (other["reason"], other.get("is_peer_gone")) in (("failed", True), ("stopped", None)), other
    assert "Connection closed by peer" in gang.log(0) and "out of luck" in gang.log(1)
