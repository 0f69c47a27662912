"""The Lambda stand-in, tried with a function of twenty lines that does what the event tells it."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_api import Function

FAKE = """#!{python}
import json, os, sys, time
from http.client import HTTPConnection

root = "/2018-06-01/runtime/"
api = HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])

def ask(method, path, body=None):
    api.request(method, root + path, body)
    answer = api.getresponse()
    return answer.headers, answer.read()

if "INIT_ERROR" in os.environ:
    ask("POST", "init/error", json.dumps({{"errorType": "Init", "errorMessage": os.environ["INIT_ERROR"]}}))
    sys.exit(1)
while True:
    headers, event = ask("GET", "invocation/next")
    print("got", len(event), file=sys.stderr, flush=True)
    here = "invocation/" + headers["Lambda-Runtime-Aws-Request-Id"]
    try:
        todo = json.loads(event)
    except ValueError as error:
        ask("POST", here + "/error", json.dumps({{"errorType": "Garbled", "errorMessage": str(error)}}))
        continue
    if "exit" in todo:
        sys.exit(todo["exit"])
    time.sleep(todo.get("sleep", 0))
    told = dict(pid=os.getpid(), env=dict(os.environ), headers=dict(headers), pad="x" * todo.get("pad", 0))
    ask("POST", here + "/response", json.dumps(told))
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    script = tmp_path / "fake-function"
    script.write_text(FAKE.format(python=sys.executable))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


@pytest.fixture
def function(fake: Path) -> Iterator[Function]:
    with Function(fake, env={"CURFEW_MODE": "observe", "AWS_REGION": "eu-central-1"}) as function:
        yield function


def test_the_environment_of_the_developer_stays_outside(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")

    env = function.invoke({}).response["env"]

    assert "AWS_PROFILE" not in env
    assert env["AWS_ENDPOINT_URL"] == "http://127.0.0.1:9"


def test_the_process_stays_warm_between_invocations(function: Function) -> None:
    first, second = function.invoke({}), function.invoke({})

    assert first.response["pid"] == second.response["pid"] == function.process_id
    assert second.logs == "got 2\n"


def test_a_crash_is_an_error_and_the_next_invocation_starts_anew(function: Function) -> None:
    before = function.invoke({}).response["pid"]

    crashed = function.invoke({"exit": 3})
    after = function.invoke({}).response["pid"]

    assert crashed.body is None
    assert crashed.error["errorType"] == "Runtime.ExitError"
    assert crashed.error["errorMessage"] == "Runtime exited with error: exit status 3"
    assert before != after


def test_a_function_is_killed_at_its_deadline(function: Function) -> None:
    invocation = function.invoke({"sleep": 60}, deadline_s=0.5)

    assert invocation.error["errorType"] == "Sandbox.Timedout"
    assert function.invoke({}).error is None
