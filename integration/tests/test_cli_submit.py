"""`curfew submit`: a job into the inbox, once it is legal, and what would come of it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from command import COMMAND, Said, curfew
from reaping import BUCKET, Account, ago, rfc3339

LEAST = 'owner = "ada@example.com"\ncommand = "python train.py"\n'
ON_DEMAND = '[gpu]\ntypes = ["g5.xlarge"]\n[spot]\nenabled = false\n[limits]\nmax_runtime = "8h"\n'
KEY = "inbox/vision/train.toml"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path


def submit(account: Account, here: Path, text: str | bytes, *arguments: str, name: str = "train.toml") -> Said:
    (here / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return curfew(account.environment(), "submit", str(here / name), "--team", "vision", *arguments)


def image(account: Account, region: str = "us-east-1") -> str:
    """One that a job can boot, and any team's may name."""
    root = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 45, "DeleteOnTermination": True}}
    ec2 = account.aws.client("ec2", region)
    made = ec2.register_image(Name="training", Architecture="x86_64", RootDeviceName="/dev/sda1", BlockDeviceMappings=[root])
    ec2.modify_image_attribute(ImageId=made["ImageId"], LaunchPermission={"Add": [{"Group": "all"}]})
    return made["ImageId"]


def with_image(account: Account) -> str:
    return f'{LEAST}{ON_DEMAND}[machine]\nami = "{image(account)}"\n'


def answer(account: Account, object_: str, key: str = KEY, **answer: Any) -> None:
    word = "accepted" if "job" in answer else "rejected"
    document = {"schema": 1, "object": object_, "at": rfc3339(ago(seconds=0)), **answer}
    account.put(key.replace(".toml", f".{word}.json"), json.dumps(document).encode())


def etag(account: Account, key: str = KEY) -> str:
    return account.aws.client("s3").head_object(Bucket=BUCKET, Key=key)["ETag"]


def test_it_lies_in_the_inbox_as_it_was_written(account: Account, here: Path) -> None:
    text = f"# größe\n{with_image(account)}"
    said = submit(account, here, text).fine()
    assert account.aws.client("s3").get_object(Bucket=BUCKET, Key=KEY)["Body"].read() == text.encode()
    [job] = re.findall(r"^(vision/train-[0-9a-f]{8}): submitted as inbox/vision/train\.toml$", said.out, re.MULTILINE)
    assert job.endswith(etag(account).strip('"')[:8]) and f"curfew jobs {job}" in said.err


def test_the_job_s_own_name_is_that_of_the_object(account: Account, here: Path) -> None:
    submit(account, here, f'name = "llama.ft"\n{with_image(account)}').fine()
    assert account.keys("inbox/") == ["inbox/vision/llama.ft.toml"]


def test_what_it_would_cost_and_where_it_would_run(account: Account, here: Path) -> None:
    said = submit(account, here, with_image(account), "--dry-run").fine()
    assert account.keys("inbox/") == []
    assert "train: for 8h at most; without [checkpoint] it starts at zero whenever its machine is lost" in said.out
    assert re.search(r"^g5\.xlarge +on demand +us-east-1[a-f] +\$1\.01/h +\$1\.01/h$", said.out, re.MULTILINE), said.out
    assert "It can cost $8.05: 8h at $1.01/h at most, which is reserved before it begins" in said.out
    estimate = submit(account, here, with_image(account), "--dry-run", "--json").fine().json()["estimate"]
    assert estimate["worst_case"] == {"seconds": 28_800, "usd_per_hour": 1.006, "usd": 8.048}
    assert {one["lifecycle"] for one in estimate["candidates"]} == {"on-demand"} and estimate["nowhere"] is None


