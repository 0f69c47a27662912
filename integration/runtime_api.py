"""A stand-in for Lambda: runs a real function binary under the Runtime API on a loopback port.

    with Function(Path("target/debug/reap-instances"), env={"CURFEW_MODE": "observe", ...}) as function:
        invocation = function.invoke({"source": "aws.events", ...})
        assert invocation.response["seen"] == 3

As in Lambda, a function that crashes, that cannot start, or that outlives its deadline is an invocation with an
error, not an exception; the next invocation starts a new process. Source: "Using the Lambda runtime API for custom
runtimes" and "Lambda execution environment" (AWS Lambda Developer Guide).
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Union

from blocking_server import BlockingServer
from moved_clock import MovedClock

_ROOT = "/2018-06-01/runtime"
_OUTCOME_PATH = re.compile(rf"{_ROOT}/invocation/(?P<id>[^/]+)/(?P<kind>response|error)")
_RESPONSE_MAX_BYTES = 6 * 1024 * 1024  # "Lambda quotas": synchronous invocation payload
_INIT_SECONDS = 10.0  # "Lambda runtime environment lifecycle": the limit of the init phase
_SETTLE_SECONDS = 30.0  # at most, for the function to ask for its next event, and so to have written its logs
_STOP_SECONDS = 2.0
INVOKED = "curfew.invoked"  # the audit event of each invocation, with the executable

Event = Union[bytes, str, dict[str, Any], list[Any]]


@dataclass(frozen=True)
class Invocation:
    """The result of one event: exactly one of `body` and `error`."""

    request_id: str
    body: bytes | None  # as the function sent it
    error: dict[str, Any] | None  # errorType, errorMessage
    logs: str  # stdout and stderr since the last invocation
    seconds: float  # from the hand-over of the event to the answer

    @property
    def response(self) -> Any:
        """The decoded answer. A failed invocation has none: the assertion shows why it failed."""
        assert self.body is not None, f"the function failed: {self.error}\n{self.logs}"
        return json.loads(self.body)


class _Task(NamedTuple):
    request_id: str
    event: bytes
    deadline_ms: int


class _Outcome(NamedTuple):
    kind: str  # response, error, init-error, exit
    request_id: str | None
    body: bytes


class Function:
    """One execution environment: at most one process, one invocation at a time."""

    def __init__(
        self,
        binary: Path,
        env: dict[str, str],
        name: str | None = None,
        memory_mb: int = 128,
        clock: MovedClock | None = None,
    ) -> None:
        self.binary = Path(binary)
        self.clock = clock  # the process's own, if not the machine's
        self.name = name or self.binary.name
        self.memory_mb = memory_mb
        self.env = dict(env)
        self._process: subprocess.Popen | None = None
        self._api: _RuntimeApi | None = None
        self._log = tempfile.TemporaryFile()  # a file, not a pipe: what was written is there at once
        self._log_read = 0

    def __enter__(self) -> Function:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._log.close()

    @property
    def init_seconds(self) -> float | None:
        """From the start of the process to its first poll; None before that."""
        return self._api.init_seconds if self._api else None

    @property
    def process_id(self) -> int:
        assert self._process is not None, "the function has not been started"
        return self._process.pid

    def wait_until_ready(self, timeout_s: float = 120) -> None:
        """Waits for the first poll; fails if the process ends, or fails to start, before it."""
        assert self._api is not None, "the function has not been started"
        outcome = self._api.wait_until_idle(timeout_s)
        if outcome != "idle":
            raise AssertionError(f"{self.name} is not ready: {outcome}\n{self._new_logs()}")

    def invoke(self, event: Event, deadline_s: float = 900, timeout_s: float = 180) -> Invocation:
        """Hands the function one event: bytes and text as they are, anything else as JSON.

        `deadline_s` is what the function is told, and it is killed then; `timeout_s` is how long the test waits
        for it at most, before that is a failure of the test.
        """
        if self._process is None or self._process.poll() is not None:
            self._start()
        sys.audit(INVOKED, str(self.binary.resolve()))
        api, request_id = self._api, str(uuid.uuid4())
        api.wait_until_idle(_INIT_SECONDS)  # as in Lambda, starting is not part of the invocation
        began = time.monotonic()
        deadline = time.time() + deadline_s + (self.clock.moved_by_seconds if self.clock else 0)
        api.tasks.put(_Task(request_id, _encoded(event), int(deadline * 1000)))
        try:
            outcome = api.outcomes.get(timeout=min(deadline_s, timeout_s))
        except queue.Empty:
            self._stop()
            if timeout_s < deadline_s:
                raise TimeoutError(f"{self.name} did not answer in {timeout_s} s\n{self._new_logs()}") from None
            outcome = _failure("Sandbox.Timedout", f"Task timed out after {deadline_s:.2f} seconds")
        seconds = time.monotonic() - began
        api.wait_until_idle(_SETTLE_SECONDS)
        return self._invocation(request_id, outcome, seconds)

    def _invocation(self, request_id: str, outcome: _Outcome, seconds: float) -> Invocation:
        logs = self._new_logs()
        if outcome.kind == "response" and len(outcome.body) > _RESPONSE_MAX_BYTES:
            outcome = _failure("Function.ResponseSizeTooLarge", f"the response has {len(outcome.body)} bytes")
        if outcome.kind == "response":
            return Invocation(request_id, outcome.body, None, logs, seconds)
        if outcome.kind == "exit":
            outcome = _failure("Runtime.ExitError", f"Runtime exited with error: {outcome.body.decode()}")
        return Invocation(request_id, None, json.loads(outcome.body), logs, seconds)

    def _start(self) -> None:
        self._stop()
        self._api = _RuntimeApi(self.name)
        self._process = subprocess.Popen(
            [str(self.binary.resolve())],
            env=self.environment(self._api.address),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._api.watch(self._process)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._api is not None:
            self._api.close()

    def _new_logs(self) -> str:
        text = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, self._log_read)
        self._log_read += len(text)
        return text.decode("utf-8", "replace")

    def environment(self, address: str) -> dict[str, str]:
        """What the process gets, with the Runtime API at this address. Nothing is inherited but PATH: a developer's AWS
        profile must not reach the function."""
        return {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "LAMBDA_TASK_ROOT": str(self.binary.resolve().parent),
            "_HANDLER": "bootstrap",
            "AWS_LAMBDA_RUNTIME_API": address,
            "AWS_LAMBDA_FUNCTION_NAME": self.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.memory_mb),
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{self.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": "local",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_SESSION_TOKEN": "testing",
            # Overridden by env; without it nothing may reach the real AWS. Port 9 is "discard".
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
            **(self.clock.environment() if self.clock else {}),
            **self.env,
        }


class _Server(BlockingServer, ThreadingHTTPServer):
    pass


class _RuntimeApi:
    """The Runtime API of one process. A new process gets a new one, so that no late request is mistaken."""

    def __init__(self, function_name: str) -> None:
        self.function_arn = f"arn:aws:lambda:us-east-1:123456789012:function:{function_name}"
        self.tasks: queue.Queue[_Task | None] = queue.Queue()
        self.outcomes: queue.Queue[_Outcome] = queue.Queue()
        self.telling = threading.Lock()
        self.init_seconds: float | None = None
        self._state = "starting"  # then idle, busy, idle, ..., and at last why it ended
        self._changed = threading.Condition()
        self._began = time.monotonic()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def watch(self, process: subprocess.Popen) -> None:
        """Turns the end of the process into an outcome."""

        def wait() -> None:
            code = process.wait()
            told = f"exit status {code}" if code >= 0 else f"signal {-code}"
            with self.telling:  # what it said before it ended comes first
                self.outcomes.put(_Outcome("exit", None, told.encode()))
            self._become(told)

        threading.Thread(target=wait, daemon=True).start()

    def next_task(self) -> _Task | None:
        if self.init_seconds is None:
            self.init_seconds = time.monotonic() - self._began
        self._become("idle")
        task = self.tasks.get()
        self._become("busy")
        return task

    def wait_until_idle(self, timeout_s: float) -> str:
        """Answers `idle`, or why it will never be, or where it was when the time was over."""
        with self._changed:
            self._changed.wait_for(lambda: self._state not in ("starting", "busy"), timeout_s)
            return self._state

    def close(self) -> None:
        self.tasks.put(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _become(self, state: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()


def _handler(api: _RuntimeApi) -> type:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            if self.path != f"{_ROOT}/invocation/next":
                return self._answer(404, b"{}")
            task = api.next_task()
            if task is None:  # the environment is being taken down
                self.close_connection = True
                return None
            return self._answer(
                200,
                task.event,
                ("Lambda-Runtime-Aws-Request-Id", task.request_id),
                ("Lambda-Runtime-Deadline-Ms", str(task.deadline_ms)),
                ("Lambda-Runtime-Invoked-Function-Arn", api.function_arn),
                ("Lambda-Runtime-Trace-Id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0"),
            )

        def do_POST(self) -> None:
            if "Content-Length" not in self.headers:
                return self._answer(411, b"{}")
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found = _OUTCOME_PATH.fullmatch(self.path)
            if found:
                outcome = _Outcome(found["kind"], found["id"], body)
            elif self.path == f"{_ROOT}/init/error":
                outcome = _Outcome("init-error", None, body)
            else:
                return self._answer(404, b"{}")
            # First the answer: after an init error the function may be stopped at once.
            with api.telling:
                self._answer(202, b'{"status":"OK"}')
                api.outcomes.put(outcome)
            return None

        def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in (*headers, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler


def _failure(error_type: str, message: str) -> _Outcome:
    return _Outcome("error", None, json.dumps({"errorType": error_type, "errorMessage": message}).encode())


def _encoded(event: Event) -> bytes:
    if isinstance(event, bytes):
        return event
    return event.encode() if isinstance(event, str) else json.dumps(event).encode()
