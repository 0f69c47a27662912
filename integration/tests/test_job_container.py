"""A job in a container: how the real agent uses Docker, by a stand-in, and how a submission pins its image."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from attempts import BUCKET, Job
from command import curfew
from fake_docker import FakeDocker, is_possible
from reaping import Account
from test_cli_submit import with_image

DIGEST = "sha256:" + "0123456789abcdef" * 4
SAVES = """
import signal, subprocess, sys, time
helper = subprocess.Popen(["sleep", "600"])
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
print("ready", flush=True)
while not stop:
    time.sleep(0.05)
time.sleep(1)
open("{saved}", "w").write("with its helper" if helper.poll() is None else "alone")
helper.kill()
"""
IMAGE = f"docker.io/pytorch/pytorch@{DIGEST}"
ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
# Of the same registry, with IPv6 addresses too.
ECR_DUAL_STACK = "123456789012.dkr-ecr.us-east-1.on.aws"

in_container = pytest.mark.skipif(not is_possible(), reason="a container is a process namespace, which needs root")


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    return FakeDocker(tmp_path, monkeypatch)


@in_container
def test_setup_and_command_run_in_one_container(job: Job, docker: FakeDocker) -> None:
    """With a variable that no argument shows; the container is removed, also that of an agent that was killed."""
    secret = job.aws.client("secretsmanager").create_secret(Name="token", SecretString="s3cret's")["ARN"]
    data, begun = job.scratch / "data", job.scratch / "begun"
    job.s3.create_bucket(Bucket="datasets")
    job.s3.put_object(Bucket="datasets", Key="vision/a", Body=b"x")
    more = f'container = "{IMAGE}"\nsetup = "echo installed"\nsecrets = {{ TOKEN = "{secret}" }}\n'
    command = f'echo "has $TOKEN"; [ -e {begun} ] || {{ touch {begun}; sleep 1000; }}; echo ended; sleep 1000 & exit 7'
    job.spec(command, more=f'{more}[[inputs]]\nfrom = "s3://datasets/vision/"\nto = "{data}"\n')
    with job.machine(1) as machine:
        machine.until(begun.exists)
        [name] = docker.containers()
        assert name.startswith("curfew-vision-llama-") and name.endswith("-1")
        machine.process.kill()
        machine.process.wait()
        # After a reboot Docker may start later than the agent.
        for command in ("rm", "pull"):
            docker.refuse(command, "Cannot connect to the Docker daemon")
        with job.machine(1, again=machine) as again:
            again.until(lambda: "cannot be pulled yet" in again.said())
            for command in ("rm", "pull"):
                docker.allow(command)
            again.ends()
    assert (job.exit(1)["reason"], job.exit(1)["code"]) == ("failed", 7), job.log(1)
    assert re.search(r"the command left a process, sleep \(\d+\) running", job.exit(1)["why"]), job.exit(1)
    assert docker.containers() == [] and not (machine.folder / "container").exists()
    assert all(line in job.log(1) for line in ("installed\n", "has s3cret's\n", "ended\n")), job.log(1)
    assert docker.calls("pull")[0] == ["pull", "--quiet", IMAGE]
    made = docker.calls("create")[0]
    assert made[-2:] == [IMAGE, "/run/curfew/step"] and "s3cret" not in json.dumps(docker.calls())
    shared = [["--gpus", "all"], ["--ipc", "host"], ["--network", "bridge"], ["--user", "0:0"], ["--entrypoint", "/bin/sh"], ["--init"]]
    for words in (*shared, ["--security-opt", "no-new-privileges"], ["--cap-drop", "ALL"], ["--workdir", "/root/curfew-job"]):
        at = made.index(words[0])
        assert made[at : at + len(words)] == words, made
    assert not {"--privileged", "--cap-add"} & set(made)
    mounts = [made[at + 1] for at, word in enumerate(made) if word == "--mount"]
    own = {path: f'type=bind,"source={path}","target={path}"' for path in ("/root", "/root/curfew-job", job.checkpoints, data)}
    assert mounts[-2].endswith('/container/left","target=/run/curfew-left"') and mounts[-1].endswith('/container","target=/run/curfew",readonly')
    assert sorted(mounts[:-2]) == sorted([f"{own['/root']},readonly", f"{own[data]},readonly", own["/root/curfew-job"], own[job.checkpoints]])
    assert not Path("/root/curfew-job").exists(), "nothing is left in it"
    # One create and two steps for each start of the agent; what an earlier one has left is removed before.
    order = " ".join(call[0] for call in docker.calls())
    assert re.fullmatch("(rm (pull )+rm create start start ){2}.*rm", order), order


@in_container
def test_a_warning_reaches_the_command_and_a_failed_setup_is_one(job: Job, docker: FakeDocker) -> None:
    saved = job.checkpoints / "step-5.pt"
    # The shell of the line dies of the signal at once, and the program behind it saves.
    saves = f"trap 'sleep 2; echo late > {saved}; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    (job.scratch / "save.sh").write_text(saves)
    job.spec(f"cd / && sh {job.scratch}/save.sh; echo not-reached", more=f'container = "{IMAGE}"')
    with job.machine(1) as machine:
        machine.until(lambda: "ready\n" in machine.said())
        machine.metadata.warn(seconds=60)
        machine.ends()
    assert docker.signals() == ["SIGTERM"] and job.exit(1)["reason"] == "interrupted"
    assert job.kept() == 5 and job.newest("step-5.pt") == b"late\n", job.log(1)
    assert not [words for words in ("not-reached", "and is killed") if words in job.log(1)], job.log(1)
    assert docker.containers() == []

    job.spec("echo never", more=f'container = "{IMAGE}"\nsetup = "exit 4"')
    with job.machine(2) as machine:
        machine.ends()
    assert job.exit(2)["why"].startswith("`setup` has failed with exit code 4") and "never" not in job.log(2)
    job.s3.delete_object(Bucket=BUCKET, Key=next(key for key in job.keys("attempts/") if key.endswith("head.json")))

    # A private registry gets the password of the machine's role; a registry that refuses is named.
    docker.refuse("pull", "Error response from daemon: manifest unknown")
    job.spec("echo never", more=f'container = "{ECR_DUAL_STACK}/team/train@{DIGEST}"')
    with job.machine(3) as machine:
        machine.ends()
    assert docker.calls("login") == [["login", "--username", "AWS", "--password-stdin", ECR_DUAL_STACK]] and docker.given("login") == ["123456789012-auth-token"]
    assert (job.exit(3)["reason"], job.exit(3)["code"]) == ("failed", 126) and "manifest unknown" in job.exit(3)["why"]


@in_container
def test_a_signal_reaches_only_what_saves_in_a_container(job: Job, docker: FakeDocker) -> None:
    saves, saved = job.scratch / "save.py", job.checkpoints / "step-6.pt"
    saves.write_text(SAVES.format(saved=saved))
    job.spec(f"cd / && {sys.executable} {saves} | cat; echo not-reached", more=f'container = "{IMAGE}"')
    with job.machine(1) as machine:
        machine.until(lambda: "ready\n" in machine.said())
        machine.metadata.warn(seconds=60)
        machine.ends()
    assert docker.signals() == [] and docker.containers() == []
    assert job.newest("step-6.pt") == b"with its helper" and "not-reached" not in job.log(1), job.log(1)


def test_a_machine_without_docker_is_no_machine_for_the_job(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "touch"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    job.s3.create_bucket(Bucket="datasets")
    job.s3.put_object(Bucket="datasets", Key="vision/a", Body=b"x")
    data = f'[[inputs]]\nfrom = "s3://datasets/vision/"\nto = "{job.scratch}/data"\n'
    job.spec("echo never", more=f'container = "{IMAGE}"\n{data}')
    with job.machine(1) as machine:
        machine.ends()
    assert (job.exit(1)["reason"], job.exit(1)["code"]) == ("failed", 127), job.exit(1)
    assert "the image of the machine has no docker" in job.head()["result"]["why"]
    assert not [words for words in ("fetches", "resume") if words in job.log(1)], "nothing is fetched for it"


@contextmanager
def registry() -> Iterator[tuple[str, list[str]]]:
    """A registry that gives everybody a token, and then the digest of the tag `2.9`; and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(f"HEAD {self.path}")
            assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
            if self.headers.get("Authorization") != "Bearer for-anybody":
                self.send_response(401)
                self.send_header("WWW-Authenticate", f'Bearer realm="http://{host}/token",service="a.registry",scope="x"')
            elif self.path.endswith("/2.9"):
                self.send_response(200)
                self.send_header("Docker-Content-Digest", DIGEST)
            else:
                self.send_response(404)
            self.end_headers()

        def do_GET(self) -> None:
            asked.append(f"GET {self.path}")
            body = json.dumps({"token": "for-anybody"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        host = f"127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, daemon=True).start()
        yield host, asked
        server.shutdown()


def test_a_submission_pins_the_image(account: Account, tmp_path: Path) -> None:
    file = tmp_path / "train.toml"
    arguments = ["submit", str(file), "--team", "vision"]
    with registry() as (host, asked):
        file.write_text(f'# größe\ncontainer = "{host}/team/train:2.9"  # the newest\n{with_image(account)}')
        said = curfew(account.environment(), *arguments).fine()
        assert f"pinned the image to {host}/team/train@{DIGEST}" in said.err
        scope = "GET /token?service=a.registry&scope=repository:team/train:pull"
        assert asked == ["HEAD /v2/team/train/manifests/2.9", scope, "HEAD /v2/team/train/manifests/2.9"]
        document = account.aws.client("s3").get_object(Bucket=BUCKET, Key="inbox/vision/train.toml")["Body"].read().decode()
        assert document == file.read_text().replace(f"{host}/team/train:2.9", f"{host}/team/train@{DIGEST}")
        file.write_text(file.read_text().replace("2.9", "2.8"))
        unknown = curfew(account.environment(), *arguments, "--dry-run")
        assert unknown.code == 2 and "its registry does not know it" in unknown.err, unknown
    # A private one of ECR, by a signed call.
    ecr = account.aws.client("ecr")
    ecr.create_repository(repositoryName="team/train")
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {}, "layers": []}
    image = ecr.put_image(repositoryName="team/train", imageManifest=json.dumps(manifest), imageTag="2.9")["image"]
    file.write_text(f'container = "{ECR}/team/train:2.9"\n{with_image(account)}')
    said = curfew(account.environment(), *arguments, "--dry-run").fine()
    assert f"pinned the image to {ECR}/team/train@{image['imageId']['imageDigest']}" in said.err
    file.write_text(f'container = "{ECR}/team/train:2.8"\n{with_image(account)}')
    absent = curfew(account.environment(), *arguments, "--dry-run")
    assert absent.code == 2 and "ecr:DescribeImages" in absent.err, absent