def test_a_model_says_how_much_memory_its_gpus_need(account: Account, here: Path) -> None:
    model = 'model = { params = "7b", task = "inference" }'
    text = with_image(account).replace('types = ["g5.xlarge"]', f'types = ["g4dn.xlarge", "g5.xlarge"]\n{model}')
    said = submit(account, here, text, "--dry-run").fine()
    assert "The model 7b (inference, bf16) takes about 14.9 GiB on one GPU, so a GPU has to have 18 GB: weights 13.0" in said.out
    assert "Assumed: layers, heads and vocabulary are those of Mistral 7B" in said.out
    assert re.search(r"^g5\.xlarge ", said.out, re.MULTILINE) and "g4dn" not in said.out
    sizing = submit(account, here, text, "--dry-run", "--json").fine().json()["sizing"]
    assert sizing["gpu_gb_min"] == 18 and 14.9 < sizing["estimate"]["total_gib"] < 15
    both = submit(account, here, text.replace(model, f"memory_gib_min = 16\n{model}"), "--dry-run")
    assert both.code == 1 and "key `gpu.memory_gib_min`: `gpu.model` says how much memory is needed" in both.out


def test_what_a_deadline_costs(account: Account, here: Path) -> None:
    account.aws.set_spot_price("g5.xlarge", {"us-east-1a": 0.3}, since=ago(minutes=5))
    limits = '"3d"\nwithin = "60h"\nestimated_runtime = "48h"\n[checkpoint]'
    text = with_image(account).replace("enabled = false", "").replace('"8h"', limits)
    said = submit(account, here, text, "--dry-run").fine()
    assert "Expected cost by deadline, at current prices:" in said.out
    row = r"^(48h15m, the soonest|60h00m, as asked|90h00m|none) +\$([\d.]+) +\$[\d.]+ to \$[\d.]+$"
    costs = [float(usd) for _, usd in re.findall(row, said.out, re.MULTILINE)]
    assert len(costs) == 4 and costs == sorted(costs, reverse=True), said.out
    estimate = submit(account, here, text, "--dry-run", "--json").fine().json()["estimate"]
    within = [one["within_seconds"] for one in estimate["expected_costs"]]
    assert within[0] == 173_700 and 215_880 <= within[1] <= 216_000 and within[3] is None
    late = submit(account, here, text.replace('"60h"', '"40h"'), "--dry-run")
    assert late.code == 1 and "its deadline cannot be met, even on demand" in late.out


def test_every_mistake_with_its_line_and_nothing_is_submitted(account: Account, here: Path) -> None:
    text = 'comand = "x"\nowner = "ada"\n[gpu]\ncount = 17\n[limits]\nfinish_by = "2020-01-01T00:00:00Z"\n'
    said = submit(account, here, text)
    file = here / "train.toml"
    assert said.code == 1 and account.keys("inbox/") == []
    for line in (
        f"{file}: key `command`: it is missing: write the command to run",
        f"{file}:1: key `comand`: there is no key `comand` here; did you mean `command`?",
        f"{file}:4: key `gpu.count`: 17 is out of range; write a whole number from 0 to 16",
        f"{file}:6: key `limits.finish_by`: 2020-01-01T00:00:00Z is in the past",
    ):
        assert line in said.out, said
    assert "4 mistakes" in said.err
    mistakes = submit(account, here, text, "--json").json()["mistakes"]
    assert [(one["line"], one["key"]) for one in mistakes] == [(0, "command"), (1, "comand"), (4, "gpu.count"), (6, "limits.finish_by")]


def test_it_is_judged_by_the_configuration_that_is_deployed(account: Account, here: Path) -> None:
    account.configure(tags={"required": ["Team", "Owner", "project"]})
    said = submit(account, here, LEAST)
    assert said.code == 1 and "key `tags.project`: this account requires this tag" in said.out
    account.write_config("mode = 7")
    assert submit(account, here, LEAST).code == 2


def test_from_standard_input_it_needs_a_name(account: Account) -> None:
    arguments = ("submit", "-", "--team", "vision")
    said = curfew(account.environment(), *arguments, stdin=LEAST)
    assert said.code == 1 and "standard input: key `name`: " in said.out
    curfew(account.environment(), *arguments, stdin=f'name = "x"\n{with_image(account)}').fine()
    assert account.keys("inbox/") == ["inbox/vision/x.toml"]


# Whose it is


