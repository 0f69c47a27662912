"""The data of a job: fetched or mounted by the real agent, and whether a role may read it is said beforehand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from attempts import BUCKET, NAME, Job, head
from command import curfew
from reaping import Account
from test_cli_submit import with_image

DATA = "datasets"
PART = 64 * 1024 * 1024


def inputs(source: str, to: Path, mode: str = "fetch") -> str:
    return f'[[inputs]]\nfrom = "s3://{source}"\nto = "{to}"\nmode = "{mode}"\n'


def put(job: Job, objects: dict[str, bytes]) -> None:
    if DATA not in [one["Name"] for one in job.s3.list_buckets()["Buckets"]]:
        job.s3.create_bucket(Bucket=DATA)
    for key, body in objects.items():
        job.s3.put_object(Bucket=DATA, Key=key, Body=body)


def fetched(job: Job) -> list[str]:
    """The keys of the data that were read, in order."""
    resources = [resource for call in job.aws.calls("s3:GetObject") for resource in call["resources"]]
    return [one.partition(f"{DATA}/")[2] for one in resources if f"{DATA}/" in one]


def test_a_restarted_machine_fetches_only_what_is_missing(job: Job) -> None:
    to = job.scratch / "data"
    large = os.urandom(PART) + b"the end"
    put(job, {"vision/": b"", "vision/a.txt": b"first", "vision/größe/b c.txt": b"", "vision/large.bin": large, "vision/slow.txt": b"slow", "other": b"x"})
    job.spec(f"cd {to} && cat a.txt slow.txt && wc -c < large.bin && ls && ! touch a.txt/x", checkpoint=False, more=inputs(f"{DATA}/vision", to))
    job.aws.fault("s3:GetObject", "slow", match="slow.txt", seconds=600, times=None)
    with job.machine(1) as machine:
        machine.until(lambda: "fetched 3 of 4 objects" in machine.said())
        assert (to / "a.txt").stat().st_mode & 0o777 == 0o444 and not (to / "slow.txt").exists()
        machine.process.kill()
        machine.process.wait()
        job.aws.clear_faults()
        before = len(fetched(job))
        with job.machine(1, again=machine) as again:
            again.ends()
    assert job.head()["result"]["succeeded"], job.log(1)
    assert fetched(job)[before:] == ["vision/slow.txt"], "finished files are known again"
    assert (to / "large.bin").read_bytes() == large and (to / "größe" / "b c.txt").read_bytes() == b""
    assert "fetches 1 of 4 objects, 0.0 KiB, of s3://datasets/vision into" in job.log(1)
    assert not [one for one in to.iterdir() if one.name.startswith(".curfew")]


def test_what_cannot_be_fetched_is_named_before_the_command(job: Job, full_disk: Path) -> None:
    to, small = job.scratch / "data", full_disk / "data"
    put(job, {"evil/../../passwd": b"x", "both/a": b"x", "both/a/b": b"x", "one": b"1", "denied/a": b"x", "changes/a": b"before", "large/a": bytes(9 << 20)})
    job.aws.before("s3:GetObject", {"put_object": {"bucket": DATA, "key": "changes/a", "text": "after"}}, match="changes/a")
    job.aws.fault("s3:ListObjectsV2", "access_denied", match="denied", times=None)
    for attempt, (source, reason, words) in enumerate(
        [
            (f"{DATA}/evil/", "failed", 'the object "evil/../../passwd" cannot be a file: `..` is not a name'),
            (f"{DATA}/both/", "failed", '"both/a" is an object, and a folder of the object "both/a/b" as well'),
            (f"{DATA}/large/", "failed", f"needs 9.0 MiB, and the disk of {small} has 8.0 MiB left: set `root_volume_gib`"),
            (f"{DATA}/empty/", "failed", "there are no objects below s3://datasets/empty/"),
            ("nobody-has-this/", "failed", "there is no bucket nobody-has-this"),
            (f"{DATA}/changes/", "broken", f"s3://{DATA}/changes/a has changed since it was listed"),
            (f"{DATA}/denied/", "failed", f"to let the role of the team read it: curfew team create vision --read s3://{DATA}/denied/"),
        ],
        start=1,
    ):
        job.spec("echo never", checkpoint=False, more=inputs(source, small if "large" in source else to))
        with job.machine(attempt, hurry=200) as machine:
            machine.ends()
        exit = job.exit(attempt)
        assert exit["reason"] == reason and words in exit["why"].replace("To let", "to let"), exit
        assert "never" not in job.log(attempt)
        # A result that no retry follows.
        assert (exit.get("code") == 126) == (reason == "failed")
        job.s3.delete_object(Bucket=BUCKET, Key=f"attempts/{NAME}/head.json")
    # One object, in a directory with a link that its user has put there; an answer that breaks off is asked for again.
    to.mkdir(exist_ok=True)
    (to / "one").symlink_to(job.scratch / "outside")
    job.aws.fault("s3:GetObject", "cut_off", match=f"{DATA}/one")
    job.spec("echo done", checkpoint=False, more=inputs(f"{DATA}/one", to))
    with job.machine(8, hurry=200) as machine:
        machine.ends()
    assert job.exit(8)["reason"] == "succeeded", job.log(8)
    assert (to / "one").read_bytes() == b"1" and not (to / "one").is_symlink() and not (job.scratch / "outside").exists()


def test_nothing_is_fetched_if_earlier_outputs_cannot_be_found(job: Job) -> None:
    put(job, {"vision/a": b"x"})
    job.put("attempts/vision/prepare-0123abcd/head.json", head(1))
    job.aws.fault("s3:GetObject", "access_denied", match="prepare-0123abcd/head.json", times=None)
    more = f'after = ["prepare-0123abcd"]\n{inputs(f"{DATA}/vision/", job.scratch / "data")}'
    job.spec("echo never", checkpoint=False, more=more)
    with job.machine(1) as machine:
        machine.ends()
    assert "the outputs of vision/prepare-0123abcd cannot be found" in job.exit(1)["why"] and fetched(job) == []


def test_mountpoint_shows_the_objects_until_the_end(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to, said = job.scratch / "data", tmp_path / "said"
    put(job, {"large/a": b"x"})
    both = inputs(f"{DATA}/large/", job.scratch / "large") + inputs(f"{DATA}/vision/", to, "mount")
    job.spec("echo never", checkpoint=False, more=both)
    with job.machine(1) as machine:
        machine.ends()
    assert (job.exit(1)["reason"], job.exit(1)["code"]) == ("failed", 127), "no other machine has it"
    assert fetched(job) == [], "known before anything is fetched"
    assert "the image of the machine has no mount-s3" in job.head()["result"]["why"]

    tools = tmp_path / "tools"
    tools.mkdir()
    serves = f'echo "$0 $*" >> {said}; echo shown > "$2/a"; (while :; do sleep 0.1; done) < /dev/null > /dev/null 2>&1 & echo $! > {said}.pid'
    for name, does in {"mount-s3": serves, "umount": f'echo "umount $*" >> {said}; kill $(cat {said}.pid)'}.items():
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    job.s3.delete_object(Bucket=BUCKET, Key=f"attempts/{NAME}/head.json")
    job.spec(f"cat {to}/a", checkpoint=False, more=inputs(f"{DATA}/vision/", to, "mount"))
    with job.machine(2) as machine:
        machine.ends()
    assert job.exit(2)["reason"] == "succeeded" and "shown\n" in job.log(2)
    assert "processes behind" not in job.log(2), "what serves the mount is none of the command's"
    mounted, unmounted = said.read_text().splitlines()
    assert mounted.endswith(f"mount-s3 {DATA} {to} --read-only --allow-other --prefix vision/") and unmounted == f"umount -l {to}"


def test_submit_says_whether_the_role_may_read_the_inputs(account: Account, tmp_path: Path) -> None:
    account.configure(teams={"vision": {}, "nlp": {}})
    account.aws.client("s3").create_bucket(Bucket=DATA)
    file = tmp_path / "train.toml"
    file.write_text(with_image(account) + inputs(f"{DATA}/vision/", Path("/data")))

    def submit(*more: str) -> tuple[int, str, str]:
        said = curfew(account.environment(), "submit", str(file), "--team", "vision", *more)
        return said.code, said.out, said.err

    def create(*more: str) -> None:
        curfew(account.environment(), "team", "create", "vision", *more).fine()

    create()
    code, out, _ = submit()
    grant = f"curfew team create vision --read s3://{DATA}/vision/"
    assert code == 1 and f"the role of its machines may not read s3://{DATA}/vision/; let it: {grant}" in out, out
    assert account.keys("inbox/") == []
    # The policy of the bucket may allow it, which the simulator does not ask.
    policy = '{"Version": "2012-10-17", "Statement": []}'
    account.aws.client("s3").put_bucket_policy(Bucket=DATA, Policy=policy)
    code, _, err = submit("--dry-run")
    assert code == 0 and "unless the policy of that bucket allows it" in err, err
    account.aws.client("s3").delete_bucket_policy(Bucket=DATA)
    account.aws.fault("iam:SimulatePrincipalPolicy", "access_denied", times=None)
    code, _, err = submit("--dry-run")
    assert code == 0 and f"whether its machines may read s3://{DATA}/vision/ is unknown: iam:SimulatePrincipalPolicy" in err, err
    account.aws.clear_faults()
    create("--read", f"s3://{DATA}/nlp/")
    create("--read", f"s3://{DATA}/vision/")
    code, out, err = submit()
    assert code == 0 and "may not read" not in out + err, out + err
    create("--forget-reads")
    assert submit("--dry-run")[0] == 1
