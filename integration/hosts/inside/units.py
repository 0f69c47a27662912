"""Unit files of systemd, as far as Curfew's own use them.

Source: systemd.unit(5) for sections, drop-ins and empty assignments, which forget what was assigned before; systemd.service(5);
systemd.time(7) for spans and moments.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path

_SPAN = re.compile(r"(\d+)\s*([a-z]*)")
_SECONDS = {"": 1, "s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600}


class Unit:
    """What a unit file says, with its drop-ins."""

    def __init__(self, name: str, assigned: dict[tuple[str, str], list[str]]) -> None:
        self.name = name
        self._assigned = assigned

    @classmethod
    def read(cls, name: str, texts: Iterable[str]) -> Unit:
        """The file itself first, then its drop-ins by their names."""
        assigned: dict[tuple[str, str], list[str]] = {}
        section = ""
        for line in (line.strip() for text in texts for line in text.splitlines()):
            if not line or line[0] in "#;":
                continue
            if line.startswith("["):
                section = line.strip("[]")
                continue
            key, _, value = line.partition("=")
            values = assigned.setdefault((section, key.strip()), [])
            if value.strip():
                values.append(value.strip())
            else:
                values.clear()
        return cls(name, assigned)

    @classmethod
    def find(cls, name: str, folder: Path) -> Unit | None:
        """One of a folder such as `/etc/systemd/system`."""
        path = folder / name
        if not path.exists():
            return None
        return cls.read(name, [one.read_text() for one in (path, *sorted((folder / f"{name}.d").glob("*.conf")))])

    def all(self, section: str, key: str) -> list[str]:
        return self._assigned.get((section, key), [])

    def last(self, section: str, key: str, default: str = "") -> str:
        return next(reversed(self.all(section, key)), default)

    def commands(self, key: str) -> list[list[str]]:
        return [shlex.split(line) for line in self.all("Service", key)]

    def seconds(self, key: str, default: float) -> float:
        said = self.last("Service", key)
        return span(said) if said else default

    def wanted_by(self) -> list[str]:
        return " ".join(self.all("Install", "WantedBy")).split()


def span(text: str) -> float:
    """`30`, `150s`, `5min 20s`: in seconds."""
    found = _SPAN.findall(text)
    if not found or any(unit not in _SECONDS for _, unit in found):
        raise ValueError(f"{text!r} is no span of time that this stand-in knows")
    return float(sum(int(number) * _SECONDS[unit] for number, unit in found))


def moment(calendar: str) -> float:
    """`2026-11-22 18:30:05 UTC`, the one kind of calendar expression that is known here: seconds since 1970."""
    return datetime.strptime(calendar, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=timezone.utc).timestamp()
