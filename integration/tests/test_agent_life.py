"""One attempt of the real agent, from taking over to the dark."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import moved_clock
import pytest

from attempts import AGENT, BUCKET, NAME, Job, head


def test_a_command_that_succeeds_writes_its_result_and_ends_the_machine(job: Job) -> None:
    job.spec("echo hello from $CURFEW_JOB $CURFEW_ATTEMPT; echo aside >&2", checkpoint=False)
    with job.machine(1) as machine:
        machine.ends()
    fence = job.head()
    assert (fence["schema"], fence["attempt"], fence["launch"]) == (1, 1, "0a")
    assert (fence["result"]["succeeded"], fence["result"]["code"]) == (True, 0)
    exit = job.exit(1)
    assert (exit["schema"], exit["reason"], exit["code"], exit["attempt"]) == (1, "succeeded", 0, 1)
    assert f"hello from {NAME} 1\naside\n" in job.log(1)
    assert job.heartbeat(1)["attempt"] == 1


def lines_of_log(job: Job) -> tuple[list[int], int]:
    """The numbers among the lines of the whole log, as `curfew logs --whole` puts it together, and how many bytes are missing."""
    whole, end, missing, folder = b"", 0, 0, f"attempts/{NAME}/1/"
    tail = job.s3.get_object(Bucket=BUCKET, Key=f"{folder}log")
    assert len(tail["Body"].read()) <= 256 * 1024
    for key in [*(f"{folder}log.{number}" for number in range(int(tail["Metadata"]["parts"]))), f"{folder}log"]:
        found = job.s3.get_object(Bucket=BUCKET, Key=key)
        start, body = int(found["Metadata"]["start"]), found["Body"].read()
        missing += max(0, start - end)
        whole, end = whole + body[max(0, end - start) :], max(end, start + len(body))
    return [int(line) for line in whole.splitlines() if line.isdigit()], missing


def test_the_bucket_has_the_whole_of_a_long_log(job: Job) -> None:
    job.spec("seq 100000", checkpoint=False)
    with job.machine(1) as machine:
        machine.ends()
    assert lines_of_log(job) == (list(range(1, 100_001)), 0) and b"attempt 1 ends (succeeded)" in job.get(f"attempts/{NAME}/1/log")
    assert job.get(f"attempts/{NAME}/1/log.0")


def test_a_restarted_agent_continues_after_the_last_part_of_its_log(job: Job) -> None:
    """An earlier start wrote a part, and did not come to the tail that counts it."""
    folder, earlier = f"attempts/{NAME}/1/", b"".join(b"%d\n" % number for number in range(1, 40_001))
    job.s3.put_object(Bucket=BUCKET, Key=f"{folder}log.0", Body=earlier, Metadata={"start": "0"})
    job.s3.put_object(Bucket=BUCKET, Key=f"{folder}log", Body=earlier[:100_000], Metadata={"start": "0", "stored": "0", "parts": "0"})
    job.spec("seq 40001 100000", checkpoint=False)
    with job.machine(1) as machine:
        machine.ends()
    assert lines_of_log(job) == (list(range(1, 100_001)), 0)
    assert job.get(f"{folder}log.0") == earlier


# The SDK's attempts at one call, unless it is told otherwise (AWS SDKs and tools reference guide, "Retry behavior").
ATTEMPTS = 3


def test_a_part_of_a_log_whose_answer_was_lost_stays_and_nothing_is_twice(job: Job) -> None:
    more = job.scratch / "more"
    job.spec(f"seq 50000; while ! [ -e {more} ]; do sleep 0.1; done; seq 50001 100000", checkpoint=False)
    job.aws.fault("s3:PutObject", "lost_answer", match="log.0", times=1, every_attempt=True)
    with job.machine(1) as machine:
        # Every attempt at the upload, whether with a heartbeat or between two of them, which says nothing.
        machine.until(lambda: job.aws.struck() >= ATTEMPTS)
        first = job.get(f"attempts/{NAME}/1/log.0")
        job.aws.clear_faults()
        more.touch()
        machine.ends()
    assert lines_of_log(job) == (list(range(1, 100_001)), 0)
    assert first and job.get(f"attempts/{NAME}/1/log.0") == first


def test_a_log_that_grows_fast_is_whole(job: Job) -> None:
    """At its own pace: 11 MiB in less than the 5 s between two uploads of a followed log, and of 8 MiB the rest would be missing."""
    line, lines = "1" * 1023, 11 * 1024
    job.spec(f"sleep 1; for part in $(seq 11); do yes {line} | head -n {lines // 11}; sleep 0.35; done", checkpoint=False)
    with job.machine(1, hurry=1) as machine:
        machine.ends()
    numbers, missing = lines_of_log(job)
    assert (len(numbers), set(numbers), missing) == (lines, {int(line)}, 0)


def test_the_bytes_that_a_log_lacks_are_counted(job: Job) -> None:
    go, done = job.scratch / "go", job.scratch / "done"
    job.spec(f"while ! [ -e {go} ]; do sleep 0.1; done; seq 1500000; touch {done}; sleep 600", checkpoint=False)
    with job.machine(1) as machine:
        machine.until(lambda: job.log(1))
        job.aws.fault("s3:PutObject", "access_denied", match="/1/log", times=None)
        go.touch()
        machine.until(done.exists)
        machine.until(lambda: "the log cannot be uploaded" in machine.said())
        job.aws.clear_faults()
        machine.until(lambda: lines_of_log(job)[0][-1:] == [1_500_000])
        numbers, missing = lines_of_log(job)
    whole = sum(len(str(number)) + 1 for number in range(1, 1_500_001))
    # At the first upload again the agent has the last 8 MiB, which may begin within a line.
    assert numbers[-1_000_000:] == list(range(500_001, 1_500_001))
    assert 0 <= missing - (whole - 8 * 1024 * 1024) < 1024, missing


def test_a_failed_setup_fails_the_job(job: Job) -> None:
    job.spec("echo never", checkpoint=False, more='setup = "echo first; exit 4"')
    with job.machine(1) as machine:
        machine.ends()
    assert job.exit(1)["why"] == "`setup` has failed with exit code 4"
    assert "first\n" in job.log(1) and "never" not in job.log(1)


def test_the_command_runs_as_the_user_with_its_environment(job: Job) -> None:
    command = 'id -un; id -u; echo "$HOME $FLAVOUR $CURFEW_TEAM $CURFEW_BUCKET"; cat /proc/self/stat | cut -d" " -f5; echo $$'
    job.spec(command, user="nobody", checkpoint=False, more='env = { FLAVOUR = "bitter sweet" }')
    with job.machine(1) as machine:
        machine.ends()
    lines = job.log(1).splitlines()
    at = lines.index("nobody")
    home = next(line.split(":")[5] for line in Path("/etc/passwd").read_text().splitlines() if line.startswith("nobody:"))
    assert lines[at + 2] == f"{home} bitter sweet vision curfew-state"
    assert lines[at + 3] == lines[at + 4], "the shell leads a process group of its own"


def test_secrets_are_in_the_environment_only(job: Job) -> None:
    secret = job.aws.client("secretsmanager").create_secret(Name="team/hf-token", SecretString="s3cret-1")["ARN"]
    job.aws.client("ssm").put_parameter(Name="/team/key", Value="s3cret-2", Type="SecureString")
    parameter = "arn:aws:ssm:us-east-1:123456789012:parameter/team/key"
    command = '[ "$HF $KEY" = "s3cret-1 s3cret-2" ] && echo both are there'
    job.spec(command, checkpoint=False, more=f'secrets = {{ HF = "{secret}", KEY = "{parameter}" }}')
    with job.machine(1) as machine:
        machine.ends()
    assert job.head()["result"]["succeeded"], machine.said()
    assert "s3cret" not in machine.said()
    asked = {action: len(job.aws.calls(action)) for action in ("secretsmanager:GetSecretValue", "ssm:GetParameter")}
    assert set(asked.values()) == {1}, "no guess by name"


def test_the_outputs_of_the_jobs_that_it_comes_after_are_named(job: Job) -> None:
    at = "2026-11-22T05:00:00Z"
    others = (("prepare-0123abcd", 2), ("to-kens.v2-00000001", 1), ("to-kens.v2-00000002", 3))
    members = (("tune-0001-0123abcd", 1), ("tune-0003-0123abcd", 2))
    for name, attempt in (*others, *members):
        job.put(f"attempts/vision/{name}/head.json", head(attempt, result={"succeeded": True, "code": 0, "why": "", "at": at}))
    parameters = [{"name": "seed", "values": ["1", "2", "3"]}]
    machine_terms = {"regions": [], "ami": None, "subnets": [], "security_groups": [], "instance_profile": None, "root_volume_gib": None}
    limits = {"max_runtime_seconds": 28_800, "finish_by": None, "max_usd": None}
    gpu = {"count": 1, "memory_gib_min": 0, "types": ["g5.xlarge"]}
    terms = {"tags": {}, "gpu": gpu, "spot": None, **limits, "checkpoint": None, "machine": machine_terms}
    plan = {"parameters": parameters, "combine": "product", "max_parallel": None, "max_usd": None}
    sweep = {"schema": 1, "sweep": "vision/tune-0123abcd", "owner": None, "terms": terms, "plan": plan, "submitted_at": at}
    job.put("jobs/vision/tune-0123abcd/sweep.json", json.dumps(sweep))
    command = 'echo "one $CURFEW_OUTPUTS_OF_PREPARE"; echo "two $CURFEW_OUTPUTS_OF_TO_KENS_V2"; echo "three $CURFEW_OUTPUTS_OF_TUNE"'
    after = ["prepare-0123abcd", "to-kens.v2-00000002", "to-kens.v2-00000001", "tune-0123abcd"]
    job.spec(command, checkpoint=False, more=f"after = {json.dumps(after)}")
    with job.machine(1) as machine:
        machine.ends()
    outputs = f"s3://{BUCKET}/outputs/vision"
    assert f"one {outputs}/prepare-0123abcd/2/\ntwo {outputs}/to-kens.v2-00000002/3/\n{outputs}/to-kens.v2-00000001/1/\n" in job.log(1)
    assert f"three {outputs}/tune-0001-0123abcd/1/\n{outputs}/tune-0003-0123abcd/2/\n" in job.log(1)
    assert "CURFEW_OUTPUTS_OF_TUNE is without vision/tune-0002-0123abcd: its head.json names no success" in machine.said()


def ends_before_the_command(job: Job, why: str, *, code: int | None = 126, **spec: Any) -> None:
    """With a code the job has failed, because the next machine would meet the same; without one the attempt is broken."""
    job.spec("echo never", checkpoint=False, **spec)
    with job.machine(1, hurry=200) as machine:
        machine.ends()
    exit = job.exit(1)
    assert (exit["reason"], exit["code"]) == (("broken", None) if code is None else ("failed", code)), exit
    assert why in exit["why"], exit
    assert "never\n" not in job.log(1) and bool(job.head()["result"]) == (code is not None)


def secret(job: Job, name: str, **content: Any) -> str:
    return job.aws.client("secretsmanager").create_secret(Name=name, **content)["ARN"]


PARAMETER = "arn:aws:ssm:us-east-1:123456789012:parameter"


@pytest.mark.parametrize(
    ("arn", "why"),
    [
        (lambda job: f"{PARAMETER}/absent", "us-east-1 has no such secret or parameter"),
        (lambda job: secret(job, "old", SecretString="x")[:-6] + "AbCdEf", "curfew team create vision --secret-arn arn:"),
        (lambda job: secret(job, "key", SecretBinary=b"\0\1"), "it is binary, and a variable holds text"),
    ],
)
def test_a_secret_that_no_machine_can_use_fails_the_job(job: Job, arn: Any, why: str) -> None:
    wanted = arn(job)
    ends_before_the_command(job, why, more=f'secrets = {{ KEY = "{wanted}" }}')
    assert f"the secret for `KEY` ({wanted}) cannot be " in job.exit(1)["why"]


def test_a_secret_that_is_about_to_be_deleted_can_be_restored(job: Job) -> None:
    wanted = secret(job, "gone", SecretString="x")
    job.aws.client("secretsmanager").delete_secret(SecretId=wanted)
    restore = f"aws secretsmanager restore-secret --region us-east-1 --secret-id {wanted}"
    ends_before_the_command(job, f"it is scheduled for deletion: {restore}", more=f'secrets = {{ KEY = "{wanted}" }}')


def test_a_secret_that_this_machine_cannot_read_is_left_to_the_next(job: Job) -> None:
    wanted = secret(job, "here", SecretString="x")
    job.aws.fault("secretsmanager:GetSecretValue", "custom", status=400, code="ExpiredTokenException", message="It is over.", times=None)
    ends_before_the_command(job, "cannot be read: ExpiredTokenException: It is over.", code=None, more=f'secrets = {{ KEY = "{wanted}" }}')


def test_an_unknown_user_is_named(job: Job) -> None:
    ends_before_the_command(job, "no user `nobody-of-that-name`", user="nobody-of-that-name")


def test_processes_that_a_command_left_are_ended(job: Job, tmp_path: Path) -> None:
    left = tmp_path / "left"
    stays = f"sh -c 'echo $$ >> {left}; trap \"\" TERM; while :; do sleep 0.1; done'"
    # One stays in the group, the other one leaves even the session.
    job.spec(f"{stays} & setsid {stays} & while [ $(wc -l < {left}) -lt 2 ]; do sleep 0.1; done; exit 0", checkpoint=False)
    left.touch()
    with job.machine(1) as machine:
        machine.ends()
    exit, processes = job.exit(1), left.read_text().split()
    assert exit["reason"] == "succeeded"
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)
    # Any of them may have been the training.
    assert all(f"sh ({process})" in exit["why"] for process in processes) and "which the agent has killed" in exit["why"], exit
    assert [one["kind"] for one in job.heartbeat(1)["warnings"]] == ["left-running"]


@pytest.mark.parametrize(
    ("command", "shell", "code", "words"),
    [
        ("sh -c 'exit 3' 2>&1 | tee {}/log", "", 3, "has failed with exit code 3"),
        ("sh -c 'exit 3' | head -1", "", 3, "has failed with exit code 3"),
        ("yes | head -1 >/dev/null && exit 5", "", 5, "has failed with exit code 5"),
        ("sh -c 'exit 3' | cat", "sh", 0, "has ended with success"),
        ("echo never", "ksh", 127, "the machine has no `ksh` in /bin"),
        ("sh -c 'kill -9 $$'; exit $?", "", 137, "by which a shell hands on signal 9"),
    ],
)
def test_a_result_says_what_happened_in_the_shell(job: Job, command: str, shell: str, code: int, words: str) -> None:
    job.spec(command.format(job.scratch), checkpoint=False, more=f'shell = "{shell}"' if shell else "")
    with job.machine(1) as machine:
        machine.ends()
    exit = job.exit(1)
    assert (exit["code"], exit["reason"]) == (code, "failed" if code else "succeeded") and words in exit["why"], exit
    if code == 137:
        assert "memory" in exit["why"]


def test_a_failed_command_names_what_its_machine_lacks(job: Job, full_disk: Path) -> None:
    """A disk that was full only while the command ran, and a machine without NVIDIA's library."""
    fills = f"head -c 20000000 /dev/zero >{full_disk}/a 2>/dev/null || {{ sleep 1; rm {full_disk}/a; exit 5; }}"
    job.spec(fills, checkpoint=False, more=f'[machine]\nuser = "root"\noutputs = ["{full_disk}"]\n')
    with job.machine(1) as machine:
        machine.ends()
    why = job.exit(1)["why"]
    assert f"the disk of {full_disk} was full (0 MiB were left)" in why and "NVIDIA's library cannot be loaded" in why, why


