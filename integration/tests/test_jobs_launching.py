"""What is launched, and what becomes of a job that cannot be: capacity, quota, permission, budget."""

from __future__ import annotations

import email
from datetime import timedelta
from typing import Any

import pytest

from jobs import AGENT, LISTS_AT_MINUTE, ON_DEMAND, SPEC, Job, JobAccount
from local_aws.client import REGION
from reaping import BUCKET, ago, moment, now, rfc3339
from reaping_budgets import budget_key

WITH_ALL = """
owner = "ada@example.com"
command = "python train.py --lr '1e-4'"
setup = "pip install -r requirements.txt"
[tags]
Project = "llama"
Name = "mine"
[env]
SECRET_LOOKING = "do not leak me"
[gpu]
types = ["g5.xlarge"]
[spot]
max_usd_per_hour = 0.9
[limits]
max_runtime = "2h"
[machine]
root_volume_gib = 300
security_groups = ["{group}"]
"""


def documented(jobs: JobAccount, instance: str, attribute: str) -> Any:
    asked = {"InstanceId": instance, "Attribute": attribute}
    return jobs.aws.client("ec2").describe_instance_attribute(**asked)


def test_a_machine_has_every_killer_and_no_open_port(jobs: JobAccount) -> None:
    ec2 = jobs.aws.client("ec2")
    group = ec2.create_security_group(GroupName="mine", Description="of the team")["GroupId"]
    jobs.configure(teams={"vision": {"security_groups": [group]}})
    jobs.aws.set_spot_price("g5.xlarge", {"us-east-1b": 0.30, "us-east-1a": 0.41}, since=ago(minutes=5))
    before = now()
    job = jobs.running(text=WITH_ALL.replace("{group}", group))
    phase, machine = job.phase, job.machine
    told = jobs.aws.instance(machine)
    ends_at = moment(phase["ends_at"])
    assert timedelta(hours=2) - timedelta(minutes=2) <= ends_at - before <= timedelta(hours=2, minutes=1)
    assert told["InstanceType"] == "g5.xlarge" and told["InstanceLifecycle"] == "spot"
    assert told["Placement"]["AvailabilityZone"] == "us-east-1b" == phase["zone"], "the cheapest zone"
    assert (phase["rate"], phase["rate_max"]) == (0.30, 0.9)
    assert told["MetadataOptions"]["HttpTokens"] == "required" and told["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert told["IamInstanceProfile"]["Arn"].endswith("/curfew-job")
    assert [one["GroupId"] for one in told["SecurityGroups"]] == [group]
    assert documented(jobs, machine, "instanceInitiatedShutdownBehavior")["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    expected = {
        "Team": "vision", "Owner": "ada@example.com", "Project": "llama", "Name": "mine", "curfew:mode": "enforce",
        "curfew:job": job.id, "curfew:attempt": "1", "curfew:expires-at": (ends_at + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    assert jobs.aws.tags(machine) == expected
    volumes = ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [machine]}])["Volumes"]
    assert sorted(one["Size"] for one in volumes) == [10, 300]
    for volume in volumes:
        assert volume["Encrypted"] and volume["Attachments"][0]["DeleteOnTermination"]
        assert {tag["Key"]: tag["Value"] for tag in volume["Tags"]} == expected
    assert [one["IpPermissions"] for one in ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]] == [[]]


def test_user_data_says_who_the_machine_is_and_nothing_of_the_spec(jobs: JobAccount) -> None:
    group = jobs.aws.client("ec2").create_security_group(GroupName="mine", Description="of the team")["GroupId"]
    jobs.configure(teams={"vision": {"security_groups": [group]}})
    job = jobs.running(text=WITH_ALL.replace("{group}", group))
    data = jobs.user_data(job.machine)
    assert len(data) < 16 * 1024
    parts = email.message_from_string(data).get_payload()
    assert [part.get_content_type() for part in parts] == ["text/cloud-boothook", "text/x-shellscript"]
    assert str(int(moment(job.phase["ends_at"]).timestamp())) in parts[0].get_payload()
    for secret in ("leak", "train.py", "requirements", "SECRET_LOOKING"):
        assert secret not in data


