"""One configuration for the accounts of an organization: the hub's lines, an account's own, and the last copy."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from command import curfew
from jobs import JobAccount
from reaping import BUCKET, Account, now

HUB = "curfew-hub"
CONFIG = "config/curfew.toml"
COPY = "config/hub.toml"
THIS, OTHER = "123456789012", "999999999999"
# What the hub of these tests says: each team enforces, and people have no time.
EAGER_HUB = 'mode = "enforce"\n[idle]\nwindow = "15m"\ngrace = "0s"\naction = "stop"\nlocal_disk = "expendable"\n[limits]\nfleet_share_max_percent = 100\n'


def publish(account: Account, text: str) -> None:
    """Puts the configuration into the hub, as its administrators do."""
    s3 = account.aws.client("s3")
    if HUB not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=HUB)
    s3.put_object(Bucket=HUB, Key=CONFIG, Body=text.encode())


def join(account: Account, own: str) -> None:
    """The account has this configuration, and a hub."""
    account.write_config(own)
    account.restart(CURFEW_HUB_BUCKET=HUB)


def copy(account: Account) -> tuple[str, str]:
    """The copy, and the hub that it says to be of."""
    found = account.aws.client("s3").get_object(Bucket=BUCKET, Key=COPY)
    return found["Body"].read().decode(), found["Metadata"]["hub"]


def put_copy(account: Account, text: str, hub: str = HUB) -> None:
    account.aws.client("s3").put_object(Bucket=BUCKET, Key=COPY, Body=text.encode(), Metadata={"hub": hub})


def deny_hub(account: Account) -> None:
    account.aws.fault("s3:GetObject", "access_denied", match=HUB, times=None)


def test_the_hubs_lines_apply_and_a_looser_line_does_not(account: Account) -> None:
    gpu = account.idle(account.gpu())
    publish(account, EAGER_HUB)
    join(account, 'mode = "observe"\n[idle]\ngrace = "520w"\naction = "notify"\n')
    run = account.tick()
    assert run.said(gpu) == ("mark", "idle", "done") and run.gaps == []
    assert copy(account) == (EAGER_HUB, HUB)
    run = account.tick()
    assert run.said(gpu) == ("stop", "idle", "done")
    # A copy that is as the hub is written once an hour.
    assert [call for call in run.calls if call["action"] == "s3:PutObject" and COPY in str(call["resources"])] == []


def test_the_hub_may_leave_a_key_to_an_account_that_it_names(account: Account) -> None:
    gpu = account.idle(account.gpu())
    publish(account, f'{EAGER_HUB}[accounts."{OTHER}"]\nmode = "observe"\n')
    join(account, "")
    assert account.tick().said(gpu) == ("mark", "idle", "done")
    publish(account, f'{EAGER_HUB}[accounts."{THIS}"]\ndecides = ["mode"]\n')
    account.write_config('mode = "observe"\n')
    assert account.tick().said(gpu) == ("stop", "idle", "observed")


@pytest.mark.parametrize("damage", ["denied", "refused", "deleted"])
def test_an_unreadable_hub_changes_nothing_and_the_age_of_the_copy_is_said(account: Account, damage: str) -> None:
    gpu = account.idle(account.gpu())
    publish(account, EAGER_HUB)
    join(account, 'mode = "observe"\n')
    assert account.tick().said(gpu) == ("mark", "idle", "done")
    account.aws.set_object(BUCKET, COPY, now() - timedelta(hours=5, minutes=1))
    why = {
        "denied": "the configuration of the hub cannot be read: s3:GetObject on s3://curfew-hub/config/curfew.toml failed",
        "refused": "the configuration of the hub s3://curfew-hub is refused: config/curfew.toml, line 2, column 1, key `idl`",
        "deleted": "the hub has no s3://curfew-hub/config/curfew.toml any more",
    }[damage]
    if damage == "denied":
        deny_hub(account)
    elif damage == "refused":
        publish(account, 'mode = "observe"\nidl = 3\n')
    else:
        account.aws.client("s3").delete_object(Bucket=HUB, Key=CONFIG)
    run = account.tick()
    assert run.said(gpu) == ("stop", "idle", "done") and account.state(gpu) in ("stopping", "stopped")
    [gap] = run.gaps
    assert why in gap["error"] and gap["error"].endswith("counts, which is 5h1m old"), gap
    [message] = [one["message"] for one in run.messages if "could not read the configuration of the hub" in one["message"]]
    assert "counts, which is 5h1m old" in message
    assert copy(account) == (EAGER_HUB, HUB)
    run = account.tick()
    assert run.gaps and run.is_quiet, "once a day"


def test_a_copy_that_may_be_there_is_not_replaced_by_nothing(account: Account) -> None:
    account.idle(account.gpu())
    publish(account, EAGER_HUB)
    join(account, "")
    account.tick()
    account.aws.client("s3").delete_object(Bucket=HUB, Key=CONFIG)
    account.aws.fault("s3:GetObject", "access_denied", match=COPY, times=None)
    run = account.tick()
    assert run.ec2_writes == [] and "it was never read here" in run.gaps[0]["error"]
    account.aws.clear_faults()
    assert copy(account) == (EAGER_HUB, HUB)


def test_a_forged_copy_counts_for_nothing_while_the_hub_answers(account: Account) -> None:
    gpu = account.idle(account.gpu())
    publish(account, EAGER_HUB)
    join(account, 'mode = "observe"\n')
    put_copy(account, 'mode = "observe"\n')
    assert account.tick().said(gpu) == ("mark", "idle", "done")
    assert copy(account) == (EAGER_HUB, HUB)


@pytest.mark.parametrize("forged", [None, ('mode = "enforce"', "another-hub"), ("mode = 1", HUB)])
def test_a_hub_that_was_never_read_has_nothing_announced_or_stopped(account: Account, forged: tuple[str, str] | None) -> None:
    gpu = account.idle(account.gpu())
    publish(account, EAGER_HUB)
    account.restart(CURFEW_HUB_BUCKET=HUB)
    if forged is not None:
        put_copy(account, *forged)
    deny_hub(account)
    run = account.tick()
    [step] = run.steps
    assert step["outcome"] == "not-reached" and "it was never read here" in str(step), step
    assert run.ec2_writes == [] and account.state(gpu) == "running"
    [gap] = run.gaps
    assert "Curfew announces, stops and deletes nothing, and begins no job, until it is" in gap["error"]
    assert [one["attributes"]["severity"] for one in run.messages] == ["error"]
    account.aws.clear_faults()
    assert account.tick().said(gpu) == ("mark", "idle", "done")


def test_a_hub_without_a_configuration_says_nothing(account: Account) -> None:
    gpu = account.idle(account.gpu())
    account.aws.client("s3").create_bucket(Bucket=HUB)
    account.restart(CURFEW_HUB_BUCKET=HUB)
    for expect in ("mark", "stop"):
        run = account.tick()
        assert run.said(gpu) == (expect, "idle", "done") and run.gaps == []
    assert copy(account) == ("", HUB)


def test_an_account_without_a_hub_makes_no_call_more(account: Account) -> None:
    account.restart(CURFEW_HUB_BUCKET="")
    run = account.tick()
    assert not [call for call in run.calls if COPY in str(call["resources"]) or HUB in str(call["resources"])]


def test_jobs_are_judged_by_the_copy_and_wait_until_there_is_one(jobs: JobAccount) -> None:
    jobs.restart(CURFEW_HUB_BUCKET=HUB)
    key = jobs.submit()
    run = jobs.tick()
    assert jobs.answer(key) is None and run.messages == []
    assert not [call for call in run.calls if HUB in str(call["resources"])], "it has no permission there"
    put_copy(jobs, '[jobs]\ngpus_max = 0\n', "another-hub")
    jobs.tick()
    assert jobs.answer(key) is None
    put_copy(jobs, '[jobs]\ngpus_max = 0\n')
    jobs.tick()
    answer = jobs.answer(key)
    assert answer is not None and answer["is"] == "rejected", answer


# The command


def test_what_is_in_force_is_shown_with_the_line_of_each_value(account: Account) -> None:
    put_copy(account, '# the organization\nmode = "enforce"\n[idle]\nwindow = "1h"\n')
    account.write_config('mode = "observe"\n[idle]\nwindow = "30m"\ngrace = "0s"\n')
    environment = account.environment(CURFEW_HUB_BUCKET=HUB)
    said = curfew(environment, "config", "show", "--effective").fine()
    lines = said.out.splitlines()
    assert lines[0].startswith(f"# s3://{BUCKET}/{CONFIG}; the hub's configuration was read at ") and lines[0].endswith(" ago")
    written = [" ".join(line.split()) for line in lines if "line" in line and not line.startswith("# line")]
    assert written == ['mode = "enforce" # hub, line 2', 'window = "30m" # line 3']
    assert lines[-2:] == [
        '# line 1, key `mode`: "observe" does not count, but "enforce": line 2 of the hub is stricter',
        '# line 4, key `grace`: '.replace("grace", "idle.grace")
        + '"0s" does not count, but "1h": only the hub can be less careful than the default',
    ]
    shown = curfew(environment, "config", "show", "--effective", "--json").fine().json()
    assert shown["hub"]["unknown"] is None and 0 <= shown["hub"]["seconds_old"] < 600
    assert [(one["line"], one["key"], one["hub_line"], one["reason"]) for one in shown["ignored"]] == [
        (1, "mode", 2, "looser"),
        (4, "idle.grace", None, "less-careful"),
    ]
    sources = {one["key"]: one["source"] for one in shown["values"]}
    assert sources["mode"] == {"kind": "hub", "line": 2} and sources["idle.window"] == {"kind": "document", "line": 3}
    # What counts for runs counts for every command.
    assert "the hub's configuration counts as well" in curfew(environment, "config", "show").fine().err


def test_without_a_copy_or_a_hub_that_is_said(account: Account) -> None:
    unread = curfew(account.environment(CURFEW_HUB_BUCKET=HUB), "config", "show", "--effective").fine()
    assert "reap-instances has not read the configuration of the hub yet" in unread.out.splitlines()[0]
    alone = curfew(account.environment(), "config", "show", "--effective", "--json").fine().json()
    assert alone["hub"] is None and alone["ignored"] == []
    assert "hub" not in curfew(account.environment(), "config", "show").fine().err


def test_apply_and_check_name_the_lines_that_do_not_count(account: Account, tmp_path: Path) -> None:
    put_copy(account, 'mode = "enforce"\n')
    file = tmp_path / "curfew.toml"
    file.write_text('mode = "observe"\n[idle]\nwindow = "30m"\n')
    environment = account.environment(CURFEW_HUB_BUCKET=HUB)
    line = 'line 1, key `mode`: "observe" does not count, but "enforce": line 1 of the hub is stricter'
    assert f"{file}: {line}" in curfew(environment, "config", "check", str(file)).fine().out
    said = curfew(environment, "config", "apply", str(file), "--yes").fine()
    assert f"{file}: {line}" in said.err
    ignored = curfew(environment, "config", "check", str(file), "--json").fine().json()["ignored"]
    assert [one["key"] for one in ignored] == ["mode"]


def test_the_copy_in_a_named_bucket_counts_and_changes_are_those_in_force(account: Account, tmp_path: Path) -> None:
    put_copy(account, 'mode = "enforce"\n')
    account.write_config('mode = "observe"\n[teams.nlp]\nmode = "observe"\n')
    environment = account.environment()
    assert 'mode = "enforce"' in curfew(environment, "config", "show", "--effective").fine().out
    own = tmp_path / "own.toml"
    own.write_text('mode = "observe"\n[idle]\ngrace = "0s"\n')
    said = curfew(environment, "config", "apply", str(own), "--yes").fine()
    # Neither the grace nor the mode changes: the hub enforces before and after.
    assert "does not count" in said.err and "people have less time" not in said.err
    assert "enforce -> observe" not in said.err and "no longer acts" not in said.err
    # Without the topic the copy alone can name the account for which the hub may have lines.
    nameless = account.environment(CURFEW_TOPIC_ARN=None)
    assert "does not name the account" in curfew(nameless, "config", "show", "--effective").fine().out
    hub = {"hub": HUB, "account": THIS}
    account.aws.client("s3").put_object(Bucket=BUCKET, Key=COPY, Body=f'[accounts."{THIS}"]\nmode = "enforce"\n'.encode(), Metadata=hub)
    assert 'mode = "enforce"' in curfew(nameless, "config", "show", "--effective").fine().out


def test_a_hubs_document_is_checked_before_it_is_put_there(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(f'mode = "enforce"\n[accounts."{THIS}"]\ndecides = ["idle"]\n')
    assert curfew({}, "config", "check", "--hub", str(file)).fine().out.endswith(f"\n{file} is legal\n")
    assert curfew({}, "config", "check", str(file)).code == 1
    file.write_text('mode = "destroy"\n[prices.discount_percent]\nP5 = 200\n[accounts.research]\n')
    assert curfew({}, "config", "check", "--hub", str(file)).out.count(": key `") == 3
    file.write_text("[prices.discount_percent]\nP5 = 10\n")
    assert f"{file}:2:1: note: key `prices.discount_percent.P5`" in curfew({}, "config", "check", "--hub", str(file)).fine().out
    file.write_text("[accounts.research]\n")
    said = curfew({}, "config", "check", "--hub", str(file))
    assert said.code == 1 and said.out.startswith(f'{file}:1:11: key `accounts.research`: "research" is not the id of an account')
