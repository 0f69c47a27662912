"""`send-report`: the page of the day in the bucket, and its digest to whoever listens, by the real function."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local_aws import LocalAws
from reaping import BUCKET, Account, ago, moment
from reaping_budgets import BudgetAccount


class ReportAccount(Account):
    function = "send-report"


@pytest.fixture
def sender(aws: LocalAws) -> Iterator[ReportAccount]:
    """One in which an instance of team vision has run for five hours, as the ledger knows."""
    with BudgetAccount(aws) as money, ReportAccount(aws, heard=False) as sender:
        money.launch(ago(hours=5))
        money.tick()
        sender.aws.client("sqs").purge_queue(QueueUrl=sender.aws.client("sqs").get_queue_url(QueueName="curfew-listener")["QueueUrl"])
        yield sender


def page_key(sender: ReportAccount) -> str:
    [key] = sender.keys("reports/")
    return key


def test_the_first_run_of_a_day_sends_the_digest_and_each_renews_the_page(sender: ReportAccount) -> None:
    run = sender.tick()
    key = page_key(sender)
    at = moment(run.response["at"])
    assert key == f"reports/{at:%Y-%m-%d}/report.html"
    page = sender.aws.client("s3").get_object(Bucket=BUCKET, Key=key)
    assert page["ContentType"] == "text/html; charset=utf-8" and b"<h1>GPU spend in " in page["Body"].read()
    [message] = run.messages
    assert message["attributes"] == {"team": "untagged", "function": "send-report", "severity": "info"}
    assert " spent on GPUs in " in message["message"].splitlines()[0] and f"s3://{BUCKET}/{key}" in message["message"]
    assert run.counts["s3:PutObject"] == 2 and sender.audit(run)["function"] == "send-report"
    again = sender.tick()
    assert again.messages == [] and again.counts["s3:PutObject"] == 2


def test_a_digest_that_is_refused_is_sent_by_the_next_run(sender: ReportAccount) -> None:
    sender.aws.fault("sns:Publish", "custom", status=403, code="AuthorizationError", message="not authorized")
    run = sender.tick()
    assert "the digest could not be sent" in run.error and sender.keys("reports/") == []
    sender.aws.clear_faults()
    assert len(sender.tick().messages) == 1 and page_key(sender)


def test_what_cannot_be_read_is_a_gap_of_the_response_and_a_line_of_the_digest(sender: ReportAccount) -> None:
    for key in sender.keys("ledger/"):
        sender.put(key, b"{")
    run = sender.tick()
    [message] = run.messages
    assert any("ledger" in gap["error"] for gap in run.gaps) and "Not known: the ledger of us-east-1 could not be read" in message["message"]
