"""A job document as TOML, which Python 3.8 to 3.13 can read or not, and never write."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from typing import Any, Dict, List, Mapping


def write_toml(document: Mapping[str, Any]) -> str:
    """The document as TOML: plain values first, then each mapping as a section."""
    lines: List[str] = []
    sections: Dict[str, Mapping[str, Any]] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            sections[key] = value
        elif value is not None:
            lines.append(f"{_text(key)} = {_value(value, key)}")
    for key, section in sections.items():
        lines.append(f"\n[{_text(key)}]")
        lines += [f"{_text(name)} = {_value(value, f'{key}.{name}')}" for name, value in section.items() if value is not None]
    return "\n".join(lines) + "\n"


def _value(value: Any, key: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        parts = (f"{_text(name)} = {_value(one, f'{key}.{name}')}" for name, one in value.items() if one is not None)
        return "{ " + ", ".join(parts) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(one, key) for one in value) + "]"
    raise TypeError(f"{key} is a {type(value).__name__}, which TOML does not have")


def _text(text: str) -> str:
    """A basic string of TOML, which is one of JSON but for DEL."""
    if not isinstance(text, str):
        raise TypeError(f"the key {text!r} is no text")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
