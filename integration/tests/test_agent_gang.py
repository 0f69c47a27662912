"""The real agents of a job of two nodes, each on a machine of its own: they join, run, keep each step together, and end together."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import pytest

from attempts import AGENT, BUCKET, NAME, Job, Machine
from local_aws.client import MACHINE_KEY

LAUNCHES = {1: "0123456789abcdef", 2: "123456789abcdef0"}
# What the ranks say to each other lies in a directory that both see, in place of a network.
SCRIPT = '''
import json, os, signal, sys, time
from pathlib import Path

steps, shared, fails = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
rank, nodes, attempt = int(os.environ["NODE_RANK"]), int(os.environ["NNODES"]), os.environ["CURFEW_ATTEMPT"]
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
directory, step = Path(os.environ["CURFEW_CHECKPOINT_DIR"]), 0
if resumed := os.environ.get("CURFEW_RESUME_FROM"):
    parts = [json.loads((Path(resumed) / f"rank-{each}.json").read_text()) for each in range(nodes)]
    assert len({part["step"] for part in parts}) == 1, parts
    step = parts[0]["step"]
    print("resumed from", step, flush=True)
print("address", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], os.environ["PET_NNODES"], flush=True)

def any_is_told():
    """An all-reduce of the flag."""
    said = [shared / f"{attempt}-{step}-{each}" for each in range(nodes)]
    said[rank].with_suffix(".tmp").write_text("stop" if told else "go")
    said[rank].with_suffix(".tmp").rename(said[rank])
    while not all(one.exists() for one in said):
        time.sleep(0.01)
    return any(one.read_text() == "stop" for one in said)

while step < steps:
    while (shared / f"hold-{step}").exists():
        time.sleep(0.01)
    stops = any_is_told()
    if fails and int(fails[0]) == rank and step >= int(fails[1]):
        sys.exit(7)
    if not stops:
        step += 1
        time.sleep(0.05)
    if stops or step % 5 == 0:
        temporary, final = directory / f"tmp-step-{step}", directory / f"step-{step}"
        if not final.exists():
            temporary.mkdir()
            (temporary / f"rank-{rank}.json").write_text(json.dumps({"step": step, "padding": str(rank) * 1000}))
            (temporary / "_SUCCESS").touch()
            temporary.rename(final)
            print("saved", step, flush=True)
    if stops:
        sys.exit(143)
'''


class Node(Machine):
    """One of the machines of a launch. Each has its own disk below the same path."""

    def __init__(self, job: Job, attempt: int, node: int, nodes: int, **given: Any) -> None:
        super().__init__(job, attempt, launch=LAUNCHES[attempt], **given)
        self.node, self.nodes = node, nodes
        self.metadata.says |= {
            "/latest/meta-data/ami-launch-index": str(node),
            "/latest/meta-data/instance-id": f"i-{attempt}{node}",
            "/latest/meta-data/local-ipv4": f"10.0.{attempt}.{10 + node}",
        }

    def __enter__(self) -> Node:
        ends_at = self.ends_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        identity = {"schema": 1, **self.buckets, "job": NAME, "attempt": self.attempt, "nodes": self.nodes}
        identity |= {"launch": self.launch, "ends_at": ends_at, "agent_sha256": "0" * 64}
        (self.folder / "identity.json").write_text(json.dumps(identity))
        self.metadata.__enter__()
        environment = {
            **os.environ,
            **self.job.aws.environment(),
            "AWS_ACCESS_KEY_ID": MACHINE_KEY,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata.endpoint,
            "AWS_EC2_METADATA_DISABLED": "false",
        }
        disk = self.folder / "disk"
        disk.mkdir(exist_ok=True)
        self.job.checkpoints.mkdir(exist_ok=True)
        words = [AGENT, "--identity", self.folder / "identity.json", "--hurry", self.hurry]
        words += ["--shutdown-command", f"touch {shlex.quote(str(self.dark))}"]
        mount = f"mount --bind {shlex.quote(str(disk))} {shlex.quote(str(self.job.checkpoints))}"
        run = f"{mount} && exec {shlex.join(map(str, words))}"
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(["unshare", "--mount", "sh", "-c", run], env=environment, stdout=output, stderr=subprocess.STDOUT)
        return self


@pytest.fixture
def gang(job: Job) -> Job:
    if os.geteuid() != 0:
        pytest.skip("only root may give each machine a disk of its own")
    (job.scratch / "train.py").write_text(SCRIPT)
    (job.scratch / "shared").mkdir()
    return job


def trains(job: Job, steps: int, *fails: int, more: str = "") -> None:
    words = [sys.executable, job.scratch / "train.py", steps, job.scratch / "shared", *fails]
    job.spec(shlex.join(map(str, words)), more=more)


def launch(job: Job, attempt: int, started: ExitStack, nodes: int = 2, **given: Any) -> list[Node]:
    return [started.enter_context(Node(job, attempt, node, nodes, **given)) for node in range(nodes)]


def end(job: Job, nodes: list[Node]) -> str:
    said = "\n".join(node.ends() for node in nodes)
    keys = [key.removeprefix(f"attempts/{NAME}/") for key in job.keys(f"attempts/{NAME}/")]
    assert not [key for key in keys if key.endswith(("/exit.json", "/heartbeat.json", "/log")) and "/nodes/" not in key], keys
    return said


def document(job: Job, attempt: int, name: str) -> dict[str, Any] | None:
    return job.document(f"{attempt}/{LAUNCHES[attempt]}/{name}")


def parts(job: Job, attempt: int, step: int) -> list[int]:
    prefix = f"checkpoints/{NAME}/{attempt}/{step}/"
    return sorted(int(key.removeprefix(prefix).partition("/")[0]) for key in job.keys(prefix) if key.endswith("/manifest.json"))


def goes_on_after_step_20(gang: Job) -> int:
    """Runs an attempt to its end, and takes the result away. Returns the step that is kept before its last one."""
    trains(gang, 20)
    hold = gang.scratch / "shared" / "hold-15"
    hold.touch()
    with ExitStack() as started:
        nodes = launch(gang, 1, started)
        nodes[0].until(lambda: (gang.kept() or 0) >= 10)
        hold.unlink()
        end(gang, nodes)
    head = gang.head()
    gang.put(f"attempts/{NAME}/head.json", json.dumps({**head, "result": None}))
    before: int = head["kept"][0]["step"]
    return before


def test_two_nodes_join_run_and_succeed(gang: Job) -> None:
    trains(gang, 20, more='[machine]\nuser = "root"\noutputs = ["/etc/hostname"]')
    with ExitStack() as started:
        nodes = launch(gang, 1, started)
        said = end(gang, nodes)
    head = gang.head()
    assert (head["attempt"], head["launch"]) == (1, LAUNCHES[1]), said
    assert head["result"]["succeeded"] and "all 2 nodes" in head["result"]["why"], said
    assert head["checkpoint"] == {"attempt": 1, "step": 20}, said
    assert parts(gang, 1, 20) == [0, 1]
    round_of_all = document(gang, 1, "round/0.json")
    assert round_of_all and round_of_all["addresses"] == ["10.0.1.10", "10.0.1.11"], said
    assert [document(gang, 1, f"exit/{node}.json")["reason"] for node in (0, 1)] == ["succeeded", "succeeded"]
    log = (gang.get(f"attempts/{NAME}/1/nodes/1/log") or b"").decode()
    assert "address 10.0.1.10 29500 2\n" in log and "saved 20\n" in log
    outputs = gang.keys(f"outputs/{NAME}/1/")
    assert f"outputs/{NAME}/1/etc/hostname" in outputs and f"outputs/{NAME}/1/nodes/1/etc/hostname" in outputs, outputs


def test_the_node_that_fails_is_named(gang: Job) -> None:
    trains(gang, 1000, 1, 12)
    begun = time.monotonic()
    with ExitStack() as started:
        said = end(gang, launch(gang, 1, started))
    result = gang.head()["result"]
    assert (result["succeeded"], result["code"]) == (False, 7), said
    assert result["why"].startswith("node 1, exit code 7 at ") and "(node 0 was ended by Curfew)" in result["why"], result
    assert gang.head()["checkpoint"]["step"] == 10, said
    assert time.monotonic() - begun < 40


def test_a_warning_of_one_node_saves_on_all_and_the_next_attempt_restores_the_union(gang: Job) -> None:
    trains(gang, 60)
    with ExitStack() as started:
        nodes = launch(gang, 1, started)
        nodes[1].until(lambda: (gang.kept() or 0) >= 10)
        nodes[1].metadata.warn(60)
        said = end(gang, nodes)
    assert said.count("node 1 (i-11) is taken back by AWS at") >= 2, said
    head = gang.head()
    step = head["checkpoint"]["step"]
    assert head.get("result") is None and step < 60, said
    assert parts(gang, 1, step) == [0, 1]
    saved = {line.split()[1] for line in said.splitlines() if line.startswith("saved ")}
    assert str(step) == max(saved, key=int), "what was saved after the signal counts"
    assert [document(gang, 1, f"exit/{node}.json")["reason"] for node in (0, 1)] == ["interrupted", "interrupted"]
    with ExitStack() as started:
        said = end(gang, launch(gang, 2, started))
    assert said.count(f"resumed from {step}\n") == 2, said
    assert gang.head()["result"]["succeeded"] and gang.head()["checkpoint"] == {"attempt": 2, "step": 60}, said


def test_a_failed_setup_is_the_result_and_a_number_too_high_is_no_node(gang: Job) -> None:
    trains(gang, 10, more='setup = "if [ $NODE_RANK = 1 ]; then exit 4; fi"')
    with ExitStack() as started:
        said = end(gang, launch(gang, 1, started))
    result = gang.head()["result"]
    assert (result["succeeded"], result["code"]) == (False, 4) and "`setup` has failed" in result["why"], said
    with Node(gang, 2, 5, 2) as stray:
        assert "`5` is no number of 2 nodes" in stray.ends()




# A training of which node 0 alone writes, as with torch.save under DDP. It goes on until the test says so.
ALONE = '''
import os, signal, sys, time
from pathlib import Path

rank, go_on = int(os.environ["NODE_RANK"]), Path(sys.argv[1])
stops = []
signal.signal(signal.SIGTERM, lambda *_: stops.append(True))
directory, step = Path(os.environ["CURFEW_CHECKPOINT_DIR"]), 0
if resumed := os.environ.get("CURFEW_RESUME_FROM"):
    step = int((Path(resumed) / "model.pt").read_text())
    print("resumed from", step, flush=True)

def save():
    if rank == 0:
        final = directory / f"step-{step}"
        final.mkdir()
        (final / "model.pt").write_text(str(step))
        (final / "_SUCCESS").touch()

step += 10
save()
while not stops and not go_on.exists():
    time.sleep(0.05)
step += 1
save()
sys.exit(143 if stops else 0)
'''


def writes_alone(job: Job) -> None:
    (job.scratch / "alone.py").write_text(ALONE)
    job.spec(shlex.join([sys.executable, str(job.scratch / "alone.py"), str(job.scratch / "go-on")]))


def test_the_steps_of_a_node_that_writes_alone_count(gang: Job) -> None:
    writes_alone(gang)
    with ExitStack() as started:
        nodes = launch(gang, 1, started)
        nodes[0].until(lambda: gang.kept() == 10)
        assert parts(gang, 1, 10) == [0, 1]
        # A step of node 0 shows that node 1 works as well.
        nodes[1].until(lambda: (document(gang, 1, "beat/1.json") or {}).get("work", {}).get("step_seconds") is not None)
        nodes[0].metadata.warn(60)
        said = end(gang, nodes)
    assert "of work are lost" not in said, "what node 1 does not write, it does not lose"
    beats = [document(gang, 1, f"beat/{node}.json") for node in (0, 1)]
    assert [beat.get("unsaved_seconds") is not None for beat in beats if beat] == [True, False], beats
    assert gang.head()["checkpoint"]["step"] == 11 and parts(gang, 1, 11) == [0, 1], said
    (gang.scratch / "go-on").touch()
    with ExitStack() as started:
        said = end(gang, launch(gang, 2, started))
    assert said.count("resumed from 11\n") == 2 and gang.head()["checkpoint"] == {"attempt": 2, "step": 22}, said
    assert gang.head()["result"]["succeeded"], said


def test_a_lost_node_ends_the_others_without_a_result(gang: Job) -> None:
    writes_alone(gang)
    with ExitStack() as started:
        nodes = launch(gang, 1, started)
        nodes[0].until(lambda: gang.kept() == 10)
        nodes[1].pull_the_plug()
        said = nodes[0].ends()
    assert "node 1 has sent nothing for 5m: the other nodes end" in said
    assert document(gang, 1, "stop.json")["cause"] == "lost"
    assert document(gang, 1, "exit/0.json")["reason"] == "interrupted" and gang.head().get("result") is None, said
    assert "the exits of the nodes make no result" in said


def test_a_restarted_agent_does_not_run_the_command_again(gang: Job) -> None:
    writes_alone(gang)
    with ExitStack() as started:
        nodes = launch(gang, 1, started)
        nodes[0].until(lambda: gang.kept() == 10)
        nodes[1].pull_the_plug()
        again = started.enter_context(Node(gang, 1, 1, 2, again=nodes[1]))
        said = end(gang, [nodes[0], again])
    assert "the agent was restarted while the command ran" in said
    assert [document(gang, 1, f"exit/{node}.json")["reason"] for node in (0, 1)] == ["stopped", "broken"], said
    assert gang.head().get("result") is None, said


def test_a_damaged_part_makes_all_restore_the_step_before(gang: Job) -> None:
    before = goes_on_after_step_20(gang)
    gang.put(f"checkpoints/{NAME}/1/20/1/files/step-20/rank-1.json", "x" * 1000)
    trains(gang, 25)
    with ExitStack() as started:
        said = end(gang, launch(gang, 2, started))
    assert said.count(f"resumed from {before}\n") == 2 and "round 1 begins: all nodes restore again" in said, said
    assert gang.head()["result"]["succeeded"] and gang.head()["checkpoint"] == {"attempt": 2, "step": 25}, said


def test_a_command_that_ignores_its_signal_is_killed(gang: Job) -> None:
    gang.spec("trap '' TERM; if [ $NODE_RANK = 0 ]; then sleep 1; exit 3; fi; while true; do sleep 0.1; done", checkpoint=False)
    with ExitStack() as started:
        said = end(gang, launch(gang, 1, started))
    assert "the command did not end after SIGTERM, and is killed" in said
    assert gang.head()["result"]["why"].startswith("node 0, exit code 3 at "), said


def test_a_command_that_fails_soon_after_a_resume_begins_at_the_step_before(gang: Job) -> None:
    before = goes_on_after_step_20(gang)
    words = shlex.join(map(str, [sys.executable, gang.scratch / "train.py", 25, gang.scratch / "shared"]))
    gang.spec(f'if [ "$CURFEW_RESUME_STEP" = 20 ] && [ $NODE_RANK = 1 ]; then exit 5; fi; {words}')
    with ExitStack() as started:
        said = end(gang, launch(gang, 2, started))
    assert said.count(f"resumed from {before}\n") == 2 and "round 1 begins: all nodes restore again" in said, said
    assert said.count("address 10.0.2.10 29501 2") == 2, said
    assert gang.head()["result"]["succeeded"] and gang.head()["checkpoint"] == {"attempt": 2, "step": 25}, said


def test_all_nodes_save_when_the_time_of_the_attempt_is_over(gang: Job) -> None:
    writes_alone(gang)
    with ExitStack() as started:
        nodes = [started.enter_context(Node(gang, 1, node, 2, ends_in=22)) for node in (0, 1)]
        said = end(gang, nodes)
    assert [document(gang, 1, f"exit/{node}.json")["reason"] for node in (0, 1)] == ["expired", "expired"], said
    assert gang.head().get("result") is None and gang.kept() == 11, said


def test_a_gang_ends_as_a_whole_once_another_stack_has_taken_over(gang: Job) -> None:
    """Its nodes do not move to the copy of the bucket: the other stack replaces all of them, from what was copied."""
    copy = {"bucket": "curfew-copy", "region": "eu-central-1"}
    s3 = gang.aws.client("s3", copy["region"])
    s3.create_bucket(Bucket=copy["bucket"], CreateBucketConfiguration={"LocationConstraint": copy["region"]})
    trains(gang, 100_000)
    with ExitStack() as started:
        nodes = launch(gang, 1, started, replica=copy)
        nodes[0].until(gang.kept)
        record = {"schema": 1, "term": 2, **copy, "since": "2026-09-01T12:00:00Z", "before": {"bucket": BUCKET, "region": "us-east-1"}}
        s3.put_object(Bucket=copy["bucket"], Key="home.json", Body=json.dumps(record))
        for node in nodes:
            assert "and replaces this gang as a whole" in node.ends()
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=copy["bucket"])["Contents"]] == ["home.json"]