def test_a_team_has_to_be_known(account: Account, here: Path) -> None:
    (here / "train.toml").write_text(with_image(account))
    arguments = ("submit", str(here / "train.toml"))
    said = curfew(account.environment(), *arguments)
    assert said.code == 2 and "no team: name it by --team or CURFEW_TEAM" in said.err
    account.configure(teams={"vision": {}, "nlp": {}, "untagged": {}})
    assert "; the configuration has nlp, vision" in curfew(account.environment(), *arguments).err
    curfew(account.environment(CURFEW_TEAM="nlp"), *arguments).fine()
    account.configure(teams={"vision": {}, "untagged": {}})
    curfew(account.environment(), *arguments).fine()
    for team in ("", "vis\nion"):
        said = curfew(account.environment(), *arguments, "--team", team)
        assert said.code == 2 and "names no team: " in said.err.replace("\n       ", ": "), said
    assert account.keys("inbox/") == ["inbox/nlp/train.toml", "inbox/vision/train.toml"]


def test_a_team_that_the_configuration_does_not_have_is_a_mistake(account: Account, here: Path) -> None:
    account.configure(teams={"nlp": {}})
    said = submit(account, here, with_image(account))
    assert said.code == 1 and "the configuration has no [teams.vision], and only its teams have jobs: nlp" in said.out
    assert account.keys("inbox/") == []


def test_what_its_team_may_not_use_is_said_beforehand(account: Account, here: Path) -> None:
    account.configure(teams={"vision": {}})
    private = with_image(account)
    of_image = {"ImageId": private.split('"')[-2], "LaunchPermission": {"Remove": [{"Group": "all"}]}}
    account.aws.client("ec2").modify_image_attribute(**of_image)
    said = submit(account, here, private, "--dry-run")
    assert said.code == 1 and "images of [teams.vision] in the configuration does not allow" in said.err.replace("\n         ", " ")
    said = submit(account, here, f'{LEAST}{ON_DEMAND}[machine]\nsubnets = ["subnet-0123abcd"]\n')
    assert said.code == 1 and "subnets of [teams.vision] in the configuration does not allow" in said.out
    assert account.keys("inbox/") == []


# The answer


