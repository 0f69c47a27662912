"""What a run asks of AWS, and that the template grants exactly that. How often it asks: test_fewest_calls.py."""

from __future__ import annotations

from granted import assert_role_fits, objects
from local_aws.client import REGION
from reaping import EUROPE, READS, Account, Run, ago, rfc3339


def test_the_role_may_do_what_was_done_and_nothing_else(account: Account) -> None:
    runs = _everything(account)
    not_seen = {
        "kms:CreateGrant",  # EC2 opens encrypted volumes at a start
        "s3:ListBucket",  # without it an absent object looks forbidden; nothing is listed
    }
    assert_role_fits("reap-instances", runs, READS, not_seen)
    # config/, prices/ and jobs/ are only read; notices/, activity/ and plans/ are the function's own.
    regions = {f"activity/{region}.json" for region in (REGION, EUROPE)}
    read = {"config/curfew.toml", "prices/current.json", "notices/reap-instances", "jobs/vision", *regions}
    assert objects(runs, "s3:GetObject") == read
    written = objects(runs, "s3:PutObject")
    days = {key for key in written if key.startswith("plans/")}
    assert written - days <= {"notices/reap-instances", *regions} and days


def _everything(account: Account) -> list[Run]:
    """Runs that mark, unmark, notify, stop, terminate, start, and fail."""
    account.configure(lifetime={"action": "stop"})
    past = rfc3339(ago(minutes=5))
    account.idle(account.gpu())
    account.untagged("inf2.xlarge", EUROPE)
    account.gpu(launched=ago(days=9), tags={"curfew:idle-after": "off"})
    account.of_job(account.gpu(tags={"curfew:expires-at": past, "curfew:job": "vision/a-0123abcd"}))
    account.idle(account.gpu(spot_instance_request="one-time"))
    account.gpu("trn1.32xlarge")
    mended = account.busy(account.gpu())
    account.tag(mended, marked=f"{mended} idle=stop@{past}")
    asleep = account.gpu(tags={"curfew:hours": "Mon-Sun 00:00-24:00 UTC", "curfew:stopped": f"hours {past}"})
    account.aws.set_instance(asleep, state="stopped")
    runs = [account.tick() for _ in range(3)]
    done = {step["action"] for run in runs for step in run.steps if step["outcome"] == "done"}
    assert done == {"mark", "unmark", "notify", "stop", "terminate", "start"}
    account.write_config("mood = 1")
    return [*runs, account.tick(), account.tick(b"{}")]
