"""What arrives in a bucket makes jobs: the real `run-jobs`, by the events of another bucket than its own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from jobs import SPEC, JobAccount, sample
from reaping import BUCKET, Run, now, rfc3339

DATA = "vision-data"
TRIGGER = "triggers/vision/ingest.toml"
EACH = SPEC + f'[trigger]\nfrom = "s3://{DATA}/uploads/"\nmax_per_day = 2\n'
QUIET = SPEC + f'[trigger]\nfrom = "s3://{DATA}/uploads/"\nfor = "quiet"\nquiet = "5m"\n'


def created(key: str) -> dict[str, Any]:
    """The event of an object of the state bucket."""
    event = sample("s3-object-created-inbox")
    event["detail"]["bucket"]["name"] = BUCKET
    event["detail"]["object"]["key"] = key
    return event


class TriggerAccount(JobAccount):
    """Both of its teams may watch the whole bucket."""

    eager = {**JobAccount.eager, "teams": {team: {"buckets": [f"s3://{DATA}"]} for team in ("vision", "nlp")}}
    eager |= {"jobs": {"shared_role": "allow"}}

    def environment(self, **over: str | None) -> dict[str, str]:
        return super().environment(**{"CURFEW_TRIGGER_BUCKETS": DATA, **over})

    def arrived(self, key: str, version: str, ago: timedelta = timedelta(0)) -> dict[str, Any]:
        event = sample("s3-object-created-trigger")
        event["time"] = rfc3339(now() - ago)
        event["detail"]["bucket"]["name"] = DATA
        event["detail"]["object"] |= {"key": key, "version-id": version}
        return event

    def batch(self, *events: dict[str, Any], **how: Any) -> Run:
        return self.tick(self.batch_of(list(events)), **how)

    def made(self, team: str = "vision") -> list[str]:
        return [key for key in self.keys(f"inbox/{team}/ingest.") if key.endswith(".toml")]

    def env_of(self, key: str) -> dict[str, str]:
        text = self.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read().decode()
        return tomllib.loads(text)["env"]

    def state(self) -> dict[str, Any]:
        return self.read("triggers/vision/ingest.state.json")


@pytest.fixture
def account(aws: Any) -> Iterator[TriggerAccount]:
    with TriggerAccount(aws) as account:
        yield account


def test_each_object_is_one_job_whatever_is_repeated(account: TriggerAccount) -> None:
    account.put(TRIGGER, EACH.encode())
    one, other = account.arrived("uploads/a b.csv", "v1"), account.arrived("uploads/b.csv", "v1")
    elsewhere = account.arrived("other/c.csv", "v1")
    account.batch(one, other, one, elsewhere)
    made = account.made()
    assert sorted(account.env_of(key)["TRIGGER_KEY"] for key in made) == ["uploads/a b.csv", "uploads/b.csv"]
    assert {account.env_of(key)["TRIGGER_BUCKET"] for key in made} == {DATA}
    assert len(account.keys("active/")) == 2, "the same run has accepted both"
    assert all(key.startswith("active/vision/ingest-") for key in account.keys("active/"))
    # The queue hands an event over again, alone this time.
    account.tick(one)
    assert account.made() == made and len(account.state()["made"]) == 2 and len(account.keys("active/")) == 2


def test_the_team_hears_once_a_day_that_the_jobs_of_the_day_are_made(account: TriggerAccount) -> None:
    account.put(TRIGGER, EACH.encode())
    first = account.batch(*(account.arrived(f"uploads/{number}", "v1") for number in range(5)))
    assert len(account.made()) == 2
    [message] = [one for one in first.messages if "max_per_day" in one["message"]]
    assert message["attributes"]["team"] == "vision" and "3 further arrivals got no job" in message["message"]
    account.tick()
    again = account.tick(account.arrived("uploads/9", "v1"))
    assert not any("max_per_day" in one["message"] for one in again.messages)
    assert len(account.made()) == 2 and account.state()["refused"][1] == 4


def test_a_crash_between_state_and_document_is_repaired_by_the_event(account: TriggerAccount) -> None:
    account.put(TRIGGER, EACH.encode())
    event = account.arrived("uploads/a", "v1")
    account.aws.fault("s3:PutObject", "access_denied", match="inbox/vision/ingest.", times=None)
    assert "its event is tried again" in account.tick(event).error
    assert account.made() == [] and len(account.state()["made"]) == 1
    account.aws.clear_faults()
    account.tick(event)
    assert len(account.made()) == 1 and len(account.state()["made"]) == 1


def test_quiet_makes_one_job_once_nothing_has_arrived_for_that_long(account: TriggerAccount) -> None:
    account.put(TRIGGER, QUIET.encode())
    last = account.arrived("uploads/b", "v1", timedelta(minutes=2))
    account.batch(account.arrived("uploads/a", "v1", timedelta(minutes=9)), last)
    account.tick()
    assert account.made() == [], "two minutes of quiet"
    late = now() + timedelta(minutes=4)
    account.tick_at(late)
    [made] = account.made()
    assert account.env_of(made) == {"TRIGGER_BUCKET": DATA, "TRIGGER_PREFIX": "uploads/"}
    assert "pending" not in account.state()
    account.tick(last)
    assert account.made() == [made], "the queue hands it over again"


def test_a_wrong_trigger_makes_no_job_and_its_team_hears_every_mistake(account: TriggerAccount) -> None:
    account.put(TRIGGER, EACH.replace("max_per_day = 2", 'max_per_day = 0\nevery = "5m"').encode())
    teams = {"vision": {"buckets": [f"s3://{DATA}", "foreign-data"]}}
    account.configure(teams=teams)
    account.put("triggers/vision/other.toml", EACH.replace(DATA, "foreign-data").encode())
    account.put("inbox/vision/llama.toml", EACH.encode())
    run = account.batch(account.arrived("uploads/a", "v1"), account.arrived("uploads/b", "v1"))
    text = run.message()
    lines = EACH.splitlines()
    at = lines.index("max_per_day = 2") + 1
    assert f"line {at}: `trigger.max_per_day`" in text and f"line {at + 1}: `trigger.every`" in text
    assert "no event comes from s3://foreign-data" in text
    answer = account.answer("inbox/vision/llama.toml")
    assert answer and answer["is"] == "rejected" and [one["key"] for one in answer["mistakes"]] == ["trigger"]
    assert answer["mistakes"][0]["line"] == lines.index("[trigger]") + 1
    assert account.keys("jobs/") == [] and account.made() == []
    assert account.tick(account.arrived("uploads/c", "v1")).messages == []


def test_a_trigger_sees_no_upload_beyond_the_folders_of_its_team(account: TriggerAccount) -> None:
    """Names of files are data."""
    allowed = {"vision": {"buckets": [f"s3://{DATA}/uploads/"]}, "nlp": {"buckets": [f"s3://{DATA}/uploads-2"]}}
    account.configure(teams=allowed)
    account.put(TRIGGER, EACH.encode())
    account.put(OTHER, EACH.encode())
    account.put("triggers/nlp/all.toml", EACH.replace("uploads/", "").encode())
    account.put("triggers/visoin/ingest.toml", EACH.encode())
    run = account.batch(account.arrived("uploads/patient 7.csv", "v1"))
    assert len(account.made()) == 1 and account.made("nlp") == account.made("visoin") == []
    assert [key for key in account.keys("triggers/nlp/") + account.keys("inbox/nlp/") if not key.endswith(".toml")] == []
    text = run.message("nlp")
    assert "buckets of [teams.nlp] in the configuration does not allow" in text and "patient" not in text
    assert "the configuration has no [teams.visoin]" in run.message("untagged")
    # Told when it is written, too, and what the configuration takes away is gone.
    account.configure(teams={"vision": {"buckets": []}, "nlp": {}})
    assert "it allows none" in account.tick(created(TRIGGER)).message("vision")
    account.batch(account.arrived("uploads/b.csv", "v1"))
    assert len(account.made()) == 1


OTHER = "triggers/nlp/ingest.toml"


def test_a_damaged_state_is_begun_anew_and_no_arrival_is_lost(account: TriggerAccount) -> None:
    for key in (TRIGGER, OTHER):
        account.put(key, EACH.encode())
    for damaged in (b"{", b'{"schema": 1, "made": 7}'):
        account.put("triggers/vision/ingest.state.json", damaged)
        version = f"v{len(damaged)}"
        run = account.tick(account.arrived("uploads/a", version))
        assert run.response and account.state()["schema"] == 1 and len(account.state()["made"]) == 1
    assert len(account.made()) == len(account.made("nlp")) == 2
    # The second time is on the same day.
    assert not any("began it anew" in one["message"] for one in run.messages)


def test_its_team_hears_of_a_damaged_state_without_an_arrival(account: TriggerAccount) -> None:
    account.put(TRIGGER, QUIET.encode())
    account.put("triggers/vision/ingest.state.json", b"{")
    [message] = account.tick().messages
    assert message["attributes"]["team"] == "vision" and "write one more object below its `from`" in message["message"]
    assert account.state() == {"schema": 1, "made": {}} and account.tick().messages == []


def test_a_state_of_a_newer_curfew_stays_and_holds_up_no_other(account: TriggerAccount) -> None:
    """After a rollback."""
    for key in (TRIGGER, OTHER):
        account.put(key, EACH.encode())
    account.put("triggers/vision/ingest.state.json", b'{"schema": 99}')
    event = account.arrived("uploads/a", "v1")
    run = account.tick(event)
    assert run.response and account.state() == {"schema": 99} and account.made() == [] and len(account.made("nlp")) == 1
    [message] = [one for one in run.messages if "makes no jobs" in one["message"]]
    assert message["attributes"]["team"] == "vision" and "deploy the version that wrote it" in message["message"]


def test_a_trigger_whose_state_would_have_too_long_a_key_is_refused(account: TriggerAccount) -> None:
    team = "x" * 1_000
    account.configure(teams={one: {"buckets": [DATA]} for one in (team, "nlp")})
    for key in (f"triggers/{team}/ingest.toml", OTHER):
        account.put(key, EACH.encode())
    run = account.tick(account.arrived("uploads/a", "v1"))
    assert run.response and len(account.made("nlp")) == 1 and account.made(team) == [] and run.gaps == []
    assert "the name of the team is too long for the keys of S3" in run.message(team)


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidObjectState", "KMS.DisabledException"])
def test_a_trigger_that_cannot_be_read_holds_up_no_other(account: TriggerAccount, code: str) -> None:
    """A team chooses the key and the storage class of its objects."""
    for key in (TRIGGER, OTHER):
        account.put(key, EACH.encode())
    account.aws.fault("s3:GetObject", "custom", status=403, code=code, match=TRIGGER, times=None)
    event = account.arrived("uploads/a", "v1")
    run = account.tick(event)
    assert run.response and account.made() == [] and len(account.made("nlp")) == 1
    [message] = [one for one in run.messages if "makes no jobs" in one["message"]]
    assert message["attributes"]["team"] == "vision" and code in message["message"]
    assert not any("makes no jobs" in one["message"] for one in account.tick(account.arrived("uploads/b", "v1")).messages)
    # If there is no other, the event comes again.
    account.aws.client("s3").delete_object(Bucket=BUCKET, Key=OTHER)
    assert "its event is tried again" in account.tick(event).error


def test_a_trouble_of_s3_with_one_trigger_repeats_the_event_and_doubles_nothing(account: TriggerAccount) -> None:
    for key in (TRIGGER, OTHER):
        account.put(key, EACH.encode())
    account.aws.fault("s3:GetObject", "throttle", match=TRIGGER, times=None)
    batch = [account.arrived(f"uploads/{number}", "v1") for number in range(2)]
    assert "its event is tried again" in account.batch(*batch).error
    others, state = account.made("nlp"), account.read("triggers/nlp/ingest.state.json")
    assert account.made() == [] and len(others) == 2
    account.aws.clear_faults()
    assert account.batch(*batch).response
    assert len(account.made()) == 2 and account.made("nlp") == others
    assert account.read("triggers/nlp/ingest.state.json") == state and len(account.keys("active/")) == 4


def test_mistakes_are_told_when_a_trigger_is_written(account: TriggerAccount) -> None:
    wrong, other = EACH.replace("max_per_day = 2", "max_per_day = 0"), EACH.replace("uploads/", "uploads")
    account.put(TRIGGER, wrong.encode())
    run = account.told_of(TRIGGER)
    assert "`trigger.max_per_day`" in run.message() and run.messages[0]["attributes"]["team"] == "vision"
    assert account.told_of(TRIGGER).messages == [], "the same once a day"
    account.put(TRIGGER, other.encode())
    run = account.batch(created(TRIGGER), account.arrived("uploads/a", "v1"))
    assert run.message().count("`trigger.from`") == 1
    account.put(TRIGGER, EACH.encode())
    run = account.told_of(TRIGGER)
    assert run.messages == [] and account.keys("triggers/") == [TRIGGER]
    assert set(run.counts) == {"s3:GetObject", "sns:ListSubscriptionsByTopic"} and run.counts["s3:GetObject"] == 2


def test_a_trigger_is_told_of_at_once_where_the_stack_has_no_bucket(jobs: JobAccount) -> None:
    jobs.configure(teams={"vision": {"buckets": [DATA]}})
    jobs.put(TRIGGER, EACH.encode())
    assert f"no event comes from s3://{DATA}" in jobs.told_of(TRIGGER).message()


@pytest.mark.usefixtures("unlisted")
def test_the_state_bucket_has_no_arrivals_even_if_it_is_named(account: TriggerAccount) -> None:
    account.restart(CURFEW_TRIGGER_BUCKETS=f"{DATA},{BUCKET}")
    run = account.batch(created("inbox/vision/a.toml"), created("inbox/vision/b.toml"))
    scheduled = account.tick()
    assert run.counts["s3:ListObjectsV2"] == scheduled.counts["s3:ListObjectsV2"] and run.messages == []


def test_no_event_harms_another(account: TriggerAccount) -> None:
    """What anybody may call an object, beside events that are none."""
    large = EACH.replace("max_per_day = 2", "max_per_day = 9") + "#" * 48 * 1024
    account.put(TRIGGER, large[: 48 * 1024].encode())
    keys = ["uploads/a\n[limits]\nmax_usd = 1", 'uploads/"""\\u0041$(id)', "uploads/Bild Köln+%2F/🚀", "uploads/" + "\x01" * 1_016]
    events = [account.arrived(key, "v" * 1_024) for key in keys]
    bare, capital, missing = (account.arrived(f"uploads/{number}", "v") for number in range(3))
    del bare["detail"]["object"]["version-id"]
    capital["detail"]["bucket"]["name"] = DATA.upper()
    del missing["detail"]["bucket"]
    run = account.batch(*events, bare, missing, capital, {"detail": 1}, *events)
    assert run.response and run.gaps == []
    made = [account.env_of(key) for key in account.made()]
    assert {env["TRIGGER_KEY"] for env in made} == {*keys, "uploads/0"} and len(made) == 5
    assert len(account.keys("active/")) == 5 and all("max_usd" not in env for env in made)


def test_a_storm_makes_as_many_jobs_as_a_day_may_have(account: TriggerAccount) -> None:
    account.put(TRIGGER, EACH.encode())
    run = account.batch(*(account.arrived(f"uploads/{number}", "v1") for number in range(100)))
    assert len(account.made()) == 2 and account.state()["refused"][1] == 98 and "98 further arrivals" in run.message()
    puts = [key for call in run.calls if call["action"] == "s3:PutObject" for key in call["resources"] if "triggers/" in key]
    assert len(puts) == 1, "one state for all"


def test_what_a_run_has_no_time_for_comes_again(account: TriggerAccount) -> None:
    account.put(TRIGGER, EACH.encode())
    event = account.arrived("uploads/a", "v1")
    assert "no time left" in account.tick(event, deadline_s=15).error and account.made() == []
    account.tick(event)
    assert len(account.made()) == 1
