"""The real agent while the stack of a second region takes its job over: it moves to the copy of the bucket, or ends there as fenced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from attempts import BUCKET, NAME, Job, Machine, head

HURRY = 150  # it looks for a takeover every 1.2 s
HOME = {"bucket": BUCKET, "region": "us-east-1"}
COPY = {"bucket": "curfew-copy", "region": "eu-central-1"}
TAKEN = {"term": 2, **COPY, "since": "2026-09-01T12:00:00Z", "before": HOME}


class Copy:
    """The bucket in the second region. The test is the replication, which stops where it likes."""

    def __init__(self, job: Job) -> None:
        self.job, self.s3 = job, job.aws.client("s3", COPY["region"])
        self.s3.create_bucket(Bucket=COPY["bucket"], CreateBucketConfiguration={"LocationConstraint": COPY["region"]})

    def get(self, key: str) -> bytes | None:
        return self.job.aws.object(COPY["bucket"], key)

    def put(self, key: str, body: bytes | str) -> None:
        self.s3.put_object(Bucket=COPY["bucket"], Key=key, Body=body)

    def replicate(self, *prefixes: str) -> None:
        for key in (key for prefix in prefixes for key in self.job.keys(prefix)):
            self.put(key, self.job.get(key) or b"")

    def keys(self, prefix: str = "") -> list[str]:
        return [found["Key"] for found in self.s3.list_objects_v2(Bucket=COPY["bucket"], Prefix=prefix).get("Contents", [])]

    def document(self, name: str) -> dict[str, Any]:
        return json.loads(self.get(f"attempts/{NAME}/{name}") or b"{}")

    def kept(self) -> int | None:
        return (self.document("head.json").get("checkpoint") or {}).get("step")

    def has_whole(self, named: dict[str, int]) -> bool:
        """Whether all files of a checkpoint are there, and not only its manifest."""
        folder = f"checkpoints/{NAME}/{named['attempt']}/{named['step']}"
        manifest = json.loads(self.get(f"{folder}/manifest.json") or b"{}")
        return bool(manifest) and all(self.get(f"{folder}/files/{file['path']}") is not None for file in manifest["files"])

    def take_over(self, cut_off: bool = True) -> None:
        """Its stack acts from now on. Cut off: the first region does not answer."""
        if cut_off:
            self.job.aws.fault("s3:*", "reset", region=HOME["region"], times=None)
        self.put("home.json", json.dumps({"schema": 1, **TAKEN}))

    def looks(self) -> int:
        """How often a machine has read the record of the copy."""
        return sum("home.json" in str(call["resources"]) for call in self.job.aws.calls("s3:GetObject", COPY["region"]))


@pytest.fixture
def copy(job: Job) -> Copy:
    return Copy(job)


def moved(machine: Machine) -> bool:
    return "everything is written there from now on" in machine.said()


@pytest.fixture
def machine(job: Job) -> Iterator[Machine]:
    """The first attempt, with a copy; entered by the test."""
    yield job.machine(1, replica=COPY, hurry=HURRY)


def test_a_running_attempt_moves_and_its_newest_step_is_written_again(job: Job, copy: Copy, machine: Machine) -> None:
    job.training_that_waits(20)
    with machine:
        machine.until(lambda: job.kept() == 5)
        copy.replicate("jobs/", "attempts/", "checkpoints/")
        job.pause_after.write_text("10")
        machine.until(lambda: job.kept() == 10)
        copy.take_over()
        # Head of the copy names step 5, and 10 is in the bucket alone that is cut off.
        machine.until(lambda: copy.kept() == 10)
        assert copy.has_whole({"attempt": 1, "step": 10})
        machine.until(lambda: copy.document("1/heartbeat.json").get("step") == 10)
        job.pause_after.write_text(str(10**9))
        machine.ends()
    job.aws.clear_faults()
    assert job.result.read_text() == job.expected
    assert [step for _, step in job.steps()] == list(range(1, 21)), "nothing is done twice"
    last = copy.document("head.json")
    assert (last["attempt"], last["launch"], last["checkpoint"]["step"]) == (1, "0a", 20) and last["result"]["succeeded"]
    assert copy.document("1/exit.json")["reason"] == "succeeded" and "has taken over (term 2)" in (copy.get(f"attempts/{NAME}/1/log") or b"").decode()
    assert job.kept() == 10 and job.exit(1) is None, "the bucket that is left has nothing new"
    assert last["kept"] and all(map(copy.has_whole, last["kept"])), "and head names nothing that is there alone"


def test_an_upload_under_way_ends_and_names_nothing(job: Job, copy: Copy, machine: Machine) -> None:
    job.training_that_waits(20)
    with machine:
        machine.until(lambda: job.kept() == 5)
        copy.replicate("jobs/", "attempts/", "checkpoints/")
        job.aws.fault("s3:PutObject", "slow", match="files/step-10/", region=HOME["region"], times=None, seconds=600)
        job.pause_after.write_text("10")
        machine.until(lambda: job.aws.faults()[0]["struck"])
        # The first region answers, and knows nothing yet.
        copy.take_over(cut_off=False)
        machine.until(lambda: copy.kept() == 10)
        job.pause_after.write_text(str(10**9))
        machine.until(lambda: copy.kept() == 20)
        machine.ends()
    job.aws.release("s3:PutObject")
    assert job.kept() == 5 and (1, 10) not in job.manifests()
    named = copy.document("head.json")
    assert all(map(copy.has_whole, [named["checkpoint"], *named["kept"]]))


def test_a_later_attempt_in_the_copy_fences_it(job: Job, copy: Copy, machine: Machine) -> None:
    job.training(10_000, "--every", "10")
    with machine:
        machine.until(lambda: job.kept())
        later = head(2, (1, 3), launch="0b")
        copy.put(f"attempts/{NAME}/head.json", later)
        copy.take_over(cut_off=False)
        machine.ends()
    assert job.exit(1)["reason"] == "fenced" and "attempt 2 has taken over" in job.exit(1)["why"]
    assert (copy.get(f"attempts/{NAME}/head.json") or b"").decode() == later
    assert copy.keys() == [f"attempts/{NAME}/head.json", "home.json"], "nothing is uploaded over it"


def test_only_a_takeover_by_its_own_copy_moves_it(job: Job, copy: Copy) -> None:
    job.training(10_000, "--every", "10")
    first = {"term": 1, **HOME, "since": TAKEN["since"]}
    false_records: list[tuple[str, str]] = [
        # By what a machine may write itself.
        (f"attempts/{NAME}/home.json", json.dumps({"schema": 1, **TAKEN})),
        ("home.json", "not a record"),
        *(
            ("home.json", json.dumps({"schema": 1, **record}))
            for record in (
                first,
                {**TAKEN, "term": 1},
                {**TAKEN, "bucket": "somebody-elses"},
                {**TAKEN, "region": "us-east-1"},
                {**TAKEN, "before": {"bucket": "somebody-elses", "region": "us-east-1"}},
                {**TAKEN, "term": 10**9},
            )
        ),
    ]
    with job.machine(1, replica=COPY, hurry=400) as machine:
        machine.until(lambda: job.kept())
        job.put("home.json", json.dumps({"schema": 1, **first}))
        for key, body in false_records:
            copy.put(key, body)
            looks = copy.looks()
            machine.until(lambda: copy.looks() >= looks + 2)
        kept = job.kept()
        machine.until(lambda: job.kept() > kept)
        assert not moved(machine)
        assert copy.keys() == [f"attempts/{NAME}/home.json", "home.json"]
        # The stack that acts has told the first bucket alone, as far as the machine can read.
        job.put("home.json", json.dumps({"schema": 1, **TAKEN}))
        machine.until(lambda: moved(machine))
        machine.until(lambda: copy.kept())


def test_an_attempt_waits_for_a_takeover_while_nothing_answers(job: Job, copy: Copy) -> None:
    """A machine without a copy gives up after a quarter of an hour, which is 3 s here (test_agent_faults)."""
    job.training(10_000, "--every", "10")
    with job.machine(1, replica=COPY, hurry=300) as machine:
        machine.until(lambda: job.kept())
        copy.replicate("jobs/", "attempts/", "checkpoints/")
        job.aws.fault("s3:*", "reset", times=None)
        steps = len(job.steps())
        machine.until(lambda: "no heartbeat can be written" in machine.said())
        machine.until(lambda: len(job.steps()) > steps + 100)
        job.aws.clear_faults()
        copy.take_over()
        kept, beat = copy.kept() or 0, copy.document("1/heartbeat.json")
        machine.until(lambda: (copy.kept() or 0) > kept)
        # Nor does it end where a heartbeat was under way during the move.
        machine.until(lambda: copy.document("1/heartbeat.json") != beat)


def test_a_restarted_agent_goes_on_in_the_copy(job: Job, copy: Copy, machine: Machine) -> None:
    job.training_that_waits(10)
    with machine:
        machine.until(lambda: job.kept() == 5)
        copy.replicate("jobs/", "attempts/", "checkpoints/")
        copy.take_over(cut_off=False)
        machine.until(lambda: moved(machine))
        machine.until(lambda: copy.document("1/heartbeat.json"))
        machine.pull_the_plug()
    job.pause_after.write_text(str(10**9))
    with job.machine(1, replica=COPY, again=machine, hurry=HURRY) as again:
        again.ends()
    assert job.result.read_text() == job.expected and copy.kept() == 10
    assert copy.document("1/exit.json")["reason"] == "succeeded"
    assert job.kept() == 5 and not job.head().get("result")


def test_outputs_are_all_in_the_copy(job: Job, copy: Copy, machine: Machine) -> None:
    one, other = job.scratch / "one.txt", job.scratch / "other.txt"
    spec = f'[machine]\nuser = "root"\noutputs = ["{one}", "{other}"]\n'
    job.spec(f"echo fine > {one}; echo fine > {other}", checkpoint=False, more=spec)
    job.aws.fault("s3:PutObject", "error500", match="other.txt", region=HOME["region"], times=None)
    with machine:
        machine.until(lambda: job.get(f"outputs/{NAME}/1{one}"))
        machine.until(lambda: job.aws.faults()[0]["struck"] > 3)
        copy.take_over(cut_off=False)
        machine.ends()
    assert [copy.get(f"outputs/{NAME}/1{path}") for path in (one, other)] == [b"fine\n"] * 2
    assert copy.document("head.json")["result"]["succeeded"]


def test_a_step_that_is_half_in_the_copy_is_passed_over_for_the_newest_whole_one(job: Job, copy: Copy, machine: Machine) -> None:
    job.training_that_waits(20, keep=1)
    with machine:
        machine.until(lambda: job.kept() == 5)
        copy.replicate("checkpoints/")
        job.pause_after.write_text("10")
        machine.until(lambda: job.kept() == 10)
        machine.pull_the_plug()
    # Head came before the files of what it names, and what it named before is there still.
    copy.replicate("jobs/", f"attempts/{NAME}/head.json", f"checkpoints/{NAME}/1/10/manifest.json")
    job.pause_after.write_text(str(10**9))
    before = len(job.steps())
    # In a bucket that was no copy, what head does not name does not exist.
    with job.machine(2, bucket=COPY, hurry=HURRY) as other:
        other.until(lambda: "starts at zero" in other.said())
        other.pull_the_plug()
    copy.put(f"attempts/{NAME}/head.json", job.get(f"attempts/{NAME}/head.json") or b"")
    job.trail.write_text("")
    with job.machine(3, bucket={**COPY, "is_restored": True}, hurry=HURRY) as other:
        other.ends()
    assert "resumes from step 5, which attempt 1 kept, which may be incomplete" in (copy.get(f"attempts/{NAME}/3/log") or b"").decode()
    assert [step for _, step in job.steps()] == list(range(6, 21)) and before >= 10
    assert job.result.read_text() == job.expected and copy.kept() == 20