def test_the_agent_is_in_the_bucket_once(jobs: JobAccount) -> None:
    jobs.running("one")
    image = jobs.job("one").document["ranking"]["images"][0]
    [key] = jobs.keys("agent/")
    assert key == f"agent/{image['agent_sha256']}"
    jobs.put(key, b"something else")
    jobs.restart()
    jobs.running("two")
    assert jobs.keys("agent/") == [key], "what lies in its place is replaced"
    assert jobs.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read() == AGENT + b"x86_64"


# Images


def own_image(jobs: JobAccount, name: str) -> str:
    register = jobs.aws.client("ec2").register_image
    return register(Name=name, Architecture="x86_64", RootDeviceName="/dev/sda1", VirtualizationType="hvm")["ImageId"]


def image_of(jobs: JobAccount, job: Job) -> str:
    return jobs.aws.instance(job.machine)["ImageId"]


def test_jobs_boot_the_image_of_the_configuration_unless_they_name_one(jobs: JobAccount) -> None:
    ours, another = own_image(jobs, "ours"), own_image(jobs, "another")
    put_parameter = jobs.aws.client("ssm").put_parameter
    put_parameter(Name="/curfew/images/x86_64", Type="String", Value=ours)
    jobs.configure(jobs={"image": "/curfew/images/{architecture}"}, teams={"vision": {"images": [another]}})
    assert image_of(jobs, jobs.running()) == ours
    named = SPEC + f'[machine]\nami = "{another}"\n'
    assert image_of(jobs, jobs.running("named", named)) == another
    # A pipeline has built a new one.
    put_parameter(Name="/curfew/images/x86_64", Type="String", Value=another, Overwrite=True)
    assert image_of(jobs, jobs.running("later")) == another


# What its team may use


def test_an_image_is_public_or_its_teams_or_that_of_the_configuration(jobs: JobAccount) -> None:
    image = own_image(jobs, "of another team")
    named = SPEC + f'[machine]\nami = "{image}"\n'
    jobs.configure(teams={"vision": {"monthly_budget_usd": 100, "over_budget": "hold"}})
    jobs.write_budget(100)
    jobs.submit(text=named)
    run = jobs.tick()
    job = jobs.job()
    assert job.state == "held" and "images of [teams.vision] in the configuration does not allow" in job.phase["why"]
    assert jobs.ever_launched() == [] and jobs.reserved() == {} and image in run.message()
    # That everybody may have it, EC2 itself says.
    jobs.aws.client("ec2").modify_image_attribute(ImageId=image, LaunchPermission={"Add": [{"Group": "all"}]})
    due(job)
    jobs.tick()
    assert image_of(jobs, job) == image
    # That of the configuration is for all.
    ours = own_image(jobs, "ours")
    jobs.configure(jobs={"image": ours})
    assert image_of(jobs, jobs.running("ours", SPEC + f'[machine]\nami = "{ours}"\n')) == ours