def test_lines_of_the_command_and_of_the_agent_are_whole(job: Job) -> None:
    folder = job.checkpoints
    job.spec(f"printf '{{\"step\": 1, '; echo x >{folder}/step=1.pt; : >{folder}/step=1.pt.complete; sleep 3; printf '\"loss\": 0.5}}\\nlast'; exit 0")
    with job.machine(1) as machine:
        said = machine.ends()
    assert job.kept() == 1
    for log in (job.log(1), said):
        assert '{"step": 1, "loss": 0.5}\n[curfew ' in log and "last\n[curfew " in log, log
        assert all(line.startswith(("[curfew ", "{", "last")) for line in log.splitlines()), log


def test_a_running_attempt_sends_heartbeats_and_its_log(job: Job) -> None:
    job.spec("echo begun; sleep 60", checkpoint=False)
    with job.machine(1) as machine:
        first = machine.until(lambda: job.heartbeat(1) and job.heartbeat(1)["doing"] == "running" and job.heartbeat(1))
        machine.until(lambda: "begun\n" in job.log(1))
        machine.until(lambda: job.heartbeat(1)["at"] > first["at"])


def test_an_attempt_waits_for_the_exit_record_of_the_previous_one(job: Job) -> None:
    job.spec("true", checkpoint=False)
    job.put(f"attempts/{NAME}/head.json", head(1))
    job.put(f"attempts/{NAME}/1/heartbeat.json", json.dumps({"schema": 1, "at": "2026-11-01T00:00:00Z", "attempt": 1}))
    last = f"{BUCKET}/attempts/{NAME}/1/exit.json"
    # It asks every 5 s, for 150 s at most: in 37 s here it has to be asked three times.
    with job.machine(2, hurry=4) as machine:
        machine.until(lambda: len([call for call in job.aws.calls("s3:GetObject") if last in call["resources"]]) > 2)
        assert "waits for the exit record of attempt 1" in machine.said()
        assert job.head()["attempt"] == 1
        exit = {"schema": 1, "attempt": 1, "at": "2026-11-01T00:00:00Z", "reason": "interrupted"}
        job.put(f"attempts/{NAME}/1/exit.json", json.dumps(exit))
        machine.ends()
    assert job.head()["attempt"] == 2 and job.head()["result"]["succeeded"]


