"""Jobs on several machines, as EC2 and the control plane see them: all machines or none, and all end together. No agent runs here."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from gangs import gang_spec, grant_vcpus
from jobs import SPEC, Job, JobAccount
from reaping import ago, binary, now, rfc3339, scheduled
from runtime_api import Function

pytestmark = pytest.mark.usefixtures("unlisted")

NODES = 4
CALLS_MAX = 8  # from a warning to the accepted launch


@pytest.fixture(autouse=True)
def granted(jobs: JobAccount) -> None:
    grant_vcpus(jobs.aws)


def asked(jobs: JobAccount, since: int = 0) -> list[tuple[list[int], int]]:
    """MinCount and MaxCount of each launch, and the status of its answer."""
    return [(call["instances_asked"], call["status"]) for call in jobs.aws.calls("ec2:RunInstances")[since:]]


def indexes(jobs: JobAccount, instances: list[str]) -> list[int]:
    return [jobs.aws.instance(one)["AmiLaunchIndex"] for one in instances]


def states(jobs: JobAccount, instances: list[str]) -> list[str]:
    return [jobs.state(one) for one in instances]


def running(jobs: JobAccount, nodes: int = NODES, **spec: Any) -> Job:
    return jobs.running("gang", gang_spec(nodes, **spec))


def test_a_zone_with_three_machines_gets_no_launch_of_four(jobs: JobAccount) -> None:
    jobs.aws.set_spot_price("g5.xlarge", {"us-east-1b": 0.30, "us-east-1c": 0.31, "us-east-1a": 0.41}, since=ago(minutes=5))
    jobs.aws.set_capacity(NODES - 1, zone="us-east-1b")
    jobs.aws.set_capacity(NODES, zone="us-east-1c")
    jobs.submit("gang", gang_spec(NODES))
    jobs.tick()
    job = jobs.job("gang")
    assert job.state == "running" and job.phase["zone"] == "us-east-1c"
    assert asked(jobs) == [([NODES, NODES], 500), ([NODES, NODES], 200)]
    assert sorted(jobs.ever_launched()) == sorted(job.machines), "no machine of the first launch"
    assert indexes(jobs, job.machines) == list(range(NODES)), "a node's number is its launch index"
    assert all(jobs.aws.tags(one)["curfew:job"] == job.id for one in job.machines)
    assert all("IamInstanceProfile" in jobs.aws.instance(one) for one in job.machines)
    assert len({jobs.user_data(one) for one in job.machines}) == 1


def test_a_lost_answer_launches_no_second_gang(jobs: JobAccount) -> None:
    jobs.aws.fault("ec2:RunInstances", "lost_answer", every_attempt=True)
    jobs.submit("gang", gang_spec(NODES))
    jobs.tick()
    jobs.aws.clear_faults()
    jobs.tick()
    job = jobs.job("gang")
    assert job.state == "running" and sorted(jobs.ever_launched()) == sorted(job.machines)
    assert indexes(jobs, job.machines) == list(range(NODES))


def test_a_quota_that_has_room_for_two_of_four_holds_all(jobs: JobAccount) -> None:
    for code in ("L-DB2E81BA", "L-3819A6DF"):
        jobs.aws.set_quota(code, 96, enforced=True)
    jobs.submit("gang", gang_spec(NODES, types="g6.12xlarge"))
    jobs.tick()
    job = jobs.job("gang")
    assert (job.state, job.phase["by"], jobs.ever_launched()) == ("held", "quota", []), job.phase
    assert "L-3819A6DF" in job.phase["why"] and "96" in job.phase["why"], job.phase["why"]


def test_a_quota_is_compared_before_a_launch(jobs: JobAccount) -> None:
    jobs.aws.set_quota("L-3819A6DF", 96, enforced=True)
    jobs.submit("gang", gang_spec(NODES, types="g6.12xlarge"))
    jobs.tick()
    job = jobs.job("gang")
    assert (job.state, job.phase["by"], asked(jobs)) == ("held", "quota", []), job.phase
    assert "4 × 48 = 192 vCPUs" in job.phase["why"], job.phase["why"]


def test_a_member_that_ends_while_it_starts_ends_the_launch(jobs: JobAccount) -> None:
    """EC2 accepts a launch before each volume is there; the reason is in the instance's state ("StateReason", EC2 API Reference)."""
    job = running(jobs)
    first = job.machines
    jobs.aws.set_instance(first[2], state="terminated", state_reason="Client.VolumeLimitExceeded")
    run = jobs.tick()
    assert states(jobs, first) == ["terminated"] * NODES, "all of them in the same run"
    assert (job.state, job.phase.get("by")) == ("held", "quota"), job.phase
    assert job.document["progress"]["attempts_without"] == 0 and "VolumeLimitExceeded" in run.message()


def test_a_person_who_stops_one_machine_cancels_the_job(jobs: JobAccount) -> None:
    job = running(jobs)
    alone = jobs.running("alone")
    beats(jobs, job), alone.beats()
    jobs.aws.client("ec2").terminate_instances(InstanceIds=[job.machines[2]])
    machines = job.machines
    run = jobs.tick()
    assert (job.state, job.phase["result"]) == ("ended", "cancelled"), job.phase
    assert states(jobs, machines) == ["terminated"] * NODES and jobs.state(alone.machine) == "running"
    assert machines[2] in run.message() and "node 2" in run.message(), run.message()


