"""How a machine fetches its agent: by the AWS CLI, or by curl with the credentials of its role, and never anything but the agent."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from booting import RECORDER, SHELLS, Machine, identity_with, machine_with, user_data

AGENT = b"#!/bin/sh\nexit 0\n" + bytes(range(256))
IDENTITY = identity_with(AGENT)
SHA256 = IDENTITY["agent_sha256"]
PLACE = "usr/local/bin/curfew-agent"
# As a role's are: letters that mean something to a URL.
KEY_ID, SECRET, SESSION = "ASIAEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "IQoJb3JpZ2luX2Vj/+aA=="
TRIES_MAX = 10


class Aws(ThreadingHTTPServer):
    """The metadata service and S3, both of one port. S3 believes only what is signed (AWS Signature Version 4)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.failures = 0
        self.metadata = True
        self.asked: list[str] = []
        self.refused: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Aws

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_PUT(self) -> None:
        self.server.asked.append(f"PUT {self.path}")
        seconds = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        granted = self.server.metadata and self.path == "/latest/api/token" and 1 <= int(seconds or 0) <= 21600
        self.answer(200 if granted else 403, b"token-1")

    def do_GET(self) -> None:
        self.server.asked.append(f"GET {self.path}")
        if self.path.startswith("/latest/"):
            self.answer(*self.of_metadata())
        elif (why := self.unsigned()) is not None:
            self.server.refused.append(why)
            self.answer(403, why.encode())
        elif self.server.failures > 0:
            self.server.failures -= 1
            self.answer(503, b"slow down")
        elif (found := self.server.objects.get(self.path)) is not None:
            self.answer(200, found)
        else:
            self.answer(404, b"no such key")

    def of_metadata(self) -> tuple[int, bytes]:
        """EC2 user guide, "Retrieve security credentials from instance metadata"."""
        if self.headers.get("X-aws-ec2-metadata-token") != "token-1":
            return 401, b""
        at = "/latest/meta-data/iam/security-credentials/"
        said = (
            f'{{\n  "Code" : "Success",\n  "Type" : "AWS-HMAC",\n  "AccessKeyId" : "{KEY_ID}",\n'
            f'  "SecretAccessKey" : "{SECRET}",\n  "Token" : "{SESSION}",\n  "Expiration" : "2026-11-22T23:00:00Z"\n}}'
        )
        return {at: (200, b"curfew-job"), f"{at}curfew-job": (200, said.encode())}.get(self.path, (404, b""))

    def unsigned(self) -> str | None:
        """Why S3 would refuse it: the AWS SDK signs the same request otherwise."""
        signed = re.search("SignedHeaders=([^,]+)", self.headers.get("Authorization", ""))
        if signed is None:
            return "not signed"
        names = signed[1].split(";")
        if missing := ({name.lower() for name in self.headers if name.lower().startswith("x-amz-")} | {"host"}) - set(names):
            return f"not signed: {missing}"
        request = AWSRequest("GET", self.server.url + self.path, {name: self.headers[name] for name in names})
        request.context["timestamp"] = self.headers["x-amz-date"]
        sdk = S3SigV4Auth(Credentials(KEY_ID, SECRET, SESSION), "s3", "eu-west-1")
        right = sdk.signature(sdk.string_to_sign(request, sdk.canonical_request(request)), request)
        expected = f"AWS4-HMAC-SHA256 Credential={sdk.scope(request)}, SignedHeaders={signed[1]}, Signature={right}"
        is_same = re.findall("[^, ]+", self.headers["Authorization"]) == re.findall("[^, ]+", expected)
        return None if is_same and self.headers["x-amz-security-token"] == SESSION else f"{self.headers['Authorization']}, not {expected}"

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def told() -> bytes:
    return user_data(IDENTITY)


@pytest.fixture
def aws_server() -> Iterator[Aws]:
    with Aws() as server:
        server.objects[f"/curfew-state/agent/{SHA256}"] = AGENT
        yield server
        server.shutdown()


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path, told: bytes) -> Iterator[Machine]:
    """One that knows who it is, and has curl, of which each call is told, and no AWS CLI."""
    with machine_with(request.param, tmp_path, told) as machine:
        machine.clock = 0
        machine.tool("curl", RECORDER + f'exec {shutil.which("curl")} "$@"\n')
        assert machine.run("setup").returncode == 0
        yield machine


def fetch(machine: Machine, aws: Aws, *, expect: int = 0) -> str:
    """Runs the script as the service does, and gives what it said."""
    at = {"AWS_ENDPOINT_URL": aws.url + "/", "AWS_EC2_METADATA_SERVICE_ENDPOINT": aws.url + "/"}
    ended = machine.run("etc/curfew/fetch-agent", env=at)
    assert ended.returncode == expect, ended.stderr
    assert not (machine.root / f"{PLACE}.new").exists()
    return ended.stderr


def is_there(machine: Machine) -> bool:
    agent = machine.root / PLACE
    return agent.exists() and agent.read_bytes() == AGENT and agent.stat().st_mode & 0o777 == 0o755