def test_processes_of_a_killed_agent_are_ended_before_the_next_command(job: Job) -> None:
    began, stopped, beside = (job.scratch / name for name in ("began", "stopped", "beside"))
    first = f"touch {began}; trap '' TERM; while [ ! -e {stopped} ]; do sleep 0.1; done; touch {beside}"
    job.spec(f"if [ -e {began} ]; then touch {stopped}; sleep 1; exit 0; fi; {first}", checkpoint=False)
    with job.machine(1) as machine:
        machine.until(began.exists)
        machine.process.kill()
        machine.process.wait()
        with job.machine(1) as again:
            said = again.ends()
    assert "which were killed" in said
    assert job.head()["result"]["succeeded"] and not beside.exists()


def test_a_restart_after_the_result_changes_nothing(job: Job) -> None:
    job.spec(f"echo once >> {job.scratch}/ran; exit 4", checkpoint=False)
    with job.machine(1) as machine:
        machine.ends()
    exit, result = job.exit(1), job.head()["result"]
    assert exit["reason"] == "failed"
    with job.machine(1) as machine:
        assert "an earlier start of this attempt has written the exit record" in machine.ends()
    assert (job.exit(1), job.head()["result"]) == (exit, result)
    # It may have come no further than to the result.
    job.s3.delete_object(Bucket=BUCKET, Key=f"attempts/{NAME}/1/exit.json")
    with job.machine(1) as machine:
        machine.ends()
    assert {**job.exit(1), "at": exit["at"]} == exit
    assert (job.scratch / "ran").read_text() == "once\n"