def test_one_protected_machine_holds_all(jobs: JobAccount) -> None:
    job = running(jobs)
    beats(jobs, job)
    jobs.tag(job.machines[1], protected="until the demo is over")
    job.cancel()
    jobs.tick()
    assert states(jobs, job.machines) == ["running"] * NODES
    jobs.aws.client("ec2").delete_tags(Resources=[job.machines[1]], Tags=[{"Key": "curfew:protected"}])
    machines = job.machines
    jobs.tick()
    assert states(jobs, machines) == ["terminated"] * NODES


def test_one_machine_that_ec2_does_not_let_go_keeps_no_other(jobs: JobAccount) -> None:
    """TerminateInstances with one bad id ends none of them ("TerminateInstances", EC2 API Reference)."""
    job = running(jobs)
    beats(jobs, job)
    machines, ec2 = job.machines, jobs.aws.client("ec2")
    ec2.modify_instance_attribute(InstanceId=machines[1], DisableApiTermination={"Value": True})
    job.cancel()
    jobs.tick()
    assert states(jobs, machines) == ["terminated", "running", "terminated", "terminated"]
    assert not job.phase.get("closed"), "one of its machines still runs"
    ec2.modify_instance_attribute(InstanceId=machines[1], DisableApiTermination={"Value": False})
    jobs.tick()
    assert states(jobs, machines) == ["terminated"] * NODES


def test_a_warning_of_any_node_launches_all_anew_in_few_calls(jobs: JobAccount) -> None:
    job = running(jobs)
    beats(jobs, job)
    first = job.machines
    run = jobs.warn(first[2])
    assert (job.state, job.attempt) == ("running", 2) and not set(first) & set(job.machines)
    actions = [call["action"] for call in run.calls]
    until = actions.index("ec2:RunInstances") + 1
    print(f"{until} calls: {', '.join(actions[:until])}")
    assert until <= CALLS_MAX, actions
    assert asked(jobs) == [([NODES, NODES], 200)]
    assert sorted(jobs.machines()) == sorted([*first, *job.machines])
    # The others are warned as well, as where EC2 takes back a whole placement group.
    second = job.machines
    for instance in (first[0], first[3]):
        run = jobs.warn(instance)
        assert run.counts["ec2:RunInstances"] == 0 and not run.ec2_writes
    assert (job.attempt, job.machines) == (2, second)


def test_the_reaper_knows_all_machines(jobs: JobAccount) -> None:
    job = running(jobs)
    beats(jobs, job)
    for instance in job.machines:
        jobs.aws.set_instance(instance, launch_time=ago(hours=3).isoformat())
        jobs.idle(instance)
    with Function(binary("reap-instances"), jobs.environment()) as reaper:
        response = reaper.invoke(scheduled("reap-instances")).response
    assert [step for step in response["steps"] if step["resource"] in job.machines] == [], response
    assert states(jobs, job.machines) == ["running"] * NODES


def test_a_job_on_one_machine_beside_it_is_as_ever(jobs: JobAccount) -> None:
    """The calls are those of test_jobs_calls.py."""
    beside = jobs.running("first")
    running(jobs)
    run = jobs.told_of(jobs.submit("second"))
    alone = jobs.job("second")
    assert run.counts["s3:GetObject"] == 12 and run.counts["s3:PutObject"] == 13 and run.counts["ec2:RunInstances"] == 1
    assert {action for action in run.counts if action.startswith("ec2:")} == {
        "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSubnets", "ec2:DescribeImages", "ec2:RunInstances"
    }
    for job in (beside, alone):
        text = json.dumps(job.document)
        assert [word for word in ("nodes", "members", "network", "placement", "efa") if f'"{word}' in text] == []
        assert "nodes" not in jobs.user_data(job.machine)
    alone.beats(), beside.beats()
    jobs.written_long_ago()
    counts = Counter(call["resources"][0].partition("/")[2] for call in jobs.tick().calls if call["action"] == "s3:GetObject")
    own = {key: count for key, count in counts.items() if alone.id in key}
    names = ("state.json", "cancel.json"), ("head.json", "1/heartbeat.json", "1/exit.json")
    expected = [f"jobs/{alone.id}/{name}" for name in names[0]] + [f"attempts/{alone.id}/{name}" for name in names[1]]
    assert own == dict.fromkeys(expected, 1)


def test_a_job_of_one_node_is_a_job_without_nodes(jobs: JobAccount) -> None:
    one, other = jobs.running("one", SPEC.replace("[gpu]", "[gpu]\nnodes = 1")), jobs.running("other")
    same = [{**job.document["terms"]} for job in (one, other)]
    assert same[0] == same[1] and one.document.keys() == other.document.keys() and one.phase.keys() == other.phase.keys()
    assert asked(jobs) == [([1, 1], 200)]


def beats(jobs: JobAccount, job: Job) -> None:
    """The documents of members that run."""
    folder = f"attempts/{job.id}/{job.attempt}/{job.launch}"
    for node, instance in enumerate(job.machines):
        member = {"instance": instance, "address": jobs.aws.instance(instance)["PrivateIpAddress"], "interface": "ens5", "gpus": 1, "efa_cards": 0}
        beat = {"at": rfc3339(now()), "attempt": job.attempt, "doing": "running"}
        for name, content in ((f"member/{node}", member), (f"beat/{node}", beat)):
            jobs.put(f"{folder}/{name}.json", json.dumps({"schema": 1, **content}).encode())
    job.write("head.json", attempt=job.attempt, launch=job.launch, nodes=len(job.machines))
