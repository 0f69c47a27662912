"""Python parses the headers of HTTP as those of mails, by servers and clients alike, which took a tenth of the time of a call. Here plain
lines are only split; whatever else comes is left to Python."""

from __future__ import annotations

import http.client
import io
import re
from typing import BinaryIO

_PLAIN_LINE = re.compile(rb"([!-9;-~]+):[ \t]*([^\r\n]*)\r?\n")
_parse_as_mail = http.client.parse_headers


def apply() -> None:
    http.client.parse_headers = _parse_headers


def _parse_headers(file: BinaryIO, _class: type[http.client.HTTPMessage] = http.client.HTTPMessage) -> http.client.HTTPMessage:
    *lines, end = http.client._read_headers(file)
    found = [_PLAIN_LINE.fullmatch(line) for line in lines]
    if not all(found) or not end:
        return _parse_as_mail(io.BytesIO(b"".join([*lines, end])), _class)
    message = _class()
    message.set_payload("")
    for name, value in (line.groups() for line in found):
        message.set_raw(name.decode("ascii"), value.decode("iso-8859-1"))
    return message