@pytest.mark.parametrize("heard", [True, False])
def test_an_attempt_waits_150_seconds_at_most(job: Job, heard: bool) -> None:
    job.spec("true", checkpoint=False)
    job.put(f"attempts/{NAME}/head.json", head(1))
    begun = time.monotonic()
    if heard:
        # So that it does not miss a heartbeat, even if this machine starts slowly.
        key, later = f"attempts/{NAME}/1/heartbeat.json", datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        job.put(key, json.dumps({"schema": 1, "at": later.isoformat(), "attempt": 1}))
        job.aws.set_object(BUCKET, key, later)
    with job.machine(3, hurry=100) as machine:
        machine.ends()
    # 150 s, a hundred times faster, and never less.
    assert time.monotonic() - begun > 1.5
    assert job.head()["attempt"] == 3 and job.head()["result"]["succeeded"]


@pytest.mark.skipif(not moved_clock.IS_HERE, reason="a process's clock is moved on Linux alone")
def test_an_attempt_does_not_wait_for_a_previous_one_without_heartbeats(job: Job) -> None:
    job.spec("true", checkpoint=False)
    job.put(f"attempts/{NAME}/head.json", head(1))
    job.put(f"attempts/{NAME}/1/heartbeat.json", json.dumps({"schema": 1, "at": "2026-11-01T00:00:00Z", "attempt": 1}))
    later = moved_clock.MovedClock()
    later.move_by(600)
    with job.machine(3, clock=later, ends_in=7200) as machine:
        machine.ends()
    assert "waits for the exit record" not in machine.said()
    assert job.head()["attempt"] == 3


