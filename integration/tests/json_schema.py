"""JSON Schema as docs/schemas uses it: draft 2020-12, and of that the keywords in `_KEYWORDS`, with `$ref` to `$defs` of the same file.

    check_document(["scan", "--json"], stdout)

Published schemas allow further fields, because later versions add some. Here a field that a schema does not name is a mistake: it was
not documented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from reaping import REPOSITORY

FOLDER = REPOSITORY / "docs/schemas"
Schema = dict[str, Any]

_ANNOTATIONS = {"$schema", "title", "description"}
_KEYWORDS = {"$defs", "$ref", "type", "const", "format", "properties", "required", "additionalProperties", "items", "anyOf"}
_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def check_document(words: Sequence[str], text: str) -> None:
    """What a command printed fits one of the schemas that the page names for it."""
    document = json.loads(text)
    tried = {name: list(mistakes(load(name), document)) for name in names_of(words)}
    assert tried, f"docs/schemas/README.md has no document of curfew {' '.join(words)}"
    assert not all(tried.values()), f"curfew {' '.join(words)} prints what docs/schemas does not say:\n" + "\n".join(min(tried.values(), key=len)[:20])


def names_of(words: Sequence[str]) -> tuple[str, ...]:
    """The schemas of a command line; of `recommend commitment` before those of `recommend`."""
    return rows().get(" ".join(words[:2])) or rows().get(words[0], ())


@cache
def rows() -> dict[str, tuple[str, ...]]:
    """By command, the schemas that the page names."""
    found = re.findall(r"^\| (`.*?`) \| (.*) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    return {name: tuple(re.findall(r"\(([\w-]+)\.json\)", row)) for names, row in found for name in re.findall(r"`([a-z -]+)`", names)}


@cache
def load(name: str) -> Schema:
    """The schema of that name. Every keyword in it is known."""
    schema = json.loads((FOLDER / f"{name}.json").read_text())
    _check_keywords(schema, name)
    return schema


def mistakes(schema: Schema, value: Any, at: str = "$", root: Schema | None = None) -> Iterator[str]:
    """Each with its place in the value."""
    root = root or schema
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    types = schema.get("type", [])
    if types and not any(_has_type(value, one) for one in ([types] if isinstance(types, str) else types)):
        yield f"{at} is {json.dumps(value)[:80]}, and not {types}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{at} is {value!r}, and not {schema['const']}"
    if schema.get("format") == "date-time" and isinstance(value, str) and not _DATE_TIME.fullmatch(value):
        yield f"{at} is {value!r}, and no moment in UTC"
    if "anyOf" in schema:
        tried = [list(mistakes(part, value, at, root)) for part in schema["anyOf"]]
        if all(tried):
            yield from min(tried, key=len)
    if isinstance(value, list) and "items" in schema:
        for place, one in enumerate(value):
            yield from mistakes(schema["items"], one, f"{at}[{place}]", root)
    if isinstance(value, dict):
        yield from (f"{at}.{key} is missing" for key in schema.get("required", []) if key not in value)
        named, others = schema.get("properties"), schema.get("additionalProperties")
        for key, one in value.items():
            if named is not None and key in named:
                yield from mistakes(named[key], one, f"{at}.{key}", root)
            elif others is not None:
                yield from mistakes(others, one, f"{at}.{key}", root)
            elif named is not None:
                yield f"{at}.{key} is not in the schema"


def _has_type(value: Any, name: str) -> bool:
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, _TYPES[name])


def _check_keywords(schema: Schema, at: str) -> None:
    unknown = schema.keys() - _ANNOTATIONS - _KEYWORDS
    assert not unknown, f"{at}: {unknown}"
    for key, one in [*schema.get("properties", {}).items(), *schema.get("$defs", {}).items()]:
        _check_keywords(one, f"{at}.{key}")
    for one in [schema[key] for key in ("items", "additionalProperties") if key in schema] + schema.get("anyOf", []):
        _check_keywords(one, at)
