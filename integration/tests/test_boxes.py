"""Boxes on machines that boot: the real functions and the real agent, homes that are mounted, and what becomes of them from one day to the next."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from command import Said, curfew
from hosts import Control, Host, Hosts, package, why_no_boxes
from jobs import Job, JobAccount, box_spec
from local_aws import LocalAws
from reaping import BUCKET, now, rfc3339
from template_actions import OF_BOXES

USER = "ada"  # of hosts/disks.py
HURRY = 40
TIMEOUT_SECONDS = 180.0
SPEC = box_spec('home_gib = 20\nidle = "4h"')
NAME = "boxes/vision/my-box.json"


class Boxes:
    """An account with machines, disks, and the function that runs jobs."""

    def __init__(self, account: JobAccount, hosts: Hosts, control: Control) -> None:
        self.account, self.hosts, self.control = account, hosts, control
        self.ec2 = account.aws.client("ec2")
        assert hosts.disks is not None
        self.disks, self.submissions = hosts.disks, 0

    def until(self, what: Callable[[], Any]) -> Any:
        limit = time.monotonic() + TIMEOUT_SECONDS
        while not (found := what()):
            if time.monotonic() > limit:
                raise AssertionError(self.told())
            time.sleep(0.1)
        return found

    def told(self) -> str:
        """All that there is to see, of a box that went wrong."""
        consoles = "\n".join(host.console() for host in self.hosts.all())
        gaps = [run.invocation.error or run.invocation.response["gaps"] for run in self.control.runs]
        document = self.document if NAME in self.account.keys("boxes/") else None
        return f"{consoles}\n{[gap for gap in gaps if gap][-3:]}\n{document}"

    def submit(self, text: str = SPEC) -> Job:
        """One `up` of the box. A bucket without versions takes another document of the same text for the same one."""
        self.submissions += 1
        key = self.account.submit(f"up-{self.submissions}", f'name = "my-box" # {self.submissions}\n{text}')
        answer = self.until(lambda: self.account.answer(key))
        assert answer["is"] == "accepted", answer
        return Job(self.account, answer["job"])

    def report(self, job: Job) -> dict[str, Any] | None:
        """The box as its agent sees it, once people can log in."""
        key = f"attempts/{job.id}/{job.attempt}/heartbeat.json"
        return self.account.read(key).get("box") if key in self.account.keys(key) else None

    def up(self, text: str = SPEC) -> tuple[Job, dict[str, Any], Host]:
        job = self.submit(text)
        report = self.until(lambda: job.state == "ended" or job.attempt and self.report(job))
        assert job.state != "ended", self.told()
        return job, report, self.hosts.find(job.machine)

    def down(self, job: Job) -> None:
        job.cancel()
        self.until(lambda: self.is_over(job))

    def is_over(self, job: Job) -> bool:
        return job.state == "ended" and job.phase["closed"]

    @property
    def document(self) -> dict[str, Any]:
        return self.account.read(NAME)

    def volumes(self) -> dict[str, dict[str, Any]]:
        found = self.ec2.describe_volumes(Filters=[{"Name": "tag:curfew:box", "Values": ["vision/my-box"]}])["Volumes"]
        return {one["VolumeId"]: one for one in found}

    def snapshots(self) -> list[str]:
        found = self.ec2.describe_snapshots(Filters=[{"Name": "tag:curfew:box", "Values": ["vision/my-box"]}])["Snapshots"]
        return [one["SnapshotId"] for one in found]

    def home(self) -> Path:
        """The home of its user, on the disk that is true."""
        return self.disks.folder / self.document["home"]["volume"]["id"] / "home"


@pytest.fixture
def boxes(aws: LocalAws, tmp_path: Path) -> Iterator[Boxes]:
    if why := why_no_boxes():
        pytest.skip(why)
    with ExitStack() as stack:
        account = stack.enter_context(JobAccount(aws))
        account.configure(teams={"vision": {}})
        hosts = Hosts(aws, tmp_path / "hosts", HURRY)
        hosts.have_disks(tmp_path / "disks")
        stack.enter_context(hosts)
        environment = account.environment(LAMBDA_TASK_ROOT=str(package(tmp_path / "package")))
        control = stack.enter_context(Control(aws, environment, every=2.0, at_once=2))
        yield Boxes(account, hosts, control)


def test_a_home_comes_back_in_another_zone(boxes: Boxes) -> None:
    job, report, _ = boxes.up()
    (first,) = boxes.volumes().values()
    assert first["Encrypted"] and first["Size"] == 20 and report["user"] == USER
    (boxes.home() / "notes").write_text("of the first day")
    boxes.down(job)
    assert job.phase["result"] == "cancelled" and boxes.snapshots() and "holder" not in boxes.document
    (rests,) = boxes.volumes().values()
    kept = {tag["Key"]: tag["Value"] for tag in rests["Tags"]}
    assert (rests["State"], kept["Team"]) == ("available", "vision") and kept["curfew:keep-until"] > rfc3339(now())
    # The zone of the home comes first; it has none left.
    boxes.account.aws.set_capacity(0, "g5.xlarge", zone=first["AvailabilityZone"])
    again, moved, _ = boxes.up()
    assert (boxes.home() / "notes").read_text() == "of the first day"
    assert moved["host_key"] == report["host_key"], "the host key is that of the box"
    boxes.until(lambda: first["VolumeId"] not in boxes.volumes())
    (second,) = boxes.volumes().values()
    assert second["AvailabilityZone"] != first["AvailabilityZone"]
    assert boxes.account.aws.calls("ec2:DetachVolume") == []
    boxes.down(again)


def test_a_box_goes_on_after_a_warning_and_through_silence_to_its_end(boxes: Boxes) -> None:
    job, _, host = boxes.up(SPEC.replace("enabled = false", "enabled = true"))
    (boxes.home() / "notes").write_text("of the last minute")
    boxes.control.interrupt(host, notice=20.0)
    boxes.until(lambda: job.attempt == 2 and boxes.report(job))
    assert (boxes.home() / "notes").read_text() == "of the last minute"
    (volume,) = boxes.volumes().values()
    assert [one["InstanceId"] for one in volume["Attachments"]] == [job.machine] != [host.id]
    # Its agent is gone without a word, and its last heartbeat an hour old: people are told, and nothing else happens.
    second = boxes.hosts.find(job.machine)
    second.cut_network()
    beat = f"attempts/{job.id}/2/heartbeat.json"
    boxes.account.aws.set_object(BUCKET, beat, now() - timedelta(hours=1))
    boxes.until(lambda: job.document["notified"] == "silent 2")
    assert job.state == "running" and second.is_on
    # Five minutes after its end it is ended from outside.
    document = job.document["box"]
    boxes.control.pause()
    job.rewrite(box={**document, "soft_end": rfc3339(now() - timedelta(minutes=6))})
    boxes.control.resume()
    boxes.until(lambda: boxes.is_over(job))
    assert job.phase["result"] == "expired" and len(boxes.snapshots()) <= 2, "one of each machine at most"
    assert next(iter(boxes.volumes().values()))["State"] == "available"


def test_a_person_brings_a_box_up_and_removes_it(boxes: Boxes, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    environment = boxes.account.environment(HOME=str(tmp_path / "home"), PATH="/usr/bin:/bin", USER="ada", CURFEW_TEAM="vision")

    def box(*arguments: str) -> Said:
        return curfew(environment, "box", *arguments)

    options = ("--gpu", "g5.xlarge", "--owner", "ada", "--home", "20gb", "--for", "2h", "--yes", "my-box")
    up = box("up", *options).fine()
    assert "ready: ssh my-box" in up.out, up
    assert "is already up since" in box("up", *options).fine().err
    (own,) = json.loads(box("ls", "--json").out)["boxes"]
    job = Job(boxes.account, own["job"])
    hosts, config = ((tmp_path / "home/.ssh/curfew" / name).read_text() for name in ("known_hosts", "config"))
    report = boxes.report(job)
    assert report is not None and report["host_key"] in hosts and job.machine in config and own["state"] == "up"
    # Another one at the same moment, which the command does not see.
    second = boxes.submit()
    boxes.until(lambda: boxes.is_over(second))
    assert second.phase["result"] == "failed" and f"by the job {job.id}" in second.phase["why"]
    assert len(boxes.account.ever_launched()) == 1
    soft_end = job.document["box"]["soft_end"]
    assert "ends at" in box("extend", "my-box", "1h").fine().out and job.document["box"]["soft_end"] == soft_end
    assert box("extend", "my-box", "5h").fine() and job.document["box"]["soft_end"] > soft_end
    refused = box("extend", "my-box", "30h")
    assert refused.code == 1 and "refused: its machine ends at" in refused.out, refused
    assert box("rm", "my-box", "--yes").code == 2, "it is up"
    box("down", "my-box", "--yes").fine()
    boxes.until(lambda: boxes.is_over(job))
    assert "Bring it back from its snapshot" in box("rm", "my-box", "--yes").fine().out
    assert not boxes.volumes() and len(boxes.snapshots()) == 1
    assert "removed, with its snapshots" in box("rm", "vision/my-box", "--everything", "--yes", "--owner", "bob").fine().out
    assert not boxes.snapshots() and NAME not in boxes.account.keys("boxes/")
    assert set(boxes.account.aws.permissions()) >= OF_BOXES
