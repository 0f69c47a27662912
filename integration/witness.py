"""`make witness`: LocalStack's CloudFormation creates template.yaml, and refuses a second stack. By hand, before a release: `make test` does not run it.

LocalStack runs as a process, from PyPI, without Docker and without a license. Functions need Docker there: without it they are left out, and
the last line says so.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from template_actions import template

PORT = 4566
PACKAGES = "packages"
GUARD = "only-one-curfew-stack-per-account"
# LocalStack waits for its services one after the other.
STARTS_WITHIN_SECONDS = 120
CREATED_WITHIN_SECONDS = 180


@contextmanager
def localstack() -> Iterator[str]:
    endpoint = f"http://127.0.0.1:{PORT}"
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"DISABLE_EVENTS": "1", "SKIP_SSL_CERT_DOWNLOAD": "1", "LOCALSTACK_VOLUME_DIR": folder, "GATEWAY_LISTEN": f"127.0.0.1:{PORT}"}
        with (Path(folder) / "log").open("w+") as log:
            words = [sys.executable, "-m", "localstack.runtime.main"]
            process = subprocess.Popen(words, cwd=folder, env={**os.environ, **quiet}, stdout=log, stderr=log)
            try:
                for _ in range(STARTS_WITHIN_SECONDS):
                    log.seek(0)
                    text = log.read()
                    if "Ready." in text.splitlines():
                        break
                    if process.poll() is not None:
                        raise SystemExit(f"LocalStack did not start:\n{text}")
                    time.sleep(1)
                else:
                    raise SystemExit(f"LocalStack was not ready within {STARTS_WITHIN_SECONDS} seconds:\n{text}")
                urllib.request.urlopen(f"{endpoint}/_localstack/health").close()
                yield endpoint
            finally:
                process.terminate()
                process.wait()


def deployable(has_docker: bool) -> dict[str, Any]:
    """The template with an empty program in each function; without Docker, with a parameter in the place of each function."""
    document = json.loads(json.dumps(template()))
    for name, resource in document["Resources"].items():
        if resource["Type"] != "AWS::Serverless::Function":
            continue
        if has_docker:
            resource["Properties"]["CodeUri"] = {"Bucket": PACKAGES, "Key": "function.zip"}
            del resource["Metadata"]
        else:
            document["Resources"][name] = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": name}}
    return document


def create(cloudformation: Any, name: str, url: str) -> tuple[str, list[str]]:
    """Creates a stack, and gives its last state and what failed."""
    cloudformation.create_stack(
        StackName=name,
        TemplateURL=url,
        Capabilities=["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
        Parameters=[{"ParameterKey": "Mode", "ParameterValue": "enforce"}],
    )
    for _ in range(CREATED_WITHIN_SECONDS):
        state = cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        if not state.endswith("IN_PROGRESS"):
            break
        time.sleep(1)
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    failed = [one for one in events if one["ResourceStatus"] == "CREATE_FAILED" and one.get("ResourceStatusReason")]
    return state, [f"{one['LogicalResourceId']}: {one['ResourceStatusReason']}" for one in failed]


def main() -> None:
    has_docker = shutil.which("docker") is not None and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
    with localstack() as endpoint:
        common = {"endpoint_url": endpoint, "region_name": "us-east-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
        slow_to_answer = Config(read_timeout=CREATED_WITHIN_SECONDS)
        s3, cloudformation = (boto3.client(one, **common, config=slow_to_answer) for one in ("s3", "cloudformation"))
        s3.create_bucket(Bucket=PACKAGES)
        package = io.BytesIO()
        with zipfile.ZipFile(package, "w") as archive:
            archive.writestr("bootstrap", "#!/bin/sh\n")
        s3.put_object(Bucket=PACKAGES, Key="function.zip", Body=package.getvalue())
        s3.put_object(Bucket=PACKAGES, Key="template.json", Body=json.dumps(deployable(has_docker)))
        url = f"{endpoint}/{PACKAGES}/template.json"
        state, failed = create(cloudformation, "curfew", url)
        if state != "CREATE_COMPLETE":
            raise SystemExit("\n".join([f"template.yaml ended as {state}", *failed]))
        made = cloudformation.describe_stack_resources(StackName="curfew")["StackResources"]
        print(f"LocalStack created {len(made)} resources of template.yaml")
        state, failed = create(cloudformation, "second", url)
        if state == "CREATE_COMPLETE" or not any(GUARD in reason for reason in failed):
            raise SystemExit("\n".join([f"a second stack ended as {state}, and should be refused by the name of {GUARD}", *failed]))
        print(f"LocalStack refused a second stack: {next(reason for reason in failed if GUARD in reason)}")
    if not has_docker:
        print("Functions were left out: they need Docker, which does not run here.")


if __name__ == "__main__":
    main()
