"""AWS's own models against what goes over the wire: requests of every protocol, and all answers but those of S3.

botocore's models say of each operation which members a request and an answer have, which are required, and which values
they take: types, enumerations, patterns, lengths and ranges ("Smithy constraint traits", smithy.io). AWS refuses a request
that breaks one, and never answers outside of its own model. Moto takes nearly everything, so without this check a misspelt
parameter passes every test and fails on the first day of a real account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from . import wire
from .aws_call import AwsCall
from .http_message import Request, Response
from .models import operation_model

# Longer answers are not checked: their items are like those of shorter ones, and it would slow down tests of large accounts.
_ANSWER_BYTES_MAX = 100_000
# What EC2 answers, by moto's copy of its answers, and botocore 1.44.5 does not know yet.
_NOT_YET_MODELLED = ("metal-compatibility",)
_NUMBERS = ("integer", "long", "short", "byte", "float", "double", "bigdecimal", "biginteger")
_TYPES: dict[str, tuple[type, ...]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "character": (str,),
    "blob": (bytes, str),
    "boolean": (bool,),
    "timestamp": (datetime, int, float),
    **{name: (int,) if name in ("integer", "long", "short", "byte", "biginteger") else (int, float) for name in _NUMBERS},
}
# Java's classes of characters, which the models use and Python's expressions do not have: by the first letter of the category,
# where Python has none that is equal one that is wider.
_JAVA_CLASSES = {
    "A": r"\w",
    "D": r"\d",
    "L": r"\w",
    "N": r"\w",
    "M": r"\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u064b-\u065f\u093c-\u094d",
    "Z": r"\s",
    "S": r"$+<=>^`|~\u00a2-\u00b4\u20a0-\u2bff",
    "P": r"!-#%-*,-/:;?@\[-\]_{}\u00a1-\u00bf\u2010-\u205e",
    "C": r"\x00-\x1f\x7f-\x9f",
}
_JAVA_CLASS = re.compile(r"\\p\{(?:Is)?([A-Z])\w*\}")
# Characters beyond 16 bits are pairs in Java, and a class before a hyphen begins no range there.
_JAVA_PAIRS = (r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010ffff")
_HYPHEN_AFTER_CLASS = re.compile(r"(\\[wsd])-(?=[^\]])")


def wrong_in_request(call: AwsCall, request: Request) -> list[str]:
    """Each member that AWS would refuse, and why."""
    operation = operation_model(call.service, call.operation)
    if operation is None:
        return [f"no operation {call.operation} of {call.service}"]
    wrong = list(wire.wrong_in_envelope(operation, call, request))
    shape = operation.input_shape
    try:
        members = wire.decode_request(operation, call, request)
    except Exception as error:  # of any of four parsers
        return [*wrong, f"the request cannot be read: {error}"]
    return wrong + list(_wrong(shape, members, "") if shape else map("unknown member {}".format, members))


def wrong_in_answer(call: AwsCall, response: Response) -> list[str]:
    """Each member of a success that AWS could not answer, and why. Those of S3 are Moto's own, and mostly objects."""
    operation = operation_model(call.service, call.operation) if call.service != "s3" else None
    if operation is None or operation.output_shape is None:
        return []
    if response.status >= 300 or len(response.body) > _ANSWER_BYTES_MAX:
        return []
    try:
        members = wire.decode_answer(operation, call, response)
    except Exception as error:
        return [f"the answer cannot be read: {error}"]
    return list(_wrong(operation.output_shape, members, ""))


def _wrong(shape: Any, value: Any, path: str) -> Iterator[str]:
    kind = shape.type_name
    if value is None or not isinstance(value, _TYPES[kind]) or isinstance(value, bool) != (kind == "boolean"):
        yield f"{path or 'the whole'}: {_shown(value)} is no {kind}"
        return
    if kind == "structure":
        if not shape.is_document_type:
            yield from _wrong_in_structure(shape, value, path)
        return
    yield from _out_of_bounds(shape, value, path)
    if kind == "list":
        for place, item in enumerate(value):
            yield from _wrong(shape.member, item, f"{path}[{place}]")
    elif kind == "map":
        for key, item in value.items():
            yield from _wrong(shape.key, key, f"{path} (key)")
            yield from _wrong(shape.value, item, f"{path}[{key!r}]")
    elif kind == "string":
        yield from _wrong_text(shape, value, path)


def _wrong_in_structure(shape: Any, value: dict[str, Any], path: str) -> Iterator[str]:
    start = f"{path}." if path else ""
    for name in shape.required_members:
        if name not in value:
            yield f"required member {start}{name} is missing"
    if shape.is_tagged_union and len(value) != 1:
        yield f"{path}: a union has exactly one member, not {len(value)}"
    members = shape.members
    for name, item in value.items():
        if name not in members:
            yield f"unknown member {start}{name}"
        else:
            yield from _wrong(members[name], item, start + name)


def _out_of_bounds(shape: Any, value: Any, path: str) -> Iterator[str]:
    bounds = shape.metadata
    if "min" not in bounds and "max" not in bounds or isinstance(value, datetime):
        return
    is_number = shape.type_name in _NUMBERS
    size = value if is_number else len(value)
    word = "the value" if is_number else "the length"
    if size < bounds.get("min", size):
        yield f"{path}: {word} {size} is below {bounds['min']}"
    if size > bounds.get("max", size):
        yield f"{path}: {word} {size} is above {bounds['max']}"


def _wrong_text(shape: Any, value: str, path: str) -> Iterator[str]:
    accepted = shape.enum
    if accepted and value not in (*accepted, *_NOT_YET_MODELLED):
        yield f"{path}: {_shown(value)} is none of {', '.join(accepted[:8])}{', …' if len(accepted) > 8 else ''}"
    pattern = compiled_pattern(shape.metadata["pattern"]) if "pattern" in shape.metadata else None
    if pattern and not pattern.fullmatch(value):
        yield f"{path}: {_shown(value)} does not match {shape.metadata['pattern']}"


@cache
def compiled_pattern(pattern: str) -> re.Pattern[str] | None:
    """AWS matches the whole value, so a fullmatch is meant. None where Python cannot read it."""
    text = _JAVA_CLASS.sub(lambda found: _JAVA_CLASSES[found[1]], pattern.replace(*_JAVA_PAIRS))
    try:
        return re.compile(_HYPHEN_AFTER_CLASS.sub(r"\1\-", text), re.DOTALL)
    except re.error:
        return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
