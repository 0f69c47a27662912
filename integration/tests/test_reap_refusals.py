"""What is wrong from the start: configurations, environments, events. A sentence, no write, and the process lives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_aws import LocalAws
from local_aws.client import REGION
from reaping import SCHEDULED, Account, ago, rfc3339

REFUSED = [
    # document, line, what the sentence names; every mistake is tested in model::config
    ('mode = "observe"\nmood = "good"\n', 2, "mood"),
    ("[idle]\nwindow = 60\n", 2, "idle.window"),
    ('mode = "enforce\n', 1, ""),
]


def in_danger(account: Account) -> str:
    """What any run that acted at all would stop."""
    return account.gpu(tags={"curfew:expires-at": rfc3339(ago(minutes=5))})


@pytest.mark.parametrize(("document", "line", "key"), REFUSED)
def test_a_configuration_that_is_refused(account: Account, document: str, line: int, key: str) -> None:
    gpu = in_danger(account)
    account.write_config(document)
    run = account.tick()
    assert "config/curfew.toml" in run.error and f"line {line}" in run.error and key in run.error
    assert not any(action.startswith("ec2:") for action in run.counts)
    assert run.severities() == {"untagged": "error"}
    assert run.error in run.message("untagged") and "acts on nothing" in run.message("untagged")
    again = account.tick()
    assert again.error == run.error and again.messages == []
    assert account.state(gpu) == "running"


def test_once_mended_the_same_process_goes_on(account: Account) -> None:
    gpu = in_danger(account)
    account.write_config("mood = 1")
    account.tick()
    account.configure()
    assert account.tick().said(gpu) == ("stop", "expired", "done")


@pytest.mark.parametrize("body", [b"\xff\xfe", b"#" * 300_000, b'mode = "\xe9"'])
def test_a_configuration_that_is_no_text_or_too_much_of_it(account: Account, body: bytes) -> None:
    gpu = in_danger(account)
    account.write_config(body)
    assert "config/curfew.toml" in account.tick().error
    assert account.state(gpu) == "running"


@pytest.mark.parametrize("fault", ["access_denied", "error500"])
def test_a_configuration_that_cannot_be_read_is_not_the_default(account: Account, fault: str) -> None:
    gpu = in_danger(account)
    account.aws.fault("s3:GetObject", fault, match="config/curfew.toml", times=None)
    run = account.tick()
    assert "config/curfew.toml" in run.error
    assert account.state(gpu) == "running"
    account.aws.clear_faults()
    assert account.tick().said(gpu) == ("stop", "expired", "done")


def test_only_the_configured_regions_are_looked_at(account: Account) -> None:
    account.configure(regions=["eu-central-1"])
    account.untagged("inf2.xlarge")
    run = account.tick()
    assert (run.response["regions"], run.response["seen"]) == (["eu-central-1"], 0)
    assert run.counts["ec2:DescribeRegions"] == 0


BAD_EVENTS: list[tuple[Any, str]] = [
    (b"", "empty"),
    (b"   ", "empty"),
    (b"{", "JSON"),
    (b"null", "null"),
    (b"[]", "array"),
    (b"42", "number"),
    (b'"Scheduled Event"', "string"),
    (b"{}", "detail-type"),
    (b"\xff\xfe\x00", "UTF-8"),
    ({"source": "aws.events"}, "detail-type"),
    ({"source": "aws.s3", "detail-type": "Object Created", "detail": {}}, "Object Created"),
    ({"source": "my.app", "detail-type": "Scheduled Event", "detail": {}}, "my.app"),
    ({"source": 3, "detail-type": []}, ""),
    ({"Records": [{"Sns": {"Message": "AWS Budgets"}}]}, ""),
    (b"[" * 100_000, ""),
    (json.dumps({"source": "x" * 200_000, "detail-type": "y", "detail": {}}).encode(), "xxx…"),
    (b"{" + b" " * 3_000_000 + b"}", "at most"),
]


def test_bad_events_are_errors_with_a_sentence_and_the_process_lives(account: Account) -> None:
    gpu = in_danger(account)
    account.tick(BAD_EVENTS[0][0])
    process = account.process_id
    for event, named in BAD_EVENTS:
        run = account.tick(event)
        assert run.invocation.error is not None, event
        assert named in run.error, run.error
        assert run.error.endswith((".", "…")) or len(run.error.split()) > 4, run.error
        assert len(run.error) < 5000
        assert run.counts == {} and run.messages == []
    assert account.state(gpu) == "running"
    assert account.tick(SCHEDULED).said(gpu) == ("stop", "expired", "done")
    assert account.process_id == process


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CURFEW_BUCKET", None),
        ("CURFEW_BUCKET", ""),
        ("CURFEW_BUCKET", "s3://curfew-state"),
        ("CURFEW_TOPIC_ARN", None),
        ("CURFEW_TOPIC_ARN", "curfew"),
        ("CURFEW_MODE", "Enforce"),
        ("CURFEW_MODE", "dry-run"),
    ],
)
def test_a_wrong_environment_fails_at_start_and_says_what_to_set(
    account: Account, variable: str, value: str | None
) -> None:
    gpu = in_danger(account)
    account.restart(**{variable: value})
    run = account.tick()
    assert f"environment is wrong: {variable}" in run.error and len(run.error.split()) > 10
    assert run.counts == {}
    assert account.state(gpu) == "running"


def test_a_bucket_that_does_not_exist(account: Account) -> None:
    account.restart(CURFEW_BUCKET="another-bucket")
    run = account.tick()
    assert "CURFEW_BUCKET" in run.error
    assert run.ec2_writes == []


def test_a_topic_that_does_not_exist(aws: LocalAws) -> None:
    with Account(aws) as account:
        gpu = in_danger(account)
        account.restart(CURFEW_TOPIC_ARN=f"arn:aws:sns:{REGION}:123456789012:another")
        run = account.tick()
        assert "sns:ListSubscriptionsByTopic" in {gap["call"] for gap in run.gaps}
        assert account.state(gpu) == "running", "nobody would hear of it"
