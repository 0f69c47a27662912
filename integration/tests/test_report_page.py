"""The report of a month in a real browser: light, dark, on a phone and on paper. Needs Chromium; `make page` does all of the set-up besides."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser
from reaping import REPOSITORY

SAMPLE = REPOSITORY / "target/debug/examples/sample"
AXE = REPOSITORY / "target/axe/node_modules/axe-core/axe.min.js"
PHONE, DESK = 360, 1280

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: install Debian's package chromium"),
    pytest.mark.skipif(not SAMPLE.exists(), reason="the sample page is not built: make page"),
]


@pytest.fixture(scope="module", params=["account", "organization"])
def page(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(subprocess.run([SAMPLE, request.param], check=True, capture_output=True).stdout)
    return path


@pytest.fixture(scope="module")
def browser(page: Path) -> Iterator[Browser]:
    with Browser() as browser:
        browser.open(page)
        yield browser


# What is wider than the window, except inside of what scrolls by itself.
OVERFLOWING = """[...document.querySelectorAll("body *")].filter(one => !one.parentElement.closest(".scroll")
    && one.getBoundingClientRect().right > window.innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_nothing_is_wider_than_the_window(browser: Browser, width: int) -> None:
    browser.show(width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(OVERFLOWING) == []


def test_a_phone_scrolls_nothing_sideways_and_names_each_cell(browser: Browser) -> None:
    browser.show(PHONE)
    try:
        assert browser.evaluate("""[...document.querySelectorAll("body *")].filter(one => one.scrollWidth > one.clientWidth + 1
            && getComputedStyle(one).overflowX !== "visible").map(one => one.outerHTML.slice(0, 80))""") == []
        assert browser.evaluate("""[...document.querySelectorAll("td")].filter(one => one.getBoundingClientRect().right
            > window.innerWidth + 1 || !one.dataset.label).map(one => one.outerHTML.slice(0, 80))""") == []
    finally:
        browser.show(DESK)


def test_nothing_is_loaded_and_nothing_is_complained_about(browser: Browser, page: Path) -> None:
    browser.show(DESK)
    browser.open(page)
    asked = [event["params"]["request"]["url"] for event in browser.events if event["method"] == "Network.requestWillBeSent"]
    assert asked == [page.as_uri()]
    assert [event for event in browser.events if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")] == []


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not there: make page")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_everybody_can_read_it(browser: Browser, width: int, scheme: str) -> None:
    """WCAG 2.2 at level AA, contrast included, as far as axe-core can tell."""
    browser.show(width, scheme)
    browser.evaluate(AXE.read_text())
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = browser.evaluate(f"axe.run(document, {{runOnly: {json.dumps(tags)}}})")
    assert len(found["passes"]) > 20
    wrong = [(one["id"], [node["html"][:100] for node in one["nodes"]][:5]) for one in found["violations"]]
    assert wrong == []


def test_paper_cuts_nothing(browser: Browser) -> None:
    """A4 has 794 pixels between its edges, at 96 to the inch; Chromium's own margins are 1 cm."""
    browser.show(718, media="print")
    try:
        assert browser.evaluate("""[...document.querySelectorAll("table")].filter(one => one.getBoundingClientRect().right
            > window.innerWidth).map(one => one.caption.textContent)""") == []
        paper = base64.b64decode(browser.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)["data"])
    finally:
        browser.show(DESK)
    assert paper.startswith(b"%PDF-") and 1 <= paper.count(b"/Type /Page\n") <= 12
