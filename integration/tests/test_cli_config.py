"""`curfew config`: every mistake before it is put in place, what it would change, and what is in force and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import Said, curfew
from reaping import BUCKET, Account

DEPLOYED = f"s3://{BUCKET}/config/curfew.toml"
NOTHING: dict[str, str] = {}  # neither region nor credentials

WRONG = """\
mode = "destroy"
[idle]
windw = "1h"
grace = "soon"
[limits]
actions_max = -1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "curfew.toml"


def check(environment: dict[str, str], file: Path, text: str, *arguments: str) -> Said:
    file.write_text(text)
    return curfew(environment, "config", "check", str(file), *arguments)


# Mistakes


def test_every_mistake_has_its_line_and_column(file: Path) -> None:
    said = check(NOTHING, file, WRONG)
    assert said.code == 1
    assert [line.split(": ")[:2] for line in said.out.splitlines()] == [
        [f"{file}:1:8", "key `mode`"],
        [f"{file}:3:1", "key `idle.windw`"],
        [f"{file}:4:9", "key `idle.grace`"],
        [f"{file}:6:15", "key `limits.actions_max`"],
    ]
    assert "4 mistakes" in said.err and "compared" not in said.err
    said = curfew(NOTHING, "config", "check", "-", "--json", stdin='mode = "enforce"\nx = 1\n')
    found = said.json()
    [mistake] = found.pop("mistakes")
    assert said.code == 1
    assert found == {"schema": 1, "file": "-", "notes": [], "compared_with": None, "changes": [], "teams_lost": []}
    assert mistake.pop("problem").startswith("there is no key `x`; there are `mode`, ")
    assert mistake == {"line": 2, "column": 1, "key": "x"}
    said = curfew(NOTHING, "config", "check", f"{file}.absent")
    assert said.code == 2 and said.out == "" and f"{file}.absent cannot be read" in said.err


# What it would change


def test_without_access_the_file_is_checked_all_the_same(file: Path) -> None:
    for environment in (NOTHING, {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}):
        said = check(environment, file, 'mode = "enforce"\n[idle]\nlocal_disk = "keep"')
        assert (said.code, said.out) == (0, f"{file} is legal\n")
        assert "not compared with the deployed configuration" in said.err
    assert check(NOTHING, file, "", "--json").json()["compared_with"] is None


def test_a_check_lists_changes_against_the_deployment(account: Account, file: Path) -> None:
    account.write_config('mode = "enforce"\n[idle]\ngrace = "2h"\n[teams.vision]\nemail = "v@example.com"\n')
    text = '[idle]\ngrace = "10m"\n[limits]\nactions_max = 5\n'
    said = check(account.environment(), file, text).fine()
    assert said.out.splitlines() == [
        f"{file} is legal",
        f"it changes, compared with {DEPLOYED}:",
        '  mode: "enforce" -> "observe"',
        '  idle.grace: "2h" -> "10m"',
        "  limits.actions_max: 10 -> 5",
        '  teams.vision.email: "v@example.com" -> (absent)',
        "beware of idle.grace: people have less time after the announcement",
        "beware: team vision loses its entry",
    ]
    found = check(account.environment(), file, text, "--json").json()
    assert found["compared_with"] == DEPLOYED
    assert found["changes"][1] == {
        "key": "idle.grace",
        "from": "2h",
        "to": "10m",
        "beware": "people have less time after the announcement",
    }
    assert found["changes"][3]["to"] is None


# Regions


def test_an_unknown_region_is_a_mistake_with_its_line(account: Account, file: Path) -> None:
    said = check(account.environment(), file, 'regions = [\n  "us-east-1",\n  "us-eats-1",\n]\n')
    assert said.code == 1
    assert said.out.startswith(f"{file}:3:3: key `regions`: there is no region us-eats-1 enabled; enabled are ")
    assert "us-east-1" in said.out.split("enabled are")[1]
    assert check(account.environment(), file, 'regions = ["us-east-1"]').code == 0


# What is in force


def test_every_value_and_its_line(account: Account, file: Path) -> None:
    account.write_config('mode = "enforce"\n\n[idle]\ngrace = "90s"\n[teams."computer vision"]\nmode = "observe"\n')
    said = curfew(account.environment(), "config", "show").fine()
    lines = [line.split() for line in said.out.splitlines() if "# line" in line]
    assert lines == [
        ["mode", "=", '"enforce"', "#", "line", "1"],
        ["grace", "=", '"1m30s"', "#", "line", "4"],
        ["mode", "=", '"observe"', "#", "line", "6"],
    ]
    assert said.out.startswith(f"# {DEPLOYED}\n")
    shown = curfew(account.environment(), "config", "show", "--json").fine().json()
    assert (shown["schema"], shown["from"]) == (1, DEPLOYED)
    assert "changes nothing" in check(account.environment(), file, said.out).fine().out
    values = {one["key"]: (one["value"], one["source"]) for one in shown["values"]}
    assert values["idle.grace"] == ("1m30s", {"kind": "document", "line": 4})
    assert values["idle.window"] == ("1h", {"kind": "default"})
    assert values['teams."computer vision".mode'] == ("observe", {"kind": "document", "line": 6})
