"""Slack, Teams and other tools: what the real functions send to a chat topic and to an event bus, as those who listen there receive it."""

from __future__ import annotations

import json
from typing import Any

from local_aws import LocalAws
from reaping import Account
from test_send_report import SENDER, ReportAccount, mails

BUS = "tools"


class Listener:
    """A queue behind a rule on the bus, and one behind a filter policy of the chat topic."""

    def __init__(self, account: Account) -> None:
        self.sqs, sns, events = (account.aws.client(name) for name in ("sqs", "sns", "events"))
        self.chat_arn = sns.create_topic(Name="chat")["TopicArn"]
        policy = json.dumps({"team": ["vision"], "severity": ["warning", "action", "error"]})
        sns.subscribe(TopicArn=self.chat_arn, Protocol="sqs", Endpoint=self._queue("chat"), Attributes={"FilterPolicy": policy})
        events.create_event_bus(Name=BUS)
        events.put_rule(Name="curfew", EventBusName=BUS, EventPattern=json.dumps({"source": ["curfew"]}))
        events.put_targets(Rule="curfew", EventBusName=BUS, Targets=[{"Id": "queue", "Arn": self._queue("events")}])
        account.restart(CURFEW_CHAT_TOPIC_ARN=self.chat_arn, CURFEW_EVENT_BUS=BUS)

    def _queue(self, name: str) -> str:
        url = self.sqs.create_queue(QueueName=name)["QueueUrl"]
        return self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]

    def received(self, name: str) -> list[dict[str, Any]]:
        url = self.sqs.get_queue_url(QueueName=name)["QueueUrl"]
        messages = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for message in messages:
            self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in messages]


def last_to(topic_arn: str, team: str, account: Account) -> dict[str, Any]:
    """The last message that a topic got for a team."""
    return [one for one in account.aws.messages() if (one["topic"], one["attributes"].get("team")) == (topic_arn, team)][-1]


def test_a_stop_is_told_to_a_chat_and_to_other_tools(account: Account) -> None:
    listener = Listener(account)
    gpu = account.idle(account.gpu(tags={"Name": "<!channel>"}))
    account.gpu(tags={"Team": "nlp", "curfew:idle-after": "soon"})
    for action, kind, severity in (("mark", "announcement", "warning"), ("stop", "event", "action")):
        run = account.tick()
        assert run.said(gpu)[0] == action and run.gaps == []
        [copy] = listener.received("chat")
        chat = json.loads(copy["Message"])
        assert (chat["version"], chat["source"], chat["content"]["keywords"]) == ("1.0", "custom", ["vision", severity, "reap-instances"])
        assert gpu in chat["content"]["title"] and "‹!channel›" in chat["content"]["description"]
        told = {event["detail"]["team"]: event for event in listener.received("events")}
        assert set(told) == ({"vision", "nlp"} if action == "mark" else {"vision"})
        event = told["vision"]
        assert (event["source"], event["detail-type"]) == ("curfew", "Curfew Notification")
        detail = event["detail"]
        assert [detail[name] for name in ("resource", "kind", "action", "rule", "name")] == [gpu, kind, "stop", "idle", "<!channel>"]
        assert detail["run"] == run.response["run"]
        assert detail["headline"] + "." in last_to(account.topic_arn, "vision", account)["message"].splitlines()[0]


def test_channels_that_refuse_or_hang_hold_nothing_up(account: Account) -> None:
    listener = Listener(account)
    gpu = account.idle(account.gpu())
    account.aws.fault("events:PutEvents", "access_denied", times=None)
    account.aws.fault("sns:Publish", "slow", match="chat", seconds=60, times=None)
    run = account.tick()
    assert run.said(gpu) == ("mark", "idle", "done") and account.mark(gpu) is not None
    calls = {gap["call"]: gap["error"] for gap in run.gaps}
    assert f"for the bus {BUS} were not accepted" in calls["events:PutEvents"] and "grant events:PutEvents" in calls["events:PutEvents"]
    assert f"to the chat topic {listener.chat_arn}: no complete answer within 4 s" in calls["sns:Publish"]
    account.aws.clear_faults()
    account.tick()
    assert "grant events:PutEvents" in last_to(account.topic_arn, "untagged", account)["message"]


class AccountTopic:
    """The topic with one message a run about everything, whose subscriber is the only reader."""

    def __init__(self, account: Account) -> None:
        self._aws = account.aws
        self.arn = account.aws.client("sns").create_topic(Name="everything")["TopicArn"]
        account.subscribe(self.arn)
        account.restart(CURFEW_ACCOUNT_TOPIC_ARN=self.arn)
        self._received = 0

    def received(self) -> list[dict[str, Any]]:
        """What it got since it was asked last."""
        messages = [one for one in self._aws.messages() if one["topic"] == self.arn]
        new, self._received = messages[self._received :], len(messages)
        return new


