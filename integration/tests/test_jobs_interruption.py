"""AWS takes a machine back: the job is launched again at once, and never twice."""

from __future__ import annotations

from jobs import JobAccount
from local_aws.client import REGION
from reaping import EUROPE

CALLS_MAX = 6


def test_a_warning_launches_the_next_attempt_in_six_calls(jobs: JobAccount) -> None:
    job = jobs.running()
    job.beats()
    first = job.machine
    run = jobs.warn(first)
    assert job.state == "running" and job.attempt == 2 and job.machine != first
    assert jobs.machines() == [first, job.machine]
    actions = [call["action"] for call in run.calls]
    until = actions.index("ec2:RunInstances") + 1
    began, accepted = run.calls[0]["at"], run.calls[until - 1]["at"]
    print(f"from the invocation to the launch request: {until} calls: {', '.join(actions[:until])}; {run.invocation.seconds:.3f} s for all of it; first call {began}, launch {accepted}")
    assert until <= CALLS_MAX, actions
    assert run.calls[until - 1]["status"] == 200
    assert sorted(actions[:until]) == [
        "ec2:DescribeInstances", "ec2:RunInstances", "s3:GetObject", "s3:GetObject", "s3:PutObject", "sns:ListSubscriptionsByTopic"
    ]
    assert [(step["action"], step["resource"]) for step in run.steps] == [("notify", first), ("launch", job.machine)]
    assert job.document["predecessor"]["instance"] == first
    assert jobs.aws.tags(job.machine)["curfew:attempt"] == "2"
    assert first in run.messages[0]["message"] or job.machine in run.messages[0]["message"]


def test_the_next_attempt_is_of_another_pool_first(jobs: JobAccount) -> None:
    job = jobs.running()
    zone = jobs.aws.instance(job.machine)["Placement"]["AvailabilityZone"]
    jobs.warn(job.machine)
    assert jobs.aws.instance(job.machine)["Placement"]["AvailabilityZone"] != zone


def test_the_same_warning_again_changes_nothing(jobs: JobAccount) -> None:
    job = jobs.running()
    first = job.machine
    jobs.warn(first)
    second = job.machine
    run = jobs.warn(first)
    assert run.steps == [] and not run.ec2_writes and job.machine == second and job.attempt == 2
    assert jobs.machines() == [first, second]


def test_a_warning_for_the_second_makes_a_third(jobs: JobAccount) -> None:
    job = jobs.running()
    first = job.machine
    jobs.warn(first)
    second = job.machine
    job.checkpoint(5)
    jobs.warn(second)
    assert job.attempt == 3 and jobs.machines() == [first, second, job.machine]


def test_a_reclaim_without_a_warning_is_found_by_the_sweep(jobs: JobAccount) -> None:
    job = jobs.running()
    first = job.machine
    jobs.aws.interrupt(first)
    jobs.tick()
    assert job.attempt == 2 and jobs.machines() == [job.machine] and job.machine != first


def test_a_warning_after_the_result_launches_one_machine_in_vain(jobs: JobAccount) -> None:
    """Nobody reads `head.json` between the warning and the launch: that call would be the seventh."""
    job = jobs.running()
    job.beats()
    first = job.machine
    job.ends(shuts_down=False)
    run = jobs.warn(first)
    assert job.attempt == 2 and not any("head.json" in str(call["resources"]) for call in run.calls)
    jobs.tick()
    assert (job.state, job.phase["result"]) == ("ended", "succeeded") and len(jobs.ever_launched()) == 2
    for machine in (first, job.phase["machine"]["instance"]):
        jobs.aws.shut_down(machine)
    jobs.tick()
    assert job.phase["closed"] and jobs.machines() == [] and len(jobs.ever_launched()) == 2


