"""docs/schemas: every document of the command has one. That documents fit them, each test of a command shows (`command.py`)."""

from __future__ import annotations

import json

import pytest

import json_schema
from test_cli_conventions import ALL

# What these print is for people, or for another program.
WITHOUT_DOCUMENT = {"ssh", "box connect", "completions"}
NAMES = sorted(path.stem for path in json_schema.FOLDER.glob("*.json"))


def test_every_command_has_a_schema_and_every_schema_a_command() -> None:
    groups = {" ".join(words[:-1]) for words in ALL if len(words) > 1} - {"recommend"}
    commands = {" ".join(words) for words in ALL if words} - groups - WITHOUT_DOCUMENT
    rows = json_schema.rows()
    assert rows.keys() == commands
    assert {name for names in rows.values() for name in names} == set(NAMES) and all(rows.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_published_as_a_page_says(name: str) -> None:
    schema = json_schema.load(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema" and schema["title"].startswith("curfew ") and schema["description"]
    assert schema["properties"]["schema"] == {"const": 1} and schema["required"][0] == "schema"
    # Later versions add fields.
    assert '"additionalProperties": false' not in json.dumps(schema)


def test_a_document_that_does_not_fit_is_found() -> None:
    fitting = {"schema": 1, "at": "2026-11-22T05:00:00Z", "jobs": [], "problems": []}
    json_schema.check_document(["jobs", "--json"], json.dumps(fitting))
    for wrong, expect in (
        ({"later": 1}, r"\$.later is not in the schema"),
        ({"schema": 2}, r"\$.schema is 2, and not 1"),
        ({"at": "2026-11-22 05:00"}, "no moment in UTC"),
        ({"problems": [None]}, r"\$.problems\[0\] is null, and not string"),
        ({"jobs": [{"job": "vision/x"}]}, r"\$.jobs\[0\].state is missing"),
    ):
        with pytest.raises(AssertionError, match=expect):
            json_schema.check_document(["jobs", "--json"], json.dumps(fitting | wrong))
    with pytest.raises(AssertionError, match="has no document of curfew ssh"):
        json_schema.check_document(["ssh", "--json"], "{}")
