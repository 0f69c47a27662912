"""`send-report`: the page of the day in the bucket, its digest to the subscribers, and its mails, by the real function."""

from __future__ import annotations

import csv
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from local_aws import LocalAws
from pricing import know_prices
from reaping import BUCKET, Account, ago, moment, within_a_month
from reaping_budgets import BudgetAccount
from template_iam import Request, may

SENDER = "curfew@example.com"


class ReportAccount(Account):
    function = "send-report"


@pytest.fixture
def sender(aws: LocalAws) -> Iterator[ReportAccount]:
    """One in which instances of the teams vision and nlp have run for five hours, as the ledger knows."""
    with BudgetAccount(aws) as money, ReportAccount(aws, heard=False) as sender:
        money.launch(ago(hours=5))
        money.launch(ago(hours=5), tags={"Team": "nlp"})
        money.tick_at(at := within_a_month())
        sender.move_to(at)
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
    assert run.counts["s3:PutObject"] == 3 and sender.audit(run)["function"] == "send-report"
    again = sender.tick()
    assert again.messages == [] and again.counts["s3:PutObject"] == 3


def test_each_run_replaces_the_charges_of_the_month_for_athena(sender: ReportAccount) -> None:
    sender.configure(account={"name": "research"})
    month = f"{moment(sender.tick().response['at']):%Y-%m}"
    [key] = sender.keys("exports/")
    assert key == f"exports/{month}/curfew-focus.csv"
    stored = sender.aws.client("s3").get_object(Bucket=BUCKET, Key=key)
    rows = list(csv.DictReader(stored["Body"].read().decode().splitlines()))
    assert stored["ContentType"] == "text/csv; charset=utf-8" and {row["x_Team"] for row in rows} >= {"vision", "nlp"}
    assert {(row["SubAccountName"], row["x_IsEstimate"]) for row in rows} == {("research", "true")}
    assert all(float(row["EffectiveCost"]) > 0 for row in rows if row["ResourceType"] == "instance")
    sender.tick()
    assert sender.keys("exports/") == [key]


def test_charges_that_cannot_be_written_are_a_gap_beside_the_report(sender: ReportAccount) -> None:
    sender.aws.fault("s3:PutObject", "access_denied", match="exports/")
    run = sender.tick()
    assert len(run.messages) == 1 and page_key(sender) and sender.keys("exports/") == []
    assert [gap["region"] for gap in run.gaps if gap["call"] == "s3:PutObject"] == ["us-east-1"]


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


def test_the_page_has_the_price_of_checkpoints_and_of_curfew_itself(sender: ReportAccount) -> None:
    sender.put("checkpoints/vision/llama-0123abcd/1/100/files/model.pt", b"x" * 300_000)
    sender.put("checkpoints/vision/llama-0123abcd/1/100/manifest.json", b"{}")
    sender.tick()
    page = sender.aws.client("s3").get_object(Bucket=BUCKET, Key=page_key(sender))["Body"].read().decode()
    assert '<h2 id="checkpoints">' in page and "0.0 GiB" in page
    assert "for 1 runs and 0 metrics" in page, "the beat of enforce-budgets that the fixture made"
    usage = sender.read(sender.keys("plans/")[0])["usage"]
    assert usage["runs"] == 1 and usage["milliseconds"] > 0 and usage["s3_reads"] > 3 and usage["s3_writes"] >= 3, usage


def test_what_could_cost_less_next_month_is_found_by_two_metrics_of_each_gpu(sender: ReportAccount) -> None:
    without = sender.tick()
    [message] = without.messages
    assert "\nNext month: CloudWatch has no GPU metrics of the 2 instances on demand" in message["message"], message
    sender.aws.client("s3").delete_object(Bucket=BUCKET, Key=page_key(sender))
    large = sender.gpu("g5.12xlarge", launched=ago(hours=24 * 30))
    hours = 24 * 20
    for index in range(4):
        dimensions = {"InstanceId": large, "index": str(index)}
        for metric, value in (("nvidia_smi_utilization_gpu", 80), ("nvidia_smi_memory_used", 9_000)):
            sender.aws.put_metrics("CWAgent", metric, dimensions, [0 if index else value] * hours, ago(hours=hours), step_seconds=3_600)
    know_prices(sender, {"g5.xlarge": 1.0, "g5.12xlarge": 5.0})
    run = sender.tick()
    [message] = run.messages
    finding = next(line for line in message["message"].splitlines() if large in line)
    assert finding.startswith("     $2,920.00  ") and "it used 1 of its 4 GPUs" in finding and "try a g5.xlarge" in finding, finding
    assert "By the GPU metrics of 1 of 3 instances on demand" in message["message"]
    assert run.counts["cloudwatch:GetMetricData"] == 1 and sender.audit(run)["usage"]["metrics"] == 8
    assert '<h2 id="next-month">' in sender.aws.client("s3").get_object(Bucket=BUCKET, Key=page_key(sender))["Body"].read().decode()