def command_line(machine: Machine, ending: str) -> None:
    """An AWS CLI that ends so, after it wrote what `$CURFEW_ROOT/served` holds."""
    machine.tool("aws", RECORDER + f'for last in "$@"; do :; done\ncat "$CURFEW_ROOT/served" >"$last"\n{ending}\n')


def test_by_curl_with_the_credentials_of_the_role(machine: Machine, aws_server: Aws) -> None:
    (machine.root / PLACE).parent.mkdir(parents=True)
    (machine.root / PLACE).write_bytes(b"of another attempt")
    fetch(machine, aws_server)
    assert aws_server.refused == []
    assert is_there(machine)
    assert aws_server.asked == [
        "PUT /latest/api/token",
        "GET /latest/meta-data/iam/security-credentials/",
        "GET /latest/meta-data/iam/security-credentials/curfew-job",
        f"GET /curfew-state/agent/{SHA256}",
    ]
    said = machine.said("curl")
    assert len(said) == 4 and not any(secret in call for call in said for secret in (SECRET, SESSION))
    aws_server.asked.clear()
    fetch(machine, aws_server)
    assert aws_server.asked == [], "one that is there is not fetched again"


def test_by_the_command_line_where_there_is_one(machine: Machine, aws_server: Aws) -> None:
    (machine.root / "served").write_bytes(AGENT)
    command_line(machine, "exit 0")
    fetch(machine, aws_server)
    assert is_there(machine)
    options = f"--only-show-errors --region eu-west-1 --endpoint-url {aws_server.url}/"
    assert machine.said("aws") == [f"aws s3 cp {options} s3://curfew-state/agent/{SHA256} {machine.root}/{PLACE}.new"]
    assert machine.calls("curl") == []


def test_by_curl_where_the_command_line_fails(machine: Machine, aws_server: Aws) -> None:
    (machine.root / "served").write_bytes(b"half of")
    command_line(machine, "exit 1")
    fetch(machine, aws_server)
    assert is_there(machine)
    assert len(machine.calls("aws")) == 1


@pytest.mark.parametrize(
    ("env", "host"),
    [
        ({}, "s3.eu-west-1.amazonaws.com"),
        ({"AWS_USE_FIPS_ENDPOINT": "True"}, "s3-fips.eu-west-1.amazonaws.com"),
        ({"AWS_ENDPOINT_URL": "https://all", "AWS_ENDPOINT_URL_S3": "https://own"}, "own"),
        ({"AWS_ENDPOINT_URL": "https://all", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, "s3.eu-west-1.amazonaws.com"),
    ],
)
def test_it_asks_the_endpoint_that_the_environment_names(machine: Machine, aws_server: Aws, env: dict[str, str], host: str) -> None:
    machine.tool("curl", RECORDER + f'case "$*" in *https:*) exit 6 ;; esac\nexec {shutil.which("curl")} "$@"\n')
    machine.run("etc/curfew/fetch-agent", env={"AWS_EC2_METADATA_SERVICE_ENDPOINT": aws_server.url, **env})
    calls = [call.arguments for call in machine.calls("curl") if call.arguments[-1].startswith("https:")]
    assert {call[-1] for call in calls} == {f"https://{host}/curfew-state/agent/{SHA256}"}
    assert all(call[call.index("-A") + 1] == "app/curfew" for call in calls)


@pytest.mark.parametrize("by_command_line", [True, False])
def test_an_agent_with_another_sha256_is_never_installed(machine: Machine, aws_server: Aws, by_command_line: bool) -> None:
    aws_server.objects = {path: b"malice" for path in aws_server.objects}
    if by_command_line:
        (machine.root / "served").write_bytes(b"malice")
        command_line(machine, "exit 0")
    said = fetch(machine, aws_server, expect=1)
    assert said.count("its SHA-256 is not its name") == TRIES_MAX
    assert not (machine.root / PLACE).exists()


def test_it_tries_again_after_a_pause(machine: Machine, aws_server: Aws) -> None:
    aws_server.failures = 3
    assert fetch(machine, aws_server).count("could not be fetched") == 3
    assert is_there(machine)
    assert machine.said("sleep") == ["sleep 3", "sleep 6", "sleep 9"]


def test_it_gives_up_without_credentials(machine: Machine, aws_server: Aws) -> None:
    aws_server.metadata = False
    said = fetch(machine, aws_server, expect=1)
    assert said.count("could not be fetched") == TRIES_MAX
    assert f"s3://curfew-state/agent/{SHA256}" in said
    assert aws_server.asked == ["PUT /latest/api/token"] * TRIES_MAX
    assert machine.clock == sum(3 * number for number in range(1, TRIES_MAX))


def test_it_gives_up_without_curl_and_the_aws_cli(machine: Machine, aws_server: Aws) -> None:
    machine.tool("curl", None)
    assert "could not be fetched" in fetch(machine, aws_server, expect=1)
