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


def test_an_event_is_answered_with_what_lambda_tells_a_function(function: Function) -> None:
    invocation = function.invoke({"any": "event"}, deadline_s=30)

    told = invocation.response
    assert invocation.error is None
    assert invocation.logs == "got 16\n"
    assert told["env"]["CURFEW_MODE"] == "observe"
    assert told["env"]["AWS_REGION"] == "eu-central-1"
    assert told["env"]["AWS_LAMBDA_FUNCTION_NAME"] == "fake-function"
    assert told["headers"]["Lambda-Runtime-Aws-Request-Id"] == invocation.request_id
    assert told["headers"]["Lambda-Runtime-Invoked-Function-Arn"].endswith(":function:fake-function")
    assert told["headers"]["Lambda-Runtime-Trace-Id"].startswith("Root=")


def test_the_environment_of_the_developer_stays_outside(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")

    env = function.invoke({}).response["env"]

    assert "AWS_PROFILE" not in env
    assert env["AWS_ENDPOINT_URL"] == "http://127.0.0.1:9"


def test_the_process_stays_warm_between_invocations(function: Function) -> None:
    first, second = function.invoke({}), function.invoke({})

    assert first.response["pid"] == second.response["pid"] == function.process_id
    assert second.logs == "got 2\n"


@pytest.mark.parametrize("event", [b"", b"{", b"\xff\xfe", "no json"])
def test_garbled_events_arrive_as_they_are(function: Function, event: bytes) -> None:
    invocation = function.invoke(event)

    assert invocation.error["errorType"] == "Garbled"
    assert invocation.logs == f"got {len(event)}\n"
    assert function.invoke({}).error is None


def test_huge_events_and_answers(function: Function) -> None:
    assert len(function.invoke({"pad": 5_000_000, "filler": "x" * 5_000_000}).response["pad"]) == 5_000_000
    assert function.invoke({"pad": 7_000_000}).error["errorType"] == "Function.ResponseSizeTooLarge"


def test_a_crash_is_an_error_and_the_next_invocation_starts_anew(function: Function) -> None:
    before = function.invoke({}).response["pid"]

    crashed = function.invoke({"exit": 3})
    after = function.invoke({}).response["pid"]

    assert crashed.body is None
    assert crashed.error["errorType"] == "Runtime.ExitError"
    assert crashed.error["errorMessage"] == "Runtime exited with error: exit status 3"
    assert before != after


def test_an_init_error_is_the_answer_to_an_invocation(fake: Path) -> None:
    with Function(fake, env={"INIT_ERROR": "CURFEW_BUCKET is not set"}) as function:
        invocation = function.invoke({})

        assert invocation.error["errorMessage"] == "CURFEW_BUCKET is not set"
        with pytest.raises(AssertionError, match="CURFEW_BUCKET is not set"):
            invocation.response  # noqa: B018


def test_waiting_for_a_function_that_cannot_start_fails(fake: Path) -> None:
    with Function(fake, env={"INIT_ERROR": "no"}) as function:
        with pytest.raises(AssertionError, match="not ready: exit status 1"):
            function.wait_until_ready()


def test_a_ready_function_says_how_long_it_took(function: Function) -> None:
    function.wait_until_ready()

    assert 0 < function.init_seconds < 10


def test_a_function_is_killed_at_its_deadline(function: Function) -> None:
    invocation = function.invoke({"sleep": 60}, deadline_s=0.5)

    assert invocation.error["errorType"] == "Sandbox.Timedout"
    assert function.invoke({}).error is None


def test_a_test_does_not_wait_for_ever(function: Function) -> None:
    with pytest.raises(TimeoutError):
        function.invoke({"sleep": 60}, patience_s=0.5)


def test_nothing_is_left_behind(fake: Path) -> None:
    with Function(fake, env={}) as function:
        function.invoke({})
        process_id = function.process_id

    assert not Path(f"/proc/{process_id}").exists()