def test_a_network_is_its_teams_or_the_default_one(jobs: JobAccount) -> None:
    ec2 = jobs.aws.client("ec2")
    group = ec2.create_security_group(GroupName="administrators", Description="of others")["GroupId"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    jobs.configure(teams={"vision": {}, "nlp": {"security_groups": [group], "subnets": [subnet]}}, jobs={"shared_role": "allow"})
    for key, value in (("security_groups", group), ("subnets", subnet)):
        text = SPEC + f'[machine]\n{key} = ["{value}"]\n'
        answered = jobs.submit(key, text)
        jobs.submit(key.replace("_", "-"), text, team="nlp")
        jobs.tick()
        answer = jobs.answer(answered)
        assert answer and answer["is"] == "rejected" and answer["mistakes"][0]["key"] == f"machine.{key}[0]"
        assert f"{key} of [teams.vision] in the configuration does not allow" in answer["mistakes"][0]["problem"]
    assert len(jobs.ever_launched()) == 2 and jobs.keys("jobs/vision/") == []
    # One that was accepted waits, wherever it stands, once it is not allowed any more; what was asked for before is found, and no more.
    jobs.aws.set_capacity(0, "g5.xlarge")
    jobs.submit("waits", text, team="nlp")
    jobs.tick()
    waiting = jobs.job("waits", team="nlp")
    assert waiting.state == "waiting"
    jobs.aws.set_capacity(100, "g5.xlarge")
    jobs.configure(teams={"vision": {}, "nlp": {}}, jobs={"shared_role": "allow"})
    due(waiting)
    jobs.tick()
    assert (waiting.state, waiting.phase["by"]) == ("held", "not-allowed") and "subnets of [teams.nlp]" in waiting.phase["why"]
    assert len(jobs.ever_launched()) == 2


def test_a_folder_of_no_configured_team_makes_no_job_and_changes_nothing_for_others(jobs: JobAccount) -> None:
    jobs.configure(teams={"vision": {}})
    key = jobs.submit("slip", team="visoin")
    jobs.put("jobs/nlp/old-0123abcd/spec.toml", SPEC.encode())
    run = jobs.tick()
    answer = jobs.answer(key)
    assert answer and answer["is"] == "rejected"
    assert "the configuration has no [teams.visoin], and only its teams have jobs: vision" in answer["mistakes"][0]["problem"]
    [message] = run.messages
    assert message["attributes"]["team"] == "untagged" and "[teams.visoin]" in message["message"]
    assert jobs.keys("jobs/visoin/") == jobs.keys("active/") == []
    # Nor does a job of a team that the configuration had take away the role.
    assert profile_of(jobs, jobs.running().machine) == "curfew-job"
    jobs.configure(jobs={"teams": "any"}, teams={"vision": {}})
    assert jobs.answer(jobs.submit("slip", team="nlp")) is None
    jobs.tick()
    assert jobs.job("slip", team="nlp").phase["by"] == "role"


# Capacity


def test_without_capacity_the_next_zone_is_tried(jobs: JobAccount) -> None:
    jobs.aws.set_spot_price("g5.xlarge", {"us-east-1a": 0.2, "us-east-1b": 0.3, "us-east-1c": 0.4}, since=ago(minutes=5))
    for zone in ("us-east-1a", "us-east-1b"):
        jobs.aws.set_capacity(0, "g5.xlarge", zone=zone)
    jobs.submit()
    run = jobs.tick()
    job = jobs.job()
    assert job.phase["zone"] == "us-east-1c" and len(jobs.ever_launched()) == 1
    assert run.counts["ec2:RunInstances"] == 3, "an answer of capacity is not asked again"


# Quota and permission


def test_a_quota_is_named_and_holds_it(jobs: JobAccount) -> None:
    jobs.aws.set_quota("L-3819A6DF", 2.0, enforced=True)
    jobs.submit()
    run = jobs.tick()
    job = jobs.job()
    assert (job.state, job.phase["by"]) == ("held", "quota") and "L-3819A6DF" in job.phase["why"]
    assert "L-3819A6DF" in run.messages[0]["message"]
    assert [step["action"] for step in run.steps] == ["hold"] and run.counts["ec2:RunInstances"] == 1


def made_profile(jobs: JobAccount, name: str) -> None:
    jobs.aws.client("iam").create_instance_profile(InstanceProfileName=name, Path="/curfew/")


def profile_of(jobs: JobAccount, machine: str) -> str:
    return jobs.aws.instance(machine)["IamInstanceProfile"]["Arn"].rpartition("/")[2]


def due(job: Job) -> None:
    """Its hold is over."""
    document = job.document
    document["phase"]["of"]["until"] = rfc3339(now())
    job.rewrite(**document)


def test_one_team_has_the_common_role_and_a_second_team_isolates_both(jobs: JobAccount) -> None:
    assert profile_of(jobs, jobs.running().machine) == "curfew-job"
    jobs.submit("bert", team="nlp")
    run = jobs.tick()
    job = jobs.job("bert", team="nlp")
    assert (job.state, job.phase["by"]) == ("held", "role") and "curfew team create nlp" in job.phase["why"]
    (message,) = [one["message"] for one in run.messages]
    assert "curfew team create nlp" in message
    # It continues by itself once there is one, like the jobs of the first team.
    made_profile(jobs, "curfew-job-nlp")
    due(job)
    jobs.tick()
    assert profile_of(jobs, job.machine) == "curfew-job-nlp"
    jobs.submit("second")
    jobs.tick()
    assert "curfew team create vision" in jobs.job("second").phase["why"]


# Money


def test_a_job_reserves_its_ceiling_until_it_ends_and_then_what_it_can_have_cost(jobs: JobAccount) -> None:
    """The next run knows what it did cost; the next job need not wait for it."""
    jobs.configure(teams={"vision": {"monthly_budget_usd": 10, "over_budget": "hold"}}, account={"monthly_budget_usd": 500})
    jobs.write_budget(10)
    jobs.write_budget(500, team=None)
    first = jobs.running("first")
    for team in ("vision", None):
        one = jobs.reserved(team)[first.id]
        assert one["usd"] == pytest.approx(8 * ON_DEMAND["g5.xlarge"], abs=0.01)
        assert one["instances"] == [first.machine] and "ended" not in one
    jobs.told_of(jobs.submit("second"))
    assert jobs.job("second").phase["by"] == "budget"
    first.ends()
    jobs.tick()
    kept = jobs.reserved()[first.id]
    assert 0 < kept["usd"] <= ON_DEMAND["g5.xlarge"] * 0.2 and "ended" in kept
    assert jobs.read(budget_key("vision"))["reserved_usd"] == kept["usd"]
    jobs.told_of(jobs.submit("third"))
    assert jobs.job("third").state == "running"


def test_what_waits_for_capacity_keeps_no_budget_from_others(jobs: JobAccount) -> None:
    """The account's is enough for one of them. The team that waits has none of its own."""
    account = {"monthly_budget_usd": 10, "over_budget": "hold"}
    jobs.configure(teams={"vision": {}, "nlp": {}}, account=account, jobs={"shared_role": "allow"})
    jobs.write_budget(10, team=None)
    jobs.aws.set_listed_price("g5.2xlarge", region=REGION, usd="1.212")
    jobs.aws.set_capacity(0, "g5.2xlarge")
    jobs.submit("waits", SPEC.replace("g5.xlarge", "g5.2xlarge"), team="nlp")
    jobs.tick()
    waiting = jobs.job("waits", team="nlp")
    assert waiting.state == "waiting", waiting.phase
    assert waiting.document["reserved"]["released"]
    assert jobs.reserved(None) == jobs.reserved("nlp") == {}
    running = jobs.running()
    # It tries again, finds the budget taken, and holds nothing for that.
    jobs.aws.set_capacity(100, "g5.2xlarge")
    due(waiting)
    jobs.tick()
    assert (waiting.state, waiting.phase["by"]) == ("held", "budget")
    assert list(jobs.reserved(None)) == [running.id] and jobs.reserved("nlp") == {}


def test_what_a_lost_run_has_reserved_is_given_back_within_the_hour(jobs: JobAccount) -> None:
    jobs.write_budget(team=None)
    old = {"usd": 9.0, "since": rfc3339(ago(hours=2)), "until": rfc3339(now() + timedelta(days=7))}
    jobs.configure(teams={"vision": {}})
    running = jobs.running()
    kept = jobs.reserved(None)[running.id]
    gone = {"vision/gone-0123abcd": old, running.id: {**kept, "since": old["since"]}}
    minute = now().replace(minute=LISTS_AT_MINUTE, second=0, microsecond=0) + timedelta(hours=1)
    jobs.write_budget(team=None, at=minute, reservations=gone)  # which may be of the next month
    jobs.tick_at(minute)
    assert list(jobs.reserved(None, minute)) == [running.id]


def test_another_region_where_the_spec_says_so(jobs: JobAccount) -> None:
    jobs.aws.set_listed_price("g5.xlarge", region="eu-central-1", usd="1.258")
    job = jobs.running(text=SPEC + '[machine]\nregions = ["eu-central-1"]\n')
    assert job.phase["region"] == "eu-central-1" and jobs.machines(region="eu-central-1") == [job.machine]
    assert jobs.machines(REGION) == []


def test_a_job_of_one_gpu_waits_rather_than_take_a_machine_of_eight(jobs: JobAccount) -> None:
    for family in ("g4dn.", "g5.", "g6.", "g6e."):
        jobs.aws.fault("ec2:RunInstances", "insufficient_capacity", times=None, match=f"InstanceType={family}")
    jobs.submit(text='command = "echo hi"\nowner = "ada@example.com"\n')
    jobs.tick()
    job = jobs.job()
    assert (job.state, jobs.ever_launched()) == ("waiting", []), job.document
    said = job.phase["said"]
    assert "with 4 GPUs at $" in said and said.endswith("name it in `gpu.types`, or its price in `limits.max_usd_per_hour`"), said
    types = {candidate["type"] for candidate in job.document["ranking"]["candidates"]}
    assert types == {"g4dn.xlarge", "g5.xlarge", "g6.xlarge"}, types
