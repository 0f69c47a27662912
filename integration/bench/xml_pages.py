"""What EC2's answers have in common: the frame of one, and lists that are handed out page by page.

Source: "Making requests to the Amazon EC2 API", of which "Pagination" (Amazon EC2 API Reference).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from .refused import Refused

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<%s xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">\n'
_REQUEST_ID = "    <requestId>8f7724cf-496f-496e-8fe3-example01234</requestId>\n"
_TOKEN = "page-from-"

PAGE_SIZE_MAX = 1000
_PAGE_SIZE_MIN = 5


def answer(name: str, body: str) -> bytes:
    return f"{_HEAD % name}{_REQUEST_ID}{body}</{name}>\n".encode()


def listing(operation: str, of: str, items: Iterable[str], next_token: str | None = None) -> bytes:
    """One page, of items that are indented by eight blanks."""
    token = f"    <nextToken>{next_token}</nextToken>\n" if next_token else ""
    return answer(f"{operation}Response", f"    <{of}>\n{''.join(items)}    </{of}>\n{token}")


def item(members: dict[str, Any], depth: int = 2) -> str:
    """One item of a list. In it, a list has items, an empty text is an empty element, and what is None is left out."""
    blanks = "    " * depth
    return f"{blanks}<item>\n{''.join(_elements(members, depth + 1))}{blanks}</item>\n"


def _elements(members: dict[str, Any], depth: int) -> Iterator[str]:
    blanks = "    " * depth
    for name, value in members.items():
        if isinstance(value, list):
            yield f"{blanks}<{name}>\n{''.join(item(one, depth + 1) for one in value)}{blanks}</{name}>\n"
        elif isinstance(value, dict):
            yield f"{blanks}<{name}>\n{''.join(_elements(value, depth + 1))}{blanks}</{name}>\n"
        elif value == "":
            yield f"{blanks}<{name}/>\n"
        elif value is not None:
            yield f"{blanks}<{name}>{value}</{name}>\n"


def tags(of: dict[str, str]) -> list[dict[str, str]] | None:
    """Left out where there are none."""
    return [{"key": key, "value": value} for key, value in of.items()] or None


def moment(at: datetime) -> str:
    """To the millisecond, as EC2 writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Pages:
    """A list that is rendered beforehand and cut into pages as they are asked for."""

    def __init__(self, operation: str, of: str, items: Iterable[str]) -> None:
        self._operation = operation
        self._of = of
        self._items = list(items)

    def __len__(self) -> int:
        """Bytes of all pages of the greatest size, but for their frames."""
        return sum(map(len, self._items))

    def page(self, form: dict[str, str]) -> bytes:
        """By `MaxResults`, without which a page is as large as they get, and `NextToken`."""
        size = int(form.get("MaxResults", PAGE_SIZE_MAX))
        if not _PAGE_SIZE_MIN <= size <= PAGE_SIZE_MAX:
            raise Refused(f"{self._operation} with {size} results")
        start = int(form.get("NextToken", f"{_TOKEN}0").removeprefix(_TOKEN))
        until = start + size
        token = f"{_TOKEN}{until}" if until < len(self._items) else None
        return listing(self._operation, self._of, self._items[start:until], token)


def numbered(form: dict[str, str], name: str) -> list[str]:
    """`InstanceId.1`, `InstanceId.2`, ..."""
    return [value for key, value in form.items() if key.startswith(f"{name}.")]


def filters(form: dict[str, str]) -> dict[str, list[str]]:
    """`Filter.1.Name` with `Filter.1.Value.1`, `Filter.1.Value.2`, ..."""
    parts = {tuple(key.split(".")): value for key, value in form.items() if key.startswith("Filter.")}
    names = {place[1]: name for place, name in parts.items() if place[2] == "Name"}
    return {name: numbered(form, f"Filter.{number}.Value") for number, name in names.items()}
