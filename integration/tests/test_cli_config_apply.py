"""`curfew config apply` and `rollback`: checked, shown, put in place over what was shown, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import Said, curfew
from reaping import BUCKET, Account
from terminal import Terminal

CONFIG = "config/curfew.toml"
AT = f"s3://{BUCKET}/{CONFIG}"
FIRST = 'mode = "observe"\n[teams.vision]\nmode = "enforce"\n'
SECOND = 'mode = "observe"\n[idle]\ngrace = "10m"\n[teams.vision]\nmode = "enforce"\n[teams.nlp]\nmode = "enforce"\n'


@pytest.fixture
def bare(account: Account) -> Account:
    """An account without a configuration."""
    account.aws.client("s3").delete_object(Bucket=BUCKET, Key=CONFIG)
    account.aws.clear_calls()
    return account


def apply(account: Account, folder: Path, text: str | bytes, *arguments: str) -> Said:
    file = folder / "curfew.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return curfew(account.environment(), "config", "apply", str(file), *arguments)


def rollback(account: Account, *arguments: str) -> Said:
    return curfew(account.environment(), "config", "rollback", *arguments)


def content(account: Account, key: str = CONFIG) -> str:
    return account.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read().decode()


def previous(account: Account) -> list[str]:
    return account.keys("config/previous/")


def test_the_first_one_is_compared_with_the_defaults(bare: Account, tmp_path: Path) -> None:
    said = apply(bare, tmp_path, FIRST, "--yes").fine()
    assert content(bare) == FIRST and previous(bare) == []
    assert said.out == f"{AT} is {tmp_path}/curfew.toml from the next run on\n"
    assert "compared with the defaults" in said.err
    assert "concerns team vision: observe -> enforce: Curfew acts on what it only observed" in said.err
    assert apply(bare, tmp_path, FIRST, "--yes", "--json").fine().json()["outcome"] == "unchanged"


def test_what_is_replaced_is_kept_and_put_back(bare: Account, tmp_path: Path) -> None:
    apply(bare, tmp_path, FIRST, "--yes").fine()
    said = apply(bare, tmp_path, SECOND, "--yes", "--json").fine().json()
    assert (said["outcome"], said["at"], [said["previous"]]) == ("applied", AT, previous(bare))
    assert said["effects"][0].startswith("team nlp: observe -> enforce") and said["effects"][-1] == "everybody: idle.grace"
    assert content(bare, said["previous"]) == FIRST
    said = rollback(bare, "--yes").fine()
    assert content(bare) == FIRST and "beware: team nlp loses its entry" in said.err
    rollback(bare, "--yes").fine()
    assert content(bare) == SECOND, "a second rollback undoes the first"
    # Numbers and lists are as the document has them.
    third = SECOND + '[managed]\ntag_keys = ["Name"]\n[prices.discount_percent]\np5 = 9.5\n'
    (tmp_path / "third.toml").write_text(third)
    checked = curfew(bare.environment(), "config", "check", str(tmp_path / "third.toml"), "--json").fine().json()
    said = apply(bare, tmp_path, third, "--yes", "--json").fine().json()
    assert {(one["key"], str(one["to"])) for one in said["changes"]} == {("managed.tag_keys", "['Name']"), ("prices.discount_percent.p5", "9.5")}
    assert checked["changes"] == said["changes"]
    rollback(bare, "--yes").fine()
    oldest = previous(bare)[0].removeprefix("config/previous/").removesuffix(".toml")
    rollback(bare, oldest, "--yes").fine()
    assert content(bare) == FIRST


def test_mistakes_are_refused(account: Account, tmp_path: Path) -> None:
    account.write_config(FIRST)
    said = apply(account, tmp_path, 'mode = "destroy"\nregions = ["us-eats-1"]\n', "--yes")
    assert said.code == 1 and "curfew.toml:1:8: key `mode`" in said.out and "nothing was changed" in said.err
    said = apply(account, tmp_path, 'regions = ["us-eats-1"]\n', "--yes", "--json")
    assert said.code == 1 and said.json()["outcome"] == "refused" and len(said.json()["mistakes"]) == 1
    for wrong in (b"\xff", b"#" * (300 * 1024)):
        said = apply(account, tmp_path, wrong, "--yes")
        assert said.code == 1 and len(said.out.splitlines()) == 1, said
    said = curfew(account.environment(), "config", "apply", str(tmp_path / "absent.toml"), "--yes")
    assert said.code == 2 and "cannot be read" in said.err
    assert content(account) == FIRST and previous(account) == []


def test_the_person_decides(account: Account, tmp_path: Path) -> None:
    account.write_config(FIRST)
    said = apply(account, tmp_path, SECOND)
    assert said.code == 2 and "--yes" in said.err
    terminal = Terminal(account.environment(), "config", "apply", str(tmp_path / "curfew.toml"))
    terminal.wait_for("[y/N]")
    assert "beware of idle.grace" in terminal.shown
    terminal.type("n\n")
    assert terminal.end() == 1 and content(account) == FIRST and previous(account) == []


def test_what_somebody_else_has_changed_meanwhile_is_not_overwritten(account: Account, tmp_path: Path) -> None:
    account.write_config(FIRST)
    (tmp_path / "curfew.toml").write_text(SECOND)
    terminal = Terminal(account.environment(), "config", "apply", str(tmp_path / "curfew.toml"))
    terminal.wait_for("[y/N]")
    account.write_config("# theirs\n")
    terminal.type("y\n")
    assert terminal.end() == 2 and "was changed since it was shown" in terminal.shown
    assert content(account) == "# theirs\n"


def test_a_deployed_document_with_mistakes_is_replaced(account: Account, tmp_path: Path) -> None:
    account.write_config("mode = 1\n")
    said = apply(account, tmp_path, FIRST, "--yes").fine()
    assert "the deployed configuration is refused" in said.err and content(account) == FIRST
    said = rollback(account, "--yes")
    assert said.code == 1 and "config/previous/" in said.out, "it is as wrong as it was"


def test_only_the_newest_are_kept(account: Account, tmp_path: Path) -> None:
    account.write_config(FIRST)
    for number in range(20, 45):
        account.put(f"config/previous/202601{number - 19:02}T000000000Z.toml", b"# old\n")
    account.put("config/previous/notes.toml", b"# of a person\n")
    apply(account, tmp_path, SECOND, "--yes").fine()
    kept = previous(account)
    assert len(kept) == 21 and "config/previous/notes.toml" in kept and "config/previous/20260101T000000000Z.toml" not in kept
    account.aws.fault("s3:DeleteObject", "access_denied", times=None)
    said = apply(account, tmp_path, FIRST, "--yes").fine()
    assert "more than 20 earlier configurations are kept" in said.err


def test_without_an_earlier_one_nothing_is_put_back(account: Account) -> None:
    account.write_config(FIRST)
    said = rollback(account, "--yes")
    assert said.code == 2 and "there is no earlier configuration" in said.err
    said = rollback(account, "20260101T000000000Z", "--yes")
    assert said.code == 2 and "there are none" in said.err
    assert content(account) == FIRST
