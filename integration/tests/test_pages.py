"""The documentation as a reader walks through it: every link leads somewhere, and the front page stays short."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from reaping import REPOSITORY

DOCS = sorted(REPOSITORY.glob("docs/**/*.md"))
PAGES = [*sorted(REPOSITORY.glob("*.md")), *DOCS, *(REPOSITORY / f"{name}/README.md" for name in ("agent", "data", "deploy/terraform", "events", "integration"))]
README_LINES_MAX = 180

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"\]\(([^)\s]+)\)|<(?:img|a)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"")


def links(page: Path) -> list[str]:
    """What the page links to within the repository."""
    found = [link or source for link, source in _TARGET.findall(_FENCE.sub("", page.read_text()))]
    return [link for link in found if not re.match(r"[a-z]+:", link)]


SECURITY = REPOSITORY / "docs/security.md"


def rows_of_security() -> list[list[str]]:
    """The cells of every row of its tables, without their heads."""
    lines = SECURITY.read_text().splitlines()
    heads = {number - 1 for number, line in enumerate(lines) if line.startswith("|---")}
    return [line.strip("| ").split(" | ") for number, line in enumerate(lines) if line.startswith("| ") and number not in heads]


def test_every_row_of_the_page_about_security_names_tests_that_exist() -> None:
    sources = [path for kind in ("*.rs", "*.py") for folder in ("shared", "agent", "cli", "integration") for path in (REPOSITORY / folder).rglob(kind)]
    defined = {name for path in sources for name in (path.name, *re.findall(r"^ *(?:async )?(?:fn|def) (\w+)", path.read_text(), re.MULTILINE))}
    rows = rows_of_security()
    assert len(rows) > 60
    for first, *_, tests in rows:
        named = re.findall(r"`(\w+(?:\.\w+)?)`", tests)
        assert named and set(named) <= defined, f"{first}: {set(named) - defined or 'no test'}"


def test_the_page_about_security_has_every_tag_and_every_document() -> None:
    """As the code and the reference have them."""
    page = SECURITY.read_text()
    tags, documents = (page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] for heading in ("Tags", "The state bucket"))
    source = (REPOSITORY / "shared/model/src/curfew_tags.rs").read_text()
    keys = re.findall(r'^pub const \w+: &str = "(curfew:[a-z-]+)";', source, re.MULTILINE)
    assert len(keys) == 17 and [key for key in keys if f"`{key}`" not in tags] == []
    reference = (REPOSITORY / "docs/state-bucket.md").read_text().partition("\n## The state bucket\n")[2].partition("\n## ")[0]
    written = re.findall(r"^\| `([a-z]+/)", reference, re.MULTILINE)
    assert {"config/", "jobs/", "agent/", "reports/"} <= set(written)
    assert [folder for folder in written if f"`{folder}" not in documents] == []
    of_jobs = re.findall(r"^\| `jobs/[^`]*/(\w+\.\w+)`", reference, re.MULTILINE)
    assert len(of_jobs) == 6 and [name for name in of_jobs if f"`{name}`" not in documents] == []


def test_the_page_about_troubleshooting_has_every_reason_that_holds_a_job_and_every_check_of_doctor() -> None:
    page = (REPOSITORY / "docs/troubleshooting.md").read_text()
    phases = (REPOSITORY / "shared/jobs/src/phase.rs").read_text()
    variants = re.findall(r"^    (\w+),$", phases.partition("pub enum HoldReason {")[2].partition("\n}")[0], re.MULTILINE)
    reasons = {re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower() for name in variants}
    sources = [path.read_text() for path in (REPOSITORY / "shared/operator/src/doctor").glob("*.rs")]
    checks = set(re.findall(r'pub const CHECK: &str = "(\w+)";', "\n".join(sources)))
    for heading, known in (("A job is `held`", reasons), ("The deployment", checks)):
        section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        assert len(known) > 9 and set(re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)) == known, heading


_WORDS = {
    "tags.md": ("### Tags that people set", "### Tags that Curfew sets"),
    "configuration.md": ("## Environment",),
    "runs.md": ("### Fields", "### Actions", "### Rules", "### Outcomes", "### Skip reasons", "### Notify-only reasons", "### Severities"),
}


def test_the_index_of_the_reference_has_every_word_and_leads_to_its_section() -> None:
    """Each word of a table, and each key of `curfew.toml` with each of its sections."""
    expect: set[tuple[str, str]] = set()
    for page, headings in _WORDS.items():
        text = (REPOSITORY / "docs" / page).read_text()
        for heading in headings:
            level, name = heading.split(" ", 1)
            section = re.split(rf"^#{{1,{len(level)}}} ", text.partition(f"\n{heading}\n")[2], flags=re.MULTILINE)[0]
            expect |= {(word, f"{page}#{slug(name)}") for word in re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)}
    configuration = (REPOSITORY / "docs/configuration.md").read_text()
    for heading, block in re.findall(r"^### ([^\n]*)\n(?:\n[^`\n][^\n]*\n)?\n```toml\n(.*?)^```", configuration, re.MULTILINE | re.DOTALL):
        keys = ["discount_percent"] if "discount_percent" in heading else re.findall(r"^(\w+) = ", block, re.MULTILINE)
        expect |= {(key, f"configuration.md#{slug(heading)}") for key in keys}
    index = (REPOSITORY / "docs/reference.md").read_text().partition("\n## Find a word\n")[2]
    found: set[tuple[str, str]] = set()
    for word, links_of_word in re.findall(r"`([^`]+)` ((?:\[[^]]+\]\([^)]+\)(?:, )?)+)", index):
        found |= {(word, target) for target in re.findall(r"\(([^)]+)\)", links_of_word)}
    assert len(expect) > 200 and found == expect, "documented and not in the index, or the reverse"


def slug(heading: str) -> str:
    """In lower case, without punctuation, with hyphens for blanks."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    """Of every heading."""
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE)}


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
