"""`curfew jobs`: where jobs stand, by their documents in the state bucket."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from command import Said, curfew
from reaping import BUCKET, Account, ago, now, rfc3339
from terminal import Terminal

LLAMA = "vision/llama-1a2b3c4d"
BERT = "nlp/bert-5e6f7a8b"
OLD = "vision/llama-99999999"
MACHINE = "i-0123456789abcdef0"

TERMS = {
    "tags": {},
    "gpu": {"count": 1, "memory_gib_min": 0, "types": ["g5.xlarge"]},
    "spot": {"max_rate": None, "fallback_to_on_demand_after_seconds": 7200},
    "max_runtime_seconds": 28_800,
    "finish_by": None,
    "max_usd": 120.0,
    "checkpoint": {"dir": "/var/curfew/checkpoints", "every_seconds": 900, "keep": 3, "signal": "SIGTERM"},
    "machine": {
        **{"regions": [], "ami": None, "subnets": [], "security_groups": []},
        **{"instance_profile": None, "root_volume_gib": None},
    },
}


def jobs(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), "jobs", *arguments)


def placed(attempt: int = 1, **fields: Any) -> dict[str, Any]:
    """Two hours old, six hours before its end."""
    return {
        **{"instance": MACHINE, "region": "us-east-1", "zone": "us-east-1a", "type": "g5.xlarge", "lifecycle": "spot"},
        **{"rate_max": 1.006, "rate": 0.41, "attempt": attempt, "candidate": 0},
        **{"launched_at": rfc3339(ago(hours=2)), "ends_at": rfc3339(now() + timedelta(hours=6, minutes=1))},
        **fields,
    }


def ended(result: str = "succeeded", why: str = "the command ended with success", **fields: Any) -> dict[str, Any]:
    at = rfc3339(ago(hours=1))
    over = {"result": result, "why": why, "at": at, "machine": None, "released": True, "closed": True, **fields}
    return {"state": "ended", "of": over}


def write(account: Account, job: str, phase: dict[str, Any], active: bool = True, **fields: Any) -> None:
    document = {
        **{"schema": 1, "job": job, "owner": "ada", "terms": TERMS, "submitted_at": rfc3339(ago(hours=3)), "attempt": 1, "machines": 1},
        **{"phase": phase, "previous_attempt": None, "used": {"seconds": 0, "usd": 0.0}},
        **{"progress": {"step": None, "attempts_without": 0}, "reserved": None, "ranking": None},
        **{"unplaced_since": None, "notified": None},
        **fields,
    }
    account.put(f"jobs/{job}/state.json", json.dumps(document).encode())
    if active:
        account.put(f"active/{job}", b'{"schema":1}')


def running(account: Account, job: str = LLAMA, attempt: int = 1, **fields: Any) -> None:
    phase = {"state": "running", "of": placed(attempt)}
    write(account, job, phase, **{"attempt": attempt, "machines": attempt, **fields})


def leave(account: Account, job: str, name: str, **document: Any) -> None:
    account.put(f"attempts/{job}/{name}", json.dumps({"schema": 1, **document}).encode())


def test_unfinished_jobs_are_listed_newest_first(account: Account) -> None:
    running(account, progress={"step": 1200, "attempts_without": 0})
    leave(account, LLAMA, "1/heartbeat.json", at=rfc3339(now()), attempt=1, step=1200, doing="running", work={"step_seconds": 1860})
    held = {"by": "budget", "why": "the budget of nlp is spent", "until": rfc3339(now() + timedelta(minutes=5)), "passes": 0}
    write(account, BERT, {"state": "held", "of": held}, attempt=0, machines=0, submitted_at=rfc3339(ago(hours=1)))
    write(account, OLD, ended(), active=False)
    account.aws.clear_calls()
    heading, bert, llama = jobs(account).fine().out.splitlines()
    assert sorted(call["action"] for call in account.aws.calls()) == [*["s3:GetObject"] * 3, "s3:ListObjectsV2"]
    assert heading.split() == "job state attempts machine type step ran cost at most energy until why".split()
    assert re.fullmatch(rf"{BERT} +held +0 +- +- +- +0s +\$0\.00 +- +in 4m(\d+s)? +the budget of nlp is spent", bert), bert
    assert re.fullmatch(rf"{LLAMA} +running +1 +{MACHINE} +g5\.xlarge +1200, 31m(\d+s)? ago +2h(\d+s)? +\$2\.0[1-3] +\S+(-\S+)? k?Wh +in 6h\w* *", llama), llama


def test_a_narrow_terminal_keeps_the_reason_and_says_what_is_left_out(account: Account) -> None:
    running(account, attempt=2, lost="heartbeat-stopped")
    said = curfew(account.environment(COLUMNS="120"), "jobs").fine()
    heading, row = said.out.splitlines()
    assert heading.split() == "job state attempts machine step ran cost at most until why".split() and "the previous machine" in row
    assert len(row) <= 120 and "The terminal is too narrow for: type, energy" in said.err


def test_all_of_a_team(account: Account) -> None:
    running(account)
    running(account, BERT)
    write(account, OLD, ended("expired", "of its max_runtime nothing is left"), active=False)
    lines = jobs(account, "--all", "--team", "vision").fine().out.splitlines()[1:]
    assert [line.split()[:2] for line in lines] == [[LLAMA, "running"], [OLD, "expired"]]
    assert len(jobs(account, "--team", "vision").fine().out.splitlines()) == 2
    said = jobs(account, "--team", "nlpp").fine()
    assert "There are no jobs" in said.out and "there are no jobs of a team nlpp; there are of nlp, vision" in said.err
    assert len(jobs(account, "--all").fine().out.splitlines()) == 4
    listed = jobs(account, "--team", "vision", "--json").fine().json()
    [job] = listed["jobs"]
    assert (listed["schema"], job["job"], job["state"], job["over"], job["step"]) == (1, LLAMA, "running", False, None)
    assert job["machine"]["instance"] == MACHINE and 2.0 < job["cost_usd_max"] < 2.1
    one = jobs(account, LLAMA, "--json").fine().json()
    assert (one["schema"], one["state"], one["terms"]["max_usd"], one["head"], one["problems"]) == (1, "running", 120, None, [])


def test_the_machine_is_named_after_the_end(account: Account) -> None:
    write(account, OLD, ended(), active=False, last_machine=placed())
    [row] = jobs(account, "--all").fine().out.splitlines()[1:]
    assert row.split()[3:5] == [MACHINE, "g5.xlarge"], row
    shown = jobs(account, OLD).fine().out
    assert re.search(rf"^machine +{MACHINE} \(g5\.xlarge on Spot, us-east-1a\); it is gone$", shown, re.MULTILINE), shown
    listed = jobs(account, "--all", "--json").fine().json()["jobs"][0]
    assert listed["machine"] is None and listed["last_machine"]["instance"] == MACHINE


def test_a_sweep_is_one_row(account: Account) -> None:
    submitted_at = rfc3339(ago(hours=3))

    def member(number: int) -> dict[str, Any]:
        return {"submitted_at": submitted_at, "sweep": {"number": number, "parameters": [["seed", str(number)]]}}

    names = [f"vision/tune-000{number}-1a2b3c4d" for number in (1, 2, 3)]
    for number in (1, 2):
        running(account, names[number - 1], **member(number))
    write(account, names[2], ended("failed", "boom"), active=False, **member(3))
    running(account, submitted_at=rfc3339(ago(hours=1)))
    said = jobs(account).fine()
    _, llama, tune = said.out.splitlines()
    assert llama.split()[0] == LLAMA
    why = "a sweep; its jobs: curfew jobs tune-1a2b3c4d"
    assert re.fullmatch(rf"vision/tune-1a2b3c4d +2 running +- +- +- +- +4h(1m)?(\d+s)? +\$4\.0\d +- +- +{why}", tune), tune
    assert "Details:  curfew jobs vision/tune-1a2b3c4d  (the jobs of a sweep)" in said.err
    assert "each sweep as one row" in jobs(account, "--help").fine().out
    assert "1 failed" not in said.out and "2 running, 1 failed" in jobs(account, "--all").fine().out
    assert [job["job"] for job in jobs(account, "--json").fine().json()["jobs"]] == [LLAMA, *names[:2]]
    plan = {"parameters": [{"name": "seed", "values": ["1", "2", "3"]}], "combine": "product", "max_parallel": None, "max_usd": None}
    document = {"schema": 1, "sweep": "vision/tune-1a2b3c4d", "owner": "ada", "terms": TERMS, "plan": plan, "submitted_at": rfc3339(ago(hours=3))}
    account.put("jobs/vision/tune-1a2b3c4d/sweep.json", json.dumps(document).encode())
    assert "2 running of 3 " in jobs(account).fine().out and " of 3 " not in jobs(account, "--all").fine().out


def has_lines(out: str, *patterns: str) -> None:
    for line in patterns:
        assert re.search(rf"^{line}$", out, re.MULTILINE), (line, out)


def test_a_job_in_full(account: Account) -> None:
    lost = placed(1, instance="i-0fedcba9876543210")
    running(account, attempt=2, lost="heartbeat-stopped", previous_attempt=lost, used={"seconds": 3600, "usd": 1.0})
    leave(account, LLAMA, "head.json", attempt=2, checkpoint={"attempt": 1, "step": 900})
    beat = {"at": rfc3339(now()), "attempt": 2, "step": 1234, "steps_per_hour": 350.4, "doing": "running"}
    leave(account, LLAMA, "2/heartbeat.json", **beat)
    account.put(f"jobs/{LLAMA}/cancel.json", json.dumps({"schema": 1, "at": "2026-11-22T05:00:00Z", "by": "bob"}).encode())
    out = jobs(account, "llama").fine().out
    has_lines(
        out,
        rf"{LLAMA}: running",
        r"why +the previous machine stopped sending heartbeats for .*",
        r"owner +ada",
        rf"machine +{MACHINE} \(g5\.xlarge on Spot, us-east-1a\), \$0\.41/h at launch and \$1\.01/h at most, since .* UTC",
        r"previous +i-0fedcba9876543210 .* not terminated yet",
        r"heartbeat +\d+s ago: running, at step 1234, 350 steps an hour",
        r"checkpoint +step 900, of attempt 1",
        r"ran +3h(\d+s)? at most",
        r"cost +\$3\.0[1-3] at most",
        r"ends by +.* UTC \(in 6h\w*\)",
        r"cancelled +2026-11-22 05:00 UTC by bob; its machine is terminated next",
        r"requested +1 GPU \(g5\.xlarge\) on Spot, after 2h on demand, for 8h at most, \$120\.00 at most",
    )


def test_a_job_shows_where_it_comes_from_and_its_outputs(account: Account) -> None:
    job = "vision/tune-0002-1a2b3c4d"
    terms = {**TERMS, "checkpoint": {**TERMS["checkpoint"], "resume_from": "llama-99999999"}}
    write(account, job, ended(), active=False, terms=terms, sweep={"number": 2, "parameters": [["lr", "1e-4"], ["seed", "2"]]})
    spec = 'command = "true"\nowner = "ada"\nenv = { TRIGGER_KEY = "new/a.csv", OTHER = "x" }\n[machine]\noutputs = ["/out"]\n'
    account.put(f"jobs/{job}/spec.toml", spec.encode())
    result = {"succeeded": True, "code": 0, "why": "", "at": rfc3339(ago(hours=1))}
    leave(account, job, "head.json", attempt=3, result=result)
    out = jobs(account, "tune-0002").fine().out
    has_lines(
        out,
        r"sweep +vision/tune-1a2b3c4d, job 2",
        r"parameters +lr=1e-4, seed=2",
        r"trigger +TRIGGER_KEY=new/a\.csv",
        r"resume_from +the newest checkpoint of vision/llama-99999999",
        rf"outputs +s3://{BUCKET}/outputs/{job}/3/",
    )
    assert "OTHER" not in out
    shown = jobs(account, job, "--json").fine().json()
    assert (shown["trigger"], shown["outputs"]) == ({"TRIGGER_KEY": "new/a.csv"}, f"s3://{BUCKET}/outputs/{job}/3/")


def test_warnings_of_the_agent_are_shown(account: Account) -> None:
    running(account)
    beat = {"at": rfc3339(now()), "attempt": 1, "step": 10, "steps_per_hour": None, "doing": "running"}
    troubles = [{"kind": "disk", "words": "the disk is\u001b[2J nearly full"}, {"kind": "damaged", "words": "step 15 is damaged"}]
    leave(account, LLAMA, "1/heartbeat.json", **beat, warnings=troubles)
    out = jobs(account, LLAMA).fine().out
    assert re.findall(r"^warning +(.*)$", out, re.MULTILINE) == ["step 15 is damaged", "the disk is [2J nearly full"]
    assert jobs(account, LLAMA, "--json").fine().json()["heartbeat"]["warnings"] == [troubles[1], {"kind": "disk", "words": "the disk is [2J nearly full"}]
    leave(account, LLAMA, "1/heartbeat.json", **beat)
    assert not re.search("^warning ", jobs(account, LLAMA).fine().out, re.MULTILINE)
    account.put(f"attempts/{LLAMA}/1/heartbeat.json", b"{")
    said = jobs(account, LLAMA)
    assert said.code == 2 and "its heartbeat cannot be read: " in said.err and not re.search("^heartbeat ", said.out, re.MULTILINE)


def test_a_step_has_its_age_and_idle_gpus_are_named(account: Account) -> None:
    running(account, progress={"step": 7, "attempts_without": 0})
    beat = {"at": rfc3339(ago(hours=9)), "attempt": 1, "step": 7, "doing": "running"}
    leave(account, LLAMA, "1/heartbeat.json", **beat, work={"step_seconds": 1860, "gpu_idle_seconds": 7200})
    out = jobs(account, LLAMA).fine().out
    assert re.search(r"^heartbeat +\d+s ago: running, at step 7, 31m(\d+s)? ago, every GPU idle for 2h$", out, re.MULTILINE), out
    # An age that cannot be, and one that is not known.
    leave(account, LLAMA, "1/heartbeat.json", **beat, work={"step_seconds": 2**64 - 1, "gpu_idle_seconds": 0})
    assert "at step 7, 366d ago\n" in jobs(account, LLAMA).fine().out
    leave(account, LLAMA, "1/heartbeat.json", **beat)
    assert "at step 7\n" in jobs(account, LLAMA).fine().out
    stall = {"kind": "stalled", "words": "no new checkpoint for 31m"}
    leave(account, LLAMA, "1/heartbeat.json", **beat, warnings=[stall], work={"stalled_seconds": 3600})
    out = jobs(account, LLAMA).fine().out
    assert re.search(r"^warning +no new checkpoint for 31m\. Its machine costs \$\d\.\d\d/h, which is \$\d\.\d\d for that time; the job", out, re.MULTILINE), out
    assert jobs(account, "--json").fine().json()["jobs"][0]["step_at"] is None


@pytest.mark.parametrize(("result", "code"), [("succeeded", 0), ("failed", 1)])
def test_the_result_of_a_job_is_the_exit_code(account: Account, result: str, code: int) -> None:
    write(account, OLD, ended(result, "so it was"), active=False)
    leave(account, OLD, "1/exit.json", attempt=1, at=rfc3339(ago(hours=1)), reason="failed", code=3, why="boom")
    said = jobs(account, OLD)
    assert said.code == code and said.out.startswith(f"{OLD}: {result}\n"), said
    assert re.search(r"^last exit +attempt 1 at .* UTC, exit code 3\nreason +boom$", said.out, re.MULTILINE)
    assert not re.search("^heartbeat ", said.out, re.MULTILINE)


def test_a_watched_job_is_shown_until_it_has_ended(account: Account) -> None:
    running(account)
    trend = {"percent": [0, 50, 100, None], "memory_mib": [2048, 20480], "watts": []}
    leave(account, LLAMA, "1/heartbeat.json", at=rfc3339(now()), attempt=1, doing="running", trend=trend)
    terminal = Terminal(account.environment(NO_COLOR="1"), "jobs", "llama", "--watch")
    terminal.wait_for("Ctrl-C leaves this screen")
    assert re.search(r"GPU use +▁▄█  unknown\s", terminal.shown) and re.search(r"GPU memory +▁█ 20480 MiB\s", terminal.shown)
    assert "ends by" in terminal.shown and "GPU power" not in terminal.shown
    write(account, LLAMA, ended("failed", "boom"), active=False)
    assert terminal.end() == 1 and f"{LLAMA}: failed" in terminal.shown
    said = jobs(account, "llama", "--watch")
    assert said.code == 2 and "--watch needs a terminal" in said.err


def test_progress_is_shown_where_the_goal_is_known(account: Account) -> None:
    running(account, terms={**TERMS, "checkpoint": {**TERMS["checkpoint"], "total_steps": 4000}})
    leave(account, LLAMA, "1/heartbeat.json", at=rfc3339(now()), attempt=1, step=1000, steps_per_hour=1000.0, doing="running")
    out = jobs(account, "llama").fine().out
    line = r"progress +\[#####-{15}\] 25 %, step 1000 of 4000, 1000 steps an hour, 3h left, \$5\.0[3-5] at most by then"
    assert re.search(rf"^{line}$", out, re.MULTILINE), out
    assert jobs(account, "llama", "--json").fine().json()["completion"]["seconds_left"] == 10_800
    running(account, progress={"step": 900, "attempts_without": 0}, terms={**TERMS, "checkpoint": {**TERMS["checkpoint"], "total_steps": 4000}})
    assert "900 of 4000" in jobs(account).fine().out


def test_a_shell_is_opened_by_session_manager(account: Account, tmp_path: Path) -> None:
    """Only the call is tried: no session can be opened here."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "aws").write_text('#!/bin/sh\necho "$@"; exit 3\n')
    (programs / "aws").chmod(0o755)
    running(account)
    environment = account.environment(PATH=str(programs))
    said = curfew(environment, "ssh", "llama")
    assert (said.code, said.out) == (3, f"ssm start-session --target {MACHINE} --region us-east-1\n"), said
    assert "  curfew team create vision\n" in said.err
    account.configure(jobs={"ssh": False})
    forbidden = curfew(environment, "ssh", "llama")
    assert (forbidden.code, forbidden.out) == (2, "") and "[jobs] ssh = false" in forbidden.err
    account.configure(jobs={"ssh": True})
    (programs / "aws").unlink()
    missing = curfew(environment, "ssh", "llama")
    assert missing.code == 2 and "the AWS CLI is not installed" in missing.err
