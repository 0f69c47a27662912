"""The page of a link in a real browser, as wide as a phone, and without scripts. Needs Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from answering import Links
from browser import CHROMIUM, Browser
from reaping import Account
from test_report_page import OVERFLOWING, PHONE

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: install Debian's package chromium")


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        browser.show(PHONE)
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        yield browser


def test_one_click_on_a_phone_keeps_a_machine(account: Account, browser: Browser) -> None:
    account.configure(idle={"grace": "1h"})
    name = "a-name-without-any-blank-" * 8 + "<script>document.title=\"evil\"</script>"
    with Links(account) as links:
        gpu = account.idle(account.gpu(tags={"Name": name}))
        path = links.path(account.tick())
        server = links.serve()
        try:
            address = f"http://127.0.0.1:{server.server_address[1]}{path}"
            browser.open(address)
            assert browser.evaluate("document.title") == f"Curfew: {gpu}"
            assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE and browser.evaluate(OVERFLOWING) == []
            # As large as a thumb (WCAG 2.2, "Target size").
            heights = browser.evaluate("[...document.querySelectorAll('button')].map(one => one.getBoundingClientRect().height)")
            assert len(heights) == 3 and min(heights) >= 44
            asked = [one["params"]["request"]["url"] for one in browser.events if one["method"] == "Network.requestWillBeSent"]
            assert asked == [address], "it loads nothing, not even an icon"
            assert [one for one in browser.events if one["method"] == "Runtime.exceptionThrown"] == []
            browser.events.clear()
            browser.evaluate("document.getElementById('keep-day').click()")
            browser.wait_until_loaded()
            assert "It is kept until" in browser.evaluate("document.getElementById('result').textContent")
            assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE
            assert "curfew:keep-until" in account.aws.tags(gpu)
            browser.open(address)
            assert "This link was used" in browser.evaluate("document.body.textContent")
        finally:
            server.shutdown()
            server.server_close()
