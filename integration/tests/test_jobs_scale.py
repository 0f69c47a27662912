"""Many jobs at once are launched within a few sweeps, with one query of what they have in common; and a team that fills its folder delays no
other. shared/jobs/src/backlog/tests.rs tests in which order a run takes what is too much for it.

`JOBS=500 pytest integration/tests/test_jobs_scale.py -k at_once -s` prints what each sweep took (docs/measurements.md).
"""

from __future__ import annotations

import os
from collections import Counter

from jobs import SPEC, JobAccount
from reaping import BUCKET

LISTED_MAX = 5_000  # of a folder in one run, as in shared/store/src/jobs/backlog.rs
JOBS = int(os.environ.get("JOBS", "12"))
RANKINGS_MAX = 120  # of one sweep, as in shared/execution/src/jobs/work.rs
# The calls of a ranking, for any number of jobs with the same needs.
ONCE = {
    "ec2:DescribeInstanceTypes": 1,
    "ec2:DescribeInstanceTypeOfferings": 1,
    "ec2:DescribeSubnets": 1,
    "ssm:GetParameter": 1,
    "ec2:DescribeImages": 1,
}


def test_jobs_at_once_are_launched_within_few_sweeps_and_ask_once(jobs: JobAccount) -> None:
    for number in range(JOBS):
        jobs.submit(f"job{number:03}")
    jobs.written_long_ago()
    sweeps = -(-JOBS // RANKINGS_MAX)
    for sweep in range(1, sweeps + 1):
        run = jobs.tick(timeout_s=300)
        print(f"sweep {sweep}: {run.invocation.seconds:.1f} s, {sum(run.counts.values())} calls, {run.counts['ec2:RunInstances']} launches")
        assert run.gaps == [] and {action: run.counts[action] for action in ONCE} == ONCE
        assert run.counts["ec2:RunInstances"] == min(RANKINGS_MAX, JOBS - (sweep - 1) * RANKINGS_MAX)
        if sweep == 1:
            assert (run.counts["pricing:GetProducts"], run.counts["ec2:DescribeSpotPriceHistory"]) == (1, 1)
            prices = [call for call in run.calls if call["resources"] and call["resources"][0].endswith("prices/current.json")]
            assert [call["action"] for call in prices] == ["s3:GetObject", "s3:PutObject"]
    all_jobs = [jobs.job(f"job{number:03}") for number in range(JOBS)]
    assert Counter(job.state for job in all_jobs) == {"running": JOBS} and len({job.machine for job in all_jobs}) == JOBS


def test_a_team_that_fills_its_folder_delays_no_other(jobs: JobAccount) -> None:
    jobs.aws.add_objects(BUCKET, "inbox/flood/", LISTED_MAX + 1)
    key = jobs.submit()
    jobs.put("inbox/llama.toml", SPEC.encode())
    run = jobs.tick(timeout_s=120)
    answer = jobs.answer(key)
    assert run.gaps == [] and answer and answer["is"] == "accepted" and jobs.job().state == "running"
    assert "is in no team's folder" in str(jobs.answer("inbox/llama.toml"))
    assert "inbox/flood/ has more" in run.message("flood") and "flood" not in run.message("vision")
    bookmarks = jobs.read("notices/run-jobs/bookmarks.json")
    assert bookmarks["after"] == {"inbox/flood/": "inbox/flood/004999"}, "where the next run resumes"


def test_the_account_is_notified_of_folders_of_unknown_teams(jobs: JobAccount) -> None:
    """Nobody subscribes to a team that the configuration does not have."""
    jobs.configure(teams={"vision": {}})
    jobs.aws.add_objects(BUCKET, "inbox/flood/", LISTED_MAX + 1)
    jobs.put(f"inbox/longer/{'x' * 1_000}.toml", SPEC.encode())
    run = jobs.tick(timeout_s=120)
    assert {message["attributes"]["team"] for message in run.messages} == {"untagged"}
    assert "inbox/flood/ has more" in run.message("untagged") and "inbox/longer/: the answer" in run.message("untagged")
