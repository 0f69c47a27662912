"""AWS takes a machine back: the job is launched again at once, and never twice."""

from __future__ import annotations

from jobs import JobAccount
from local_aws.client import REGION
from reaping import EUROPE
from test_channels import AccountTopic

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
    assert job.document["previous_attempt"]["instance"] == first
    assert jobs.aws.tags(job.machine)["curfew:attempt"] == "2"
    assert first in run.messages[0]["message"] or job.machine in run.messages[0]["message"]


def test_the_account_hears_of_a_warning_with_the_run_of_the_minute(jobs: JobAccount) -> None:
    """A storm of warnings is as many runs at once, and their messages would suspend the subscription that all depends on."""
    topic = AccountTopic(jobs)
    job = jobs.running()
    job.beats()
    topic.received()

    def count_for_team() -> int:
        return len([one for one in jobs.aws.messages() if one["topic"] == jobs.topic_arn])

    before = count_for_team()
    jobs.warn(job.machine)
    assert job.attempt == 2 and count_for_team() == before + 1
    assert topic.received() == []
    jobs.tick()
    [message] = topic.received()
    assert job.id in message["message"] and "SNS did not accept" not in message["message"]


def test_state_changes_and_rebalances_only_start_a_look(jobs: JobAccount) -> None:
    job = jobs.running()
    job.beats()
    for event in ("ec2-instance-state-change", "ec2-rebalance-recommendation"):
        run = jobs.tick(jobs.event_of(event, job.machine))
        assert run.steps == [] and not run.ec2_writes and run.response["seen"] == 1
    jobs.aws.interrupt(job.machine)
    jobs.tick(jobs.event_of("ec2-instance-state-change", job.machine))
    assert job.attempt == 2


def test_a_storm_of_events_is_one_look_at_all_jobs(jobs: JobAccount) -> None:
    """What a group tells that scales in by a hundred instances, with the end of one machine of a job and a new job between them."""
    job = jobs.running()
    job.beats()
    jobs.aws.interrupt(job.machine)
    key = jobs.submit("other")
    ended = [*(f"i-{number:017x}" for number in range(100)), job.machine]
    run = jobs.tick(jobs.batch_of([jobs.event_of("ec2-instance-state-change", one) for one in ended]))
    assert job.attempt == 2 and (jobs.answer(key) or {})["is"] == "accepted"
    assert run.counts["ec2:DescribeInstances"] < 10 and run.counts["s3:ListBucket"] < 10


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


def test_a_warning_without_an_owner_finds_its_job_by_the_index(jobs: JobAccount) -> None:
    job = jobs.running()
    first = job.machine
    jobs.aws.fault("ec2:DescribeInstances", "access_denied")
    run = jobs.warn(first)
    assert job.attempt == 2 and [gap["call"] for gap in run.gaps] == ["ec2:DescribeInstances"]