def test_a_replaced_attempt_ends_at_once_and_changes_nothing(job: Job, tmp_path: Path) -> None:
    command = tmp_path / "command"
    job.spec(f"trap '' TERM; echo $$ > {command}; while :; do sleep 0.1; done", checkpoint=False)
    with job.machine(1) as machine:
        machine.until(lambda: job.head().get("attempt") == 1 and command.exists() and command.read_text())
        job.put(f"attempts/{NAME}/head.json", head(2))
        machine.ends()
    assert job.exit(1)["reason"] == "fenced"
    assert job.head() == json.loads(head(2))
    with pytest.raises(ProcessLookupError):
        os.kill(int(command.read_text()), 0)


def test_the_agent_ends_the_attempt_before_its_absolute_end(job: Job) -> None:
    job.spec("sleep 600", checkpoint=False)
    # Five minutes before the end are 15 s here.
    with job.machine(1, ends_in=20) as machine:
        machine.ends(19)
    assert job.exit(1)["reason"] == "expired"
    assert not job.head()["result"]


def test_a_shutdown_leaves_an_exit_record(job: Job) -> None:
    job.spec("sleep 600", checkpoint=False)
    with job.machine(1) as machine:
        machine.until(lambda: "runs the command" in machine.said())
        machine.process.send_signal(signal.SIGTERM)
        machine.ends()
    assert job.exit(1)["reason"] == "interrupted"
    assert "SIGTERM" in job.exit(1)["why"]


