"""A terminal of 100 columns, with colour if it is one."""

from __future__ import annotations

import os
import sys
import textwrap

WIDTH = 100
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def _colourful() -> bool:
    """https://no-color.org: any value that is not empty means none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, *styles: str) -> str:
    if not styles or not _colourful():
        return text
    return f"\033[{';'.join(_CODES[style] for style in styles)}m{text}\033[0m"


def line(text: str = "") -> None:
    print(text, flush=True)


def heading(text: str) -> None:
    line()
    line(paint(f"== {text} ".ljust(WIDTH, "="), "bold"))


def paragraph(text: str, indent: str = "", *styles: str) -> None:
    """Wraps text to the screen; words are never broken, so that commands can be copied."""
    wrapped = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for one in wrapped or [indent.rstrip()]:
        line(paint(one, *styles))


def hanging(label: str, text: str) -> None:
    """A label, and the text in a column beside it."""
    wrapped = textwrap.wrap(text, WIDTH - len(label), break_on_hyphens=False) or [""]
    line(label + f"\n{' ' * len(label)}".join(wrapped))


class Progress:
    """One line that is rewritten on a terminal; without one, only the last word is printed."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._last = ""

    def __call__(self, what: str) -> None:
        self._last = what
        if sys.stdout.isatty():
            print(f"\r{self._label}: {what}".ljust(WIDTH - 1), end="", flush=True)

    def done(self, what: str) -> None:
        end = f"{self._label}: {what}"
        line(f"\r{end}".ljust(WIDTH) if sys.stdout.isatty() else end)


class Ticker:
    """On a terminal, a line below the others that is rewritten; without one, none."""

    def __init__(self) -> None:
        self._is_shown = False

    def show(self, text: str) -> None:
        if sys.stdout.isatty():
            self._is_shown = True
            print(f"\r{paint(text.ljust(WIDTH - 1)[: WIDTH - 1], 'dim')}", end="", flush=True)

    def clear(self) -> None:
        """Before another line."""
        if self._is_shown:
            self._is_shown = False
            print(f"\r{' ' * (WIDTH - 1)}\r", end="", flush=True)
