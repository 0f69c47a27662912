"""A page in headless Chromium, over its DevTools protocol.

    with Browser() as browser:
        browser.open(path)
        assert browser.evaluate("document.title")

Chromium reads and writes the protocol on file descriptors 3 and 4 (`--remote-debugging-pipe`): JSON, each message ended by a zero byte
(<https://chromedevtools.github.io/devtools-protocol/>).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SECONDS_MAX = 600  # for all that a module of tests looks at


class Browser:
    def __enter__(self) -> Browser:
        assert CHROMIUM is not None, "there is no Chromium"
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        arguments = ["--headless", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}"]
        # Chromium's sandbox refuses to run as root.
        arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
        redirected = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["timeout", str(_SECONDS_MAX), "bash", "-c", redirected, CHROMIUM, *arguments],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb")
        self._unread, self._count, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._out.close()
        self._in.close()
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result; events that come before it are kept in `events`."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters, **({"sessionId": self._session} if self._session else {})}
        self._out.write(json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._count:
            self.events.append(answer)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def open(self, page: Path | str) -> None:
        """Opens a file, or an address."""
        self.events.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        self.wait_until_loaded()

    def wait_until_loaded(self) -> None:
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def show(self, width: int, scheme: str = "light", media: str = "screen", height: int = 900) -> None:
        """How the page is looked at from now on."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            some = os.read(self._in.fileno(), 1 << 16)
            assert some, "Chromium has ended"
            self._unread += some
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)