def test_a_shutdown_during_the_start_leaves_an_exit_record(job: Job) -> None:
    job.spec("echo never", checkpoint=False)
    with job.machine(1, knows=False) as machine:
        machine.until(lambda: machine.hears(signal.SIGTERM))
        machine.process.send_signal(signal.SIGTERM)
        machine.knows_now()
        machine.ends()
    assert job.exit(1)["reason"] == "interrupted"
    assert "never" not in job.log(1)


def test_an_attempt_without_a_bucket_ends_the_machine(job: Job) -> None:
    job.spec("sleep 600", checkpoint=False)
    with job.machine(1, hurry=300) as machine:
        machine.until(lambda: "runs the command" in machine.said())
        job.aws.fault("s3:*", "custom", status=400, code="ExpiredToken", message="The provided token has expired.", times=None)
        said = machine.ends()
    assert "ExpiredToken" in said and "the attempt counts as lost" in said


def test_a_refused_output_is_named_and_loses_no_other(job: Job, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    names = [*(f"{number}.txt" for number in range(20)), "deep/a"]
    job.spec(
        f"cd {folder}; mkdir deep; for name in {' '.join(names)}; do echo fine > $name; done; ln -s /nowhere/at-all link",
        checkpoint=False,
        more=f'[machine]\nuser = "root"\noutputs = ["{folder}", "/nowhere/else"]\n',
    )
    # What is refused is tried three times; the result, which names it, comes after that.
    job.aws.fault("s3:PutObject", "access_denied", match="/3.txt", times=3)
    with job.machine(1) as machine:
        machine.ends()
    there = {key.partition(f"{folder}/")[2] for key in job.keys(f"outputs/{NAME}/1{folder}/")}
    assert there == set(names) - {"3.txt"} and job.get(f"outputs/{NAME}/1{folder}/deep/a") == b"fine\n"
    result = job.head()["result"]
    assert result["succeeded"] and "/nowhere/else" in result["why"]
    assert f"{folder}/3.txt: s3:PutObject" in result["why"] and f"{folder}/link (No such file" in result["why"]


def test_an_agent_without_an_identity_ends_no_machine(tmp_path: Path) -> None:
    dark = tmp_path / "dark"
    words = [AGENT, "--identity", tmp_path / "absent.json", "--shutdown-command", f"touch {dark}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "absent.json cannot be read" in done.stderr
    assert not dark.exists()


def test_a_log_is_uploaded_within_seconds_while_it_is_followed(job: Job) -> None:
    """At its own pace: the next heartbeat is a minute away, and in its first ten minutes an attempt counts as followed."""
    job.spec("sleep 2; echo later; sleep 600", checkpoint=False)
    with job.machine(1, hurry=1) as machine:
        machine.until(lambda: "later" in job.log(1), seconds=40)


def test_a_log_is_uploaded_often_after_ten_minutes_only_while_it_is_followed(job: Job) -> None:
    """Forty times faster: ten minutes are 15 s, a heartbeat comes every 1.5 s, and the log of a followed attempt three times as often."""
    job.spec("while echo more; do sleep 0.02; done", checkpoint=False)

    def count(name: str, action: str = "s3:PutObject") -> int:
        return len([call for call in job.aws.calls(action) if any(key.endswith(f"{NAME}/{name}") for key in call["resources"])])

    def uploads() -> tuple[int, int]:
        return count("1/heartbeat.json"), count("1/log")

    with job.machine(1, hurry=40) as machine:
        machine.until(lambda: count("followed.json", "s3:HeadObject"))
        heartbeats, logs = uploads()
        machine.until(lambda: uploads()[0] > heartbeats + 3)
        more_heartbeats, more_logs = uploads()
        assert more_logs - logs <= more_heartbeats - heartbeats + 2, "at most one with each heartbeat"
        job.put(f"jobs/{NAME}/followed.json", "{}")
        machine.until(lambda: uploads()[1] - uploads()[0] > logs - heartbeats + 8)
