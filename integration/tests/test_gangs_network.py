"""The network of a job on several machines: EFA, the placement group of each attempt, and a security group that lets them speak to each other."""

from __future__ import annotations

from typing import Any

import pytest
from gangs import gang_spec, grant_vcpus
from jobs import Job, JobAccount

EFA = "g6.12xlarge"  # one card, with EFA
NODES = 2


@pytest.fixture(autouse=True)
def granted(jobs: JobAccount) -> None:
    grant_vcpus(jobs.aws)


def running(jobs: JobAccount, types: str = EFA, network: str = "") -> Job:
    return jobs.running("gang", spec(types, network))


def spec(types: str = EFA, network: str = "") -> str:
    return gang_spec(NODES, types) + f"[network]\n{network}\n"


def placement(jobs: JobAccount, instance: str) -> str:
    return jobs.aws.instance(instance)["Placement"].get("GroupName", "")


def placement_groups(jobs: JobAccount) -> list[str]:
    return sorted(one["GroupName"] for one in jobs.aws.client("ec2").describe_placement_groups()["PlacementGroups"])


def security_groups(jobs: JobAccount) -> list[dict[str, Any]]:
    return [one for one in jobs.aws.client("ec2").describe_security_groups()["SecurityGroups"] if one["GroupName"] != "default"]


def kinds(jobs: JobAccount, instance: str) -> list[str]:
    return [one["InterfaceType"] for one in jobs.aws.instance(instance)["NetworkInterfaces"]]


def test_machines_with_efa_are_close_and_speak_to_each_other_alone(jobs: JobAccount) -> None:
    job = running(jobs)
    [placed] = placement_groups(jobs)
    assert job.id.split("/")[1] in placed and {placement(jobs, one) for one in job.machines} == {placed}
    [group] = security_groups(jobs)
    for permissions in (group["IpPermissions"], group["IpPermissionsEgress"]):
        to_itself = [one for one in permissions if [pair["GroupId"] for pair in one["UserIdGroupPairs"]] == [group["GroupId"]]]
        assert [one["IpProtocol"] for one in to_itself] == ["-1"], permissions
    assert not any(one["IpRanges"] or one["Ipv6Ranges"] for one in group["IpPermissions"]), "no port is open to others"
    for instance in job.machines:
        assert kinds(jobs, instance) == ["efa"] and "PublicIpAddress" in jobs.aws.instance(instance)
        assert group["GroupId"] in [one["GroupId"] for one in jobs.aws.instance(instance)["SecurityGroups"]]


def test_each_attempt_has_a_placement_group_and_none_is_left(jobs: JobAccount) -> None:
    job = running(jobs)
    first, [placed] = job.machines, placement_groups(jobs)
    jobs.aws.hold_ends()
    jobs.warn(first[0])
    assert job.attempt == 2 and placement(jobs, job.machine) not in ("", placed) and len(placement_groups(jobs)) == 2
    second = job.machines
    job.cancel()
    jobs.tick()
    for instance in (*first, *second):
        jobs.aws.client("ec2").terminate_instances(InstanceIds=[instance])
        jobs.tick()
        assert not job.phase.get("closed"), "its groups cannot be deleted yet"
        jobs.aws.gone(instance)
    jobs.tick()
    jobs.tick()
    assert job.phase["closed"] and placement_groups(jobs) == [] and security_groups(jobs) == []


def test_efa_that_a_public_subnet_does_not_give_is_refused(jobs: JobAccount) -> None:
    why = "gives public addresses only to machines with one interface"
    jobs.submit("gang", spec("p5.48xlarge", 'efa = "required"'))
    jobs.tick()
    job = jobs.job("gang")
    assert jobs.ever_launched() == [] and "would get 1 of its 32 cards with EFA" in str(job.phase) and why in str(job.phase), job.phase
    assert placement_groups(jobs) == [] and security_groups(jobs) == []
    other = jobs.running("other", spec("p5.48xlarge", 'efa = "auto"'))
    assert [kinds(jobs, one) for one in other.machines] == [["efa"]] * NODES


def test_without_efa_no_capacity_is_given_up_for_closeness(jobs: JobAccount) -> None:
    job = running(jobs, network='efa = "off"')
    assert placement_groups(jobs) == [] and [kinds(jobs, one) for one in job.machines] == [["interface"]] * NODES
    assert len(security_groups(jobs)) == 1, "its nodes speak to each other all the same"
    other = jobs.running("other", spec("g5.xlarge", 'placement = "cluster"'))
    assert placement(jobs, other.machine) != ""


def test_groups_that_are_there_already_are_taken(jobs: JobAccount) -> None:
    """The answer was lost, or the run after it."""
    for action in ("ec2:CreatePlacementGroup", "ec2:CreateSecurityGroup"):
        jobs.aws.fault(action, "lost_answer")
    jobs.submit("gang", spec())
    for _ in range(3):
        jobs.tick()
    job = jobs.job("gang")
    assert job.state == "running" and len(security_groups(jobs)) == 1
    # That of the next attempt is made ahead.
    assert len(placement_groups(jobs)) == 2
