"""A job without GPUs: on a Spot machine of its size, seen by the reaper, and on its team's budget."""

from __future__ import annotations

from pathlib import Path

import pytest

import moved_clock
from command import curfew
from end_to_end_jobs import World
from jobs import JobAccount
from local_aws import LocalAws
from reaping import Account, ago, rfc3339
from test_cli_run import exit_codes

pytestmark = pytest.mark.skipif(not moved_clock.IS_HERE, reason="machines are processes of Linux")

TEXT = """
command = "python3 prepare.py"
owner = "ada@example.com"
[gpu]
count = 0
[machine]
vcpus = 4
memory_gib = 8
[limits]
max_runtime = "8h"
"""


def test_it_runs_to_its_exit_code_and_its_team_pays(aws: LocalAws, tmp_path: Path) -> None:
    with World(aws, tmp_path) as world:
        run = ["run", "--cpu", "4", "--memory-gib", "8", "--team", "vision", "--owner", "ada@example.com", "--max-runtime", "1h"]
        said = curfew(world.account.environment(), *run, "--", "echo is prepared; exit 3")
        assert said.code == 3 and "is prepared\n" in said.out, said
        assert "c7i.xlarge" in said.out and "GPU metrics" not in said.out, "the cheapest, and nobody asks for NVML"
        assert exit_codes(world) == [3]
        world.control.wake("enforce-budgets")

        def runs() -> list[dict[str, object]]:
            keys = [key for key in world.account.keys("ledger/") if key.endswith("/us-east-1.json")]
            every = [one for key in keys for one in world.account.read(key)["runs"]]
            return [one for one in every if one.get("type") == "c7i.xlarge"]

        world.until(runs, lambda: str(world.account.keys("ledger/")))
        assert {one["team"] for one in runs()} == {"vision"}, runs()


def test_it_is_launched_with_all_that_ends_a_machine(jobs: JobAccount) -> None:
    job = jobs.running(text=TEXT)
    instance = jobs.aws.instance(job.machine)
    assert (instance["InstanceType"], instance["InstanceLifecycle"]) == ("c7i.xlarge", "spot")
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags["curfew:job"] == job.id and "curfew:expires-at" in tags and tags["Team"] == "vision"
    assert "curfew-end" in jobs.user_data(job.machine)
    assert jobs.reserved()[job.id]["usd"] == pytest.approx(0.1785 * 8)
    [image] = jobs.aws.client("ec2").describe_images(ImageIds=[instance["ImageId"]])["Images"]
    assert image["Name"].startswith("al2023-ami-")


def test_a_missing_size_is_refused_and_nothing_is_launched(jobs: JobAccount) -> None:
    key = jobs.submit(text=TEXT.replace("vcpus = 4\nmemory_gib = 8\n", ""))
    jobs.tick()
    [mistake] = jobs.answer(key)["mistakes"]
    assert mistake["key"] == "gpu.count" and "write `vcpus = 8` and `memory_gib = 32` under [machine]" in mistake["problem"]
    assert jobs.machines() == []


def test_the_reaper_sees_it_by_its_tag_and_no_other_cpu_machine(account: Account) -> None:
    tags = {"Team": "vision", "Owner": "ada", "curfew:expires-at": rfc3339(ago(minutes=20))}
    of_job = account.aws.run_instance("m7i.xlarge", {**tags, "curfew:job": "vision/prepare-1a2b3c4d"}, launch_time=ago(hours=2))
    other = account.aws.run_instance("m7i.xlarge", tags, launch_time=ago(hours=2))
    forged = account.aws.run_instance("m7i.xlarge", {"curfew:job": "vision/prepare-1a2b3c4d"}, launch_time=ago(hours=400))
    account.configure(mode="enforce", untagged={"mode": "enforce"})
    steps = account.tick().steps
    assert {step["action"] for step in steps if step["resource"] == forged} <= {"notify"}, "the tag alone ends nothing"
    assert [step["evidence"]["rule"] for step in steps if step["resource"] == of_job] == ["expired"], steps
    assert all(step["resource"] != other for step in steps)