def test_a_denied_metric_is_a_gap_beside_the_rest_of_the_report(sender: ReportAccount) -> None:
    sender.aws.fault("cloudwatch:ListMetrics", "access_denied", times=None)
    run = sender.tick()
    [message] = run.messages
    [gap] = [gap for gap in run.gaps if gap["call"] == "cloudwatch:ListMetrics"]
    assert gap["region"] == "us-east-1" and "Next month: The GPU metrics of 2 instances on demand could not be read." in message["message"]
    assert "Not known: how hard instances in us-east-1 worked: cloudwatch:ListMetrics" in message["message"], message


def mails(sender: Account) -> dict[str, dict[str, Any]]:
    """What SES took, by recipient."""
    with urllib.request.urlopen(f"{sender.aws.endpoint}/moto-api/data.json", timeout=30) as answer:
        sent = json.load(answer)["ses"].get("Message", [])
    return {address: mail for mail in sent for address in mail["destinations"]["ToAddresses"]}


def test_its_role_may_mail_from_an_identity_with_a_configuration_set(sender: ReportAccount) -> None:
    sender.configure(teams={"vision": {"email": "vision@example.com"}}, report={"sender": SENDER})
    ses = sender.aws.client("sesv2")
    ses.create_configuration_set(ConfigurationSetName="by-default")
    ses.create_email_identity(EmailIdentity=SENDER, ConfigurationSetName="by-default")
    sender.tick()
    [mail] = sender.aws.calls("ses:SendEmail")
    assert [arn.rpartition(":")[2] for arn in mail["authorized_on"]] == [f"identity/{SENDER}", "configuration-set/by-default"]

    def sends(arn: str, address: str) -> bool:
        asked = Request("ses:SendEmail", arn, context={"ses:FromAddress": address})
        return may("send-report", asked, parameters={"ReportSender": [SENDER]})

    assert all(sends(arn, SENDER) for arn in mail["authorized_on"])
    assert not any(sends(arn, "ceo@example.com") for arn in mail["authorized_on"])


def test_each_team_is_mailed_its_own_part_once_a_day_and_what_fails_is_told(sender: ReportAccount) -> None:
    teams = {"vision": {"email": "vision@example.com"}, "nlp": {"email": "nlp@example.com"}, "idlers": {"email": "idle@example.com"}}
    sender.configure(teams=teams, report={"sender": SENDER, "email": "finops@example.com"})
    sender.aws.client("sesv2").create_email_identity(EmailIdentity=SENDER)
    sender.aws.fault("ses:SendEmail", "custom", match="nlp@example.com", status=400, code="MessageRejected", message="not verified", times=None)
    run = sender.tick()
    assert run.counts["ses:SendEmail"] == 3
    sent = mails(sender)
    assert set(sent) == {"vision@example.com", "finops@example.com"}
    assert {mail["source"] for mail in sent.values()} == {SENDER}
    assert " spent by vision on GPUs in " in sent["vision@example.com"]["subject"] and "nlp" not in sent["vision@example.com"]["body"]
    assert "nlp" in sent["finops@example.com"]["body"] and "<table" in sent["finops@example.com"]["body"]
    [gap] = [gap for gap in run.gaps if gap["call"] == "ses:SendEmail"]
    assert gap["error"].startswith("nlp@example.com: ") and "MessageRejected: not verified" in gap["error"]
    digest, told = run.messages
    assert told["attributes"]["severity"] == "warning" and "nlp@example.com" in told["message"]
    sender.aws.clear_faults()
    again = sender.tick()
    assert again.counts["ses:SendEmail"] == 0 and again.messages == []
