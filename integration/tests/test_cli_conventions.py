"""What holds for every command: help with an example, completions, colours, exit codes, and errors that say what to do."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command import COMMAND, Said, curfew
from hosts.host import wait_for
from reaping import Account
from terminal import Terminal

NOBODY = "i-0123456789abcdef0"
ESCAPE = "\x1b["
OFFLINE = {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_EC2_METADATA_DISABLED": "true"}


def commands(*words: str) -> Iterator[tuple[str, ...]]:
    """Every command and subcommand, as the help of each lists them; the first is `curfew` itself."""
    yield words
    listed = curfew({}, *words, "--help").fine().out.partition("Commands:\n")[2]
    for name in re.findall(r"^  ([\w-]+) ", listed.partition("\n\n")[0], re.MULTILINE):
        if name != "help":
            yield from commands(*words, name)


ALL = list(commands())


def test_there_are_the_commands_of_the_readme() -> None:
    assert re.fullmatch(r"curfew \d+\.\d+\.\d+\n", curfew({}, "--version").fine().out)
    assert {words[0] for words in ALL if words} == {
        *("scan", "config", "explain", "plans", "budget", "report", "recommend", "gpus", "apply", "keep", "protect", "release"),
        *("undo", "submit", "run", "rerun", "jobs", "logs", "ssh", "cancel", "box", "schedule", "team", "doctor", "watch", "completions"),
        *("metrics", "mode", "run-now", "uninstall", "version"),
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_know_every_command(shell: str, tmp_path: Path) -> None:
    script = curfew({}, "completions", shell).fine().out
    for words in ALL:
        for word in words:
            assert word in script
    if shell == "bash":
        path = tmp_path / "curfew"
        path.write_text(script)
        subprocess.run(["bash", "-n", path], check=True)
        typed = 'COMP_WORDS=(curfew pro); COMP_CWORD=1; _curfew curfew pro curfew; echo "${COMPREPLY[@]}"'
        shell_line = ["bash", "--norc", "-c", f"source {path}; {typed}"]
        asked = subprocess.run(shell_line, capture_output=True, text=True, check=True)
        assert asked.stdout.split() == ["protect"]


@pytest.mark.parametrize(
    "words", [(), ("nonsense",), ("undo", "i-llama"), ("scan", "--nonsense")]
)
def test_wrong_usage_exits_with_2_and_shows_the_usage(words: tuple[str, ...]) -> None:
    answer = curfew({}, *words)
    assert answer.code == 2 and answer.out == "", answer
    assert "Usage:" in answer.err or "try '--help'" in answer.err


@pytest.mark.parametrize("words", [(), *ALL], ids=lambda words: " ".join(words) or "curfew")
def test_an_argument_with_a_variable_is_not_mandatory(words: tuple[str, ...]) -> None:
    named = {"CURFEW_BUCKET": "state", "CURFEW_TOPIC_ARN": "arn:aws:sns:us-east-1:1:t", "CURFEW_STACK": "ours"}
    usage = curfew(named, *words, "--help").out.partition("Usage: ")[2].splitlines()[0]
    wrong = curfew(named, *words)
    if "required" in wrong.err:
        assert f"Usage: {usage}\n" in wrong.err
    assert usage.startswith(" ".join(["curfew", *words])) and "--bucket" not in usage + wrong.err


# Who and where


def test_a_missing_profile_is_named() -> None:
    for environment, arguments in ((OFFLINE, ("--profile", "nope")), ({**OFFLINE, "AWS_PROFILE": "nope"}, ())):
        answer = curfew(environment, "protect", NOBODY, *arguments)
        assert answer.code == 2 and "there is no profile nope" in answer.err and "list-profiles" in answer.err


def test_a_profile_is_used(account: Account, tmp_path: Path) -> None:
    """Before credentials of the environment, as with the AWS CLI."""
    gpu = account.gpu(region="eu-central-1")
    files = {"AWS_CONFIG_FILE": "[profile research]\nregion = eu-central-1\n", "AWS_SHARED_CREDENTIALS_FILE": ""}
    files["AWS_SHARED_CREDENTIALS_FILE"] = "[research]\naws_access_key_id = AKIARESEARCH\naws_secret_access_key = x\n"
    environment = account.environment(AWS_REGION=None, AWS_DEFAULT_REGION=None)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        environment[name] = str(tmp_path / name)
    account.aws.clear_calls()
    curfew(environment, "protect", gpu, "--profile", "research").fine()
    assert {call["region"] for call in account.aws.calls()} == {"eu-central-1"}


def test_a_missing_region_says_where_to_set_one() -> None:
    answer = curfew({"AWS_EC2_METADATA_DISABLED": "true"}, "protect", NOBODY)
    assert answer.code == 2 and "no AWS region" in answer.err
    for words in ("--region", "AWS_REGION", "aws configure set region"):
        assert words in answer.err


@pytest.mark.parametrize(
    ("region", "words"),
    [
        ("eusc-de-east-1", "eusc-de-east-1 is in the partition aws-eusc, which Curfew does not support; it supports aws, aws-us-gov, aws-cn"),
        ("us-east-1a", "there is no region us-east-1a; did you mean us-east-1?"),
    ],
)
def test_a_region_without_a_supported_partition_is_refused(region: str, words: str) -> None:
    for command in ("scan", "doctor"):
        answer = curfew(OFFLINE, command, "--region", region)
        assert answer.code == 2 and words in answer.err and "AWS_REGION" in answer.err, answer


SPEAKING_TO_AWS = (
    *("scan", "config show", "plans", "budget", "report", "watch", "doctor", f"explain {NOBODY}", f"keep {NOBODY} 1d", f"release {NOBODY}"),
    *(f"undo {NOBODY}", "apply 20300101T000000Z-0123456789abcdef", "jobs", "jobs llama", "logs llama", "ssh llama", "rerun llama", "run --gpu a10g --team vision -- true", "cancel llama --yes"),
    *("mode observe", "run-now reap-instances", "uninstall", "config apply /dev/null", "config rollback"),
    *("box up --gpu a10g --team vision my-box", "box ls", "box extend my-box 3h", "box down my-box --yes", "box rm my-box --yes", "box connect my-box"),
    *("schedule add nightly /dev/null --team vision", "schedule ls --team vision", "schedule rm nightly --team vision"),
    *("submit /dev/null --team vision", "team create vision", "team list", "team delete vision"),
)


def one_error(answer: Said) -> str:
    assert answer.code == 2 and answer.out == "", answer
    [line] = answer.err.splitlines()
    return line


@pytest.mark.parametrize("words", SPEAKING_TO_AWS)
def test_missing_credentials_are_the_only_error(words: str) -> None:
    """Even where a bucket is named, so that no stack has to be looked for."""
    for deployed in ({}, {"CURFEW_BUCKET": "state", "CURFEW_TOPIC_ARN": "arn:aws:sns:us-east-1:1:t"}):
        said = one_error(curfew({**OFFLINE, **deployed}, *words.split()))
        assert said.startswith("error: no credentials: ") and said.endswith("; set AWS_PROFILE, or pass --profile")


def test_a_file_is_checked_without_credentials(tmp_path: Path) -> None:
    (tmp_path / "curfew.toml").write_text("")
    answer = curfew(OFFLINE, "config", "check", str(tmp_path / "curfew.toml")).fine()
    assert "not compared with the deployed configuration: no credentials" in answer.err and len(answer.err.splitlines()) == 1


LOGIN = "sso_session = ours\nsso_account_id = 123456789012\nsso_role_name = Admin\n"
PROFILES = f"""
[sso-session ours]
sso_start_url = https://example.awsapps.com/start
sso_region = us-east-1
sso_registration_scopes = sso:account:access
[profile people]
{LOGIN}
[profile old]
{LOGIN.replace("sso_session = ours", "sso_start_url = https://example.awsapps.com/start")}sso_region = us-east-1
[profile role]
role_arn = arn:aws:iam::123456789012:role/Curfew
source_profile = people
"""


@pytest.fixture
def profiled(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "config").write_text(PROFILES)
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "AWS_CONFIG_FILE": str(tmp_path / "config")}


def expire(home: str) -> None:
    """The token that `aws sso login` left there long ago."""
    cache = Path(home) / ".aws/sso/cache"
    cache.mkdir(parents=True)
    for name in ("ours", "https://example.awsapps.com/start"):
        token = {"accessToken": "token", "expiresAt": "2020-01-01T00:00:00Z", "region": "us-east-1"}
        token["startUrl"] = "https://example.awsapps.com/start"
        (cache / f"{hashlib.sha1(name.encode()).hexdigest()}.json").write_text(json.dumps(token))


@pytest.mark.parametrize(
    ("profile", "logs_in", "expired"),
    [("people", "people", True), ("old", "old", False), ("role", "people", False)],
)
def test_an_expired_login_names_the_command(
    profiled: dict[str, str], profile: str, logs_in: str, expired: bool
) -> None:
    if expired:
        expire(profiled["HOME"])
    wanted = f"error: no credentials: the login of profile {logs_in} is missing or has expired: aws sso login --profile {logs_in}"
    environment = {**OFFLINE, **profiled, "CURFEW_BUCKET": "state"}
    assert one_error(curfew({**environment, "AWS_PROFILE": profile}, "scan")) == wanted
    assert one_error(curfew(environment, "explain", NOBODY, "--profile", profile)) == wanted


def test_too_many_calls_promise_no_next_run(account: Account) -> None:
    gpu = account.gpu()
    account.aws.fault("ec2:DescribeInstances", "throttle", times=None)
    for answer in at_once(account.environment(), ("scan", f"explain {gpu}", f"keep {gpu} 1d", "doctor")):
        said = answer.err + answer.out
        assert "RequestLimitExceeded" in said and "next run" not in said and "again" in said, answer


def at_once(environment: Mapping[str, str], commands: Sequence[str]) -> list[Said]:
    """Each repeats its calls for some seconds."""
    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(lambda words: curfew(environment, *words.split()), commands))


@pytest.mark.parametrize("call", ["ec2:DescribeRegions", "ec2:CreateTags"])
def test_a_missing_permission_is_named_with_region_and_role(account: Account, call: str) -> None:
    gpu = account.gpu(region="eu-central-1") if call == "ec2:DescribeRegions" else account.gpu()
    account.aws.fault(call, "access_denied", times=None)
    answer = curfew(account.environment(), "protect", gpu)
    assert answer.code == 2 and f"{call} failed in us-east-1" in answer.err
    assert f"grant {call} to the role" in answer.err and "credentials of the environment" in answer.err


# The terminal


def asleep(account: Account) -> str:
    stopped = "idle 2030-01-01T00:00:00Z"
    gpu = account.gpu(tags={"curfew:stopped": stopped}, state="stopped")
    account.remember_labels(gpu)
    return gpu


@pytest.mark.parametrize(("answer", "state", "code"), [("y", "running", 0), ("", "stopped", 1)])
def test_the_prompt_decides(account: Account, answer: str, state: str, code: int) -> None:
    gpu = asleep(account)
    terminal = Terminal(account.environment(), "undo", gpu)
    terminal.wait_for("[y/N]")
    assert "start 1 instance, for $1.01/h" in terminal.shown and account.state(gpu) == "stopped"
    terminal.type(f"{answer}\n")
    assert terminal.end() == code and account.state(gpu) == state
    assert ("it was not confirmed" in terminal.shown) == (code == 1)


def test_typed_ahead_input_is_no_answer(account: Account) -> None:
    gpu = asleep(account)
    account.aws.fault("ec2:DescribeRegions", "slow", seconds=60)
    terminal = Terminal(account.environment(), "undo", gpu)
    wait_for(account.aws.struck, 60, lambda: "it never asked for the regions")
    terminal.type("y\n")
    account.aws.release("ec2:DescribeRegions")
    terminal.wait_for("[y/N]")
    terminal.type("n\n")
    assert terminal.end() == 1 and account.state(gpu) == "stopped"


def test_colours_are_for_terminals_that_want_them() -> None:
    def shown(**environment: str) -> str:
        terminal = Terminal({**OFFLINE, **environment}, "protect", NOBODY, "--profile", "nope")
        assert terminal.end() == 2
        return terminal.shown

    assert ESCAPE in shown()
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert ESCAPE not in shown(**plain)
    assert ESCAPE not in curfew(OFFLINE, "protect", NOBODY, "--profile", "nope").err
    forced = curfew({**OFFLINE, "CLICOLOR_FORCE": "1"}, "protect", NOBODY, "--profile", "nope")
    assert ESCAPE in forced.err


def test_no_foreign_text_moves_a_cursor_or_hides(account: Account) -> None:
    commands = {"\x9b", "\u202e", "\u200b", "\u2028", "\U000e0041"}
    hostile = "".join(sorted(commands))
    gpu = account.idle(account.gpu(tags={"Name": hostile, "Owner": hostile, "curfew:idle-after": hostile}))
    other = account.gpu(tags={"Name": hostile, "curfew:stopped": f"{hostile} 2030-01-01T00:00:00Z"}, state="stopped")
    run = account.tick().response["run"]
    for words in (f"keep {gpu} 1d", f"protect {gpu}", f"release {gpu}", f"explain {gpu}", f"plans {run}", f"undo {other} --yes", "scan", hostile):
        for line in (words.split(" "), [*words.split(" "), "--json"]):
            said = curfew(account.environment(), *line)
            assert (said.out or said.err) and not commands & set(said.out + said.err), (line, said)


@pytest.mark.parametrize("words", ["completions bash", "keep GPU 1d --json", "release"])
def test_a_closed_pipe_is_no_panic(account: Account, words: str) -> None:
    """`curfew … | head -1`, and with a closed stderr."""
    arguments = words.replace("GPU", account.gpu()).split()
    read, write = os.pipe()
    os.close(read)
    for err in (subprocess.PIPE, write):
        ended = subprocess.run(
            [COMMAND, *arguments], env=account.environment(), stdout=write, stderr=err, text=True, timeout=60
        )
        assert ended.returncode == (2 if words == "release" else 0) and "panicked" not in (ended.stderr or "")
    os.close(write)