def waits(account: Account, here: Path, *arguments: str) -> subprocess.Popen[str]:
    (here / "train.toml").write_text(with_image(account))
    words = [COMMAND, "submit", str(here / "train.toml"), "--team", "vision", "--wait", *arguments]
    waiting = subprocess.Popen(words, env=account.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    while "waiting for the answer" not in (line := waiting.stderr.readline()):
        assert line, waiting.communicate()
    return waiting


def test_it_waits_until_it_is_accepted(account: Account, here: Path) -> None:
    answer(account, "of an earlier one", job="vision/train-00000000")
    waiting = waits(account, here)
    answer(account, etag(account), job="vision/train-12345678")
    out, _ = waiting.communicate(timeout=120)
    assert waiting.returncode == 0 and "vision/train-12345678: accepted" in out and "00000000" not in out


def test_or_rejected(account: Account, here: Path) -> None:
    waiting = waits(account, here, "--json")
    mistake = {"line": 3, "key": "gpu.count", "problem": "not so many"}
    answer(account, etag(account), mistakes=[mistake])
    out, _ = waiting.communicate(timeout=120)
    said = json.loads(out)
    assert waiting.returncode == 1 and said["answer"] == {"accepted": False, "mistakes": [mistake]} and said["job"] is None


def test_what_waits_for_its_answer_is_not_overwritten(account: Account, here: Path) -> None:
    submit(account, here, with_image(account)).fine()
    before = etag(account)
    said = submit(account, here, f"# another\n{with_image(account)}")
    assert said.code == 2 and f"{KEY} exists already, and has no answer yet" in said.err
    assert etag(account) == before
    answer(account, before, job="vision/train-12345678")
    submit(account, here, f"# another\n{with_image(account)}").fine()
    assert etag(account) != before


# What lacks


def test_without_permission_to_look_it_is_submitted_all_the_same(account: Account, here: Path) -> None:
    account.aws.fault("ec2:DescribeInstanceTypes", "access_denied", times=None)
    said = submit(account, here, with_image(account)).fine()
    assert "where it can run, and at what price, is unknown: " in said.err and account.keys("inbox/") == [KEY]
    said = submit(account, here, with_image(account), "--dry-run")
    assert said.code == 2


def test_that_the_team_has_no_role_is_said_beforehand(account: Account, here: Path) -> None:
    text = with_image(account)
    account.configure(teams={"nlp": {}, "vision": {}})
    said = submit(account, here, text, "--dry-run")
    assert said.code == 1 and "it would be held" in said.err and "curfew team create vision" in said.err
    assert "curfew team create vision" in submit(account, here, text, "--dry-run", "--json").json()["role_missing"]
    account.aws.client("iam").create_instance_profile(InstanceProfileName="curfew-job-vision", Path="/curfew/")
    assert submit(account, here, text, "--dry-run", "--json").fine().json()["role_missing"] is None
    # Who may not ask IAM submits all the same.
    account.aws.fault("iam:GetInstanceProfile", "access_denied", times=None)
    said = submit(account, here, text, "--dry-run").fine()
    assert "whether its machines get the role curfew-job-vision is unknown" in said.err


def test_too_little_money_for_an_attempt_is_a_mistake(account: Account, here: Path) -> None:
    text = with_image(account).replace('max_runtime = "8h"', 'max_runtime = "8h"\nmax_usd = 0.1')
    said = submit(account, here, text)
    assert said.code == 1 and account.keys("inbox/") == []
    assert "train.toml:9: key `limits.max_usd`: `max_usd` of $0.10 lasts 5m57s on a g5.xlarge at $1.01/h" in said.out
    assert "write $0.26 or more" in said.out and "It can cost" not in said.out
    assert submit(account, here, text, "--dry-run").code == 1
    sweep = text.replace("max_usd = 0.1", "max_usd = 5") + '[sweep]\nseed = "1..50"\n'
    assert "`max_usd` of $5.00 is $0.10 for each of 50 jobs, which lasts 5m57s" in submit(account, here, sweep).out


def test_a_dear_job_is_submitted_only_by_a_word_more(account: Account, here: Path) -> None:
    text = with_image(account).replace('max_runtime = "8h"', "")
    said = submit(account, here, text)
    assert said.code == 2 and account.keys("inbox/") == []
    assert "It can cost $169.01 at most, which is above $100.00, `[jobs] confirm_above_usd` of the configuration." in said.err
    assert "confirmation needs a terminal\n       pass --yes" in said.err
    submit(account, here, text, "--dry-run").fine()
    submit(account, here, text, "--yes").fine()
    assert account.keys("inbox/") == [KEY]
    account.configure(jobs={"confirm_above_usd": 5})
    assert submit(account, here, with_image(account), name="other.toml").code == 2
    submit(account, here, with_image(account).replace("[limits]", "[limits]\nmax_usd = 5"), name="other.toml").fine()


def test_it_shows_the_dearest_place_and_what_is_left_out(account: Account, here: Path) -> None:
    text = with_image(account).replace('types = ["g5.xlarge"]\n', "")
    out = submit(account, here, text, "--dry-run").fine().out
    assert re.search(r"^g4dn\.xlarge +on demand +us-east-1a +\$0\.53/h", out, re.MULTILINE), out
    assert re.search(r"^and \d+ more places, the dearest g\S+ on demand in us-east-1[a-f] at \$1\.\d\d/h at most$", out, re.MULTILINE), out
    assert re.search(r"^Left out: .*g4dn\.12xlarge with 4 GPUs at \$3\.91/h.*: more than 1 GPU; .*to allow one, name it in `gpu\.types`", out, re.MULTILINE), out
    account.configure(jobs={"gpus_max": 1}, teams={"vision": {"usd_per_hour_max": 0.6}})
    out = submit(account, here, text, "--dry-run").fine().out
    assert "g5.xlarge  on demand" not in out and "above `[teams.vision] usd_per_hour_max`, $0.60/h" in out, out
    refused = submit(account, here, text.replace("[gpu]", "[gpu]\ncount = 4"), "--dry-run")
    assert refused.code == 1 and "key `gpu.count`: 4 GPUs on one machine are too many: `[jobs] gpus_max` of the configuration is 1" in refused.out


def test_hints_are_no_mistakes(account: Account, here: Path) -> None:
    text = with_image(account).replace("python train.py", "source env/bin/activate && python train.py | tee log")
    token = "hf_abcdefghijklmnopqrstuvwx"
    text = f'shell = "sh"\n{text}'
    said = submit(account, here, f'{text}[env]\nHF_TOKEN = "{token}"\n', "--dry-run", "--json").fine()
    assert "hint: `command` has `source`, which is bash's" in said.err and "hint: `command` has a pipeline" in said.err
    assert "hint: `HF_TOKEN` of `env` seems to hold a secret" in said.err and token not in said.err + said.out


def test_a_document_of_another_tool_gets_our_words(account: Account, here: Path) -> None:
    said = submit(account, here, "resources:\n  accelerators: A10G:1\nrun: python train.py\n", name="task.yaml")
    assert said.code == 1 and account.keys("inbox/") == []
    [line] = [line for line in said.out.splitlines() if "task.yaml" in line]
    assert line.startswith(f"{here / 'task.yaml'}:1: the document is YAML") and '`name = "A10G"`' in line and "`command = " in line
    said = submit(account, here, f"num_nodes = 2\n{LEAST}")
    assert f"{here / 'train.toml'}:1: key `num_nodes`: there is no key `num_nodes`: write `[gpu]` with `nodes = 2`" in said.out


def test_an_unknown_family_is_legal_and_warned_of(account: Account, here: Path) -> None:
    text = with_image(account).replace('types = ["g5.xlarge"]', 'types = ["g99.xlarge", "g5.xlarge"]')
    said = submit(account, here, text, "--dry-run").fine()
    assert "gpu.types names g99.xlarge, of a family that Curfew does not know" in said.err
    for wrong in ("g5.xlarg", "t3.micro", "a10g"):
        assert submit(account, here, text.replace("g99.xlarge", wrong), "--dry-run").code == 1


def test_a_trigger_is_checked_and_put_beside_the_others(account: Account, here: Path) -> None:
    key, heading = "triggers/vision/ingest.toml", '[trigger]\nfrom = "s3://data/uploads/"\n'
    text = f"{with_image(account)}{heading}"
    account.configure(teams={"vision": {}})
    beyond = submit(account, here, text, "--trigger", "ingest")
    assert beyond.code == 1 and "buckets of [teams.vision] in the configuration does not allow" in beyond.out
    account.configure(teams={"vision": {"buckets": ["s3://data/uploads"]}})
    wrong = submit(account, here, f"{text}max_per_day = 0\n", "--trigger", "ingest", "--json")
    assert wrong.code == 1 and account.keys("triggers/") == []
    [mistake] = wrong.json()["mistakes"]
    assert (mistake["key"], mistake["line"]) == ("trigger.max_per_day", len(text.splitlines()) + 1)
    misplaced = submit(account, here, text)
    assert misplaced.code == 1 and "key `trigger`: the document is a trigger, not a job: submit it with `--trigger NAME`" in misplaced.out
    dry = submit(account, here, text, "--trigger", "ingest", "--dry-run").fine().out
    assert dry.startswith("ingest watches s3://data/uploads/: a job for each object that arrives, at most 20 jobs a day (UTC)\n")
    assert "It can cost $8.05" in dry and "The jobs of a day can cost $160.96 at most together" in dry
    assert account.keys("triggers/") == []
    said = submit(account, here, text, "--trigger", "ingest").fine()
    assert f"submitted as {key}\n" in said.out and f"aws s3 rm s3://{BUCKET}/{key}" in said.err
    assert f"submitted as {key}, in place of the earlier one" in submit(account, here, text, "--trigger", "ingest").fine().out
    assert account.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read() == text.encode()
    assert account.keys("inbox/") == []
