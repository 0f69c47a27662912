"""The command and a job on several machines: what it shows of each node, by the documents that the nodes leave."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from command import Said, curfew
from deploying import deploy, doctor
from reaping import Account, now, rfc3339
from terminal import Terminal
from test_cli_jobs import LLAMA, TERMS, ended, has_lines, jobs, leave, placed, write
from test_cli_logs import logs
from test_cli_submit import image, submit

LAUNCH = "0123456789abcdef"
INSTANCES = [f"i-0123456789abcdef{node}" for node in range(4)]
TERMS_OF_GANG = {**TERMS, "gpu": {**TERMS["gpu"], "nodes": 4}, "network": {"efa": "auto"}}


def gang(**fields: Any) -> dict[str, Any]:
    return placed(instance=INSTANCES[0], members=INSTANCES[1:], launch=LAUNCH, type="g6.12xlarge", rate_max=18.4064, rate=7.0, **fields)


def running(account: Account, **fields: Any) -> None:
    write(account, LLAMA, {"state": "running", "of": gang()}, terms=TERMS_OF_GANG, progress={"step": 120, "attempts_without": 0}, **fields)


def of_launch(account: Account, name: str, **document: Any) -> None:
    leave(account, LLAMA, f"1/{LAUNCH}/{name}.json", **document)


def join(account: Account, node: int, instance: str | None = None) -> None:
    member = {"instance": instance or INSTANCES[node], "address": f"10.0.1.{11 + node}", "interface": "ens5", "gpus": 4}
    of_launch(account, f"member/{node}", **member)


def beat(account: Account, node: int, **fields: Any) -> None:
    of_launch(account, f"beat/{node}", **{"at": rfc3339(now()), "attempt": 1, "doing": "running", "step": 120, **fields})


def exit_of(account: Account, node: int, reason: str, code: int | None, minute: int) -> None:
    of_launch(account, f"exit/{node}", reason=reason, code=code, at=f"2026-11-22T12:{minute:02}:03Z")


def log_of(account: Account, node: int, text: str) -> None:
    account.put(f"attempts/{LLAMA}/1/nodes/{node}/log", text.encode())


def test_each_node_has_a_line_and_what_is_unknown_is_no_zero(account: Account) -> None:
    running(account)
    for node in range(3):
        join(account, node)
    beat(account, 0, gpu_percent=97.0, work={"step_seconds": 8})
    beat(account, 1, gpu_percent=3.4, warnings=[{"kind": "stalled", "words": "nothing happens"}])
    beat(account, 2, doing="setup", step=None)
    said = jobs(account, "llama").fine()
    has_lines(
        said.out,
        rf"{LLAMA}: running: attempt 1, 3 of 4 nodes, step 120 \(\d+s ago, complete on all 4\)",
        rf"node 0  {INSTANCES[0]}  10\.0\.1\.11       running           gpu 97 %",
        rf"node 1  {INSTANCES[1]}  10\.0\.1\.12       running           gpu 3 %",
        rf"node 2  {INSTANCES[2]}  10\.0\.1\.13       setup             gpu unknown",
        rf"node 3  {INSTANCES[3]}  no address yet  no heartbeat yet  gpu unknown",
        rf"machine +{INSTANCES[0]} and 3 more \(4 × g6\.12xlarge on Spot, us-east-1a\), \$7\.00/h at launch and \$18\.41/h at most, since .*",
        r"heartbeat +\d+s ago: .*",
        r"warning +node 1: nothing happens",
        r"requested +4 machines, each with 1 GPU \(g5\.xlarge\) .*",
    )
    document = jobs(account, "llama", "--json").fine().json()
    assert [(one["node"], one["instance"], one["doing"]) for one in document["nodes"]] == list(zip(range(4), INSTANCES, ["running", "running", "setup", None]))
    unknown = {"node": 3, "instance": INSTANCES[3], "address": None, "doing": None, "step": None, "gpu_percent": None, "at": None}
    assert document["nodes"][3] == unknown and document["nodes"][0]["address"] == "10.0.1.11"
    listed = jobs(account).fine().out
    assert re.search(rf"{INSTANCES[0]} and 3 more +4 × g6\.12xlarge +120, \d+s ago", listed), listed


def test_a_record_of_another_machine_is_no_address_and_a_forged_one_harms_nothing(account: Account) -> None:
    running(account)
    join(account, 1, instance="i-0fedcba9876543210")
    of_launch(account, "member/2", instance=INSTANCES[2], address="127.0.0.1", interface="lo", gpus=1)
    account.put(f"attempts/{LLAMA}/1/{LAUNCH}/beat/0.json", b"\xff")
    of_launch(account, "stop", cause="warned", node=9, until=rfc3339(now()), why="forged")
    said = jobs(account, "llama")
    assert said.code == 2 and "a heartbeat of its nodes cannot be read" in said.err
    assert "10.0.1" not in said.out and "127.0" not in said.out and "forged" not in said.out
    assert said.out.count("no address yet") == 4


def test_a_stop_says_why_all_nodes_end(account: Account) -> None:
    running(account)
    why = f"node 2 ({INSTANCES[2]}) is taken back by AWS at 12:02:00: all nodes save and end"
    of_launch(account, "stop", cause="warned", node=2, until=rfc3339(now()), why=why)
    has_lines(jobs(account, "llama").fine().out, "stop +" + re.escape(why))
    assert jobs(account, "llama", "--json").fine().json()["stop"]["node"] == 2


def test_each_line_of_a_log_names_its_node_and_the_failed_one_comes_last(account: Account) -> None:
    running(account)
    assert logs(account, "llama").code == 1
    for node, text in enumerate(["one\ntwo\n", "10 %\r20 %\r\n", "cut off", "boom\n"]):
        log_of(account, node, text)
    whole = "0| one\n0| two\n1| 10 %\n1| 20 %\n2| cut off\n3| boom\n"
    assert logs(account, "llama").fine().out == whole
    assert logs(account, "llama", "--json").fine().json()["log"] == whole
    assert logs(account, "llama", "--node", "1").fine().out == "10 %\n20 %\n"  # as Python reads it
    for node, words in (("4", "it has nodes 0 to 3"), ("32", "32 is not in 0..32")):
        refused = logs(account, "llama", "--node", node)
        assert refused.code == 2 and words in refused.err, refused
    write(account, LLAMA, ended("failed", "it failed"), terms=TERMS_OF_GANG, last_machine=gang())
    for node, (reason, code, minute) in enumerate([("stopped", None, 11), ("failed", 7, 10), ("stopped", None, 11), ("stopped", None, 11)]):
        exit_of(account, node, reason, code, minute)
    assert logs(account, "llama").fine().out.splitlines()[-2:] == ["1| 10 %", "1| 20 %"]
    said = logs(account, "llama", "--whole").fine().out
    ends = "[curfew] attempt 1: node 1, exit code 7 at 12:10:03 (nodes 0, 2, 3 were ended by Curfew)\n"
    assert said == whole + ends
    followed = logs(account, "llama", "--follow").fine()
    assert sorted(followed.out.splitlines()) == sorted(whole.splitlines()) and followed.err.splitlines()[-1] == f"{LLAMA}: failed"
    shown = jobs(account, "llama")
    assert shown.code == 1 and re.search(r"^node 1 .*failed, exit code 7$", shown.out, re.MULTILINE), shown.out
    assert re.search(r"^node 0 .*ended by Curfew$", shown.out, re.MULTILINE)


def test_a_node_of_one_machine_is_refused_and_node_0_is_it(account: Account) -> None:
    write(account, LLAMA, {"state": "running", "of": placed()})
    account.put(f"attempts/{LLAMA}/1/log", b"alone\n")
    assert logs(account, "llama", "--node", "0").fine().out == "alone\n"
    refused = logs(account, "llama", "--node", "1")
    assert refused.code == 2 and f"{LLAMA} runs on one machine, node 0" in refused.err


def test_a_shell_is_opened_on_the_named_node(account: Account, tmp_path: Path) -> None:
    (tmp_path / "aws").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "aws").chmod(0o755)
    running(account)
    for node, arguments in ((0, ()), (2, ("--node", "2"))):
        said = curfew(account.environment(PATH=str(tmp_path)), "ssh", "llama", *arguments)
        assert said.out == f"ssm start-session --target {INSTANCES[node]} --region us-east-1\n", said
    assert curfew(account.environment(PATH=str(tmp_path)), "ssh", "llama", "--node", "4").code == 2


def test_a_submission_says_what_all_machines_cost_and_need(account: Account, tmp_path: Path) -> None:
    ami = image(account)
    spec = 'owner = "ada@example.com"\ncommand = "torchrun train.py"\n[gpu]\nnodes = 4\ntypes = ["g5.xlarge"]\n[spot]\nenabled = false\n'
    spec += f'[limits]\nmax_runtime = "8h"\n[checkpoint]\nsize_gb = 30\n[machine]\nami = "{ami}"\n'
    said = submit(account, tmp_path, spec, "--dry-run").fine()
    has_lines(
        said.out,
        r"4 machines, all or nothing: 4 × g5\.xlarge on demand in us-east-1[a-f], at most \$4\.024/h together",
        r"quota L-DB2E81BA: 16 vCPUs",
        r"network: no EFA; checkpoints: all nodes restore all parts",
        r"Launch order, with the prices of all 4 machines together:",
        r"g5\.xlarge +on demand +us-east-1[a-f] +\$4\.02/h +\$4\.02/h",
        r"It can cost \$32\.19: 8h at \$4\.02/h at most, which is reserved before it begins",
    )
    assert "two checkpoints of 30 GB, the one that it restores and the next: 60 GB, and its root volume has 15 GiB" in said.err
    document = submit(account, tmp_path, spec, "--dry-run", "--json").fine().json()
    assert (document["nodes"], document["estimate"]["gang"]["vcpus"], document["estimate"]["gang"]["root_volume_gib"]) == (4, 16, 15)


def test_a_submission_says_which_network_the_machines_get(account: Account, tmp_path: Path) -> None:
    ami = image(account)

    def submitted(types: str, efa: str, *arguments: str) -> Said:
        spec = f'owner = "ada@example.com"\ncommand = "torchrun train.py"\n[gpu]\nnodes = 2\ntypes = ["{types}"]\n[spot]\nenabled = false\n'
        spec += f'[limits]\nmax_runtime = "1h"\n[checkpoint]\n[network]\nefa = "{efa}"\n[machine]\nami = "{ami}"\n'
        return submit(account, tmp_path, spec, "--yes", *arguments)

    assert "network: EFA, 1 card each, placement group; checkpoints" in submitted("g6.12xlarge", "auto", "--dry-run").fine().out
    why = r"subnet-\w+ gives public addresses only to machines with one interface"
    has_lines(submitted("p5.48xlarge", "auto", "--dry-run").fine().out, rf"network: EFA: 1 of 32 cards, because {why}, placement group; checkpoints.*")
    refused = submitted("p5.48xlarge", "required")
    assert refused.code == 1 and account.keys("inbox/") == [], refused
    has_lines(refused.out, rf".*train\.toml:\d+: key `network\.efa`: .* p5\.48xlarge would get 1 of its 32 cards with EFA: {why}.*")
    assert "would wait" not in refused.out


def test_a_cancellation_names_all_machines(account: Account) -> None:
    running(account)
    terminal = Terminal(account.environment(), "cancel", "llama")
    terminal.wait_for("[y/N]")
    assert f"and terminate {INSTANCES[0]} and 3 more (4 × g6.12xlarge)? Its checkpoint of step 120 stays." in terminal.shown
    terminal.type("\n")
    assert terminal.end() == 1


def test_a_watched_gang_is_one_row(account: Account) -> None:
    running(account)
    beat(account, 0, gpu_percent=97.0)
    beat(account, 3, gpu_percent=4.0)
    [row] = curfew(account.environment(), "watch", "--json").json()["jobs"]
    assert (row["instance"], row["members"], row["instance_type"]) == (INSTANCES[0], INSTANCES[1:], "g6.12xlarge")
    assert (row["gpu"]["percent"], row["step"], row["usd_per_hour"]) == (97.0, 120, 7.0)
    assert "4 × g6.12xlarge" in curfew(account.environment(COLUMNS="250"), "watch", "--once").out


def test_the_doctor_launches_two_in_dry_runs_alone(account: Account) -> None:
    stack = deploy(account)
    assert all(one["check"] != "gang" for one in doctor(stack).json()["checks"]) and account.aws.calls("ec2:RunInstances") == []

    def check() -> dict[str, Any]:
        [check] = [one for one in doctor(stack, "--gang").json()["checks"] if one["check"] == "gang"]
        return check

    account.aws.set_quota("L-3819A6DF", 0)
    checked = check()
    [finding] = checked["findings"]
    assert checked["state"] == "ok" and "of L-3819A6DF to be replaced after a warning without waiting; 0 are granted" in finding["found"], checked
    for action in ("ec2:RunInstances", "ec2:CreateSecurityGroup"):
        [call] = account.aws.calls(action)
        assert call["status"] == 412, "EC2 would have carried it out"
    ec2 = account.aws.client("ec2")
    assert ec2.describe_instances()["Reservations"] == [] and [one["GroupName"] for one in ec2.describe_security_groups()["SecurityGroups"]] == ["default"]
    account.aws.fault("ec2:RunInstances", "access_denied", times=None)
    denied = check()
    assert denied["state"] == "unknown" and any("ec2:RunInstances" in one["remedy"] for one in denied["findings"]), denied


def test_an_earlier_attempt_has_its_end_and_what_each_machine_did_twice(account: Account) -> None:
    """The state names only the newest launch; that of an earlier one is found by what its nodes have left."""
    stray = f"{LLAMA}/1/fedcba9876543210"
    account.put(f"attempts/{stray}/member/0.json", b"{}")
    account.put(f"attempts/{LLAMA}/1/{LAUNCH}/round/0.json", b"{}")
    for node in range(4):
        log_of(account, node, f"node {node}\n")
        beat(account, node, unsaved_seconds=600, steps_per_hour=300.0)
        exit_of(account, node, "failed" if node == 3 else "stopped", 7 if node == 3 else None, 10)
    now_running = {"attempt": 2, "launch": "00112233aabbccdd", "instance": INSTANCES[0], "members": INSTANCES[1:]}
    write(
        account,
        LLAMA,
        {"state": "running", "of": placed(**now_running)},
        terms=TERMS_OF_GANG,
        attempt=2,
        machines=2,
        used={"seconds": 10_000, "usd": 1.0},
    )
    whole = logs(account, "llama", "--whole").fine().out
    assert "[curfew] attempt 1: node 3, exit code 7 at 12:10:03 (nodes 0, 1, 2 were ended by Curfew)\n" in whole, whole
    [row] = curfew(account.environment(), "report", "--json").json()["jobs"]
    assert (row["job"], row["repeated"]) == (LLAMA, {"seconds": 4 * 600, "steps": 50})