def test_one_message_a_run_has_everything_and_its_reader_is_one_of_each_team(aws: LocalAws) -> None:
    with Account(aws, heard=False) as account:
        topic = AccountTopic(account)
        small = account.idle(account.gpu(tags={"Team": "nlp"}))
        large = account.idle(account.gpu("g5.12xlarge"), gpus=4)
        run = account.tick()
        assert run.said(small)[0] == "mark" and run.said(large)[0] == "mark" and run.gaps == []
        teams = [one["attributes"]["team"] for one in aws.messages() if one["topic"] == account.topic_arn]
        assert sorted(teams) == ["nlp", "vision"]
        [message] = topic.received()
        assert message["attributes"] == {"function": "reap-instances", "severity": "warning"}
        assert large in message["subject"], "the dearest first"
        assert message["message"].index(large) < message["message"].index(small)
        run = account.tick()
        assert (run.said(small)[0], run.said(large)[0]) == ("stop", "stop")
        [message] = topic.received()
        assert message["subject"].startswith("Curfew stopped 2 instances (several teams)")


def test_what_one_topic_refuses_comes_later_and_the_other_gets_it_once(aws: LocalAws) -> None:
    with Account(aws, heard=False) as account:
        topic = AccountTopic(account)
        gpu = account.idle(account.gpu())
        aws.fault("sns:Publish", "access_denied", match=account.topic_arn, times=1)
        run = account.tick()
        assert run.said(gpu) == ("mark", "idle", "done"), "its only reader has the announcement"
        assert [gap["call"] for gap in run.gaps] == ["sns:Publish"]
        [first] = topic.received()
        account.busy(gpu)
        account.tick()
        late = last_to(account.topic_arn, "vision", account)["message"]
        assert "Curfew will stop" in late and "SNS did not accept" in late
        assert not any(one["message"] == first["message"] for one in topic.received())


def test_what_the_only_reader_did_not_get_is_not_announced(aws: LocalAws) -> None:
    with Account(aws, heard=False) as account:
        topic = AccountTopic(account)
        gpu = account.idle(account.gpu())
        aws.fault("sns:Publish", "access_denied", match=topic.arn, times=None)
        for _ in range(2):
            assert account.tick().said(gpu) == ("mark", "idle", "not-reached")
        assert account.mark(gpu) is None and account.state(gpu) == "running"


def test_an_owner_is_mailed_and_reads_what_no_subscriber_does(aws: LocalAws) -> None:
    with Account(aws, heard=False) as account:
        account.configure(notify={"owners": True}, report={"sender": SENDER})
        aws.client("sesv2").create_email_identity(EmailIdentity=SENDER)
        ours, foreign, refused = (
            account.idle(account.gpu(tags={"Owner": owner})) for owner in ("ada@example.com", "eve@example.org", "grace@example.com")
        )
        aws.fault("ses:SendEmail", "custom", match="grace@", status=400, code="MessageRejected", message="not verified", times=None)
        run = account.tick()
        assert run.said(ours) == ("mark", "idle", "done")
        assert run.said(foreign) == ("mark", "idle", "observed"), "anybody may write a tag: nothing is mailed to another domain"
        assert run.said(refused) == ("mark", "idle", "not-reached") and account.mark(refused) is None
        assert {gap["call"] for gap in run.gaps} == {"sns:ListSubscriptionsByTopic", "ses:SendEmail"}
        sent = mails(account)
        assert set(sent) == {"ada@example.com"} and ours in str(sent["ada@example.com"]) and foreign not in str(sent["ada@example.com"])
        run = account.tick()
        assert [run.said(gpu)[2] for gpu in (ours, foreign, refused)] == ["done", "observed", "not-reached"]
        assert [account.state(gpu) for gpu in (ours, foreign, refused)] == ["stopped", "running", "running"]
        assert not any(refused in one["message"] for one in aws.messages()), "nobody reads it there, and each run would repeat it"


def test_the_digest_goes_to_both(aws: Any) -> None:
    with ReportAccount(aws) as sender:
        listener = Listener(sender)
        assert {gap["call"] for gap in sender.tick().gaps} == {"s3:GetObject"}, "there is no ledger yet"
        first_line = last_to(sender.topic_arn, "untagged", sender)["message"].splitlines()[0]
        assert len(first_line) < 160 and " spent on GPUs in " in first_line
        [event] = listener.received("events")
        assert event["detail"]["about"] == "report" and event["detail"]["headline"] + "." == first_line
        assert last_to(listener.chat_arn, "untagged", sender)["attributes"]["function"] == "send-report"
