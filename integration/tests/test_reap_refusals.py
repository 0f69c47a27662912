"""What is wrong from the start: configurations, environments, events. A sentence, no write, and the process lives."""

from __future__ import annotations

import pytest

from local_aws.client import REGION
from reaping import Account, ago, rfc3339


def in_danger(account: Account) -> str:
    """What any run that acted at all would stop."""
    return account.remember_labels(account.gpu(tags={"curfew:expires-at": rfc3339(ago(minutes=5))}))


def test_a_refused_or_unreadable_configuration_is_not_the_default(account: Account) -> None:
    gpu = in_danger(account)
    account.write_config("[idle]\nwindow = 60\n")
    run = account.tick()
    assert all(words in run.error for words in ("config/curfew.toml", "line 2", "idle.window"))
    assert not any(action.startswith("ec2:") for action in run.counts)
    assert run.severities() == {"untagged": "error"}
    assert run.error in run.message("untagged") and "changes nothing until" in run.message("untagged")
    again = account.tick()
    assert again.error == run.error and again.messages == []
    account.write_config(b'mode = "\xe9"')
    assert "config/curfew.toml" in account.tick().error
    account.configure()
    account.aws.fault("s3:GetObject", "access_denied", match="config/curfew.toml", times=None)
    assert "config/curfew.toml" in account.tick().error
    assert account.state(gpu) == "running"
    process = account.process_id
    account.aws.clear_faults()
    assert account.tick().said(gpu) == ("stop", "expired", "done") and account.process_id == process


def test_a_wrong_environment_fails_at_start_and_says_what_to_set(account: Account) -> None:
    account.restart(CURFEW_BUCKET=None, CURFEW_MODE="Enforce")
    run = account.tick()
    assert "environment is wrong: CURFEW_BUCKET" in run.error and "CURFEW_MODE" in run.error and run.counts == {}


@pytest.mark.parametrize("variable", ["CURFEW_BUCKET", "CURFEW_TOPIC_ARN"])
def test_a_bucket_or_a_topic_that_does_not_exist(account: Account, variable: str) -> None:
    gpu = in_danger(account)
    absent = {"CURFEW_BUCKET": "another-bucket", "CURFEW_TOPIC_ARN": f"arn:aws:sns:{REGION}:123456789012:another"}
    account.restart(**{variable: absent[variable]})
    run = account.tick()
    if variable == "CURFEW_BUCKET":
        assert "CURFEW_BUCKET" in run.error
    else:
        assert "sns:ListSubscriptionsByTopic" in {gap["call"] for gap in run.gaps}
    assert run.ec2_writes == [] and account.state(gpu) == "running"