def test_state_changes_and_rebalances_only_say_look_now(jobs: JobAccount) -> None:
    job = jobs.running()
    job.beats()
    for event in ("ec2-instance-state-change", "ec2-rebalance-recommendation"):
        run = jobs.tick(jobs.event_of(event, job.machine))
        assert run.steps == [] and not run.ec2_writes and run.response["seen"] == 1
    jobs.aws.interrupt(job.machine)
    jobs.tick(jobs.event_of("ec2-instance-state-change", job.machine))
    assert job.attempt == 2


def test_a_machine_that_a_person_ended_is_not_launched_again(jobs: JobAccount) -> None:
    job = jobs.running()
    jobs.aws.client("ec2").terminate_instances(InstanceIds=[job.machine])
    run = jobs.tick(jobs.event_of("ec2-instance-state-change", job.machine))
    assert (job.state, job.phase["result"]) == ("ended", "cancelled") and "by a person" in job.phase["why"]
    assert len(jobs.ever_launched()) == 1 and "by a person" in run.messages[0]["message"]


def test_a_machine_that_a_person_stopped_is_left_as_it_is(jobs: JobAccount) -> None:
    job = jobs.running()
    machine = job.machine
    jobs.aws.set_instance(machine, state="stopped", state_reason="Client.UserInitiatedShutdown")
    jobs.tick()
    assert job.phase["result"] == "cancelled" and jobs.state(machine) == "stopped"


def test_foreign_instances_do_nothing(jobs: JobAccount) -> None:
    job = jobs.running()
    others = [
        jobs.gpu(),
        jobs.gpu(tags={"curfew:job": job.id, "curfew:attempt": "1"}),  # says so, and the job does not know it
        jobs.gpu(tags={"curfew:job": "vision/none-0123abcd"}),
        jobs.gpu(tags={"curfew:job": "nonsense"}),
    ]
    before = job.document
    for other in others:
        run = jobs.warn(other)
        assert run.steps == [] and not run.ec2_writes and run.messages == [] or "vision/none" in str(run.gaps)
    for unknown, region in (("i-0123456789abcdef0", REGION), ("i-0123456789abcdef0", EUROPE)):
        run = jobs.tick(jobs.event_of("ec2-spot-interruption-warning", unknown, region))
        assert run.steps == [] and run.gaps == [] and not run.ec2_writes
    assert job.document == before


def test_where_ec2_does_not_say_whose_it_is_its_job_is_found_by_the_index(jobs: JobAccount) -> None:
    job = jobs.running()
    first = job.machine
    jobs.aws.fault("ec2:DescribeInstances", "access_denied")
    run = jobs.warn(first)
    assert job.attempt == 2 and [gap["call"] for gap in run.gaps] == ["ec2:DescribeInstances"]


def test_a_job_whose_checkpoints_are_all_of_one_step_goes_on_as_long_as_each_attempt_keeps_one(jobs: JobAccount) -> None:
    job = jobs.running()
    for attempt in range(1, 5):
        job.beats()
        job.checkpoint(1)
        jobs.aws.interrupt(job.machine)
        jobs.tick()
        assert (job.state, job.attempt) == ("running", attempt + 1)
        assert job.document["progress"] == {"step": 1, "attempt": attempt, "attempts_without": 0}


def test_no_progress_ends_it(jobs: JobAccount) -> None:
    job = jobs.running()
    for _ in range(3):
        jobs.aws.interrupt(job.machine)
        jobs.tick()
        if job.state == "ended":
            break
    assert (job.phase["result"], job.attempt) == ("failed", 3) and "no progress" in job.phase["why"]
    assert jobs.machines() == []


def test_after_the_last_warning_it_ends_as_soon_as_the_machine_is_gone(jobs: JobAccount) -> None:
    job = jobs.running()
    for machine in range(3):
        last = job.machine
        jobs.warn(last)
        if machine < 2:
            jobs.aws.interrupt(last)
    jobs.tick()
    assert job.state == "submitted", "until it is gone, it may write"
    jobs.aws.interrupt(last)
    jobs.tick()
    assert job.phase["result"] == "failed" and "no progress" in job.phase["why"] and jobs.machines() == []
