"""The documentation as a reader walks through it: every link leads somewhere, and the front page stays short."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from reaping import REPOSITORY

DOCS = sorted(REPOSITORY.glob("docs/*.md"))
PAGES = [*sorted(REPOSITORY.glob("*.md")), *DOCS, *(REPOSITORY / f"{name}/README.md" for name in ("agent", "events", "integration"))]
README_LINES_MAX = 180

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"\]\(([^)\s]+)\)|<(?:img|a)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"")


def links(page: Path) -> list[str]:
    """What the page links to within the repository."""
    found = [link or source for link, source in _TARGET.findall(_FENCE.sub("", page.read_text()))]
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def test_every_test_that_the_page_about_security_names_exists() -> None:
    named = re.findall(r"`(\w+(?:\.\w+)?)`", " ".join(_tests_of_rows((REPOSITORY / "docs/security.md").read_text())))
    sources = [path for kind in ("*.rs", "*.py") for folder in ("shared", "agent", "cli", "integration") for path in (REPOSITORY / folder).rglob(kind)]
    defined = {name for path in sources for name in (path.name, *re.findall(r"^ *(?:async )?(?:fn|def) (\w+)", path.read_text(), re.MULTILINE))}
    assert len(named) >= 20 and [name for name in named if name not in defined] == []


def _tests_of_rows(page: str) -> list[str]:
    return [row.rstrip(" |").rpartition("|")[2] for row in page.splitlines() if row.startswith("| ")]


@cache
def anchors(page: Path) -> set[str]:
    """Of every heading: in lower case, without punctuation, with hyphens for blanks."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page} links to {link}, which does not exist"
        assert not anchor or anchor in anchors(target), f"{page} links to {link}, and there is no such heading"


def test_the_readme_is_a_front_page() -> None:
    readme = REPOSITORY / "README.md"
    assert len(readme.read_text().splitlines()) <= README_LINES_MAX
    assert {"docs/architecture.svg", "docs/command.md#permissions", "ARCHITECTURE.md"} <= set(links(readme))


def test_every_page_is_in_the_summary_and_begins_with_whom_it_is_for() -> None:
    summary = REPOSITORY / "docs/SUMMARY.md"
    listed = {(summary.parent / link).resolve() for link in links(summary)}
    for page in DOCS:
        if page != summary:
            assert page in listed, f"{page} is missing in docs/SUMMARY.md"
            assert page.read_text().split("\n\n")[1].startswith("For "), f"{page} does not begin with whom it is for"
